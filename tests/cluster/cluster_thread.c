/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A calling thread: host_path.c and ring_path.c (the turn), wait.c (the wait), pass.c (the commit)
 * and the end of communicator.c (leaving), in the smallest form that keeps the order of their
 * accesses. The futex is not there: a sleeping thread is woken when a message for it arrives or its
 * bell is rung.
 */
#include "tests/cluster/cluster.h"

#include "runtime/belay.h"

#define POLL_NS (300 * US) /* the longest sleep between two looks; also stands for yielding */

static step_fn after_wait(const struct rank *rank);
static void slot_tear(struct cluster *c, struct rank *rank);
static void poll_ranks(struct cluster *c, struct rank *rank);
static void commit_read(struct cluster *c, struct rank *rank);
static void fail(struct cluster *c, struct rank *rank);
static void destroy_verdict(struct cluster *c, struct rank *rank);
static void post_done(struct cluster *c, struct rank *rank);
static void check_sources(struct cluster *c, struct rank *rank);
static void end_turn(struct cluster *c, struct rank *rank);

static void trace(struct cluster *c, const struct rank *rank, const char *what, uint64_t a)
{
	cluster_trace(c, rank, 'T', what, a, rank->thread.turn);
}

static uint64_t others(const struct cluster *c, const struct rank *rank)
{
	return cluster_everyone(c) & ~cluster_bit(rank->id);
}

static void sleep_thread(struct cluster *c, struct rank *rank, uint64_t ns)
{
	*rank->thread.ready_ns = c->now_ns + 1 + cluster_random(c, ns);
	rank->thread.asleep = true;
}

/* ---- stage and push -------------------------------------------------------------------------- */

/* run_call(): the verdict is looked at before the call is numbered, and once for all its turns. */
void thread_enter(struct cluster *c, struct rank *rank)
{
	thread_next(rank, rules_stands(c, c->verdict) ? fail : switch_follow);
}

static void begin_turn(struct cluster *c, struct rank *rank)
{
	rank->thread.turn++;
	rank->thread.mismatched = 0;
	rank->judged.lib_turn = rank->thread.turn;
	rank->judged.output_whole = false;
	trace(c, rank, "begins turn", rank->thread.turn);
	judge_path(c, rank, rank->thread.turn);
	thread_next(rank, slot_tear);
}

void thread_begin_call(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;

	judge_call_entry(c, rank);
	t->last_turn = plan_last_turn(&c->plan, rank->id, t->calls++);
	c->tally.call_turns += t->last_turn > t->turn + 1;
	begin_turn(c, rank);
}

static void begin_wait(struct cluster *c, struct rank *rank, enum wait_phase phase,
		       step_fn done_step)
{
	struct sim_thread *t = &rank->thread;

	t->stuck = (struct stuck_turn){
		.phase = phase,
		.turn = t->turn,
		.missing = phase == WAIT_COMMIT	   ? cluster_everyone(c)
			   : phase == WAIT_VERDICT ? cluster_bit(rank->id)
						   : others(c, rank),
		.since_ns = c->now_ns,
		.give_up_ns = GIVE_UP_NS,
		.at_once = t->hasty && (phase == WAIT_INPUTS || phase == WAIT_RESULTS),
		.region = t->path == CLUSTER_REGION &&
			  (phase == WAIT_RESULTS || c->mutation != RESULTSONLY),
	};
	t->told = false;
	t->missing_before = t->stuck.missing;
	t->done_step = done_step;
	thread_next(rank, poll_ranks);
}

static void post_pushed(struct cluster *c, struct rank *rank)
{
	rank->words.pushed = rank->thread.turn;
	trace(c, rank, "posts pushed", rank->thread.turn);
	switch_announce_late(c, rank);
	begin_wait(c, rank, rank->thread.path == CLUSTER_RING ? WAIT_GATHER : WAIT_INPUTS,
		   check_sources);
}

