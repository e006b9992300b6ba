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
/* How long after the last fault everything must have ended: several hard deadlines, and time for
 * each turn of ranks that are preempted all the time. */
#define SETTLED_NS(plan) ((10 + 4 * (plan)->turns) * GIVE_UP_NS)

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

	fprintf(file, "# BELAY_SEED=%lu: %u ranks, %u calls of %u turns from %lu, %s path%s\n",
		(unsigned long)c->seed, c->plan.nranks, c->plan.calls, c->plan.turns,
		(unsigned long)c->plan.first_turn, paths[c->plan.path],
		c->plan.captured ? ", captured" : "");
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
		/* L3, P3: as if a dead rank's input were always whole. */
		if (c->mutation == HALFSTAGED && progress->dead >> r & 1)
			progress->staged[r] = c->plan.first_turn + c->plan.turns;
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

static bool is_broken(const struct cluster *c)
{
	for (unsigned i = 0; i < 2; i++)
		if (c->now_ns >= c->plan.broken[i].from_ns &&
		    c->now_ns < c->plan.broken[i].until_ns)
			return true;
	return false;
}

static unsigned lost_per_1024(const struct cluster *c)
{
	return is_broken(c) ? c->plan.broken_per_1024 : c->plan.lost_per_1024;
}

bool cluster_drops_probe(struct cluster *c)
{
	return is_broken(c) && cluster_random(c, 2);
}

/* The fault that is planned for this very push; NULL: none. */
static const struct planned_fault *fault_of(struct cluster *c, const struct message *message)
{
	struct rank *from = &c->rank[message->from];

	if (!is_push(message))
		return NULL;
	from->pushes++;
	for (unsigned i = 0; i < c->plan.nfaults; i++) {
		struct planned_fault *fault = &c->plan.fault[i];

		if (fault->trigger == AT_PUSH && fault->rank == from->id &&
		    fault->count == from->pushes)
			return fault;
	}
	return NULL;
}

static bool is(const struct planned_fault *fault, enum fault_type type)
{
	return fault && fault->type == type;
}

/* Fault injection's wrong flag, of the kind that could do harm. What is spoiled is not late: it
 * stands where the rank itself can clear it. */
static void spoil(struct cluster *c, struct message *message)
{
	if (message->type != MESSAGE_INPUT || message->due_ns > c->now_ns + MS)
		return;
	message->arrival.flag = rules_flag(c, message->arrival.turn + 2);
	c->tally.spoiled++;
	c->last_fault_ns = c->now_ns;
}

static bool is_lost(struct cluster *c, const struct message *message,
		    const struct planned_fault *fault)
{
	if (!is(fault, FAULTY_LOSE) &&
	    (!is_push(message) || cluster_random(c, 1024) >= lost_per_1024(c)))
		return false;
	cluster_trace(c, &c->rank[message->from], 'T', "loses a push to", message->to,
		      message->arrival.turn);
	c->last_fault_ns = c->now_ns;
	return true;
}

static void set_due(struct cluster *c, struct message *message, const struct planned_fault *fault)
{
	uint64_t *link = &c->link_due_ns[message->from][message->to];

	message->due_ns = c->now_ns + delay_of(c, message);
	if (is(fault, FAULTY_DELAY)) {
		message->due_ns += fault->ns;
		c->last_fault_ns = message->due_ns;
	}
	if (is(fault, FAULTY_SPOIL) ||
	    (c->plan.spoiled_per_1024 && message->type == MESSAGE_INPUT &&
	     cluster_random(c, 1024) < c->plan.spoiled_per_1024))
		spoil(c, message);
	if (message->type == MESSAGE_PART) {
		if (message->due_ns <= *link)
			message->due_ns = *link + 1;
		*link = message->due_ns;
	}
}

void cluster_send(struct cluster *c, const struct message *message)
{
	const struct planned_fault *fault = fault_of(c, message);
	struct message *own;

	if (is_lost(c, message, fault))
		return;
	if (c->nmessages == MESSAGES_MAX) {
		cluster_break(c, "more messages than the fixture holds");
		return;
	}
	own = &c->message[c->nmessages++];
	*own = *message;
	set_due(c, own, fault);
	if (own->due_ns < c->next_due_ns)
		c->next_due_ns = own->due_ns;
}

void cluster_wake_thread(struct cluster *c, struct rank *rank)
{
	uint64_t soon = c->now_ns + 100 + cluster_random(c, 10 * US);

	if (soon < rank->thread.held_until_ns)
		soon = rank->thread.held_until_ns;
	if (rank->thread.step && rank->thread.asleep && soon < *rank->thread.ready_ns)
		*rank->thread.ready_ns = soon;
}

