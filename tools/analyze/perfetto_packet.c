/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "tools/analyze/perfetto_packet.h"

/* Protobuf ------------------------------------------------------------------------------------- */

/* How a field's value stands in the bytes: the low bits of its key. */
enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

/* The length of a message that is open is not known yet: it gets two bytes, of seven bits each, the
 * first marked as continued even when it need not be. Readers take that. */
#define LENGTH_BYTES 2u
#define LENGTH_MAX   0x3fffu

static_assert(PERFETTO_PACKET_BYTES <= LENGTH_MAX, "a packet's length fits into LENGTH_BYTES");

static int has_room(struct perfetto_packet *packet, size_t bytes)
{
	if (bytes <= sizeof(packet->bytes) - packet->used)
		return 1;
	packet->too_long = 1;
	return 0;
}

static size_t varint_bytes(uint64_t value)
{
	size_t bytes = 1;

	for (; value >= 0x80; value >>= 7)
		bytes++;
	return bytes;
}

static void put_varint(struct perfetto_packet *packet, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		packet->bytes[packet->used++] = (unsigned char)(value | 0x80);
	packet->bytes[packet->used++] = (unsigned char)value;
}

static uint64_t key_of(unsigned field, enum wire_type type)
{
	return (uint64_t)field << 3 | type;
}

static void put_number(struct perfetto_packet *packet, unsigned field, uint64_t value)
{
	uint64_t key = key_of(field, WIRE_VARINT);

	if (!has_room(packet, varint_bytes(key) + varint_bytes(value)))
		return;
	put_varint(packet, key);
	put_varint(packet, value);
}

static void put_fixed64(struct perfetto_packet *packet, unsigned field, uint64_t value)
{
	uint64_t key = key_of(field, WIRE_FIXED64);

	if (!has_room(packet, varint_bytes(key) + 8))
		return;
	put_varint(packet, key);
	for (unsigned i = 0; i < 8; i++)
		packet->bytes[packet->used++] = (unsigned char)(value >> (8 * i));
}

static void put_text(struct perfetto_packet *packet, unsigned field, const char *text)
{
	uint64_t key = key_of(field, WIRE_BYTES);
	size_t length = strlen(text);

	if (!has_room(packet, varint_bytes(key) + varint_bytes(length) + length))
		return;
	put_varint(packet, key);
	put_varint(packet, length);
	memcpy(&packet->bytes[packet->used], text, length);
	packet->used += length;
}

/* Opens a message. Returns where its content begins; 0: there is no room, and it is not opened. */
static size_t begin_message(struct perfetto_packet *packet, unsigned field)
{
	uint64_t key = key_of(field, WIRE_BYTES);

	if (!has_room(packet, varint_bytes(key) + LENGTH_BYTES))
		return 0;
	put_varint(packet, key);
	packet->used += LENGTH_BYTES;
	return packet->used;
}

static void end_message(struct perfetto_packet *packet, size_t content)
{
	size_t length = packet->used - content;

	packet->bytes[content - 2] = (unsigned char)(length | 0x80);
	packet->bytes[content - 1] = (unsigned char)(length >> 7);
}

/* Perfetto ------------------------------------------------------------------------------------- */

/* Fields, by message. */
enum {
	TRACE_PACKET = 1,

	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_TRACK_DESCRIPTOR = 60,
	PACKET_FIRST_ON_SEQUENCE = 87,

	INTERNED_NOTE_NAMES = 3,
	NOTE_NAME_ID = 1,
	NOTE_NAME = 2,

	TRACK_ID = 1,
	TRACK_NAME = 2,
	TRACK_PARENT = 5,
	TRACK_CHILD_ORDERING = 11,
	TRACK_ORDER = 12,

	EVENT_NOTES = 4,
	EVENT_TYPE = 9,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_ARROW_BEGINS = 47,
	EVENT_ARROW_ENDS = 48,

	NOTE_NAMED_BY = 1,
	NOTE_NUMBER = 3,
	NOTE_TEXT = 6
};

enum { EVENT_SLICE_BEGIN = 1, EVENT_SLICE_END = 2, EVENT_INSTANT = 3 };

/* What came before on the sequence is forgotten, and what this packet names is needed. */
enum { SEQUENCE_CLEARED = 1, SEQUENCE_NEEDS_NAMES = 2 };

/* Children stand in the order of TRACK_ORDER. */
#define CHILDREN_IN_ORDER 3u

/* All packets are of one sequence, the names of which they share. Any number will do. */
#define SEQUENCE_ID 1u

