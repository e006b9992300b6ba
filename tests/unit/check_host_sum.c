/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank-order reduction against a scalar definition of it, bit for bit, on every instruction set
 * of this CPU. The reference shares no code and no trick with kernels/: halves are converted by
 * arithmetic on values, not on bits.
 */
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/host_sum.h"
#include "runtime/belay.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#define SOURCES_MAX 9
#define COUNT_MAX   130
#define GUARD	    64
#define GUARD_BYTE  0xa5
#define ROOM	    (COUNT_MAX * 8 + 3 * GUARD)

static const char *const sets[] = {"baseline", "neon", "avx2", "avx512"};
enum { NSETS = sizeof(sets) / sizeof(sets[0]), NDTYPES = 8, NOPS = 4 };

/* Reference: halves and bfloat16 as values -------------------- */

struct small_float {
	int mantissa_bits; /* stored */
	int exponent_min;  /* of the smallest normal number */
	int exponent_max;
	uint16_t infinity;
	uint16_t nan;
};

static const struct small_float half = {10, -14, 15, 0x7c00, 0x7e00};
static const struct small_float brain = {7, -126, 127, 0x7f80, 0x7fc0};

static float small_to_float(const struct small_float *f, uint16_t bits)
{
	int exponent = (bits & 0x7fff) >> f->mantissa_bits;
	int mantissa = bits & ((1 << f->mantissa_bits) - 1);
	double sign = bits & 0x8000 ? -1.0 : 1.0;

	if ((bits & 0x7fff) > f->infinity)
		return NAN;
	if ((bits & 0x7fff) == f->infinity)
		return (float)(sign * INFINITY);
	if (exponent == 0)
		return (float)(sign * ldexp(mantissa, f->exponent_min - f->mantissa_bits));
	mantissa += 1 << f->mantissa_bits;
	return (float)(sign * ldexp(mantissa, exponent - 1 + f->exponent_min - f->mantissa_bits));
}

/* The number of last places in x, nearest, ties to even, without the help of the rounding mode. */
static long round_even(double x)
{
	double whole = floor(x);
	double rest = x - whole;
	long n = (long)whole;

	if (rest > 0.5 || (rest == 0.5 && n % 2 != 0))
		n++;
	return n;
}

static uint16_t small_from_float(const struct small_float *f, float value)
{
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	double magnitude = fabs((double)value);
	int exponent;
	long places;

	if (isnan(value))
		return f->nan;
	if (isinf(value))
		return sign | f->infinity;
	if (magnitude == 0)
		return sign;
	exponent = ilogb(magnitude);
	if (exponent < f->exponent_min)
		exponent = f->exponent_min;
	places = round_even(ldexp(magnitude, f->mantissa_bits - exponent));
	/* Carries run from the mantissa into the exponent, and from the largest number into
	 * infinity. */
	places += (long)(exponent - f->exponent_min) << f->mantissa_bits;
	return sign | (uint16_t)(places < f->infinity ? places : f->infinity);
}

/* Reference: the reduction ------------------------------------ */

static double combine_floats(int op, double a, double b)
{
	int b_wins;

	if (op == BELAY_SUM)
		return a + b;
	if (op == BELAY_PROD)
		return a * b;
	if (isnan(a) || isnan(b))
		return NAN;
	b_wins = a == b ? signbit(a) && !signbit(b) : b > a;
	return b_wins == (op == BELAY_MAX) ? b : a;
}

static int64_t combine_integers(int op, int64_t a, int64_t b)
{
	if (op == BELAY_SUM)
		return (int64_t)((uint64_t)a + (uint64_t)b);
	if (op == BELAY_PROD)
		return (int64_t)((uint64_t)a * (uint64_t)b);
	return (b > a) == (op == BELAY_MAX) ? b : a;
}

