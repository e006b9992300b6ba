/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h" /* memrchr() */

#include "trace/call_columns.h"

#include <string.h>

#include "trace/column_model.h"

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
	return (COLUMN_FIELDS_MAX + 2) * COLUMN_HEADER_BYTES +
	       count * (8 * COLUMN_FIELDS_MAX + SHORT_TEXT_BYTES + EVENT_TEXT_BYTES);
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

static size_t text_length(const struct event_record *event)
{
	return strnlen(event->text, sizeof(event->text) - 1);
}

/* A long text as a reader of 1.0 gets it: whole words, so that no number loses its end. */
static void shorten(char *out, const char *text)
{
	static const char more[] = "...";
	size_t room = SHORT_TEXT_BYTES - sizeof(more);
	const char *space = memrchr(text, ' ', room + 1);
	size_t kept = space && space > text ? (size_t)(space - text) : room;

	memset(out, 0, SHORT_TEXT_BYTES);
	memcpy(out, text, kept);
	memcpy(out + kept, more, sizeof(more));
}

static void encode_texts(const struct column_rows *rows, struct column_content *content)
{
	put_header(content, COLUMN_EVENT_TEXT, 0, ENCODING_BYTES, 0, rows->count * SHORT_TEXT_BYTES,
		   SHORT_TEXT_BYTES);
	for (size_t i = 0; i < rows->count; i++) {
		const struct event_record *event = row_at(rows, i);
		char *out = (char *)content->bytes + content->used;

		if (text_length(event) < SHORT_TEXT_BYTES)
			memcpy(out, event->text, SHORT_TEXT_BYTES);
		else
			shorten(out, event->text);
		content->used += SHORT_TEXT_BYTES;
	}
	content->cuts[content->ncuts++] = (uint32_t)content->used;
}

/* The texts that the column before had to shorten, whole. There are none in most blocks. */
static void encode_long_texts(const struct column_rows *rows, struct column_content *content)
{
	size_t longest = 0;

	for (size_t i = 0; i < rows->count; i++)
		longest = later(longest, text_length(row_at(rows, i)));
	if (longest < SHORT_TEXT_BYTES)
		return;
	put_header(content, COLUMN_EVENT_LONG_TEXT, 0, ENCODING_BYTES, 0, rows->count * longest,
		   longest);
	for (size_t i = 0; i < rows->count; i++) {
		const struct event_record *event = row_at(rows, i);
		size_t length = text_length(event);

		memset(content->bytes + content->used, 0, longest);
		if (length >= SHORT_TEXT_BYTES)
			memcpy(content->bytes + content->used, event->text, length);
		content->used += longest;
	}
	content->cuts[content->ncuts++] = (uint32_t)content->used;
}

void event_columns_encode(struct column_work *work, const struct column_rows *rows,
			  struct column_content *content)
{
	content->used = 0;
	content->ncuts = 0;
	for (size_t f = 0; f < FIELDS(event_fields); f++)
		encode_field(work, rows, &event_fields[f], content);
	encode_texts(rows, content);
	encode_long_texts(rows, content);
}
