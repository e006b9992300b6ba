/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c: the words, what progress says, and every way of the diagram in verdict.h. */
#include <check.h>

#include "runtime/outcome/verdict.h"

#define COUNT(rows) ((int)(sizeof(rows) / sizeof((rows)[0])))

/* ---- the words ------------------------------------------------------------------------------- */

static const struct {
	enum verdict_state state;
	uint64_t turn;
	unsigned proposer;
} words[] = {
	{VERDICT_NONE, 0, 0},
	{VERDICT_PROPOSED, 1, 63},
	{VERDICT_DECIDED, UINT64_C(1) << 32, 7},
	{VERDICT_WITHDRAWN, VERDICT_TURN_MAX, 0},
};

START_TEST(a_verdict_word_keeps_its_three_parts)
{
	uint64_t word = verdict_pack(words[_i].state, words[_i].turn, words[_i].proposer);

	ck_assert_int_eq(verdict_state(word), words[_i].state);
	ck_assert_uint_eq(verdict_turn(word), words[_i].turn);
	ck_assert_uint_eq(verdict_proposer(word), words[_i].proposer);
	ck_assert_int_eq(verdict_decided(word), words[_i].state == VERDICT_DECIDED);
}
END_TEST

START_TEST(a_zero_word_is_no_verdict_and_no_rescue)
{
	ck_assert_uint_eq(verdict_pack(VERDICT_NONE, 0, 0), 0);
	ck_assert_uint_eq(rescue_turn(0), 0);
}
END_TEST

START_TEST(a_rescue_word_keeps_its_three_parts)
{
	uint64_t word = rescue_pack(VERDICT_TURN_MAX, RESCUE_ATTEMPTS_MAX, 63);

	ck_assert_uint_eq(rescue_turn(word), VERDICT_TURN_MAX);
	ck_assert_uint_eq(rescue_attempt(word), RESCUE_ATTEMPTS_MAX);
	ck_assert_uint_eq(rescue_rank(word), 63);
}
END_TEST

START_TEST(rescue_words_grow_with_turn_and_attempt)
{
	ck_assert_uint_gt(rescue_pack(2, 1, 0), rescue_pack(1, RESCUE_ATTEMPTS_MAX, 63));
	ck_assert_uint_gt(rescue_pack(2, 2, 0), rescue_pack(2, 1, 63));
}
END_TEST

/* ---- progress -------------------------------------------------------------------------------- */

/* Three ranks; unset words are 0. */
static const struct progress alive = {
	.nranks = 3, .donation = true, .staged = {5, 5, 5}, .done = {5, 4, 4}};

static struct progress with_dead(uint64_t dead, uint64_t staged, bool donation)
{
	struct progress progress = alive;

	progress.dead = dead;
	progress.donation = donation;
	progress.staged[2] = staged;
	return progress;
}

START_TEST(done_counts_as_staged)
{
	struct progress progress = alive;

	progress.staged[0] = 3; /* a word that is behind: P1 */
	ck_assert_uint_eq(progress_staged(&progress, 0), 5);
	ck_assert_uint_eq(progress_staged(&progress, 1), 5);
}
END_TEST

START_TEST(the_first_open_turn_follows_the_slowest_rank)
{
	ck_assert_uint_eq(progress_first_open(&alive), 5);
	ck_assert(progress_all_done(&alive, 4));
	ck_assert(!progress_all_done(&alive, 5));
	ck_assert(progress_all_staged(&alive, 5));
	ck_assert(!progress_all_staged(&alive, 6));
}
END_TEST

START_TEST(a_dead_rank_counts_as_done_with_what_it_staged)
{
	struct progress progress = with_dead(4, 7, true);

	ck_assert_uint_eq(progress_done(&progress, 2), 7);
	ck_assert_uint_eq(progress_done(&progress, 1), 4);
	progress.done[1] = 5;
	ck_assert_uint_eq(progress_first_open(&progress), 6);
}
END_TEST

START_TEST(without_donation_a_dead_rank_counts_by_its_done_word)
{
	struct progress progress = with_dead(4, 7, false);

	ck_assert_uint_eq(progress_done(&progress, 2), 4);
}
END_TEST

static const struct {
	const char *rule;
	uint64_t dead, staged;
	bool donation;
	uint64_t turn;
	int lacks;
} lacking[] = {
	{"nobody is dead", 0, 0, true, 9, -1},
	{"it has staged the turn", 4, 5, true, 5, -1},
	{"it has not staged the next", 4, 5, true, 6, 2},
	{"done counts as staged", 4, 0, true, 4, -1},
	{"nobody can read what it staged", 4, 5, false, 5, 2},
	{"nobody can read it though it was done", 4, 5, false, 4, 2},
	{"the lowest of several", 6, 5, true, 6, 1},
};

START_TEST(a_turn_lacks_a_dead_rank_that_has_not_staged_it)
{
	struct progress progress =
		with_dead(lacking[_i].dead, lacking[_i].staged, lacking[_i].donation);

	ck_assert_msg(progress_dead_lacks(&progress, lacking[_i].turn) == lacking[_i].lacks, "%s",
		      lacking[_i].rule);
}
END_TEST

