/* SPDX-License-Identifier: Apache-2.0 */
/* What the watcher does once outcome_decide() has said what is next. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_calls.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_records.h"
#include "runtime/cuda/nccl_watch.h"
#include "runtime/cuda/nccl_worker.h"
#include "runtime/group/control_view.h"
#include "runtime/outcome/mismatch.h"
#include "runtime/outcome/watcher_state.h"
#include "runtime/path/path.h"
#include "runtime/wait.h"

uint64_t watcher_rescue_members(const struct belay_comm *comm, uint64_t word)
{
	const struct control_rank *beginner = comm_named_rank(comm, rescue_rank(word));
	uint64_t parity = (rescue_turn(word) + rescue_attempt(word)) & 1;

	/* Acquire: written before the word was swapped in, which has been read already. */
	return atomic_load_explicit(&beginner->rescue_members[parity], memory_order_acquire);
}

bool watcher_stands_still(const struct belay_comm *comm, unsigned rank, uint64_t now)
{
	/* Relaxed: a label, nothing is ordered by it. */
	uint64_t beat =
		atomic_load_explicit(&comm->control.rank[rank].heartbeat_ns, memory_order_relaxed);

	return now > beat && now - beat > 3 * comm->settings.heartbeat_ns;
}

static const char *heartbeat_label(const struct belay_comm *comm, int rank, uint64_t now)
{
	if (rank < 0)
		return "unknown";
	return watcher_stands_still(comm, (unsigned)rank, now) ? "stopped" : "running";
}

/* ---- which call a turn belongs to ------------------------------------------------------------ */

struct named_call {
	uint64_t seq, pass;
	const struct control_call *call; /* NULL: nobody has staged it */
};

/* A turn that some rank has staged is described there; else it is the next turn of the last
 * call, or of the next. */
static struct named_call name_call(const struct belay_comm *comm, const struct progress *progress,
				   uint64_t turn)
{
	struct named_call named = {0};

	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct control_call *call = &comm->control.rank[r].call[turn & 1];

		/* [PROGRESS] (2) was done by whoever read `progress`. */
		if (progress->staged[r] < turn || progress->staged[r] > turn + 1)
			continue;
		return (struct named_call){.seq = call->seq, .pass = call->pass, .call = call};
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct control_call *before = &comm->control.rank[r].call[(turn - 1) & 1];

		if (progress->staged[r] != turn - 1 || before->seq == 0)
			continue;
		named.seq = before->last_turn >= turn ? before->seq : before->seq + 1;
		return named;
	}
	named.seq = turn;
	return named;
}

/* ---- proposals ------------------------------------------------------------------------------- */

/* The last call that a rank has begun, for people. */
static uint64_t last_seq(const struct belay_comm *comm, unsigned rank)
{
	struct belay_rank_health health = {.size = sizeof(health)};

	control_view_rank(&comm->control, rank, clock_now_ns(), &health);
	return health.seq;
}

