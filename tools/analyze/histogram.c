/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/histogram.h"

/* How far a value is shifted so that HISTOGRAM_STEPS_LOG2 + 1 bits are left of it. */
static unsigned shift_of(uint64_t value)
{
	return value < HISTOGRAM_STEPS
		       ? 0
		       : 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_STEPS_LOG2;
}

static unsigned bucket_of(uint64_t value)
{
	unsigned shift = shift_of(value);

	/* The leading bit of value >> shift carries into the part that counts doublings. */
	return (shift << HISTOGRAM_STEPS_LOG2) + (unsigned)(value >> shift);
}

static uint64_t middle_of(unsigned bucket)
{
	unsigned shift = bucket >> HISTOGRAM_STEPS_LOG2;
	uint64_t low;

	if (shift <= 1)
		return bucket;
	shift--;
	low = (uint64_t)(HISTOGRAM_STEPS + (bucket & (HISTOGRAM_STEPS - 1))) << shift;
	return low + (1ull << shift) / 2;
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
	if (histogram->count == 0 || value < histogram->smallest)
		histogram->smallest = value;
	if (value > histogram->largest)
		histogram->largest = value;
	histogram->count++;
	histogram->buckets[bucket_of(value)]++;
}

static uint64_t within(const struct histogram *histogram, uint64_t value)
{
	if (value < histogram->smallest)
		return histogram->smallest;
	return value > histogram->largest ? histogram->largest : value;
}

uint64_t histogram_quantile(const struct histogram *histogram, double fraction)
{
	/* The rank of the value looked for, from 1, rounded up: p50 of two values is the first. */
	double exact = fraction * (double)histogram->count;
	uint64_t wanted = (uint64_t)exact;
	uint64_t seen = 0;

	if ((double)wanted < exact || wanted == 0)
		wanted++;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->buckets[i];
		if (seen >= wanted)
			return within(histogram, middle_of(i));
	}
	return histogram->largest;
}

uint64_t histogram_count_above(const struct histogram *histogram, uint64_t value)
{
	uint64_t count = 0;

	if (value >= histogram->largest)
		return 0;
	for (unsigned i = bucket_of(value) + 1; i < HISTOGRAM_BUCKETS; i++)
		count += histogram->buckets[i];
	return count;
}
