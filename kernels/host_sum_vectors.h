/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template: the kernels of one instruction set, included once by the file of that set, which
 * defines before
 *
 *   HOST_SUM_WIDTH   bytes of a vector: 16, 32 or 64
 *   HOST_SUM_TARGET  the function attribute that lets the compiler use the set, or nothing
 *   HOST_SUM_NAME    the set's name, a string
 *
 * and, if the CPU converts half floats, HOST_SUM_HALF_FLOATS; it defines f16_widen() and f16_pack()
 * after. It also defines any_nan().
 *
 * The arithmetic is written once, on the compiler's vectors. Three steps stand between memory and
 * memory: widen (to the type that accumulates), combine (once a rank, in rank order), narrow (one
 * rounding, canonical NaN).
 */
#ifndef BELAY_KERNELS_HOST_SUM_VECTORS_H
#define BELAY_KERNELS_HOST_SUM_VECTORS_H

#include <string.h>

#include "kernels/host_sum_kernels.h"

#define VECTOR_OF(type) type __attribute__((vector_size(HOST_SUM_WIDTH)))
#define KERNEL		HOST_SUM_TARGET static
#define STEP		HOST_SUM_TARGET static HOST_SUM_INLINE

typedef VECTOR_OF(float) v_f32;
typedef VECTOR_OF(double) v_f64;
typedef VECTOR_OF(int32_t) v_i32;
typedef VECTOR_OF(uint32_t) v_u32;
typedef VECTOR_OF(int64_t) v_i64;
typedef VECTOR_OF(uint64_t) v_u64;
typedef VECTOR_OF(int8_t) v_i8;
typedef VECTOR_OF(uint8_t) v_u8; /* also: bytes of memory whose type is not known yet */

/* 16-bit floats, one vector of them, as float32. Which element is where is the affair of widen and
 * narrow. */
struct two_f32 {
	v_f32 first;
	v_f32 second;
};

STEP v_u8 vector_load(const unsigned char *from)
{
	v_u8 v;

	memcpy(&v, from, sizeof(v));
	return v;
}

STEP void vector_store(unsigned char *to, v_u8 v)
{
	memcpy(to, &v, sizeof(v));
}

STEP v_u32 select_u32(v_u32 mask, v_u32 yes, v_u32 no)
{
	return (yes & mask) | (no & ~mask);
}

/*
 * Floats. For max and min, a comparison that is false for NaN makes its operand's mask all ones
 * (max) or keeps both operands (min), so that NaN stays NaN; where both operands are equal, the
 * bits decide between the zeros.
 */
#define DEFINE_FLOAT(name, vector, bits)                                                           \
	STEP vector name##_combine(int op, vector a, vector b)                                     \
	{                                                                                          \
		switch (op) {                                                                      \
		case HOST_SUM_MAX:                                                                 \
			return (vector)(((bits)a | ~(bits)(a >= b)) &                              \
					((bits)b | ~(bits)(a <= b)));                              \
		case HOST_SUM_MIN:                                                                 \
			return (vector)(((bits)a & ~(bits)(a > b)) | ((bits)b & ~(bits)(a < b)));  \
		case HOST_SUM_PROD:                                                                \
			return a * b;                                                              \
		default:                                                                           \
			return a + b;                                                              \
		}                                                                                  \
	}                                                                                          \
	STEP bits name##_canonical(vector a, bits nan)                                             \
	{                                                                                          \
		bits is_number = (bits)(a == a);                                                   \
                                                                                                   \
		return ((bits)a & is_number) | (nan & ~is_number);                                 \
	}

/* Integers: `wraps` is the unsigned vector, in which sum and product wrap; `ordered` the one that
 * compares. */
#define DEFINE_INTEGER(name, wraps, ordered)                                                       \
	STEP wraps name##_widen(v_u8 raw)                                                          \
	{                                                                                          \
		return (wraps)raw;                                                                 \
	}                                                                                          \
	STEP wraps name##_combine(int op, wraps a, wraps b)                                        \
	{                                                                                          \
		wraps more = (wraps)((ordered)a > (ordered)b);                                     \
                                                                                                   \
		switch (op) {                                                                      \
		case HOST_SUM_MAX:                                                                 \
			return (a & more) | (b & ~more);                                           \
		case HOST_SUM_MIN:                                                                 \
			return (b & more) | (a & ~more);                                           \
		case HOST_SUM_PROD:                                                                \
			return a * b;                                                              \
		default:                                                                           \
			return a + b;                                                              \
		}                                                                                  \
	}                                                                                          \
	STEP v_u8 name##_narrow(wraps a)                                                           \
	{                                                                                          \
		return (v_u8)a;                                                                    \
	}

