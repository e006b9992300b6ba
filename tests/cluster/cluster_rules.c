/* SPDX-License-Identifier: Apache-2.0 */
/* The pure rules as the fixture calls them, and the mutations: each takes one rule away. */
#include "tests/cluster/cluster.h"

#include "runtime/belay.h"
#include "runtime/group/region.h"

static const char *const mutation_names[] = {
	[MUTATION_NONE] = "none",
	[ASWRITTEN] = "ASWRITTEN",
	[NOREREAD] = "NOREREAD",
	[NOWITHDRAW] = "NOWITHDRAW",
	[NOHELP] = "NOHELP",
	[COMMITANY] = "COMMITANY",
	[OWNSEQ] = "OWNSEQ",
	[PLAINSTEP2] = "PLAINSTEP2",
	[GOON] = "GOON",
	[NOACK] = "NOACK",
	[RESETWORD] = "RESETWORD",
	[DEADDONE] = "DEADDONE",
	[VERDICTATONCE] = "VERDICTATONCE",
	[LATEISLOST] = "LATEISLOST",
	[BLAMEANY] = "BLAMEANY",
	[BEGINEARLY] = "BEGINEARLY",
	[NORESULTS] = "NORESULTS",
	[SAMEFLAG] = "SAMEFLAG",
	[HALFSTAGED] = "HALFSTAGED",
	[ANYPART] = "ANYPART",
	[ONEATTEMPT] = "ONEATTEMPT",
	[ONLYSTUCK] = "ONLYSTUCK",
	[COUNTEACH] = "COUNTEACH",
	[SWITCHNOW] = "SWITCHNOW",
	[SWITCHOVER] = "SWITCHOVER",
	[SWITCHLATE] = "SWITCHLATE",
	[SPOILEDSTAYS] = "SPOILEDSTAYS",
	[GIVESEARLY] = "GIVESEARLY",
	[DEADSPOILED] = "DEADSPOILED",
	[ANYPLACE] = "ANYPLACE",
	[WISHLOST] = "WISHLOST",
	[OWNBREAKER] = "OWNBREAKER",
	[PROBEONE] = "PROBEONE",
	[NOCOMPARE] = "NOCOMPARE",
	[DONORSIGNS] = "DONORSIGNS",
	[VERDICTFIRST] = "VERDICTFIRST",
	[LEAVEATONCE] = "LEAVEATONCE",
	[LASTCHUNKONLY] = "LASTCHUNKONLY",
	[RESULTSONLY] = "RESULTSONLY",
	[STALEJOIN] = "STALEJOIN",
	[LATEENDS] = "LATEENDS",
	[RINGDONATES] = "RINGDONATES",
};

static const char *const scenario_names[] = {
	[SCENARIO_CALM] = "calm",
	[SCENARIO_LATE] = "late",
	[SCENARIO_STUCK] = "stuck",
	[SCENARIO_CRASH] = "crash",
	[SCENARIO_TWO_CRASHES] = "two crashes",
	[SCENARIO_LOSS] = "loss",
	[SCENARIO_MISMATCH] = "mismatch",
	[SCENARIO_ABORT] = "abort",
	[SCENARIO_SWITCH] = "switch",
	[SCENARIO_EVERY_STEP] = "every step",
	[SCENARIO_CHAOS] = "chaos",
};

const char *mutation_name(enum mutation mutation)
{
	return mutation_names[mutation];
}

const char *scenario_name(enum scenario scenario)
{
	return scenario_names[scenario];
}

uint32_t rules_signature(const struct cluster *c, unsigned rank, uint64_t turn)
{
	uint64_t first = c->plan.call_begin[plan_call_of(&c->plan, turn)] + c->plan.first_turn;
	uint32_t signature = (uint32_t)(first * 2654435761u);

	return (int)rank == c->plan.odd_rank && first == c->plan.odd_turn ? ~signature : signature;
}

uint32_t rules_flag(const struct cluster *c, uint64_t turn)
{
	return c->mutation == SAMEFLAG ? 1 + (uint32_t)(turn & 1) : region_flag(turn);
}

/* V4: only DECIDED is reported. */
bool rules_stands(const struct cluster *c, uint64_t word)
{
	if (c->mutation == ASWRITTEN && verdict_state(word) == VERDICT_PROPOSED)
		return true;
	return verdict_decided(word);
}

