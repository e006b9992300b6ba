/* SPDX-License-Identifier: Apache-2.0 */
/* What a scenario lets happen, and what it must not lead to. */
#include "tests/cluster/cluster.h"

#include <string.h>

#include "runtime/belay.h"

static bool chance(struct cluster *c, unsigned percent)
{
	return cluster_random(c, 100) < percent;
}

static unsigned any_rank(struct cluster *c)
{
	return (unsigned)cluster_random(c, c->plan.nranks);
}

/* Small groups mostly: they have more schedules to a step. */
static unsigned any_size(struct cluster *c)
{
	return chance(c, 75) ? 2 + (unsigned)cluster_random(c, 3)
			     : 2 + (unsigned)cluster_random(c, 7);
}

/* ---- calls and their turns ------------------------------------------------------------------- */

bool plan_spoils(const struct plan *plan)
{
	return plan->spoiled_per_1024 || (plan->nfaults && plan->fault[0].type == FAULTY_SPOIL);
}

unsigned plan_call_of(const struct plan *plan, uint64_t turn)
{
	uint64_t before = turn - plan->first_turn;

	/* Only where a rule is missing does a rank get further than planned. */
	return before < plan->turns ? plan->call_of[before] : plan->calls - 1;
}

uint64_t plan_last_turn(const struct plan *plan, unsigned rank, unsigned call)
{
	uint64_t first = plan->first_turn + plan->call_begin[call];
	bool odd = (int)rank == plan->odd_rank && first == plan->odd_turn;

	return first + (odd ? plan->odd_turns : plan->call_turns[call]) - 1;
}

/* Of one turn mostly, but of several each time that there is room for them. */
static unsigned any_turns(struct cluster *c, unsigned calls_left)
{
	unsigned room = TURNS_MAX - c->plan.turns - calls_left;
	unsigned turns = chance(c, 20) ? 2 + (unsigned)cluster_random(c, 2) : 1;

	return turns <= room ? turns : 1;
}

static void plan_calls(struct cluster *c, unsigned calls)
{
	struct plan *plan = &c->plan;

	plan->calls = calls;
	plan->turns = 0;
	for (unsigned i = 0; i < calls; i++) {
		plan->call_begin[i] = plan->turns;
		plan->call_turns[i] = any_turns(c, calls - i);
		for (unsigned t = 0; t < plan->call_turns[i]; t++)
			plan->call_of[plan->turns++] = i;
	}
	for (unsigned i = 1; i < calls; i++)
		plan->pass_ends[i] = chance(c, 40);
	plan->pass_ends[calls] = chance(c, 70);
}

/* Steps that a rank takes when nothing is wrong, about. */
static uint64_t healthy_steps(const struct plan *plan)
{
	return plan->turns * (15 + 8 * plan->nranks);
}

