/* SPDX-License-Identifier: Apache-2.0 */
/* The world of cluster.h: virtual time, the schedule, messages, faults, the trace of the last
 * steps. */
#include "tests/cluster/cluster.h"

#include <stdarg.h>
#include <string.h>

#include "runtime/belay.h"

/* A poll that ends this much too late was a standstill; in the proportion of watcher.c's to the
 * hard deadline. */
#define STANDSTILL_NS MS
#define STEPS_MAX     3000000u
/* How long after the last fault everything must have ended: several hard deadlines. */
#define SETTLED_NS (10 * GIVE_UP_NS)

uint64_t cluster_random(struct cluster *c, uint64_t below)
{
	uint64_t z = c->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return below ? (z ^ z >> 31) % below : 0;
}

/* ---- what is told ---------------------------------------------------------------------------- */

void cluster_trace(struct cluster *c, const struct rank *rank, char who, const char *what,
		   uint64_t a, uint64_t b)
{
	c->trace[c->traced++ % TRACE_LINES] = (struct trace_line){
		.ns = c->now_ns, .a = a, .b = b, .what = what, .rank = rank->id, .who = who};
}

void cluster_break(struct cluster *c, const char *format, ...)
{
	va_list args;

	if (c->failed)
		return;
	c->failed = true;
	va_start(args, format);
	vsnprintf(c->failure, sizeof(c->failure), format, args);
	va_end(args);
}

void cluster_tell(const struct cluster *c, FILE *file)
{
	static const char *const paths[] = {"one-shot", "two-shot", "region", "ring"};
	uint64_t first = c->traced > TRACE_LINES ? c->traced - TRACE_LINES : 0;

	fprintf(file, "# BELAY_SEED=%lu: %u ranks, %u turns from %lu, %s path\n",
		(unsigned long)c->seed, c->plan.nranks, c->plan.turns,
		(unsigned long)c->plan.first_turn, paths[c->plan.path]);
	for (uint64_t i = first; i < c->traced; i++) {
		const struct trace_line *line = &c->trace[i % TRACE_LINES];

		fprintf(file, "# %10.6f ms  rank %u %c  %s %lu (%lu)\n", (double)line->ns / MS,
			line->rank, line->who, line->what, (unsigned long)line->a,
			(unsigned long)line->b);
	}
	fprintf(file, "# %10.6f ms  %s\n", (double)c->now_ns / MS, c->failure);
}

/* ---- shared words ---------------------------------------------------------------------------- */

void reader_begin(struct reader *reader)
{
	reader->cursor = 0;
}

/* The dead mask first, then per rank done, results, pushed, staged: the order of
 * comm_read_progress(). */
bool reader_step(struct cluster *c, struct reader *reader)
{
	struct progress *progress = &reader->progress;
	unsigned i = reader->cursor++, r = (i - 1) / 4;

	progress->nranks = c->plan.nranks;
	progress->donation = rules_donation(c);
	if (i == 0) {
		progress->dead = c->dead;
		return false;
	}
	switch ((i - 1) % 4) {
	case 0:
		progress->done[r] = c->rank[r].words.done;
		break;
	case 1:
		progress->results[r] = c->rank[r].words.results;
		break;
	case 2:
		progress->pushed[r] = c->rank[r].words.pushed;
		break;
	default:
		progress->staged[r] = c->rank[r].words.staged;
		break;
	}
	return reader->cursor > 4 * c->plan.nranks;
}

