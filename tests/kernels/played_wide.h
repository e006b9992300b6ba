/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums that are not rounded yet, for the played GPU: elements of bf16, f16 and f32 as float32 and
 * back, in plain arithmetic, and combined by the CPU's sum.
 */
#ifndef BELAY_TESTS_PLAYED_WIDE_H
#define BELAY_TESTS_PLAYED_WIDE_H

#include <cmath>
#include <cstdint>
#include <cstring>

extern "C" {
#include "kernels/host_sum.h"
}
#include "kernels/sum_types.h"

static inline float played_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint32_t played_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float widen_f16(uint32_t half)
{
	uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
	float size = exponent == 31  ? (fraction ? NAN : INFINITY)
		     : exponent == 0 ? ldexpf((float)fraction, -24)
				     : ldexpf((float)(fraction | 1024), (int)exponent - 25);

	return half >> 15 ? -size : size;
}

/* To the nearest, ties to even: in units of the last place that the result has. */
static inline uint32_t narrow_f16(float value)
{
	uint32_t sign = played_bits(value) >> 31 << 15;
	int exponent = value == 0 ? -14 : ilogbf(value);
	double places;

	if (std::isnan(value))
		return 0x7e00;
	if (exponent < -14)
		exponent = -14;
	if (std::isinf(value) || exponent > 15)
		return sign | 0x7c00;
	places = std::nearbyint(ldexp(std::fabs((double)value), 10 - exponent));
	/* A carry out of the fraction raises the exponent by itself. */
	return sign | ((uint32_t)(exponent + 14) * 1024 + (uint32_t)places);
}

static inline uint32_t narrow_bf16(float value)
{
	uint32_t bits = played_bits(value);

	if (std::isnan(value))
		return 0x7fc0;
	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Element i of a packet. */
template <int DTYPE> static inline float widen_element(const uint32_t *raw, unsigned i)
{
	uint32_t half = raw[i / 2] >> 16 * (i % 2) & 0xffff;

	if (DTYPE == HOST_SUM_F32)
		return played_float(raw[i]);
	return DTYPE == HOST_SUM_F16 ? widen_f16(half) : played_float(half << 16);
}

template <int DTYPE> static inline void narrow_element(float value, uint32_t *raw, unsigned i)
{
	uint32_t half = DTYPE == HOST_SUM_F16 ? narrow_f16(value) : narrow_bf16(value);

	if (DTYPE == HOST_SUM_F32)
		raw[i] = std::isnan(value) ? 0x7fc00000 : played_bits(value);
	else
		raw[i / 2] = (raw[i / 2] & ~(0xffffu << 16 * (i % 2))) | half << 16 * (i % 2);
}

/* One step of the sum, in float32. */
static inline float combine_wide(int op, float a, float b)
{
	const void *sources[] = {&a, &b};
	float c;
	void *destination = &c;
	struct host_sum_job job = {};

	job.sources = sources;
	job.nsources = 2;
	job.destinations = &destination;
	job.ndestinations = 1;
	job.count = 1;
	job.dtype = HOST_SUM_F32;
	job.op = op;
	(void)host_sum(&job);
	return c;
}

#endif /* BELAY_TESTS_PLAYED_WIDE_H */
