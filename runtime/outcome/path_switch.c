/* SPDX-License-Identifier: Apache-2.0 */
/* The breaker's deeds: announcing and taking a path switch, probing. See path_switch.h. */
#include "runtime/outcome/path_switch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_calls.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/outcome/watcher_state.h"
#include "runtime/path/path.h"

/* Reasons that each rank knows; the numbers behind them are in rank 0's events of the breaker. */
#define SWITCH_AWAY  "the breaker opened: too many rescues on the path"
#define SWITCH_BACK  "the breaker closed: every rank has seen every probe of the path"
#define SWITCH_HASTY "the breaker opened: calls stay on the path and are rescued at once"

/* The path that calls prefer, and the next one after it; 0: none. */
static enum belay_path path_at(const struct belay_comm *comm, unsigned place)
{
	uint32_t usable = comm->control.head->usable_paths;

	for (uint32_t i = 0; i < comm->settings.npaths; i++)
		if (usable >> comm->settings.paths[i] & 1 && place-- == 0)
			return (enum belay_path)comm->settings.paths[i];
	return (enum belay_path)0;
}

static void trace_switch(struct belay_comm *comm, struct event_record *event, const char *reason)
{
	event->kind = EVENT_PATH_SWITCH;
	event->peer = -1;
	(void)snprintf(event->text, sizeof(event->text), "%s", reason);
	trace_event(comm->trace, event);
}

/* ---- calling thread -------------------------------------------------------------------------- */

static const struct path *path_of(enum belay_path id)
{
	return id == BELAY_PATH_RING ? &ring_path : &host_path;
}

static void take(struct belay_comm *comm, uint64_t word)
{
	enum belay_path from = comm->path->id, to = (enum belay_path)(word & 0xff);

	comm->switch_seen = word;
	comm->path = path_of(to);
	/* Relaxed: shown by health. */
	atomic_store_explicit(&comm->path_id, to, memory_order_relaxed);
	if (from == to)
		return;
	trace_switch(comm,
		     &(struct event_record){
			     .time_ns = clock_now_ns(),
			     .seq = comm->seq + 1,
			     .pass = comm->pass_open ? comm->pass : 0,
			     .path = (uint8_t)to,
			     .value = from,
		     },
		     to == path_at(comm, 0) ? SWITCH_BACK : SWITCH_AWAY);
}

/*
 * Rank 0: from the turn after this call. Not while an announced switch is still ahead, nor in the
 * call that takes it: ranks that have not begun that call yet are still to read the word. In the
 * call after that all have: rank 0 is done with a turn of it, so all have staged that.
 */
static void announce(struct belay_comm *comm, const struct call *call)
{
	/* One access, so that no later wish of the watcher is wiped out: the breaker would be
	 * closed, and calls would never come back. Acquire: pairs with the release in want(). */
	uint32_t wanted = atomic_exchange_explicit(&comm->path_wanted, 0, memory_order_acquire);
	uint64_t turns = call_turns(call->count * call->element_bytes, comm->turn_bytes);
	uint64_t word;

	if (!wanted)
		return;
	word = path_switch_pack(comm->turn + turns + 1, (enum belay_path)wanted);
	/* Release, though `staged` would do: a rank that sees the word sees the decision's
	 * reasons. */
	atomic_store_explicit(&comm->control.head->path_switch, word, memory_order_release);
}

void path_switch_take(struct belay_comm *comm, const struct call *call, uint64_t word)
{
	if (word == comm->switch_seen)
		announce(comm, call);
	else if (comm->turn + 1 >= word >> 8)
		take(comm, word);
}

/* ---- probes: watchers ------------------------------------------------------------------------ */

/* The last call that this rank has begun. */
static uint64_t own_seq(const struct belay_comm *comm)
{
	/* Relaxed: a label; on a device acquire, for the description. */
	return comm->device ? device_calls_seq(comm, device_staged(comm))
			    : atomic_load_explicit(&comm->own->seq, memory_order_relaxed);
}

static bool drops_probe(struct belay_comm *comm)
{
	uint64_t seq = own_seq(comm);

	return faults_armed(&comm->faults) &&
	       fault_take(&comm->faults, (int)comm->rank, seq, FAULT_AT_PUSH, FAULT_BIT(FAULT_DROP),
			  NULL);
}

