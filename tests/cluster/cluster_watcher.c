/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watcher: watcher.c (what it reads, in which order) and watcher_actions.c (what it does), a step
 * at a time. Standstills are noticed in poll() only, as there. Messages for people and traces are
 * left out.
 */
#include "tests/cluster/cluster.h"

#include <string.h>

#include "runtime/belay.h"
#include "runtime/outcome/mismatch.h"

#define ACTIONS_MAX  16
#define HEARTBEAT_NS (15 * MS)

static void view_words(struct cluster *c, struct rank *rank);
static void poll_once(struct cluster *c, struct rank *rank);

static void trace(struct cluster *c, const struct rank *rank, const char *what, uint64_t a,
		  uint64_t b)
{
	cluster_trace(c, rank, 'W', what, a, b);
}

void watcher_sleep(struct cluster *c, struct rank *rank, uint64_t until_ns)
{
	uint64_t limit = c->now_ns + HEARTBEAT_NS;

	*rank->watcher.ready_ns = until_ns < limit ? until_ns : limit;
	if (*rank->watcher.ready_ns <= c->now_ns || rank->watcher.kicked)
		*rank->watcher.ready_ns = c->now_ns + 1;
	rank->watcher.asleep = true;
	watcher_next(rank, poll_once);
}

/* A schedule's own malice: time passes between what a watcher saw and what it does. */
static void pause_before_deed(struct cluster *c, struct rank *rank)
{
	if (cluster_random(c, 16) < c->plan.pause_per_16)
		*rank->watcher.ready_ns = c->now_ns + cluster_random(c, c->plan.pause_ns_max);
}

/* ---- deeds ----------------------------------------------------------------------------------- */

/* After a deed: look again, and go back to poll() when it gets too many. */
static void look_again(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	if (++w->actions < ACTIONS_MAX) {
		reader_begin(&w->reader);
		watcher_next(rank, view_words);
	} else {
		switch_watch(c, rank, c->now_ns + MS);
	}
}

static void tell_peers(struct cluster *c, const struct rank *rank)
{
	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (r != rank->id)
			cluster_kick(c, &c->rank[r]);
}

static void settle_swap(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	if (cluster_swap_verdict(c, w->settle_from,
				 rules_settle(c, w->settle_from, &w->reader.progress)))
		trace(c, rank, "settles", verdict_state(c->verdict), verdict_turn(c->verdict));
	tell_peers(c, rank);
	look_again(c, rank);
}

static void settle_read(struct cluster *c, struct rank *rank)
{
	if (!reader_step(c, &rank->watcher.reader))
		return;
	watcher_next(rank, settle_swap);
	pause_before_deed(c, rank);
}

static void settle_load(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	w->settle_from = c->verdict;
	reader_begin(&w->reader);
	if (verdict_state(c->verdict) == VERDICT_PROPOSED)
		watcher_next(rank, settle_read);
	else
		look_again(c, rank);
}

static void propose_swap(struct cluster *c, struct rank *rank)
{
	const struct outcome_action *action = &rank->watcher.action;

	if (cluster_swap_verdict(c, action->from, action->to)) {
		trace(c, rank, "proposes", verdict_turn(action->to), action->cause);
		rank->proposed_now = true;
		c->tally.proposals++;
	}
	look_again(c, rank);
}

/* mismatch_describe(): who is odd among those whose signature can be read. */
static int find_odd(const struct cluster *c, const struct outcome_view *view, uint64_t turn)
{
	uint32_t signatures[RANKS_MAX] = {0};
	uint64_t here = 0;

	for (unsigned r = 0; r < c->plan.nranks; r++) {
		if (view->progress.staged[r] < turn || view->progress.staged[r] > turn + 1)
			continue;
		here |= cluster_bit(r);
		signatures[r] = c->rank[r].words.call[turn & 1].signature;
	}
	return mismatch_culprit(signatures, here, c->plan.nranks);
}

static void propose_cause(struct cluster *c, struct rank *rank)
{
	const struct sim_watcher *w = &rank->watcher;
	uint64_t turn = verdict_turn(w->action.to);

	rank->words.cause = (struct sim_cause){turn, w->action.rank, w->action.cause};
	if (w->action.cause == BELAY_CAUSE_MISMATCH)
		rank->words.cause.culprit = find_odd(c, &w->view, turn);
	watcher_next(rank, propose_swap);
	pause_before_deed(c, rank);
}