static double get_float(int dtype, const void *at)
{
	uint16_t bits;
	float single;
	double value;

	if (dtype == BELAY_F64) {
		memcpy(&value, at, sizeof(value));
		return value;
	}
	if (dtype == BELAY_F32) {
		memcpy(&single, at, sizeof(single));
		return single;
	}
	memcpy(&bits, at, sizeof(bits));
	return small_to_float(dtype == BELAY_F16 ? &half : &brain, bits);
}

static void put_float(int dtype, double value, void *at)
{
	uint64_t bits = 0x7ff8000000000000;
	uint32_t single_bits = 0x7fc00000;
	float single = (float)value;
	uint16_t small;

	if (dtype == BELAY_F64) {
		memcpy(at, isnan(value) ? (void *)&bits : (void *)&value, sizeof(value));
	} else if (dtype == BELAY_F32) {
		memcpy(at, isnan(value) ? (void *)&single_bits : (void *)&single, sizeof(single));
	} else {
		small = small_from_float(dtype == BELAY_F16 ? &half : &brain, single);
		memcpy(at, &small, sizeof(small));
	}
}

static int64_t get_integer(int dtype, const void *at)
{
	size_t bytes = belay_dtype_bytes((enum belay_dtype)dtype);
	int64_t value = 0;

	memcpy(&value, at, bytes);
	if (dtype == BELAY_I32)
		return (int32_t)value;
	return dtype == BELAY_I8 ? (int8_t)value : value;
}

static int is_float(int dtype)
{
	return dtype <= BELAY_BF16;
}

/* All types but f64 round to float32 after each step. */
static void reference_element(const struct host_sum_job *job, size_t i, void *result)
{
	size_t bytes = belay_dtype_bytes((enum belay_dtype)job->dtype);
	size_t at = i * bytes;
	double sum = 0;
	int64_t whole = 0;

	for (unsigned s = 0; s < job->nsources; s++) {
		const unsigned char *from = (const unsigned char *)job->sources[s] + at;

		if (!is_float(job->dtype)) {
			whole = s ? combine_integers(job->op, whole, get_integer(job->dtype, from))
				  : get_integer(job->dtype, from);
			if (job->dtype == BELAY_I32)
				whole = (int32_t)whole;
			continue;
		}
		sum = s ? combine_floats(job->op, sum, get_float(job->dtype, from))
			: get_float(job->dtype, from);
		if (job->dtype != BELAY_F64)
			sum = (float)sum;
	}
	if (is_float(job->dtype))
		put_float(job->dtype, sum, (unsigned char *)result + at);
	else
		memcpy((unsigned char *)result + at, &whole, bytes);
}

static void reference(const struct host_sum_job *job, void *result)
{
	for (size_t i = 0; i < job->count; i++)
		reference_element(job, i, result);
}

static uint64_t reference_digest(const void *bytes, size_t n)
{
	const unsigned char *b = bytes;
	uint64_t digest = 0;

	for (size_t i = 0; i < n; i++)
		digest += (uint64_t)b[i] << (i % 8 * 8);
	return digest;
}

/* Inputs ------------------------------------------------------ */

static uint64_t random_state;

static uint64_t random_word(void)
{
	random_state += 0x9e3779b97f4a7c15;
	uint64_t z = random_state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* Bit patterns that decide something: zeros, subnormals, edges of ranges, infinities, quiet and
 * signalling NaN. */
static const uint64_t specials_16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400,
				       0x3c00, 0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
				       0x7c01, 0xfd55, 0x7e01, 0xfe00, 0x007f, 0x0080,
				       0x3f80, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f81};
static const uint64_t specials_32[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff,
				       0x00800000, 0x80800000, 0x3f800000, 0x7f7fffff, 0xff7fffff,
				       0x7f800000, 0xff800000, 0x7f800001, 0xffabcdef, 0x7fc12345,
				       0xffc00000, 0x7fffffff, 0x80000000, 0xffffffff, 0x33800000};
