/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank-order reduction on a GPU, on the raw 32-bit words of a packet, all in registers:
 *
 *	rank_order_sum<DTYPE, WORDS> sum;
 *	sum.start(words of rank 0);
 *	sum.combine<OP>(words of rank 1); ...
 *	sum.finish(words of the result);
 *
 * Every bit is that of host_sum() (invariant 1): accumulation in float32 (float64 for that type),
 * one rounding at the end, one canonical NaN a type, -0 below +0, NaN wins max and min, integers
 * wrap. The intrinsics with _rn are never contracted; subnormals are kept unless somebody builds
 * with -ftz=true or -use_fast_math, which check_kernels would tell.
 *
 * Zeros make zeros under every operation, so a packet padded with zeros needs no care.
 */
#ifndef BELAY_KERNELS_RANK_ORDER_SUM_CUH
#define BELAY_KERNELS_RANK_ORDER_SUM_CUH

#include <stdint.h>

#include "kernels/sum_types.h"

#define RANK_ORDER_INLINE static __device__ __forceinline__

/* ---- floats ------------------------------------------------------------------------------- */

/* max.NaN and min.NaN: NaN if an operand is NaN, -0 below +0, subnormals kept. */
template <int OP> RANK_ORDER_INLINE float combine_f32(float a, float b)
{
	float c;

	if (OP == HOST_SUM_SUM)
		return __fadd_rn(a, b);
	if (OP == HOST_SUM_PROD)
		return __fmul_rn(a, b);
	if (OP == HOST_SUM_MAX)
		asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
	else
		asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
	return c;
}

/* No instruction does this for float64: where both operands are equal, the bits decide between the
 * zeros; where one is NaN, the bits of NaN survive. */
template <int OP> RANK_ORDER_INLINE double combine_f64(double a, double b)
{
	long long bits_a = __double_as_longlong(a), bits_b = __double_as_longlong(b);

	if (OP == HOST_SUM_SUM)
		return __dadd_rn(a, b);
	if (OP == HOST_SUM_PROD)
		return __dmul_rn(a, b);
	if (a != a || b != b)
		return __longlong_as_double(0x7ff8000000000000LL);
	if (a == b)
		return __longlong_as_double(OP == HOST_SUM_MAX ? bits_a & bits_b : bits_a | bits_b);
	return (a > b) == (OP == HOST_SUM_MAX) ? a : b;
}

/* Two floats in a word, the element at the lower address in the lower half. */
struct two_floats {
	float low, high;
};

template <int OP>
RANK_ORDER_INLINE struct two_floats combine_two_floats(struct two_floats a, struct two_floats b)
{
	struct two_floats c = {combine_f32<OP>(a.low, b.low), combine_f32<OP>(a.high, b.high)};

	return c;
}

RANK_ORDER_INLINE bool any_nan(struct two_floats a)
{
	return a.low != a.low || a.high != a.high;
}

/* The conversions to 16 bits make 0x7fff of any NaN, and of nothing else; `nan` is what belay makes
 * of it. Rare, hence a branch rather than selects for each half. */
RANK_ORDER_INLINE uint32_t canonical_halves(struct two_floats wide, uint32_t narrow, uint32_t nan)
{
	if (any_nan(wide)) {
		if (wide.low != wide.low)
			narrow = (narrow & 0xffff0000u) | nan;
		if (wide.high != wide.high)
			narrow = (narrow & 0xffffu) | nan << 16;
	}
	return narrow;
}

/* ---- integers ----------------------------------------------------------------------------- */

/* WRAPS: the unsigned type, in which sum and product wrap; ORDERED: the one that compares. */
template <int OP, typename ORDERED, typename WRAPS>
RANK_ORDER_INLINE WRAPS combine_integer(WRAPS a, WRAPS b)
{
	bool more = (ORDERED)a > (ORDERED)b;

	if (OP == HOST_SUM_SUM)
		return a + b;
	if (OP == HOST_SUM_PROD)
		return a * b;
	return more == (OP == HOST_SUM_MAX) ? a : b;
}

/* Four bytes in a word. The product of each is its own: its high bits must not reach its neighbour.
 */
RANK_ORDER_INLINE uint32_t product_of_bytes(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

#pragma unroll
	for (int shift = 0; shift < 32; shift += 8)
		product |= (((a >> shift) * (b >> shift)) & 0xffu) << shift;
	return product;
}

