/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns. All arithmetic is modulo 2^64 and the same in both directions, so that a bad prediction,
 * whatever the record holds, costs bytes and never exactness.
 */
#include "trace/call_columns.h"

#include <string.h>

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
	COLUMN_IDS = 45 /* one more than the greatest */
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

static inline const void *row_at(const struct column_rows *rows, size_t i)
{
	return (const char *)rows->rows + ((rows->first + i) & rows->mask) * rows->stride;
}

static inline const struct call_record *call_at(const struct column_rows *rows, size_t i)
{
	return row_at(rows, i);
}

size_t call_columns_bound(size_t count, uint32_t nranks)
{
	return (COLUMN_FIELDS_MAX + nranks) * (COLUMN_HEADER_BYTES + 8 * count);
}

size_t event_columns_bound(size_t count)
{
	return (COLUMN_FIELDS_MAX + 1) * COLUMN_HEADER_BYTES +
	       count * (8 * COLUMN_FIELDS_MAX + EVENT_TEXT_BYTES);
}

/* Encoding ------------------------------------------------------------------------------- */

static void put_header(struct column_content *content, uint8_t id, uint8_t peer, uint8_t encoding,
		       uint8_t width, size_t bytes, uint64_t base)
{
	unsigned char *out = content->bytes + content->used;

	out[0] = id;
	out[1] = peer;
	out[2] = encoding;
	out[3] = width;
	call_log_put(out + 4, bytes, 4);
	call_log_put(out + 8, base, 8);
	content->used += COLUMN_HEADER_BYTES;
}

static void put_plane(struct column_content *content, const uint64_t *values, size_t count,
		      unsigned int plane)
{
	unsigned char *out = content->bytes + content->used;

	for (size_t i = 0; i < count; i++)
		out[i] = (unsigned char)(values[i] >> (8 * plane));
	content->used += count;
	content->cuts[content->ncuts++] = (uint32_t)content->used;
}

/* Adds the column of work->values, which become zigzag numbers. A column of nothing but zeros is
 * left out. */
static void put_column(struct column_work *work, struct column_content *content, size_t count,
		       uint8_t id, uint8_t peer, uint8_t encoding, uint64_t base)
{
	uint64_t *values = work->values;
	uint64_t any = 0;
	uint8_t width = 0;

	for (size_t i = 0; i < count; i++) {
		values[i] = zigzag(values[i]);
		any |= values[i];
	}
	while (width < 8 && any >> (8 * width))
		width++;
	if (!width && !base)
		return;
	put_header(content, id, peer, encoding, width, width * count, base);
	for (unsigned int plane = 0; plane < width; plane++)
		put_plane(content, values, count, plane);
}

/* One field of all rows, widened without its sign: what is left out comes back by truncation. */
static void load_field(uint64_t *values, const struct column_rows *rows,
		       const struct column_field *field)
{
#define LOAD(type)                                                                                 \
	for (size_t i = 0; i < rows->count; i++) {                                                 \
		type value;                                                                        \
		memcpy(&value, (const char *)row_at(rows, i) + field->offset, sizeof(value));      \
		values[i] = (uint64_t)(int64_t)value;                                              \
	}
	switch (field->bytes) {
	case 1:
		LOAD(uint8_t);
		break;
	case 2:
		LOAD(int16_t);
		break;
	case 4:
		LOAD(int32_t);
		break;
	default:
		LOAD(uint64_t);
		break;
	}
#undef LOAD
}

static void encode_field(struct column_work *work, const struct column_rows *rows,
			 const struct column_field *field, struct column_content *content)
{
	uint64_t step = field->encoding == ENCODING_COUNTER;
	uint64_t *values = work->values;
	uint64_t base;

	load_field(values, rows, field);
	base = values[0] - step;
	for (size_t i = rows->count - 1; i > 0; i--)
		values[i] -= values[i - 1] + step;
	values[0] = 0;
	put_column(work, content, rows->count, field->id, 0, field->encoding, base);
}

