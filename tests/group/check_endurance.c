/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that work for BELAY_SOAK_SECONDS while everything goes wrong that a communicator survives:
 * writes that are lost or wrong, ranks that are late, stopped, starved or under a storm of signals,
 * regions that cannot be used, a path that is left and taken again. Every output is compared bit
 * for bit, memory and descriptors stay flat. Figures of a long run are in docs/faults.md.
 * BELAY_SEED repeats one.
 */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include "tests/support/fault_variants.h"

#define NS_PER_S    UINT64_C(1000000000)
#define FAULTS	    14 /* of a life; BELAY_FAULT holds 16 */
#define ASK_EVERY   32 /* calls, after which rank 0 says whether the life goes on */
#define LIFE_S	    5
#define COUNT_MAX   60000
#define KIB_ALLOWED 1024

/* Words of struct rank_report.number. */
enum { LIVES, CALLS, RESCUED, LATE, ON_RING, INJECTED, KIB_GROWN, STORMS };

struct endurance {
	uint64_t seed;
	uint64_t seconds;
};

static const char *const kinds[] = {"drop",
				    "drop",
				    "flag,at=push",
				    "delay:7",
				    "delay:0.2",
				    "delay:3,at=push",
				    "stop:12",
				    "stop:5,at=reduce",
				    "stop:8,at=wait",
				    "starve:30",
				    "delay:4,at=rescue"};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* What goes wrong in one communicator: the same text on all ranks. */
struct trouble {
	char fault[2000];
	unsigned first[FAULTS], step[FAULTS];
	int storm; /* the rank under signals; nranks or more: none */
};

static void plan_trouble(uint64_t *state, int nranks, struct trouble *ret)
{
	size_t used = 0;

	*ret = (struct trouble){.storm = (int)(next(state) % (2 * (unsigned)nranks))};
	for (int i = 0; i < FAULTS; i++) {
		ret->first[i] = (unsigned)(next(state) % 300) + 1;
		ret->step[i] = (unsigned)(next(state) % 900) + 97;
		used += (size_t)snprintf(ret->fault + used, sizeof(ret->fault) - used,
					 "rank=%d,seq=%u:4000000000:%u,kind=%s;",
					 (int)(next(state) % (unsigned)nranks), ret->first[i],
					 ret->step[i], kinds[next(state) % KINDS]);
	}
	if (next(state) % 8 == 0)
		(void)snprintf(ret->fault + used, sizeof(ret->fault) - used,
			       "rank=%d,seq=*,kind=map-fail",
			       (int)(next(state) % (unsigned)nranks));
	else
		ret->fault[used - 1] = 0;
}

static uint64_t injected(const struct trouble *trouble, uint64_t calls)
{
	uint64_t count = 0;

	for (int i = 0; i < FAULTS; i++)
		if (calls >= trouble->first[i])
			count += (calls - trouble->first[i]) / trouble->step[i] + 1;
	return count;
}

static void ignore(int signal)
{
	(void)signal;
}

/* A signal each millisecond, without SA_RESTART. */
static void storm(bool blow)
{
	struct itimerval every = {.it_interval.tv_usec = blow ? 1000 : 0,
				  .it_value.tv_usec = blow ? 1000 : 0};
	struct sigaction action = {.sa_handler = ignore};

	(void)sigaction(SIGALRM, &action, NULL);
	(void)setitimer(ITIMER_REAL, &every, NULL);
}

/* All ranks hear the same from rank 0, by a call that is one of the soak too. */
static bool goes_on(struct rank_seat *seat, uint64_t until)
{
	uint32_t mine = seat->rank == 0 && rank_now_ns() < until, all = 0;

	RANK_EXPECT_STATUS(
		seat, belay_allreduce(&mine, &all, 1, BELAY_I32, BELAY_MAX, seat->comm, NULL), 0);
	return all != 0;
}

static size_t some_count(uint64_t *state)
{
	static const size_t limits[] = {4, 64, 1024, 16384, COUNT_MAX};

	return next(state) % limits[next(state) % 5];
}

static bool some_calls(struct rank_seat *seat, uint64_t *state)
{
	bool pass = next(state) & 1;

	if (pass)
		RANK_EXPECT_STATUS(seat, belay_pass_begin(seat->comm, NULL), 0);
	for (int i = 0; i < ASK_EVERY; i++) {
		struct call_shape shape = {.count = some_count(state),
					   .send_shift = next(state) % 4 ? 0 : 4,
					   .in_place = next(state) & 1};

		if (!rank_call_shaped(seat, &shape))
			return false;
	}
	if (pass)
		RANK_EXPECT_STATUS(seat, belay_pass_end(seat->comm, NULL), 0);
	return true;
}

