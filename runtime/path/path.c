/* SPDX-License-Identifier: Apache-2.0 */
/* What all paths share: staging, posting, mismatches. See path.h. */
#include "runtime/path/path.h"

#include "kernels/host_sum.h"
#include "runtime/clock.h"
#include "runtime/outcome/watcher.h"
#include "runtime/wait.h"

uint64_t call_signature_base(uint64_t count, int dtype, int op)
{
	return symm_mix(symm_mix(0x62656c61, count),
			(uint64_t)dtype << 32 | (uint64_t)(uint32_t)op);
}

uint32_t call_signature(uint64_t count, int dtype, int op, uint64_t pass, uint32_t index)
{
	return symm_signature(call_signature_base(count, dtype, op), pass, index);
}

bool path_is_agreed(const struct belay_comm *comm, enum belay_path id)
{
	uint32_t usable = comm->control.head->usable_paths;

	for (uint32_t i = 0; i < comm->settings.npaths; i++)
		if (comm->settings.paths[i] == (uint8_t)id)
			return usable >> id & 1;
	return false;
}

void path_stage(struct belay_comm *comm, const struct call *call, uint64_t turn, const void *input,
		size_t bytes)
{
	struct control_call *description = &comm->own->call[turn & 1];

	/* [PROGRESS] (3): in this turn, so all ranks are done with turn - 2. */
	atomic_thread_fence(memory_order_release);
	host_sum_stage(region_slot(&comm->region, comm->rank, turn), input, bytes);
	description->seq = call->seq;
	description->count = call->count;
	description->pass = call->pass;
	description->last_turn = call->last_turn;
	description->index = call->index;
	description->signature = call->signature;
	description->dtype = (uint8_t)call->dtype;
	description->op = (uint8_t)call->op;
	description->path = (uint8_t)comm->path->id;
	/* [PROGRESS] (1): the slot and the description are whole. */
	atomic_store_explicit(&comm->own->staged, turn, memory_order_release);
}

void path_done(struct belay_comm *comm, uint64_t turn)
{
	atomic_store_explicit(&comm->own->done, turn, memory_order_release); /* [PROGRESS] (1) */
	comm->wake_pending = true;
}

static bool never_arrives(struct belay_comm *comm, struct wait *wait, unsigned rank)
{
	(void)comm;
	(void)wait;
	(void)rank;
	return false;
}

int path_mismatch(struct belay_comm *comm, struct call *call, uint64_t turn)
{
	struct wait wait = {
		.stuck = {.phase = WAIT_VERDICT,
			  .turn = turn,
			  .seq = call->seq,
			  .pass = call->pass,
			  .missing = UINT64_C(1) << comm->rank},
		.arrived = never_arrives,
	};

	(void)mailbox_complain(&comm->mailbox, COMPLAINT_MISMATCH, turn, clock_now_ns());
	watcher_kick(comm->watcher);
	/* Only a verdict ends this wait, and the watcher sees to one: by the mismatch, else by
	 * the hard deadline. */
	(void)wait_for_ranks(comm, &wait);
	return comm_fail(comm);
}

void path_note_wait(struct belay_comm *comm, struct call *call, const struct wait *wait)
{
	struct call_record *record = call->record;

	if (!wait->late)
		return;
	if (!(record->flags & CALL_LATE))
		count_add(&comm->count.late_calls, 1);
	record->flags |= CALL_LATE;
	record->missing |= wait->late_for;
}
