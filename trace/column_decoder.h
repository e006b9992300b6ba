/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back from columns to records, a tile of rows at a time: a tile stays in the processor's
 * cache until it has been used. Pure; trusts nothing in the content.
 */
#ifndef BELAY_TRACE_COLUMN_DECODER_H
#define BELAY_TRACE_COLUMN_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "trace/column_model.h"

#define COLUMN_TILE_ROWS 128u

/* A column found in a content. All zero: absent, which means nothing but zeros. */
struct column {
	uint8_t found;
	uint8_t encoding;
	uint8_t width;
	uint32_t bytes;
	uint64_t base;
	const unsigned char *planes;
};

/* Its fields are the decoder's own; about 14 KB. */
struct column_decoder {
	struct column columns[COLUMN_IDS];
	struct column arrivals[COLUMN_RANKS_MAX];
	const struct column_field *fields;
	size_t nfields;
	size_t fixed_bytes; /* of a row, which the fields fill */
	size_t stride;
	uint32_t nranks; /* 0: events */
	uint32_t tick_shift;
	int all_seen; /* no arrival of the block is missing */
	size_t total; /* rows of the block, and so bytes of a plane */
	/* The tile. */
	size_t first;
	size_t count;
	char *rows;
	size_t prepared; /* so many rows there hold the constant fields already */
	/* What the predictions remember from tile to tile. */
	uint64_t before[COLUMN_FIELDS_MAX];
	struct mean staged;
	struct mean means[COLUMN_RANKS_MAX];
	struct mean duration;
	struct mean pauses[3];
	uint64_t none_before;
	uint64_t end;
	/* Of the tile's rows. */
	uint64_t values[COLUMN_TILE_ROWS];
	uint64_t surprise[COLUMN_TILE_ROWS]; /* sum of the arrivals against their means */
	uint64_t seen[COLUMN_TILE_ROWS];     /* number of arrivals in that sum */
	uint64_t last[COLUMN_TILE_ROWS];     /* the last arrival so far */
	uint64_t none[COLUMN_TILE_ROWS];     /* mask of the arrivals that were not seen */
};

/*
 * Begin with a content of `count` rows, 1 .. CALL_LOG_BLOCK_RECORDS, which must stay until the last
 * tile. Return 0, or -1 when it is not such content; nothing can go wrong after that.
 */
int column_decoder_calls(struct column_decoder *d, const unsigned char *content, size_t bytes,
			 size_t count, uint32_t nranks, uint32_t tick_shift);
int column_decoder_events(struct column_decoder *d, const unsigned char *content, size_t bytes,
			  size_t count);

/* Decodes the next tile into at most COLUMN_TILE_ROWS rows of call_record_stride(nranks), or of
 * sizeof(struct event_record), bytes. Returns how many rows; 0 after the last. Rows may come to the
 * same place again if what lies there is as the last call left it. */
size_t column_decoder_next(struct column_decoder *d, void *rows);

#endif /* BELAY_TRACE_COLUMN_DECODER_H */