/* ---- the diagram ----------------------------------------------------------------------------- */

static const struct {
	const char *rule;
	enum verdict_state state;
	uint64_t stands, turn;
	bool may;
} proposals[] = {
	{"over nothing", VERDICT_NONE, 0, 1, true},
	{"above a withdrawn one", VERDICT_WITHDRAWN, 4, 5, true},
	{"the withdrawn one again", VERDICT_WITHDRAWN, 4, 4, false},
	{"below a withdrawn one", VERDICT_WITHDRAWN, 4, 3, false},
	{"over another proposal", VERDICT_PROPOSED, 4, 5, false},
	{"over a decided one", VERDICT_DECIDED, 4, 5, false},
};

START_TEST(a_proposal_takes_only_the_ways_of_the_diagram)
{
	uint64_t word = verdict_pack(proposals[_i].state, proposals[_i].stands, 2), next = 77;
	bool may = verdict_propose(word, proposals[_i].turn, 1, &next);

	ck_assert_msg(may == proposals[_i].may, "%s", proposals[_i].rule);
	ck_assert_msg(next == (may ? verdict_pack(VERDICT_PROPOSED, proposals[_i].turn, 1) : 77),
		      "%s", proposals[_i].rule);
}
END_TEST

START_TEST(a_proposal_is_decided_when_one_rank_is_not_done)
{
	uint64_t word = verdict_settle(verdict_pack(VERDICT_PROPOSED, 5, 2), &alive);

	ck_assert_uint_eq(word, verdict_pack(VERDICT_DECIDED, 5, 2));
}
END_TEST

START_TEST(a_proposal_is_withdrawn_when_all_are_done_and_keeps_its_turn)
{
	uint64_t word = verdict_settle(verdict_pack(VERDICT_PROPOSED, 4, 2), &alive);

	ck_assert_uint_eq(word, verdict_pack(VERDICT_WITHDRAWN, 4, 2));
}
END_TEST

/* ---- the commit ------------------------------------------------------------------------------ */

static const struct {
	const char *rule;
	enum verdict_state state;
	uint64_t stands, turn; /* all are done with 4, not with 5 */
	enum commit_state commit;
} commits[] = {
	{"all are done, nothing stands", VERDICT_NONE, 0, 4, COMMIT_DONE},
	{"one is not done", VERDICT_NONE, 0, 5, COMMIT_WAIT},
	{"a verdict on the last turn", VERDICT_DECIDED, 4, 4, COMMIT_FAILED},
	{"a verdict below", VERDICT_DECIDED, 3, 4, COMMIT_FAILED},
	{"a verdict on a later turn does not concern it", VERDICT_DECIDED, 5, 4, COMMIT_DONE},
	{"a verdict fails it though one is not done", VERDICT_DECIDED, 5, 5, COMMIT_FAILED},
	{"a proposal is settled first", VERDICT_PROPOSED, 4, 4, COMMIT_SETTLE},
	{"a proposal on a later turn does not concern it", VERDICT_PROPOSED, 5, 4, COMMIT_DONE},
	{"a proposal is not settled before all are done", VERDICT_PROPOSED, 5, 5, COMMIT_WAIT},
	{"a withdrawn proposal is nothing", VERDICT_WITHDRAWN, 4, 4, COMMIT_DONE},
};

START_TEST(a_pass_is_committed_by_the_rule)
{
	uint64_t word = verdict_pack(commits[_i].state, commits[_i].stands, 0);

	ck_assert_msg(verdict_commit(word, &alive, commits[_i].turn) == commits[_i].commit, "%s",
		      commits[_i].rule);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("verdict");
	TCase *c = tcase_create("verdict");

	tcase_add_loop_test(c, a_verdict_word_keeps_its_three_parts, 0, COUNT(words));
	tcase_add_test(c, a_zero_word_is_no_verdict_and_no_rescue);
	tcase_add_test(c, a_rescue_word_keeps_its_three_parts);
	tcase_add_test(c, rescue_words_grow_with_turn_and_attempt);
	tcase_add_test(c, done_counts_as_staged);
	tcase_add_test(c, the_first_open_turn_follows_the_slowest_rank);
	tcase_add_test(c, a_dead_rank_counts_as_done_with_what_it_staged);
	tcase_add_test(c, without_donation_a_dead_rank_counts_by_its_done_word);
	tcase_add_loop_test(c, a_turn_lacks_a_dead_rank_that_has_not_staged_it, 0, COUNT(lacking));
	tcase_add_loop_test(c, a_proposal_takes_only_the_ways_of_the_diagram, 0, COUNT(proposals));
	tcase_add_test(c, a_proposal_is_decided_when_one_rank_is_not_done);
	tcase_add_test(c, a_proposal_is_withdrawn_when_all_are_done_and_keeps_its_turn);
	tcase_add_loop_test(c, a_pass_is_committed_by_the_rule, 0, COUNT(commits));
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
