/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing in a file is believed before its checksum is right, and no size beyond what the format
 * allows even then. What is wrong is noted as damage, and reading goes on at the next good head.
 */
#include "config.h"

#include "trace/call_log_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "runtime/belay.h"
#include "trace/call_columns.h"
#include "trace/call_log_format.h"
#include "trace/column_decoder.h"

#define DAMAGE_MAX 1024u
#define SCAN_BYTES 65536u
/* Columns of a later minor version may make a content larger than this version could. */
#define FUTURE_FACTOR 2u
#define SLACK_BYTES   65536u

/* A buffer that only grows. */
struct reader_buffer {
	unsigned char *bytes;
	size_t capacity;
};

struct call_log_reader {
	int fd;
	uint64_t first; /* offset of the log in the file */
	uint64_t offset;
	uint64_t size; /* of the file when it was opened; where another log begins, up to there */
	/* As it stands in the file. */
	unsigned char header[CALL_LOG_HEADER_BYTES_MAX];
	size_t header_bytes;
	uint32_t tick_shift;
	struct call_log_info info;
	struct reader_buffer frame;
	struct reader_buffer content;
	struct reader_buffer rows;
	ZSTD_DCtx *context;
	/* Numbers that the next blocks should begin with, indexed by kind. */
	uint64_t expected[CALL_LOG_BLOCK_EVENTS + 1];
	uint64_t lost_total; /* as in the newest head of calls */
	uint64_t lost;
	enum call_log_closed closed;
	struct call_log_damage *damage;
	size_t ndamage;
	unsigned char scan[SCAN_BYTES];
	/* The block at hand: rows of this kind may be left in it. */
	enum call_log_kind kind; /* CALL_LOG_END: none are */
	struct column_decoder decoder;
};