static const uint64_t specials_64[] = {0x0000000000000000, 0x8000000000000000, 0x0000000000000001,
				       0x800fffffffffffff, 0x0010000000000000, 0x3ff0000000000000,
				       0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000,
				       0xfff0000000000000, 0x7ff0000000000001, 0xfff8123456789abc,
				       0x7fffffffffffffff, 0xffffffffffffffff, 0x3ca0000000000000};
static const uint64_t specials_8[] = {0x00, 0x01, 0x7f, 0x80, 0x81, 0xff};

#define PICK(list) (list)[random_word() % (sizeof(list) / sizeof((list)[0]))]

static uint64_t special(size_t bytes)
{
	switch (bytes) {
	case 1:
		return PICK(specials_8);
	case 2:
		return PICK(specials_16);
	case 4:
		return PICK(specials_32);
	default:
		return PICK(specials_64);
	}
}

/* Numbers of like size, so that sums round and cancel rather than being decided by the largest. */
static uint64_t moderate(int dtype)
{
	double value = ((double)(random_word() >> 11) * 0x1p-53 - 0.5) * 8;
	uint64_t bits = 0;

	if (!is_float(dtype))
		return random_word();
	put_float(dtype, value, &bits);
	return bits;
}

static void fill(int dtype, unsigned char *to, size_t count)
{
	size_t bytes = belay_dtype_bytes((enum belay_dtype)dtype);

	for (size_t i = 0; i < count; i++) {
		uint64_t kind = random_word() % 8;
		uint64_t bits = kind == 0   ? special(bytes)
				: kind == 1 ? random_word()
					    : moderate(dtype);

		memcpy(to + i * bytes, &bits, bytes);
	}
}

/* One job in buffers of its own ------------------------------- */

struct bench {
	_Alignas(64) unsigned char input[SOURCES_MAX][ROOM];
	_Alignas(64) unsigned char output[3][ROOM];
	_Alignas(64) unsigned char expected[ROOM];
	const void *sources[SOURCES_MAX];
	void *destinations[3];
	struct host_sum_job job;
};

static struct bench bench;

/* Offsets are bytes after an aligned address, drawn for each buffer when odd is set. */
static void bench_set_up(int dtype, int op, unsigned nsources, unsigned ndestinations, size_t count,
			 int odd)
{
	for (unsigned s = 0; s < nsources; s++)
		bench.sources[s] = bench.input[s] + (odd ? random_word() % 64 : 0);
	for (unsigned d = 0; d < ndestinations; d++)
		bench.destinations[d] = bench.output[d] + GUARD + (odd ? random_word() % 64 : 0);
	bench.job = (struct host_sum_job){.sources = bench.sources,
					  .nsources = nsources,
					  .destinations = bench.destinations,
					  .ndestinations = ndestinations,
					  .count = count,
					  .dtype = dtype,
					  .op = op};
	for (unsigned s = 0; s < nsources; s++)
		fill(dtype, (unsigned char *)bench.sources[s], count);
	memset(bench.output, GUARD_BYTE, sizeof(bench.output));
	reference(&bench.job, bench.expected);
}

static size_t bench_bytes(void)
{
	return bench.job.count * belay_dtype_bytes((enum belay_dtype)bench.job.dtype);
}

static int only_guards(const unsigned char *from, const unsigned char *to)
{
	while (from < to && *from == GUARD_BYTE)
		from++;
	return from >= to;
}

static void assert_result(uint64_t digest)
{
	size_t bytes = bench_bytes();

	for (unsigned d = 0; d < bench.job.ndestinations; d++) {
		const unsigned char *at = bench.destinations[d];

		if (memcmp(at, bench.expected, bytes) != 0)
			ck_abort_msg("%s %s of %u sources, %zu elements differs on %s",
				     belay_dtype_name((enum belay_dtype)bench.job.dtype),
				     belay_op_name((enum belay_op)bench.job.op), bench.job.nsources,
				     bench.job.count, host_sum_name());
		ck_assert(only_guards(bench.output[d], at));
		ck_assert(only_guards(at + bytes, bench.output[d] + ROOM));
	}
	ck_assert_uint_eq(digest, reference_digest(bench.expected, bytes));
}

