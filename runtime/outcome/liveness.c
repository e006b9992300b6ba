/* SPDX-License-Identifier: Apache-2.0 */
/* Late, lost, dead, mismatched: the pure decisions of one rank; see liveness.h. */
#include "runtime/outcome/liveness.h"

#include "runtime/belay.h"

static const struct outcome_action nothing = {.kind = OUTCOME_NOTHING, .rank = -1};

/* The clock of a view is read before the rest of it: what has begun since then is no time ago,
 * not an age. */
static uint64_t ns_since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* The word of the step that sends what the calling thread misses. */
static uint64_t sender_step(const struct outcome_view *view, unsigned rank)
{
	switch (view->phase) {
	case WAIT_INPUTS:
		return view->progress.pushed[rank];
	case WAIT_RESULTS:
		return view->progress.results[rank];
	case WAIT_GATHER:
		return progress_staged(&view->progress, rank);
	case WAIT_COMMIT:
		return progress_done(&view->progress, rank);
	case WAIT_VERDICT: /* nobody is waited for */
		return UINT64_MAX;
	case WAIT_NOTHING:
		break;
	}
	return 0;
}

uint64_t liveness_sent(const struct outcome_view *view)
{
	uint64_t sent = 0;

	for (unsigned r = 0; r < view->progress.nranks; r++)
		if (view->missing & rank_bit(r) && sender_step(view, r) >= view->turn)
			sent |= rank_bit(r);
	return sent;
}

static uint64_t at_least_done(const struct progress *progress, uint64_t step, unsigned rank)
{
	return step > progress->done[rank] ? step : progress->done[rank];
}

/* Is a further behind than b? By the steps of a call in their order; of equals, one that stands
 * still is more to blame, and one that waits itself is less. */
static bool is_behind(const struct outcome_view *view, unsigned a, unsigned b)
{
	const struct progress *p = &view->progress;
	const uint64_t steps[][2] = {
		{progress_staged(p, a), progress_staged(p, b)},
		{at_least_done(p, p->pushed[a], a), at_least_done(p, p->pushed[b], b)},
		{p->done[a], p->done[b]},
		{at_least_done(p, p->results[a], a), at_least_done(p, p->results[b], b)},
		{!(view->stopped >> a & 1), !(view->stopped >> b & 1)},
		{view->waiting >> a & 1, view->waiting >> b & 1},
	};

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i][0] != steps[i][1])
			return steps[i][0] < steps[i][1];
	return false;
}

int liveness_root(const struct outcome_view *view)
{
	const struct progress *progress = &view->progress;
	uint64_t unsent = view->missing & ~liveness_sent(view), behind = 0;
	int root = -1;

	if (!unsent)
		return -1;
	/* A rank that has not even staged this turn holds up the others, whoever they wait for. */
	for (unsigned r = 0; r < progress->nranks; r++)
		if (r != view->self && progress_staged(progress, r) < view->turn)
			behind |= rank_bit(r);
	if (!behind)
		behind = unsent;
	for (; behind; behind &= behind - 1) {
		unsigned r = (unsigned)__builtin_ctzll(behind);

		if (root < 0 || is_behind(view, r, (unsigned)root))
			root = (int)r;
	}
	return root;
}

static bool verdict_is_open(const struct outcome_view *view)
{
	enum verdict_state state = verdict_state(view->verdict);

	return state == VERDICT_NONE || state == VERDICT_WITHDRAWN;
}

static struct outcome_action propose(const struct outcome_view *view, enum belay_cause cause,
				     int culprit)
{
	struct outcome_action action = nothing;
	uint64_t turn = progress_first_open(&view->progress);

	if (!verdict_propose(view->verdict, turn, view->self, &action.to))
		return nothing;
	action.kind = OUTCOME_PROPOSE;
	action.from = view->verdict;
	action.cause = cause;
	action.rank = culprit;
	return action;
}

/* V5: at once, if the first open turn lacks a dead rank's input. Else rescue finishes that turn
 * first. */
