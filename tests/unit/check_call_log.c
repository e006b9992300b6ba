/* SPDX-License-Identifier: Apache-2.0 */
/* The call log on disk: exact for every record, and a reader that no file can surprise. */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "runtime/belay.h"
#include "tests/support/fail_alloc.h"
#include "tests/support/log_contents.h"
#include "tests/support/log_generator.h"
#include "trace/call_log_encoder.h"
#include "trace/call_log_file.h"
#include "trace/column_decoder.h"

#define COMM_ID	   "00112233445566778899aabbccddeeff"
#define BLOCKS_MAX 16

static char dir[128];
static char path[512];

static void setup(void)
{
	make_folder(dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/%s/rank-0000.0.belay", dir, COMM_ID);
}

static void teardown(void)
{
	remove_folder(dir);
}

/* A log of `nblocks` blocks of calls with a block of events between each two, and all of it in
 * memory as well. */
struct made_log {
	uint32_t nranks;
	size_t nblocks;
	size_t block_records;
	enum record_style style;
	uint32_t tick_ns;
	unsigned char *calls;
	struct event_record *events;
	size_t ncalls, nevents;
	uint64_t block_offsets[2 * BLOCKS_MAX];
	size_t noffsets;
	unsigned char *bytes; /* of the file */
	size_t size;
};

static void init_file(struct call_log_file *file, const struct made_log *log)
{
	const struct call_log_file_config config = {
		.dir = dir,
		.comm_id = COMM_ID,
		.rank = 0,
		.nranks = log->nranks,
		.salvaged_by = -1,
		.tick_ns = log->tick_ns ? log->tick_ns : 1,
		.run_id = 77,
		.bytes_max = 1u << 30,
		.files_keep = 4,
	};

	call_log_file_init(file, &config);
}

static void append(struct made_log *log, struct call_log_file *file,
		   const struct call_log_block *block, const struct call_log_totals *totals)
{
	ck_assert_int_eq(call_log_file_prepare(file, block->size, totals), 0);
	log->block_offsets[log->noffsets++] = file->bytes;
	ck_assert_int_eq(call_log_file_append(file, block->bytes, block->size), 0);
}

static void slurp(struct made_log *log)
{
	FILE *in = fopen(path, "rb");

	ck_assert_ptr_nonnull(in);
	fseek(in, 0, SEEK_END);
	log->size = (size_t)ftell(in);
	rewind(in);
	log->bytes = malloc(log->size);
	ck_assert_uint_eq(fread(log->bytes, 1, log->size, in), log->size);
	fclose(in);
}

static void make_log(struct made_log *log, uint64_t seed)
{
	size_t stride = call_record_stride(log->nranks);
	struct call_log_encoder *encoder;
	struct call_log_totals totals = {0};
	struct call_log_file file;
	struct call_log_block block;

	log->calls = calloc(log->nblocks * log->block_records, stride);
	log->events = calloc(log->nblocks * 5, sizeof(*log->events));
	ck_assert_int_eq(call_log_encoder_create(log->nranks, log->block_records + 5, &encoder), 0);
	init_file(&file, log);
	for (size_t b = 0; b < log->nblocks; b++) {
		struct column_rows calls = {
			.rows = log->calls + log->ncalls * stride,
			.stride = stride,
			.mask = SIZE_MAX,
			.count = log->block_records,
			.nranks = log->nranks,
			.tick_shift = log->tick_ns ? (uint32_t)__builtin_ctz(log->tick_ns) : 0,
		};
		struct column_rows events = {
			.rows = log->events + log->nevents,
			.stride = sizeof(*log->events),
			.mask = SIZE_MAX,
			.count = 5,
			.nranks = log->nranks,
		};

		for (size_t i = 0; i < log->block_records; i++, log->ncalls++)
			fill_call((struct call_record *)(log->calls + log->ncalls * stride),
				  log->nranks, log->ncalls + 1, log->style, &seed);
		for (size_t i = 0; i < 5; i++, log->nevents++)
			fill_event(&log->events[log->nevents], log->nevents, log->style, &seed);
		ck_assert_int_eq(call_log_encode(encoder, CALL_LOG_BLOCK_CALLS, &calls,
						 totals.calls, 0, &block),
				 0);
		append(log, &file, &block, &totals);
		totals.calls = log->ncalls;
		ck_assert_int_eq(call_log_encode(encoder, CALL_LOG_BLOCK_EVENTS, &events,
						 totals.events, 0, &block),
				 0);
		append(log, &file, &block, &totals);
		totals.events = log->nevents;
	}
	call_log_file_finish(&file, &totals);
	call_log_encoder_free(encoder);
	slurp(log);
}

static void free_log(struct made_log *log)
{
	free(log->calls);
	free(log->events);
	free(log->bytes);
}

static void write_bytes(const unsigned char *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
	close(fd);
}

static void read_back(struct log_contents *contents)
{
	const char *reason = "";

	memset(contents, 0, sizeof(*contents));
	ck_assert_msg(!log_contents_read(contents, path, &reason), "%s", reason);
}

/* The calls and events that came back stand in what was written, in order, once each. */
static void assert_subset(const struct made_log *log, const struct log_contents *contents)
{
	size_t row = call_record_stride(log->nranks), at = 0;

	for (size_t i = 0; i < contents->calls_count; i++, at++) {
		while (at < log->ncalls &&
		       memcmp(log->calls + at * row, log_contents_call(contents, i),
			      sizeof(struct call_record) + 8 * log->nranks))
			at++;
		if (at == log->ncalls)
			ck_abort_msg("call %zu was never written", i);
	}
	at = 0;
	for (size_t i = 0; i < contents->events_count; i++, at++) {
		while (at < log->nevents &&
		       memcmp(&log->events[at], &contents->events[i], sizeof(*log->events)))
			at++;
		if (at == log->nevents)
			ck_abort_msg("event %zu was never written", i);
	}
}

static int64_t records_reported_lost(const struct log_contents *contents)
{
	int64_t lost = 0;

	for (size_t i = 0; i < contents->damage_count; i++)
		lost += contents->damage[i].records_lost;
	return lost;
}

static const uint32_t rank_counts[] = {1, 2, 3, 8, 64};
#define RANK_COUNTS (sizeof(rank_counts) / sizeof(rank_counts[0]))

START_TEST(every_record_comes_back_exactly)
{
	struct made_log log = {
		.nranks = rank_counts[(size_t)_i % RANK_COUNTS],
		.style = (enum record_style)((size_t)_i / RANK_COUNTS),
		.nblocks = 3,
		.block_records = 1500,
	};
	struct log_contents contents;

	make_log(&log, (uint64_t)_i + 1);
	read_back(&contents);
	ck_assert_uint_eq(contents.calls_count, log.ncalls);
	ck_assert_uint_eq(contents.events_count, log.nevents);
	assert_subset(&log, &contents);
	ck_assert_uint_eq(contents.damage_count, 0);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	ck_assert_str_eq(contents.info.comm_id, COMM_ID);
	ck_assert_uint_eq(contents.info.run_id, 77);
	ck_assert_int_eq(contents.info.salvaged_by, -1);
	log_contents_free(&contents);
	free_log(&log);
}
END_TEST

START_TEST(a_block_may_hold_one_record_or_thousands)
{
	struct made_log log = {
		.nranks = 4, .nblocks = 2, .block_records = _i ? CALL_LOG_BLOCK_RECORDS - 5 : 1};
	struct log_contents contents;

	make_log(&log, 5);
	read_back(&contents);
	ck_assert_uint_eq(contents.calls_count, log.ncalls);
	assert_subset(&log, &contents);
	log_contents_free(&contents);
	free_log(&log);
}
END_TEST

START_TEST(times_in_larger_ticks_are_rounded_down_and_no_more)
{
	struct made_log log = {.nranks = 4, .nblocks = 1, .block_records = 1000, .tick_ns = 32};
	struct log_contents contents;

	make_log(&log, 6);
	read_back(&contents);
	ck_assert_uint_eq(contents.calls_count, log.ncalls);
	for (size_t i = 0; i < log.ncalls; i++) {
		const struct call_record *got = log_contents_call(&contents, i);
		const struct call_record *want =
			(struct call_record *)(log.calls + i * call_record_stride(log.nranks));

		ck_assert_uint_eq(got->start_ns, want->start_ns / 32 * 32);
		ck_assert_uint_eq(got->duration_ns, want->duration_ns / 32 * 32);
		ck_assert_uint_eq(got->staged_ns, want->staged_ns / 32 * 32);
		for (uint32_t p = 0; p < log.nranks; p++)
			ck_assert_uint_eq(got->arrival_ns[p],
					  want->arrival_ns[p] == CALL_ARRIVAL_NONE
						  ? CALL_ARRIVAL_NONE
						  : want->arrival_ns[p] / 32 * 32);
	}
	log_contents_free(&contents);
	free_log(&log);
}
END_TEST

START_TEST(zstd_itself_accepts_the_file)
{
	struct made_log log = {.nranks = 8, .nblocks = 3, .block_records = 500};
	ZSTD_DCtx *context = ZSTD_createDCtx();
	ZSTD_inBuffer in;
	unsigned char out_bytes[4096];
	size_t left = 0;

	make_log(&log, 7);
	in = (ZSTD_inBuffer){log.bytes, log.size, 0};
	while (in.pos < in.size) {
		ZSTD_outBuffer out = {out_bytes, sizeof(out_bytes), 0};

		left = ZSTD_decompressStream(context, &out, &in);
		ck_assert_msg(!ZSTD_isError(left), "%s", ZSTD_getErrorName(left));
	}
	ck_assert_uint_eq(left, 0); /* the last frame is whole */
	ZSTD_freeDCtx(context);
	free_log(&log);
}
END_TEST

/* Which block, of calls and events, a byte of the file belongs to; noffsets: the end. */
static size_t block_of(const struct made_log *log, size_t offset)
{
	size_t block = 0;

	while (block + 1 < log->noffsets && log->block_offsets[block + 1] <= offset)
		block++;
	return offset >= log->size - CALL_LOG_HEAD_BYTES ? log->noffsets : block;
}

START_TEST(a_cut_anywhere_in_the_last_two_blocks_loses_no_more_than_it_cuts)
{
	struct made_log log = {.nranks = 3, .nblocks = 4, .block_records = 12};
	size_t from;

	make_log(&log, 8);
	from = (size_t)log.block_offsets[log.noffsets - 2];
	for (size_t cut = from; cut < log.size; cut++) {
		size_t block = block_of(&log, cut);
		int at_boundary = block < log.noffsets ? cut == log.block_offsets[block]
						       : cut == log.size - CALL_LOG_HEAD_BYTES;
		struct log_contents contents;

		write_bytes(log.bytes, cut);
		read_back(&contents);
		/* Blocks alternate: of calls, of events. */
		ck_assert_uint_eq(contents.calls_count, (block + 1) / 2 * 12);
		ck_assert_uint_eq(contents.events_count, block / 2 * 5);
		assert_subset(&log, &contents);
		ck_assert_int_eq(contents.closed, CALL_LOG_NOT_CLOSED);
		ck_assert_msg(contents.damage_count == (at_boundary ? 0 : 1), "cut at %zu", cut);
		if (!at_boundary) {
			int64_t in_block = block == log.noffsets ? -1 : block % 2 ? 5 : 12;
			int has_head = block < log.noffsets &&
				       cut >= log.block_offsets[block] + CALL_LOG_HEAD_BYTES;

			ck_assert_int_eq(contents.damage[0].records_lost, has_head ? in_block : -1);
			ck_assert_uint_eq(contents.damage[0].offset + contents.damage[0].bytes,
					  cut);
		}
		log_contents_free(&contents);
	}
	free_log(&log);
}
END_TEST

START_TEST(a_flipped_bit_loses_its_block_and_says_so)
{
	struct made_log log = {.nranks = 8, .nblocks = 5, .block_records = 100};
	int flips = getenv("BELAY_TESTS_LONG") ? 10000 : 500;
	uint64_t state = 9;
	int unnoticed = 0;

	make_log(&log, 9);
	for (int flip = 0; flip < flips; flip++) {
		size_t at = test_random(&state) % log.size;
		unsigned char bit = (unsigned char)(1u << test_random(&state) % 8);
		struct log_contents contents;
		size_t records;

		log.bytes[at] ^= bit;
		write_bytes(log.bytes, log.size);
		read_back(&contents);
		assert_subset(&log, &contents);
		records = contents.calls_count + contents.events_count;
		if (contents.damage_count) {
			ck_assert_uint_eq(contents.damage_count, 1);
			ck_assert_uint_le(contents.damage[0].offset, at);
			ck_assert_uint_gt(contents.damage[0].offset + contents.damage[0].bytes, at);
		} else {
			unnoticed++; /* a bit of zstd's that means nothing: then nothing may be
				      * lost */
			ck_assert_uint_eq(records, log.ncalls + log.nevents);
		}
		/* What is missing is one block at the most, and counted exactly where the end is
		 * there to count against. */
		ck_assert_uint_ge(records + log.block_records, log.ncalls + log.nevents);
		if (contents.closed == CALL_LOG_CLOSED)
			ck_assert_int_eq(records_reported_lost(&contents),
					 (int64_t)(log.ncalls + log.nevents - records));
		log_contents_free(&contents);
		log.bytes[at] ^= bit;
	}
	ck_assert_int_le(unnoticed, flips / 50);
	free_log(&log);
}
END_TEST

START_TEST(reading_goes_on_after_a_hole_and_counts_what_was_in_it)
{
	struct made_log log = {.nranks = 2, .nblocks = 6, .block_records = 50};
	struct log_contents contents;
	size_t hole, after;

	make_log(&log, 10);
	hole = (size_t)log.block_offsets[4] +
	       20; /* three blocks of calls and three of events, from inside one */
	after = (size_t)log.block_offsets[9];
	memmove(log.bytes + hole, log.bytes + after, log.size - after);
	write_bytes(log.bytes, log.size - (after - hole));
	read_back(&contents);
	assert_subset(&log, &contents);
	ck_assert_uint_eq(contents.calls_count, 3 * 50);
	ck_assert_uint_eq(contents.damage_count, 1);
	ck_assert_int_eq(records_reported_lost(&contents), 3 * 50 + 2 * 5);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	log_contents_free(&contents);
	free_log(&log);
}
END_TEST

START_TEST(a_whole_block_that_vanished_is_missed)
{
	struct made_log log = {.nranks = 2, .nblocks = 3, .block_records = 50};
	struct log_contents contents;
	size_t from, to;

	make_log(&log, 11);
	from = (size_t)log.block_offsets[2];
	to = (size_t)log.block_offsets[3];
	memmove(log.bytes + from, log.bytes + to, log.size - to);
	write_bytes(log.bytes, log.size - (to - from));
	read_back(&contents);
	ck_assert_uint_eq(contents.calls_count, 100);
	ck_assert_uint_eq(contents.damage_count, 1);
	ck_assert_int_eq(contents.damage[0].records_lost, 50);
	log_contents_free(&contents);
	free_log(&log);
}
END_TEST

/* Puts a head with these numbers, and a right checksum, in place of the first block. */
static void forge_head(struct made_log *log, const struct call_log_head *head)
{
	call_log_head_pack(head, log->bytes + log->block_offsets[0]);
	write_bytes(log->bytes, log->size);
}

/* Gives both copies of a log's header another rank's number. */
static void rename_rank(unsigned char *bytes, uint32_t rank)
{
	struct call_log_header header;
	size_t length;

	for (size_t copy = 0; copy < 2; copy++) {
		unsigned char *at = bytes + copy * CALL_LOG_HEADER_BYTES;

		ck_assert_int_eq(
			call_log_header_unpack(at, CALL_LOG_HEADER_BYTES, &header, &length),
			CALL_LOG_PARSED);
		header.rank = rank;
		call_log_header_pack(&header, at);
	}
}

START_TEST(logs_in_one_file_are_told_apart_wherever_the_first_was_cut)
{
	struct made_log log = {
		.nranks = 2, .nblocks = getenv("BELAY_TESTS_LONG") ? 4 : 2, .block_records = 6};
	/* Its blocks are larger: none begins by chance where one of the first would. */
	struct made_log other = {.nranks = 2, .nblocks = 2, .block_records = 90};
	unsigned char *joined;

	make_log(&other, 12);
	ck_assert_int_eq(unlink(path), 0);
	make_log(&log, 13);
	joined = malloc(log.size + other.size);
	ck_assert_ptr_nonnull(joined);
	for (size_t cut = 2 * CALL_LOG_HEADER_BYTES; cut <= log.size; cut++) {
		struct log_contents first = {0}, second = {0};
		const char *reason = "";
		uint64_t offset = 0;

		memcpy(joined, log.bytes, cut);
		memcpy(joined + cut, other.bytes, other.size);
		rename_rank(joined + cut, 1);
		write_bytes(joined, cut + other.size);
		ck_assert_int_eq(log_contents_read_one(&first, path, &offset, &reason), 0);
		/* By chance the second copy of its header may stand where a block would. */
		ck_assert_msg(offset == cut || offset == cut + CALL_LOG_HEADER_BYTES,
			      "cut at %zu, found at %zu", cut, (size_t)offset);
		assert_subset(&log, &first);
		ck_assert_uint_eq(first.info.rank, 0);
		ck_assert_int_eq(first.closed,
				 cut == log.size ? CALL_LOG_CLOSED : CALL_LOG_NOT_CLOSED);
		ck_assert_int_eq(log_contents_read_one(&second, path, &offset, &reason), 0);
		ck_assert_uint_eq(offset, 0);
		ck_assert_uint_eq(second.info.rank, 1);
		ck_assert_uint_eq(second.calls_count, other.ncalls);
		ck_assert_uint_eq(second.damage_count, 0);
		log_contents_free(&first);
		log_contents_free(&second);
	}
	free(joined);
	free_log(&log);
	free_log(&other);
}
END_TEST

START_TEST(a_log_twice_in_one_file_is_one_log)
{
	struct made_log log = {.nranks = 2, .nblocks = 3, .block_records = 12};
	struct log_contents contents;
	unsigned char *joined;

	make_log(&log, 14);
	joined = malloc(2 * log.size);
	ck_assert_ptr_nonnull(joined);
	memcpy(joined, log.bytes, log.size);
	memcpy(joined + log.size, log.bytes, log.size);
	write_bytes(joined, 2 * log.size);
	read_back(&contents);
	ck_assert_uint_eq(contents.calls_count, 2 * log.ncalls);
	ck_assert_uint_eq(contents.damage_count, 0);
	log_contents_free(&contents);
	free(joined);
	free_log(&log);
}
END_TEST

START_TEST(impossible_sizes_are_refused_even_with_a_right_checksum)
{
	static const struct call_log_head heads[] = {
		{.kind = CALL_LOG_BLOCK_CALLS, .count = 0, .frame_bytes = 100, .raw_bytes = 100},
		{.kind = CALL_LOG_BLOCK_CALLS,
		 .count = CALL_LOG_BLOCK_RECORDS + 1,
		 .frame_bytes = 9,
		 .raw_bytes = 9},
		{.kind = CALL_LOG_BLOCK_CALLS,
		 .count = 20,
		 .frame_bytes = 100,
		 .raw_bytes = UINT32_MAX},
		{.kind = CALL_LOG_BLOCK_CALLS,
		 .count = 20,
		 .frame_bytes = UINT32_MAX,
		 .raw_bytes = 100},
		{.kind = CALL_LOG_BLOCK_CALLS, .count = 20, .frame_bytes = 0, .raw_bytes = 0},
		{.kind = CALL_LOG_BLOCK_EVENTS,
		 .count = UINT16_MAX,
		 .frame_bytes = 100,
		 .raw_bytes = 100},
		{.kind = CALL_LOG_BLOCK_CALLS,
		 .count = 20,
		 .frame_bytes = 100,
		 .raw_bytes = 100,
		 .first_index = UINT64_MAX,
		 .lost_total = UINT64_MAX},
	};
	struct made_log log = {.nranks = 2, .nblocks = 3, .block_records = 20};
	struct log_contents contents;

	make_log(&log, 12);
	forge_head(&log, &heads[_i]);
	read_back(&contents);
	ck_assert_uint_eq(contents.calls_count, 40); /* all but the first */
	ck_assert_uint_ge(contents.damage_count, 1);
	log_contents_free(&contents);
	free_log(&log);
}
END_TEST

START_TEST(what_is_no_call_log_is_refused_with_a_reason)
{
	struct call_log_reader *reader = (struct call_log_reader *)dir; /* anything but NULL */
	const char *reason = NULL;
	char other[600];

	snprintf(other, sizeof(other), "%s/other", dir);
	ck_assert_int_eq(call_log_reader_open(other, 0, &reader, &reason), BELAY_E_SYSTEM);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(call_log_reader_open(dir, 0, &reader, &reason), BELAY_E_ARGUMENT);
	ck_assert_str_eq(reason, "not a regular file");
	ck_assert_int_eq(mkfifo(other, 0600), 0);
	ck_assert_int_eq(call_log_reader_open(other, 0, &reader, &reason), BELAY_E_ARGUMENT);
	ck_assert_int_eq(unlink(other), 0);
	ck_assert_int_eq(close(open(other, O_CREAT | O_WRONLY, 0600)), 0);
	ck_assert_int_eq(call_log_reader_open(other, 0, &reader, &reason), BELAY_E_ARGUMENT);
	ck_assert_str_eq(reason, "an empty file");
	ck_assert_int_eq(truncate(other, 100000), 0);
	ck_assert_int_eq(call_log_reader_open(other, 0, &reader, &reason), BELAY_E_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(reason, "not a call log"));
	ck_assert_ptr_eq(reader, (struct call_log_reader *)dir);
}
END_TEST

/* Future versions -------------------------------------------------------------------------- */

/* Packs an envelope anew after a change, as a later version would have written it. */
static void reseal(unsigned char *at, size_t bytes)
{
	call_log_put(at + 4, bytes - 8, 4);
	call_log_put(at + 8, call_log_crc32c(at + 12, bytes - 12), 4);
}

START_TEST(a_later_major_version_is_refused_by_name)
{
	struct made_log log = {.nranks = 2, .nblocks = 1, .block_records = 20};
	struct call_log_reader *reader;
	const char *reason;

	make_log(&log, 13);
	call_log_put(log.bytes + 20, CALL_LOG_MAJOR + 1, 2);
	reseal(log.bytes, CALL_LOG_HEADER_BYTES);
	write_bytes(log.bytes, log.size);
	ck_assert_int_eq(call_log_reader_open(path, 0, &reader, &reason), BELAY_E_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(reason, "newer format"));
	free_log(&log);
}
END_TEST

/* Compresses a content with a column appended that this version does not know, and gives it a
 * longer head. */
static size_t future_block(const struct made_log *log, size_t number, unsigned char *out)
{
	const unsigned char *block = log->bytes + log->block_offsets[number];
	unsigned char content[65536];
	struct call_log_head head;
	size_t head_bytes, raw, frame;

	ck_assert_int_eq(call_log_head_unpack(block, 1024, &head, &head_bytes), CALL_LOG_PARSED);
	raw = ZSTD_decompress(content, sizeof(content), block + head_bytes, head.frame_bytes);
	ck_assert(!ZSTD_isError(raw));
	memset(content + raw, 0, 16);
	content[raw] = 200;			 /* id */
	content[raw + 2] = 99;			 /* encoding */
	call_log_put(content + raw + 4, 321, 4); /* bytes */
	memset(content + raw + 16, 0x55, 321);
	head.raw_bytes = (uint32_t)(raw + 16 + 321);
	frame = ZSTD_compress(out + CALL_LOG_HEAD_BYTES + 24, 65536, content, head.raw_bytes, 1);
	ck_assert(!ZSTD_isError(frame));
	head.frame_bytes = (uint32_t)frame;
	call_log_head_pack(&head, out);
	memset(out + CALL_LOG_HEAD_BYTES, 0xaa, 24);
	reseal(out, CALL_LOG_HEAD_BYTES + 24);
	return CALL_LOG_HEAD_BYTES + 24 + frame;
}

START_TEST(a_later_minor_version_is_read_and_the_unknown_stepped_over)
{
	struct made_log log = {.nranks = 4, .nblocks = 2, .block_records = 100};
	static unsigned char future[4 * 65536];
	const struct call_log_head unknown = {
		.kind = 77, .count = 3, .frame_bytes = 50, .raw_bytes = 70};
	struct log_contents contents;
	size_t used;

	make_log(&log, 14);
	/* A longer header, in both copies. */
	for (size_t copy = 0; copy < 2; copy++) {
		unsigned char *at = future + copy * (CALL_LOG_HEADER_BYTES + 40);

		memcpy(at, log.bytes, CALL_LOG_HEADER_BYTES);
		memset(at + CALL_LOG_HEADER_BYTES, 0x77, 40);
		call_log_put(at + 22, CALL_LOG_MINOR + 1, 2);
		reseal(at, CALL_LOG_HEADER_BYTES + 40);
	}
	used = 2 * (CALL_LOG_HEADER_BYTES + 40);
	for (size_t b = 0; b < log.noffsets; b++)
		used += future_block(&log, b, future + used);
	/* A kind of block that is not known, with its frame. */
	call_log_head_pack(&unknown, future + used);
	memset(future + used + CALL_LOG_HEAD_BYTES, 0x33, 50);
	used += CALL_LOG_HEAD_BYTES + 50;
	memcpy(future + used, log.bytes + log.size - CALL_LOG_HEAD_BYTES, CALL_LOG_HEAD_BYTES);
	used += CALL_LOG_HEAD_BYTES;

	write_bytes(future, used);
	read_back(&contents);
	ck_assert_uint_eq(contents.calls_count, log.ncalls);
	ck_assert_uint_eq(contents.events_count, log.nevents);
	assert_subset(&log, &contents);
	ck_assert_uint_eq(contents.damage_count, 0);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	ck_assert_uint_eq(contents.info.version_minor, CALL_LOG_MINOR + 1);
	log_contents_free(&contents);
	free_log(&log);
}
END_TEST

static void encode_one_event(const struct event_record *event, unsigned char *out,
			     struct call_log_head *ret_head)
{
	const struct column_rows rows = {
		.rows = event, .stride = sizeof(*event), .mask = SIZE_MAX, .count = 1, .nranks = 2};
	struct call_log_encoder *encoder;
	struct call_log_block block;
	size_t head_bytes;

	ck_assert_int_eq(call_log_encoder_create(2, 1, &encoder), 0);
	ck_assert_int_eq(call_log_encode(encoder, CALL_LOG_BLOCK_EVENTS, &rows, 0, 0, &block), 0);
	ck_assert_int_eq(call_log_head_unpack(block.bytes, block.size, ret_head, &head_bytes),
			 CALL_LOG_PARSED);
	ck_assert(!ZSTD_isError(
		ZSTD_decompress(out, 4096, block.bytes + head_bytes, ret_head->frame_bytes)));
	call_log_encoder_free(encoder);
}

static size_t written_texts(size_t length, char *ret_text, unsigned char *content)
{
	struct event_record event = {.kind = EVENT_VERDICT}, again;
	static struct column_decoder decoder;
	struct call_log_head head;

	for (size_t i = 0; i < length; i++)
		event.text[i] = (char)(i % 8 == 7 ? ' ' : '0' + i / 8 % 10);
	encode_one_event(&event, content, &head);
	ck_assert_int_eq(column_decoder_events(&decoder, content, head.raw_bytes, 1), 0);
	ck_assert_uint_eq(column_decoder_next(&decoder, &again), 1);
	ck_assert_mem_eq(&again, &event, sizeof(event));
	memcpy(ret_text, event.text, sizeof(event.text));
	return head.raw_bytes;
}

/* Where the row of a column of bytes stands in a content of one record; NULL: no such column. */
static const char *column_bytes(const unsigned char *content, size_t size, uint8_t id)
{
	for (size_t at = 0; at < size; at += 16 + call_log_get(content + at + 4, 4))
		if (content[at] == id)
			return (const char *)content + at + 16;
	return NULL;
}

START_TEST(a_text_of_any_length_comes_back_and_a_short_one_is_as_in_version_1_0)
{
	unsigned char content[4096];
	char text[EVENT_TEXT_BYTES];
	size_t length = (size_t)_i;
	size_t size = written_texts(length, text, content);

	if (length < 160) {
		ck_assert_ptr_null(column_bytes(content, size, 45));
		ck_assert_mem_eq(column_bytes(content, size, 44), text, 160);
	} else {
		ck_assert_mem_eq(column_bytes(content, size, 45), text, length);
	}
}
END_TEST

START_TEST(a_reader_of_version_1_0_gets_whole_words_of_a_long_text)
{
	unsigned char content[4096];
	char text[EVENT_TEXT_BYTES];
	const char *known;

	known = column_bytes(content, written_texts(200, text, content), 44);
	ck_assert_uint_eq(strnlen(known, 160), 151 + 3);
	ck_assert_mem_eq(known, text, 151);
	ck_assert_str_eq(known + 151, "...");
	ck_assert_int_eq(text[151], ' ');
}
END_TEST

/* Files that earlier versions wrote must be read for ever: this one is of version 1.0, made by
 * make_log seed=42 ranks=3 passes=2 calls=20 block=16 rescue_seq=21 rescue_stuck=1 rescue_lost=2,
 * its rank 1. */
START_TEST(the_golden_file_of_version_1_0_is_read)
{
	const char *srcdir = getenv("top_srcdir");
	struct log_contents contents = {0};
	const struct call_record *rescued;
	const char *reason = "";
	char golden[600];

	snprintf(golden, sizeof(golden), "%s/tests/data/call_log_1.0.belay", srcdir ? srcdir : ".");
	ck_assert_msg(!log_contents_read(&contents, golden, &reason), "%s: %s", golden, reason);
	ck_assert_uint_eq(contents.calls_count, 40);
	ck_assert_uint_eq(contents.info.nranks, 3);
	ck_assert_uint_eq(contents.damage_count, 0);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	for (size_t i = 0; i < 40; i++) {
		ck_assert_uint_eq(log_contents_call(&contents, i)->seq, i + 1);
		ck_assert_uint_eq(log_contents_call(&contents, i)->index, i % 20);
	}
	rescued = log_contents_call(&contents, 20);
	ck_assert_uint_eq(rescued->flags, CALL_IN_PLACE | CALL_RESCUED | CALL_LATE);
	ck_assert_uint_eq(rescued->arrival_ns[2], CALL_ARRIVAL_NONE);
	ck_assert_uint_eq(rescued->duration_ns, 10900000);
	log_contents_free(&contents);
}
END_TEST

/* Files ------------------------------------------------------------------------------------ */

START_TEST(files_follow_each_other_and_the_oldest_go)
{
	struct log_scenario scenario = LOG_SCENARIO_INIT;
	struct log_contents contents = {0};
	struct log_result result;

	scenario.ranks = 2;
	scenario.passes = 100;
	scenario.block = 100;
	scenario.file_bytes = 8192;
	scenario.keep = 3;
	ck_assert_int_eq(log_generate(dir, &scenario, NULL, &result), 0);
	ck_assert_int_eq(log_contents_read_rank(&contents, dir, result.comm_id, 0), 3);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	ck_assert_uint_eq(contents.damage_count, 0);
	/* The newest records, without a gap where files meet. */
	ck_assert_uint_gt(contents.calls_count, 500);
	for (size_t i = 1; i < contents.calls_count; i++)
		ck_assert_uint_eq(log_contents_call(&contents, i)->seq,
				  log_contents_call(&contents, i - 1)->seq + 1);
	ck_assert_uint_eq(log_contents_call(&contents, contents.calls_count - 1)->seq, 12200);
	log_contents_free(&contents);
}
END_TEST

START_TEST(a_file_of_another_run_is_never_touched)
{
	struct log_scenario scenario = LOG_SCENARIO_INIT;
	struct log_contents contents = {0};
	struct log_result result;

	scenario.ranks = 1;
	scenario.passes = 3;
	scenario.keep = 1;
	for (int run = 0; run < 3; run++)
		ck_assert_int_eq(log_generate(dir, &scenario, NULL, &result), 0);
	ck_assert_int_eq(log_contents_read_rank(&contents, dir, result.comm_id, 0), 3);
	ck_assert_uint_eq(contents.calls_count, 3 * 366);
	log_contents_free(&contents);
}
END_TEST

START_TEST(only_the_owner_can_read_a_log)
{
	struct made_log log = {.nranks = 2, .nblocks = 1, .block_records = 20};
	struct stat stat;
	char folder[600];

	make_log(&log, 15);
	ck_assert_int_eq(lstat(path, &stat), 0);
	ck_assert_uint_eq(stat.st_mode & 0777, 0600);
	snprintf(folder, sizeof(folder), "%s/%s", dir, COMM_ID);
	ck_assert_int_eq(lstat(folder, &stat), 0);
	ck_assert_uint_eq(stat.st_mode & 0777, 0700);
	free_log(&log);
}
END_TEST

/* Memory ----------------------------------------------------------------------------------- */

START_TEST(the_encoder_survives_every_allocation_failure)
{
	struct call_log_encoder *encoder = NULL;
	int status = -1, n;

	for (n = 0; n < 100 && status; n++) {
		fail_alloc_at(n);
		status = call_log_encoder_create(4, 64, &encoder);
		fail_alloc_at(-1);
		if (status) {
			ck_assert_int_eq(status, BELAY_E_NO_MEMORY);
			ck_assert_ptr_null(encoder);
		}
	}
	ck_assert_int_gt(n, 1);
	ck_assert_int_lt(n, 100);
	call_log_encoder_free(encoder);
}
END_TEST

START_TEST(the_reader_survives_every_allocation_failure)
{
	struct made_log log = {.nranks = 2, .nblocks = 2, .block_records = 20};
	struct call_log_reader *reader = NULL;
	struct call_log_batch batch;
	const char *reason;
	int status = -1, n;

	make_log(&log, 16);
	for (n = 0; n < 100 && status; n++) {
		fail_alloc_at(n);
		status = call_log_reader_open(path, 0, &reader, &reason);
		fail_alloc_at(-1);
		if (status) {
			ck_assert_int_eq(status, BELAY_E_NO_MEMORY);
			ck_assert_ptr_null(reader);
		}
	}
	ck_assert_int_gt(n, 1);
	/* A failure in mid-file loses nothing: the same block comes when asked again. */
	for (status = -1, n = 0; n < 100 && status; n++) {
		fail_alloc_at(n);
		status = call_log_reader_next(reader, &batch);
		fail_alloc_at(-1);
		ck_assert(!status || status == BELAY_E_NO_MEMORY);
	}
	ck_assert_int_gt(n, 1);
	ck_assert_uint_eq(batch.count, 20);
	call_log_reader_close(reader);
	free_log(&log);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("call_log");
	TCase *c = tcase_create("call_log");

	tcase_set_timeout(c, getenv("BELAY_TESTS_LONG") ? 300 : 60);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_loop_test(c, every_record_comes_back_exactly, 0,
			    (int)(RANK_COUNTS * RECORD_STYLES));
	tcase_add_loop_test(c, a_block_may_hold_one_record_or_thousands, 0, 2);
	tcase_add_test(c, times_in_larger_ticks_are_rounded_down_and_no_more);
	tcase_add_test(c, zstd_itself_accepts_the_file);
	tcase_add_test(c, a_cut_anywhere_in_the_last_two_blocks_loses_no_more_than_it_cuts);
	tcase_add_test(c, a_flipped_bit_loses_its_block_and_says_so);
	tcase_add_test(c, reading_goes_on_after_a_hole_and_counts_what_was_in_it);
	tcase_add_test(c, a_whole_block_that_vanished_is_missed);
	tcase_add_test(c, logs_in_one_file_are_told_apart_wherever_the_first_was_cut);
	tcase_add_test(c, a_log_twice_in_one_file_is_one_log);
	tcase_add_loop_test(c, impossible_sizes_are_refused_even_with_a_right_checksum, 0, 7);
	tcase_add_test(c, what_is_no_call_log_is_refused_with_a_reason);
	tcase_add_test(c, a_later_major_version_is_refused_by_name);
	tcase_add_test(c, a_later_minor_version_is_read_and_the_unknown_stepped_over);
	tcase_add_loop_test(c, a_text_of_any_length_comes_back_and_a_short_one_is_as_in_version_1_0,
			    0, EVENT_TEXT_BYTES);
	tcase_add_test(c, a_reader_of_version_1_0_gets_whole_words_of_a_long_text);
	tcase_add_test(c, the_golden_file_of_version_1_0_is_read);
	tcase_add_test(c, files_follow_each_other_and_the_oldest_go);
	tcase_add_test(c, a_file_of_another_run_is_never_touched);
	tcase_add_test(c, only_the_owner_can_read_a_log);
	tcase_add_test(c, the_encoder_survives_every_allocation_failure);
	tcase_add_test(c, the_reader_survives_every_allocation_failure);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
