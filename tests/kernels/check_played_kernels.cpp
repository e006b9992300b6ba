/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call kernels of kernels/, compiled for the CPU and run in random schedules; see played_gpu.h.
 *
 *   BELAY_TEST_SEED=N    runs that seed alone
 *   BELAY_TESTS_LONG=1   runs many
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/kernels/played_ranks.h"

enum { SEEDS = 1, SEEDS_LONG = 12, SEEDS_TO_FIND = 40 };

/* First turns such that turns, flags and parities wrap within a run. */
static const uint64_t first_turns[] = {1, 0xfffffffa, 0x1fffffff5};

static struct {
	unsigned tests;
	bool failed;
} tap;

static bool is_long(void)
{
	const char *text = getenv("BELAY_TESTS_LONG");

	return text && text[0] == '1';
}

/* What went wrong; empty: nothing. */
static std::string run_ranks(played_watchers *watchers = nullptr)
{
	if (!played_run([&] {
		    if (watchers)
			    watchers->look();
	    }))
		return played_failure();
	return "";
}

/* ---- scenarios: "" or what went wrong ----------------------------------------------------------
 */

static std::string random_turns(uint64_t seed, uint32_t nranks, enum played_mutation mutation)
{
	played_ranks ranks(seed, nranks, first_turns[seed % 3], mutation);
	std::string wrong;

	ranks.launch_random_turns(nranks > 4 ? 4 : 10);
	wrong = run_ranks();
	if (!wrong.empty())
		return wrong;
	for (const turn &t : ranks.turns)
		ranks.check_done(t, true);
	ranks.check_last_turn();
	for (const auto &m : ranks.rank)
		if (m->posts->mismatch || m->posts->gave_up)
			ranks.note("something was complained of", 0, m->comm.rank);
	return ranks.problem;
}

/* Two turns, the one that is hit, and what makes sure that it has left nothing behind. */
static std::string one_hit(uint64_t seed, uint32_t nranks, uint32_t algorithm, uint32_t kind,
			   enum played_mutation mutation = MUTATION_NONE)
{
	played_ranks ranks(seed, nranks, first_turns[seed % 3], mutation);
	played_watchers watchers(&ranks, ranks.first + 2);
	struct symm_fault fault = {};
	std::string wrong;
	uint32_t hit_rank;
	bool lost = kind == SYMM_FAULT_DROP || kind == SYMM_FAULT_FLAG;

	fault.first = fault.last = ranks.first + 2;
	fault.kind = kind;
	fault.at = SYMM_AT_STAGE + (uint32_t)played_random(4);
	fault.ns = 900000;
	hit_rank = (uint32_t)played_random(nranks);
	ranks.arm(hit_rank, fault);
	ranks.launch_random_turns(2);
	ranks.launch_turn(algorithm, true);
	ranks.launch_random_turns(5);
	wrong = run_ranks(&watchers);
	if (!wrong.empty())
		return wrong;
	for (const turn &t : ranks.turns)
		ranks.check_done(t, t.number != ranks.first + 2);
	ranks.check_last_turn();
	ranks.check_slots_are_empty();
	if (kind == SYMM_FAULT_DELAY && fault.at == SYMM_AT_STAGE)
		ranks.check_staged(ranks.first + 2, hit_rank, fault.ns);
	if (lost && watchers.rescued() == 0)
		ranks.note("nobody needed the rescue", ranks.first + 2, 0);
	return ranks.problem;
}

/* One write that gets lost: of slice 0, or rank 1's input of it. */
enum island_write {
	LOST_INPUT,	/* to rank 0 */
	LOST_SUM,	/* across to the upper owner */
	LOST_ACROSS,	/* the result, to the lower owner */
	LOST_PASSED_ON, /* ... and from it to rank 1 */
	LOST_UPPER,	/* the result, to the second rank of the upper half */
	ISLAND_WRITES
};

/* Whose region the write goes to, and what is said there of its loss. */
struct island_loss {
	uint32_t reader, phase, maker;
};

