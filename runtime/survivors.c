/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a verdict: who is left, and one new id for them.
 *
 *   each survivor      asks: stores `heir_asked` in its own line
 *   the lowest of them once every live rank has asked: writes mask and id into its own line, then
 *                      swaps 1 + its rank into `heir_of`, from 0
 *   everybody          takes mask and id from the line that `heir_of` names
 *
 * Whoever swaps first is right for all; a rank that dies before it swaps is left out by the next
 * lowest. A rank that the verdict found stuck is no survivor, even if it wakes up.
 *
 * Ordering contract [HEIRS]: (1) the swap of `heir_of` releases the line, (2) the load that finds
 * it acquires. A line is not written again once it is named.
 */
#include <string.h>

#include "runtime/clock.h"
#include "runtime/communicator.h"
#include "runtime/outcome/rescue.h"

static uint64_t excluded(const struct belay_comm *comm)
{
	const struct control_cause *cause = comm_verdict_cause(comm);

	if (cause && cause->cause == BELAY_CAUSE_PEER_STUCK && cause->culprit >= 0 &&
	    (unsigned)cause->culprit < comm->nranks)
		return rank_bit((unsigned)cause->culprit);
	return 0;
}

/* Live ranks; those that have asked are told by `ret_asked`. */
static uint64_t candidates(const struct belay_comm *comm, uint64_t *ret_asked)
{
	uint64_t dead = atomic_load_explicit(&comm->control.head->dead, memory_order_acquire) |
			excluded(comm);
	uint64_t live = 0, asked = 0;

	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct control_rank *rank = &comm->control.rank[r];

		if (dead >> r & 1 ||
		    atomic_load_explicit(&rank->state, memory_order_acquire) == CONTROL_LEFT)
			continue;
		live |= rank_bit(r);
		if (atomic_load_explicit(&rank->heir_asked, memory_order_acquire))
			asked |= rank_bit(r);
	}
	*ret_asked = asked;
	return live;
}

static int publish(struct belay_comm *comm, uint64_t mask)
{
	struct belay_unique_id id;
	uint32_t none = 0;
	int status = belay_unique_id_create(&id);

	if (status)
		return status;
	comm->own->heirs.mask = mask;
	memcpy(comm->own->heirs.id, &id, sizeof(id));
	/* [HEIRS] (1): mask and id stand before the word. Lost: another one was first. */
	(void)atomic_compare_exchange_strong_explicit(&comm->control.head->heir_of, &none,
						      comm->rank + 1, memory_order_acq_rel,
						      memory_order_acquire);
	return 0;
}

static int take(const struct belay_comm *comm, uint32_t heir, uint64_t *ret_mask,
		struct belay_unique_id *ret_id)
{
	const struct control_heirs *heirs = &comm_named_rank(comm, heir - 1)->heirs;

	if (!(heirs->mask >> comm->rank & 1))
		return BELAY_E_STATE;
	*ret_mask = heirs->mask;
	memcpy(ret_id, heirs->id, sizeof(*ret_id));
	return 0;
}

static int ask(struct belay_comm *comm, uint64_t deadline, uint64_t *ret_mask,
	       struct belay_unique_id *ret_id)
{
	if (!comm_verdict_cause(comm) || excluded(comm) >> comm->rank & 1)
		return BELAY_E_STATE;
	atomic_store_explicit(&comm->own->heir_asked, 1, memory_order_release);
	for (;;) {
		uint32_t heir = atomic_load_explicit(&comm->control.head->heir_of,
						     memory_order_acquire); /* [HEIRS] (2) */
		uint64_t asked = 0, live;
		int status = 0;

		if (heir)
			return take(comm, heir, ret_mask, ret_id);
		live = candidates(comm, &asked);
		if (asked == live && live && (unsigned)__builtin_ctzll(live) == comm->rank)
			status = publish(comm, live);
		if (status)
			return status;
		if (clock_now_ns() >= deadline)
			return BELAY_E_TIMEOUT;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = NS_PER_MS / 4},
				NULL);
	}
}

int belay_comm_survivors(struct belay_comm *comm, uint64_t timeout_ns, uint64_t *ret_mask,
			 struct belay_unique_id *ret_id)
{
	uint64_t now = clock_now_ns();
	int status;

	if (!comm || !ret_mask || !ret_id)
		return BELAY_E_ARGUMENT;
	status = comm_enter(comm);
	if (status)
		return status;
	status = ask(comm, timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX, ret_mask,
		     ret_id);
	comm_leave(comm);
	return status;
}