void cluster_kick(struct cluster *c, struct rank *rank)
{
	uint64_t soon = c->now_ns + 100 + cluster_random(c, 30 * US);

	rank->watcher.kicked = true;
	if (soon < rank->watcher.held_until_ns)
		soon = rank->watcher.held_until_ns;
	if (rank->watcher.step && rank->watcher.asleep && soon < *rank->watcher.ready_ns)
		*rank->watcher.ready_ns = soon;
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

static void end_thread(struct cluster *c, struct rank *rank)
{
	rank->thread.step = NULL;
	*rank->thread.ready_ns = UINT64_MAX;
	c->running &= ~cluster_bit(rank->id);
}

static void end_watcher(struct rank *rank)
{
	rank->watcher.step = NULL;
	*rank->watcher.ready_ns = UINT64_MAX;
}

static void crash(struct cluster *c, struct rank *rank)
{
	rank->alive = false;
	end_thread(c, rank);
	end_watcher(rank);
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
	hold_back(c, rank->thread.ready_ns, &rank->thread.held_until_ns, ns);
}

static void starve(struct cluster *c, struct rank *rank, uint64_t ns)
{
	hold_back(c, rank->watcher.ready_ns, &rank->watcher.held_until_ns, ns);
}

/* SIGSTOP: both threads; a watcher that was in poll() notices afterwards how long it took. */
static void stop(struct cluster *c, struct rank *rank, uint64_t ns)
{
	uint64_t wanted_ns = *rank->watcher.ready_ns;

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
	case FAULTY_LOSE:
	case FAULTY_DELAY:
	case FAULTY_SPOIL:
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
	case AT_PUSH:
		return false; /* see fault_of() */
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
	take_time(c, rank->thread.ready_ns);
	if (!rank->thread.step)
		end_thread(c, rank);
}

static void step_watcher(struct cluster *c, struct rank *rank)
{
	rank->watcher.asleep = false;
	rank->watcher.step(c, rank);
	take_time(c, rank->watcher.ready_ns);
	if (rank->watcher.step)
		return;
	end_watcher(rank);
	tell_exit(c, rank); /* the process ends after its last communicator */
}

/* The machine whose turn is next, the lower one of equals: 2 * rank, or that + 1 for its watcher.
 */
static unsigned next_machine(const struct cluster *c)
{
	unsigned next = 0;

	for (unsigned i = 1; i < 2 * c->plan.nranks; i++)
		if (c->ready_ns[i] < c->ready_ns[next])
			next = i;
	return next;
}

static bool over(const struct cluster *c)
{
	return !c->running || c->now_ns > c->last_fault_ns + SETTLED_NS(&c->plan) ||
	       c->tally.steps > STEPS_MAX;
}

static void run(struct cluster *c)
{
	while (!c->failed && !over(c)) {
		unsigned next = next_machine(c);
		struct rank *rank = &c->rank[next / 2];

		if (c->next_due_ns <= c->ready_ns[next]) {
			deliver_due(c, c->next_due_ns); /* may wake somebody earlier */
			continue;
		}
		c->now_ns = c->ready_ns[next];
		c->tally.steps++;
		if (next % 2)
			step_watcher(c, rank);
		else
			step_thread(c, rank);
		strike_due(c, rank);
		judge_step(c, rank);
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
	rank->thread.path = c->plan.path;
	rank->thread.step = thread_enter;
	rank->thread.ready_ns = &c->ready_ns[2 * id];
	rank->watcher.ready_ns = &c->ready_ns[2 * id + 1];
	*rank->thread.ready_ns = 1 + cluster_random(c, 20 * US);
	rank->watcher.step = watcher_look;
	*rank->watcher.ready_ns = 1 + cluster_random(c, 20 * US);
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
	breaker_init(&c->keeper.breaker, c->plan.breaker_rescues, c->plan.breaker_window_ns,
		     c->plan.probe_ns);
	c->rescued_last = c->judged.rescued_last = c->plan.first_turn - 1;
	for (unsigned r = 0; r < c->plan.nranks; r++)
		prepare_rank(c, r);
	c->running = cluster_everyone(c);
	c->tally.steps = 0;
	run(c);
	c->tally.steps += tally.steps;
	for (unsigned r = 0; r < c->plan.nranks; r++)
		mailbox_destroy(&c->rank[r].mailbox);
	return !c->failed;
}
