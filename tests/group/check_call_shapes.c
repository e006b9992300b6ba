/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Right bits for every shape of a healthy call: counts, alignment, in place, limits, region
 * buffers, special values, types, numbers of ranks, ranks as threads, all ranks on one core.
 * docs/faults.md: rows 19 and 20. rank_calls.c compares every element with the rank-order sum and
 * looks at guard bytes.
 */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fault_variants.h"

static void run(struct rank_spec spec, struct rank_group *ret_group)
{
	spec.cap_ms = 120000;
	rank_group_run(&spec, ret_group);
}

/* ---- counts, alignment, limits --------------------------------------------------------------- */

#define LIMIT 1024 /* floats in a slot of 4096 bytes */

static const size_t counts[] = {0,
				1,
				2,
				3,
				5,
				7,
				15,
				16,
				17,
				31,
				32,
				33,
				63,
				65,
				255,
				257,
				LIMIT - 1,
				LIMIT,
				LIMIT + 1,
				2 * LIMIT - 1,
				2 * LIMIT,
				2 * LIMIT + 1,
				5 * LIMIT + 7};
static const size_t shifts[] = {0, 4, 8, 12, 1, 2, 3};

#define COUNTS (sizeof(counts) / sizeof(counts[0]))
#define SHIFTS (sizeof(shifts) / sizeof(shifts[0]))

static void call_all_shapes(struct rank_seat *seat)
{
	seat->config.symm_max = "4K";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	for (size_t c = 0; c < COUNTS; c++) {
		for (size_t s = 0; s < SHIFTS; s++) {
			struct call_shape shape = {.count = counts[c]};

			/* In the second half of the shifts rank 0 alone is out of line: F61, the
			 * same path. */
			if (s < 4 || seat->rank == 0) {
				shape.send_shift = shifts[s];
				shape.recv_shift = shifts[(s * 3 + c) % SHIFTS];
			}
			shape.in_place = (c + s) & 1;
			RANK_EXPECT(seat, rank_call_shaped(seat, &shape));
		}
	}
	rank_destroy(seat);
}

static const struct rank_spec groups[] = {
	{.nranks = 4}, {.nranks = 2},
	{.nranks = 1}, {.nranks = 3, .threads = true},
	{.nranks = 8}, {.nranks = 4, .one_core = true},
	{.nranks = 5}, {.nranks = 8, .one_core = true},
};

static int group_count(void)
{
	return rank_tests_long() ? (int)(sizeof(groups) / sizeof(groups[0])) : 4;
}

/* Row 20; F61, F62, F65, F67. */
FAULT_TEST(any_count_and_alignment_gives_the_right_bytes_and_no_others, "20 F61 F62 F65 F67")
{
	struct rank_spec spec = groups[_i];
	struct rank_group group;

	spec.scenario = call_all_shapes;
	run(spec, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].calls, COUNTS * SHIFTS);
}
END_TEST

static void call_nothing(struct rank_seat *seat)
{
	struct belay_health health = {.size = sizeof(health)};

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT_STATUS(
		seat, belay_allreduce(NULL, NULL, 0, BELAY_BF16, BELAY_MAX, seat->comm, NULL), 0);
	RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
	RANK_EXPECT(seat, health.seq == 1 && health.done_seq == 1);
	RANK_EXPECT(seat, rank_call(seat, 3));
	rank_destroy(seat);
}

/* F65. */
FAULT_TEST(a_call_of_no_elements_is_a_call, "20 F61 F62 F65 F67")
{
	struct rank_group group;

	run((struct rank_spec){.nranks = 4, .scenario = call_nothing}, &group);
	assert_all_well(&group);
}
END_TEST