/* Which bytes of the rows' fixed part ever differ from the first row's. Most fields never do. */
static void find_changes(const struct column_rows *rows, uint64_t *changes)
{
	uint64_t first[sizeof(struct call_record) / 8];
	uint64_t row[sizeof(struct call_record) / 8];

	memcpy(first, row_at(rows, 0), sizeof(first));
	memset(changes, 0, sizeof(first));
	for (size_t i = 1; i < rows->count; i++) {
		memcpy(row, row_at(rows, i), sizeof(row));
		for (size_t word = 0; word < sizeof(row) / 8; word++)
			changes[word] |= row[word] ^ first[word];
	}
}

static int field_changes(const unsigned char *changes, const struct column_field *field)
{
	static const unsigned char none[8];

	return memcmp(changes + field->offset, none, field->bytes) != 0;
}

static void encode_call_fields(struct column_work *work, const struct column_rows *rows,
			       struct column_content *content)
{
	uint64_t changes[sizeof(struct call_record) / 8];

	find_changes(rows, changes);
	for (size_t f = 0; f < FIELDS(call_fields); f++) {
		struct column_rows one = *rows;

		/* One row says it for all. */
		if (call_fields[f].encoding == ENCODING_DELTA &&
		    !field_changes((const unsigned char *)changes, &call_fields[f]))
			one.count = 1;
		encode_field(work, &one, &call_fields[f], content);
	}
}

static void encode_staged(struct column_work *work, const struct column_rows *rows,
			  struct column_content *content)
{
	struct mean mean = {call_at(rows, 0)->staged_ns >> rows->tick_shift, MEAN_LIMIT};
	uint64_t base = mean.value;

	for (size_t i = 0; i < rows->count; i++) {
		uint64_t staged = call_at(rows, i)->staged_ns >> rows->tick_shift;

		work->values[i] = staged - mean.value;
		mean_add(&mean, staged);
	}
	put_column(work, content, rows->count, COLUMN_STAGED, 0, ENCODING_MODEL, base);
}

/* The rows' masks of arrivals not seen; also the start of the rows' sums. */
static void encode_none(struct column_work *work, const struct column_rows *rows,
			struct column_content *content)
{
	uint64_t before = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct call_record *record = call_at(rows, i);
		uint64_t none = 0;

		for (uint32_t peer = 0; peer < rows->nranks; peer++)
			none |= (uint64_t)(record->arrival_ns[peer] == CALL_ARRIVAL_NONE) << peer;
		work->none[i] = none;
		work->values[i] = none - before;
		before = none;
		work->surprise[i] = 0;
		work->seen[i] = 0;
		work->last[i] = 0;
	}
	put_column(work, content, rows->count, COLUMN_NONE, 0, ENCODING_DELTA, 0);
}

/* A rank's own arrival is its staging; such a column is said in one header. */
static int arrivals_are_staged(struct column_work *work, const struct column_rows *rows,
			       uint32_t peer)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct call_record *record = call_at(rows, i);

		if (record->arrival_ns[peer] != record->staged_ns)
			return 0;
	}
	for (size_t i = 0; i < rows->count; i++) {
		uint64_t staged = call_at(rows, i)->staged_ns >> rows->tick_shift;

		work->last[i] = later(work->last[i], staged);
	}
	return 1;
}

static void encode_arrival(struct column_work *work, const struct column_rows *rows, uint32_t peer,
			   struct column_content *content)
{
	uint64_t first = call_at(rows, 0)->arrival_ns[peer];
	uint64_t base = first == CALL_ARRIVAL_NONE ? 0 : first >> rows->tick_shift;
	struct mean mean = {base, MEAN_LIMIT};

	for (size_t i = 0; i < rows->count; i++) {
		uint64_t arrival = call_at(rows, i)->arrival_ns[peer] >> rows->tick_shift;
		uint64_t surprise = arrival - mean.value;

		if (work->none[i] >> peer & 1) {
			work->values[i] = 0;
			continue;
		}
		work->values[i] = surprise - row_surprise(work->surprise[i], work->seen[i]);
		work->surprise[i] += surprise;
		work->seen[i]++;
		work->last[i] = later(work->last[i], arrival);
		mean_add(&mean, arrival);
	}
	put_column(work, content, rows->count, COLUMN_ARRIVAL, (uint8_t)peer, ENCODING_MODEL, base);
}