/* Through the path itself: a store into every region, and one look at the own one. */
static void send_probe(struct belay_comm *comm, uint64_t round)
{
	bool drop = drops_probe(comm);
	struct gpu_error error;
	int code;

	if (!comm->device) {
		if (!drop)
			atomic_store_explicit(&region_head(&comm->region, comm->rank)->probe.word,
					      round, memory_order_release);
		return;
	}
	code = symm_launch_probe(&comm->device->symm, round, drop, comm->device->stream);
	if (code) {
		gpu_launch_error(code, "probing the symm path", &error);
		(void)device_failed(comm, &error, "probing the symm path");
	}
}

static bool device_sees_probe_of_all(struct belay_comm *comm, uint64_t round)
{
	static const char what[] = "looking for probes of the symm path";
	struct device *device = comm->device;
	struct gpu_error error;
	int code;

	device->answers->probe_seen = 0;
	code = symm_launch_probe_read(&device->symm, round, &device->answers->probe_seen,
				      device->stream);
	if (code) {
		gpu_launch_error(code, what, &error);
		(void)device_failed(comm, &error, what);
		return false;
	}
	return device_finish(comm, what) == 0 && device->answers->probe_seen == comm->nranks - 1;
}

static bool sees_probe_of_all(struct belay_comm *comm, uint64_t round)
{
	if (comm->device)
		return device_sees_probe_of_all(comm, round);
	for (unsigned r = 0; r < comm->nranks; r++)
		/* Acquire: as an arrival would be. */
		if (atomic_load_explicit(&region_head(&comm->region, r)->probe.word,
					 memory_order_acquire) != round)
			return false;
	return true;
}

/* Every rank: sends its own probe word once a round, and says when it has seen all. */
static uint64_t take_part(struct watcher *w, uint64_t now)
{
	struct belay_comm *comm = w->comm;
	uint64_t round =
		atomic_load_explicit(&comm->control.head->probe_round, memory_order_acquire);

	if (round == 0 || (comm->device ? !comm->device->shared : !comm->region.base))
		return UINT64_MAX;
	if (round != w->probe_sent) {
		w->probe_sent = round;
		send_probe(comm, round);
		rescue_tell_peers(comm);
	}
	if (w->probe_seen == round)
		return UINT64_MAX;
	if (!sees_probe_of_all(comm, round))
		return now + NS_PER_MS;
	w->probe_seen = round;
	atomic_store_explicit(&comm->own->probe_seen, round, memory_order_release);
	rescue_tell_peers(comm);
	return UINT64_MAX;
}

/* ---- the breaker: rank 0's watcher ----------------------------------------------------------- */

/* `path`: that calls are to take; `missed`: ranks that have not seen every probe. */
__attribute__((format(printf, 5, 6))) static void show_state(struct watcher *w, uint64_t now,
							     enum belay_path path, uint64_t missed,
							     const char *format, ...)
{
	struct belay_comm *comm = w->comm;
	struct event_record event = {
		.time_ns = now,
		.seq = own_seq(comm),
		.kind = EVENT_BREAKER,
		.peer = -1,
		.mask = missed,
		.path = (uint8_t)path,
		.value = w->breaker.state,
	};
	va_list arguments;

	/* Relaxed: shown by health and belay-info. */
	atomic_store_explicit(&comm->control.head->breaker_state, (uint32_t)w->breaker.state,
			      memory_order_relaxed);
	va_start(arguments, format);
	(void)vsnprintf(event.text, sizeof(event.text), format, arguments);
	va_end(arguments);
	trace_event(comm->trace, &event);
}

/* On a device no call changes its path: captured ones cannot. See follow_breaker(). */
static void want(struct belay_comm *comm, enum belay_path path)
{
	if (comm->device)
		return;
	/* Release: pairs with the acquire in announce(). */
	atomic_store_explicit(&comm->path_wanted, (uint32_t)path, memory_order_release);
}

