/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in AVX-512: the subsets F, BW, DQ and VL, which all its server CPUs have. */
#include "kernels/host_sum_kernels.h"

#ifdef __x86_64__
#include <immintrin.h>

#define HOST_SUM_WIDTH	64
#define HOST_SUM_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define HOST_SUM_NAME	"avx512"
#define HOST_SUM_HALF_FLOATS

#include "kernels/host_sum_vectors.h"

STEP int any_nan(v_f32 a, v_f32 b)
{
	return _mm512_cmpunord_ps_mask((__m512)a, (__m512)b) != 0;
}

STEP struct two_f32 f16_widen(v_u8 raw)
{
	__m512i halves = (__m512i)raw;
	struct two_f32 wide = {(v_f32)_mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
			       (v_f32)_mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))};

	return wide;
}

/* The form with a mask, of all lanes: without optimisation, gcc 12's macro of the other one warns
 * of a conversion. */
STEP v_u8 f16_pack(v_u32 first, v_u32 second)
{
	__m256i low = _mm512_maskz_cvtps_ph(0xffff, (__m512)first, _MM_FROUND_TO_NEAREST_INT);
	__m256i high = _mm512_maskz_cvtps_ph(0xffff, (__m512)second, _MM_FROUND_TO_NEAREST_INT);

	return (v_u8)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

const struct host_sum_kernels *host_sum_avx512_kernels(void)
{
	int has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

	return has ? &kernels : NULL;
}

#else

const struct host_sum_kernels *host_sum_avx512_kernels(void)
{
	return NULL;
}

#endif
