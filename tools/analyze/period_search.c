/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/period_search.h"

/* In noise the list is compared in so many parts; breaks spoil one or two of them, so the worst
 * quarter does not count. */
#define PARTS_MAX	16u
#define PART_CALLS_MIN	64u
#define NOISY_CALLS_MIN 64u
/* Of the calls compared, so many may differ, at most. */
#define NOISE_MAX 0.2
/* So many differences less than between neighbours, and so many neighbours that differ: fewer could
 * be chance. */
#define EVIDENCE_MIN 16.0
#define CHANGES_MIN  7u
/* Where a period is seen less than three times. */
#define CHANGES_TWICE_MIN 16u
/* Stretches of calls that are alike. */
#define ALIKE_CALLS_MIN 4u
#define ALIKE_RUNS_MIN	5u
#define ALIKE_SHARE	0.9

/* Without noise ------------------------------------------------------------------------------ */

/* The shortest period of a whole list: its length minus its longest proper border (Knuth,
 * Morris, Pratt). */
static size_t shortest_period(const uint64_t *list, size_t n, size_t *border)
{
	size_t length = 0;

	border[0] = 0;
	for (size_t i = 1; i < n; i++) {
		while (length && list[i] != list[length])
			length = border[length - 1];
		if (list[i] == list[length])
			length++;
		border[i] = length;
	}
	return n - border[n - 1];
}

/* Few calls that are unlike the one before may be at equal distances by chance. */
static int is_varied(const uint64_t *list, size_t n, size_t wanted)
{
	size_t changes = 0;

	for (size_t i = 1; i < n && changes < wanted; i++)
		changes += list[i] != list[i - 1];
	return changes >= wanted;
}

static size_t exact_calls(const uint64_t *list, size_t n, struct period_work *work)
{
	size_t calls;

	if (!is_varied(list, n, CHANGES_MIN))
		return 0;
	calls = shortest_period(list, n, work->counts);
	if (calls < 2 || calls > n / 2)
		return 0;
	return calls <= n / 3 || is_varied(list, n, CHANGES_TWICE_MIN) ? calls : 0;
}

/* In noise ----------------------------------------------------------------------------------- */

/* Numbers the different signatures, so that four calls are compared at once. */
static void number_signatures(const uint64_t *list, size_t n, struct period_work *work)
{
	uint16_t different = 0;

	memset(work->places, 0, sizeof(work->places));
	for (size_t i = 0; i < n; i++) {
		size_t place = (size_t)(list[i] * 0x9e3779b97f4a7c15u >> 48);

		while (work->places[place] && list[work->places[place] - 1] != list[i])
			place = (place + 1) % (2 * PERIOD_LIST_MAX);
		if (work->places[place]) {
			work->numbers[i] = work->numbers[work->places[place] - 1];
		} else {
			work->places[place] = (uint32_t)i + 1;
			work->numbers[i] = different++;
		}
	}
}

/* Four numbers at a time, each with a counter of its own: at most PERIOD_LIST_MAX / 4 steps. */
static size_t count_differences(const uint16_t *a, const uint16_t *b, size_t n)
{
	const uint64_t low = 0x7fff7fff7fff7fffu;
	uint64_t counters = 0;
	size_t count = 0, i = 0;

	for (; i + 4 <= n; i += 4) {
		uint64_t x, y;

		memcpy(&x, a + i, sizeof(x));
		memcpy(&y, b + i, sizeof(y));
		x ^= y;
		/* The top bit of each number that is not 0. */
		counters += ((((x & low) + low) | x) & ~low) >> 15;
	}
	for (; counters; counters >>= 16)
		count += counters & 0xffff;
	for (; i < n; i++)
		count += a[i] != b[i];
	return count;
}

/* How many calls differ from those `calls` later. */
struct fit {
	double pairs;
	double differ;
};

#define NO_FIT ((struct fit){1.0, 1.0})

/* Takes the largest so far into a list of the `keep` largest, unsorted. */
static void keep_largest(size_t *largest, size_t keep, size_t value)
{
	for (size_t i = 0; i < keep; i++) {
		if (value > largest[i]) {
			size_t smaller = largest[i];

			largest[i] = value;
			value = smaller;
		}
	}
}

/* Says NO_FIT as soon as more parts than are left out show none: chance does, and most of the time
 * is spent on it. */
static struct fit fit_of(const uint16_t *numbers, size_t n, size_t calls)
{
	size_t pairs = n - calls, parts = pairs / PART_CALLS_MIN;
	size_t worst[PARTS_MAX / 4] = {0}, keep, sum = 0, bad = 0;

	parts = parts < 1 ? 1 : parts > PARTS_MAX ? PARTS_MAX : parts;
	keep = parts / 4;
	for (size_t part = 0; part < parts; part++) {
		size_t begin = pairs * part / parts, end = pairs * (part + 1) / parts;
		size_t differ =
			count_differences(numbers + begin, numbers + begin + calls, end - begin);

		bad += (double)differ > 2 * NOISE_MAX * (double)(end - begin);
		if (bad > keep && calls > 1)
			return NO_FIT;
		sum += differ;
		keep_largest(worst, keep, differ);
	}
	for (size_t i = 0; i < keep; i++)
		sum -= worst[i];
	return (struct fit){(double)pairs * (double)(parts - keep) / (double)parts, (double)sum};
}

/* Differences that a fit may have more than the best one and still be as good: three standard
 * deviations. The best of many is good by chance: it counts as having some. */
static double slack_of(const struct fit *best)
{
	double slack = 6.0;

	/* The square root, near enough, without the mathematics library. */
	while (slack * slack < 9.0 * best->differ)
		slack += 1.0;
	return slack;
}

