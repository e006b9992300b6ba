/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of rescue.c: a watcher's attempt, a step at a time. A message is a part; sockets neither
 * lose nor reorder what one rank sends to another, and what a rank has sent before it died still
 * arrives. A part that is too early stays on the link, where rescue.c keeps it in its stash.
 */
#include "tests/cluster/cluster.h"

#include <string.h>

static void pump(struct cluster *c, struct rank *rank);
static void take_own_parts(struct cluster *c, struct rank *rank);
static void try_to_begin(struct cluster *c, struct rank *rank);
static void find_spoiled(struct cluster *c, struct rank *rank);

static void trace(struct cluster *c, const struct rank *rank, const char *what, uint64_t a,
		  uint64_t b)
{
	cluster_trace(c, rank, 'W', what, a, b);
}

static void go_back(struct rank *rank)
{
	watcher_next(rank, rank->watcher.back);
}

void rescue_stop(struct rank *rank)
{
	rank->watcher.rescue.active = false;
}

/* Who puts a rank's part into the ring: itself, or for a dead rank the lowest member (donation). */
static unsigned injector(const struct sim_rescue *rescue, unsigned origin)
{
	return rescue->members >> origin & 1 ? origin : (unsigned)__builtin_ctzll(rescue->members);
}

static unsigned next_member(const struct cluster *c, const struct rank *rank)
{
	unsigned r = rank->id;

	do
		r = (r + 1) % c->plan.nranks;
	while (!(rank->watcher.rescue.members >> r & 1));
	return r;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void release(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	c->tally.outputs_rescued++;
	mailbox_release(&rank->mailbox, rescue->turn, 0, 0);
	/* NOACK: the thread is let go whatever it has said. */
	if (c->mutation == NOACK && rank->mailbox.state != MAILBOX_IDLE)
		rank->mailbox.state = MAILBOX_RELEASED;
	cluster_wake_thread(c, rank);
	go_back(rank);
}

/* S4, count_rescue(): two steps, a swap and an addition. */
static void count(struct cluster *c, struct rank *rank)
{
	c->rescued_count++;
	watcher_next(rank, release);
}

static void raise_rescued(struct cluster *c, struct rank *rank)
{
	uint64_t turn = rank->watcher.rescue.turn;
	bool raised = c->rescued_last < turn;

	judge_rescued(c, turn);
	if (raised)
		c->rescued_last = turn;
	watcher_next(rank, raised || c->mutation == COUNTEACH ? count : release);
}

static void begin_chunk(struct rank *rank, unsigned chunk)
{
	rank->watcher.rescue.chunk = chunk;
	rank->watcher.rescue.have = rank->watcher.rescue.sent = 0;
	watcher_next(rank, take_own_parts);
}

static void end_chunk(struct rank *rank, bool output)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	if (rescue->chunk + 1 < CHUNKS) {
		begin_chunk(rank, rescue->chunk + 1);
		return;
	}
	rescue->active = false;
	if (output)
		watcher_next(rank, rescue->whole_call ? release : raise_rescued);
	else
		go_back(rank);
}

static void write_output(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (rescue->part[r].holds_rank != r || rescue->part[r].holds_turn != rescue->turn)
			cluster_break(
				c,
				"rank %u reduces for rank %u of turn %lu what is rank %u's of turn "
				"%lu",
				rank->id, r, (unsigned long)rescue->turn,
				rescue->part[r].holds_rank,
				(unsigned long)rescue->part[r].holds_turn);
	judge_rescued_output(c, rank, rescue->turn, rescue->place);
	trace(c, rank, "writes the output of", rescue->turn, rescue->chunk);
	end_chunk(rank, true);
}

/* R4, pushes_are_over(): a word a step. */
static void check_pushes(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;
	unsigned r = rank->watcher.cursor++;

	if (!(rescue->dead_seen >> r & 1) && c->rank[r].words.results < rescue->turn &&
	    c->rank[r].words.done < rescue->turn) {
		go_back(rank);
		return;
	}
	if (rank->watcher.cursor >= c->plan.nranks)
		watcher_next(rank, write_output);
}

static void check_dead(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	rescue->dead_seen = c->dead;
	watcher_next(rank,
		     rescue->stuck.region && c->mutation != NORESULTS &&
				     !(c->mutation == LASTCHUNKONLY && rescue->chunk + 1 < CHUNKS)
			     ? check_pushes
			     : write_output);
}

/* R2: the output is written only once the calling thread has abandoned the turn. */
static void ask(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;
	enum mailbox_state state = mailbox_ask(&rank->mailbox, rescue->turn, c->now_ns);

	if (state != MAILBOX_ABANDONED && !(c->mutation == NOACK && state != MAILBOX_IDLE)) {
		cluster_wake_thread(c, rank);
		go_back(rank);
		return;
	}
	(void)mailbox_read(&rank->mailbox, &rescue->stuck);
	watcher_next(rank, check_dead);
}