static void push(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;
	unsigned to = t->cursor++;

	if (to < c->plan.nranks && to != rank->id)
		cluster_send(c, &(struct message){.type = MESSAGE_INPUT,
						  .from = rank->id,
						  .to = to,
						  .arrival = {rules_flag(c, t->turn),
							      rules_signature(c, rank->id, t->turn),
							      t->turn}});
	if (t->cursor >= c->plan.nranks)
		thread_next(rank, post_pushed);
}

static void post_staged(struct cluster *c, struct rank *rank)
{
	rank->words.staged = rank->thread.turn;
	trace(c, rank, "posts staged", rank->thread.turn);
	thread_next(rank, rank->thread.path == CLUSTER_RING ? post_pushed : push);
}

static void describe_call(struct cluster *c, struct rank *rank)
{
	rank->words.call[rank->thread.turn & 1] = (struct sim_call){
		.signature = rules_signature(c, rank->id, rank->thread.turn),
		.last_turn = rank->thread.last_turn,
		.path = rank->thread.path,
	};
	thread_next(rank, post_staged);
}

static void slot_fill(struct cluster *c, struct rank *rank)
{
	(void)c;
	rank->words.slot[rank->thread.turn & 1] = rank->thread.turn;
	thread_next(rank, describe_call);
}

static void slot_tear(struct cluster *c, struct rank *rank)
{
	judge_slot_write(c, rank, rank->thread.turn);
	rank->words.slot[rank->thread.turn & 1] = 0;
	thread_next(rank, slot_fill);
}

/* ---- reduce ---------------------------------------------------------------------------------- */

static void write_own_output(struct cluster *c, struct rank *rank)
{
	judge_own_output(c, rank, rank->thread.turn);
	thread_next(rank, post_done);
}

static void post_results(struct cluster *c, struct rank *rank)
{
	rank->words.results = rank->thread.turn;
	trace(c, rank, "posts results", rank->thread.turn);
	begin_wait(c, rank, WAIT_RESULTS, write_own_output);
}

static void push_result_headers(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;
	unsigned to = t->cursor++;

	if (to < c->plan.nranks && to != rank->id)
		cluster_send(c, &(struct message){.type = MESSAGE_RESULT,
						  .from = rank->id,
						  .to = to,
						  .arrival = {rules_flag(c, t->turn), 0, t->turn}});
	if (t->cursor >= c->plan.nranks)
		thread_next(rank, post_results);
}

/* Region buffers: the slice goes straight into the peers' outputs, by plain stores. Else into the
 * result area. */
static void store_slice(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;
	unsigned to = t->cursor++;

	if (t->path == CLUSTER_REGION && to < c->plan.nranks && to != rank->id)
		judge_pushed_output(c, rank, &c->rank[to], t->turn);
	rank->words.result_area[t->turn & 1] = t->turn;
	if (t->cursor >= c->plan.nranks || t->path != CLUSTER_REGION)
		thread_next(rank, push_result_headers);
}

/* One-shot reads all slots; two-shot a slice of each, in region mode out of the user's own
 * buffer. */
static void read_sources(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;
	const struct rank *owner = &c->rank[t->cursor++];

	if (t->path == CLUSTER_REGION)
		judge_input_read(c, rank, owner, t->turn);
	else
		judge_slot_read(c, rank, owner, t->turn);
	if (t->cursor >= c->plan.nranks)
		thread_next(rank, t->path == CLUSTER_ONESHOT ? write_own_output : store_slice);
}

/* M1: all signatures are compared before the first output store. */
static void check_sources(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;

	if (!t->mismatched || c->mutation == NOCOMPARE) {
		thread_next(rank, read_sources);
		return;
	}
	judge_complaint(c, rank, t->turn);
	mailbox_complain(&rank->mailbox, COMPLAINT_MISMATCH, t->turn, c->now_ns);
	cluster_kick(c, rank);
	begin_wait(c, rank, WAIT_VERDICT, NULL);
}

/* ---- waiting, as in wait.c ------------------------------------------------------------------- */

