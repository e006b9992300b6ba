/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_data.h"

#include <stdlib.h>
#include <string.h>

/* Elements combined at a time: fits a first-level cache. */
#define BLOCK 1024

uint64_t data_mix(uint64_t value)
{
	value += UINT64_C(0x9e3779b97f4a7c15);
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

float data_from_bf16(uint16_t bits)
{
	return float_of((uint32_t)bits << 16);
}

uint16_t data_to_bf16(float value)
{
	uint32_t bits = bits_of(value);

	if (value != value)
		return 0x7fc0u;
	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float data_from_f16(uint16_t bits)
{
	uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
	uint32_t rest = bits & 0x7fffu;

	if (rest < 0x400u) /* zero or subnormal: units of 2^-24; exact */
		return float_of(sign | bits_of((float)rest * 0x1p-24f));
	if (rest >= 0x7c00u)
		return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
	return float_of(sign | ((rest << 13) + (112u << 23)));
}

/* Magnitudes below the smallest normal number become a multiple of 2^-24. */
static uint32_t f16_subnormal(uint32_t magnitude)
{
	/* The last place of a float32 in [1/2, 1) is 2^-24, so this sum rounds for us, ties to
	 * even. */
	return bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
}

uint16_t data_to_f16(float value)
{
	uint32_t bits = bits_of(value);
	uint32_t sign = bits >> 16 & 0x8000u;
	uint32_t magnitude = bits & 0x7fffffffu;

	if (magnitude > 0x7f800000u)
		return 0x7e00u;
	if (magnitude >= bits_of(65520.0f)) /* half a last place above the largest */
		return (uint16_t)(sign | 0x7c00u);
	if (magnitude < bits_of(0x1p-14f))
		return (uint16_t)(sign | f16_subnormal(magnitude));
	magnitude -= 112u << 23;
	return (uint16_t)(sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

/* 2^-8 to 2^8 with a sign; one in 256 is a zero or a subnormal. Both the top and the low bits of
 * `random` serve. */
static float ordinary_f32(uint64_t random)
{
	uint32_t sign = (uint32_t)(random >> 32) & 0x80000000u;
	uint32_t fraction = (uint32_t)random & 0x7fffffu;
	uint32_t exponent = 119u + ((uint32_t)(random >> 24) & 15u);

	if ((random >> 40 & 255u) == 0)
		return float_of(sign | (random >> 48 & 1u ? fraction : 0u));
	return float_of(sign | exponent << 23 | fraction);
}

static double ordinary_f64(uint64_t random)
{
	uint64_t exponent = 1015u + (random >> 52 & 15u);
	uint64_t bits = (random & UINT64_C(0x800fffffffffffff)) | exponent << 52;
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint16_t ordinary_16(enum belay_dtype dtype, uint64_t random)
{
	float value = ordinary_f32(random);

	return dtype == BELAY_BF16 ? data_to_bf16(value) : data_to_f16(value);
}

static void put_element(enum belay_dtype dtype, uint64_t random, void *at)
{
	float f32;
	double f64;
	uint16_t bits;

	switch (dtype) {
	case BELAY_F32:
		f32 = ordinary_f32(random);
		memcpy(at, &f32, sizeof(f32));
		break;
	case BELAY_F64:
		f64 = ordinary_f64(random);
		memcpy(at, &f64, sizeof(f64));
		break;
	case BELAY_F16:
	case BELAY_BF16:
		bits = ordinary_16(dtype, random);
		memcpy(at, &bits, sizeof(bits));
		break;
	case BELAY_I32:
	case BELAY_I64:
	case BELAY_U8:
	case BELAY_I8:
		memcpy(at, &random, belay_dtype_bytes(dtype));
		break;
	default: /* belay_allreduce() knows no others */
		break;
	}
}

void data_input(enum belay_dtype dtype, uint64_t seed, int rank, size_t first, size_t count,
		void *ret_elements)
{
	uint64_t key = data_mix(seed + (uint64_t)rank + 1);
	size_t bytes = belay_dtype_bytes(dtype);
	char *at = ret_elements;

	for (size_t i = 0; i < count; i++)
		put_element(dtype, data_mix(key ^ (first + i)), at + i * bytes);
}

/* max and min: NaN if either is, and -0 is less than +0. */
#define DEFINE_EXTREMES(type, suffix)                                                              \
	static type greater_##suffix(type a, type b)                                               \
	{                                                                                          \
		if (a != a || b != b)                                                              \
			return a + b;                                                              \
		if (a == b)                                                                        \
			return __builtin_signbit(a) ? b : a;                                       \
		return a > b ? a : b;                                                              \
	}                                                                                          \
	static type lesser_##suffix(type a, type b)                                                \
	{                                                                                          \
		if (a != a || b != b)                                                              \
			return a + b;                                                              \
		if (a == b)                                                                        \
			return __builtin_signbit(a) ? a : b;                                       \
		return a < b ? a : b;                                                              \
	}
DEFINE_EXTREMES(float, f32)
DEFINE_EXTREMES(double, f64)

float data_combine_f32(enum belay_op op, float total, float with)
{
	switch (op) {
	case BELAY_SUM:
		return total + with;
	case BELAY_MAX:
		return greater_f32(total, with);
	case BELAY_MIN:
		return lesser_f32(total, with);
	case BELAY_PROD:
		return total * with;
	default:
		return total;
	}
}

static double combine_f64(enum belay_op op, double total, double with)
{
	switch (op) {
	case BELAY_SUM:
		return total + with;
	case BELAY_MAX:
		return greater_f64(total, with);
	case BELAY_MIN:
		return lesser_f64(total, with);
	case BELAY_PROD:
		return total * with;
	default:
		return total;
	}
}

/* All integer types are kept as int64_t; sums and products wrap when cut to the type. */
static int64_t combine_integer(enum belay_op op, int64_t total, int64_t with)
{
	switch (op) {
	case BELAY_SUM:
		return (int64_t)((uint64_t)total + (uint64_t)with);
	case BELAY_MAX:
		return total > with ? total : with;
	case BELAY_MIN:
		return total < with ? total : with;
	case BELAY_PROD:
		return (int64_t)((uint64_t)total * (uint64_t)with);
	default:
		return total;
	}
}

/* What a block is kept as between ranks: all ranks' elements are widened, combined, and narrowed
 * once. */
union wide {
	float f32;
	double f64;
	int64_t integer;
};

static union wide widen(enum belay_dtype dtype, const void *at)
{
	union wide wide = {.integer = 0};
	uint16_t bits;
	int32_t i32;

	switch (dtype) {
	case BELAY_F32:
		memcpy(&wide.f32, at, sizeof(wide.f32));
		break;
	case BELAY_F64:
		memcpy(&wide.f64, at, sizeof(wide.f64));
		break;
	case BELAY_F16:
	case BELAY_BF16:
		memcpy(&bits, at, sizeof(bits));
		wide.f32 = dtype == BELAY_BF16 ? data_from_bf16(bits) : data_from_f16(bits);
		break;
	case BELAY_I32:
		memcpy(&i32, at, sizeof(i32));
		wide.integer = i32;
		break;
	case BELAY_I64:
		memcpy(&wide.integer, at, sizeof(wide.integer));
		break;
	case BELAY_U8:
		wide.integer = *(const uint8_t *)at;
		break;
	case BELAY_I8:
		wide.integer = *(const int8_t *)at;
		break;
	default:
		break;
	}
	return wide;
}

/* There is one NaN for each type. */
static union wide canonical(enum belay_dtype dtype, union wide wide)
{
	if (dtype == BELAY_F32 && wide.f32 != wide.f32)
		wide.f32 = float_of(0x7fc00000u);
	if (dtype == BELAY_F64 && wide.f64 != wide.f64)
		wide.integer = INT64_C(0x7ff8000000000000);
	return wide;
}

static void narrow(enum belay_dtype dtype, union wide wide, void *at)
{
	uint16_t bits;

	switch (dtype) {
	case BELAY_F32:
	case BELAY_F64:
	case BELAY_I64:
		wide = canonical(dtype, wide);
		memcpy(at, &wide, belay_dtype_bytes(dtype));
		break;
	case BELAY_F16:
	case BELAY_BF16:
		bits = dtype == BELAY_BF16 ? data_to_bf16(wide.f32) : data_to_f16(wide.f32);
		memcpy(at, &bits, sizeof(bits));
		break;
	case BELAY_I32:
	case BELAY_U8:
	case BELAY_I8:
		/* Cutting off the high bytes is the wrap; the low ones come first on all we build
		 * for. */
		memcpy(at, &wide.integer, belay_dtype_bytes(dtype));
		break;
	default:
		break;
	}
}

static union wide combine(enum belay_dtype dtype, enum belay_op op, union wide total,
			  union wide with)
{
	switch (dtype) {
	case BELAY_F32:
	case BELAY_F16:
	case BELAY_BF16:
		total.f32 = data_combine_f32(op, total.f32, with.f32);
		break;
	case BELAY_F64:
		total.f64 = combine_f64(op, total.f64, with.f64);
		break;
	case BELAY_I32:
	case BELAY_I64:
	case BELAY_U8:
	case BELAY_I8:
		total.integer = combine_integer(op, total.integer, with.integer);
		break;
	default:
		break;
	}
	return total;
}

/* Widens one rank's block and combines it into `totals`; rank 0 starts them. */
static void add_rank(enum belay_dtype dtype, enum belay_op op, int rank, const char *block,
		     size_t count, union wide *totals)
{
	size_t bytes = belay_dtype_bytes(dtype);

	for (size_t i = 0; i < count; i++) {
		union wide element = widen(dtype, block + i * bytes);

		totals[i] = rank == 0 ? element : combine(dtype, op, totals[i], element);
	}
}

void data_expected(enum belay_dtype dtype, enum belay_op op, uint64_t seed, int nranks,
		   size_t first, size_t count, void *ret_elements)
{
	size_t bytes = belay_dtype_bytes(dtype);
	union wide totals[BLOCK];
	char block[BLOCK * sizeof(union wide)];
	char *at = ret_elements;

	for (size_t done = 0; done < count; done += BLOCK) {
		size_t n = count - done < BLOCK ? count - done : BLOCK;

		for (int rank = 0; rank < nranks; rank++) {
			data_input(dtype, seed, rank, first + done, n, block);
			add_rank(dtype, op, rank, block, n, totals);
		}
		for (size_t i = 0; i < n; i++)
			narrow(dtype, totals[i], at + (done + i) * bytes);
	}
}

/* ---- another order --------------------------------------------------------------------------- */

/* The unit roundoff; 0: of no floating type. */
static double roundoff(enum belay_dtype dtype)
{
	switch (dtype) {
	case BELAY_BF16:
		return 0x1p-8;
	case BELAY_F16:
		return 0x1p-11;
	case BELAY_F32:
		return 0x1p-24;
	case BELAY_F64:
		return 0x1p-53;
	default:
		return 0;
	}
}

static double as_double(enum belay_dtype dtype, const void *at)
{
	union wide wide = widen(dtype, at);

	return dtype == BELAY_F64 ? wide.f64 : (double)wide.f32;
}

/* What the ranks' elements give, and the sum or product of their magnitudes. */
struct exact {
	double value, magnitude;
};

static void add_exactly(enum belay_op op, double with, struct exact *exact)
{
	double magnitude = with < 0 ? -with : with;

	exact->value = op == BELAY_SUM ? exact->value + with : exact->value * with;
	exact->magnitude =
		op == BELAY_SUM ? exact->magnitude + magnitude : exact->magnitude * magnitude;
}

/* Each of n roundings, of operands and of results, is off by the roundoff of what has come
 * together, or by a subnormal's last place. */
static int is_within(enum belay_dtype dtype, int nranks, const struct exact *exact, double is)
{
	double bound = 2.0 * nranks * roundoff(dtype) * exact->magnitude + 0x1p-24;
	double error = is - exact->value;

	/* What overflows in one order may do so in none, or in all. */
	if (is != is || is - is != 0)
		return exact->magnitude > 60000;
	return error <= bound && -error <= bound;
}

static void combine_exactly(enum belay_dtype dtype, enum belay_op op, uint64_t seed, int nranks,
			    size_t first, size_t n, struct exact *ret_exact)
{
	size_t bytes = belay_dtype_bytes(dtype);
	char block[BLOCK * sizeof(union wide)];
	double start = op == BELAY_SUM ? 0 : 1;

	for (size_t i = 0; i < n; i++)
		ret_exact[i] = (struct exact){start, start};
	for (int rank = 0; rank < nranks; rank++) {
		data_input(dtype, seed, rank, first, n, block);
		for (size_t i = 0; i < n; i++)
			add_exactly(op, as_double(dtype, block + i * bytes), &ret_exact[i]);
	}
}

int data_is_close(enum belay_dtype dtype, enum belay_op op, uint64_t seed, int nranks, size_t first,
		  size_t count, const void *elements)
{
	size_t bytes = belay_dtype_bytes(dtype);
	const char *at = elements;
	struct exact exact[BLOCK];

	if (roundoff(dtype) == 0 || (op != BELAY_SUM && op != BELAY_PROD))
		return 0;
	for (size_t done = 0; done < count; done += BLOCK) {
		size_t n = count - done < BLOCK ? count - done : BLOCK;

		combine_exactly(dtype, op, seed, nranks, first + done, n, exact);
		for (size_t i = 0; i < n; i++) {
			double is = as_double(dtype, at + (done + i) * bytes);

			if (!is_within(dtype, nranks, &exact[i], is))
				return 0;
		}
	}
	return 1;
}
