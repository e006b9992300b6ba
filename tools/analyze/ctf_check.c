/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "tools/analyze/ctf_check.h"

#define METADATA_BYTES_MAX (64u << 20)
#define METADATA_MAGIC	   0x75d11d57u
/* Magic, uuid, checksum, content and packet size in bits, five single bytes. */
#define METADATA_HEAD 37u
#define STREAM_MAGIC  0xc1fc1fc1u
/* Of LTTng: magic, uuid, stream ids; times, sizes, counters and the number of the CPU. */
#define STREAM_HEAD 84u
#define AT_UUID	    4
#define SCAN_BYTES  65536u

static uint64_t number_at(const unsigned char *bytes, unsigned size, int big_endian)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)bytes[i] << 8 * (big_endian ? size - 1 - i : i);
	return value;
}

/* 1 if the magic number stands there; in which byte order. */
static int has_magic(const unsigned char *bytes, uint32_t magic, int *ret_big_endian)
{
	*ret_big_endian = number_at(bytes, 4, 1) == magic;
	return *ret_big_endian || number_at(bytes, 4, 0) == magic;
}

/* Bytes of a packet from its sizes in bits; 0 when they cannot be true. */
static uint64_t packet_bytes(uint64_t content_bits, uint64_t packet_bits, uint64_t head,
			     uint64_t left)
{
	if (packet_bits % 8 || packet_bits / 8 > left || content_bits > packet_bits ||
	    content_bits < head * 8)
		return 0;
	return packet_bits / 8;
}

void ctf_extent_fault(struct ctf_extent *extent, uint64_t offset, const char *reason)
{
	if (!extent->reason) {
		extent->reason = reason;
		extent->fault_at = offset;
	}
	extent->faults++;
}

/* Metadata ------------------------------------------------------------------------------------- */

/* Bytes of the metadata packet there, 0 if it is none of this trace. */
static uint64_t metadata_step(const unsigned char *bytes, size_t size, uint64_t offset)
{
	const unsigned char *head = bytes + offset;
	int big_endian;

	if (size - offset < METADATA_HEAD || !has_magic(head, METADATA_MAGIC, &big_endian) ||
	    memcmp(head + AT_UUID, bytes + AT_UUID, CTF_UUID_BYTES) != 0)
		return 0;
	return packet_bytes(number_at(head + 24, 4, big_endian),
			    number_at(head + 28, 4, big_endian), METADATA_HEAD, size - offset);
}

static void walk_metadata(const unsigned char *bytes, size_t size, struct ctf_extent *extent)
{
	uint64_t step;

	while ((step = metadata_step(bytes, size, extent->whole)) != 0)
		extent->whole += step;
	if (extent->whole < size)
		ctf_extent_fault(extent, extent->whole, "the metadata is cut inside a packet");
}

int ctf_check_metadata(const unsigned char *bytes, size_t size, struct ctf_extent *ret_extent,
		       unsigned char *ret_uuid)
{
	static const char text_head[] = "/* CTF 1.8 */";
	struct ctf_extent extent = {.bytes = size};
	int big_endian, has_uuid = 0;

	if (size == 0) {
		ctf_extent_fault(&extent, 0, "the metadata is empty");
	} else if (size >= sizeof(text_head) - 1 &&
		   memcmp(bytes, text_head, sizeof(text_head) - 1) == 0) {
		extent.whole = size; /* plain text has no packets to check */
	} else if (size < METADATA_HEAD || !has_magic(bytes, METADATA_MAGIC, &big_endian)) {
		ctf_extent_fault(&extent, 0, "the metadata is not that of CTF 1.8");
	} else if (bytes[35] != 1) {
		ctf_extent_fault(&extent, 0, "the metadata is of an unknown major version");
	} else {
		walk_metadata(bytes, size, &extent);
		memcpy(ret_uuid, bytes + AT_UUID, CTF_UUID_BYTES);
		has_uuid = 1;
	}
	*ret_extent = extent;
	return has_uuid;
}

int ctf_is_lttng(const unsigned char *metadata, size_t size)
{
	static const char words[] = "tracer_name = \"lttng";

	return memmem(metadata, size, words, sizeof(words) - 1) != NULL;
}

/* Streams -------------------------------------------------------------------------------------- */

/* What a packet's head says, as far as it matters here. */
struct packet_head {
	uint64_t bytes;
	uint64_t begin, end; /* times; end 0: not known, as in a buffer that was never closed */
};

struct walk {
	ctf_read_function *read;
	void *user;
	uint64_t size;
	const unsigned char *uuid;
	struct vector *packets;
	struct ctf_extent extent;
	struct packet_head last; /* of the newest packet; bytes 0: there is none before it */
	unsigned char scan[SCAN_BYTES];
};