static struct outcome_action on_death(const struct outcome_view *view)
{
	int lost = progress_dead_lacks(&view->progress, progress_first_open(&view->progress));

	if (lost < 0)
		return nothing;
	return propose(view, BELAY_CAUSE_PEER_LOST, lost);
}

/* M1: only once the mismatched turn is the first open one; those before it are healthy and will
 * finish. All ranks' signatures are wanted to name the odd one; a rank that does not come is not
 * waited for beyond the grace. */
static struct outcome_action on_mismatch(const struct outcome_view *view)
{
	bool all = progress_all_staged(&view->progress, view->complaint_turn);
	uint64_t waited = ns_since(view->now_ns, view->complaint_since_ns);

	if (progress_first_open(&view->progress) != view->complaint_turn)
		return nothing;
	if (!all && waited < view->late_ns + view->grace_ns)
		return nothing;
	return propose(view, BELAY_CAUSE_MISMATCH, -1);
}

static struct outcome_action on_complaint(const struct outcome_view *view)
{
	switch (view->complaint) {
	case COMPLAINT_MISMATCH:
		return on_mismatch(view);
	case COMPLAINT_ABORT:
		return propose(view, BELAY_CAUSE_ABORTED, (int)view->self);
	case COMPLAINT_GAVE_UP:
		return propose(view, BELAY_CAUSE_INTERNAL, (int)view->self);
	case COMPLAINT_NCCL:
		return propose(view, BELAY_CAUSE_NCCL_FAILED, -1);
	case COMPLAINT_GPU_FAULT:
		return propose(view, BELAY_CAUSE_GPU_FAULT, (int)view->self);
	case COMPLAINT_NONE:
		break;
	}
	return nothing;
}

/* A rank that has left is buried only when somebody waits for a turn that it has not staged. */
static struct outcome_action on_left(const struct outcome_view *view)
{
	struct outcome_action action = nothing;

	for (unsigned r = 0; r < view->progress.nranks; r++)
		if (view->left & ~view->progress.dead & rank_bit(r) &&
		    progress_staged(&view->progress, r) < view->turn)
			action.mask |= rank_bit(r);
	if (action.mask)
		action.kind = OUTCOME_BURY;
	return action;
}

static uint64_t waited_ns(const struct outcome_view *view)
{
	return ns_since(view->now_ns, view->since_ns);
}

/* A missing rank whose data is lost: sent, the soft deadline and the grace over; or sent and dead,
 * for then nothing is under way any more. -1: none. */
static int lost_sender(const struct outcome_view *view)
{
	uint64_t sent = liveness_sent(view);
	uint64_t dead = view->progress.dead & view->missing;

	if (view->phase == WAIT_COMMIT || view->phase == WAIT_VERDICT || view->no_rescue)
		return -1;
	for (unsigned r = 0; r < view->progress.nranks; r++) {
		/* A dead rank that staged but never pushed counts as sent: its input is donated. */
		if (dead & rank_bit(r) && progress_staged(&view->progress, r) >= view->turn)
			return (int)r;
		if (!(sent & rank_bit(r)) || !view->lost_since_ns[r])
			continue;
		if (view->phase == WAIT_GATHER || view->at_once)
			return (int)r;
		if (waited_ns(view) >= view->late_ns + view->grace_ns &&
		    view->now_ns - view->lost_since_ns[r] >= view->grace_ns)
			return (int)r;
	}
	return -1;
}

/* R1: the lowest stuck turn, once all have staged it; a new attempt when a member of the running
 * one died, or when it went over NCCL and that failed somewhere. */
static struct outcome_action on_lost(const struct outcome_view *view)
{
	struct outcome_action action = nothing;
	unsigned attempt = 1;
	int lost = lost_sender(view);