bool cluster_swap_verdict(struct cluster *c, uint64_t from, uint64_t to)
{
	if (c->verdict != from &&
	    !(c->mutation == PLAINSTEP2 && verdict_state(to) != VERDICT_PROPOSED))
		return false;
	c->verdict = to;
	return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_push(const struct message *message)
{
	return message->type == MESSAGE_INPUT || message->type == MESSAGE_RESULT;
}

static uint64_t delay_of(struct cluster *c, const struct message *message)
{
	if (is_push(message) && cluster_random(c, 1024) < c->plan.delayed_per_1024)
		return cluster_random(c, 25 * MS);
	if (message->type == MESSAGE_EXIT)
		return 50 * US + cluster_random(c, 4 * MS);
	return 100 + cluster_random(c, 20 * US);
}

void cluster_send(struct cluster *c, const struct message *message)
{
	struct message *own;
	uint64_t *link = &c->link_due_ns[message->from][message->to];

	if (is_push(message) && cluster_random(c, 1024) < c->plan.lost_per_1024) {
		cluster_trace(c, &c->rank[message->from], 'T', "loses a push to", message->to,
			      message->arrival.turn);
		c->last_fault_ns = c->now_ns;
		return;
	}
	if (c->nmessages == MESSAGES_MAX) {
		cluster_break(c, "more messages than the fixture holds");
		return;
	}
	own = &c->message[c->nmessages++];
	*own = *message;
	own->due_ns = c->now_ns + delay_of(c, message);
	if (message->type == MESSAGE_PART) {
		if (own->due_ns <= *link)
			own->due_ns = *link + 1;
		*link = own->due_ns;
	}
	if (own->due_ns < c->next_due_ns)
		c->next_due_ns = own->due_ns;
}

void cluster_wake_thread(struct cluster *c, struct rank *rank)
{
	uint64_t soon = c->now_ns + 100 + cluster_random(c, 10 * US);

	if (soon < rank->thread.held_until_ns)
		soon = rank->thread.held_until_ns;
	if (rank->thread.step && rank->thread.asleep && soon < rank->thread.ready_ns)
		rank->thread.ready_ns = soon;
}

void cluster_kick(struct cluster *c, struct rank *rank)
{
	uint64_t soon = c->now_ns + 100 + cluster_random(c, 30 * US);

	rank->watcher.kicked = true;
	if (soon < rank->watcher.held_until_ns)
		soon = rank->watcher.held_until_ns;
	if (rank->watcher.step && rank->watcher.asleep && soon < rank->watcher.ready_ns)
		rank->watcher.ready_ns = soon;
}

static void deliver(struct cluster *c, const struct message *message)
{
	struct rank *to = &c->rank[message->to];
	struct sim_watcher *w = &to->watcher;

	switch (message->type) {
	case MESSAGE_INPUT:
		to->words.input[message->from][message->arrival.turn & 1] = message->arrival;
		cluster_wake_thread(c, to);
		break;
	case MESSAGE_RESULT:
		to->words.result[message->from][message->arrival.turn & 1] = message->arrival;
		cluster_wake_thread(c, to);
		break;
	case MESSAGE_PART:
		if (w->step && w->inbox_length < INBOX_MAX)
			w->inbox[w->inbox_length++] = *message;
		cluster_kick(c, to);
		break;
	case MESSAGE_EXIT:
		w->exits |= cluster_bit(message->from);
		cluster_kick(c, to);
		break;
	}
}

/* The earliest first: the ring's links keep their order. */
static void deliver_due(struct cluster *c, uint64_t until_ns)
{
	while (c->next_due_ns <= until_ns) {
		unsigned first = 0;
		struct message message;

		for (unsigned i = 1; i < c->nmessages; i++)
			if (c->message[i].due_ns < c->message[first].due_ns)
				first = i;
		message = c->message[first];
		c->message[first] = c->message[--c->nmessages];
		c->next_due_ns = UINT64_MAX;
		for (unsigned i = 0; i < c->nmessages; i++)
			if (c->message[i].due_ns < c->next_due_ns)
				c->next_due_ns = c->message[i].due_ns;
		c->now_ns = message.due_ns;
		deliver(c, &message);
	}
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void tell_exit(struct cluster *c, const struct rank *rank)
{
	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (r != rank->id)
			cluster_send(c, &(struct message){
						.type = MESSAGE_EXIT, .from = rank->id, .to = r});
}

static void crash(struct cluster *c, struct rank *rank)
{
	rank->alive = false;
	rank->thread.step = rank->watcher.step = NULL;
	tell_exit(c, rank);
}

static void hold_back(struct cluster *c, uint64_t *ready_ns, uint64_t *held_until_ns, uint64_t ns)
{
	*held_until_ns = c->now_ns + ns + cluster_random(c, 50 * US);
	if (*ready_ns < *held_until_ns)
		*ready_ns = *held_until_ns;
}

static void preempt(struct cluster *c, struct rank *rank, uint64_t ns)
{
	hold_back(c, &rank->thread.ready_ns, &rank->thread.held_until_ns, ns);
}

static void starve(struct cluster *c, struct rank *rank, uint64_t ns)
{
	hold_back(c, &rank->watcher.ready_ns, &rank->watcher.held_until_ns, ns);
}

/* SIGSTOP: both threads; a watcher that was in poll() notices afterwards how long it took. */
static void stop(struct cluster *c, struct rank *rank, uint64_t ns)
{
	uint64_t wanted_ns = rank->watcher.ready_ns;

	preempt(c, rank, ns);
	starve(c, rank, ns);
	if (rank->watcher.asleep && rank->watcher.held_until_ns > wanted_ns + STANDSTILL_NS)
		rank->watcher.stood_still_ns += rank->watcher.held_until_ns - wanted_ns;
}

static void strike(struct cluster *c, struct rank *rank, struct planned_fault *fault)
{
	static const char *const names[] = {"dies", "is stopped for", "is preempted for",
					    "has its watcher starved for", "aborts"};

	fault->struck = c->first_struck = true;
	cluster_trace(c, rank, '-', names[fault->type], fault->ns, 0);
	if (c->last_fault_ns < c->now_ns + fault->ns)
		c->last_fault_ns = c->now_ns + fault->ns;
	switch (fault->type) {
	case FAULTY_CRASH:
		crash(c, rank);
		break;
	case FAULTY_STOP:
		stop(c, rank, fault->ns);
		break;
	case FAULTY_PREEMPT:
		preempt(c, rank, fault->ns);
		break;
	case FAULTY_STARVE:
		starve(c, rank, fault->ns);
		break;
	case FAULTY_ABORT:
		rank->abort_asked = true;
		cluster_kick(c, rank);
		break;
	}
}

static bool is_due(const struct rank *rank, const struct planned_fault *fault)
{
	switch (fault->trigger) {
	case AT_STEP:
		return rank->steps >= fault->count;
	case AFTER_FIRST:
		return rank->steps_after_first >= fault->count;
	case AT_PROPOSAL:
		return rank->proposed_now;
	case AT_RESCUE:
		return rank->steps_in_rescue >= fault->count;
	}
	return false;
}

static void strike_due(struct cluster *c, struct rank *rank)
{
	rank->steps++;
	rank->steps_after_first += c->first_struck;
	rank->steps_in_rescue += rank->rescue_joined;
	for (unsigned i = 0; i < c->plan.nfaults && rank->alive; i++) {
		struct planned_fault *fault = &c->plan.fault[i];

		if (!fault->struck && fault->rank == rank->id && is_due(rank, fault))
			strike(c, rank, fault);
	}
	rank->proposed_now = false;
}

/* ---- the schedule ---------------------------------------------------------------------------- */

/* A step takes about as long as another thread's; now and then its thread is preempted after it. */
static void take_time(struct cluster *c, uint64_t *ready_ns)
{
	if (*ready_ns <= c->now_ns)
		*ready_ns = c->now_ns + 50 + cluster_random(c, 400);
	if (c->plan.stall_per_1024 && cluster_random(c, 1024) < c->plan.stall_per_1024)
		*ready_ns += cluster_random(c, c->plan.stall_ns_max);
}

static void step_thread(struct cluster *c, struct rank *rank)
{
	rank->thread.asleep = false;
	rank->thread.step(c, rank);
	take_time(c, &rank->thread.ready_ns);
}

static void step_watcher(struct cluster *c, struct rank *rank)
{
	rank->watcher.asleep = false;
	rank->watcher.step(c, rank);
	take_time(c, &rank->watcher.ready_ns);
	if (!rank->watcher.step)
		tell_exit(c, rank); /* the process ends after its last communicator */
}

/* The machine whose turn is next; NULL when all have ended. */
static struct rank *next_machine(struct cluster *c, bool *ret_watcher)
{
	struct rank *next = NULL;
	uint64_t least = UINT64_MAX;

	for (unsigned r = 0; r < c->plan.nranks; r++) {
		struct rank *rank = &c->rank[r];

		if (rank->thread.step && rank->thread.ready_ns < least) {
			least = rank->thread.ready_ns;
			next = rank;
			*ret_watcher = false;
		}
		if (rank->watcher.step && rank->watcher.ready_ns < least) {
			least = rank->watcher.ready_ns;
			next = rank;
			*ret_watcher = true;
		}
	}
	return next;
}

static bool over(const struct cluster *c)
{
	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (c->rank[r].thread.step)
			return c->now_ns > c->last_fault_ns + SETTLED_NS ||
			       c->tally.steps > STEPS_MAX;
	return true;
}

static void run(struct cluster *c)
{
	while (!c->failed && !over(c)) {
		bool watcher = false;
		struct rank *rank = next_machine(c, &watcher);
		uint64_t ready = watcher ? rank->watcher.ready_ns : rank->thread.ready_ns;

		if (c->next_due_ns <= ready) {
			deliver_due(c, c->next_due_ns); /* may wake somebody earlier */
			continue;
		}
		c->now_ns = ready;
		c->tally.steps++;
		if (watcher)
			step_watcher(c, rank);
		else
			step_thread(c, rank);
		strike_due(c, rank);
		judge_step(c);
	}
	judge_end(c);
}

static void prepare_rank(struct cluster *c, unsigned id)
{
	struct rank *rank = &c->rank[id];
	uint64_t before = c->plan.first_turn - 1;

	rank->id = id;
	rank->alive = true;
	rank->words.staged = rank->words.pushed = rank->words.results = rank->words.done = before;
	rank->judged.completed = rank->judged.done_before = before;
	rank->thread.turn = before;
	rank->thread.step = thread_enter;
	rank->thread.ready_ns = 1 + cluster_random(c, 20 * US);
	rank->watcher.step = watcher_look;
	rank->watcher.ready_ns = 1 + cluster_random(c, 20 * US);
	mailbox_init(&rank->mailbox);
}

bool cluster_run(struct cluster *c, enum scenario scenario, uint64_t seed, enum mutation mutation)
{
	struct tally tally = c->tally;

	memset(c, 0, sizeof(*c));
	c->tally = tally;
	c->tally.schedules++;
	c->seed = seed;
	c->random = seed * UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)scenario;
	c->mutation = mutation;
	c->next_due_ns = UINT64_MAX;
	cluster_plan(c, scenario);
	for (unsigned r = 0; r < c->plan.nranks; r++)
		prepare_rank(c, r);
	c->tally.steps = 0;
	run(c);
	c->tally.steps += tally.steps;
	for (unsigned r = 0; r < c->plan.nranks; r++)
		mailbox_destroy(&c->rank[r].mailbox);
	return !c->failed;
}
