/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands on disk: the header of a file and the head of a block, docs/call-log-format.md in C.
 * Pure: no file, no clock, no allocation. Everything is little-endian, packed and unpacked byte by
 * byte.
 */
#ifndef BELAY_TRACE_CALL_LOG_FORMAT_H
#define BELAY_TRACE_CALL_LOG_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define CALL_LOG_MAJOR 1u
#define CALL_LOG_MINOR 1u

/* Header and heads stand in zstd skippable frames, so that `zstd -t` accepts the file. */
#define CALL_LOG_SKIPPABLE_MAGIC 0x184d2a5bu
#define CALL_LOG_HEADER_BYTES	 128u /* of this version, with the skippable frame's 8 */
#define CALL_LOG_HEADER_COPIES	 2u
#define CALL_LOG_HEAD_BYTES	 72u
/* A later minor version may lengthen both, up to this. */
#define CALL_LOG_HEADER_BYTES_MAX 1024u
#define CALL_LOG_HEAD_BYTES_MAX	  256u

#define CALL_LOG_BLOCK_RECORDS	 4096u /* most records of a block; a reader refuses more */
#define CALL_LOG_FILE_NUMBER_MAX 0xffffffu

/* Kinds of block. Never renumber; readers skip what they do not know. */
enum call_log_block_kind {
	CALL_LOG_BLOCK_CALLS = 1,
	CALL_LOG_BLOCK_EVENTS = 2,
	CALL_LOG_BLOCK_END = 3 /* last of a file; no frame follows */
};

/* Flag of an END block: the records go on in the next file. */
#define CALL_LOG_END_CONTINUED 1u

struct call_log_header {
	uint16_t version_major;
	uint16_t version_minor;
	uint32_t rank;
	uint32_t nranks;
	uint32_t file_number;
	int32_t salvaged_by; /* rank; -1: written by its own rank */
	uint32_t tick_ns;    /* unit of the times in call blocks */
	uint64_t run_id;
	char comm_id[32]; /* hexadecimal digits, not terminated */
	uint64_t created_monotonic_ns;
	uint64_t created_realtime_ns;
	/* Where the file's records begin, as in the heads. */
	uint64_t first_call;
	uint64_t first_event;
	uint64_t calls_lost;
};

/*
 * Before each block. Records of a run are numbered by kind from 0, without those that the writer
 * lost: a jump of first_index is damage, a growing lost_total is loss by the writer, both exact.
 */
struct call_log_head {
	uint8_t kind;
	uint8_t flags;
	uint16_t count;
	uint16_t failures;    /* calls whose status is not 0 */
	uint32_t frame_bytes; /* of the zstd frame that follows */
	uint32_t raw_bytes;   /* of its content */
	uint64_t first_index;
	uint64_t lost_total; /* records of this kind lost before this block since the run began */
	uint64_t first_seq;  /* END: index after the last event */
	uint64_t first_ns;   /* times of the first and the last record; END: of closing, both */
	uint64_t last_ns;
};

enum call_log_parse {
	CALL_LOG_PARSED = 0,
	CALL_LOG_BAD = 1,   /* not one, or damaged */
	CALL_LOG_SHORT = 2, /* sound so far, but cut */
	CALL_LOG_FUTURE = 3 /* of a major version unknown here */
};

void call_log_header_pack(const struct call_log_header *header, unsigned char *out);
void call_log_head_pack(const struct call_log_head *head, unsigned char *out);

/* Parse what stands at `in`; `ret_bytes` is its length on disk. Outputs only when PARSED. */
enum call_log_parse call_log_header_unpack(const unsigned char *in, size_t size,
					   struct call_log_header *ret_header, size_t *ret_bytes);
enum call_log_parse call_log_head_unpack(const unsigned char *in, size_t size,
					 struct call_log_head *ret_head, size_t *ret_bytes);

/* The CRC-32C (Castagnoli) of a buffer. */
uint32_t call_log_crc32c(const unsigned char *data, size_t size);

/* Little-endian loads and stores of 1 to 8 bytes. */
static inline void call_log_put(unsigned char *out, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		out[i] = (unsigned char)(value >> (8 * i));
}

static inline uint64_t call_log_get(const unsigned char *in, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)in[i] << (8 * i);
	return value;
}

#endif /* BELAY_TRACE_CALL_LOG_FORMAT_H */