	if (lost < 0 || !progress_all_staged(&view->progress, view->turn))
		return nothing;
	if (view->rescue && rescue_turn(view->rescue) > view->turn)
		return nothing;
	if (view->rescue && rescue_turn(view->rescue) == view->turn) {
		if (!(view->rescue_members & view->progress.dead) && !view->rescue_broken)
			return nothing;
		attempt = rescue_attempt(view->rescue) + 1;
		if (attempt > RESCUE_ATTEMPTS_MAX)
			return nothing;
	}
	action.kind = OUTCOME_RESCUE;
	action.from = view->rescue;
	action.to = rescue_pack(view->turn, attempt, view->self);
	action.mask = ranks_below(view->progress.nranks) & ~view->progress.dead;
	action.rank = lost;
	return action;
}

/* L1: the root of the chain, not one that itself waits. A rank that has not begun what is missing
 * is late. One that stands inside a turn may be waiting there for a lost write: it gets the grace,
 * and is not named while it waits or a rescue of its turn runs. */
static bool is_root(const struct outcome_view *view, unsigned rank)
{
	uint64_t staged = progress_staged(&view->progress, rank);

	if (staged == view->progress.done[rank])
		return true;
	return !(view->waiting & rank_bit(rank)) && rescue_turn(view->rescue) != staged &&
	       waited_ns(view) >= view->late_ns + 2 * view->grace_ns;
}

static struct outcome_action on_late(const struct outcome_view *view)
{
	struct outcome_action action = nothing;
	int root = liveness_root(view);

	if (view->late_told || root < 0 || waited_ns(view) < view->late_ns ||
	    !is_root(view, (unsigned)root))
		return nothing;
	action.kind = OUTCOME_NAME_LATE;
	action.rank = root;
	return action;
}

/* Whom the hard deadline blames. When all have sent, a rescue or a call on the ring waits for some
 * rank's watcher, and the one that does not run shows no heartbeat. */
static int stuck_rank(const struct outcome_view *view)
{
	uint64_t stopped = view->stopped & ranks_below(view->progress.nranks) &
			   ~view->progress.dead & ~rank_bit(view->self);
	int root = liveness_root(view);

	if (root >= 0)
		return root;
	if (stopped)
		return __builtin_ctzll(stopped);
	return view->missing ? __builtin_ctzll(view->missing) : -1;
}

/* All is here and the calling thread has not looked yet: preempted, say. It will go on, so nobody
 * is to blame. In the other phases what is missing is not what the thread waits for. */
static bool may_go_on(const struct outcome_view *view)
{
	return view->missing == 0 && view->phase != WAIT_VERDICT && view->phase != WAIT_GATHER;
}

static struct outcome_action on_wait(const struct outcome_view *view)
{
	struct outcome_action action;

	if (waited_ns(view) >= view->give_up_ns && !may_go_on(view))
		return propose(view, BELAY_CAUSE_PEER_STUCK, stuck_rank(view));
	action = on_left(view);
	if (action.kind == OUTCOME_NOTHING)
		action = on_lost(view);
	if (action.kind == OUTCOME_NOTHING)
		action = on_late(view);
	return action;
}

struct outcome_action outcome_decide(const struct outcome_view *view)
{
	struct outcome_action action = nothing;

	if (verdict_decided(view->verdict))
		return nothing;
	if (verdict_state(view->verdict) == VERDICT_PROPOSED) {
		action.kind = OUTCOME_SETTLE;
		action.from = view->verdict;
		return action;
	}
	if (!verdict_is_open(view))
		return nothing;
	if (view->progress.dead)
		action = on_death(view);
	if (action.kind == OUTCOME_NOTHING)
		action = on_complaint(view);
	if (action.kind == OUTCOME_NOTHING && view->phase != WAIT_NOTHING)
		action = on_wait(view);
	return action;
}

uint64_t outcome_next_ns(const struct outcome_view *view)
{
	/* While anything is open, look often: steps of others come without a message. */
	if (verdict_decided(view->verdict))
		return UINT64_MAX;
	if (view->progress.dead || view->complaint != COMPLAINT_NONE || view->phase != WAIT_NOTHING)
		return view->now_ns + 1000 * UINT64_C(1000);
	return UINT64_MAX;
}