/* Large and small in turn; a slow rank is still leaving one when a fast one is in the next. */
static void alternate(struct rank_seat *seat)
{
	unsigned random = (unsigned)seat->rank * 7919 + 1;
	int calls = rank_tests_long() ? 20000 : 400;

	seat->config.symm_max = "4K";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	for (int i = 0; i < calls && !seat->report->failed; i++) {
		uint64_t until;

		random = random * 1103515245 + 12345;
		until = rank_now_ns() + (random >> 16) % 200 * 1000;
		while (i % 4 == 0 && rank_now_ns() < until)
			;
		RANK_EXPECT(seat, rank_call(seat, i % 2 ? 3 * LIMIT + 1 : (size_t)(i % 64)));
	}
	rank_destroy(seat);
}

/* F04, F12, F43, F67: one-shot and two-shot and several turns, in quick succession. */
FAULT_TEST(calls_in_quick_succession_never_mix, "F04 F12 F38 F43")
{
	struct rank_spec spec = groups[_i];
	struct rank_group group;

	spec.scenario = alternate;
	run(spec, &group);
	assert_all_well(&group);
}
END_TEST

/* ---- region buffers -------------------------------------------------------------------------- */

static void *allocate(struct rank_seat *seat, size_t bytes)
{
	void *buffer = NULL;

	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, bytes, &buffer), 0);
	return buffer;
}

/* All ranks, only odd ranks, or only the outputs in the region; and parts of buffers. */
static void call_in_regions(struct rank_seat *seat)
{
	char *a, *b;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	a = allocate(seat, 100000);
	b = allocate(seat, 100000);
	RANK_EXPECT(seat, (uintptr_t)a % 4096 == 0 && a[0] == 0 && a[99999] == 0);
	for (int i = 0; i < 60; i++) {
		static const size_t sizes[] = {1, 300, 4000, 10000, 16384, 24000};
		char *own = aligned_alloc(64, 100032);
		struct call_shape shape = {.count = sizes[i % 6], .in_place = i % 5 == 0};
		bool region = i % 3 == 0 || (i % 3 == 1 && seat->rank & 1);

		shape.send = region ? a : own;
		shape.recv = region || i % 3 == 2 ? b : own + 64;
		if (!region && i % 3 != 2)
			shape.in_place = true;
		if (shape.in_place)
			shape.recv = shape.send;
		/* A buffer that begins inside a region buffer, on a line and beside it. */
		if (region && i % 4 == 3) {
			shape.send += i % 8 == 3 ? 64 : 4;
			shape.recv = shape.in_place ? shape.send : shape.recv + 64;
			shape.count = shape.count > 16384 ? 16384 : shape.count;
		}
		RANK_EXPECT(seat, rank_call_shaped(seat, &shape));
		free(own);
	}
	RANK_EXPECT_STATUS(seat, belay_buffer_free(seat->comm, a), 0);
	RANK_EXPECT_STATUS(seat, belay_buffer_free(seat->comm, a), BELAY_E_ARGUMENT);
	RANK_EXPECT_STATUS(seat, belay_buffer_free(seat->comm, b + 64), BELAY_E_ARGUMENT);
	RANK_EXPECT_STATUS(seat, belay_buffer_free(seat->comm, b), 0);
	rank_destroy(seat);
}

FAULT_TEST(region_buffers_give_the_same_bits_whoever_uses_them, "F55")
{
	struct rank_spec spec = groups[_i];
	struct rank_group group;

	spec.scenario = call_in_regions;
	run(spec, &group);
	assert_all_well(&group);
}
END_TEST

static void exhaust_the_region(struct rank_seat *seat)
{
	void *buffers[300], *none = seat;
	int count = 0, status = 0;

	seat->config.buffer_max = "1M";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, (1 << 20) + 1, &none),
			   BELAY_E_NO_MEMORY);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, SIZE_MAX, &none),
			   BELAY_E_NO_MEMORY);
	RANK_EXPECT(seat, none == seat);
	while (count < 300 && !status) {
		status = belay_buffer_alloc(seat->comm, 5000, &buffers[count]);
		count += status == 0;
	}
	RANK_EXPECT_STATUS(seat, status, BELAY_E_NO_MEMORY);
	RANK_EXPECT(seat, count == 128);
	RANK_EXPECT(seat, rank_call(seat, 100));
	RANK_EXPECT_STATUS(seat, belay_buffer_free(seat->comm, buffers[64]), 0);
	memset(buffers[63], 0xff, 5000);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, 8192, &none), 0);
	RANK_EXPECT(seat, none == buffers[64]);
	for (int i = 0; i < 8192; i++)
		RANK_EXPECT(seat, ((char *)none)[i] == 0);
	RANK_EXPECT(seat, rank_call(seat, 100));
	rank_destroy(seat); /* with all the others still allocated */
}