static void run_and_assert(void)
{
	assert_result(host_sum(&bench.job));
}

/* A loop test runs once a set; those that this CPU lacks are left out, and suite() says so. */
static int use_set(int i)
{
	random_state = 20240607;
	return host_sum_force(sets[i]) == 0;
}

#define FOR_EACH_KERNEL(dtype, op)                                                                 \
	for (int dtype = 1; dtype <= NDTYPES; dtype++)                                             \
		for (int op = 1; op <= NOPS; op++)

/* Tests ------------------------------------------------------- */

START_TEST(reference_converts_halves_there_and_back)
{
	for (unsigned bits = 0; bits < 0x10000; bits++) {
		uint16_t h = (uint16_t)bits;
		uint16_t h_expected = (h & 0x7fff) > 0x7c00 ? 0x7e00 : h;
		uint16_t b_expected = (h & 0x7fff) > 0x7f80 ? 0x7fc0 : h;

		if (small_from_float(&half, small_to_float(&half, h)) != h_expected ||
		    small_from_float(&brain, small_to_float(&brain, h)) != b_expected)
			ck_abort_msg("%#x", bits);
	}
	ck_assert_uint_eq(small_from_float(&half, 65519.0f), 0x7bff);
	ck_assert_uint_eq(small_from_float(&half, 65520.0f), 0x7c00);
	ck_assert_uint_eq(small_from_float(&half, 0x1p-25f), 0);
	ck_assert_uint_eq(small_from_float(&half, 0x1.000002p-25f), 1);
}
END_TEST

START_TEST(the_best_set_is_chosen_and_unknown_ones_are_refused)
{
	const char *best;

	ck_assert_int_eq(host_sum_force(NULL), 0);
	best = host_sum_name();
	ck_assert_int_eq(host_sum_force("mmx"), -1);
	ck_assert_str_eq(host_sum_name(), best);
	ck_assert_int_eq(host_sum_force(best), 0);
}
END_TEST

START_TEST(every_count_of_every_kernel_equals_the_reference)
{
	if (!use_set(_i))
		return;
	FOR_EACH_KERNEL(dtype, op)
	{
		for (size_t count = 0; count <= COUNT_MAX; count++) {
			unsigned nsources = 1 + (unsigned)count % SOURCES_MAX;

			bench_set_up(dtype, op, nsources, 1 + (unsigned)(count % 3), count,
				     count % 2);
			run_and_assert();
		}
	}
}
END_TEST

START_TEST(every_number_of_sources_and_destinations_equals_the_reference)
{
	if (!use_set(_i))
		return;
	FOR_EACH_KERNEL(dtype, op)
	{
		for (unsigned nsources = 1; nsources <= SOURCES_MAX; nsources++) {
			for (unsigned ndestinations = 1; ndestinations <= 3; ndestinations++) {
				bench_set_up(dtype, op, nsources, ndestinations, COUNT_MAX, 1);
				run_and_assert();
			}
		}
	}
}
END_TEST

/* Each special value meets each other one, in both orders, at each rank's position among three. */
static void meet_specials(int dtype, int op, const uint64_t *list, size_t n)
{
	size_t bytes = belay_dtype_bytes((enum belay_dtype)dtype);

	for (size_t shift = 0; shift < n; shift++) {
		bench_set_up(dtype, op, 3, 1, n, 0);
		for (size_t i = 0; i < n; i++)
			for (unsigned s = 0; s < 3; s++)
				memcpy(bench.input[s] + i * bytes, &list[(i + s * shift) % n],
				       bytes);
		reference(&bench.job, bench.expected);
		run_and_assert();
	}
}

#define MEET(dtype, op, list) meet_specials(dtype, op, list, sizeof(list) / sizeof((list)[0]))