template <int OP, bool SIGNED> RANK_ORDER_INLINE uint32_t combine_bytes(uint32_t a, uint32_t b)
{
	if (OP == HOST_SUM_SUM)
		return __vadd4(a, b);
	if (OP == HOST_SUM_PROD)
		return product_of_bytes(a, b);
	if (OP == HOST_SUM_MAX)
		return SIGNED ? __vmaxs4(a, b) : __vmaxu4(a, b);
	return SIGNED ? __vmins4(a, b) : __vminu4(a, b);
}

/* ---- units: the words that one accumulator stands for ------------------------------------- */

template <int DTYPE> struct rank_order_unit;

template <> struct rank_order_unit<HOST_SUM_F32> {
	typedef float wide;
	enum { WORDS = 1 };

	RANK_ORDER_INLINE wide widen(const uint32_t *raw)
	{
		return __uint_as_float(raw[0]);
	}
	template <int OP> RANK_ORDER_INLINE wide combine(wide a, wide b)
	{
		return combine_f32<OP>(a, b);
	}
	RANK_ORDER_INLINE void narrow(wide a, uint32_t *ret_raw)
	{
		ret_raw[0] = a != a ? 0x7fc00000u : __float_as_uint(a);
	}
};

template <> struct rank_order_unit<HOST_SUM_F64> {
	typedef double wide;
	enum { WORDS = 2 };

	RANK_ORDER_INLINE wide widen(const uint32_t *raw)
	{
		return __hiloint2double((int)raw[1], (int)raw[0]);
	}
	template <int OP> RANK_ORDER_INLINE wide combine(wide a, wide b)
	{
		return combine_f64<OP>(a, b);
	}
	RANK_ORDER_INLINE void narrow(wide a, uint32_t *ret_raw)
	{
		ret_raw[0] = a != a ? 0 : (uint32_t)__double2loint(a);
		ret_raw[1] = a != a ? 0x7ff80000u : (uint32_t)__double2hiint(a);
	}
};

template <> struct rank_order_unit<HOST_SUM_F16> {
	typedef struct two_floats wide;
	enum { WORDS = 1 };

	RANK_ORDER_INLINE wide widen(const uint32_t *raw)
	{
		wide a;

		asm("{\n\t.reg .b16 low, high;\n\t"
		    "mov.b32 {low, high}, %2;\n\t"
		    "cvt.f32.f16 %0, low;\n\t"
		    "cvt.f32.f16 %1, high;\n\t}"
		    : "=f"(a.low), "=f"(a.high)
		    : "r"(raw[0]));
		return a;
	}
	template <int OP> RANK_ORDER_INLINE wide combine(wide a, wide b)
	{
		return combine_two_floats<OP>(a, b);
	}
	RANK_ORDER_INLINE void narrow(wide a, uint32_t *ret_raw)
	{
		uint32_t halves;

		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(a.high), "f"(a.low));
		ret_raw[0] = canonical_halves(a, halves, 0x7e00u);
	}
};

template <> struct rank_order_unit<HOST_SUM_BF16> {
	typedef struct two_floats wide;
	enum { WORDS = 1 };

	RANK_ORDER_INLINE wide widen(const uint32_t *raw)
	{
		wide a = {__uint_as_float(raw[0] << 16), __uint_as_float(raw[0] & 0xffff0000u)};

		return a;
	}
	template <int OP> RANK_ORDER_INLINE wide combine(wide a, wide b)
	{
		return combine_two_floats<OP>(a, b);
	}
	RANK_ORDER_INLINE void narrow(wide a, uint32_t *ret_raw)
	{
		uint32_t halves;

		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(a.high), "f"(a.low));
		ret_raw[0] = canonical_halves(a, halves, 0x7fc0u);
	}
};

template <> struct rank_order_unit<HOST_SUM_I32> {
	typedef uint32_t wide;
	enum { WORDS = 1 };

	RANK_ORDER_INLINE wide widen(const uint32_t *raw)
	{
		return raw[0];
	}
	template <int OP> RANK_ORDER_INLINE wide combine(wide a, wide b)
	{
		return combine_integer<OP, int32_t>(a, b);
	}
	RANK_ORDER_INLINE void narrow(wide a, uint32_t *ret_raw)
	{
		ret_raw[0] = a;
	}
};

template <> struct rank_order_unit<HOST_SUM_I64> {
	typedef uint64_t wide;
	enum { WORDS = 2 };

	RANK_ORDER_INLINE wide widen(const uint32_t *raw)
	{
		return (uint64_t)raw[1] << 32 | raw[0];
	}
	template <int OP> RANK_ORDER_INLINE wide combine(wide a, wide b)
	{
		return combine_integer<OP, int64_t>(a, b);
	}
	RANK_ORDER_INLINE void narrow(wide a, uint32_t *ret_raw)
	{
		ret_raw[0] = (uint32_t)a;
		ret_raw[1] = (uint32_t)(a >> 32);
	}
};

