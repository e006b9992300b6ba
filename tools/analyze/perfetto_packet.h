/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of a Perfetto trace, in memory: just what `export --to perfetto` needs of protobuf and of
 * Perfetto's TrackEvent.
 *
 * Why protobuf and not the JSON of Chrome, which Perfetto reads as well: times are whole
 * nanoseconds (JSON has microseconds in floating point: 2^53 ns of uptime are 104 days, then they
 * lose digits), a track is a rank and no thread of a process that has to be invented, an arrow may
 * begin at an instant, and a call takes half the bytes.
 *
 * A trace is a list of packets, each complete as it is written, so that a trace is streamed and a
 * part of one is one. Field numbers are those of perfetto_trace.proto, which never change. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_PERFETTO_PACKET_H
#define BELAY_TOOLS_ANALYZE_PERFETTO_PACKET_H

#include <stddef.h>
#include <stdint.h>

/* More than any packet that is made: 63 arrows and a text of EVENT_TEXT_BYTES take below 2 KB. */
#define PERFETTO_PACKET_BYTES 4096u

/* Values that stand beside an event. The numbers are the ids under which their names are given. */
enum perfetto_note {
	PERFETTO_SEQ = 1,
	PERFETTO_PASS,
	PERFETTO_PLACE,
	PERFETTO_BYTES,
	PERFETTO_PATH,
	PERFETTO_ALGORITHM,
	PERFETTO_BEHIND_NS,
	PERFETTO_STATUS,
	PERFETTO_RANK,
	PERFETTO_WHAT,
	PERFETTO_NOTES_END
};

/* A packet under construction. perfetto_end() makes it a part of a file. */
struct perfetto_packet {
	unsigned char bytes[PERFETTO_PACKET_BYTES];
	size_t used;
	size_t packet; /* where its content begins */
	size_t event;  /* where that of its event begins; 0: it has none */
	int too_long;  /* something did not fit and was left out */
};

/* The first packet of a trace: it names the notes. */
void perfetto_preamble(struct perfetto_packet *packet);

/* A track, below another unless parent is 0. Tracks with the same parent are shown by their
 * order. */
void perfetto_track(struct perfetto_packet *packet, uint64_t track, uint64_t parent,
		    const char *name, unsigned order);

/* Begin an event; slices of a track nest, and come in the order of time. */
void perfetto_slice_begin(struct perfetto_packet *packet, uint64_t track, uint64_t time_ns,
			  const char *name);
void perfetto_slice_end(struct perfetto_packet *packet, uint64_t track, uint64_t time_ns);
void perfetto_instant(struct perfetto_packet *packet, uint64_t track, uint64_t time_ns,
		      const char *name);

/* Add to the event that was begun. An arrow has an id of its own, one beginning and one end, which
 * does not come before it: neither in time nor, at equal times, in the file. */
void perfetto_arrow_begin(struct perfetto_packet *packet, uint64_t arrow);
void perfetto_arrow_end(struct perfetto_packet *packet, uint64_t arrow);
void perfetto_number(struct perfetto_packet *packet, enum perfetto_note note, uint64_t value);
void perfetto_text(struct perfetto_packet *packet, enum perfetto_note note, const char *value);

/* Completes the packet: `bytes` and `used` are what goes into the file. */
void perfetto_end(struct perfetto_packet *packet);

#endif /* BELAY_TOOLS_ANALYZE_PERFETTO_PACKET_H */
