/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path_switch.c: the breaker, the agreed switch of the path, and probes, a step at a time. On
 * captured calls, where no call changes its path, the breaker makes ranks hasty instead (decision
 * 0007).
 */
#include "tests/cluster/cluster.h"

static void trace(struct cluster *c, const struct rank *rank, char who, const char *what,
		  uint64_t a, uint64_t b)
{
	cluster_trace(c, rank, who, what, a, b);
}

static uint64_t pack(uint64_t turn, enum cluster_path path)
{
	return turn << 8 | (uint64_t)path;
}

/* ---- calling thread -------------------------------------------------------------------------- */

static void take(struct cluster *c, struct rank *rank, uint64_t word)
{
	struct sim_thread *t = &rank->thread;
	enum cluster_path to = (enum cluster_path)(word & 0xff);

	t->switch_seen = word;
	c->tally.switches += t->path != to;
	t->path = to;
	trace(c, rank, 'T', "takes path", (uint64_t)to, word >> 8);
}

/* What a wish becomes: from the turn after the present call. */
static uint64_t switch_word(const struct cluster *c, const struct rank *rank, uint32_t wish)
{
	uint64_t turns = c->plan.call_turns[rank->thread.calls];

	if (c->mutation == SWITCHNOW)
		turns = 0;
	return pack(rank->thread.turn + turns + 1, (enum cluster_path)(wish - 1));
}

static void clear_wish(struct cluster *c, struct rank *rank)
{
	c->keeper.wanted = 0;
	thread_begin_call(c, rank);
}

static void announce(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;

	c->path_switch = switch_word(c, rank, t->wish);
	trace(c, rank, 'T', "announces path", t->wish - 1, c->path_switch >> 8);
	if (c->mutation == WISHLOST)
		thread_next(rank, clear_wish);
	else
		thread_begin_call(c, rank);
}

/* An exchange, but for the mutation. */
static void take_wish(struct cluster *c, struct rank *rank)
{
	rank->thread.wish = c->keeper.wanted;
	if (c->mutation != WISHLOST)
		c->keeper.wanted = 0;
	thread_next(rank, announce);
}

/* path_switch_follow(), path_switch_take(). The wish is rank 0's watcher's. */
static void look_at_wish(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;
	bool wanted = rank->id == 0 && c->keeper.wanted && c->mutation != SWITCHLATE;

	if (t->switch_word != t->switch_seen) {
		if (t->turn + 1 >= t->switch_word >> 8)
			take(c, rank, t->switch_word);
		wanted &= c->mutation == SWITCHOVER && t->switch_word == t->switch_seen;
	}
	if (wanted)
		thread_next(rank, take_wish);
	else
		thread_begin_call(c, rank);
}

void switch_follow(struct cluster *c, struct rank *rank)
{
	rank->thread.switch_word = c->path_switch;
	if (c->mutation == OWNBREAKER && c->plan.path != CLUSTER_RING && !c->plan.captured)
		rank->thread.path =
			c->breaker_state == BELAY_BREAKER_CLOSED ? c->plan.path : CLUSTER_RING;
	thread_next(rank, look_at_wish);
}

/* SWITCHLATE: after the call's last turn was staged, when others may be ahead of this rank. */
void switch_announce_late(struct cluster *c, struct rank *rank)
{
	struct sim_thread *t = &rank->thread;

	if (c->mutation != SWITCHLATE || rank->id != 0 || !c->keeper.wanted ||
	    t->turn != t->last_turn || t->switch_seen != c->path_switch)
		return;
	c->path_switch = pack(t->turn + 1, (enum cluster_path)(c->keeper.wanted - 1));
	c->keeper.wanted = 0;
}

/* ---- probes: watchers ------------------------------------------------------------------------ */

static void look_no_later(struct rank *rank, uint64_t ns)
{
	if (rank->watcher.next_look_ns > ns)
		rank->watcher.next_look_ns = ns;
}

static void tell_peers(struct cluster *c, const struct rank *rank)
{
	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (r != rank->id)
			cluster_kick(c, &c->rank[r]);
}

/* follow_breaker(): each rank by itself, for both ways give the same bits. */
static void end_look(struct cluster *c, struct rank *rank)
{
	if (c->plan.captured)
		rank->thread.hasty = c->breaker_state != BELAY_BREAKER_CLOSED;
	watcher_sleep(c, rank, rank->watcher.next_look_ns);
}

static void say_seen(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	w->probe_seen = rank->words.probe_seen = w->round;
	trace(c, rank, 'W', "has seen all probes of round", w->round, 0);
	tell_peers(c, rank);
	watcher_next(rank, end_look);
}

