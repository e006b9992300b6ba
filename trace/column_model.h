/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What encoding and decoding of columns have in common: the columns' numbers and encodings, and the
 * predictions. All arithmetic is modulo 2^64 and the same in both directions, so that a bad
 * prediction, whatever the record holds, costs bytes and never exactness. For call_columns.c and
 * column_decoder.c alone.
 */
#ifndef BELAY_TRACE_COLUMN_MODEL_H
#define BELAY_TRACE_COLUMN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "trace/call_columns.h"

/* Numbers of columns, logged: never renumber. */
enum column_id {
	COLUMN_SEQ = 1,
	COLUMN_PASS = 2,
	COLUMN_INDEX = 3,
	COLUMN_COUNT = 4,
	COLUMN_MISSING = 5,
	COLUMN_DIGEST = 6,
	COLUMN_RESCUE = 7,
	COLUMN_ENQUEUE = 8,
	COLUMN_STATUS = 9,
	COLUMN_FLAGS = 10,
	COLUMN_OP = 11,
	COLUMN_DTYPE = 12,
	COLUMN_PATH = 13,
	COLUMN_ALGORITHM = 14,
	COLUMN_RESCUE_PATH = 15,
	COLUMN_STAGED = 16,
	COLUMN_NONE = 17,
	COLUMN_ARRIVAL = 18, /* one for each rank */
	COLUMN_DURATION = 19,
	COLUMN_START = 20,
	COLUMN_EVENT_TIME = 33,
	COLUMN_EVENT_SEQ = 34,
	COLUMN_EVENT_PASS = 35,
	COLUMN_EVENT_MASK = 36,
	COLUMN_EVENT_DURATION = 37,
	COLUMN_EVENT_VALUE = 38,
	COLUMN_EVENT_PEER = 39,
	COLUMN_EVENT_STATUS = 40,
	COLUMN_EVENT_KIND = 41,
	COLUMN_EVENT_CAUSE = 42,
	COLUMN_EVENT_PATH = 43,
	COLUMN_EVENT_TEXT = 44,
	COLUMN_EVENT_LONG_TEXT = 45, /* from 1.1 on, where a text needs it */
	COLUMN_IDS = 46		     /* one more than the greatest */
};

/* How a column's numbers follow from its planes, logged: never renumber. */
enum column_encoding {
	ENCODING_DELTA = 0,   /* against the number before; before the first stands the base */
	ENCODING_COUNTER = 1, /* against the number before, plus 1 */
	ENCODING_MODEL = 2,   /* against a prediction of that column's own */
	ENCODING_STAGED = 3,  /* arrivals: equal to the time of staging */
	ENCODING_BYTES = 4    /* rows of `base` bytes, as they are */
};

/* A column that needs no model: where its number stands in a row. */
struct column_field {
	uint8_t id;
	uint8_t encoding;
	uint8_t offset;
	uint8_t bytes;
};

#define CALL_FIELD(id, encoding, name)                                                             \
	{                                                                                          \
		id, encoding, offsetof(struct call_record, name),                                  \
			sizeof(((struct call_record *)0)->name)                                    \
	}
#define EVENT_FIELD(id, name)                                                                      \
	{                                                                                          \
		id, ENCODING_DELTA, offsetof(struct event_record, name),                           \
			sizeof(((struct event_record *)0)->name)                                   \
	}

/* clang-format off */
static const struct column_field call_fields[] = {
	CALL_FIELD(COLUMN_SEQ, ENCODING_COUNTER, seq),
	CALL_FIELD(COLUMN_PASS, ENCODING_DELTA, pass),
	CALL_FIELD(COLUMN_INDEX, ENCODING_COUNTER, index),
	CALL_FIELD(COLUMN_COUNT, ENCODING_DELTA, count),
	CALL_FIELD(COLUMN_MISSING, ENCODING_DELTA, missing),
	CALL_FIELD(COLUMN_DIGEST, ENCODING_DELTA, digest),
	CALL_FIELD(COLUMN_RESCUE, ENCODING_DELTA, rescue_ns),
	CALL_FIELD(COLUMN_ENQUEUE, ENCODING_DELTA, enqueue_ns),
	CALL_FIELD(COLUMN_STATUS, ENCODING_DELTA, status),
	CALL_FIELD(COLUMN_FLAGS, ENCODING_DELTA, flags),
	CALL_FIELD(COLUMN_OP, ENCODING_DELTA, op),
	CALL_FIELD(COLUMN_DTYPE, ENCODING_DELTA, dtype),
	CALL_FIELD(COLUMN_PATH, ENCODING_DELTA, path),
	CALL_FIELD(COLUMN_ALGORITHM, ENCODING_DELTA, algorithm),
	CALL_FIELD(COLUMN_RESCUE_PATH, ENCODING_DELTA, rescue_path),
};