DEFINE_FLOAT(f32, v_f32, v_u32)
DEFINE_FLOAT(f64, v_f64, v_u64)
DEFINE_INTEGER(i32, v_u32, v_i32)
DEFINE_INTEGER(i64, v_u64, v_i64)
DEFINE_INTEGER(u8, v_u8, v_u8)
DEFINE_INTEGER(i8, v_u8, v_i8)

#undef DEFINE_FLOAT
#undef DEFINE_INTEGER

STEP v_f32 f32_widen(v_u8 raw)
{
	return (v_f32)raw;
}

STEP v_u8 f32_narrow(v_f32 a)
{
	return (v_u8)f32_canonical(a, (v_u32){} + 0x7fc00000u);
}

STEP v_f64 f64_widen(v_u8 raw)
{
	return (v_f64)raw;
}

STEP v_u8 f64_narrow(v_f64 a)
{
	return (v_u8)f64_canonical(a, (v_u64){} + 0x7ff8000000000000u);
}

STEP struct two_f32 two_f32_combine(int op, struct two_f32 a, struct two_f32 b)
{
	struct two_f32 c = {f32_combine(op, a.first, b.first), f32_combine(op, a.second, b.second)};

	return c;
}

/* Is one of the elements of a or b a NaN? "Yes" in doubt. */
STEP int any_nan(v_f32 a, v_f32 b);

/* NaN is rare: one look at both halves is cheaper than a select in each. */
STEP struct two_f32 two_f32_canonical(struct two_f32 a)
{
	v_u32 nan = (v_u32){} + 0x7fc00000u;

	if (any_nan(a.first, a.second)) {
		a.first = (v_f32)f32_canonical(a.first, nan);
		a.second = (v_f32)f32_canonical(a.second, nan);
	}
	return a;
}

#define f16_combine  two_f32_combine
#define bf16_combine two_f32_combine

/* Even elements go first, odd ones second: no lane has to cross. */
STEP struct two_f32 bf16_widen(v_u8 raw)
{
	struct two_f32 wide = {(v_f32)((v_u32)raw << 16), (v_f32)((v_u32)raw & 0xffff0000u)};

	return wide;
}

/* Nearest, ties to even, in the upper half of each lane. No NaN reaches the sum but the canonical
 * one, which is exact. */
STEP v_u32 bf16_round(v_f32 a)
{
	v_u32 bits = (v_u32)a;

	return bits + 0x7fffu + ((bits >> 16) & 1u);
}

STEP v_u8 bf16_narrow(struct two_f32 wide)
{
	wide = two_f32_canonical(wide);
	return (v_u8)((bf16_round(wide.first) >> 16) | (bf16_round(wide.second) & 0xffff0000u));
}

#ifdef HOST_SUM_HALF_FLOATS
STEP struct two_f32 f16_widen(v_u8 raw);
STEP v_u8 f16_pack(v_u32 first, v_u32 second); /* bits of float32, no NaN but the canonical one */
#else
/* A half in the low 16 bits of each lane. The product moves the exponent's bias from 15 to 127,
 * subnormals included. */
STEP v_f32 half_to_f32(v_u32 half)
{
	v_u32 magnitude = half & 0x7fffu;
	v_u32 special = (v_u32)((v_i32)magnitude >= 0x7c00) & 0x7f800000u; /* infinity and NaN */
	v_f32 scaled = (v_f32)(magnitude << 13) * 0x1p112f;

	return (v_f32)((v_u32)scaled | special | ((half & 0x8000u) << 16));
}