static void look_at_probes(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;
	unsigned r = w->cursor++;

	if (c->rank[r].words.probe != w->round) {
		look_no_later(rank, c->now_ns + MS);
		watcher_next(rank, end_look);
	} else if (w->cursor >= c->plan.nranks) {
		watcher_next(rank, say_seen);
	}
}

static void send_probe(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	w->probe_sent = w->round;
	if (!cluster_drops_probe(c))
		rank->words.probe = w->round;
	tell_peers(c, rank);
	watcher_next(rank, look_at_probes);
}

static void take_part(struct cluster *c, struct rank *rank)
{
	struct sim_watcher *w = &rank->watcher;

	w->round = c->probe_round;
	if (w->round == 0 || w->probe_seen == w->round)
		watcher_next(rank, end_look);
	else if (w->probe_sent != w->round)
		watcher_next(rank, send_probe);
	else
		watcher_next(rank, look_at_probes);
}

/* ---- the breaker: rank 0's watcher ----------------------------------------------------------- */

static void show_state(struct cluster *c, const struct rank *rank)
{
	c->breaker_state = c->keeper.breaker.state;
	c->judged.calls_then = c->rank[0].thread.calls;
	trace(c, rank, 'W', "has its breaker in state", c->breaker_state, c->rescued_count);
}

static void want(struct cluster *c, enum cluster_path path)
{
	if (!c->plan.captured)
		c->keeper.wanted = 1 + (uint32_t)path;
}

static void want_back(struct cluster *c, struct rank *rank)
{
	want(c, c->plan.path);
	show_state(c, rank);
	watcher_next(rank, take_part);
}

static void end_probe(struct cluster *c, struct rank *rank, bool all_saw_it)
{
	judge_probe_ends(c, all_saw_it);
	breaker_probe_ended(&c->keeper.breaker, all_saw_it, c->now_ns);
	if (all_saw_it) {
		watcher_next(rank, want_back);
		return;
	}
	show_state(c, rank);
	look_no_later(rank, c->keeper.breaker.next_probe_ns);
	watcher_next(rank, take_part);
}

/* all_saw_probe(), a word a step. */
static void ask_all(struct cluster *c, struct rank *rank)
{
	struct sim_breaker *keeper = &c->keeper;
	unsigned r = rank->watcher.cursor++;
	bool all = rank->watcher.cursor >= c->plan.nranks || c->mutation == PROBEONE;

	if (c->rank[r].words.probe_seen >= keeper->probe_round) {
		if (all)
			end_probe(c, rank, true);
		return;
	}
	if (c->now_ns - keeper->breaker.since_ns > LATE_NS + GRACE_NS) {
		end_probe(c, rank, false);
		return;
	}
	look_no_later(rank, c->now_ns + MS);
	watcher_next(rank, take_part);
}

static void begin_probe(struct cluster *c, struct rank *rank)
{
	c->probe_round = ++c->keeper.probe_round;
	show_state(c, rank);
	tell_peers(c, rank);
	watcher_next(rank, ask_all);
}

static void keep_breaker(struct cluster *c, struct rank *rank)
{
	struct breaker *breaker = &c->keeper.breaker;

	if (breaker_probe_due(breaker, c->now_ns)) {
		judge_probe_begins(c);
		watcher_next(rank, begin_probe);
		return;
	}
	watcher_next(rank, breaker->state == BELAY_BREAKER_HALF_OPEN ? ask_all : take_part);
	if (breaker->state == BELAY_BREAKER_OPEN)
		look_no_later(rank, breaker->next_probe_ns);
}

static void want_next(struct cluster *c, struct rank *rank)
{
	want(c, CLUSTER_RING);
	show_state(c, rank);
	watcher_next(rank, keep_breaker);
}

static void note_rescues(struct cluster *c, struct rank *rank)
{
	struct sim_breaker *keeper = &c->keeper;
	uint64_t count = c->rescued_count;
	bool opens = false;

	for (; keeper->rescues_seen < count; keeper->rescues_seen++)
		if (breaker_rescued(&keeper->breaker, c->now_ns)) {
			judge_breaker_opens(c);
			opens = true;
		}
	watcher_next(rank, opens ? want_next : keep_breaker);
}

/* Where the ring is all there is, nothing is probed or left. */
void switch_watch(struct cluster *c, struct rank *rank, uint64_t until_ns)
{
	rank->watcher.next_look_ns = until_ns;
	if (c->plan.path == CLUSTER_RING)
		watcher_sleep(c, rank, until_ns);
	else
		watcher_next(rank, rank->id == 0 ? note_rescues : take_part);
}