START_TEST(an_exhausted_region_is_an_error_and_nothing_worse)
{
	struct rank_group group;

	run((struct rank_spec){.nranks = 2, .scenario = exhaust_the_region}, &group);
	assert_all_well(&group);
}
END_TEST

/* ---- values ---------------------------------------------------------------------------------- */

static const uint32_t specials[] = {
	0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x7f800000,
	0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x7f7fffff, 0xff7fffff, 0x3f800000,
};

#define SPECIALS (sizeof(specials) / sizeof(specials[0]))

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static float from_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Element (who, value): rank `who` has the special one, the others a small number. */
static uint32_t special_input(int rank, size_t i)
{
	size_t who = i / SPECIALS;

	return (size_t)rank == who ? specials[i % SPECIALS] : 0x80000000u;
}

static void call_with_specials(struct rank_seat *seat)
{
	size_t count = SPECIALS * (size_t)seat->nranks;
	float in[SPECIALS * 8], out[SPECIALS * 8];

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	for (size_t i = 0; i < count; i++)
		in[i] = from_bits(special_input(seat->rank, i));
	RANK_EXPECT_STATUS(
		seat, belay_allreduce(in, out, count, BELAY_F32, BELAY_SUM, seat->comm, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		/* volatile: the sum is made at run time, in rank order. */
		volatile float sum = from_bits(special_input(0, i));

		for (int r = 1; r < seat->nranks; r++)
			sum += from_bits(special_input(r, i));
		if (isnan(sum))
			RANK_EXPECT(seat, isnan(out[i]));
		else
			RANK_EXPECT(seat, bits_of(out[i]) == bits_of(sum));
	}
	memcpy(seat->report->text, out, count * sizeof(float));
	rank_destroy(seat);
}

/* Row 19; F27. */
FAULT_TEST(special_values_give_the_same_bits_on_all_ranks_and_the_rank_order_sum, "19 F27")
{
	struct rank_spec spec = {.nranks = _i ? 8 : 4, .scenario = call_with_specials};
	struct rank_group group;

	run(spec, &group);
	for (int r = 1; r < spec.nranks; r++)
		ck_assert_mem_eq(group.report[r].text, group.report[0].text,
				 SPECIALS * (size_t)spec.nranks * sizeof(float));
}
END_TEST

static uint16_t bf16_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)(bits >> 16);
}

/* 75000 (to bf16: 74752) on one rank and 1, 2, 3 ... on the others: a sum in bf16 would lose all of
 * these. */
static void call_with_one_giant(struct rank_seat *seat)
{
	uint16_t in = bf16_of(seat->rank == 2 ? 74752.0f : 96.0f), out = 0;
	uint16_t large = bf16_of(3e38f);
	float exact = 74752.0f + 96.0f * (float)(seat->nranks - 1);
	float got;
	uint32_t bits;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT_STATUS(
		seat, belay_allreduce(&in, &out, 1, BELAY_BF16, BELAY_SUM, seat->comm, NULL), 0);
	bits = (uint32_t)out << 16;
	memcpy(&got, &bits, sizeof(got));
	/* One unit in the last place is 512 here; half of it is one rounding. */
	RANK_EXPECT(seat, fabsf(got - exact) <= 256.0f);
	in = seat->rank == 1 ? large : 0;
	RANK_EXPECT_STATUS(
		seat, belay_allreduce(&in, &out, 1, BELAY_BF16, BELAY_SUM, seat->comm, NULL), 0);
	RANK_EXPECT(seat, out == large); /* F69: no narrower type on the way */
	rank_destroy(seat);
}