/* Why no whole packet of the trace begins there; NULL: one does. */
static const char *look(const struct walk *walk, uint64_t offset, struct packet_head *ret_head)
{
	unsigned char head[STREAM_HEAD];
	uint64_t left = walk->size - offset;
	int big_endian;

	if (left < sizeof(head))
		return "a torn packet at the end of a stream";
	if (walk->read(walk->user, offset, head, sizeof(head)) != 0)
		return "a stream that cannot be read";
	if (!has_magic(head, STREAM_MAGIC, &big_endian))
		return "bytes in a stream that are no packet";
	if (walk->uuid && memcmp(head + AT_UUID, walk->uuid, CTF_UUID_BYTES) != 0)
		return "a packet of another trace";
	ret_head->begin = number_at(head + 32, 8, big_endian);
	ret_head->end = number_at(head + 40, 8, big_endian);
	ret_head->bytes = packet_bytes(number_at(head + 48, 8, big_endian),
				       number_at(head + 56, 8, big_endian), STREAM_HEAD, left);
	if (ret_head->bytes == 0 || (ret_head->end && ret_head->end < ret_head->begin))
		return "a torn packet in a stream";
	return NULL;
}

/* The first place of the magic number in either byte order; NULL: none. */
static unsigned char *find_magic(unsigned char *bytes, size_t size)
{
	static const unsigned char little[] = {0xc1, 0x1f, 0xfc, 0xc1};
	static const unsigned char big[] = {0xc1, 0xfc, 0x1f, 0xc1};
	unsigned char *found = memmem(bytes, size, little, sizeof(little));
	unsigned char *other = memmem(bytes, size, big, sizeof(big));

	return !found || (other && other < found) ? other : found;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The first place in from .. until where a whole packet begins; `until` when there is none. */
static uint64_t find_packet(struct walk *walk, uint64_t from, uint64_t until)
{
	struct packet_head head;

	while (from < until) {
		/* A magic number that begins in the last three bytes ends behind them. */
		size_t size = (size_t)least(least(until - from + 3, walk->size - from), SCAN_BYTES);
		unsigned char *found = NULL;

		if (size < 4)
			break;
		if (walk->read(walk->user, from, walk->scan, size) == 0)
			found = find_magic(walk->scan, size);
		if (!found) {
			from += size - 3;
			continue;
		}
		from += (uint64_t)(found - walk->scan);
		if (!look(walk, from, &head))
			return from;
		from++;
	}
	return until;
}

static int add_packet(struct walk *walk, uint64_t offset, const struct packet_head *head)
{
	struct ctf_packet *packet = vector_add(walk->packets, sizeof(*packet));

	if (!packet)
		return BELAY_E_NO_MEMORY;
	*packet = (struct ctf_packet){offset, head->bytes};
	walk->extent.whole += head->bytes;
	walk->last = *head;
	return 0;
}

/* Takes the newest packet out again. Returns its offset. */
static uint64_t drop_packet(struct walk *walk, const char *reason)
{
	const struct ctf_packet *packets = walk->packets->items;
	uint64_t offset = packets[--walk->packets->count].offset;

	walk->extent.whole -= walk->last.bytes;
	walk->last.bytes = 0; /* what stood before it has been compared with it */
	ctf_extent_fault(&walk->extent, offset, reason);
	return offset;
}

/* Notes what is wrong at `offset`. Returns where to go on. A packet that claims too much swallows
 * those behind it: they are looked for inside it first. */
static uint64_t skip_fault(struct walk *walk, uint64_t offset, const char *reason)
{
	if (walk->last.bytes) {
		uint64_t start = offset - walk->last.bytes;
		uint64_t inside = find_packet(walk, start + 1, offset);

		if (inside < offset) {
			(void)drop_packet(walk, "a torn packet in a stream");
			return inside;
		}
	}
	ctf_extent_fault(&walk->extent, offset, reason);
	walk->last.bytes = 0;
	return find_packet(walk, offset + 1, walk->size);
}

/* Takes a packet, unless its times contradict those of the one before: libbabeltrace2 would stop
 * there. */
static int take_packet(struct walk *walk, uint64_t offset, const struct packet_head *head)
{
	const struct packet_head *last = &walk->last;

	if (last->bytes && head->begin < last->begin) {
		ctf_extent_fault(&walk->extent, offset, "a packet of an earlier time");
		return 0;
	}
	if (last->bytes && head->begin < last->end)
		(void)drop_packet(walk, "a packet whose end is later than the next one's begin");
	return add_packet(walk, offset, head);
}

int ctf_check_stream(ctf_read_function *read, void *user, uint64_t size, const unsigned char *uuid,
		     struct vector *packets, struct ctf_extent *ret_extent)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	uint64_t offset = 0;
	int status = walk ? 0 : BELAY_E_NO_MEMORY;

	if (status != 0)
		return status;
	*walk = (struct walk){.read = read, .user = user, .size = size, .uuid = uuid};
	walk->packets = packets;
	walk->extent.bytes = size;
	if (size == 0)
		ctf_extent_fault(&walk->extent, 0, "an empty stream: its events are not on disk");
	while (status == 0 && offset < size) {
		struct packet_head head;
		const char *reason = look(walk, offset, &head);

		if (reason) {
			offset = skip_fault(walk, offset, reason);
			continue;
		}
		status = take_packet(walk, offset, &head);
		offset += head.bytes;
	}
	if (status == 0)
		*ret_extent = walk->extent;
	free(walk);
	return status;
}