static void take_arrival(struct cluster *c, struct rank *rank, unsigned from)
{
	struct sim_thread *t = &rank->thread;
	bool inputs = t->stuck.phase == WAIT_INPUTS;
	const struct arrival *arrival = inputs ? &rank->words.input[from][t->turn & 1]
					       : &rank->words.result[from][t->turn & 1];

	if (arrival->flag != rules_flag(c, t->turn))
		return;
	t->stuck.missing &= ~cluster_bit(from);
	if (arrival->turn != t->turn)
		cluster_break(c, "rank %u takes data of turn %lu for turn %lu (R5)", rank->id,
			      (unsigned long)arrival->turn, (unsigned long)t->turn);
	if (inputs && arrival->signature != rules_signature(c, rank->id, t->turn))
		t->mismatched |= cluster_bit(from);
	if (!inputs && t->path == CLUSTER_TWOSHOT &&
	    c->rank[from].words.result_area[t->turn & 1] != t->turn)
		cluster_break(c, "rank %u fetches a result that is not of turn %lu", rank->id,
			      (unsigned long)t->turn);
}

/* Its three loads are one step: the words only grow, and the commit asks again. */
static void take_done(struct cluster *c, struct rank *rank, unsigned of)
{
	struct progress one = {
		.nranks = 1,
		.dead = c->dead >> of & 1,
		.donation = rules_donation(c),
		.staged = {c->rank[of].words.staged},
		.done = {c->rank[of].words.done},
	};

	if (progress_done(&one, 0) >= rank->thread.turn)
		rank->thread.stuck.missing &= ~cluster_bit(of);
}

static void await_release(struct cluster *c, struct rank *rank)
{
	int outcome = -1;
	uint64_t digest, asked_ns;

	if (!mailbox_released(&rank->mailbox, &outcome, &digest, &asked_ns)) {
		sleep_thread(c, rank, 5 * MS);
		return;
	}
	mailbox_clear(&rank->mailbox);
	trace(c, rank, "is released, outcome", (uint64_t)outcome);
	thread_next(rank, outcome == 0 ? post_done : fail);
}

/* R4: this rank pushes nothing more for the turn. */
static void abandoned(struct cluster *c, struct rank *rank)
{
	rank->words.results = rank->thread.turn;
	cluster_kick(c, rank);
	thread_next(rank, await_release);
}

static void tell_if_bad(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;
	uint64_t waited = c->now_ns - t->stuck.since_ns;
	/* The load of the rescue word is this step; that of the dead mask was the one before. */
	bool rescued = rescue_turn(c->rescue) == t->turn && t->stuck.phase != WAIT_COMMIT;

	thread_next(rank, poll_ranks);
	if (!t->told && (waited >= LATE_NS || t->stuck.phase == WAIT_GATHER || t->stuck.at_once ||
			 t->dead_seen & t->stuck.missing || rescued)) {
		t->told = true;
		trace(c, rank, "is stuck, missing", t->stuck.missing);
		mailbox_post(&rank->mailbox, &t->stuck);
		cluster_kick(c, rank);
		return;
	}
	sleep_thread(c, rank, POLL_NS);
}

static void load_dead(struct cluster *c, struct rank *rank)
{
	rank->thread.dead_seen = c->dead;
	thread_next(rank, tell_if_bad);
}

static void abandon(struct cluster *c, struct rank *rank)
{
	if (!mailbox_abandon(&rank->mailbox)) {
		thread_next(rank, load_dead);
		return;
	}
	trace(c, rank, "abandons", rank->thread.turn);
	thread_next(rank, abandoned);
}

static void look_at_mailbox(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;

	/* GOON: the kernel gives up, returns, and the next one of the graph goes on. */
	if (c->mutation == GOON && c->now_ns - t->stuck.since_ns >= GIVE_UP_NS &&
	    (t->stuck.phase == WAIT_INPUTS || t->stuck.phase == WAIT_RESULTS)) {
		mailbox_clear(&rank->mailbox);
		end_turn(c, rank);
		return;
	}
	if (t->told && t->missing_before != t->stuck.missing)
		mailbox_update_missing(&rank->mailbox, t->stuck.missing);
	t->missing_before = t->stuck.missing;
	thread_next(rank, t->told && mailbox_asked(&rank->mailbox) ? abandon : load_dead);
}