static void begin_packet(struct perfetto_packet *packet)
{
	packet->used = 0;
	packet->event = 0;
	packet->too_long = 0;
	packet->packet = begin_message(packet, TRACE_PACKET);
	put_number(packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
}

void perfetto_preamble(struct perfetto_packet *packet)
{
	static const char *const names[PERFETTO_NOTES_END] = {
		[PERFETTO_SEQ] = "seq",
		[PERFETTO_PASS] = "pass",
		[PERFETTO_PLACE] = "place in pass",
		[PERFETTO_BYTES] = "bytes",
		[PERFETTO_PATH] = "path",
		[PERFETTO_ALGORITHM] = "algorithm",
		[PERFETTO_BEHIND_NS] = "behind the others by ns",
		[PERFETTO_STATUS] = "status",
		[PERFETTO_RANK] = "rank",
		[PERFETTO_WHAT] = "what",
	};
	size_t interned, name;

	begin_packet(packet);
	put_number(packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED | SEQUENCE_NEEDS_NAMES);
	put_number(packet, PACKET_FIRST_ON_SEQUENCE, 1);
	interned = begin_message(packet, PACKET_INTERNED_DATA);
	for (unsigned i = 1; i < PERFETTO_NOTES_END; i++) {
		name = begin_message(packet, INTERNED_NOTE_NAMES);
		put_number(packet, NOTE_NAME_ID, i);
		put_text(packet, NOTE_NAME, names[i]);
		end_message(packet, name);
	}
	end_message(packet, interned);
}

void perfetto_track(struct perfetto_packet *packet, uint64_t track, uint64_t parent,
		    const char *name, unsigned order)
{
	size_t descriptor;

	begin_packet(packet);
	descriptor = begin_message(packet, PACKET_TRACK_DESCRIPTOR);
	put_number(packet, TRACK_ID, track);
	if (parent)
		put_number(packet, TRACK_PARENT, parent);
	put_text(packet, TRACK_NAME, name);
	put_number(packet, TRACK_CHILD_ORDERING, CHILDREN_IN_ORDER);
	put_number(packet, TRACK_ORDER, order);
	end_message(packet, descriptor);
}

static void begin_event(struct perfetto_packet *packet, unsigned type, uint64_t track,
			uint64_t time_ns)
{
	begin_packet(packet);
	put_number(packet, PACKET_TIMESTAMP, time_ns);
	put_number(packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_NAMES);
	packet->event = begin_message(packet, PACKET_TRACK_EVENT);
	put_number(packet, EVENT_TYPE, type);
	put_number(packet, EVENT_TRACK, track);
}

void perfetto_slice_begin(struct perfetto_packet *packet, uint64_t track, uint64_t time_ns,
			  const char *name)
{
	begin_event(packet, EVENT_SLICE_BEGIN, track, time_ns);
	put_text(packet, EVENT_NAME, name);
}

void perfetto_slice_end(struct perfetto_packet *packet, uint64_t track, uint64_t time_ns)
{
	begin_event(packet, EVENT_SLICE_END, track, time_ns);
}

void perfetto_instant(struct perfetto_packet *packet, uint64_t track, uint64_t time_ns,
		      const char *name)
{
	begin_event(packet, EVENT_INSTANT, track, time_ns);
	put_text(packet, EVENT_NAME, name);
}

void perfetto_arrow_begin(struct perfetto_packet *packet, uint64_t arrow)
{
	put_fixed64(packet, EVENT_ARROW_BEGINS, arrow);
}

void perfetto_arrow_end(struct perfetto_packet *packet, uint64_t arrow)
{
	put_fixed64(packet, EVENT_ARROW_ENDS, arrow);
}

void perfetto_number(struct perfetto_packet *packet, enum perfetto_note note, uint64_t value)
{
	size_t content = begin_message(packet, EVENT_NOTES);

	if (!content)
		return;
	put_number(packet, NOTE_NAMED_BY, note);
	put_number(packet, NOTE_NUMBER, value);
	end_message(packet, content);
}

void perfetto_text(struct perfetto_packet *packet, enum perfetto_note note, const char *value)
{
	size_t content = begin_message(packet, EVENT_NOTES);

	if (!content)
		return;
	put_number(packet, NOTE_NAMED_BY, note);
	put_text(packet, NOTE_TEXT, value);
	end_message(packet, content);
}

void perfetto_end(struct perfetto_packet *packet)
{
	if (packet->event)
		end_message(packet, packet->event);
	end_message(packet, packet->packet);
}