static void encode_arrivals(struct column_work *work, const struct column_rows *rows,
			    struct column_content *content)
{
	encode_none(work, rows, content);
	for (uint32_t peer = 0; peer < rows->nranks; peer++) {
		if (arrivals_are_staged(work, rows, peer))
			put_header(content, COLUMN_ARRIVAL, (uint8_t)peer, ENCODING_STAGED, 0, 0,
				   0);
		else
			encode_arrival(work, rows, peer, content);
	}
}

static void encode_duration(struct column_work *work, const struct column_rows *rows,
			    struct column_content *content)
{
	uint64_t base = (call_at(rows, 0)->duration_ns >> rows->tick_shift) - work->last[0];
	struct mean mean = {base, MEAN_LIMIT};

	for (size_t i = 0; i < rows->count; i++) {
		uint64_t rest = (call_at(rows, i)->duration_ns >> rows->tick_shift) - work->last[i];

		work->values[i] = rest - mean.value;
		mean_add(&mean, rest);
	}
	put_column(work, content, rows->count, COLUMN_DURATION, 0, ENCODING_MODEL, base);
}

static void encode_start(struct column_work *work, const struct column_rows *rows,
			 struct column_content *content)
{
	struct mean means[3] = {{0, MEAN_LIMIT}, {0, MEAN_LIMIT}, {0, MEAN_LIMIT}};
	uint64_t base = call_at(rows, 0)->start_ns >> rows->tick_shift;
	uint64_t end = base;

	for (size_t i = 0; i < rows->count; i++) {
		const struct call_record *record = call_at(rows, i);
		struct mean *mean = &means[pause_kind(record->index)];
		uint64_t start = record->start_ns >> rows->tick_shift;
		uint64_t pause = start - end;

		work->values[i] = pause - mean->value;
		mean_add(mean, pause);
		end = start + (record->duration_ns >> rows->tick_shift);
	}
	put_column(work, content, rows->count, COLUMN_START, 0, ENCODING_MODEL, base);
}

void call_columns_encode(struct column_work *work, const struct column_rows *rows,
			 struct column_content *content)
{
	content->used = 0;
	content->ncuts = 0;
	encode_call_fields(work, rows, content);
	encode_staged(work, rows, content);
	encode_arrivals(work, rows, content);
	encode_duration(work, rows, content);
	encode_start(work, rows, content);
}

void event_columns_encode(struct column_work *work, const struct column_rows *rows,
			  struct column_content *content)
{
	content->used = 0;
	content->ncuts = 0;
	for (size_t f = 0; f < FIELDS(event_fields); f++)
		encode_field(work, rows, &event_fields[f], content);
	put_header(content, COLUMN_EVENT_TEXT, 0, ENCODING_BYTES, 0, rows->count * EVENT_TEXT_BYTES,
		   EVENT_TEXT_BYTES);
	for (size_t i = 0; i < rows->count; i++) {
		const struct event_record *event = row_at(rows, i);

		memcpy(content->bytes + content->used, event->text, EVENT_TEXT_BYTES);
		content->used += EVENT_TEXT_BYTES;
	}
	content->cuts[content->ncuts++] = (uint32_t)content->used;
}

/* Decoding ------------------------------------------------------------------------------- */

/* A column found in a content. All zero: absent, which means nothing but zeros. */
struct column {
	uint8_t found;
	uint8_t encoding;
	uint8_t width;
	uint32_t bytes;
	uint64_t base;
	const unsigned char *planes;
};

struct column_directory {
	struct column fields[COLUMN_IDS];
	struct column arrivals[COLUMN_RANKS_MAX];
};

/* Where a column of the content belongs; NULL for one that this version does not know. */
static struct column *column_place(struct column_directory *directory, const unsigned char *header)
{
	uint8_t id = header[0];

	if (id == COLUMN_ARRIVAL)
		return header[1] < COLUMN_RANKS_MAX ? &directory->arrivals[header[1]] : NULL;
	if ((id >= COLUMN_SEQ && id <= COLUMN_START) ||
	    (id >= COLUMN_EVENT_TIME && id <= COLUMN_EVENT_TEXT))
		return &directory->fields[id];
	return NULL;
}