static void rescue_swap(struct cluster *c, struct rank *rank)
{
	const struct outcome_action *action = &rank->watcher.action;

	if (c->rescue == action->from) {
		c->rescue = action->to;
		c->tally.rescues++;
		c->tally.attempts += rescue_attempt(action->to) > 1;
		trace(c, rank, "begins rescue of", rescue_turn(action->to),
		      rescue_attempt(action->to));
		if (c->plan.no_rescue && c->mutation != NOREREAD &&
		    rank->words.call[rescue_turn(action->to) & 1].path != CLUSTER_RING)
			cluster_break(c, "rank %u begins a rescue though nothing was lost (L1)",
				      rank->id);
		tell_peers(c, rank);
	}
	look_again(c, rank);
}

static void rescue_members(struct cluster *c, struct rank *rank)
{
	const struct outcome_action *action = &rank->watcher.action;
	uint64_t parity = (rescue_turn(action->to) + rescue_attempt(action->to)) & 1;

	rank->words.rescue_members[parity] = action->mask;
	watcher_next(rank, rescue_swap);
	pause_before_deed(c, rank);
}

static void bury(struct cluster *c, struct rank *rank, uint64_t mask)
{
	uint64_t before = c->dead;

	c->dead |= mask;
	if (!(mask & ~before))
		return;
	trace(c, rank, "buries", mask, c->dead);
	cluster_wake_thread(c, rank);
	tell_peers(c, rank);
}

static void bury_the_left(struct cluster *c, struct rank *rank)
{
	c->tally.buried++;
	bury(c, rank, rank->watcher.action.mask);
	look_again(c, rank);
}

static void name_late(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	w->late_told = true;
	c->tally.named_late++;
	trace(c, rank, "names late", (uint64_t)w->action.rank, w->view.turn);
	judge_late(c, rank, w->action.rank);
	look_again(c, rank);
}

static void meet_verdict(struct cluster *c, struct rank *rank)
{
	struct stuck_turn stuck;

	rescue_stop(rank);
	if (mailbox_read(&rank->mailbox, &stuck) == MAILBOX_ABANDONED)
		mailbox_release(&rank->mailbox, stuck.turn, -1, 0);
	cluster_wake_thread(c, rank);
	watcher_sleep(c, rank, UINT64_MAX);
}

/* ---- deciding -------------------------------------------------------------------------------- */

static void decide(struct cluster *c, struct rank *rank)
{
	static const step_fn deeds[] = {
		[OUTCOME_SETTLE] = settle_load,	   [OUTCOME_PROPOSE] = propose_cause,
		[OUTCOME_RESCUE] = rescue_members, [OUTCOME_NAME_LATE] = name_late,
		[OUTCOME_BURY] = bury_the_left,
	};
	struct sim_watcher *w = &rank->watcher;
	uint64_t next;

	w->action = rules_decide(c, &w->view);
	if (w->action.kind != OUTCOME_NOTHING) {
		watcher_next(rank, deeds[w->action.kind]);
		pause_before_deed(c, rank);
		return;
	}
	next = w->rescue.active ? w->view.now_ns + MS : outcome_next_ns(&w->view);
	switch_watch(c, rank, next);
}

static void follow(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;
	uint64_t word = w->view.verdict;
	bool own_step_two = c->mutation == ASWRITTEN && !verdict_decided(word) &&
			    verdict_proposer(word) == rank->id;

	if (rules_stands(c, word) && !own_step_two) {
		watcher_next(rank, meet_verdict);
		return;
	}
	rescue_follow_step(c, rank, decide);
}

/* ---- the view -------------------------------------------------------------------------------- */

static void note_new_wait(struct sim_watcher *w, const struct stuck_turn *stuck)
{
	if (w->wait_turn == stuck->turn && w->wait_phase == stuck->phase)
		return;
	if (w->wait_turn != stuck->turn)
		w->late_told = false;
	w->wait_turn = stuck->turn;
	w->wait_phase = stuck->phase;
	w->stood_still_before_ns = w->stood_still_ns;
	memset(w->lost_since_ns, 0, sizeof(w->lost_since_ns));
}

/* still_missing(): the arrival words are looked at anew. One step, for the judge: each load decides
 * by itself. */
static uint64_t still_missing(const struct cluster *c, const struct rank *rank,
			      const struct stuck_turn *stuck)
{
	uint64_t missing = stuck->missing;

	if (stuck->phase != WAIT_INPUTS && stuck->phase != WAIT_RESULTS)
		return missing;
	for (uint64_t m = missing; m; m &= m - 1) {
		unsigned r = (unsigned)__builtin_ctzll(m);
		const struct arrival *arrival = stuck->phase == WAIT_INPUTS
							? &rank->words.input[r][stuck->turn & 1]
							: &rank->words.result[r][stuck->turn & 1];

		if (arrival->flag == rules_flag(c, stuck->turn))
			missing &= ~cluster_bit(r);
	}
	return missing;
}