static void add_up(struct rank_seat *seat, const struct trouble *trouble)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	uint64_t *number = seat->report->number;

	RANK_EXPECT_STATUS(seat, belay_comm_statistics(seat->comm, &statistics), 0);
	number[LIVES]++;
	number[CALLS] += statistics.calls;
	number[RESCUED] += statistics.rescued_seqs;
	number[LATE] += statistics.late_calls;
	number[ON_RING] += statistics.calls_by_path[BELAY_PATH_RING];
	number[INJECTED] += injected(trouble, statistics.calls);
	number[STORMS] += trouble->storm < seat->nranks;
}

static void one_life(struct rank_seat *seat, uint64_t *state, uint64_t until)
{
	struct trouble trouble;

	plan_trouble(state, seat->nranks, &trouble);
	seat->config.fault = trouble.fault;
	seat->made = 0;
	RANK_EXPECT_STATUS(seat, rank_create(seat, (int)(seat->report->number[LIVES] % RANK_IDS)),
			   0);
	if (!seat->comm)
		return;
	RANK_EXPECT(seat, rank_call(seat, COUNT_MAX)); /* the test's own memory at its largest */
	storm(trouble.storm == seat->rank);
	while (some_calls(seat, state) && goes_on(seat, until))
		;
	storm(false);
	add_up(seat, &trouble);
	rank_destroy(seat);
}

/* What is in use after a life is compared with what was after the first tenth of the time. */
static void endure(struct rank_seat *seat)
{
	const struct endurance *plan = seat->plan;
	uint64_t state = plan->seed, begin = rank_now_ns();
	uint64_t end = begin + plan->seconds * NS_PER_S,
		 tenth = begin + plan->seconds * NS_PER_S / 10;
	uint64_t life = plan->seconds > 4 * LIFE_S ? LIFE_S * NS_PER_S : NS_PER_S / 2;
	int descriptors = rank_open_descriptors();
	uint32_t go_on = 1;
	long before = 0;

	seat->config.late_ms = "2";
	seat->config.breaker = "3/1s";
	seat->config.probe_ms = "50";
	while (go_on && !seat->report->failed) {
		one_life(seat, &state, rank_now_ns() + life);
		RANK_EXPECT(seat, rank_open_descriptors() == descriptors);
		if (before)
			seat->report->number[KIB_GROWN] = (uint64_t)(rank_private_kib() - before);
		else if (rank_now_ns() > tenth)
			before = rank_private_kib();
		/* Rank 0 tells the others through the shared words whether there is one more. */
		if (seat->rank == 0)
			atomic_store_explicit(&seat->words[1], rank_now_ns() < end,
					      memory_order_relaxed);
		rank_announce(seat, 0);
		(void)rank_await(seat, 0, seat->report->number[LIVES] * (uint64_t)seat->nranks);
		go_on = (uint32_t)atomic_load_explicit(&seat->words[1], memory_order_relaxed);
		rank_announce(seat, 2);
		(void)rank_await(seat, 2, seat->report->number[LIVES] * (uint64_t)seat->nranks);
	}
	RANK_EXPECT(seat, before == 0 || rank_private_kib() - before < KIB_ALLOWED);
}

static void tell(const struct rank_group *group, const struct endurance *plan)
{
	const uint64_t *number = group->report[0].number;

	(void)printf("# %llu s, %llu communicators (%llu with a storm of signals), %llu calls, "
		     "%llu faults, "
		     "%llu calls rescued, %llu late, %llu on the ring; private memory grown by",
		     (unsigned long long)plan->seconds, (unsigned long long)number[LIVES],
		     (unsigned long long)number[STORMS], (unsigned long long)number[CALLS],
		     (unsigned long long)number[INJECTED], (unsigned long long)number[RESCUED],
		     (unsigned long long)number[LATE], (unsigned long long)number[ON_RING]);
	for (int r = 0; r < group->nranks; r++)
		(void)printf(" %lld", (long long)group->report[r].number[KIB_GROWN]);
	(void)printf(" KiB\n");
	(void)fflush(stdout);
}

FAULT_TEST(ranks_endure_everything_that_a_communicator_survives, "7 10 21 22 26 36 F04 F38 F62 F87")
{
	const char *seed = getenv("BELAY_SEED");
	struct endurance plan = {
		.seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL),
		.seconds = (uint64_t)rank_times("BELAY_SOAK_SECONDS", 30, 1),
	};
	struct rank_group group;

	(void)printf("# BELAY_SEED=%llu\n", (unsigned long long)plan.seed);
	(void)fflush(stdout);
	rank_group_run(&(struct rank_spec){.nranks = 4,
					   .scenario = endure,
					   .plan = &plan,
					   .injected = "everything that a communicator survives",
					   .cap_ms = (unsigned)(plan.seconds + 60) * 1000},
		       &group);
	tell(&group, &plan);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].number[RESCUED], 1);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("endurance");
	TCase *c = tcase_create("endurance");

	tcase_set_timeout(c, 7200);
	tcase_add_test(c, ranks_endure_everything_that_a_communicator_survives);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