static void hold(struct cluster *c, struct rank *rank)
{
	(void)c;
	if (rank->words.done >= rank->watcher.rescue.turn)
		end_chunk(rank, false);
	else
		watcher_next(rank, ask);
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void pass_on(struct cluster *c, struct rank *rank, unsigned origin)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;
	unsigned to = next_member(c, rank);

	rescue->sent |= cluster_bit(origin);
	if (to == injector(rescue, origin))
		return; /* the last one on the way round keeps it */
	if (!c->rank[to].alive || !c->rank[to].watcher.step) {
		/* The link is closed. A death gives a new attempt, once it is known. */
		rescue->active = false;
		go_back(rank);
		return;
	}
	cluster_send(c, &(struct message){.type = MESSAGE_PART,
					  .from = rank->id,
					  .to = to,
					  .part = rescue->part[origin]});
}

static void pump(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;
	uint64_t unsent = rescue->have & ~rescue->sent;

	if (!rescue->active)
		go_back(rank);
	else if (!rescue->joined)
		try_to_begin(c, rank);
	else if (unsent)
		pass_on(c, rank, (unsigned)__builtin_ctzll(unsent));
	else if (rescue->have == cluster_everyone(c))
		watcher_next(rank, hold);
	else
		go_back(rank);
}

/* M1: a part of another signature, or a rank that signed differently, dead ones too. */
static void complain(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	trace(c, rank, "complains of turn", rescue->turn, rescue->chunk);
	judge_complaint(c, rank, rescue->turn);
	mailbox_complain(&rank->mailbox, COMPLAINT_MISMATCH, rescue->turn, c->now_ns);
	rescue->active = false;
}

/* is_over(), after the slots have been read: a turn that all are done with needs no rescue. */
static void check_over(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	if (!reader_step(c, &rescue->reader))
		return;
	watcher_next(rank, pump);
	if (progress_all_done(&rescue->reader.progress, rescue->turn) && c->mutation != STALEJOIN)
		rescue->active = false;
	else if (rescue->differs && c->mutation != NOCOMPARE && c->mutation != DONORSIGNS)
		complain(c, rank);
}

/* A slot a step. Without shared regions a watcher can read its own slots only. */
static void take_own_parts(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;
	unsigned origin = rank->watcher.cursor++;
	const struct rank *source = c->plan.path == CLUSTER_RING ? rank : &c->rank[origin];

	rescue->differs |=
		c->rank[origin].words.call[rescue->turn & 1].signature != rescue->signature;
	if (injector(rescue, origin) == rank->id) {
		rescue->part[origin] = (struct part){
			.word = rescue->word,
			.members = rescue->members,
			.origin = origin,
			.chunk = rescue->chunk,
			.signature = rescue->signature,
			.holds_rank = source->id,
			.holds_turn = source->words.slot[rescue->turn & 1],
		};
		rescue->have |= cluster_bit(origin);
		c->tally.donations += origin != rank->id;
	}
	if (rank->watcher.cursor >= c->plan.nranks) {
		reader_begin(&rescue->reader);
		watcher_next(rank, check_over);
	}
}

/* The next whose header this rank clears, from `first` on; when all are, the own parts are taken.
 */
static void clear_from(struct cluster *c, struct rank *rank, unsigned first)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	for (unsigned r = first; r < c->plan.nranks; r++)
		if (injector(rescue, r) == rank->id &&
		    (r == rank->id || c->mutation != DEADSPOILED)) {
			rescue->clears = r;
			watcher_next(rank, find_spoiled);
			return;
		}
	begin_chunk(rank, 0);
}

/* clear_spoiled_header(): a header stands here once for each peer. */
static void clear_spoiled(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	for (unsigned r = 0; r < c->plan.nranks; r++) {
		struct arrival *arrival = &c->rank[r].words.input[rescue->clears][rescue->turn & 1];

		if (rescue->spoiled >> r & 1 && arrival->flag == rescue->spoiled_flag[r])
			arrival->flag = 0;
	}
	clear_from(c, rank, rescue->clears + 1);
}

static void compare_staged(struct cluster *c, struct rank *rank)
{
	const struct sim_rescue *rescue = &rank->watcher.rescue;

	if (c->rank[rescue->clears].words.staged > rescue->turn + 1)
		clear_from(c, rank, rescue->clears + 1);
	else
		watcher_next(rank, clear_spoiled);
}

static void find_spoiled(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	rescue->spoiled = 0;
	for (unsigned r = 0; r < c->plan.nranks; r++) {
		uint32_t flag = c->rank[r].words.input[rescue->clears][rescue->turn & 1].flag;

		rescue->spoiled_flag[r] = flag;
		if (flag != rules_flag(c, rescue->turn))
			rescue->spoiled |= cluster_bit(r);
	}
	watcher_next(rank, compare_staged);
}

