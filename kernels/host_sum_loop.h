/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template: the kernels of one element type, included by host_sum_vectors.h once for each, with
 * DTYPE (its name) and ACCUMULATOR (the type between widen and narrow) defined. No include guard.
 */
#define JOIN_(a, b)    a##_##b
#define JOIN(a, b)     JOIN_(a, b)
#define OF_DTYPE(name) JOIN(DTYPE, name)

STEP ACCUMULATOR OF_DTYPE(add)(int op, ACCUMULATOR sum, const void *source, size_t at)
{
	v_u8 raw = vector_load((const unsigned char *)source + at);

	return OF_DTYPE(combine)(op, sum, OF_DTYPE(widen)(raw));
}

/*
 * op, nsources and ndestinations are constants in the callers that matter: what they make needless
 * goes. The first four sources and the first two destinations stay in registers; the others are
 * looked up in the job each time.
 */
STEP uint64_t OF_DTYPE(loop)(const struct host_sum_job *job, size_t lines, int op,
			     unsigned nsources, unsigned ndestinations)
{
	const unsigned char *first = job->sources[0];
	const unsigned char *second = job->sources[nsources > 1];
	const unsigned char *third = job->sources[nsources > 2 ? 2 : 0];
	const unsigned char *fourth = job->sources[nsources > 3 ? 3 : 0];
	unsigned char *destination = job->destinations[0];
	unsigned char *other = job->destinations[ndestinations > 1];
	v_u64 digest = {};

	for (size_t at = 0; at < lines * HOST_SUM_LINE; at += HOST_SUM_LINE) {
#pragma GCC unroll 4
		for (size_t i = 0; i < HOST_SUM_LINE / HOST_SUM_WIDTH; i++) {
			size_t k = at + i * HOST_SUM_WIDTH;
			ACCUMULATOR sum = OF_DTYPE(widen)(vector_load(first + k));
			v_u8 result;

			if (nsources > 1)
				sum = OF_DTYPE(add)(op, sum, second, k);
			if (nsources > 2)
				sum = OF_DTYPE(add)(op, sum, third, k);
			if (nsources > 3)
				sum = OF_DTYPE(add)(op, sum, fourth, k);
			for (unsigned s = 4; s < nsources; s++)
				sum = OF_DTYPE(add)(op, sum, job->sources[s], k);
			result = OF_DTYPE(narrow)(sum);
			vector_store(destination + k, result);
			if (ndestinations > 1)
				vector_store(other + k, result);
			if (ndestinations > 2)
				store_to_others(job, ndestinations, k, result);
			digest += (v_u64)result;
		}
		if (job->touch & 1u)
			host_sum_touch_word(first + at);
		if (job->touch & 2u)
			host_sum_touch_word(second + at);
		if (nsources > 2)
			host_sum_touch_line(job, at, 2);
	}
	return digest_of_lanes(digest);
}

/* The hot shapes of the host path: two ranks, the result for one of them or for both; four or eight
 * ranks, the result for its owner and for those who fetch it. */
KERNEL uint64_t OF_DTYPE(sum)(const struct host_sum_job *job, size_t lines)
{
	if (job->nsources == 2 && job->ndestinations == 1)
		return OF_DTYPE(loop)(job, lines, HOST_SUM_SUM, 2, 1);
	if (job->nsources == 2 && job->ndestinations == 2)
		return OF_DTYPE(loop)(job, lines, HOST_SUM_SUM, 2, 2);
	if (job->nsources == 4 && job->ndestinations == 2)
		return OF_DTYPE(loop)(job, lines, HOST_SUM_SUM, 4, 2);
	if (job->nsources == 8 && job->ndestinations == 2)
		return OF_DTYPE(loop)(job, lines, HOST_SUM_SUM, 8, 2);
	return OF_DTYPE(loop)(job, lines, HOST_SUM_SUM, job->nsources, job->ndestinations);
}

KERNEL uint64_t OF_DTYPE(max)(const struct host_sum_job *job, size_t lines)
{
	return OF_DTYPE(loop)(job, lines, HOST_SUM_MAX, job->nsources, job->ndestinations);
}

KERNEL uint64_t OF_DTYPE(min)(const struct host_sum_job *job, size_t lines)
{
	return OF_DTYPE(loop)(job, lines, HOST_SUM_MIN, job->nsources, job->ndestinations);
}

KERNEL uint64_t OF_DTYPE(prod)(const struct host_sum_job *job, size_t lines)
{
	return OF_DTYPE(loop)(job, lines, HOST_SUM_PROD, job->nsources, job->ndestinations);
}

#undef JOIN_
#undef JOIN
#undef OF_DTYPE
#undef DTYPE
#undef ACCUMULATOR