START_TEST(special_values_meet_each_other_in_each_position)
{
	if (!use_set(_i))
		return;
	for (int op = 1; op <= NOPS; op++) {
		MEET(BELAY_F32, op, specials_32);
		MEET(BELAY_F64, op, specials_64);
		MEET(BELAY_F16, op, specials_16);
		MEET(BELAY_BF16, op, specials_16);
		MEET(BELAY_I32, op, specials_32);
		MEET(BELAY_I64, op, specials_64);
		MEET(BELAY_U8, op, specials_8);
		MEET(BELAY_I8, op, specials_8);
	}
}
END_TEST

START_TEST(every_16_bit_float_is_read_and_rounded_right)
{
	static const int dtypes[] = {BELAY_F16, BELAY_BF16};

	if (!use_set(_i))
		return;
	for (unsigned start = 0; start < 0x10000; start += 128) {
		for (unsigned k = 0; k < 4; k++) {
			bench_set_up(dtypes[k % 2], k < 2 ? BELAY_SUM : BELAY_PROD, 2, 1, 128, 0);
			for (unsigned i = 0; i < 128; i++) {
				uint16_t bits = (uint16_t)(start + i);

				memcpy(bench.input[0] + i * 2, &bits, sizeof(bits));
			}
			reference(&bench.job, bench.expected);
			run_and_assert();
		}
	}
}
END_TEST

/* clang-format off */
/* Known answers, so that not all rests on the reference. */
static const struct {
	const char *what;
	int dtype;
	int op;
	uint64_t in[3];
	uint64_t out;
} known[] = {
	{"half overflows on the way only", BELAY_F16, BELAY_SUM, {0x7b53, 0x7b53, 0xfb53}, 0x7b53},
	{"half overflows at the end", BELAY_F16, BELAY_SUM, {0x7b53, 0x7b53, 0x0000}, 0x7c00},
	{"half subnormals add", BELAY_F16, BELAY_SUM, {0x0001, 0x0001, 0x0001}, 0x0003},
	{"bfloat16 keeps 7e4", BELAY_BF16, BELAY_SUM, {0x4789, 0x0000, 0x8000}, 0x4789},
	{"3e38 twice is infinite in float32", BELAY_BF16, BELAY_SUM,
	 {0x7f62, 0x7f62, 0xff62}, 0x7f80},
	{"3e38 returns in another order", BELAY_BF16, BELAY_SUM, {0x7f62, 0xff62, 0x7f62}, 0x7f62},
	{"infinities cancel to one NaN", BELAY_F32, BELAY_SUM,
	 {0x7f800000, 0xff800000, 0}, 0x7fc00000},
	{"rank order decides", BELAY_F32, BELAY_SUM,
	 {0x4b800000, 0x3f800000, 0x3f800000}, 0x4b800000},
	{"rank order decides, reversed", BELAY_F32, BELAY_SUM,
	 {0x3f800000, 0x3f800000, 0x4b800000}, 0x4b800001},
	{"float32 subnormals add", BELAY_F32, BELAY_SUM, {1, 1, 0}, 2},
	{"max takes +0", BELAY_F32, BELAY_MAX, {0x80000000, 0, 0x80000000}, 0},
	{"min takes -0", BELAY_F64, BELAY_MIN, {0, 0x8000000000000000, 0}, 0x8000000000000000},
	{"max of a signalling NaN", BELAY_F64, BELAY_MAX,
	 {0, 0xfff0000000000001, 0}, 0x7ff8000000000000},
	{"int32 wraps", BELAY_I32, BELAY_SUM, {0x7fffffff, 1, 0}, 0x80000000},
	{"int8 product wraps", BELAY_I8, BELAY_PROD, {0x7f, 2, 1}, 0xfe},
	{"int8 compares signed", BELAY_I8, BELAY_MAX, {0x80, 0xff, 0x80}, 0xff},
	{"uint8 compares unsigned", BELAY_U8, BELAY_MAX, {0x80, 0xff, 0x7f}, 0xff},
};
/* clang-format on */