static int take_column(struct column *column, const unsigned char *header, size_t count)
{
	column->encoding = header[2];
	column->width = header[3];
	column->bytes = (uint32_t)call_log_get(header + 4, 4);
	column->base = call_log_get(header + 8, 8);
	column->planes = header + COLUMN_HEADER_BYTES;
	if (column->found++ || column->width > 8)
		return -1;
	if (column->encoding == ENCODING_BYTES)
		return 0;
	return column->bytes == column->width * count ? 0 : -1;
}

static int read_directory(struct column_directory *directory, const unsigned char *content,
			  size_t bytes, size_t count)
{
	memset(directory, 0, sizeof(*directory));
	while (bytes) {
		struct column *column;
		size_t length;

		if (bytes < COLUMN_HEADER_BYTES)
			return -1;
		length = COLUMN_HEADER_BYTES + (size_t)call_log_get(content + 4, 4);
		if (bytes < length)
			return -1;
		column = column_place(directory, content);
		if (column && take_column(column, content, count))
			return -1;
		content += length;
		bytes -= length;
	}
	return 0;
}

/*
 * Decoding goes through the rows in tiles, all columns of a tile at a time, so that a tile's rows
 * stay in the cache. What a column's prediction remembers goes from tile to tile.
 */
#define TILE_ROWS 512u

struct decoder {
	struct column_work *work;
	const struct column_directory *directory;
	const struct column_field *fields;
	size_t nfields;
	size_t fixed_bytes; /* of a row, which the fields fill */
	size_t stride;
	uint32_t nranks;
	uint32_t tick_shift;
	size_t total; /* rows of the block, and so bytes of a plane */
	/* The tile. */
	size_t first;
	size_t count;
	char *rows;
	/* The predictions. */
	uint64_t before[COLUMN_FIELDS_MAX];
	struct mean staged;
	struct mean arrivals[COLUMN_RANKS_MAX];
	struct mean duration;
	struct mean pauses[3];
	uint64_t none;
	uint64_t end;
};

static inline struct call_record *decoded_call(const struct decoder *d, size_t i)
{
	return (struct call_record *)(d->rows + i * d->stride);
}

/* The tile's numbers of a column, as they were before their zigzag, into work->values. */
static void column_numbers(const struct decoder *d, const struct column *column)
{
	uint64_t *values = d->work->values;
	const unsigned char *plane;

	if (!column->width) {
		memset(values, 0, d->count * sizeof(*values));
		return;
	}
	plane = column->planes + d->first;
	for (size_t i = 0; i < d->count; i++)
		values[i] = plane[i];
	for (unsigned int number = 1; number < column->width; number++) {
		plane += d->total;
		for (size_t i = 0; i < d->count; i++)
			values[i] |= (uint64_t)plane[i] << (8 * number);
	}
	for (size_t i = 0; i < d->count; i++)
		values[i] = unzigzag(values[i]);
}

static void store_field(const struct decoder *d, const struct column_field *field, size_t count)
{
	const uint64_t *values = d->work->values;
	char *out = d->rows + field->offset;

#define STORE(type)                                                                                \
	for (size_t i = 0; i < count; i++, out += d->stride) {                                     \
		type value = (type)values[i];                                                      \
		memcpy(out, &value, sizeof(value));                                                \
	}
	switch (field->bytes) {
	case 1:
		STORE(uint8_t);
		break;
	case 2:
		STORE(uint16_t);
		break;
	case 4:
		STORE(uint32_t);
		break;
	default:
		STORE(uint64_t);
		break;
	}
#undef STORE
}

static void decode_field(struct decoder *d, size_t f)
{
	const struct column_field *field = &d->fields[f];
	uint64_t step = field->encoding == ENCODING_COUNTER;
	uint64_t *values = d->work->values;

	column_numbers(d, &d->directory->fields[field->id]);
	for (size_t i = 0; i < d->count; i++) {
		d->before[f] += values[i] + step;
		values[i] = d->before[f];
	}
	store_field(d, field, d->count);
}

/* Whether a field is the same in all rows. */
static int is_constant(const struct decoder *d, size_t f)
{
	return !d->directory->fields[d->fields[f].id].width &&
	       d->fields[f].encoding == ENCODING_DELTA;
}