static const char *text_or(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

static void describe(const struct belay_comm *comm, const struct outcome_view *view,
		     struct control_cause *cause, const struct named_call *named)
{
	int rank = cause->culprit;
	uint64_t waited =
		view->phase != WAIT_NOTHING ? (view->now_ns - view->since_ns) / NS_PER_MS : 0;
	uint64_t last = rank >= 0 ? last_seq(comm, (unsigned)rank) : 0;
	struct rank_words who = comm_rank_words(comm, rank);
	int pid = rank >= 0 ? atomic_load_explicit(&comm->control.rank[rank].pid,
						   memory_order_relaxed)
			    : 0;

	switch ((enum belay_cause)cause->cause) {
	case BELAY_CAUSE_PEER_LOST:
		snprintf(cause->text, sizeof(cause->text),
			 "rank %s (pid %d) %s before it staged seq %" PRIu64
			 "; its last call was seq %" PRIu64,
			 who.text, pid, view->left & rank_bit((unsigned)rank) ? "left" : "died",
			 named->seq, last);
		break;
	case BELAY_CAUSE_PEER_STUCK:
		snprintf(cause->text, sizeof(cause->text),
			 "rank %s (pid %d, process %s) did not take part in seq %" PRIu64
			 " within %" PRIu64 " ms; its last call was seq %" PRIu64
			 "; missing here: mask 0x%" PRIx64 "%s",
			 who.text, pid, heartbeat_label(comm, rank, view->now_ns), named->seq,
			 waited, last, view->missing, comm_mask_words(comm));
		break;
	case BELAY_CAUSE_MISMATCH:
		mismatch_describe(comm, view, cause, named->call);
		break;
	case BELAY_CAUSE_ABORTED:
		snprintf(cause->text, sizeof(cause->text),
			 "rank %s called belay_comm_abort(); first unfinished call: seq %" PRIu64,
			 who.text, named->seq);
		break;
	case BELAY_CAUSE_GPU_FAULT:
		snprintf(cause->text, sizeof(cause->text),
			 "the GPU of rank %s (pid %d) failed at seq %" PRIu64 ": %s", who.text, pid,
			 named->seq, text_or(device_fault_text(comm), "no text"));
		break;
	case BELAY_CAUSE_NCCL_FAILED:
		snprintf(cause->text, sizeof(cause->text),
			 "NCCL failed: %s; first unfinished call: seq %" PRIu64,
			 text_or(nccl_watch_failure(comm), "no text"), named->seq);
		break;
	default:
		snprintf(cause->text, sizeof(cause->text), "%s at seq %" PRIu64,
			 belay_cause_name((enum belay_cause)cause->cause), named->seq);
		break;
	}
}

static void propose(struct watcher *w, const struct outcome_view *view,
		    const struct outcome_action *action)
{
	struct belay_comm *comm = w->comm;
	uint64_t turn = verdict_turn(action->to), expected = action->from;
	struct named_call named = name_call(comm, &view->progress, turn);
	struct control_cause *cause = &comm->own->cause;

	*cause = (struct control_cause){.turn = turn,
					.seq = named.seq,
					.pass = named.pass,
					.culprit = action->rank,
					.cause = action->cause};
	describe(comm, view, cause, &named);
	if (faults_armed(&comm->faults))
		fault_act(&comm->faults, (int)comm->rank, named.seq, FAULT_AT_VERDICT);
	/* [VERDICT] (1). Release: the cause line stands before the word. A lost race is seen in
	 * the next look. */
	(void)atomic_compare_exchange_strong_explicit(&comm->control.head->verdict, &expected,
						      action->to, memory_order_seq_cst,
						      memory_order_acquire);
}

/* ---- rescue, late, burial -------------------------------------------------------------------- */

/* How the parts of an attempt travel, see control_rank.rescue_gather: over NCCL where nothing has
 * failed so far. 0: -1 when it cannot be said yet. */
static int choose_way(const struct belay_comm *comm, const struct outcome_action *action,
		      uint64_t *ret_gather)
{
	uint64_t turn = rescue_turn(action->to), bytes;

	*ret_gather = 0;
	if (!comm->device)
		return 0;
	if (!rescue_turn_bytes(comm, turn, &bytes))
		return -1;
	if (action->mask == ranks_below(comm->nranks) && rescue_attempt(action->to) == 1 &&
	    comm->own->call[turn & 1].path == BELAY_PATH_SYMM &&
	    nccl_worker_can_gather(comm->device->nccl))
		*ret_gather = bytes + 1;
	return 0;
}

static void begin_rescue(struct watcher *w, const struct outcome_action *action)
{
	struct belay_comm *comm = w->comm;
	uint64_t parity = (rescue_turn(action->to) + rescue_attempt(action->to)) & 1;
	uint64_t expected = action->from, gather;

	if (choose_way(comm, action, &gather))
		return; /* in the next look */
	/* Relaxed: the CAS below releases it. */
	atomic_store_explicit(&comm->own->rescue_members[parity], action->mask,
			      memory_order_relaxed);
	atomic_store_explicit(&comm->own->rescue_lost[parity], action->rank, memory_order_relaxed);
	atomic_store_explicit(&comm->own->rescue_gather[parity], gather, memory_order_relaxed);
	if (!atomic_compare_exchange_strong_explicit(&comm->control.head->rescue, &expected,
						     action->to, memory_order_seq_cst,
						     memory_order_acquire))
		return;
	if (comm->own->call[rescue_turn(action->to) & 1].path != BELAY_PATH_RING)
		cause_message(comm->causes, BELAY_LOG_WARN, "rescue",
			      "seq %" PRIu64
			      ": data of rank %d has not arrived though it was sent; "
			      "finishing the call over %s",
			      comm->own->call[rescue_turn(action->to) & 1].seq, action->rank,
			      gather ? "NCCL" : "the ring");
	rescue_tell_peers(comm);
}

static void name_late(struct watcher *w, const struct outcome_view *view,
		      const struct outcome_action *action)
{
	struct belay_comm *comm = w->comm;
	struct stuck_turn stuck;
	uint64_t waited = view->now_ns - view->since_ns;

	w->late_told = true;
	if (comm_read_wait(comm, &stuck) == MAILBOX_IDLE)
		return;
	count_add(&comm->count.late_by_rank[action->rank], 1);
	/* Relaxed: the calling thread only counts by it. */
	atomic_store_explicit(&comm->late_named, (view->turn << 8) | (uint64_t)action->rank,
			      memory_order_relaxed);
	trace_event(comm->trace, &(struct event_record){
					 .time_ns = view->now_ns,
					 .seq = stuck.seq,
					 .pass = stuck.pass,
					 .kind = EVENT_LATE,
					 .peer = action->rank,
					 .mask = view->missing,
					 .duration_ns = waited,
				 });
	cause_message(comm->causes, BELAY_LOG_WARN, "late",
		      "communicator %.8s seq %" PRIu64
		      ": waiting for rank %s (process %s, last seq %" PRIu64
		      ") since %.1f ms, missing mask 0x%" PRIx64 "%s",
		      comm->id, stuck.seq, comm_rank_words(comm, action->rank).text,
		      heartbeat_label(comm, action->rank, view->now_ns),
		      last_seq(comm, (unsigned)action->rank), (double)waited / NS_PER_MS,
		      view->missing, comm_mask_words(comm));
}

/* Whether the input that a dead rank has staged last can be used (P3). On the NCCL path nothing is
 * retained. */
static bool is_whole(struct belay_comm *comm, unsigned rank, uint64_t staged)
{
	return comm->control.rank[rank].call[staged & 1].path != BELAY_PATH_NCCL &&
	       device_input_is_whole(comm, rank, staged);
}

/* Before its bit in `dead`: the first answer is everybody's, see control_rank.left_whole. A failed
 * CAS: somebody else has answered. */
static void examine(struct belay_comm *comm, unsigned rank)
{
	struct control_rank *dead = &comm->control.rank[rank];
	uint64_t staged = control_view_staged(&comm->control, rank);
	uint64_t none = 0, answer;

	if (atomic_load_explicit(&dead->left_whole, memory_order_acquire))
		return;
	answer = 1 + (is_whole(comm, rank, staged) ? staged : 0);
	(void)atomic_compare_exchange_strong_explicit(&dead->left_whole, &none, answer,
						      memory_order_acq_rel, memory_order_acquire);
}

static void bury(struct watcher *w, uint64_t mask)
{
	for (uint64_t m = w->comm->device ? mask : 0; m; m &= m - 1)
		examine(w->comm, (unsigned)__builtin_ctzll(m));
	/* Acquire and release: whoever sees the bit also sees the dead rank's last words. */
	uint64_t before =
		atomic_fetch_or_explicit(&w->comm->control.head->dead, mask, memory_order_acq_rel);

	if (mask & ~before) {
		wait_ring_bell(w->comm->own);
		rescue_tell_peers(w->comm);
	}
}

static void salvage(struct watcher *w, unsigned dead_rank)
{
	uint64_t dead = atomic_load_explicit(&w->comm->control.head->dead, memory_order_acquire);
	uint64_t live = ~dead;

	if (!live || (unsigned)__builtin_ctzll(live) != w->comm->rank ||
	    w->salvaged & rank_bit(dead_rank))
		return;
	w->salvaged |= rank_bit(dead_rank);
	trace_salvage(w->comm->trace, dead_rank);
}

void watcher_note_exit(struct watcher *w, unsigned rank)
{
	if (atomic_load_explicit(&w->comm->control.rank[rank].state, memory_order_acquire) ==
	    CONTROL_LEFT)
		return;
	bury(w, rank_bit(rank));
	salvage(w, rank);
	cause_add(w->comm->causes, NULL, 0, (int)rank, 0, "the process of rank %s has ended",
		  comm_rank_words(w->comm, (int)rank).text);
}

void watcher_look_for_deaths(struct watcher *w)
{
	struct belay_comm *comm = w->comm;
	uint64_t dead = atomic_load_explicit(&comm->control.head->dead, memory_order_acquire);

	for (uint64_t m = comm_others(comm) & ~dead; m; m &= m - 1) {
		unsigned r = (unsigned)__builtin_ctzll(m);
		struct life_line *life = &comm->control.rank[r].life;

		if (!life_line_has_fallen(life))
			continue;
		life_line_bury(life);
		bury(w, rank_bit(r));
	}
}

/* ---- all actions ----------------------------------------------------------------------------- */

void watcher_act(struct watcher *w, const struct outcome_view *view,
		 const struct outcome_action *action)
{
	switch (action->kind) {
	case OUTCOME_SETTLE:
		comm_settle(w->comm);
		rescue_tell_peers(w->comm);
		break;
	case OUTCOME_PROPOSE:
		propose(w, view, action);
		break;
	case OUTCOME_RESCUE:
		begin_rescue(w, action);
		break;
	case OUTCOME_NAME_LATE:
		name_late(w, view, action);
		break;
	case OUTCOME_BURY:
		bury(w, action->mask);
		break;
	case OUTCOME_NOTHING:
		break;
	}
}

void watcher_meet_verdict(struct watcher *w)
{
	struct belay_comm *comm = w->comm;
	const struct control_cause *cause = comm_verdict_cause(comm);
	struct event_record event;
	struct stuck_turn stuck;

	if (rescue_active(w->rescue))
		rescue_cancel(w->rescue);
	if (comm->device)
		device_fail_from(comm,
				 verdict_turn(atomic_load_explicit(&comm->control.head->verdict,
								   memory_order_acquire)));
	if (mailbox_read(&comm->mailbox, &stuck) == MAILBOX_ABANDONED)
		mailbox_release(&comm->mailbox, stuck.turn, -1, 0);
	wait_ring_bell(comm->own);
	if (w->verdict_met || !cause)
		return;
	w->verdict_met = true;
	rescue_tell_peers(comm);
	event = (struct event_record){
		.time_ns = clock_now_ns(),
		.seq = cause->seq,
		.pass = cause->pass,
		.kind = EVENT_VERDICT,
		.cause = (uint8_t)cause->cause,
		.status = (int16_t)comm_cause_status((enum belay_cause)cause->cause),
		.peer = cause->culprit,
		.value = verdict_proposer(
			atomic_load_explicit(&comm->control.head->verdict, memory_order_acquire)),
	};
	snprintf(event.text, sizeof(event.text), "%.*s", (int)sizeof(event.text) - 1, cause->text);
	trace_event(comm->trace, &event);
	if (comm->device)
		device_records_fail(comm, cause->turn,
				    comm_cause_status((enum belay_cause)cause->cause));
	comm_note_verdict(comm, cause);
	cause_message(comm->causes, BELAY_LOG_ERROR, "verdict",
		      "communicator %.8s: verdict %s: %.*s", comm->id,
		      belay_cause_name((enum belay_cause)cause->cause), CONTROL_TEXT_BYTES,
		      cause->text);
	if (comm->verdict)
		comm->verdict(comm->verdict_user);
}