static void clear_mailbox(struct cluster *c, struct rank *rank)
{
	(void)c;
	mailbox_clear(&rank->mailbox);
	thread_next(rank, after_wait(rank));
}

static void look_at_verdict(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;

	if (!rules_stands(c, c->verdict)) {
		thread_next(rank, look_at_mailbox);
		return;
	}
	/* A commit asks again however its wait ends: a verdict above the pass does not concern
	 * it. */
	t->done_step = t->stuck.phase == WAIT_COMMIT ? commit_read : fail;
	thread_next(rank, t->told ? clear_mailbox : after_wait(rank));
}

static step_fn after_wait(const struct rank *rank)
{
	return rank->thread.done_step;
}

/* One rank's words a step. */
static void poll_ranks(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;
	unsigned from = t->cursor++;

	if (t->stuck.missing >> from & 1) {
		if (t->stuck.phase == WAIT_INPUTS || t->stuck.phase == WAIT_RESULTS)
			take_arrival(c, rank, from);
		else if (t->stuck.phase == WAIT_COMMIT)
			take_done(c, rank, from);
	}
	if (t->cursor < c->plan.nranks)
		return;
	if (t->stuck.missing)
		thread_next(rank, look_at_verdict);
	else
		thread_next(rank, t->told ? clear_mailbox : after_wait(rank));
}

/* ---- done, commit ---------------------------------------------------------------------------- */

static void begin_destroy(struct cluster *c, struct rank *rank)
{
	rank->thread.destroy_since_ns = c->now_ns;
	thread_next(rank, destroy_verdict);
}

/* The user makes the next call, some time later, or is through. */
static void go_on(struct cluster *c, struct rank *rank)
{
	if (rank->thread.calls >= c->plan.calls) {
		begin_destroy(c, rank);
		return;
	}
	thread_next(rank, thread_enter);
	if (c->plan.think_ns_max)
		*rank->thread.ready_ns = c->now_ns + cluster_random(c, c->plan.think_ns_max);
}

static void return_to_user(struct cluster *c, struct rank *rank)
{
	rank->judged.lib_turn = 0;
	if (c->plan.pass_ends[rank->thread.calls]) {
		reader_begin(&rank->thread.reader);
		thread_next(rank, commit_read);
	} else {
		go_on(c, rank);
	}
}

/* Nothing is looked at between two turns of a call. */
static void end_turn(struct cluster *c, struct rank *rank)
{
	if (rank->thread.turn < rank->thread.last_turn)
		begin_turn(c, rank);
	else
		return_to_user(c, rank);
}

static void post_done(struct cluster *c, struct rank *rank)
{
	judge_done(c, rank, rank->thread.turn);
	rank->words.done = rank->thread.turn;
	trace(c, rank, "posts done", rank->thread.turn);
	/* Whoever sleeps for this rank is woken: commits wait for done words. */
	for (unsigned r = 0; r < c->plan.nranks; r++)
		cluster_wake_thread(c, &c->rank[r]);
	thread_next(rank, end_turn);
}

static void settle_swap(struct cluster *c, struct rank *rank)
{
	uint64_t from = rank->thread.verdict_seen;

	(void)cluster_swap_verdict(c, from, rules_settle(c, from, &rank->thread.reader.progress));
	reader_begin(&rank->thread.reader);
	thread_next(rank, commit_read);
}

static void settle_read(struct cluster *c, struct rank *rank)
{
	if (reader_step(c, &rank->thread.reader))
		thread_next(rank, settle_swap);
}