/* The nearest half, ties to even, in the low 16 bits of each lane. NaN must be canonical. */
STEP v_u32 half_from_f32(v_u32 bits)
{
	v_u32 magnitude = bits & 0x7fffffffu;
	v_u32 normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
	/* Half's subnormals are multiples of 2^-24, the last place of 0.5: the addition rounds to
	 * it. */
	v_u32 tiny = (v_u32)((v_f32)magnitude + 0.5f) - 0x3f000000u;
	v_u32 special = ((v_u32)((v_i32)magnitude > 0x7f800000) & 0x200u) | 0x7c00u;
	v_u32 half = select_u32((v_u32)((v_i32)magnitude < 0x38800000), tiny, normal);

	half = select_u32((v_u32)((v_i32)magnitude >= 0x47800000), special, half);
	return half | ((bits >> 16) & 0x8000u);
}

STEP struct two_f32 f16_widen(v_u8 raw)
{
	struct two_f32 wide = {half_to_f32((v_u32)raw & 0xffffu), half_to_f32((v_u32)raw >> 16)};

	return wide;
}

STEP v_u8 f16_pack(v_u32 first, v_u32 second)
{
	return (v_u8)(half_from_f32(first) | (half_from_f32(second) << 16));
}
#endif

STEP v_u8 f16_narrow(struct two_f32 wide)
{
	wide = two_f32_canonical(wide);
	return f16_pack((v_u32)wide.first, (v_u32)wide.second);
}

STEP uint64_t digest_of_lanes(v_u64 lanes)
{
	uint64_t digest = 0;

	for (unsigned i = 0; i < sizeof(lanes) / sizeof(digest); i++)
		digest += lanes[i];
	return digest;
}

/* All but the first two destinations. */
STEP void store_to_others(const struct host_sum_job *job, unsigned ndestinations, size_t at, v_u8 v)
{
	for (unsigned d = 2; d < ndestinations; d++)
		vector_store((unsigned char *)job->destinations[d] + at, v);
}

#define DTYPE	    f32
#define ACCUMULATOR v_f32
#include "kernels/host_sum_loop.h"
#define DTYPE	    f64
#define ACCUMULATOR v_f64
#include "kernels/host_sum_loop.h"
#define DTYPE	    f16
#define ACCUMULATOR struct two_f32
#include "kernels/host_sum_loop.h"
#define DTYPE	    bf16
#define ACCUMULATOR struct two_f32
#include "kernels/host_sum_loop.h"
#define DTYPE	    i32
#define ACCUMULATOR v_u32
#include "kernels/host_sum_loop.h"
#define DTYPE	    i64
#define ACCUMULATOR v_u64
#include "kernels/host_sum_loop.h"
#define DTYPE	    u8
#define ACCUMULATOR v_u8
#include "kernels/host_sum_loop.h"
#define DTYPE	    i8
#define ACCUMULATOR v_u8
#include "kernels/host_sum_loop.h"

KERNEL uint64_t copy_lines(unsigned char *dst, const unsigned char *src, size_t lines, int touch)
{
	v_u64 digest = {};

	for (size_t at = 0; at < lines * HOST_SUM_LINE; at += HOST_SUM_LINE) {
#pragma GCC unroll 4
		for (size_t i = 0; i < HOST_SUM_LINE / HOST_SUM_WIDTH; i++) {
			size_t k = at + i * HOST_SUM_WIDTH;
			v_u8 v = vector_load(src + k);

			vector_store(dst + k, v);
			digest += (v_u64)v;
		}
		if (touch)
			host_sum_touch_word(src + at);
	}
	return digest_of_lanes(digest);
}

#define ROW(name)                                                                                  \
	{                                                                                          \
		[HOST_SUM_SUM] = name##_sum, [HOST_SUM_MAX] = name##_max,                          \
		[HOST_SUM_MIN] = name##_min, [HOST_SUM_PROD] = name##_prod                         \
	}

static const struct host_sum_kernels kernels = {
	.name = HOST_SUM_NAME,
	.copy = copy_lines,
	.reduce =
		{
			[HOST_SUM_F32] = ROW(f32),
			[HOST_SUM_F64] = ROW(f64),
			[HOST_SUM_F16] = ROW(f16),
			[HOST_SUM_BF16] = ROW(bf16),
			[HOST_SUM_I32] = ROW(i32),
			[HOST_SUM_I64] = ROW(i64),
			[HOST_SUM_U8] = ROW(u8),
			[HOST_SUM_I8] = ROW(i8),
		},
};

#undef ROW

#endif /* BELAY_KERNELS_HOST_SUM_VECTORS_H */
