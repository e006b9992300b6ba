/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/column_decoder.h"

#include <string.h>

#include "trace/call_log_format.h"

/* The directory --------------------------------------------------------------------------- */

/* Where a column of the content belongs; NULL for one that this version does not know. */
static struct column *column_place(struct column_decoder *d, const unsigned char *header)
{
	uint8_t id = header[0];

	if (id == COLUMN_ARRIVAL)
		return header[1] < COLUMN_RANKS_MAX ? &d->arrivals[header[1]] : NULL;
	if ((id >= COLUMN_SEQ && id <= COLUMN_START) ||
	    (id >= COLUMN_EVENT_TIME && id <= COLUMN_EVENT_LONG_TEXT))
		return &d->columns[id];
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

static int read_directory(struct column_decoder *d, const unsigned char *content, size_t bytes)
{
	while (bytes) {
		struct column *column;
		size_t length;

		if (bytes < COLUMN_HEADER_BYTES)
			return -1;
		length = COLUMN_HEADER_BYTES + (size_t)call_log_get(content + 4, 4);
		if (bytes < length)
			return -1;
		column = column_place(d, content);
		if (column && take_column(column, content, d->total))
			return -1;
		content += length;
		bytes -= length;
	}
	return 0;
}

/* The encodings that the columns of a kind of block must have, where they are there. */
static int encodings_known(const struct column_decoder *d)
{
	static const uint8_t models[] = {COLUMN_STAGED, COLUMN_DURATION, COLUMN_START};
	const struct column *columns = d->columns;

	for (size_t f = 0; f < d->nfields; f++)
		if (columns[d->fields[f].id].found &&
		    columns[d->fields[f].id].encoding != d->fields[f].encoding)
			return 0;
	for (size_t m = 0; m < sizeof(models); m++)
		if (columns[models[m]].found && columns[models[m]].encoding != ENCODING_MODEL)
			return 0;
	for (uint32_t peer = 0; peer < d->nranks; peer++) {
		const struct column *arrival = &d->arrivals[peer];

		if (arrival->found && arrival->encoding != ENCODING_MODEL &&
		    arrival->encoding != ENCODING_STAGED)
			return 0;
	}
	return !columns[COLUMN_NONE].found || columns[COLUMN_NONE].encoding == ENCODING_DELTA;
}

static int text_is_there(const struct column_decoder *d)
{
	const struct column *text = &d->columns[COLUMN_EVENT_TEXT];

	return text->found && text->encoding == ENCODING_BYTES && text->base == SHORT_TEXT_BYTES &&
	       text->bytes == d->total * SHORT_TEXT_BYTES;
}

static int long_text_is_sound(const struct column_decoder *d)
{
	const struct column *text = &d->columns[COLUMN_EVENT_LONG_TEXT];

	return !text->found ||
	       (text->encoding == ENCODING_BYTES && text->base >= 1 &&
		text->base < EVENT_TEXT_BYTES && text->bytes == d->total * text->base);
}

/* Numbers --------------------------------------------------------------------------------- */

/* Number i of the tile, as it was before its zigzag. */
static inline uint64_t number_at(const struct column_decoder *d, const struct column *column,
				 size_t i, unsigned int width)
{
	uint64_t number = 0;

	for (unsigned int plane = 0; plane < width; plane++)
		number |= (uint64_t)column->planes[plane * d->total + d->first + i] << (8 * plane);
	return unzigzag(number);
}

/* A function whose last argument is a width is compiled once for each of the usual ones, in which
 * no loop over planes is left. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define BY_WIDTH(column, function, ...)                                                            \
	switch ((column)->width) {                                                                 \
	case 0:                                                                                    \
		function(__VA_ARGS__, 0);                                                          \
		break;                                                                             \
	case 1:                                                                                    \
		function(__VA_ARGS__, 1);                                                          \
		break;                                                                             \
	case 2:                                                                                    \
		function(__VA_ARGS__, 2);                                                          \
		break;                                                                             \
	default:                                                                                   \
		function(__VA_ARGS__, (column)->width);                                            \
		break;                                                                             \
	}

/* Fields ---------------------------------------------------------------------------------- */

static void store_field(const struct column_decoder *d, const struct column_field *field,
			size_t count)
{
	char *out = d->rows + field->offset;

#define STORE(type)                                                                                \
	for (size_t i = 0; i < count; i++, out += d->stride) {                                     \
		type value = (type)d->values[i];                                                   \
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

static ALWAYS_INLINE void field_values(struct column_decoder *d, size_t f, unsigned int width)
{
	const struct column *column = &d->columns[d->fields[f].id];
	uint64_t step = d->fields[f].encoding == ENCODING_COUNTER;
	uint64_t value = d->before[f];

	for (size_t i = 0; i < d->count; i++) {
		value += number_at(d, column, i, width) + step;
		d->values[i] = value;
	}
	d->before[f] = value;
}

/* Whether a field is the same in all rows. */
static int is_constant(const struct column_decoder *d, size_t f)
{
	return !d->columns[d->fields[f].id].width && d->fields[f].encoding == ENCODING_DELTA;
}

/* Fields that never change are set once, in the first row, and copied from there. */
static void prepare_rows(struct column_decoder *d)
{
	memset(d->rows, 0, d->fixed_bytes);
	for (size_t f = 0; f < d->nfields; f++) {
		if (is_constant(d, f)) {
			d->values[0] = d->before[f];
			store_field(d, &d->fields[f], 1);
		}
	}
	for (size_t i = 1; i < d->count; i++)
		memcpy(d->rows + i * d->stride, d->rows, d->fixed_bytes);
	d->prepared = d->count;
}

static void decode_fields(struct column_decoder *d)
{
	if (d->prepared < d->count)
		prepare_rows(d);
	for (size_t f = 0; f < d->nfields; f++) {
		if (is_constant(d, f))
			continue;
		BY_WIDTH(&d->columns[d->fields[f].id], field_values, d, f);
		store_field(d, &d->fields[f], d->count);
	}
}

/* Calls ----------------------------------------------------------------------------------- */

static inline struct call_record *call_row_at(const struct column_decoder *d, size_t i)
{
	return (struct call_record *)(void *)(d->rows + i * d->stride);
}

static ALWAYS_INLINE void staged_rows(struct column_decoder *d, unsigned int width)
{
	struct mean mean = d->staged;

	for (size_t i = 0; i < d->count; i++) {
		uint64_t staged = number_at(d, &d->columns[COLUMN_STAGED], i, width) + mean.value;

		call_row_at(d, i)->staged_ns = (uint32_t)(staged << d->tick_shift);
		mean_add(&mean, staged);
	}
	d->staged = mean;
}

static void start_arrivals(struct column_decoder *d)
{
	memset(d->surprise, 0, sizeof(d->surprise));
	memset(d->seen, 0, sizeof(d->seen));
	memset(d->last, 0, sizeof(d->last));
	for (size_t i = 0; !d->all_seen && i < d->count; i++) {
		const struct column *none = &d->columns[COLUMN_NONE];

		d->none_before += number_at(d, none, i, none->width);
		d->none[i] = d->none_before;
	}
}

static void staged_arrival_rows(struct column_decoder *d, uint32_t peer)
{
	for (size_t i = 0; i < d->count; i++) {
		struct call_record *record = call_row_at(d, i);

		record->arrival_ns[peer] = record->staged_ns;
		d->last[i] = later(d->last[i], record->staged_ns >> d->tick_shift);
	}
}

/* One arrival that was seen. `predicted`: what the row's other surprises say. */
static ALWAYS_INLINE void arrival_row(struct column_decoder *d, uint32_t peer, size_t i,
				      struct mean *mean, uint64_t number, uint64_t predicted)
{
	uint64_t surprise = number + predicted;
	uint64_t arrival = surprise + mean->value;

	d->surprise[i] += surprise;
	d->last[i] = later(d->last[i], arrival);
	mean_add(mean, arrival);
	call_row_at(d, i)->arrival_ns[peer] = arrival << d->tick_shift;
}

/* Where every arrival was seen, each row has as many before this one: `seen`. */
static ALWAYS_INLINE void seen_arrival_rows(struct column_decoder *d, uint32_t peer, uint64_t seen,
					    unsigned int width)
{
	struct mean mean = d->means[peer];

	for (size_t i = 0; i < d->count; i++)
		arrival_row(d, peer, i, &mean, number_at(d, &d->arrivals[peer], i, width),
			    row_surprise(d->surprise[i], seen));
	d->means[peer] = mean;
}

static void arrival_rows(struct column_decoder *d, uint32_t peer)
{
	const struct column *column = &d->arrivals[peer];
	struct mean mean = d->means[peer];

	for (size_t i = 0; i < d->count; i++) {
		if (d->none[i] >> peer & 1) {
			call_row_at(d, i)->arrival_ns[peer] = CALL_ARRIVAL_NONE;
			continue;
		}
		arrival_row(d, peer, i, &mean, number_at(d, column, i, column->width),
			    row_surprise(d->surprise[i], d->seen[i]));
		d->seen[i]++;
	}
	d->means[peer] = mean;
}

static void decode_arrivals(struct column_decoder *d)
{
	uint64_t seen = 0;

	start_arrivals(d);
	for (uint32_t peer = 0; peer < d->nranks; peer++) {
		if (d->arrivals[peer].encoding == ENCODING_STAGED) {
			staged_arrival_rows(d, peer);
		} else if (d->all_seen) {
			BY_WIDTH(&d->arrivals[peer], seen_arrival_rows, d, peer, seen);
			seen++;
		} else {
			arrival_rows(d, peer);
		}
	}
}

static ALWAYS_INLINE void duration_rows(struct column_decoder *d, unsigned int width)
{
	struct mean mean = d->duration;

	for (size_t i = 0; i < d->count; i++) {
		uint64_t rest = number_at(d, &d->columns[COLUMN_DURATION], i, width) + mean.value;

		call_row_at(d, i)->duration_ns = (rest + d->last[i]) << d->tick_shift;
		mean_add(&mean, rest);
	}
	d->duration = mean;
}

static ALWAYS_INLINE void start_rows(struct column_decoder *d, unsigned int width)
{
	for (size_t i = 0; i < d->count; i++) {
		struct call_record *record = call_row_at(d, i);
		struct mean *mean = &d->pauses[pause_kind(record->index)];
		uint64_t pause = number_at(d, &d->columns[COLUMN_START], i, width) + mean->value;

		record->start_ns = (d->end + pause) << d->tick_shift;
		mean_add(mean, pause);
		d->end += pause + (record->duration_ns >> d->tick_shift);
	}
}

static void decode_calls(struct column_decoder *d)
{
	BY_WIDTH(&d->columns[COLUMN_STAGED], staged_rows, d);
	decode_arrivals(d);
	BY_WIDTH(&d->columns[COLUMN_DURATION], duration_rows, d);
	BY_WIDTH(&d->columns[COLUMN_START], start_rows, d);
}

static const char *text_at(const struct column_decoder *d, enum column_id id, size_t i)
{
	return (const char *)d->columns[id].planes + (d->first + i) * d->columns[id].base;
}

static void decode_texts(struct column_decoder *d)
{
	const struct column *whole = &d->columns[COLUMN_EVENT_LONG_TEXT];
	struct event_record *events = (struct event_record *)(void *)d->rows;

	for (size_t i = 0; i < d->count; i++) {
		const char *text = text_at(d, COLUMN_EVENT_TEXT, i);
		size_t length = SHORT_TEXT_BYTES - 1;

		if (whole->found && *text_at(d, COLUMN_EVENT_LONG_TEXT, i)) {
			text = text_at(d, COLUMN_EVENT_LONG_TEXT, i);
			length = strnlen(text, whole->base);
		}
		/* A text is terminated, whoever wrote it. */
		memset(events[i].text, 0, EVENT_TEXT_BYTES);
		memcpy(events[i].text, text, length);
	}
}

/* Contents -------------------------------------------------------------------------------- */

/* Puts every prediction where the encoder began. */
static void start_predictions(struct column_decoder *d)
{
	const struct column *columns = d->columns;

	for (size_t f = 0; f < d->nfields; f++)
		d->before[f] = columns[d->fields[f].id].base;
	d->none_before = columns[COLUMN_NONE].base;
	d->all_seen = !columns[COLUMN_NONE].base && !columns[COLUMN_NONE].width;
	d->staged = (struct mean){columns[COLUMN_STAGED].base, MEAN_LIMIT};
	d->duration = (struct mean){columns[COLUMN_DURATION].base, MEAN_LIMIT};
	d->end = columns[COLUMN_START].base;
	for (size_t kind = 0; kind < 3; kind++)
		d->pauses[kind] = (struct mean){0, MEAN_LIMIT};
	for (uint32_t peer = 0; peer < d->nranks; peer++)
		d->means[peer] = (struct mean){d->arrivals[peer].base, MEAN_LIMIT};
}

/* Reads the directory; what the decoder knows of the kind of rows stands there already. */
static int begin(struct column_decoder *d, const unsigned char *content, size_t bytes, size_t count)
{
	memset(d->columns, 0, sizeof(d->columns));
	memset(d->arrivals, 0, sizeof(d->arrivals));
	d->total = count;
	d->first = 0;
	d->count = 0;
	d->rows = NULL;
	if (read_directory(d, content, bytes) || !encodings_known(d))
		return -1;
	start_predictions(d);
	return 0;
}

int column_decoder_calls(struct column_decoder *d, const unsigned char *content, size_t bytes,
			 size_t count, uint32_t nranks, uint32_t tick_shift)
{
	d->fields = call_fields;
	d->nfields = FIELDS(call_fields);
	d->fixed_bytes = sizeof(struct call_record);
	d->stride = call_record_stride(nranks);
	d->nranks = nranks;
	d->tick_shift = tick_shift;
	return begin(d, content, bytes, count);
}

int column_decoder_events(struct column_decoder *d, const unsigned char *content, size_t bytes,
			  size_t count)
{
	d->fields = event_fields;
	d->nfields = FIELDS(event_fields);
	d->fixed_bytes = sizeof(struct event_record);
	d->stride = sizeof(struct event_record);
	d->nranks = 0;
	d->tick_shift = 0;
	return begin(d, content, bytes, count) || !text_is_there(d) || !long_text_is_sound(d) ? -1
											      : 0;
}

size_t column_decoder_next(struct column_decoder *d, void *rows)
{
	size_t done = d->first + d->count;

	if (rows != d->rows)
		d->prepared = 0;
	d->rows = rows;
	d->first = done;
	d->count = d->total - done < COLUMN_TILE_ROWS ? d->total - done : COLUMN_TILE_ROWS;
	if (!d->count)
		return 0;
	decode_fields(d);
	if (d->nranks)
		decode_calls(d);
	else
		decode_texts(d);
	return d->count;
}
