/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/support/log_contents.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/call_log_file.h"

#define FILE_NUMBERS_MAX 4096u

static void append(void *array, size_t *count, size_t stride, const void *rows, size_t more)
{
	unsigned char **bytes = array;

	*bytes = realloc(*bytes, (*count + more) * stride);
	if (!*bytes)
		abort(); /* a test without memory cannot go on */
	memcpy(*bytes + *count * stride, rows, more * stride);
	*count += more;
}

static void take_batch(struct log_contents *contents, const struct call_log_batch *batch)
{
	if (batch->kind == CALL_LOG_CALLS) {
		contents->stride = batch->stride;
		append(&contents->calls, &contents->calls_count, batch->stride, batch->rows,
		       batch->count);
	} else {
		append(&contents->events, &contents->events_count, batch->stride, batch->rows,
		       batch->count);
	}
}

static void take_damage(struct log_contents *contents, const struct call_log_reader *reader)
{
	const struct call_log_damage *damage;
	size_t count = call_log_reader_damage(reader, &damage);

	for (size_t i = 0; i < count && contents->damage_count < 64; i++)
		contents->damage[contents->damage_count++] = damage[i];
}

int log_contents_read(struct log_contents *contents, const char *path, const char **ret_reason)
{
	uint64_t offset = 0;

	return log_contents_read_one(contents, path, &offset, ret_reason);
}

int log_contents_read_one(struct log_contents *contents, const char *path, uint64_t *offset,
			  const char **ret_reason)
{
	struct call_log_reader *reader;
	struct call_log_batch batch;
	int status = call_log_reader_open(path, *offset, &reader, ret_reason);

	if (status)
		return status;
	*offset = call_log_reader_following(reader);
	if (*offset)
		call_log_reader_limit(reader, *offset);
	contents->info = *call_log_reader_info(reader);
	while (!(status = call_log_reader_next(reader, &batch)) && batch.kind != CALL_LOG_END)
		take_batch(contents, &batch);
	take_damage(contents, reader);
	contents->lost += call_log_reader_records_lost(reader);
	contents->closed = call_log_reader_closed(reader);
	call_log_reader_close(reader);
	return status;
}

int log_contents_read_rank(struct log_contents *contents, const char *dir, const char *comm_id,
			   uint32_t rank)
{
	int files = 0;

	for (uint32_t number = 0; number < FILE_NUMBERS_MAX; number++) {
		char name[64], path[512];
		const char *reason;

		call_log_file_name(name, sizeof(name), rank, number);
		snprintf(path, sizeof(path), "%s/%s/%s", dir, comm_id, name);
		if (access(path, F_OK))
			continue;
		if (!log_contents_read(contents, path, &reason))
			files++;
	}
	return files;
}

void log_contents_free(struct log_contents *contents)
{
	free(contents->calls);
	free(contents->events);
	memset(contents, 0, sizeof(*contents));
}

uint64_t test_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* One number of a style: small, any, or an end of the range. */
static uint64_t number_of(enum record_style style, uint64_t *state)
{
	static const uint64_t ends[] = {
		0, 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX};
	uint64_t random = test_random(state);

	if (style == RECORD_ORDINARY)
		return random % 5000;
	return style == RECORD_WILD ? random : ends[random % (sizeof(ends) / sizeof(ends[0]))];
}

void fill_call(struct call_record *record, uint32_t nranks, uint64_t seq, enum record_style style,
	       uint64_t *state)
{
	int ordinary = style == RECORD_ORDINARY;

	memset(record, 0, call_record_stride(nranks));
	record->seq = ordinary ? seq : number_of(style, state);
	record->pass = ordinary ? seq / 122 + 1 : number_of(style, state);
	record->start_ns =
		ordinary ? seq * 250000 + number_of(style, state) : number_of(style, state);
	record->count = ordinary ? 57344 : number_of(style, state);
	record->duration_ns = number_of(style, state) + (ordinary ? 9000 : 0);
	record->missing = ordinary ? 0 : number_of(style, state);
	record->digest = number_of(ordinary ? RECORD_WILD : style, state);
	record->rescue_ns = ordinary ? 0 : number_of(style, state);
	record->index = (uint32_t)(ordinary ? seq % 122 : number_of(style, state));
	record->enqueue_ns = (uint32_t)number_of(style, state);
	record->staged_ns = (uint32_t)number_of(style, state);
	record->status = (int16_t)(ordinary ? 0 : number_of(style, state));
	record->flags = (uint16_t)(ordinary ? CALL_DIGEST : number_of(style, state));
	record->op = (uint8_t)(ordinary ? 1 : number_of(style, state));
	record->dtype = (uint8_t)(ordinary ? 4 : number_of(style, state));
	record->path = (uint8_t)(ordinary ? 3 : number_of(style, state));
	record->algorithm = (uint8_t)(ordinary ? 2 : number_of(style, state));
	record->rescue_path = (uint8_t)(ordinary ? 0 : number_of(style, state));
	for (uint32_t peer = 0; peer < nranks; peer++)
		record->arrival_ns[peer] =
			test_random(state) % 50 ? number_of(style, state) : CALL_ARRIVAL_NONE;
}

void fill_event(struct event_record *event, uint64_t number, enum record_style style,
		uint64_t *state)
{
	memset(event, 0, sizeof(*event));
	event->time_ns = style == RECORD_ORDINARY ? number * 1000 : number_of(style, state);
	event->seq = number_of(style, state);
	event->pass = number_of(style, state);
	event->mask = number_of(style, state);
	event->duration_ns = number_of(style, state);
	event->value = (int64_t)number_of(style, state);
	event->peer = (int32_t)number_of(style, state);
	event->status = (int16_t)number_of(style, state);
	event->kind = (uint8_t)(number % 11 + 1);
	event->cause = (uint8_t)(number % 8);
	event->path = (uint8_t)(number % 5);
	snprintf(event->text, sizeof(event->text), "event %llu of %llx", (unsigned long long)number,
		 (unsigned long long)test_random(state));
}

void make_folder(char *path, size_t size)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, size, "%s/belay-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(path))
		abort(); /* a test without a folder cannot go on */
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

void remove_folder(const char *path)
{
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
