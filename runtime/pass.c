/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pass marks and the commit, rules C1 and C2.
 *
 * A call's own success is provisional. A pass ends well when every rank is done with its last turn
 * and, looked at after that, no verdict stands up to it. It takes a few reads of the control
 * segment and no message; a rank that is behind is waited for up to the hard deadline, like in a
 * call.
 *
 * On a device the marks are kernels, and the commit is belay_pass_wait()'s: cuda/device_pass.c.
 */
#include "runtime/pass.h"

#include "runtime/clock.h"
#include "runtime/cuda/device_pass.h"
#include "runtime/outcome/verdict.h"
#include "runtime/wait.h"

/* On a device: several words say what a rank is done with. */
static bool device_rank_is_done(struct belay_comm *comm, struct wait *wait, unsigned rank)
{
	struct progress progress;

	comm_read_progress(comm, &progress);
	return progress_done(&progress, rank) >= wait->stuck.turn;
}

static bool rank_is_done(struct belay_comm *comm, struct wait *wait, unsigned rank)
{
	return comm_rank_is_done(comm, rank, wait->stuck.turn);
}

static enum commit_state ask(struct belay_comm *comm, uint64_t turn)
{
	struct progress progress;

	comm_read_progress(comm, &progress);
	atomic_thread_fence(memory_order_seq_cst); /* [VERDICT] between (3) and (4) */
	return verdict_commit(
		atomic_load_explicit(&comm->control.head->verdict, memory_order_acquire), &progress,
		turn);
}

static void wait_for_all(struct belay_comm *comm, uint64_t turn)
{
	struct wait wait = {
		.stuck = {.phase = WAIT_COMMIT,
			  .turn = turn,
			  .seq = comm->ended_last_seq,
			  .pass = comm->ended_pass,
			  .missing = ranks_below(comm->nranks)},
		.arrived = comm->device ? device_rank_is_done : rank_is_done,
	};

	/* However it ends, ask() decides: a verdict above the pass does not concern it. */
	(void)wait_for_ranks(comm, &wait);
}

int pass_commit(struct belay_comm *comm, uint64_t turn)
{
	for (;;) {
		switch (ask(comm, turn)) {
		case COMMIT_DONE:
			return 0;
		case COMMIT_FAILED:
			return comm_fail(comm);
		case COMMIT_SETTLE:
			comm_settle(comm);
			break;
		case COMMIT_WAIT:
			wait_for_all(comm, turn);
			break;
		}
	}
}

static void trace_pass(struct belay_comm *comm, enum event_kind kind, uint64_t seq, int status)
{
	trace_event(comm->trace, &(struct event_record){
					 .time_ns = clock_now_ns(),
					 .seq = seq,
					 .pass = comm->pass,
					 .duration_ns = comm->commit_wait_ns,
					 .peer = -1,
					 .status = (int16_t)status,
					 .kind = (uint8_t)kind,
				 });
}

static int begin(struct belay_comm *comm)
{
	if (comm->pass_open)
		return BELAY_E_STATE;
	if (comm->failed || comm_decided(comm))
		return comm_fail(comm);
	comm->pass_open = true;
	comm->index = 0;
	comm->pass++;
	comm->pass_first_seq = comm->seq + 1;
	comm->commit_wait_ns = 0;
	/* Relaxed: for health and messages. */
	atomic_store_explicit(&comm->own->pass, comm->pass, memory_order_relaxed);
	trace_pass(comm, EVENT_PASS_BEGIN, comm->seq + 1, 0);
	return 0;
}

int pass_finish(struct belay_comm *comm)
{
	uint64_t start = clock_now_ns();

	comm->ended_status = comm->failed ? comm_fail(comm) : pass_commit(comm, comm->ended_turn);
	comm->commit_wait_ns = clock_now_ns() - start;
	if (comm->ended_status == 0)
		count_add(&comm->count.passes, 1);
	trace_pass(comm, EVENT_PASS_END, comm->device ? comm->ended_last_seq : comm->seq,
		   comm->ended_status);
	return comm->ended_status;
}

static int end(struct belay_comm *comm)
{
	bool empty = comm->seq < comm->pass_first_seq;

	if (!comm->pass_open)
		return BELAY_E_STATE;
	comm->pass_open = false;
	comm_warm_up_is_over(comm);
	comm->ended_pass = comm->pass;
	comm->ended_first_seq = empty ? 0 : comm->pass_first_seq;
	comm->ended_last_seq = empty ? 0 : comm->seq;
	comm->ended_turn = comm->turn;
	return pass_finish(comm);
}

/* Carries a mark out, or enqueues it. */
static int mark(struct belay_comm *comm, bool is_begin, struct CUstream_st *stream)
{
	int status;

	if (!comm)
		return BELAY_E_ARGUMENT;
	if (stream && !comm->device)
		return BELAY_E_UNSUPPORTED;
	status = comm_enter(comm);
	if (status)
		return status;
	if (comm->device)
		status = device_pass_mark(comm, is_begin, stream);
	else
		status = is_begin ? begin(comm) : end(comm);
	comm_leave(comm);
	return status;
}

int belay_pass_begin(struct belay_comm *comm, struct CUstream_st *stream)
{
	return mark(comm, true, stream);
}

int belay_pass_end(struct belay_comm *comm, struct CUstream_st *stream)
{
	return mark(comm, false, stream);
}

static int tell_pass(const struct belay_comm *comm, struct belay_pass_info *ret_info)
{
	if (comm->ended_pass == 0)
		return BELAY_E_STATE;
	if (comm->ended_status == 0 && ret_info) {
		ret_info->pass = comm->ended_pass;
		ret_info->first_seq = comm->ended_first_seq;
		ret_info->last_seq = comm->ended_last_seq;
		ret_info->wait_ns = comm->commit_wait_ns;
	}
	return comm->ended_status;
}

int belay_pass_wait(struct belay_comm *comm, struct belay_pass_info *ret_info)
{
	int status;

	if (!comm || (ret_info && ret_info->size < sizeof(*ret_info)))
		return BELAY_E_ARGUMENT;
	status = comm_enter(comm);
	if (status)
		return status;
	if (comm->device)
		status = device_pass_wait(comm);
	if (status == 0)
		status = tell_pass(comm, ret_info);
	comm_leave(comm);
	return status;
}
