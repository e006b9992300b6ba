/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a block: its records turned into columns of small numbers, each column cut into
 * planes of bytes; column_decoder.h is the way back. docs/call-log-format.md, "Columns", says the
 * same in words. Pure, and exact for every record.
 */
#ifndef BELAY_TRACE_CALL_COLUMNS_H
#define BELAY_TRACE_CALL_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/call_log_format.h"
#include "trace/call_record.h"

#define COLUMN_HEADER_BYTES 16u
#define COLUMN_RANKS_MAX    64u
#define COLUMN_FIELDS_MAX   24u /* columns of one kind of block, without the arrivals */
#define COLUMN_CUTS_MAX	    ((COLUMN_FIELDS_MAX + COLUMN_RANKS_MAX) * 8u)

/* What encoding works in, for one thread; about 160 KB, not initialised by anyone. */
struct column_work {
	uint64_t values[CALL_LOG_BLOCK_RECORDS];
	uint64_t surprise[CALL_LOG_BLOCK_RECORDS]; /* sum of a row's arrivals against their means */
	uint64_t seen[CALL_LOG_BLOCK_RECORDS];	   /* number of arrivals in that sum */
	uint64_t last[CALL_LOG_BLOCK_RECORDS];	   /* a row's last arrival so far */
	uint64_t none[CALL_LOG_BLOCK_RECORDS];	   /* mask of a row's arrivals that were not seen */
};

/* Records to encode, in a ring or a plain array: record i is row (first + i) & mask. */
struct column_rows {
	const void *rows;
	size_t stride; /* bytes */
	size_t first;
	size_t mask;  /* SIZE_MAX for a plain array */
	size_t count; /* 1 .. CALL_LOG_BLOCK_RECORDS */
	uint32_t nranks;
	uint32_t tick_shift; /* times are kept in units of 1 << tick_shift ns */
};

/* Content under construction. The cuts are the ends of planes: each is best compressed by
 * itself. */
struct column_content {
	unsigned char *bytes; /* room for the bound */
	size_t used;
	size_t ncuts;
	uint32_t cuts[COLUMN_CUTS_MAX];
};

/* Upper bounds of a content's bytes. */
size_t call_columns_bound(size_t count, uint32_t nranks);
size_t event_columns_bound(size_t count);

void call_columns_encode(struct column_work *work, const struct column_rows *rows,
			 struct column_content *content);
void event_columns_encode(struct column_work *work, const struct column_rows *rows,
			  struct column_content *content);

#endif /* BELAY_TRACE_CALL_COLUMNS_H */