START_TEST(known_sums_come_out)
{
	for (int set = 0; set < NSETS; set++) {
		if (!use_set(set))
			continue;
		for (unsigned lane = 0; lane < 64; lane++) {
			size_t at = lane * belay_dtype_bytes((enum belay_dtype)known[_i].dtype);
			size_t bytes = belay_dtype_bytes((enum belay_dtype)known[_i].dtype);
			uint64_t out = 0;

			bench_set_up(known[_i].dtype, known[_i].op, 3, 1, 67, 0);
			for (unsigned s = 0; s < 3; s++)
				memcpy(bench.input[s] + at, &known[_i].in[s], bytes);
			(void)host_sum(&bench.job); /* the digest is another test's */
			memcpy(&out, (unsigned char *)bench.destinations[0] + at, bytes);
			ck_assert_msg(out == known[_i].out, "%s: %llx on %s", known[_i].what,
				      (unsigned long long)out, host_sum_name());
		}
	}
}
END_TEST

START_TEST(a_destination_may_be_any_source)
{
	if (!use_set(_i))
		return;
	FOR_EACH_KERNEL(dtype, op)
	{
		for (unsigned s = 0; s < 4; s++) {
			bench_set_up(dtype, op, 4, 2, COUNT_MAX - 7, 0);
			bench.job.touch = 0xf;
			bench.destinations[0] = bench.input[s];
			bench.destinations[1] = bench.input[(s + 1) % 4];
			ck_assert_uint_eq(host_sum(&bench.job),
					  reference_digest(bench.expected, bench_bytes()));
			ck_assert_mem_eq(bench.destinations[0], bench.expected, bench_bytes());
			ck_assert_mem_eq(bench.destinations[1], bench.expected, bench_bytes());
		}
	}
}
END_TEST

START_TEST(digests_of_slices_add_up)
{
	if (!use_set(_i))
		return;
	FOR_EACH_KERNEL(dtype, op)
	{
		size_t bytes = belay_dtype_bytes((enum belay_dtype)dtype);

		for (size_t cut = 0; cut <= COUNT_MAX; cut += 8) {
			bench_set_up(dtype, op, 3, 1, COUNT_MAX, 0);
			bench.job.count = cut;
			uint64_t digest = host_sum(&bench.job);

			for (unsigned s = 0; s < 3; s++)
				bench.sources[s] = bench.input[s] + cut * bytes;
			bench.destinations[0] =
				(unsigned char *)bench.destinations[0] + cut * bytes;
			bench.job.count = COUNT_MAX - cut;
			digest += host_sum(&bench.job);
			ck_assert_uint_eq(digest,
					  reference_digest(bench.expected, COUNT_MAX * bytes));
		}
	}
}
END_TEST

#ifdef __x86_64__
/* Flush to zero with denormals are zero; each rounding; nothing masked; all flags raised. */
static const uint64_t modes[] = {0x1f80 | 0x8040, 0x1f80 | 0x2000, 0x1f80 | 0x4000, 0x1f80 | 0x6000,
				 0x0000,	  0x1f80 | 0x003f, 0x1f80,	    0xffc0};

static uint64_t mode_get(void)
{
	return _mm_getcsr();
}

static void mode_set(uint64_t mode)
{
	_mm_setcsr((unsigned)mode);
}
#elif defined(__aarch64__)
/* Flush to zero; each rounding; default NaN; alternative halves, also flushed; FPSR, in the upper
 * half, all raised. */
static const uint64_t modes[] = {1u << 24,
				 1u << 22,
				 2u << 22,
				 3u << 22,
				 1u << 25,
				 1u << 26 | 1u << 19,
				 (uint64_t)0x9f << 32};

static uint64_t mode_get(void)
{
	uint64_t control, status;

	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
	return status << 32 | control;
}

