/* SPDX-License-Identifier: Apache-2.0 */
/* Pass marks on streams, and the host's wait for what they mark; see device_pass.h. */
#include "runtime/cuda/device_pass.h"

#include <sched.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/cuda/device_enqueue.h"
#include "runtime/cuda/posted_words.h"
#include "runtime/pass.h"

/* How often a mark is looked for: without a pause, then yielding, then at this period. */
#define SPIN_NS	 (20 * NS_PER_MS / 1000)
#define YIELD_NS NS_PER_MS
#define POLL_NS	 (50 * NS_PER_MS / 1000)

/* ---- marks ----------------------------------------------------------------------------------- */

/* Captured marks are opened and closed by each replay: only the device knows how they stand. */
static int check_state(const struct belay_comm *comm, bool begin, const struct enqueue *enqueue)
{
	return !enqueue->captured && comm->pass_open == begin ? BELAY_E_STATE : 0;
}

static int launch_mark(struct belay_comm *comm, bool begin, struct CUstream_st *stream,
		       const struct enqueue *enqueue)
{
	int code = symm_launch_pass(&comm->device->symm, begin, enqueue->ticket, stream);

	if (code)
		return enqueue_failed(comm, false, code, "launching a pass mark");
	if (enqueue->captured)
		return 0;
	comm->pass_open = begin;
	if (!begin)
		comm->device->pass_ticket = enqueue->ticket;
	return 0;
}

int device_pass_mark(struct belay_comm *comm, bool begin, struct CUstream_st *stream)
{
	struct enqueue enqueue;
	int status;

	if (comm->failed || comm_decided(comm))
		return comm_fail(comm);
	status = enqueue_begin(comm, stream, &enqueue);
	if (status)
		return status;
	status = check_state(comm, begin, &enqueue);
	if (status == 0)
		status = launch_mark(comm, begin, stream, &enqueue);
	enqueue_end(comm, &enqueue, status == 0);
	return status;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void pause_for_mark(uint64_t waited_ns)
{
	if (waited_ns >= YIELD_NS)
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = POLL_NS},
				      NULL); /* ending early only means looking again */
	else if (waited_ns >= SPIN_NS)
		(void)sched_yield(); /* cannot fail on Linux */
}

/* A mark is one block, behind all that it is for: its ticket alone says so, or a later one. */
static bool mark_is_reached(const struct belay_comm *comm)
{
	const struct symm_posts *posts = &comm->control.device[comm->rank].posts;

	return post_load(&posts->ticket) >= comm->device->pass_ticket;
}

/* Never: a kernel that failed is waited for its verdict, which the watchers see to. */
static bool is_never(const struct belay_comm *comm)
{
	(void)comm;
	return false;
}

/* What stands before the mark in the stream is bounded by calls' own deadlines where it is belay's;
 * work of the application that never ends is not, so this wait has a deadline too. */
static int wait_until(struct belay_comm *comm, bool (*is_over)(const struct belay_comm *comm))
{
	uint64_t start = clock_now_ns(), waited = 0;

	while (!is_over(comm)) {
		if (comm_decided(comm))
			return comm_fail(comm);
		if (waited >= comm_give_up_ns(comm))
			return BELAY_E_TIMEOUT;
		pause_for_mark(waited);
		waited = clock_now_ns() - start;
	}
	return 0;
}

/* Takes over what the end mark has posted. The words of one mark are stored before pass_ended;
 * should a replay post the next one's meanwhile, this is of the next one in part, and its last turn
 * is the later one: the commit covers both. */
static void read_ended(struct belay_comm *comm)
{
	const struct symm_posts *posts = &comm->control.device[comm->rank].posts;

	comm->ended_pass = post_load(&posts->pass_ended);
	comm->ended_first_seq = post_load(&posts->pass_first_seq);
	comm->ended_last_seq = post_load(&posts->pass_last_seq);
	comm->ended_turn = post_load(&posts->pass_last_turn);
	comm->pass = comm->ended_pass;
}

int device_pass_wait(struct belay_comm *comm)
{
	uint64_t before = comm->ended_pass;
	int status = wait_until(comm, mark_is_reached);

	/* Not the pass before, then, though it is the last that has ended well. */
	if (status == 0 && post_load(&comm->control.device[comm->rank].posts.pass_failed))
		status = wait_until(comm, is_never);
	if (status)
		return status;
	read_ended(comm);
	/* No pass has ended since; with a verdict there, one may have been lost with its device. */
	if (comm->ended_pass == before && comm_decided(comm))
		return comm_fail(comm);
	if (comm->ended_pass == 0)
		return BELAY_E_STATE;
	if (comm->ended_pass == before)
		return comm->ended_status;
	comm_warm_up_is_over(comm);
	status = pass_finish(comm);
	/* Those in between had no wait of their own; the later turn covers them. */
	if (status == 0 && comm->ended_pass > before + 1)
		count_add(&comm->count.passes, comm->ended_pass - before - 1);
	return status;
}