/* Files ---------------------------------------------------------------------------------------- */

static int read_file(void *user, uint64_t offset, unsigned char *ret_bytes, size_t size)
{
	const int *fd = user;
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(*fd, ret_bytes + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

static int open_in(const char *folder, const char *name, struct stat *ret_about)
{
	char path[4096];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && fstat(fd, ret_about) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* What the metadata says of the streams. */
struct trace_facts {
	int is_lttng;
	int has_uuid;
	unsigned char uuid[CTF_UUID_BYTES];
};

/* Reads and checks the metadata. */
static int check_metadata_file(const char *folder, struct ctf_extent *ret_extent,
			       struct trace_facts *facts)
{
	struct stat about;
	unsigned char *bytes = NULL;
	int fd = open_in(folder, "metadata", &about);
	int status = 0;

	if (fd < 0)
		return BELAY_E_SYSTEM;
	if ((uint64_t)about.st_size > METADATA_BYTES_MAX) {
		*ret_extent = (struct ctf_extent){.bytes = (uint64_t)about.st_size};
		ctf_extent_fault(ret_extent, 0, "the metadata is too large to be true");
		goto out;
	}
	bytes = malloc((size_t)about.st_size + 1);
	if (!bytes)
		status = BELAY_E_NO_MEMORY;
	else if (read_file(&fd, 0, bytes, (size_t)about.st_size) != 0)
		status = BELAY_E_SYSTEM;
	if (status != 0)
		goto out;
	facts->has_uuid = ctf_check_metadata(bytes, (size_t)about.st_size, ret_extent, facts->uuid);
	facts->is_lttng = ctf_is_lttng(bytes, (size_t)about.st_size);
out:
	free(bytes);
	close(fd);
	return status;
}

static int check_stream(int fd, const struct stat *about, const struct trace_facts *facts,
			struct ctf_stream *stream)
{
	uint64_t size = (uint64_t)about->st_size;

	if (facts->is_lttng || size == 0)
		return ctf_check_stream(read_file, &fd, size, facts->has_uuid ? facts->uuid : NULL,
					&stream->packets, &stream->extent);
	stream->extent = (struct ctf_extent){.bytes = size, .whole = size};
	return 0;
}

static int check_stream_file(const char *folder, const char *name, const struct trace_facts *facts,
			     struct arena *arena, struct ctf_check *check)
{
	struct ctf_stream *stream;
	struct stat about;
	int fd = open_in(folder, name, &about);
	int status = BELAY_E_NO_MEMORY;

	if (fd >= 0 && !S_ISREG(about.st_mode)) {
		close(fd);
		return 0; /* `index` and the like */
	}
	stream = vector_add(&check->streams, sizeof(*stream));
	if (stream)
		stream->name = arena_text(arena, name);
	if (stream && stream->name) {
		status = 0;
		if (fd >= 0) {
			status = check_stream(fd, &about, facts, stream);
		} else {
			stream->extent.bytes = 1;
			ctf_extent_fault(&stream->extent, 0, "a stream that cannot be read");
		}
		check->bytes += stream->extent.whole;
	}
	if (fd >= 0)
		close(fd);
	return status;
}

static int is_stream_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, "metadata") != 0;
}

int ctf_check_folder(const char *folder, struct arena *arena, struct ctf_check *ret_check)
{
	struct ctf_check check = {0};
	struct dirent **entries = NULL;
	struct trace_facts facts = {0};
	int n = 0;
	int status = check_metadata_file(folder, &check.metadata, &facts);

	if (status == 0 && check.metadata.whole) {
		n = scandir(folder, &entries, is_stream_name, alphasort);
		if (n < 0)
			status = errno == ENOMEM ? BELAY_E_NO_MEMORY : BELAY_E_SYSTEM;
	}
	for (int i = 0; i < n; i++) {
		if (status == 0)
			status = check_stream_file(folder, entries[i]->d_name, &facts, arena,
						   &check);
		free(entries[i]);
	}
	free(entries);
	if (status == 0)
		*ret_check = check;
	else
		ctf_check_free(&check);
	return status;
}

void ctf_check_free(struct ctf_check *check)
{
	struct ctf_stream *streams = check->streams.items;

	for (size_t i = 0; i < check->streams.count; i++)
		vector_free(&streams[i].packets);
	vector_free(&check->streams);
}