static void note_rescues(struct watcher *w, uint64_t now)
{
	struct belay_comm *comm = w->comm;
	uint64_t count =
		atomic_load_explicit(&comm->control.head->rescued_count, memory_order_relaxed);
	enum belay_path next = path_at(comm, 1);

	for (; w->rescues_seen < count; w->rescues_seen++) {
		if (!next || !breaker_rescued(&w->breaker, now))
			continue;
		want(comm, next);
		show_state(w, now, next, 0,
			   "%" PRIu32 " rescues within %" PRIu64 " ms on the %s path",
			   w->breaker.rescues, w->breaker.window_ns / NS_PER_MS,
			   belay_path_name(path_at(comm, 0)));
		cause_message(comm->causes, BELAY_LOG_WARN, "breaker",
			      "communicator %.8s: %" PRIu32 " rescues within %" PRIu64
			      " ms on the %s path; taking the %s path",
			      comm->id, w->breaker.rescues, w->breaker.window_ns / NS_PER_MS,
			      belay_path_name(path_at(comm, 0)), belay_path_name(next));
	}
}

static uint64_t ranks_without_probe(const struct belay_comm *comm, uint64_t round)
{
	uint64_t missed = 0;

	for (unsigned r = 0; r < comm->nranks; r++)
		if (atomic_load_explicit(&comm->control.rank[r].probe_seen, memory_order_acquire) <
		    round)
			missed |= rank_bit(r);
	return missed;
}

static void begin_probe(struct watcher *w, uint64_t now)
{
	struct belay_comm *comm = w->comm;

	w->probe_round++;
	atomic_store_explicit(&comm->control.head->probe_round, w->probe_round,
			      memory_order_release);
	show_state(w, now, path_at(comm, 1), 0,
		   "the back-off is over: every rank probes the %s path",
		   belay_path_name(path_at(comm, 0)));
	rescue_tell_peers(comm);
}

static void end_probe(struct watcher *w, uint64_t now, uint64_t missed)
{
	struct belay_comm *comm = w->comm;
	const char *name = belay_path_name(path_at(comm, 0));

	breaker_probe_ended(&w->breaker, missed == 0, now);
	if (missed) {
		show_state(w, now, path_at(comm, 1), missed,
			   "ranks 0x%" PRIx64 " have not seen every probe of the %s path; "
			   "the next one in %" PRIu64 " ms",
			   missed, name, (w->breaker.next_probe_ns - now) / NS_PER_MS);
		return;
	}
	want(comm, path_at(comm, 0));
	show_state(w, now, path_at(comm, 0), 0, "every rank has seen every probe of the %s path",
		   name);
}

static uint64_t keep_breaker(struct watcher *w, uint64_t now)
{
	const struct settings *settings = &w->comm->settings;
	uint64_t missed;

	note_rescues(w, now);
	if (breaker_probe_due(&w->breaker, now))
		begin_probe(w, now);
	if (w->breaker.state == BELAY_BREAKER_OPEN)
		return w->breaker.next_probe_ns;
	if (w->breaker.state != BELAY_BREAKER_HALF_OPEN)
		return UINT64_MAX;
	missed = ranks_without_probe(w->comm, w->probe_round);
	if (!missed || now - w->breaker.since_ns > settings->late_ns + settings->grace_ns)
		end_probe(w, now, missed);
	return now + NS_PER_MS;
}

/* ---- devices: every rank's watcher ----------------------------------------------------------- */

/* While the breaker is not closed, kernels ask for the rescue at once (decision 0007). Each rank by
 * itself: both ways give the same bits. */
static void follow_breaker(struct watcher *w, uint64_t now)
{
	struct belay_comm *comm = w->comm;
	/* Relaxed: one word, and nothing else is concluded from it. */
	bool hasty = atomic_load_explicit(&comm->control.head->breaker_state,
					  memory_order_relaxed) != BELAY_BREAKER_CLOSED;

	if (hasty == w->hasty)
		return;
	w->hasty = hasty;
	device_calls_set_hasty(comm, hasty);
	trace_switch(comm,
		     &(struct event_record){
			     .time_ns = now,
			     .seq = own_seq(comm) + 1,
			     .path = (uint8_t)path_at(comm, hasty ? 1 : 0),
			     .value = path_at(comm, hasty ? 0 : 1),
		     },
		     hasty ? SWITCH_HASTY : SWITCH_BACK);
}

uint64_t path_switch_watch(struct watcher *w, uint64_t now_ns)
{
	uint64_t again = w->comm->rank == 0 ? keep_breaker(w, now_ns) : UINT64_MAX;
	uint64_t probe = take_part(w, now_ns);

	if (w->comm->device)
		follow_breaker(w, now_ns);
	return probe < again ? probe : again;
}