static struct island_loss loss_of(uint32_t write, uint32_t half)
{
	switch (write) {
	case LOST_INPUT:
		return {0, 1, 1};
	case LOST_SUM:
		return {half, 2, 0};
	case LOST_ACROSS:
		return {0, 2, half};
	case LOST_PASSED_ON:
		return {1, 2, half};
	default:
		return {half + 1, 2, half};
	}
}

/* As island.cuh lays slots out: packet 0, and a later one in turn. */
static const char *island_slot(const played_ranks &ranks, uint32_t write, uint32_t half)
{
	const struct symm_layout &layout = ranks.layout;
	uint64_t parity = ranks.first % 2, slice = 2 * layout.slice_bytes;
	const char *own = ranks.region.get() + loss_of(write, half).reader * layout.stride;
	const char *wire = own + layout.wire + parity * ranks.nranks * layout.wire_bytes;

	if (write == LOST_INPUT)
		return own + layout.inputs + parity * half * slice + slice;
	return write == LOST_SUM || write == LOST_ACROSS ? wire + half * slice : wire;
}

/* The first turn loses the write: whoever reads it names who made it, and it is rescued. */
static std::string island_loses(uint64_t seed, uint32_t nranks, uint32_t write)
{
	played_ranks ranks(seed, nranks, first_turns[seed % 3]);
	played_watchers watchers(&ranks, ranks.first);
	struct island_loss loss = loss_of(write, nranks / 2);
	const struct symm_posts &posts = *ranks.rank[loss.reader]->posts;
	bool named = false, ran;

	played_lose(island_slot(ranks, write, nranks / 2) + 16 * (seed % 3));
	ranks.launch_turn(SYMM_ISLAND, true);
	ranks.launch_random_turns(4);
	/* Nobody helps before it is said; what is late is said before it. */
	ran = played_run([&] {
		named = named || (posts.stuck == (ranks.first << 3 | loss.phase) &&
				  posts.missing == UINT64_C(1) << loss.maker);
		if (named)
			watchers.look();
	});
	if (!ran)
		return played_failure();
	for (const turn &t : ranks.turns)
		ranks.check_done(t, t.number != ranks.first);
	ranks.check_last_turn();
	ranks.check_slots_are_empty();
	if (watchers.rescued() == 0)
		ranks.note("nobody needed the rescue", ranks.first, loss.reader);
	if (!named)
		ranks.note("the maker of what was lost was not named", ranks.first, loss.reader);
	return ranks.problem;
}

/* Turns from `hit` on have no result on any rank but those that `may_end` it. */
static void check_failed(played_ranks &ranks, uint64_t hit, bool hit_may_end)
{
	for (uint32_t r = 0; r < ranks.nranks; r++) {
		uint64_t failed = ranks.rank[r]->state->mode.failed;

		if (failed != hit && !(hit_may_end && failed == hit + 1))
			ranks.note("the turn is not told as failed", hit, r);
		for (const turn &t : ranks.turns)
			if (t.number > hit || (t.number == hit && !hit_may_end))
				ranks.check_untouched(t, r);
	}
	for (const turn &t : ranks.turns)
		if (t.number < hit)
			ranks.check_done(t, t.number + 1 < hit);
}

static std::string mismatch(uint64_t seed, uint32_t nranks, uint32_t algorithm)
{
	played_ranks ranks(seed, nranks, first_turns[seed % 3]);
	uint64_t hit = ranks.first + 2;
	struct symm_fault fault = {hit, hit, 0, SYMM_FAULT_SIGN, 0, 0};
	bool failed;

	ranks.arm((uint32_t)played_random(nranks), fault);
	ranks.launch_random_turns(2);
	ranks.launch_turn(algorithm, true);
	ranks.launch_random_turns(2);
	/* The order comes when all have told: a rank that is held back may be late to see it. */
	failed = !played_run([&] {
		bool all = std::all_of(ranks.rank.begin(), ranks.rank.end(), [&](const auto &m) {
			return m->posts->mismatch >> 8 == hit;
		});

		if (all && played_random(1000) == 0)
			for (auto &m : ranks.rank)
				m->orders->fail_from = hit;
	});
	if (failed)
		return played_failure();
	check_failed(ranks, hit, false);
	for (uint32_t r = 0; r < nranks; r++)
		if (ranks.rank[r]->posts->mismatch >> 8 != hit)
			ranks.note("the mismatch was not posted", hit, r);
	return ranks.problem;
}