static void mode_set(uint64_t mode)
{
	__asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
			 :
			 : "r"(mode & 0xffffffff), "r"(mode >> 32));
}
#endif

static void run_in_mode(uint64_t mode)
{
	uint64_t before = mode_get();
	uint64_t after;
	uint64_t digest;

	mode_set(mode);
	digest = host_sum(&bench.job);
	after = mode_get();
	mode_set(before);
	ck_assert_uint_eq(after, mode);
	assert_result(digest);
}

START_TEST(the_callers_floating_point_mode_neither_matters_nor_changes)
{
	if (!use_set(_i))
		return;
	FOR_EACH_KERNEL(dtype, op)
	{
		for (unsigned m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
			bench_set_up(dtype, op, 3, 1, COUNT_MAX - 1, 0);
			run_in_mode(modes[m]);
		}
	}
}
END_TEST

/* Copying ----------------------------------------------------- */

static void copy_and_assert(size_t bytes, int touch)
{
	unsigned char *from = bench.input[0] + (touch ? 0 : random_word() % 64);
	unsigned char *to = bench.output[0] + GUARD + random_word() % 64;

	fill(BELAY_U8, from, bytes);
	memcpy(bench.expected, from, bytes);
	memset(bench.output[0], GUARD_BYTE, ROOM);
	ck_assert_uint_eq(host_sum_copy(to, from, bytes, touch), reference_digest(from, bytes));
	ck_assert_mem_eq(to, bench.expected, bytes);
	ck_assert_mem_eq(from, bench.expected, bytes);
	ck_assert(only_guards(bench.output[0], to));
	ck_assert(only_guards(to + bytes, bench.output[0] + ROOM));
}

START_TEST(a_copy_copies_and_tells_its_digest)
{
	if (!use_set(_i))
		return;
	for (size_t bytes = 0; bytes <= 700; bytes++) {
		copy_and_assert(bytes, 0);
		copy_and_assert(bytes, 1);
	}
}
END_TEST

static void stage_and_assert(unsigned char *slot, unsigned char *from, size_t bytes)
{
	memset(slot, GUARD_BYTE, bytes + 64);
	host_sum_stage(slot, from, bytes);
	ck_assert(memcmp(slot, from, bytes) == 0);
	ck_assert(only_guards(slot + bytes, slot + bytes + 64));
}

START_TEST(staging_copies_exactly_its_bytes)
{
	size_t room = (size_t)5 << 20;
	unsigned char *slot = aligned_alloc(64, room);
	unsigned char *from = aligned_alloc(64, room);

	ck_assert(slot && from);
	if (use_set(_i)) {
		fill(BELAY_I64, from, room / 8);
		for (size_t bytes = 0; bytes < 600; bytes++)
			stage_and_assert(slot, from + bytes % 67, bytes);
		for (size_t bytes = 1024; bytes + 256 < room; bytes += bytes / 3 + 13)
			stage_and_assert(slot, from + bytes % 67, bytes);
	}
	free(from);
	free(slot);
}
END_TEST

/* Touching ---------------------------------------------------- */

/* A page that starts read only: its first store raises SIGSEGV, whose handler notes where, and lets
 * it pass. */
static unsigned char *volatile locked_page;
static void *volatile first_store;
static long page_bytes;

static void on_store(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	first_store = info->si_addr;
	if (mprotect(locked_page, (size_t)page_bytes, PROT_READ | PROT_WRITE) != 0)
		abort();
}

