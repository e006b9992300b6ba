/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C, SIGTERM, a handled signal and a fork in every phase of a communicator's life do what a
 * user expects, and soon. Each phase is held by a rank that stands still in it; should the machine
 * be so slow that the signal comes before, the test shows less and fails no more. docs/faults.md:
 * 33, 36 and 37.
 */
#include "config.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fault_variants.h"

#define NS_PER_MS UINT64_C(1000000)
#define NRANKS	  4
#define SEQ	  "4" /* of the call that it is about */
#define INTO_IT	  (25 * NS_PER_MS)

enum phase { CREATION, IDLE, IN_CALL, RESCUE, VERDICT, DESTRUCTION };

/* What goes wrong, before and behind the milliseconds that the phase is held. */
static const struct {
	const char *name, *fault, *at;
} phases[] = {
	[CREATION] = {"in the creation", "rank=1,seq=4,kind=delay:", ",at=handshake"},
	[IDLE] = {"idle", NULL, NULL},
	[IN_CALL] = {"in a call", "rank=1,seq=" SEQ ",kind=delay:", ""},
	[RESCUE] = {"in a rescue",
		    "rank=0,seq=" SEQ ",kind=drop;rank=1,seq=" SEQ ",kind=delay:", ",at=rescue"},
	[VERDICT] = {"in a verdict",
		     "rank=2,seq=" SEQ ",kind=count;rank=*,seq=*,kind=delay:", ",at=verdict"},
	[DESTRUCTION] = {"in the destruction", "rank=1,seq=*,kind=delay:", ",at=destroy"},
};

#define PHASES (int)(sizeof(phases) / sizeof(phases[0]))
struct signal_plan {
	enum phase phase;
	char fault[256];
	bool handles; /* the signal has a handler, without SA_RESTART */
	bool forks;   /* rank 0 forks in the phase */
};

static _Atomic int handled;

static void handle(int signal)
{
	(void)signal;
	atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
}

static void *fork_in_phase(void *argument)
{
	struct rank_seat *seat = argument;
	const struct signal_plan *plan = seat->plan;
	struct belay_health health = {.size = sizeof(health)};
	float in = 1, out = 2;
	int status = -1;
	pid_t child;

	(void)rank_await(seat, RANK_BLOW, NRANKS);
	(void)poll(NULL, 0, INTO_IT / NS_PER_MS);
	child = fork();
	if (child == 0) {
		if (plan->phase == CREATION || plan->phase == DESTRUCTION)
			_exit(0); /* there is nothing that it could be asked */
		_exit(belay_comm_health(seat->comm, &health) != BELAY_E_FORKED ||
		      belay_allreduce(&in, &out, 1, BELAY_F32, BELAY_SUM, seat->comm, NULL) !=
			      BELAY_E_FORKED ||
		      belay_comm_destroy(seat->comm) != BELAY_E_FORKED || out != 2);
	}
	RANK_EXPECT(seat, child > 0 && waitpid(child, &status, 0) == child && status == 0);
	return NULL;
}

/* Announces itself at the door of the phase, and goes through. */
static void go_through(struct rank_seat *seat, enum phase phase)
{
	if (phase == CREATION)
		rank_announce(seat, RANK_BLOW);
	if (rank_create(seat, 0))
		return;
	RANK_EXPECT(seat, rank_pass(seat, 3, 100));
	if (phase != CREATION)
		rank_announce(seat, RANK_BLOW);
	if (phase == IDLE)
		(void)poll(NULL, 0, 2 * INTO_IT / NS_PER_MS);
	if (phase != DESTRUCTION)
		(void)rank_call(seat, 100);
}

static void live_in_phase(struct rank_seat *seat)
{
	const struct signal_plan *plan = seat->plan;
	struct sigaction action = {.sa_handler = handle};
	pthread_t thread;

	if (plan->handles)
		(void)sigaction(SIGINT, &action, NULL);
	seat->config.fault = plan->fault[0] ? plan->fault : NULL;
	if (plan->forks && seat->rank == 0)
		RANK_EXPECT(seat, pthread_create(&thread, NULL, fork_in_phase, seat) == 0);
	go_through(seat, plan->phase);
	/* The blow falls while there is a rank for it. */
	if (plan->handles)
		while (!atomic_load_explicit(&handled, memory_order_relaxed))
			(void)poll(NULL, 0, 1);
	if (plan->forks && seat->rank == 0 && plan->phase != DESTRUCTION)
		(void)pthread_join(thread, NULL);
	if (seat->comm)
		rank_destroy(seat);
	if (plan->forks && seat->rank == 0 && plan->phase == DESTRUCTION)
		(void)pthread_join(thread, NULL);
}