/* A lost turn; the order to fail comes (`ordered`), or nothing, and the kernels' own deadline. */
static std::string given_up(uint64_t seed, uint32_t nranks, uint32_t algorithm, bool ordered)
{
	played_ranks ranks(seed, nranks, first_turns[seed % 3]);
	uint64_t hit = ranks.first + 2;
	struct symm_fault fault = {hit, hit, 0, SYMM_FAULT_DROP, 0, 0};
	bool failed, posted = false;

	if (!ordered)
		for (auto &m : ranks.rank)
			m->comm.last_ns = 6000000; /* far beyond what warps are held back for */
	ranks.arm(0, fault);
	ranks.launch_random_turns(2);
	ranks.launch_turn(algorithm, true);
	ranks.launch_random_turns(2);
	failed = !played_run([&] {
		for (const auto &m : ranks.rank)
			if (ordered && m->posts->stuck >> 3 == hit && played_random(1000) == 0)
				for (auto &other : ranks.rank)
					other->orders->fail_from = hit;
	});
	if (failed)
		return played_failure();
	check_failed(ranks, hit, true);
	for (const auto &m : ranks.rank)
		posted = posted || m->posts->gave_up == hit;
	if (posted == ordered)
		ranks.note("giving up was posted for nothing, or not at all", hit, 0);
	return ranks.problem;
}

/* ---- tests -------------------------------------------------------------------------------------
 */

template <class SCENARIO> static void holds(const char *sentence, const SCENARIO &scenario)
{
	const char *only = getenv("BELAY_TEST_SEED");
	uint64_t first = only ? strtoull(only, nullptr, 10) : 1;
	uint64_t last = only ? first : (uint64_t)(is_long() ? SEEDS_LONG : SEEDS);
	std::string wrong;
	uint64_t seed = first;

	for (; seed <= last; seed++) {
		wrong = scenario(seed);
		if (!wrong.empty())
			break;
	}
	printf("%sok %u - %s\n", wrong.empty() ? "" : "not ", ++tap.tests, sentence);
	if (!wrong.empty())
		printf("# BELAY_TEST_SEED=%llu: %s\n", (unsigned long long)seed, wrong.c_str());
	fflush(stdout);
	tap.failed = tap.failed || !wrong.empty();
}

static void test_random_turns(void)
{
	static const uint32_t nranks[] = {1, 2, 3, 4, 8, 16};
	char sentence[100];

	for (uint32_t n : nranks) {
		snprintf(sentence, sizeof(sentence),
			 "%u rank%s: turns of any shape leave sums, digests, records and lines", n,
			 n == 1 ? "" : "s");
		holds(sentence, [n](uint64_t seed) {
			for (uint64_t k = 0; k < (n > 4 ? 1 : 3); k++) {
				std::string wrong = random_turns(seed * 3 + k, n, MUTATION_NONE);

				if (!wrong.empty())
					return wrong;
			}
			return std::string();
		});
	}
}

/* Ranks that try an algorithm: two to four; of islands an even number from four on. */
static std::vector<uint32_t> ranks_for(uint32_t algorithm)
{
	if (algorithm == SYMM_ISLAND)
		return is_long() ? std::vector<uint32_t>{4, 6, 8} : std::vector<uint32_t>{4, 8};
	return is_long() ? std::vector<uint32_t>{2, 3, 4} : std::vector<uint32_t>{2, 3};
}

