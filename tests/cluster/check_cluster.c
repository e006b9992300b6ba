/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeded schedules of the verdict, rescue and commit rules; see cluster.h.
 *
 *   BELAY_SEED=N         runs that seed alone, in each scenario, and tells its last steps when it
 *                        fails
 *   BELAY_TESTS_LONG=1   runs a million schedules instead of ten thousand
 *   CK_RUN_CASE=loss     runs one scenario (Check's own variable)
 */
#include <check.h>
#include <stddef.h>
#include <stdlib.h>

#include "tests/cluster/cluster.h"

#include "runtime/belay.h"

/* Of all scenarios together. */
#ifndef SCHEDULES
#define SCHEDULES 10000u
#endif
#define SCHEDULES_LONG 1000000u
/* A mutation must be found within so many seeds of its scenario; most need a few, from where they
 * are looked for. */
#define SEEDS_TO_FIND  20000u
#define TEST_TIMEOUT_S 1800

static bool is_long(void)
{
	const char *text = getenv("BELAY_TESTS_LONG");

	return text && text[0] == '1';
}

/* Seeds first .. last of a scenario; false and the tale of the first that fails. */
static bool run_seeds(struct cluster *c, enum scenario scenario)
{
	const char *only = getenv("BELAY_SEED");
	uint64_t first = only ? strtoull(only, NULL, 10) : 1;
	unsigned all = is_long() ? SCHEDULES_LONG : SCHEDULES;
	uint64_t last = only ? first : (all + SCENARIOS - 1) / SCENARIOS;

	/* Each fault at each step, at least once. */
	if (scenario == SCENARIO_EVERY_STEP && !only && last < EVERY_STEP)
		last = EVERY_STEP;
	for (uint64_t seed = first; seed <= last; seed++)
		if (!cluster_run(c, scenario, seed, MUTATION_NONE)) {
			cluster_tell(c, stdout);
			return false;
		}
	return true;
}

static struct cluster *new_cluster(void)
{
	struct cluster *c = calloc(1, sizeof(*c));

	ck_assert_ptr_nonnull(c);
	return c;
}

/* ---- every invariant in every scenario ------------------------------------------------------- */

/* What schedules of a scenario lead to now and then: those that never get to what they are made for
 * prove nothing. */
#define TALLY(field) offsetof(struct tally, field) / sizeof(uint64_t)
static const struct {
	enum scenario scenario;
	size_t tally;
	unsigned in_schedules; /* once in so many, at least */
} reached[] = {
	{SCENARIO_CALM, TALLY(commits), 1},
	{SCENARIO_CALM, TALLY(call_turns), 2},
	{SCENARIO_LATE, TALLY(named_late), 2},
	{SCENARIO_STUCK, TALLY(by_cause[BELAY_CAUSE_PEER_STUCK]), 4},
	{SCENARIO_CRASH, TALLY(donations), 20},
	{SCENARIO_CRASH, TALLY(by_cause[BELAY_CAUSE_PEER_LOST]), 2},
	{SCENARIO_TWO_CRASHES, TALLY(attempts), 50},
	{SCENARIO_TWO_CRASHES, TALLY(buried), 900},
	{SCENARIO_LOSS, TALLY(outputs_rescued), 1},
	{SCENARIO_LOSS, TALLY(spoiled), 8},
	{SCENARIO_LOSS, TALLY(switches), 8},
	{SCENARIO_MISMATCH, TALLY(by_cause[BELAY_CAUSE_MISMATCH]), 1},
	{SCENARIO_ABORT, TALLY(withdrawals), 50},
	{SCENARIO_ABORT, TALLY(by_cause[BELAY_CAUSE_ABORTED]), 2},
	{SCENARIO_SWITCH, TALLY(opened), 2},
	{SCENARIO_SWITCH, TALLY(probes_missed), 10},
	{SCENARIO_SWITCH, TALLY(closed), 4},
	{SCENARIO_SWITCH, TALLY(switches), 1},
	{SCENARIO_SWITCH, TALLY(hasty_turns), 4},
	{SCENARIO_EVERY_STEP, TALLY(verdicts), 8},
	{SCENARIO_EVERY_STEP, TALLY(outputs_rescued), 8},
	{SCENARIO_EVERY_STEP, TALLY(spoiled), 100},
	{SCENARIO_CHAOS, TALLY(verdicts), 2},
};

static void check_reached(const struct cluster *c, enum scenario scenario)
{
	const uint64_t *tally = (const uint64_t *)&c->tally;

	for (size_t i = 0; i < sizeof(reached) / sizeof(reached[0]); i++)
		if (reached[i].scenario == scenario)
			ck_assert_msg(tally[reached[i].tally] >=
					      c->tally.schedules / reached[i].in_schedules,
				      "%s: row %zu is reached %lu times in %lu schedules",
				      scenario_name(scenario), i,
				      (unsigned long)tally[reached[i].tally],
				      (unsigned long)c->tally.schedules);
}

START_TEST(all_invariants_hold_after_every_step)
{
	struct cluster *c = new_cluster();

	ck_assert_msg(run_seeds(c, (enum scenario)_i), "%s, seed %lu: %s",
		      scenario_name((enum scenario)_i), (unsigned long)c->seed, c->failure);
	if (!getenv("BELAY_SEED"))
		check_reached(c, (enum scenario)_i);
	if (is_long())
		printf("# %s: %lu schedules, %lu steps\n", scenario_name((enum scenario)_i),
		       (unsigned long)c->tally.schedules, (unsigned long)c->tally.steps);
	free(c);
}
END_TEST

START_TEST(a_seed_gives_the_same_schedule_again)
{
	struct cluster *c = new_cluster();
	uint64_t steps, traced;

	(void)cluster_run(c, SCENARIO_CHAOS, 7, MUTATION_NONE);
	steps = c->tally.steps;
	traced = c->traced;
	(void)cluster_run(c, SCENARIO_CHAOS, 7, MUTATION_NONE);
	ck_assert_uint_eq(c->tally.steps, 2 * steps);
	ck_assert_uint_eq(c->traced, traced);
	free(c);
}
END_TEST

/* ---- every rule is needed -------------------------------------------------------------------- */

/* Where a rule's lack shows soonest: the scenario, and from which seed on it is looked for, to save
 * time. */
static const struct {
	enum mutation mutation;
	enum scenario scenario;
	uint64_t first_seed;
} mutants[] = {
	{ASWRITTEN, SCENARIO_ABORT, 1},
	{NOREREAD, SCENARIO_ABORT, 1},
	{NOWITHDRAW, SCENARIO_ABORT, 1},
	{NOHELP, SCENARIO_CHAOS, 1},
	{COMMITANY, SCENARIO_CRASH, 1},
	{OWNSEQ, SCENARIO_STUCK, 1},
	{PLAINSTEP2, SCENARIO_ABORT, 1},
	{GOON, SCENARIO_STUCK, 1},
	{NOACK, SCENARIO_LOSS, 1},
	{RESETWORD, SCENARIO_ABORT, 1},
	{DEADDONE, SCENARIO_CRASH, 1},
	{VERDICTATONCE, SCENARIO_CRASH, 1},
	{LATEISLOST, SCENARIO_LATE, 1},
	{BLAMEANY, SCENARIO_STUCK, 1},
	{BEGINEARLY, SCENARIO_CHAOS, 1},
	{NORESULTS, SCENARIO_LOSS, 100},
	{SAMEFLAG, SCENARIO_LOSS, 1},
	{HALFSTAGED, SCENARIO_CRASH, 1},
	{ANYPART, SCENARIO_SWITCH, 1},
	{ONEATTEMPT, SCENARIO_TWO_CRASHES, 1},
	{ONLYSTUCK, SCENARIO_LOSS, 1},
	{COUNTEACH, SCENARIO_LOSS, 1},
	{SWITCHNOW, SCENARIO_SWITCH, 1},
	{SWITCHOVER, SCENARIO_SWITCH, 1},
	{SWITCHLATE, SCENARIO_SWITCH, 1},
	{SPOILEDSTAYS, SCENARIO_LOSS, 1},
	{DEADSPOILED, SCENARIO_SWITCH, 2800},
	{GIVESEARLY, SCENARIO_LOSS, 480},
	{ANYPLACE, SCENARIO_LOSS, 1},
	{WISHLOST, SCENARIO_SWITCH, 220},
	{OWNBREAKER, SCENARIO_SWITCH, 1},
	{PROBEONE, SCENARIO_SWITCH, 1},
	{NOCOMPARE, SCENARIO_MISMATCH, 1},
	{VERDICTFIRST, SCENARIO_ABORT, 250},
	{LEAVEATONCE, SCENARIO_LOSS, 1},
	{LASTCHUNKONLY, SCENARIO_CHAOS, 1},
	{RESULTSONLY, SCENARIO_TWO_CRASHES, 250},
	{STALEJOIN, SCENARIO_CHAOS, 1},
	{LATEENDS, SCENARIO_TWO_CRASHES, 1390},
	{RINGDONATES, SCENARIO_CHAOS, 1},
	{DONORSIGNS, SCENARIO_CHAOS, 700},
};

START_TEST(a_rule_taken_away_is_missed)
{
	struct cluster *c = new_cluster();
	bool found = false;
	uint64_t seed = mutants[_i].first_seed;

	for (unsigned n = 0; n < SEEDS_TO_FIND && !found; n++, seed++)
		found = !cluster_run(c, mutants[_i].scenario, seed, mutants[_i].mutation);
	ck_assert_msg(found, "%s is not noticed in %u schedules of %s",
		      mutation_name(mutants[_i].mutation), SEEDS_TO_FIND,
		      scenario_name(mutants[_i].scenario));
	if (is_long())
		printf("# %s: seed %lu of %s: %s\n", mutation_name(mutants[_i].mutation),
		       (unsigned long)seed - 1, scenario_name(mutants[_i].scenario), c->failure);
	free(c);
}
END_TEST

START_TEST(every_mutation_has_a_test)
{
	uint64_t tried = 0;

	for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++)
		tried |= UINT64_C(1) << mutants[i].mutation;
	ck_assert_uint_eq(tried, (UINT64_C(1) << MUTATIONS) - 2);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("cluster");
	TCase *schedules = tcase_create("schedules"), *rules = tcase_create("rules");

	for (int i = 0; i < SCENARIOS; i++) {
		TCase *one = tcase_create(scenario_name((enum scenario)i));

		tcase_set_timeout(one, TEST_TIMEOUT_S);
		tcase_add_loop_test(one, all_invariants_hold_after_every_step, i, i + 1);
		suite_add_tcase(s, one);
	}
	tcase_set_timeout(schedules, TEST_TIMEOUT_S);
	tcase_add_test(schedules, a_seed_gives_the_same_schedule_again);
	tcase_set_timeout(rules, TEST_TIMEOUT_S);
	tcase_add_loop_test(rules, a_rule_taken_away_is_missed, 0,
			    (int)(sizeof(mutants) / sizeof(mutants[0])));
	tcase_add_test(rules, every_mutation_has_a_test);
	suite_add_tcase(s, schedules);
	suite_add_tcase(s, rules);
	return s;
}

#include "tests/unit/check_main.h"