static size_t choose_calls(const struct period_work *work, size_t n)
{
	const struct fit neighbours = fit_of(work->numbers, n, 1);
	size_t longest = n / 3 < PERIOD_CALLS_MAX ? n / 3 : PERIOD_CALLS_MAX;
	struct fit best = neighbours;
	double limit;

	for (size_t calls = 2; calls <= longest; calls++) {
		struct fit fit = fit_of(work->numbers, n, calls);

		if (fit.differ / fit.pairs < best.differ / best.pairs)
			best = fit;
	}
	limit = (best.differ + slack_of(&best)) / best.pairs;
	if (best.differ / best.pairs > NOISE_MAX ||
	    neighbours.differ * best.pairs / neighbours.pairs - best.differ < EVIDENCE_MIN ||
	    neighbours.differ / neighbours.pairs <= limit)
		return 0;
	for (size_t calls = 2; calls <= longest; calls++) {
		struct fit fit = fit_of(work->numbers, n, calls);

		if (fit.differ / fit.pairs <= limit)
			return calls;
	}
	return 0;
}

static size_t noisy_calls(const uint64_t *list, size_t n, struct period_work *work)
{
	if (n < NOISY_CALLS_MIN)
		return 0;
	number_signatures(list, n, work);
	return choose_calls(work, n);
}

/* Which of two holds better at the beginning of the list, which was numbered; 0 is none. */
static size_t better_calls(const struct period_work *work, size_t n, size_t a, size_t b)
{
	struct fit fit_a, fit_b;

	if (!a || !b || a == b)
		return a ? a : b;
	fit_a = fit_of(work->numbers, n, a);
	fit_b = fit_of(work->numbers, n, b);
	return fit_b.differ / fit_b.pairs < fit_a.differ / fit_a.pairs ? b : a;
}

/* Where the sizes come again: in the whole list; else, in noise or when another period begins in
 * its midst, what holds best at its beginning; else, after a warm-up, at its end. */
static size_t sizes_calls(const uint64_t *list, size_t n, struct period_work *work)
{
	size_t half = n / 2, calls = exact_calls(list, n, work);
	size_t at_first;

	if (calls)
		return calls;
	calls = noisy_calls(list, n, work);
	at_first = exact_calls(list, half, work);
	if (half >= NOISY_CALLS_MIN) {
		if (!at_first)
			at_first = noisy_calls(list, half, work);
		calls = better_calls(work, half, calls, at_first);
	}
	return calls ? calls : exact_calls(list + half, n - half, work);
}

/* A place at which so many undisturbed repetitions follow; n: none. */
static size_t find_undisturbed(const uint64_t *list, size_t n, size_t calls, size_t repetitions)
{
	size_t alike = 0, wanted = (repetitions - 1) * calls;

	for (size_t i = 0; i + calls < n; i++) {
		alike = list[i] == list[i + calls] ? alike + 1 : 0;
		if (alike == wanted)
			return i + 1 - wanted;
	}
	return n;
}

static int search_sizes(const uint64_t *list, size_t n, struct period_work *work,
			struct period *ret_period)
{
	size_t calls = sizes_calls(list, n, work), from;

	if (calls < 2)
		return 0;
	/* The same noise twice in the same place is chance, three times it is not. */
	from = find_undisturbed(list, n, calls, 3);
	if (from == n)
		from = find_undisturbed(list, n, calls, 2);
	if (from == n)
		return 0;
	/* What was found in noise may be several repetitions of the real one. */
	calls = shortest_period(list + from, 2 * calls, work->counts);
	*ret_period = (struct period){PERIOD_SIZES, calls, from};
	return calls > 1;
}

/* Stretches of calls that are alike ---------------------------------------------------------- */

/* The end of the stretch that begins at `i`. One call between its like is noise. */
static size_t run_end(const uint64_t *list, size_t n, size_t i)
{
	uint64_t like = list[i];

	while (i < n && (list[i] == like || (i + 1 < n && list[i + 1] == like)))
		i++;
	return i;
}

/* Counts the stretches by length, but the first and the last, which may be cut. Returns the length
 * that most of them have; 0: there are none. */
static size_t usual_run(const uint64_t *list, size_t n, size_t *counts)
{
	size_t usual = 0;

	memset(counts, 0, n * sizeof(*counts));
	for (size_t begin = run_end(list, n, 0), end; begin < n; begin = end) {
		end = run_end(list, n, begin);
		if (end < n)
			counts[end - begin]++;
	}
	for (size_t length = 1; length < n; length++) {
		if (counts[length] > counts[usual])
			usual = length;
	}
	return usual;
}

static int search_alike(const uint64_t *list, size_t n, struct period_work *work,
			struct period *ret_period)
{
	size_t calls = usual_run(list, n, work->counts), *counts = work->counts;
	size_t runs = 0, in_runs = 0, in_all = 0;

	if (calls < ALIKE_CALLS_MIN)
		return 0;
	for (size_t length = 1; length < n; length++) {
		in_all += counts[length] * length;
		if (length % calls == 0) {
			runs += counts[length];
			in_runs += counts[length] * length;
		}
	}
	if (runs < ALIKE_RUNS_MIN || (double)in_runs < ALIKE_SHARE * (double)in_all)
		return 0;
	*ret_period = (struct period){PERIOD_ALIKE, calls, run_end(list, n, 0) % calls};
	return 1;
}

void period_search(const uint64_t *list, size_t n, struct period_work *work,
		   struct period *ret_period)
{
	struct period period = {.kind = PERIOD_NONE};

	if (n >= 4 && !search_sizes(list, n, work, &period))
		(void)search_alike(list, n, work, &period);
	*ret_period = period;
}