static const struct column_field event_fields[] = {
	EVENT_FIELD(COLUMN_EVENT_TIME, time_ns),
	EVENT_FIELD(COLUMN_EVENT_SEQ, seq),
	EVENT_FIELD(COLUMN_EVENT_PASS, pass),
	EVENT_FIELD(COLUMN_EVENT_MASK, mask),
	EVENT_FIELD(COLUMN_EVENT_DURATION, duration_ns),
	EVENT_FIELD(COLUMN_EVENT_VALUE, value),
	EVENT_FIELD(COLUMN_EVENT_PEER, peer),
	EVENT_FIELD(COLUMN_EVENT_STATUS, status),
	EVENT_FIELD(COLUMN_EVENT_KIND, kind),
	EVENT_FIELD(COLUMN_EVENT_CAUSE, cause),
	EVENT_FIELD(COLUMN_EVENT_PATH, path),
};
/* clang-format on */

/* Bytes a row of COLUMN_EVENT_TEXT: what a reader of 1.0 knows. */
#define SHORT_TEXT_BYTES 160u

#define FIELDS(table) (sizeof(table) / sizeof((table)[0]))

/* A running mean that one outlier hardly moves and that a lasting step moves fast. */
struct mean {
	uint64_t value;
	uint64_t limit; /* most that the next number may differ and still count in full */
};

#define MEAN_LIMIT     4096u
#define MEAN_LIMIT_MAX ((uint64_t)1 << 60) /* twice this still fits */
#define MEAN_SHIFT     3

static inline uint64_t shift_right_signed(uint64_t value, unsigned int shift)
{
	return (uint64_t)((int64_t)value >> shift);
}

static inline void mean_add(struct mean *mean, uint64_t number)
{
	uint64_t difference = number - mean->value;

	/* -limit <= difference <= limit, in one comparison. */
	if (__builtin_expect(difference + mean->limit <= 2 * mean->limit, 1)) {
		mean->limit = MEAN_LIMIT;
	} else {
		difference = (int64_t)difference < 0 ? 0 - mean->limit : mean->limit;
		if (mean->limit < MEAN_LIMIT_MAX)
			mean->limit *= 2;
	}
	mean->value += shift_right_signed(difference, MEAN_SHIFT);
}

/*
 * The mean of a row's surprises so far, counting this rank's own, which is none: where this rank
 * itself began late, all its peers seem early. 65536 / n stands in for a division.
 */
static inline uint64_t row_surprise(uint64_t sum, uint64_t seen)
{
	/* clang-format off */
	static const uint32_t inverse[COLUMN_RANKS_MAX + 2] = {
#define INVERSE(n) 65536 / (n)
#define INVERSES(n) INVERSE(n), INVERSE((n) + 1), INVERSE((n) + 2), INVERSE((n) + 3)
		0, INVERSES(1), INVERSES(5), INVERSES(9), INVERSES(13), INVERSES(17),
		INVERSES(21), INVERSES(25), INVERSES(29), INVERSES(33), INVERSES(37), INVERSES(41),
		INVERSES(45), INVERSES(49), INVERSES(53), INVERSES(57), INVERSES(61), INVERSE(65),
	};
	/* clang-format on */

	return shift_right_signed(sum * inverse[seen + 1], 16);
}

/* Which mean the pause before a call counts in: the two calls of a layer follow different work, and
 * the first of a pass follows the end of the pass before. */
static inline unsigned int pause_kind(uint32_t index)
{
	return index == 0 ? 2 : index & 1;
}

/* Without a branch, which would be guessed wrong half of the time. */
static inline uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t zigzag(uint64_t value)
{
	return value << 1 ^ shift_right_signed(value, 63);
}

static inline uint64_t unzigzag(uint64_t value)
{
	return value >> 1 ^ (0 - (value & 1));
}

#endif /* BELAY_TRACE_COLUMN_MODEL_H */