/* Reads until `size` bytes or the end. Returns the bytes read; an error counts as an end. */
static size_t read_at(const struct call_log_reader *reader, uint64_t offset, void *bytes,
		      size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(reader->fd, (char *)bytes + done, size - done,
				  (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static int reserve(struct reader_buffer *buffer, size_t bytes)
{
	unsigned char *grown;

	if (bytes <= buffer->capacity)
		return 0;
	grown = realloc(buffer->bytes, bytes);
	if (!grown)
		return BELAY_E_NO_MEMORY;
	/* Rows have gaps between them that no column fills. */
	memset(grown + buffer->capacity, 0, bytes - buffer->capacity);
	buffer->bytes = grown;
	buffer->capacity = bytes;
	return 0;
}

/* Damage ---------------------------------------------------------------------------------- */

static void add_records(struct call_log_damage *damage, uint64_t records)
{
	uint64_t sum = (damage->records_lost < 0 ? 0 : (uint64_t)damage->records_lost) + records;

	damage->records_lost = sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
}

/* Notes a stretch; records_lost -1: unknown so far. */
static void add_damage(struct call_log_reader *reader, uint64_t offset, uint64_t bytes,
		       int64_t records_lost, const char *reason)
{
	struct call_log_damage *damage;

	if (reader->ndamage == DAMAGE_MAX) {
		damage = &reader->damage[DAMAGE_MAX - 1];
		damage->bytes += bytes;
		if (records_lost > 0)
			add_records(damage, (uint64_t)records_lost);
		strcpy(damage->reason, "damaged in more places than can be listed");
		return;
	}
	damage = &reader->damage[reader->ndamage++];
	damage->offset = offset;
	damage->bytes = bytes;
	damage->records_lost = records_lost;
	strncpy(damage->reason, reason, sizeof(damage->reason) - 1);
}

/* A good block begins with record `index`: what lies before it, back to the record expected, is
 * missing. */
static void account_index(struct call_log_reader *reader, enum call_log_block_kind kind,
			  uint64_t index)
{
	uint64_t missing = index - reader->expected[kind];

	if (index <= reader->expected[kind])
		return;
	if (!reader->ndamage)
		add_damage(reader, reader->offset, 0, -1, "records are missing before this block");
	add_records(&reader->damage[reader->ndamage - 1], missing);
	reader->expected[kind] = index;
}

static void account_lost(struct call_log_reader *reader, uint64_t lost_total)
{
	if (lost_total <= reader->lost_total)
		return;
	reader->lost += lost_total - reader->lost_total;
	reader->lost_total = lost_total;
}

/* The end block knows all numbers: what no gap accounts for had no records. */
static void account_end(struct call_log_reader *reader, const struct call_log_head *head)
{
	account_index(reader, CALL_LOG_BLOCK_CALLS, head->first_index);
	account_index(reader, CALL_LOG_BLOCK_EVENTS, head->first_seq);
	account_lost(reader, head->lost_total);
	for (size_t i = 0; i < reader->ndamage; i++)
		if (reader->damage[i].records_lost < 0)
			reader->damage[i].records_lost = 0;
	reader->closed =
		head->flags & CALL_LOG_END_CONTINUED ? CALL_LOG_CONTINUED : CALL_LOG_CLOSED;
}

/* Finding heads --------------------------------------------------------------------------- */

static enum call_log_parse head_at(const struct call_log_reader *reader, uint64_t offset,
				   struct call_log_head *ret_head, size_t *ret_bytes)
{
	unsigned char bytes[CALL_LOG_HEAD_BYTES_MAX];
	size_t size = read_at(reader, offset, bytes, sizeof(bytes));

	return call_log_head_unpack(bytes, size, ret_head, ret_bytes);
}

enum header_kind { HEADER_NONE, HEADER_COPY, HEADER_FOREIGN };

/* A header where a block could stand: the second copy of the log's own, or that of another log,
 * which was appended to this one. */
static enum header_kind header_at(const struct call_log_reader *reader, uint64_t offset)
{
	unsigned char bytes[CALL_LOG_HEADER_BYTES_MAX];
	struct call_log_header header;
	size_t size = read_at(reader, offset, bytes, sizeof(bytes));
	size_t length;

	if (call_log_header_unpack(bytes, size, &header, &length) != CALL_LOG_PARSED)
		return HEADER_NONE;
	return length == reader->header_bytes && memcmp(bytes, reader->header, length) == 0
		       ? HEADER_COPY
		       : HEADER_FOREIGN;
}

/* The offset of the first good head or header at or after `from`, else the log's end. */
static uint64_t find_head(struct call_log_reader *reader, uint64_t from)
{
	unsigned char magic[4];
	struct call_log_head head;
	size_t head_bytes, size;

	call_log_put(magic, CALL_LOG_SKIPPABLE_MAGIC, sizeof(magic));
	while (from < reader->size) {
		unsigned char *found;

		size = read_at(reader, from, reader->scan, sizeof(reader->scan));
		found = size < sizeof(magic) ? NULL
					     : memmem(reader->scan, size, magic, sizeof(magic));
		if (!found && size < sizeof(reader->scan))
			break;
		if (!found) {
			from += size - sizeof(magic) + 1;
			continue;
		}
		from += (uint64_t)(found - reader->scan);
		if (head_at(reader, from, &head, &head_bytes) == CALL_LOG_PARSED ||
		    header_at(reader, from) != HEADER_NONE)
			return from;
		from++;
	}
	return reader->size;
}

/* Blocks ---------------------------------------------------------------------------------- */

enum block_result { BLOCK_GOOD, BLOCK_SKIPPED, BLOCK_BAD, BLOCK_NO_MEMORY };

static int sizes_possible(const struct call_log_reader *reader, const struct call_log_head *head)
{
	size_t bound = head->kind == CALL_LOG_BLOCK_CALLS
			       ? call_columns_bound(head->count, reader->info.nranks)
			       : event_columns_bound(head->count);

	return head->count >= 1 && head->count <= CALL_LOG_BLOCK_RECORDS &&
	       head->raw_bytes <= bound * FUTURE_FACTOR + SLACK_BYTES &&
	       head->frame_bytes <= ZSTD_compressBound(head->raw_bytes) + SLACK_BYTES;
}

static size_t row_bytes(const struct call_log_reader *reader, uint8_t kind)
{
	return kind == CALL_LOG_BLOCK_CALLS ? call_record_stride(reader->info.nranks)
					    : sizeof(struct event_record);
}

static int decompress(struct call_log_reader *reader, const struct call_log_head *head)
{
	const void *frame = reader->frame.bytes;

	if (ZSTD_getFrameContentSize(frame, head->frame_bytes) != head->raw_bytes ||
	    ZSTD_findFrameCompressedSize(frame, head->frame_bytes) != head->frame_bytes)
		return -1;
	return ZSTD_decompressDCtx(reader->context, reader->content.bytes, head->raw_bytes, frame,
				   head->frame_bytes) == head->raw_bytes
		       ? 0
		       : -1;
}

static int begin_rows(struct call_log_reader *reader, const struct call_log_head *head)
{
	if (head->kind == CALL_LOG_BLOCK_CALLS)
		return column_decoder_calls(&reader->decoder, reader->content.bytes,
					    head->raw_bytes, head->count, reader->info.nranks,
					    reader->tick_shift);
	return column_decoder_events(&reader->decoder, reader->content.bytes, head->raw_bytes,
				     head->count);
}

/* Reads the block whose frame stands at `offset`, up to its rows. Sets the reason when it is bad.
 */
static enum block_result read_block(struct call_log_reader *reader,
				    const struct call_log_head *head, uint64_t offset,
				    const char **ret_reason)
{
	*ret_reason = "a block's head holds impossible sizes";
	if (!sizes_possible(reader, head))
		return BLOCK_BAD;
	if (reserve(&reader->frame, head->frame_bytes) ||
	    reserve(&reader->content, head->raw_bytes) ||
	    reserve(&reader->rows, COLUMN_TILE_ROWS * row_bytes(reader, head->kind)))
		return BLOCK_NO_MEMORY;
	*ret_reason = "the file is cut inside a block";
	if (read_at(reader, offset, reader->frame.bytes, head->frame_bytes) != head->frame_bytes)
		return BLOCK_BAD;
	*ret_reason = "a block's checksum is wrong";
	if (decompress(reader, head))
		return BLOCK_BAD;
	*ret_reason = "a block's columns make no sense";
	return begin_rows(reader, head) ? BLOCK_BAD : BLOCK_GOOD;
}

static enum block_result take_block(struct call_log_reader *reader,
				    const struct call_log_head *head, size_t head_bytes)
{
	enum call_log_block_kind kind = head->kind;
	uint64_t start = reader->offset;
	enum block_result result;
	const char *reason;

	result = read_block(reader, head, start + head_bytes, &reason);
	if (result == BLOCK_NO_MEMORY)
		return result;
	account_index(reader, kind, head->first_index);
	if (kind == CALL_LOG_BLOCK_CALLS)
		account_lost(reader, head->lost_total);
	reader->expected[kind] = head->first_index + head->count;
	if (result == BLOCK_BAD) {
		reader->offset = find_head(reader, start + head_bytes);
		add_damage(reader, start, reader->offset - start, head->count, reason);
		return result;
	}
	reader->offset = start + head_bytes + head->frame_bytes;
	reader->kind = kind == CALL_LOG_BLOCK_CALLS ? CALL_LOG_CALLS : CALL_LOG_EVENTS;
	return BLOCK_GOOD;
}

/* Steps over what stands at the offset without being a good head. */
static void skip_unsound(struct call_log_reader *reader, enum call_log_parse parse)
{
	uint64_t start = reader->offset;

	switch (header_at(reader, start)) {
	case HEADER_COPY:
		reader->offset += reader->header_bytes;
		return;
	case HEADER_FOREIGN:
		add_damage(reader, start, reader->size - start, -1,
			   "another log begins in the middle of this one");
		reader->size = start;
		return;
	case HEADER_NONE:
		break;
	}
	reader->offset = find_head(reader, start + 1);
	add_damage(reader, start, reader->offset - start, -1,
		   parse == CALL_LOG_SHORT ? "the file is cut inside a block's head"
					   : "a block's head is damaged");
}

/* One step from head to head. */
static enum block_result step(struct call_log_reader *reader)
{
	struct call_log_head head;
	size_t head_bytes;
	enum call_log_parse parse = head_at(reader, reader->offset, &head, &head_bytes);

	if (parse != CALL_LOG_PARSED) {
		skip_unsound(reader, parse);
		return BLOCK_SKIPPED;
	}
	if (head.kind == CALL_LOG_BLOCK_CALLS || head.kind == CALL_LOG_BLOCK_EVENTS)
		return take_block(reader, &head, head_bytes);
	if (head.kind == CALL_LOG_BLOCK_END)
		account_end(reader, &head);
	/* A kind of a later minor version is stepped over by the length that it states. */
	reader->offset += head_bytes + head.frame_bytes;
	return BLOCK_SKIPPED;
}

/* The next rows of the block at hand. Returns 0 when there are none. */
static int next_rows(struct call_log_reader *reader, struct call_log_batch *ret_batch)
{
	size_t count = 0;

	if (reader->kind != CALL_LOG_END)
		count = column_decoder_next(&reader->decoder, reader->rows.bytes);
	if (!count) {
		reader->kind = CALL_LOG_END;
		return 0;
	}
	*ret_batch = (struct call_log_batch){.kind = reader->kind,
					     .count = count,
					     .stride = reader->decoder.stride,
					     .rows = reader->rows.bytes};
	return 1;
}

int call_log_reader_next(struct call_log_reader *reader, struct call_log_batch *ret_batch)
{
	while (!next_rows(reader, ret_batch)) {
		if (reader->offset >= reader->size) {
			*ret_batch = (struct call_log_batch){.kind = CALL_LOG_END};
			break;
		}
		if (step(reader) == BLOCK_NO_MEMORY)
			return BELAY_E_NO_MEMORY;
	}
	return 0;
}

/* Logs in one file ------------------------------------------------------------------------ */

/* A walk from head to head, without a look at what lies between. */
struct hops {
	uint64_t offset;
	/* Where the search begins if nothing sound stands there: the block that led there is cut or
	 * damaged, and a header may stand inside. */
	uint64_t behind;
	uint64_t expected[CALL_LOG_BLOCK_EVENTS + 1]; /* indices, by kind of block */
};

/* A head that goes on where its log stopped. By chance another log's may stand where one is
 * expected. */
static int head_goes_on(struct hops *hops, const struct call_log_head *head)
{
	if (head->kind != CALL_LOG_BLOCK_CALLS && head->kind != CALL_LOG_BLOCK_EVENTS)
		return 1;
	if (head->first_index < hops->expected[head->kind])
		return 0;
	hops->expected[head->kind] = head->first_index + head->count;
	return 1;
}

/* One step. Returns 1 where another log begins. */
static int hop(struct call_log_reader *reader, struct hops *hops)
{
	struct call_log_head head;
	size_t head_bytes;
	int inside = hops->offset < reader->size;

	if (inside && head_at(reader, hops->offset, &head, &head_bytes) == CALL_LOG_PARSED &&
	    head_goes_on(hops, &head)) {
		hops->behind = hops->offset + head_bytes;
		hops->offset = hops->behind + head.frame_bytes;
		return 0;
	}
	switch (inside ? header_at(reader, hops->offset) : HEADER_NONE) {
	case HEADER_FOREIGN:
		return 1;
	case HEADER_COPY:
		hops->offset += reader->header_bytes;
		hops->behind = hops->offset;
		memset(hops->expected, 0, sizeof(hops->expected));
		return 0;
	case HEADER_NONE:
		break;
	}
	hops->offset = find_head(reader, hops->behind);
	hops->behind = hops->offset + 1;
	return 0;
}

uint64_t call_log_reader_following(struct call_log_reader *reader)
{
	struct hops hops = {.offset = reader->first + reader->header_bytes};

	hops.behind = hops.offset;
	while (hops.offset != reader->size) {
		if (hop(reader, &hops))
			return hops.offset;
	}
	return 0;
}

void call_log_reader_limit(struct call_log_reader *reader, uint64_t end)
{
	if (end < reader->size)
		reader->size = end;
}

/* Opening --------------------------------------------------------------------------------- */

static int header_possible(const struct call_log_header *header)
{
	return header->nranks >= 1 && header->nranks <= BELAY_RANKS_MAX &&
	       header->rank < header->nranks && header->tick_ns >= 1 &&
	       header->tick_ns <= 1u << 20 && !(header->tick_ns & (header->tick_ns - 1)) &&
	       header->salvaged_by >= -1 && header->salvaged_by < BELAY_RANKS_MAX;
}

/* The id is printed and becomes part of names: nothing but hexadecimal digits gets through. */
static void take_comm_id(struct call_log_info *info, const struct call_log_header *header)
{
	size_t n = 0;

	while (n < sizeof(header->comm_id) &&
	       strchr("0123456789abcdefABCDEF", header->comm_id[n]) && header->comm_id[n]) {
		info->comm_id[n] = header->comm_id[n];
		n++;
	}
	info->comm_id[n] = '\0';
}

static void take_header(struct call_log_reader *reader, const struct call_log_header *header)
{
	take_comm_id(&reader->info, header);
	reader->info.rank = header->rank;
	reader->info.nranks = header->nranks;
	reader->info.version_major = header->version_major;
	reader->info.version_minor = header->version_minor;
	reader->info.file_number = header->file_number;
	reader->info.run_id = header->run_id;
	reader->info.salvaged_by = header->salvaged_by;
	reader->info.created_monotonic_ns = header->created_monotonic_ns;
	reader->info.created_realtime_ns = header->created_realtime_ns;
	reader->tick_shift = (uint32_t)__builtin_ctz(header->tick_ns);
	reader->expected[CALL_LOG_BLOCK_CALLS] = header->first_call;
	reader->expected[CALL_LOG_BLOCK_EVENTS] = header->first_event;
	reader->lost_total = header->calls_lost;
}

/* Finds the first sound copy of the header among the file's first bytes. */
static int read_header(struct call_log_reader *reader, const char **ret_reason)
{
	struct call_log_header header;
	size_t size = read_at(reader, reader->first, reader->scan, 2 * CALL_LOG_HEADER_BYTES_MAX);
	size_t bytes;

	*ret_reason = size ? "not a call log, or its header is damaged" : "an empty file";
	for (size_t at = 0; at < size; at++) {
		enum call_log_parse parse =
			call_log_header_unpack(reader->scan + at, size - at, &header, &bytes);

		if (parse == CALL_LOG_FUTURE) {
			*ret_reason = "a call log of a newer format than this program knows";
			return BELAY_E_ARGUMENT;
		}
		if (parse != CALL_LOG_PARSED || !header_possible(&header))
			continue;
		take_header(reader, &header);
		memcpy(reader->header, reader->scan + at, bytes);
		reader->header_bytes = bytes;
		reader->offset = reader->first + at + bytes;
		if (at)
			add_damage(reader, reader->first, at, 0,
				   "the first copy of the header is damaged");
		return 0;
	}
	return BELAY_E_ARGUMENT;
}

static int open_file(struct call_log_reader *reader, const char *path, const char **ret_reason)
{
	struct stat stat;

	*ret_reason = "cannot be opened";
	/* Non-blocking: a pipe without a writer must not hang. */
	reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (reader->fd < 0 || fstat(reader->fd, &stat))
		return BELAY_E_SYSTEM;
	*ret_reason = "not a regular file";
	if (!S_ISREG(stat.st_mode))
		return BELAY_E_ARGUMENT;
	reader->size = (uint64_t)stat.st_size;
	return 0;
}

int call_log_reader_open(const char *path, uint64_t offset, struct call_log_reader **ret_reader,
			 const char **ret_reason)
{
	struct call_log_reader *reader = calloc(1, sizeof(*reader));
	int status = BELAY_E_NO_MEMORY;
	int error = 0;

	*ret_reason = "out of memory";
	if (!reader)
		return status;
	reader->fd = -1;
	reader->first = offset;
	reader->damage = calloc(DAMAGE_MAX, sizeof(*reader->damage));
	reader->context = ZSTD_createDCtx();
	if (!reader->damage || !reader->context)
		goto out;
	status = open_file(reader, path, ret_reason);
	error = errno;
	if (!status)
		status = read_header(reader, ret_reason);
	if (status)
		goto out;

	*ret_reader = reader;
	reader = NULL; /* the caller's now */
out:
	call_log_reader_close(reader);
	errno = error; /* of a status BELAY_E_SYSTEM */
	return status;
}

void call_log_reader_close(struct call_log_reader *reader)
{
	if (!reader)
		return;
	if (reader->fd >= 0)
		(void)close(reader->fd); /* only read */
	ZSTD_freeDCtx(reader->context);
	free(reader->damage);
	free(reader->frame.bytes);
	free(reader->content.bytes);
	free(reader->rows.bytes);
	free(reader);
}

const struct call_log_info *call_log_reader_info(const struct call_log_reader *reader)
{
	return &reader->info;
}

void call_log_reader_progress(const struct call_log_reader *reader, uint64_t *ret_done,
			      uint64_t *ret_total)
{
	*ret_done = (reader->offset < reader->size ? reader->offset : reader->size) - reader->first;
	*ret_total = reader->size - reader->first;
}

size_t call_log_reader_damage(const struct call_log_reader *reader,
			      const struct call_log_damage **ret_list)
{
	*ret_list = reader->damage;
	return reader->ndamage;
}

uint64_t call_log_reader_records_lost(const struct call_log_reader *reader)
{
	return reader->lost;
}

int call_log_reader_closed(const struct call_log_reader *reader)
{
	return (int)reader->closed;
}