static void plan_odd_call(struct cluster *c)
{
	struct plan *plan = &c->plan;

	plan->odd_rank = (int)any_rank(c);
	plan->odd_turn = plan->first_turn + plan->call_begin[cluster_random(c, plan->calls)];
	plan->odd_turns = 1 + (unsigned)cluster_random(c, 3);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static struct planned_fault *add_fault(struct cluster *c, enum fault_type type, unsigned rank)
{
	struct plan *plan = &c->plan;
	struct planned_fault *fault = &plan->fault[plan->nfaults++];

	*fault = (struct planned_fault){.type = type, .trigger = AT_STEP, .rank = rank};
	fault->count = 1 + cluster_random(c, healthy_steps(plan));
	return fault;
}

/* The ways of a second fault to meet the consequences of the first. */
static void aim(struct cluster *c, struct planned_fault *fault)
{
	switch (cluster_random(c, 4)) {
	case 0:
		break;
	case 1:
		fault->trigger = AFTER_FIRST;
		fault->count = 1 + cluster_random(c, 300);
		break;
	case 2:
		fault->trigger = AT_PROPOSAL;
		break;
	default:
		fault->trigger = AT_RESCUE;
		fault->count = 1 + cluster_random(c, 30 * c->plan.nranks);
		break;
	}
}

static void plan_unrest(struct cluster *c, uint64_t stall_ns_max)
{
	c->plan.stall_per_1024 = (unsigned)cluster_random(c, 20);
	c->plan.stall_ns_max = stall_ns_max;
	c->plan.pause_per_16 = (unsigned)cluster_random(c, 9);
	c->plan.pause_ns_max = stall_ns_max;
}

static void plan_late(struct cluster *c)
{
	unsigned rank = any_rank(c);
	struct planned_fault *fault = add_fault(c, FAULTY_STOP, rank);

	fault->ns = 11 * MS + cluster_random(c, 35 * MS);
	if (chance(c, 30)) {
		fault = add_fault(c, FAULTY_STOP, any_rank(c));
		fault->ns = cluster_random(c, 9 * MS);
	} else {
		c->plan.culprit = (int)rank;
	}
	/* Threads are preempted for less than the grace: longer would look like a lost write
	 * here. */
	c->plan.stall_per_1024 = (unsigned)cluster_random(c, 20);
	c->plan.stall_ns_max = GRACE_NS / 16;
	c->plan.no_verdict = true;
	c->plan.no_rescue = c->plan.path != CLUSTER_RING;
}

static void plan_stuck(struct cluster *c)
{
	unsigned rank = any_rank(c);
	struct planned_fault *fault = add_fault(c, FAULTY_STOP, rank);

	fault->ns = GIVE_UP_NS + 5 * MS + cluster_random(c, 90 * MS);
	c->plan.culprit = (int)rank;
	c->plan.causes = 1u << BELAY_CAUSE_PEER_STUCK | 1u << BELAY_CAUSE_PEER_LOST;
	plan_unrest(c, MS);
}

static void plan_mismatch(struct cluster *c)
{
	struct plan *plan = &c->plan;

	plan_odd_call(c);
	/* Of two ranks the second is called odd. */
	plan->culprit = plan->nranks > 2 ? plan->odd_rank : 1;
	plan->causes = 1u << BELAY_CAUSE_MISMATCH;
	plan->must_fail = true;
	plan->lost_per_1024 = chance(c, 50) ? 30 : 0;
	plan_unrest(c, MS / 2);
}

static void plan_chaos(struct cluster *c)
{
	struct plan *plan = &c->plan;
	unsigned faults = 1 + (unsigned)cluster_random(c, 4);

	plan_unrest(c, chance(c, 30) ? 20 * MS : 3 * MS);
	plan->lost_per_1024 = chance(c, 50) ? 20 : 0;
	plan->delayed_per_1024 = chance(c, 50) ? 40 : 0;
	plan->destroy_ns = chance(c, 30) ? 20 * MS : 200 * MS;
	plan->spoiled_per_1024 = chance(c, 20) ? 20 : 0;
	if (chance(c, 15))
		plan_odd_call(c);
	while (faults--) {
		static const enum fault_type types[] = {FAULTY_CRASH,  FAULTY_CRASH,
							FAULTY_STOP,   FAULTY_PREEMPT,
							FAULTY_STARVE, FAULTY_ABORT};
		unsigned rank = any_rank(c); /* first: compilers evaluate arguments in any order */
		struct planned_fault *fault = add_fault(c, types[cluster_random(c, 6)], rank);

		fault->ns =
			chance(c, 50) ? cluster_random(c, 20 * MS) : cluster_random(c, 150 * MS);
		aim(c, fault);
	}
}

static void plan_crashes(struct cluster *c, unsigned crashes)
{
	unsigned rank = any_rank(c);

	add_fault(c, FAULTY_CRASH, rank);
	c->plan.causes = 1u << BELAY_CAUSE_PEER_LOST;
	if (crashes == 1)
		c->plan.culprit = (int)rank;
	else
		aim(c, add_fault(c, FAULTY_CRASH, any_rank(c)));
	c->plan.lost_per_1024 = chance(c, 30) ? 20 : 0;
	c->plan.delayed_per_1024 = chance(c, 50) ? 120 : 0;
	plan_unrest(c, 2 * MS);
}

static void plan_loss(struct cluster *c)
{
	c->plan.lost_per_1024 = 60;
	c->plan.delayed_per_1024 = chance(c, 50) ? 60 : 0;
	c->plan.spoiled_per_1024 = chance(c, 30) ? 60 : 0;
	c->plan.no_verdict = true;
	plan_unrest(c, MS / 2);
}

/* ---- the breaker ----------------------------------------------------------------------------- */

/* The first half of a schedule's time with the path broken, then whole, then broken again. */
static void plan_broken_path(struct cluster *c)
{
	struct plan *plan = &c->plan;
	uint64_t until = 10 * MS + cluster_random(c, 90 * MS);

	plan->broken_per_1024 = 100 + (unsigned)cluster_random(c, 300);
	plan->broken[0] = (struct broken_time){0, until};
	until += 10 * MS + cluster_random(c, 60 * MS);
	plan->broken[1] = (struct broken_time){until, until + cluster_random(c, 60 * MS)};
	plan->spoiled_per_1024 = chance(c, 20) ? 20 : 0;
	plan->breaker_rescues = 1 + (uint32_t)cluster_random(c, 3);
	plan->probe_ns = MS + cluster_random(c, 10 * MS);
	plan->think_ns_max = chance(c, 70) ? cluster_random(c, 6 * MS) : 0;
}

static void plan_switch(struct cluster *c)
{
	struct plan *plan = &c->plan;

	plan->path = (enum cluster_path)cluster_random(c, CLUSTER_RING);
	plan_calls(c, 6 + (unsigned)cluster_random(c, CALLS_MAX - 5));
	plan_broken_path(c);
	plan->captured = chance(c, 20) && plan->path != CLUSTER_REGION;
	if (plan->captured)
		plan->spoiled_per_1024 = 0; /* under way while a rescue at once begins */
	if (chance(c, 60)) {
		plan->no_verdict = true;
		plan_unrest(c, MS / 2);
	} else {
		static const enum fault_type types[] = {FAULTY_CRASH, FAULTY_STOP, FAULTY_STARVE,
							FAULTY_ABORT};
		unsigned rank = any_rank(c); /* first: compilers evaluate arguments in any order */
		struct planned_fault *fault = add_fault(c, types[cluster_random(c, 4)], rank);

		fault->ns = cluster_random(c, 80 * MS);
		aim(c, fault);
		plan_unrest(c, 2 * MS);
	}
}

/* ---- every fault at every step --------------------------------------------------------------- */

/* The seed counts them through. */
static void plan_every_step(struct cluster *c)
{
	static const struct {
		enum fault_type type;
		uint64_t ns;
		unsigned causes;
	} kinds[] = {
		{FAULTY_CRASH, 0, 1u << BELAY_CAUSE_PEER_LOST},
		{FAULTY_ABORT, 0, 1u << BELAY_CAUSE_ABORTED},
		{FAULTY_STOP, 15 * MS, 0},
		{FAULTY_STOP, GIVE_UP_NS + 30 * MS, 0},
		{FAULTY_PREEMPT, 15 * MS, 0},
		{FAULTY_STARVE, 20 * MS, 0},
		{FAULTY_LOSE, 0, 0},
		{FAULTY_DELAY, 20 * MS, 0},
		{FAULTY_SPOIL, 0, 0},
	};
	const size_t nkinds = sizeof(kinds) / sizeof(kinds[0]);
	struct plan *plan = &c->plan;
	size_t kind = c->seed % nkinds;
	struct planned_fault *fault;

	plan->nranks = 2 + (unsigned)cluster_random(c, 2);
	plan_calls(c, 2);
	fault = add_fault(c, kinds[kind].type, any_rank(c));
	fault->count = 1 + c->seed / nkinds % STEPS_OF_EACH;
	fault->ns = kinds[kind].ns;
	if (fault->type >= FAULTY_LOSE) {
		fault->trigger = AT_PUSH;
		fault->count = 1 + c->seed / nkinds % (2 * plan->turns * (plan->nranks - 1));
	}
	plan->causes = kinds[kind].causes;
	if (plan->causes)
		plan->culprit = (int)fault->rank;
	plan->lost_per_1024 = chance(c, 30) ? 60 : 0;
}

void cluster_plan(struct cluster *c, enum scenario scenario)
{
	struct plan *plan = &c->plan;

	plan->nranks = any_size(c);
	plan->path = (enum cluster_path)cluster_random(c, 4);
	plan->odd_rank = plan->culprit = -1;
	plan->destroy_ns = 200 * MS;
	/* Some near the end of the 32-bit flags (R5). */
	plan->first_turn = chance(c, 25) ? UINT64_C(0xfffffffd) + cluster_random(c, 4) : 1;
	plan_calls(c, 2 + (unsigned)cluster_random(c, 5));
	plan->breaker_rescues =
		chance(c, 50) ? 1 + (uint32_t)cluster_random(c, 3) : BREAKER_RESCUES_MAX;
	plan->breaker_window_ns = 1000 * MS;
	plan->probe_ns = 2 * MS + cluster_random(c, 20 * MS);
	switch (scenario) {
	case SCENARIO_LATE:
		plan_late(c);
		break;
	case SCENARIO_STUCK:
		plan_stuck(c);
		break;
	case SCENARIO_CRASH:
		plan_crashes(c, 1);
		break;
	case SCENARIO_TWO_CRASHES:
		plan_crashes(c, 2);
		break;
	case SCENARIO_LOSS:
		plan_loss(c);
		break;
	case SCENARIO_MISMATCH:
		plan_mismatch(c);
		break;
	case SCENARIO_ABORT:
		plan->culprit = (int)any_rank(c);
		add_fault(c, FAULTY_ABORT, (unsigned)plan->culprit);
		plan->causes = 1u << BELAY_CAUSE_ABORTED;
		plan_unrest(c, 2 * MS);
		break;
	case SCENARIO_SWITCH:
		plan_switch(c);
		break;
	case SCENARIO_EVERY_STEP:
		plan_every_step(c);
		break;
	case SCENARIO_CHAOS:
		plan_chaos(c);
		break;
	default: /* calm */
		plan->no_verdict = true;
		plan->no_rescue = plan->path != CLUSTER_RING;
		break;
	}
}