/* Two pages, of which the second is locked. */
static unsigned char *touch_set_up(void)
{
	struct sigaction action = {.sa_sigaction = on_store, .sa_flags = SA_SIGINFO};
	unsigned char *pages;

	page_bytes = sysconf(_SC_PAGESIZE);
	pages = mmap(NULL, 2 * (size_t)page_bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(pages != MAP_FAILED);
	ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
	locked_page = pages + page_bytes;
	return pages;
}

static void lock_page(void)
{
	ck_assert_int_eq(mprotect(locked_page, (size_t)page_bytes, PROT_READ), 0);
	first_store = NULL;
}

/* A source that starts `lines` before the locked page and ends in it: in a line and a tail, or in a
 * tail of one word. */
static void use_touched_source(unsigned s, size_t lines)
{
	unsigned char *source = locked_page - lines * 64;

	bench_set_up(BELAY_F32, BELAY_SUM, 3, 1, (lines + lines % 2) * 16 + 2, 0);
	memcpy(source, bench.input[s], bench_bytes());
	bench.sources[s] = source;
	lock_page();
}

START_TEST(touch_stores_to_every_line_of_the_sources_it_names)
{
	unsigned char *pages = touch_set_up();

	for (int set = 0; set < NSETS; set++) {
		if (!use_set(set))
			continue;
		for (size_t lines = 0; lines < 4; lines++) {
			for (unsigned s = 0; s < 3; s++) {
				use_touched_source(s, lines);
				bench.job.touch = 7u & ~(1u << s);
				run_and_assert();
				ck_assert_ptr_null(first_store);
				bench.job.touch = 1u << s;
				run_and_assert();
				ck_assert_ptr_eq(first_store, locked_page);
				ck_assert_int_eq(mprotect(locked_page, (size_t)page_bytes,
							  PROT_READ | PROT_WRITE),
						 0);
			}
		}
	}
	ck_assert_int_eq(munmap(pages, 2 * (size_t)page_bytes), 0);
}
END_TEST

START_TEST(a_touching_copy_stores_to_every_line_of_its_source)
{
	unsigned char *pages = touch_set_up();

	for (int set = 0; set < NSETS; set++) {
		if (!use_set(set))
			continue;
		for (size_t lines = 0; lines < 4; lines++) {
			const unsigned char *source = locked_page - lines * 64;
			/* Ends in the page: in a line and a tail, or in a tail of one word. */
			size_t bytes = (lines + lines % 2) * 64 + 8;

			lock_page();
			(void)host_sum_copy(bench.output[0], source, bytes, 0);
			ck_assert_ptr_null(first_store);
			(void)host_sum_copy(bench.output[0], source, bytes, 1);
			ck_assert_ptr_eq(first_store, locked_page);
		}
	}
	ck_assert_int_eq(munmap(pages, 2 * (size_t)page_bytes), 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("host_sum");
	TCase *c = tcase_create("host_sum");

	for (int i = 0; i < NSETS; i++)
		if (host_sum_force(sets[i]) != 0)
			printf("# not on this CPU, so not tested: %s\n", sets[i]);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, reference_converts_halves_there_and_back);
	tcase_add_test(c, the_best_set_is_chosen_and_unknown_ones_are_refused);
	tcase_add_loop_test(c, every_count_of_every_kernel_equals_the_reference, 0, NSETS);
	tcase_add_loop_test(c, every_number_of_sources_and_destinations_equals_the_reference, 0,
			    NSETS);
	tcase_add_loop_test(c, special_values_meet_each_other_in_each_position, 0, NSETS);
	tcase_add_loop_test(c, every_16_bit_float_is_read_and_rounded_right, 0, NSETS);
	tcase_add_loop_test(c, known_sums_come_out, 0, (int)(sizeof(known) / sizeof(known[0])));
	tcase_add_loop_test(c, a_destination_may_be_any_source, 0, NSETS);
	tcase_add_loop_test(c, digests_of_slices_add_up, 0, NSETS);
	tcase_add_loop_test(c, the_callers_floating_point_mode_neither_matters_nor_changes, 0,
			    NSETS);
	tcase_add_loop_test(c, a_copy_copies_and_tells_its_digest, 0, NSETS);
	tcase_add_loop_test(c, staging_copies_exactly_its_bytes, 0, NSETS);
	tcase_add_test(c, touch_stores_to_every_line_of_the_sources_it_names);
	tcase_add_test(c, a_touching_copy_stores_to_every_line_of_its_source);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
