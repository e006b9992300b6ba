/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the columns of a block, behind the checksums that keep a fuzzer out of them. The
 * first three bytes choose kind, records and ranks. What decodes must encode and decode to the same
 * again.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_target.h"
#include "trace/call_columns.h"
#include "trace/column_decoder.h"

#define RECORDS_MAX 255u
#define RANKS_MAX   64u
#define STRIDE_MAX  (sizeof(struct call_record) + 8 * RANKS_MAX + 64)

static struct column_work work;
static struct column_decoder decoder;
static unsigned char rows[RECORDS_MAX * STRIDE_MAX], again[RECORDS_MAX * STRIDE_MAX];
static unsigned char
	bytes[(COLUMN_FIELDS_MAX + RANKS_MAX) * (COLUMN_HEADER_BYTES + 8 * RECORDS_MAX)];
static struct column_content content = {.bytes = bytes};

/* All tiles of a content that has been begun. */
static void decode_all(unsigned char *to, size_t count)
{
	size_t done = 0, n;

	while ((n = column_decoder_next(&decoder, to + done * decoder.stride)) != 0)
		done += n;
	if (done != count)
		abort();
}

static int decode_calls(const uint8_t *data, size_t size, size_t count, uint32_t nranks,
			unsigned char *to)
{
	if (column_decoder_calls(&decoder, data, size, count, nranks, 0))
		return -1;
	decode_all(to, count);
	return 0;
}

static int decode_events(const uint8_t *data, size_t size, size_t count, unsigned char *to)
{
	if (column_decoder_events(&decoder, data, size, count))
		return -1;
	decode_all(to, count);
	return 0;
}

static void try_calls(const uint8_t *data, size_t size, size_t count, uint32_t nranks)
{
	struct column_rows in = {.rows = rows,
				 .stride = call_record_stride(nranks),
				 .mask = SIZE_MAX,
				 .count = count,
				 .nranks = nranks};

	memset(rows, 0, sizeof(rows));
	memset(again, 0, sizeof(again));
	if (decode_calls(data, size, count, nranks, rows))
		return;
	call_columns_encode(&work, &in, &content);
	if (content.used > call_columns_bound(count, nranks) ||
	    decode_calls(content.bytes, content.used, count, nranks, again) ||
	    memcmp(rows, again, count * in.stride))
		abort();
}

static void try_events(const uint8_t *data, size_t size, size_t count)
{
	struct column_rows in = {.rows = rows,
				 .stride = sizeof(struct event_record),
				 .mask = SIZE_MAX,
				 .count = count};

	if (decode_events(data, size, count, rows))
		return;
	event_columns_encode(&work, &in, &content);
	if (content.used > event_columns_bound(count) ||
	    decode_events(content.bytes, content.used, count, again) ||
	    memcmp(rows, again, count * in.stride))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t count;

	if (size < 3 || !data[1])
		return 0;
	count = data[1];
	if (data[0] & 1)
		try_events(data + 3, size - 3, count);
	else
		try_calls(data + 3, size - 3, count, data[2] % RANKS_MAX + 1);
	return 0;
}