template <class SCENARIO> static void holds_for_all(const char *sentence, const SCENARIO &scenario)
{
	holds(sentence, [&](uint64_t seed) {
		for (uint32_t algorithm = 0; algorithm < SYMM_ALGORITHMS; algorithm++)
			for (uint32_t n : ranks_for(algorithm)) {
				std::string wrong = scenario(seed + algorithm, n, algorithm);

				if (!wrong.empty())
					return wrong + ", algorithm " + std::to_string(algorithm);
			}
		return std::string();
	});
}

static void test_hits(void)
{
	static const struct {
		uint32_t kind;
		const char *sentence;
	} hits[] = {
		{SYMM_FAULT_DROP,
		 "a turn whose writes are lost is rescued and leaves nothing behind"},
		{SYMM_FAULT_FLAG, "a turn with wrong flags is rescued and leaves nothing behind"},
		{SYMM_FAULT_DELAY, "a rank that waits for long changes no result"},
		{SYMM_FAULT_ASK, "a rank that asks the host first changes no result"},
	};

	for (const auto &hit : hits)
		holds_for_all(hit.sentence, [&hit](uint64_t seed, uint32_t n, uint32_t algorithm) {
			return one_hit(seed, n, algorithm, hit.kind);
		});
}

static void test_islands(void)
{
	static const char *const sentences[ISLAND_WRITES] = {
		"islands: a lost input is rescued, and its sender is named",
		"islands: a lost sum is rescued, and its lower owner is named",
		"islands: a result that is lost across is rescued, and its upper owner is named",
		"islands: a result that is not passed on is rescued, and its upper owner is named",
		"islands: a result that is lost in the upper half is rescued, and its owner is "
		"named",
	};

	for (uint32_t write = 0; write < ISLAND_WRITES; write++)
		holds(sentences[write], [write](uint64_t seed) {
			for (uint32_t n : ranks_for(SYMM_ISLAND)) {
				std::string wrong = island_loses(seed + write, n, write);

				if (!wrong.empty())
					return wrong;
			}
			return std::string();
		});
}

static void test_failures(void)
{
	holds_for_all("a mismatch is posted by every rank and leaves outputs alone", mismatch);
	holds_for_all("ordered to fail, turns leave without a result, and so do all after",
		      [](uint64_t seed, uint32_t n, uint32_t algorithm) {
			      return given_up(seed, n, algorithm, true);
		      });
	holds_for_all("with no answer, a kernel leaves by its own deadline and says so",
		      [](uint64_t seed, uint32_t n, uint32_t algorithm) {
			      return given_up(seed, n, algorithm, false);
		      });
}

/* Each is noticed in some schedule; else the tests above see nothing of it. */
static void test_mutations(void)
{
	static const struct {
		enum played_mutation mutation;
		const char *sentence;
	} mutations[] = {
		{MUTATION_NO_FENCES, "fences that order nothing are noticed"},
		{MUTATION_NO_BARRIERS, "barriers that let all through are noticed"},
		{MUTATION_TORN, "flags that come apart from their data are noticed"},
		{MUTATION_NO_WAIT, "what is done before the kernel before has ended is noticed"},
	};

	for (const auto &m : mutations) {
		bool noticed = false;

		for (uint64_t seed = 1; seed <= SEEDS_TO_FIND && !noticed; seed++)
			noticed = !random_turns(seed, 3, m.mutation).empty();
		printf("%sok %u - %s\n", noticed ? "" : "not ", ++tap.tests, m.sentence);
		fflush(stdout);
		tap.failed = tap.failed || !noticed;
	}
}

int main(void)
{
	test_random_turns();
	test_hits();
	test_islands();
	test_failures();
	test_mutations();
	printf("1..%u\n", tap.tests);
	/* Under automake the TAP lines tell; by hand the status does. */
	return tap.failed && !getenv("AM_TAP_AWK") ? 1 : 0;
}
