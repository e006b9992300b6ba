/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeded schedules of the verdict, rescue and commit rules; see cluster.h.
 *
 *   BELAY_SEED=N         runs that seed alone, in each scenario, and tells its last steps when it
 *                        fails
 *   BELAY_TESTS_LONG=1   runs over 200,000 schedules
 *   CK_RUN_CASE=loss     runs one scenario (Check's own variable)
 */
#include <check.h>
#include <stdlib.h>

#include "tests/cluster/cluster.h"

#include "runtime/belay.h"

#define SEEDS	   500u
#define SEEDS_LONG 25000u
/* A mutation must be found within so many seeds of its scenario; most need a few. */
#define SEEDS_TO_FIND  6000u
#define TEST_TIMEOUT_S 600

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
	uint64_t last = only ? first : is_long() ? SEEDS_LONG : SEEDS;

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

START_TEST(all_invariants_hold_after_every_step)
{
	struct cluster *c = new_cluster();

	ck_assert_msg(run_seeds(c, (enum scenario)_i), "%s, seed %lu: %s",
		      scenario_name((enum scenario)_i), (unsigned long)c->seed, c->failure);
	free(c);
}
END_TEST

/* Schedules that never get to what they are made for prove nothing. */
START_TEST(the_schedules_reach_what_they_are_made_for)
{
	struct cluster *c = new_cluster();

	for (int s = 0; s < SCENARIOS; s++)
		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			(void)cluster_run(c, (enum scenario)s, seed, MUTATION_NONE);
	ck_assert_uint_gt(c->tally.withdrawals, 0);
	ck_assert_uint_gt(c->tally.verdicts, c->tally.schedules / 4);
	ck_assert_uint_gt(c->tally.attempts, 0);
	ck_assert_uint_gt(c->tally.outputs_rescued, c->tally.schedules / 4);
	ck_assert_uint_gt(c->tally.donations, 0);
	ck_assert_uint_gt(c->tally.commits, c->tally.schedules / 2);
	ck_assert_uint_gt(c->tally.named_late, 0);
	ck_assert_uint_gt(c->tally.by_cause[BELAY_CAUSE_PEER_LOST], 0);
	ck_assert_uint_gt(c->tally.by_cause[BELAY_CAUSE_PEER_STUCK], 0);
	ck_assert_uint_gt(c->tally.by_cause[BELAY_CAUSE_MISMATCH], 0);
	ck_assert_uint_gt(c->tally.by_cause[BELAY_CAUSE_ABORTED], 0);
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
	{NOTALLSTAGED, SCENARIO_CHAOS, 1},
	{NORESULTS, SCENARIO_LOSS, 1},
	{NOTURNINFLAG, SCENARIO_LOSS, 1},
	{NOCOMPARE, SCENARIO_MISMATCH, 1},
	{VERDICTFIRST, SCENARIO_ABORT, 500},
	{LEAVEATONCE, SCENARIO_LOSS, 1},
	{LASTCHUNKONLY, SCENARIO_LOSS, 1250},
	{RESULTSONLY, SCENARIO_CHAOS, 950},
	{STALEJOIN, SCENARIO_CHAOS, 350},
	{LATEENDS, SCENARIO_TWO_CRASHES, 3200},
	{RINGDONATES, SCENARIO_CHAOS, 1},
	{DONORSIGNS, SCENARIO_CHAOS, 2200},
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
	tcase_add_test(schedules, the_schedules_reach_what_they_are_made_for);
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