static void run(enum phase phase, const char *hold_ms, struct signal_plan plan,
		struct rank_blow blow, struct rank_group *ret_group)
{
	char injected[80];

	plan.phase = phase;
	if (phases[phase].fault)
		(void)snprintf(plan.fault, sizeof(plan.fault), "%s%s%s", phases[phase].fault,
			       hold_ms, phases[phase].at);
	(void)snprintf(injected, sizeof(injected), "%s %s",
		       plan.forks      ? "fork"
		       : plan.handles  ? "a handled SIGINT"
		       : blow.rank < 0 ? "SIGINT of all"
				       : "SIGTERM of a rank",
		       phases[phase].name);
	blow.at = NRANKS;
	blow.after_ns = INTO_IT;
	rank_group_run(&(struct rank_spec){.nranks = NRANKS,
					   .scenario = live_in_phase,
					   .plan = &plan,
					   .injected = injected,
					   .blow = blow},
		       ret_group);
}

/* What is asserted of time is that nobody waits for a deadline. */
static void assert_soon(const struct rank_group *group)
{
	ck_assert_uint_ne(group->blow_at, 0);
	ck_assert_uint_lt(group->end_at - group->blow_at, 10000 * NS_PER_MS);
}

/* A terminal sends SIGINT to all: nothing holds a rank up. */
FAULT_TEST(an_interrupt_ends_all_ranks_in_every_phase, "33")
{
	struct rank_group group;

	run((enum phase)_i, "60000", (struct signal_plan){0},
	    (struct rank_blow){.signal = SIGINT, .rank = -1}, &group);
	for (int r = 0; r < NRANKS; r++)
		/* By the signal, or just before it, having heard of the others. */
		ck_assert(WIFEXITED(group.wait_status[r]) ||
			  WTERMSIG(group.wait_status[r]) == SIGINT);
	assert_soon(&group);
}
END_TEST

/* As a kill: the others are told, or the creation fails, and nobody waits. */
FAULT_TEST(a_terminated_rank_ends_and_the_others_know_in_every_phase, "33")
{
	struct rank_group group;

	run((enum phase)_i, _i == VERDICT ? "250" : "60000", (struct signal_plan){0},
	    (struct rank_blow){.signal = SIGTERM, .rank = 1}, &group);
	ck_assert_int_eq(WTERMSIG(group.wait_status[1]), SIGTERM);
	ck_assert_uint_eq(rank_group_alive(&group), 0xd);
	for (int r = 0; r < NRANKS; r += 2)
		if (_i == CREATION)
			ck_assert_int_ne(group.report[r].created, 0);
		else if (_i != DESTRUCTION && _i != RESCUE)
			ck_assert_int_ne(group.report[r].failed, 0);
	assert_soon(&group);
}
END_TEST

/* Nothing has become of it: only the mismatch that the phase of a verdict is made with. */
static void assert_unhurt(const struct rank_group *group, enum phase phase)
{
	if (phase != VERDICT) {
		assert_all_well(group);
		return;
	}
	for (int r = 0; r < NRANKS; r++)
		ck_assert_int_eq(group->report[r].failed, BELAY_E_MISMATCH);
}

/* Python's and many a program's way: a flag is set, and the call goes on. */
FAULT_TEST(a_handled_interrupt_ends_nothing_in_any_phase, "36")
{
	struct rank_group group;

	run((enum phase)_i, "150", (struct signal_plan){.handles = true},
	    (struct rank_blow){.signal = SIGINT, .rank = -1}, &group);
	assert_unhurt(&group, (enum phase)_i);
}
END_TEST

FAULT_TEST(a_fork_hurts_nobody_in_any_phase, "37")
{
	struct rank_group group;

	run((enum phase)_i, "150", (struct signal_plan){.forks = true}, (struct rank_blow){0},
	    &group);
	assert_unhurt(&group, (enum phase)_i);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("signals");
	TCase *c = tcase_create("signals");

	/* `make check` tries the phase that matters most. */
	int first = rank_tests_long() ? 0 : IN_CALL;
	int end = rank_tests_long() ? PHASES : IN_CALL + 1;

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, an_interrupt_ends_all_ranks_in_every_phase, 0, PHASES);
	tcase_add_loop_test(c, a_terminated_rank_ends_and_the_others_know_in_every_phase, first,
			    end);
	tcase_add_loop_test(c, a_handled_interrupt_ends_nothing_in_any_phase, first, end);
	tcase_add_loop_test(c, a_fork_hurts_nobody_in_any_phase, first, end);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