/* Fields that never change are set once, in the tile's first row, and copied from there. */
static void decode_fields(struct decoder *d)
{
	memset(d->rows, 0, d->fixed_bytes);
	for (size_t f = 0; f < d->nfields; f++) {
		if (is_constant(d, f)) {
			d->work->values[0] = d->before[f];
			store_field(d, &d->fields[f], 1);
		}
	}
	for (size_t i = 1; i < d->count; i++)
		memcpy(d->rows + i * d->stride, d->rows, d->fixed_bytes);
	for (size_t f = 0; f < d->nfields; f++)
		if (!is_constant(d, f))
			decode_field(d, f);
}

static void decode_staged(struct decoder *d)
{
	column_numbers(d, &d->directory->fields[COLUMN_STAGED]);
	for (size_t i = 0; i < d->count; i++) {
		uint64_t staged = d->work->values[i] + d->staged.value;

		decoded_call(d, i)->staged_ns = (uint32_t)(staged << d->tick_shift);
		mean_add(&d->staged, staged);
	}
}

static void decode_none(struct decoder *d)
{
	struct column_work *work = d->work;

	column_numbers(d, &d->directory->fields[COLUMN_NONE]);
	for (size_t i = 0; i < d->count; i++) {
		d->none += work->values[i];
		work->none[i] = d->none;
		work->surprise[i] = 0;
		work->seen[i] = 0;
		work->last[i] = 0;
	}
}

static void decode_staged_arrival(struct decoder *d, uint32_t peer)
{
	for (size_t i = 0; i < d->count; i++) {
		struct call_record *record = decoded_call(d, i);
		uint64_t staged = record->staged_ns >> d->tick_shift;

		record->arrival_ns[peer] = record->staged_ns;
		d->work->last[i] = later(d->work->last[i], staged);
	}
}

static void decode_arrival(struct decoder *d, uint32_t peer)
{
	struct column_work *work = d->work;
	struct mean mean = d->arrivals[peer];

	column_numbers(d, &d->directory->arrivals[peer]);
	for (size_t i = 0; i < d->count; i++) {
		uint64_t surprise, arrival;

		if (__builtin_expect(work->none[i] >> peer & 1, 0)) {
			decoded_call(d, i)->arrival_ns[peer] = CALL_ARRIVAL_NONE;
			continue;
		}
		surprise = work->values[i] + row_surprise(work->surprise[i], work->seen[i]);
		arrival = surprise + mean.value;
		work->surprise[i] += surprise;
		work->seen[i]++;
		work->last[i] = later(work->last[i], arrival);
		mean_add(&mean, arrival);
		decoded_call(d, i)->arrival_ns[peer] = arrival << d->tick_shift;
	}
	d->arrivals[peer] = mean;
}

static void decode_arrivals(struct decoder *d)
{
	decode_none(d);
	for (uint32_t peer = 0; peer < d->nranks; peer++) {
		if (d->directory->arrivals[peer].encoding == ENCODING_STAGED)
			decode_staged_arrival(d, peer);
		else
			decode_arrival(d, peer);
	}
}

static void decode_duration(struct decoder *d)
{
	column_numbers(d, &d->directory->fields[COLUMN_DURATION]);
	for (size_t i = 0; i < d->count; i++) {
		uint64_t rest = d->work->values[i] + d->duration.value;

		decoded_call(d, i)->duration_ns = (rest + d->work->last[i]) << d->tick_shift;
		mean_add(&d->duration, rest);
	}
}

static void decode_start(struct decoder *d)
{
	column_numbers(d, &d->directory->fields[COLUMN_START]);
	for (size_t i = 0; i < d->count; i++) {
		struct call_record *record = decoded_call(d, i);
		struct mean *mean = &d->pauses[pause_kind(record->index)];
		uint64_t pause = d->work->values[i] + mean->value;

		record->start_ns = (d->end + pause) << d->tick_shift;
		mean_add(mean, pause);
		d->end += pause + (record->duration_ns >> d->tick_shift);
	}
}