static void settle_load(struct cluster *c, struct rank *rank)
{
	rank->thread.verdict_seen = c->verdict;
	reader_begin(&rank->thread.reader);
	thread_next(rank, verdict_state(c->verdict) == VERDICT_PROPOSED &&
					  rules_may_settle(c, rank->id, c->verdict)
				  ? settle_read
				  : commit_read);
	if (rank->thread.step == commit_read)
		sleep_thread(c, rank, POLL_NS);
}

static void end_pass(struct cluster *c, struct rank *rank)
{
	judge_commit(c, rank, rank->thread.turn);
	trace(c, rank, "commits up to", rank->thread.turn);
	go_on(c, rank);
}

static void judge_word(struct cluster *c, struct rank *rank, uint64_t word)
{
	switch (rules_commit(c, word, &rank->thread.reader.progress, rank->thread.turn)) {
	case COMMIT_DONE:
		end_pass(c, rank);
		break;
	case COMMIT_FAILED:
		judge_failed_pass(c, rank, rank->thread.turn);
		thread_next(rank, fail);
		break;
	case COMMIT_SETTLE:
		thread_next(rank, settle_load);
		break;
	case COMMIT_WAIT:
		reader_begin(&rank->thread.reader);
		begin_wait(c, rank, WAIT_COMMIT, commit_read);
		break;
	}
}

static void commit_verdict(struct cluster *c, struct rank *rank)
{
	judge_word(c, rank, c->mutation == VERDICTFIRST ? rank->thread.verdict_seen : c->verdict);
}

static void commit_read(struct cluster *c, struct rank *rank)
{
	if (rank->thread.cursor++ == 0) {
		rank->thread.verdict_seen = c->verdict; /* used by VERDICTFIRST only */
		reader_begin(&rank->thread.reader);
	}
	if (reader_step(c, &rank->thread.reader))
		thread_next(rank, commit_verdict);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void leave(struct cluster *c, struct rank *rank)
{
	rank->words.left = true;
	rank->stopping = true;
	trace(c, rank, "leaves", 0);
	cluster_kick(c, rank);
	rank->thread.step = NULL; /* the watcher ends after its present look; see watcher_look() */
}

/* comm_fail(): the verdict's cause line is read, and the communicator takes no more calls (V6). */
static void fail(struct cluster *c, struct rank *rank)
{
	uint64_t word = c->verdict;

	judge_report(c, rank, &c->rank[verdict_proposer(word)].words.cause, word);
	trace(c, rank, "reports the verdict on", verdict_turn(word));
	rank->judged.lib_turn = 0;
	thread_next(rank, leave);
}

/* not_needed(), C3: everybody that has not left is done with this rank's last turn. */
static bool not_needed(const struct cluster *c, const struct rank *rank)
{
	struct progress progress = rank->thread.reader.progress;

	progress.dead |= rank->thread.left_seen;
	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (!(progress.dead >> r & 1) && progress.done[r] < rank->thread.turn)
			return false;
	return true;
}

static void destroy_left(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;
	unsigned r = t->cursor++;
	bool over = c->now_ns - t->destroy_since_ns >= c->plan.destroy_ns;

	if (c->rank[r].words.left)
		t->left_seen |= cluster_bit(r);
	if (t->cursor < c->plan.nranks)
		return;
	if (not_needed(c, rank) || over || c->mutation == LEAVEATONCE) {
		rank->judged.ended_well = true;
		thread_next(rank, leave);
		return;
	}
	thread_next(rank, destroy_verdict);
	sleep_thread(c, rank, MS);
}

static void destroy_read(struct cluster *c, struct rank *rank)
{
	rank->thread.left_seen = 0;
	if (reader_step(c, &rank->thread.reader))
		thread_next(rank, destroy_left);
}

static void destroy_verdict(struct cluster *c, struct rank *rank)
{
	reader_begin(&rank->thread.reader);
	if (rules_stands(c, c->verdict)) {
		rank->judged.ended_well = true;
		thread_next(rank, leave);
		return;
	}
	thread_next(rank, destroy_read);
}
