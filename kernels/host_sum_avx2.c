/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in AVX2 and F16C. */
#include "kernels/host_sum_kernels.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

#define HOST_SUM_WIDTH	32
#define HOST_SUM_TARGET __attribute__((target("avx2,f16c")))
#define HOST_SUM_NAME	"avx2"
#define HOST_SUM_HALF_FLOATS

#include "kernels/host_sum_vectors.h"

STEP int any_nan(v_f32 a, v_f32 b)
{
	return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q)) != 0;
}

STEP struct two_f32 f16_widen(v_u8 raw)
{
	__m256i halves = (__m256i)raw;
	struct two_f32 wide = {(v_f32)_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
			       (v_f32)_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};

	return wide;
}

STEP v_u8 f16_pack(v_u32 first, v_u32 second)
{
	__m128i low = _mm256_cvtps_ph((__m256)first, _MM_FROUND_TO_NEAREST_INT);
	__m128i high = _mm256_cvtps_ph((__m256)second, _MM_FROUND_TO_NEAREST_INT);

	return (v_u8)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static int has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

const struct host_sum_kernels *host_sum_avx2_kernels(void)
{
	/* The first asks the operating system's support too. */
	return __builtin_cpu_supports("avx2") && has_f16c() ? &kernels : NULL;
}

#else

const struct host_sum_kernels *host_sum_avx2_kernels(void)
{
	return NULL;
}

#endif