/* F37, F69. */
FAULT_TEST(a_16_bit_sum_is_rounded_once, "F37 F69")
{
	struct rank_group group;

	run((struct rank_spec){.nranks = 8, .scenario = call_with_one_giant}, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 255);
}
END_TEST

/* Integers of each width wrap. */
static void call_with_integers(struct rank_seat *seat)
{
	int32_t a[3] = {seat->rank, INT32_MAX, -7}, b[3];
	int64_t c[2] = {(int64_t)1 << 40, seat->rank}, d[2];
	uint8_t e[3] = {200, (uint8_t)seat->rank, 1}, f[3];
	int n = seat->nranks;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT_STATUS(seat, belay_allreduce(a, b, 3, BELAY_I32, BELAY_SUM, seat->comm, NULL),
			   0);
	RANK_EXPECT(seat, b[0] == n * (n - 1) / 2 && b[2] == -7 * n);
	RANK_EXPECT(seat, b[1] == (int32_t)((uint32_t)INT32_MAX * (uint32_t)n));
	RANK_EXPECT_STATUS(seat, belay_allreduce(c, d, 2, BELAY_I64, BELAY_MAX, seat->comm, NULL),
			   0);
	RANK_EXPECT(seat, d[0] == (int64_t)1 << 40 && d[1] == n - 1);
	RANK_EXPECT_STATUS(seat, belay_allreduce(e, f, 3, BELAY_U8, BELAY_SUM, seat->comm, NULL),
			   0);
	RANK_EXPECT(seat, f[0] == (uint8_t)(200 * n) && f[2] == (uint8_t)n);
	RANK_EXPECT_STATUS(seat, belay_allreduce(e, f, 3, BELAY_U8, BELAY_PROD, seat->comm, NULL),
			   0);
	RANK_EXPECT(seat, f[1] == 0 && f[2] == 1);
	rank_destroy(seat);
}

START_TEST(integers_wrap_and_operations_are_what_they_say)
{
	struct rank_group group;

	run((struct rank_spec){.nranks = 4, .scenario = call_with_integers}, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 15);
}
END_TEST

/* ---- many ranks ------------------------------------------------------------------------------ */

START_TEST(sixty_four_ranks_work_and_find_a_lost_write)
{
	struct rank_group group;
	struct work_plan plan = {.passes = 2,
				 .calls = 3,
				 .count = 3000,
				 .symm_max = "16K",
				 .fault = "rank=33,seq=4,kind=drop"};

	run(
		(struct rank_spec){
			.nranks = 64, .scenario = rank_life, .plan = &plan, .threads = _i == 1},
		&group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[63].statistics.rescued_seqs, 1);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("call shapes");
	TCase *c = tcase_create("shapes");
	int n = group_count();

	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c, any_count_and_alignment_gives_the_right_bytes_and_no_others, 0, n);
	tcase_add_test(c, a_call_of_no_elements_is_a_call);
	tcase_add_loop_test(c, calls_in_quick_succession_never_mix, 0, n);
	tcase_add_loop_test(c, region_buffers_give_the_same_bits_whoever_uses_them, 0, n);
	tcase_add_test(c, an_exhausted_region_is_an_error_and_nothing_worse);
	suite_add_tcase(s, c);

	c = tcase_create("values");
	tcase_set_timeout(c, 600);
	tcase_add_loop_test(
		c, special_values_give_the_same_bits_on_all_ranks_and_the_rank_order_sum, 0, 2);
	tcase_add_test(c, a_16_bit_sum_is_rounded_once);
	tcase_add_test(c, integers_wrap_and_operations_are_what_they_say);
	suite_add_tcase(s, c);

	c = tcase_create("many ranks");
	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c, sixty_four_ranks_work_and_find_a_lost_write, 0,
			    rank_tests_long() ? 2 : 1);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