/* Bytes of either sign: what differs is how they compare. */
template <bool SIGNED> struct rank_order_bytes {
	typedef uint32_t wide;
	enum { WORDS = 1 };

	RANK_ORDER_INLINE wide widen(const uint32_t *raw)
	{
		return raw[0];
	}
	template <int OP> RANK_ORDER_INLINE wide combine(wide a, wide b)
	{
		return combine_bytes<OP, SIGNED>(a, b);
	}
	RANK_ORDER_INLINE void narrow(wide a, uint32_t *ret_raw)
	{
		ret_raw[0] = a;
	}
};

template <> struct rank_order_unit<HOST_SUM_U8> : rank_order_bytes<false> {
};
template <> struct rank_order_unit<HOST_SUM_I8> : rank_order_bytes<true> {
};

/* ---- sums that are not rounded yet ---------------------------------------------------------- */

RANK_ORDER_INLINE void put_floats(float wide, uint32_t *ret_raw)
{
	ret_raw[0] = __float_as_uint(wide);
}

RANK_ORDER_INLINE void put_floats(struct two_floats wide, uint32_t *ret_raw)
{
	ret_raw[0] = __float_as_uint(wide.low);
	ret_raw[1] = __float_as_uint(wide.high);
}

RANK_ORDER_INLINE void take_floats(const uint32_t *raw, float &ret_wide)
{
	ret_wide = __uint_as_float(raw[0]);
}

RANK_ORDER_INLINE void take_floats(const uint32_t *raw, struct two_floats &ret_wide)
{
	ret_wide.low = __uint_as_float(raw[0]);
	ret_wide.high = __uint_as_float(raw[1]);
}

/* ---- packets ------------------------------------------------------------------------------ */

/* WORDS: 2 for packets of 8 bytes, 4 for those of 16. `raw` must be indexed by constants only, as
 * everywhere here, to stay in registers. */
template <int DTYPE, int WORDS> struct rank_order_sum {
	typedef rank_order_unit<DTYPE> unit;
	enum { UNITS = WORDS / unit::WORDS, FLOATS = UNITS * sizeof(typename unit::wide) / 4 };

	typename unit::wide wide[UNITS];

	__device__ __forceinline__ void start(const uint32_t (&raw)[WORDS])
	{
#pragma unroll
		for (int i = 0; i < UNITS; i++)
			wide[i] = unit::widen(raw + i * unit::WORDS);
	}

	template <int OP> __device__ __forceinline__ void combine(const uint32_t (&raw)[WORDS])
	{
#pragma unroll
		for (int i = 0; i < UNITS; i++)
			wide[i] = unit::template combine<OP>(wide[i],
							     unit::widen(raw + i * unit::WORDS));
	}

	/* The operation known at run time only; the same for all threads of a warp. */
	__device__ __forceinline__ void combine_by(int op, const uint32_t (&raw)[WORDS])
	{
		switch (op) {
		case HOST_SUM_MAX:
			combine<HOST_SUM_MAX>(raw);
			break;
		case HOST_SUM_MIN:
			combine<HOST_SUM_MIN>(raw);
			break;
		case HOST_SUM_PROD:
			combine<HOST_SUM_PROD>(raw);
			break;
		default:
			combine<HOST_SUM_SUM>(raw);
			break;
		}
	}

	/* A sum that is not rounded yet, as bits of float32, by elements; and one that goes on from
	 * there. Of float32 and narrower floats. */
	__device__ __forceinline__ void put_wide(uint32_t (&ret_raw)[FLOATS]) const
	{
#pragma unroll
		for (int i = 0; i < UNITS; i++)
			put_floats(wide[i], ret_raw + i * (FLOATS / UNITS));
	}
	__device__ __forceinline__ void start_wide(const uint32_t (&raw)[FLOATS])
	{
#pragma unroll
		for (int i = 0; i < UNITS; i++)
			take_floats(raw + i * (FLOATS / UNITS), wide[i]);
	}

	__device__ __forceinline__ void finish(uint32_t (&ret_raw)[WORDS]) const
	{
#pragma unroll
		for (int i = 0; i < UNITS; i++)
			unit::narrow(wide[i], ret_raw + i * unit::WORDS);
	}
};

#endif /* BELAY_KERNELS_RANK_ORDER_SUM_CUH */