static void view_own_wait(struct rank *rank, const struct stuck_turn *stuck)
{
	struct sim_watcher *w = &rank->watcher;
	struct outcome_view *view = &w->view;

	note_new_wait(w, stuck);
	view->phase = stuck->phase;
	view->turn = stuck->turn;
	view->missing = stuck->missing;
	view->since_ns = stuck->since_ns + (w->stood_still_ns - w->stood_still_before_ns);
	view->give_up_ns = stuck->give_up_ns;
	view->late_told = w->late_told;
	view->at_once = stuck->at_once;
	for (uint64_t sent = liveness_sent(view); sent; sent &= sent - 1) {
		unsigned r = (unsigned)__builtin_ctzll(sent);

		if (!w->lost_since_ns[r])
			w->lost_since_ns[r] = view->now_ns;
	}
	memcpy(view->lost_since_ns, w->lost_since_ns, sizeof(w->lost_since_ns));
}

/* The mailbox is read under its lock, and what else is read here belongs to this process. */
static void view_mailbox(struct cluster *c, struct rank *rank)
{
	struct outcome_view *view = &rank->watcher.view;
	struct stuck_turn stuck;
	enum mailbox_state state = mailbox_read(&rank->mailbox, &stuck);

	if (state < MAILBOX_ABANDONED || c->mutation == LATEENDS)
		stuck.missing = still_missing(c, rank, &stuck);
	if (state != MAILBOX_IDLE)
		view_own_wait(rank, &stuck);
	rank->words.missing = view->missing;
	view->complaint = rank->mailbox.complaint;
	view->complaint_turn = rank->mailbox.complaint_turn;
	view->complaint_since_ns = rank->mailbox.complaint_since_ns;
	if (rank->abort_asked)
		view->complaint = COMPLAINT_ABORT;
	watcher_next(rank, follow);
}

static void view_ranks(struct cluster *c, struct rank *rank)
{
	struct outcome_view *view = &rank->watcher.view;
	unsigned r = rank->watcher.cursor++;

	/* `state`, `missing` and the heartbeat of a rank: loads whose order means nothing. */
	if (c->rank[r].words.left)
		view->left |= cluster_bit(r);
	if (c->rank[r].words.missing)
		view->waiting |= cluster_bit(r);
	if (view->now_ns > c->rank[r].words.heartbeat_ns + 3 * HEARTBEAT_NS)
		view->stopped |= cluster_bit(r);
	if (rank->watcher.cursor >= c->plan.nranks)
		watcher_next(rank, view_mailbox);
}

static void view_members(struct cluster *c, struct rank *rank)
{
	struct outcome_view *view = &rank->watcher.view;
	uint64_t word = view->rescue;
	uint64_t parity = (rescue_turn(word) + rescue_attempt(word)) & 1;

	if (word)
		view->rescue_members = c->rank[rescue_rank(word)].words.rescue_members[parity];
	watcher_next(rank, view_ranks);
}

static void view_rescue(struct cluster *c, struct rank *rank)
{
	rank->watcher.view.rescue = c->rescue;
	watcher_next(rank, view_members);
}

static void view_verdict(struct cluster *c, struct rank *rank)
{
	rank->watcher.view.progress = rank->watcher.reader.progress;
	rank->watcher.view.verdict = c->verdict;
	watcher_next(rank, view_rescue);
}

static void view_words(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	if (w->reader.cursor == 0) {
		memset(&w->view, 0, sizeof(w->view));
		w->view.self = rank->id;
		w->view.now_ns = c->now_ns;
		w->view.late_ns = LATE_NS;
		w->view.grace_ns = GRACE_NS;
	}
	if (reader_step(c, &w->reader))
		watcher_next(rank, view_verdict);
}

/* ---- polling --------------------------------------------------------------------------------- */

/* run(): a watcher that has been told to stop ends here, between two looks. */
void watcher_look(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	(void)c;
	if (rank->stopping) {
		w->step = NULL;
		return;
	}
	w->actions = 0;
	reader_begin(&w->reader);
	watcher_next(rank, view_words);
}

/* A pidfd has fired: dead, unless the rank had left before. */
static void bury_exited(struct cluster *c, struct rank *rank)
{
	bury(c, rank, cluster_bit(rank->watcher.exited));
	watcher_next(rank, poll_once);
}

static void note_exit(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	w->exited = (unsigned)__builtin_ctzll(w->exits);
	w->exits &= w->exits - 1;
	watcher_next(rank, c->rank[w->exited].words.left ? poll_once : bury_exited);
}

static void poll_once(struct cluster *c, struct rank *rank)
{
	rank->watcher.kicked = false;
	rank->words.heartbeat_ns = c->now_ns;
	if (rescue_has_message(c, rank))
		rescue_receive(c, rank);
	else if (rank->watcher.exits)
		note_exit(c, rank);
	else
		watcher_look(c, rank);
}
