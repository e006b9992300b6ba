/* SPDX-License-Identifier: Apache-2.0 */
/* belay-bench's own idea of a right result: conversions, the order of ranks, wrapping, -0 and
 * NaN. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "tools/bench/bench_data.h"

#define SEED 11

START_TEST(f16_survives_the_way_to_f32_and_back)
{
	for (uint32_t bits = 0; bits < 0x10000u; bits++) {
		float value = data_from_f16((uint16_t)bits);
		uint16_t back = data_to_f16(value);

		if (value != value)
			ck_assert_uint_eq(back, 0x7e00u);
		else
			ck_assert_uint_eq(back, bits);
	}
}
END_TEST

/* clang-format off */
static const struct {
	const char *rule;
	float value;
	uint16_t f16, bf16;
} rounded[] = {
	{ "one", 1.0f, 0x3c00, 0x3f80 },
	{ "minus zero", -0.0f, 0x8000, 0x8000 },
	{ "a tie goes to even, down", 1.0f + 0x1p-11f, 0x3c00, 0x3f80 },
	{ "above a tie", 1.0f + 0x1p-11f + 0x1p-20f, 0x3c01, 0x3f80 },
	{ "a tie goes to even, up", 1.0f + 0x3p-11f, 0x3c02, 0x3f80 },
	{ "a tie of bf16, down", 1.0f + 0x1p-8f, 0x3c04, 0x3f80 },
	{ "a tie of bf16, up", 1.0f + 0x3p-8f, 0x3c0c, 0x3f82 },
	{ "largest f16", 65504.0f, 0x7bff, 0x4780 },
	{ "just below half a place above it", 65519.99f, 0x7bff, 0x4780 },
	{ "half a place above it", 65520.0f, 0x7c00, 0x4780 },
	{ "infinity", -INFINITY, 0xfc00, 0xff80 },
	{ "smallest f16", 0x1p-24f, 0x0001, 0x3380 },
	{ "half of it, a tie", 0x1p-25f, 0x0000, 0x3300 },
	{ "largest subnormal f16 rounds up to the smallest normal", 0x1p-14f - 0x1p-26f, 0x0400, 0x3880 },
	{ "smallest f32", 0x1p-149f, 0x0000, 0x0000 },
	{ "a subnormal bf16 is kept", 0x1p-130f, 0x0000, 0x0008 },
	{ "overflow of bf16", 0x1.fffffep127f, 0x7c00, 0x7f80 },
};
/* clang-format on */

START_TEST(rounds_once_to_nearest_even)
{
	ck_assert_msg(data_to_f16(rounded[_i].value) == rounded[_i].f16, "%s: f16 %#x",
		      rounded[_i].rule, data_to_f16(rounded[_i].value));
	ck_assert_msg(data_to_bf16(rounded[_i].value) == rounded[_i].bf16, "%s: bf16 %#x",
		      rounded[_i].rule, data_to_bf16(rounded[_i].value));
}
END_TEST

START_TEST(max_and_min_order_the_zeros_and_keep_nan)
{
	ck_assert(!signbit(data_combine_f32(BELAY_MAX, -0.0f, 0.0f)));
	ck_assert(!signbit(data_combine_f32(BELAY_MAX, 0.0f, -0.0f)));
	ck_assert(signbit(data_combine_f32(BELAY_MIN, -0.0f, 0.0f)));
	ck_assert(signbit(data_combine_f32(BELAY_MIN, 0.0f, -0.0f)));
	ck_assert(isnan(data_combine_f32(BELAY_MAX, NAN, 1.0f)));
	ck_assert(isnan(data_combine_f32(BELAY_MIN, 1.0f, NAN)));
}
END_TEST

/* float32 sums in rank order, written out once more and simply. */
START_TEST(sums_f32_in_rank_order)
{
	float inputs[5][3000], expected[3000], reversed;
	int differs = 0;

	for (int rank = 0; rank < 5; rank++)
		data_input(BELAY_F32, SEED, rank, 7, 3000, inputs[rank]);
	data_expected(BELAY_F32, BELAY_SUM, SEED, 5, 7, 3000, expected);
	for (int i = 0; i < 3000; i++) {
		float sum = inputs[0][i];

		for (int rank = 1; rank < 5; rank++)
			sum += inputs[rank][i];
		ck_assert(memcmp(&sum, &expected[i], sizeof(sum)) == 0);
		reversed = inputs[4][i];
		for (int rank = 3; rank >= 0; rank--)
			reversed += inputs[rank][i];
		differs += reversed != sum;
	}
	/* The data can tell a wrong order. */
	ck_assert_int_gt(differs, 300);
}
END_TEST

START_TEST(wraps_integers)
{
	uint8_t inputs[3][2000], expected[2000];

	for (int rank = 0; rank < 3; rank++)
		data_input(BELAY_U8, SEED, rank, 0, 2000, inputs[rank]);
	data_expected(BELAY_U8, BELAY_PROD, SEED, 3, 0, 2000, expected);
	for (int i = 0; i < 2000; i++)
		ck_assert_uint_eq(expected[i],
				  (uint8_t)(inputs[0][i] * inputs[1][i] * inputs[2][i]));
}
END_TEST

/* What belay computes is near what it should be; a result that lacks one rank's part is not. */
START_TEST(only_results_within_rounding_are_close)
{
	enum belay_dtype dtype = _i == 0 ? BELAY_BF16 : _i == 1 ? BELAY_F16 : BELAY_F32;
	char full[256 * 4], lacking[256 * 4];

	data_expected(dtype, BELAY_SUM, 7, 4, 100, 256, full);
	data_expected(dtype, BELAY_SUM, 7, 3, 100, 256, lacking);
	ck_assert(data_is_close(dtype, BELAY_SUM, 7, 4, 100, 256, full));
	ck_assert(!data_is_close(dtype, BELAY_SUM, 7, 4, 100, 256, lacking));
	ck_assert(!data_is_close(BELAY_I32, BELAY_SUM, 7, 4, 100, 1, full));
	ck_assert(!data_is_close(dtype, BELAY_MAX, 7, 4, 100, 256, full));
}
END_TEST

START_TEST(a_stretch_equals_the_same_part_of_the_whole)
{
	enum belay_dtype dtype = (enum belay_dtype)_i;
	size_t bytes = belay_dtype_bytes(dtype);
	char whole[2100 * 8], part[2100 * 8];

	data_expected(dtype, BELAY_SUM, SEED, 3, 0, 2100, whole);
	data_expected(dtype, BELAY_SUM, SEED, 3, 1001, 77, part);
	ck_assert(memcmp(whole + 1001 * bytes, part, 77 * bytes) == 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("bench_data");
	TCase *t = tcase_create("bench_data");

	tcase_add_test(t, f16_survives_the_way_to_f32_and_back);
	tcase_add_loop_test(t, rounds_once_to_nearest_even, 0,
			    (int)(sizeof(rounded) / sizeof(rounded[0])));
	tcase_add_test(t, max_and_min_order_the_zeros_and_keep_nan);
	tcase_add_test(t, sums_f32_in_rank_order);
	tcase_add_test(t, wraps_integers);
	tcase_add_loop_test(t, only_results_within_rounding_are_close, 0, 3);
	tcase_add_loop_test(t, a_stretch_equals_the_same_part_of_the_whole, BELAY_F32,
			    BELAY_I8 + 1);
	suite_add_tcase(s, t);
	return s;
}

#include "check_main.h"