bool rules_may_settle(const struct cluster *c, unsigned rank, uint64_t word)
{
	return (c->mutation != NOHELP && c->mutation != ASWRITTEN) ||
	       verdict_proposer(word) == rank;
}

uint64_t rules_settle(const struct cluster *c, uint64_t word, const struct progress *progress)
{
	uint64_t settled = verdict_settle(word, progress);

	if (c->mutation == NOWITHDRAW)
		return verdict_pack(VERDICT_DECIDED, verdict_turn(word), verdict_proposer(word));
	if (c->mutation == RESETWORD && verdict_state(settled) == VERDICT_WITHDRAWN)
		return 0;
	return settled;
}

enum commit_state rules_commit(const struct cluster *c, uint64_t word,
			       const struct progress *progress, uint64_t turn)
{
	if (c->mutation == COMMITANY && verdict_decided(word))
		return COMMIT_FAILED;
	if (c->mutation == ASWRITTEN && rules_stands(c, word) && verdict_turn(word) <= turn)
		return COMMIT_FAILED;
	return verdict_commit(word, progress, turn);
}

bool rules_donation(const struct cluster *c)
{
	return (c->plan.path != CLUSTER_RING || c->mutation == RINGDONATES) &&
	       c->mutation != DEADDONE;
}

/* V5 taken away: the turn that a dead rank lacks is proposed, though others may be open below
 * it. */
static struct outcome_action verdict_at_once(const struct outcome_view *view)
{
	struct outcome_action action = outcome_decide(view);
	uint64_t turn = UINT64_MAX, word = view->verdict;
	int culprit = -1;

	for (unsigned r = 0; r < view->progress.nranks; r++)
		if (view->progress.dead >> r & 1 &&
		    progress_staged(&view->progress, r) + 1 < turn) {
			turn = progress_staged(&view->progress, r) + 1;
			culprit = (int)r;
		}
	if (culprit < 0 || verdict_state(word) == VERDICT_PROPOSED || verdict_decided(word) ||
	    !verdict_propose(word, turn, view->self, &action.to))
		return action;
	action.kind = OUTCOME_PROPOSE;
	action.from = word;
	action.cause = BELAY_CAUSE_PEER_LOST;
	action.rank = culprit;
	return action;
}

/* What the view would be if a rule were forgotten. */
static void forget(const struct cluster *c, struct outcome_view *view)
{
	for (unsigned r = 0; r < view->progress.nranks; r++) {
		if (c->mutation == BEGINEARLY && view->turn > view->progress.staged[r] &&
		    view->turn)
			view->progress.staged[r] = view->turn;
		if (c->mutation == LATEISLOST && view->missing >> r & 1 &&
		    progress_staged(&view->progress, r) >= view->turn) {
			view->progress.pushed[r] = view->progress.results[r] = view->turn;
			view->lost_since_ns[r] = view->since_ns;
		}
	}
}

struct outcome_action rules_decide(const struct cluster *c, const struct outcome_view *view)
{
	static const struct outcome_action nothing = {.kind = OUTCOME_NOTHING, .rank = -1};
	struct outcome_view own = *view;
	struct outcome_action action;

	forget(c, &own);
	action = c->mutation == VERDICTATONCE ? verdict_at_once(&own) : outcome_decide(&own);
	if (action.kind == OUTCOME_RESCUE && rescue_attempt(action.to) > 1 &&
	    c->mutation == ONEATTEMPT)
		return nothing;
	if (action.kind == OUTCOME_SETTLE && !rules_may_settle(c, own.self, own.verdict))
		return nothing;
	if (action.kind != OUTCOME_PROPOSE)
		return action;
	if (c->mutation == OWNSEQ && own.phase != WAIT_NOTHING &&
	    !verdict_propose(own.verdict, own.turn, own.self, &action.to))
		return nothing;
	if (c->mutation == NOREREAD)
		action.to = verdict_pack(VERDICT_DECIDED, verdict_turn(action.to), own.self);
	if (c->mutation == BLAMEANY && action.cause == BELAY_CAUSE_PEER_STUCK && own.missing)
		action.rank = __builtin_ctzll(own.missing);
	return action;
}
