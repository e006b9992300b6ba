/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pure rules of verdict.h meet the shared words: reading progress, settling, meeting
 * the verdict. */
#include <string.h>

#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "runtime/group/control_view.h"
#include "runtime/outcome/verdict.h"

/* The dead mask first: what is read after it of a rank in it is final, but for what kernels of its
 * post until its device is taken down. */
static void read_dead(const struct belay_comm *comm, struct progress *progress)
{
	progress->dead = atomic_load_explicit(&comm->control.head->dead, memory_order_acquire);
	progress->donation = comm->device ? comm->device->shared : comm->region.base != NULL;
}

/* What a rank has staged; a dead one on a device: what it is agreed to have left whole, which was
 * stored before its bit in the dead mask. */
static uint64_t read_staged(const struct belay_comm *comm, unsigned r,
			    const struct progress *progress)
{
	const struct control_rank *rank = &comm->control.rank[r];

	if (comm->device && progress->dead & rank_bit(r))
		return atomic_load_explicit(&rank->left_whole, memory_order_acquire) - 1;
	return control_view_staged(&comm->control, r);
}

/* [PROGRESS] (2), each. */
static void read_steps(const struct belay_comm *comm, unsigned r, struct progress *progress)
{
	progress->done[r] = control_view_done(&comm->control, r);
	progress->results[r] = control_view_results(&comm->control, r);
	progress->pushed[r] = control_view_pushed(&comm->control, r);
	progress->staged[r] = read_staged(comm, r, progress);
}

void comm_read_progress(const struct belay_comm *comm, struct progress *ret_progress)
{
	ret_progress->nranks = comm->nranks;
	read_dead(comm, ret_progress);
	for (unsigned r = 0; r < comm->nranks; r++)
		read_steps(comm, r, ret_progress);
}

bool comm_rank_is_done(const struct belay_comm *comm, unsigned rank, uint64_t turn)
{
	struct progress progress = {.nranks = comm->nranks};

	read_dead(comm, &progress);
	read_steps(comm, rank, &progress);
	return progress_done(&progress, rank) >= turn;
}

enum mailbox_state comm_read_wait(struct belay_comm *comm, struct stuck_turn *ret_stuck)
{
	enum mailbox_state state = mailbox_read(&comm->mailbox, ret_stuck);

	/* A turn comes first: whoever waits for a commit has none that is older. */
	return state == MAILBOX_IDLE && comm->device ? mailbox_read(&comm->commits, ret_stuck)
						     : state;
}

void comm_settle(struct belay_comm *comm)
{
	_Atomic uint64_t *word = &comm->control.head->verdict;
	uint64_t proposed = atomic_load_explicit(word, memory_order_acquire);
	struct progress progress;

	if (verdict_state(proposed) != VERDICT_PROPOSED)
		return;
	atomic_thread_fence(memory_order_seq_cst); /* [VERDICT] between (1) and (2) */
	comm_read_progress(comm, &progress);
	/* A lost race: somebody else has settled this very proposal. */
	(void)atomic_compare_exchange_strong_explicit(word, &proposed,
						      verdict_settle(proposed, &progress),
						      memory_order_seq_cst, memory_order_acquire);
}

const struct control_cause *comm_verdict_cause(const struct belay_comm *comm)
{
	/* Acquire: the cause line was written before the proposal. */
	uint64_t word = atomic_load_explicit(&comm->control.head->verdict, memory_order_acquire);

	if (!verdict_decided(word))
		return NULL;
	return &comm_named_rank(comm, verdict_proposer(word))->cause;
}

int comm_cause_status(enum belay_cause cause)
{
	static const int16_t statuses[] = {
		[BELAY_CAUSE_NONE] = BELAY_E_INTERNAL,
		[BELAY_CAUSE_PEER_LOST] = BELAY_E_PEER_LOST,
		[BELAY_CAUSE_PEER_STUCK] = BELAY_E_PEER_STUCK,
		[BELAY_CAUSE_MISMATCH] = BELAY_E_MISMATCH,
		[BELAY_CAUSE_GPU_FAULT] = BELAY_E_GPU_FAULT,
		[BELAY_CAUSE_NCCL_FAILED] = BELAY_E_NCCL_FAILED,
		[BELAY_CAUSE_ABORTED] = BELAY_E_ABORTED,
		[BELAY_CAUSE_INTERNAL] = BELAY_E_INTERNAL,
	};

	return (size_t)cause < sizeof(statuses) / sizeof(statuses[0]) ? statuses[cause]
								      : BELAY_E_INTERNAL;
}

void comm_note_verdict(struct belay_comm *comm, const struct control_cause *cause)
{
	/* Whoever comes second waits until the line is there, so that a program that has the
	 * status finds it. */
	pthread_mutex_lock(&comm->note_lock);
	if (!comm->verdict_noted)
		cause_add(comm->causes, NULL, 0, cause->culprit, cause->seq, "verdict %s: %.*s",
			  belay_cause_name((enum belay_cause)cause->cause), CONTROL_TEXT_BYTES,
			  cause->text);
	comm->verdict_noted = true;
	pthread_mutex_unlock(&comm->note_lock);
}

int comm_fail(struct belay_comm *comm)
{
	const struct control_cause *cause = comm_verdict_cause(comm);

	if (cause && !comm->failed)
		comm_note_verdict(comm, cause);
	comm->failed = true;
	return cause ? comm_cause_status((enum belay_cause)cause->cause) : BELAY_E_INTERNAL;
}