static void read_description(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;
	const struct sim_call *call = &rank->words.call[rescue->turn & 1];
	unsigned turns = c->plan.call_turns[plan_call_of(&c->plan, rescue->turn)];

	rescue->signature = call->signature;
	rescue->whole_call = call->path == CLUSTER_RING;
	/* As the bytes say; a call that is odd has others, and ends in a mismatch. */
	rescue->place = turns - 1 - (unsigned)(call->last_turn - rescue->turn);
	if (c->mutation == ANYPLACE)
		rescue->place = 0;
}

static void begin(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	rescue->joined = rank->rescue_joined = true;
	trace(c, rank, "gives its part for", rescue->turn, rescue->members);
	cluster_wake_thread(c, rank);
	if (plan_spoils(&c->plan) && c->mutation != SPOILEDSTAYS)
		clear_from(c, rank, 0);
	else
		begin_chunk(rank, 0);
}

/* may_begin(): the own header must have been issued, so that it can be cleared. */
static void try_to_begin(struct cluster *c, struct rank *rank)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	if (rescue->whole_call || rank->words.pushed >= rescue->turn || c->mutation == GIVESEARLY)
		begin(c, rank);
	else
		go_back(rank);
}

static void join(struct cluster *c, struct rank *rank, uint64_t word, uint64_t members)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	rescue->word = word;
	rescue->members = members;
	rescue->turn = rescue_turn(word);
	rescue->differs = rescue->joined = false;
	rescue->active = true;
	read_description(c, rank);
	try_to_begin(c, rank);
}

/* rescue_follow(); goes on with `back` when nothing more can be moved. */
static void follow_word(struct cluster *c, struct rank *rank, uint64_t word, uint64_t members)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	watcher_next(rank, pump);
	if (word == rescue->word || word == 0)
		return;
	rescue->active = false;
	rescue->word = word;
	if (c->mutation == ONLYSTUCK && rank->words.done >= rescue_turn(word))
		return;
	if (members >> rank->id & 1)
		join(c, rank, word, members);
}

void rescue_follow_step(struct cluster *c, struct rank *rank, step_fn back)
{
	const struct outcome_view *view = &rank->watcher.view;

	rank->watcher.back = back;
	follow_word(c, rank, view->rescue, view->rescue_members);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void accept_part(struct cluster *c, struct rank *rank, const struct part *part)
{
	struct sim_rescue *rescue = &rank->watcher.rescue;

	watcher_next(rank, pump);
	if (part->members != rescue->members)
		return;
	if (part->signature != rescue->signature && c->mutation != NOCOMPARE) {
		complain(c, rank);
		return;
	}
	rescue->part[part->origin] = *part;
	rescue->have |= cluster_bit(part->origin);
}

static bool is_current(const struct cluster *c, const struct rank *rank, const struct part *part)
{
	return rank->watcher.rescue.active &&
	       (part->word == rank->watcher.rescue.word || c->mutation == ANYPART);
}

static bool is_early(const struct cluster *c, const struct rank *rank, const struct part *part)
{
	const struct sim_rescue *rescue = &rank->watcher.rescue;

	return is_current(c, rank, part) && (!rescue->joined || part->chunk > rescue->chunk);
}

static int first_message(const struct cluster *c, const struct rank *rank)
{
	for (unsigned i = 0; i < rank->watcher.inbox_length; i++)
		if (!is_early(c, rank, &rank->watcher.inbox[i].part))
			return (int)i;
	return -1;
}

bool rescue_has_message(const struct cluster *c, const struct rank *rank)
{
	return first_message(c, rank) >= 0;
}

/* A message of another attempt: begin it, if the word says so. The message stays and is looked at
 * again. */
static void load_word(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;
	int i = first_message(c, rank);
	struct part part = w->inbox[i].part;

	if (c->rescue == part.word && c->rescue != w->rescue.word) {
		follow_word(c, rank, part.word, part.members);
		return;
	}
	memmove(&w->inbox[i], &w->inbox[i + 1],
		(--w->inbox_length - (unsigned)i) * sizeof(w->inbox[0]));
	go_back(rank);
}

void rescue_receive(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;
	int i = first_message(c, rank);
	struct part part = w->inbox[i].part;

	w->back = w->step; /* back to poll() */
	if (!is_current(c, rank, &part)) {
		watcher_next(rank, load_word);
		return;
	}
	memmove(&w->inbox[i], &w->inbox[i + 1],
		(--w->inbox_length - (unsigned)i) * sizeof(w->inbox[0]));
	if (part.chunk == w->rescue.chunk)
		accept_part(c, rank, &part);
}