/* The encodings that the columns of a kind of block must have, where they are there. */
static int encodings_known(const struct decoder *d)
{
	static const uint8_t models[] = {COLUMN_STAGED, COLUMN_DURATION, COLUMN_START};
	const struct column *columns = d->directory->fields;

	for (size_t f = 0; f < d->nfields; f++)
		if (columns[d->fields[f].id].found &&
		    columns[d->fields[f].id].encoding != d->fields[f].encoding)
			return 0;
	for (size_t m = 0; m < sizeof(models); m++)
		if (columns[models[m]].found && columns[models[m]].encoding != ENCODING_MODEL)
			return 0;
	for (uint32_t peer = 0; peer < d->nranks; peer++) {
		const struct column *arrival = &d->directory->arrivals[peer];

		if (arrival->found && arrival->encoding != ENCODING_MODEL &&
		    arrival->encoding != ENCODING_STAGED)
			return 0;
	}
	return !columns[COLUMN_NONE].found || columns[COLUMN_NONE].encoding == ENCODING_DELTA;
}

/* Puts every prediction where the encoder began. */
static void start_predictions(struct decoder *d)
{
	const struct column *columns = d->directory->fields;

	for (size_t f = 0; f < d->nfields; f++)
		d->before[f] = columns[d->fields[f].id].base;
	d->none = columns[COLUMN_NONE].base;
	d->staged = (struct mean){columns[COLUMN_STAGED].base, MEAN_LIMIT};
	d->duration = (struct mean){columns[COLUMN_DURATION].base, MEAN_LIMIT};
	d->end = columns[COLUMN_START].base;
	for (size_t kind = 0; kind < 3; kind++)
		d->pauses[kind] = (struct mean){0, MEAN_LIMIT};
	for (uint32_t peer = 0; peer < d->nranks; peer++)
		d->arrivals[peer] = (struct mean){d->directory->arrivals[peer].base, MEAN_LIMIT};
}

/* Goes on to the next tile. False after the last. */
static int next_tile(struct decoder *d)
{
	size_t done = d->first + d->count;

	d->rows += d->count * d->stride;
	d->first = done;
	d->count = d->total - done < TILE_ROWS ? d->total - done : TILE_ROWS;
	return d->count != 0;
}

int call_columns_decode(struct column_work *work, const unsigned char *content, size_t bytes,
			size_t count, uint32_t nranks, uint32_t tick_shift, void *rows)
{
	struct column_directory directory;
	struct decoder d = {
		.work = work,
		.directory = &directory,
		.fields = call_fields,
		.nfields = FIELDS(call_fields),
		.fixed_bytes = sizeof(struct call_record),
		.stride = call_record_stride(nranks),
		.nranks = nranks,
		.tick_shift = tick_shift,
		.total = count,
		.rows = rows,
	};

	if (read_directory(&directory, content, bytes, count) || !encodings_known(&d))
		return -1;
	start_predictions(&d);
	while (next_tile(&d)) {
		decode_fields(&d);
		decode_staged(&d);
		decode_arrivals(&d);
		decode_duration(&d);
		decode_start(&d);
	}
	return 0;
}

int event_columns_decode(struct column_work *work, const unsigned char *content, size_t bytes,
			 size_t count, void *rows)
{
	struct column_directory directory;
	const struct column *text = &directory.fields[COLUMN_EVENT_TEXT];
	struct event_record *events = rows;
	struct decoder d = {
		.work = work,
		.directory = &directory,
		.fields = event_fields,
		.nfields = FIELDS(event_fields),
		.fixed_bytes = sizeof(struct event_record),
		.stride = sizeof(struct event_record),
		.total = count,
		.rows = rows,
	};

	if (read_directory(&directory, content, bytes, count) || !encodings_known(&d))
		return -1;
	if (!text->found || text->encoding != ENCODING_BYTES || text->base != EVENT_TEXT_BYTES ||
	    text->bytes != count * EVENT_TEXT_BYTES)
		return -1;
	start_predictions(&d);
	while (next_tile(&d))
		decode_fields(&d);
	for (size_t i = 0; i < count; i++) {
		memcpy(events[i].text, text->planes + i * EVENT_TEXT_BYTES, EVENT_TEXT_BYTES);
		/* A text is terminated, whoever wrote it. */
		events[i].text[EVENT_TEXT_BYTES - 1] = '\0';
	}
	return 0;
}
