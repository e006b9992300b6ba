/* SPDX-License-Identifier: Apache-2.0 */
/* See group.h. */
#include "config.h"

#include "runtime/nccl/group.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl/calls.h"
#include "runtime/nccl/watch.h"

struct made {
	const ncclComm_t *comms;
	int ncomms;
};

static _Thread_local struct {
	unsigned depth;
	ncclResult_t refused; /* the first; ncclSuccess: none */
	struct made *made;
	struct group_call *calls;
	size_t nmade, ncalls;
	size_t asked; /* calls added, dropped ones too */
} group;

void group_start(void)
{
	group.depth++;
}

bool group_is_open(void)
{
	return group.depth != 0;
}

/* Room for one more than `length` in an array that grows by doubling. NULL: out of memory. */
static void *grow(void *array, size_t length, size_t bytes)
{
	if (length & (length - 1))
		return array;
	return realloc(array, (length ? 2 * length : 1) * bytes);
}

bool group_add_comms(const ncclComm_t *comms, int ncomms)
{
	struct made *made = grow(group.made, group.nmade, sizeof(*made));

	if (!made)
		return false;
	group.made = made;
	group.made[group.nmade++] = (struct made){comms, ncomms};
	return true;
}

bool group_add_call(const struct group_call *call)
{
	struct group_call *calls = grow(group.calls, group.ncalls, sizeof(*calls));

	if (!calls)
		return false;
	group.calls = calls;
	group.calls[group.ncalls] = *call;
	group.calls[group.ncalls].place = group.asked++;
	group.ncalls++;
	return true;
}

void group_refuse(ncclResult_t result)
{
	if (group.depth && group.refused == ncclSuccess)
		group.refused = result;
}

void group_drop_calls(ncclComm_t comm)
{
	size_t kept = 0;

	for (size_t i = 0; i < group.ncalls; i++) {
		if (group.calls[i].twin->nccl == comm)
			twin_put(group.calls[i].twin);
		else
			group.calls[kept++] = group.calls[i];
	}
	group.ncalls = kept;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void expect_all(void)
{
	for (size_t i = 0; i < group.nmade; i++)
		for (int k = 0; k < group.made[i].ncomms; k++)
			if (group.made[i].comms[k])
				(void)twin_expect(group.made[i].comms[k]);
}

/* Those of blocking communicators are ready. All at once: their ranks may be of this thread. */
static void create_all(void)
{
	size_t n = 0;
	ncclComm_t *comms;

	for (size_t i = 0; i < group.nmade; i++)
		n += (size_t)group.made[i].ncomms;
	comms = calloc(n, sizeof(*comms));
	if (!comms)
		return;
	n = 0;
	for (size_t i = 0; i < group.nmade; i++)
		for (int k = 0; k < group.made[i].ncomms; k++)
			if (group.made[i].comms[k])
				comms[n++] = group.made[i].comms[k];
	twin_create(comms, (int)n);
	free(comms);
}

/* By id, which is the same on all ranks; those of one communicator as they were asked for. */
static int compare_calls(const void *a, const void *b)
{
	const struct group_call *x = a, *y = b;
	int order = strcmp(belay_comm_id(x->twin->belay), belay_comm_id(y->twin->belay));

	if (order)
		return order;
	return x->place < y->place ? -1 : 1;
}

static bool has_twin(const struct group_call *const *calls, size_t ncalls, const struct twin *twin)
{
	while (ncalls && calls[ncalls - 1]->twin != twin)
		ncalls--;
	return ncalls != 0;
}

/* The next calls of each twin, in a row: one for belay, or all that are watched as one. */
static size_t next_round(const struct group_call **round)
{
	size_t n = 0;

	for (size_t i = 0; i < group.ncalls; i++) {
		struct group_call *first = &group.calls[i];

		if (first->begun || has_twin(round, n, first->twin))
			continue;
		first->begun = true;
		round[n++] = first;
		for (size_t k = i + 1; k < group.ncalls; k++) {
			struct group_call *next = &group.calls[k];

			if (next->twin != first->twin)
				continue;
			if (!watch_joins(first, next))
				break;
			next->begun = true;
			round[n++] = next;
		}
	}
	return n;
}

/* Those for belay at once, and the others together: a thread may have several ranks of one
 * communicator, whose calls NCCL must see in one group. */
static ncclResult_t enqueue_round(const struct group_call **round, size_t n)
{
	ncclResult_t result = ncclSuccess, one;
	size_t watched = 0;

	for (size_t i = 0; i < n; i++) {
		if (round[i]->watched) {
			round[watched++] = round[i];
			continue;
		}
		one = calls_enqueue(round[i]);
		result = result == ncclSuccess ? one : result;
	}
	one = watched ? watch_enqueue(round, watched, true) : ncclSuccess;
	return result == ncclSuccess ? one : result;
}

/* In rounds: no twin's call waits on the host for one before it whose peers' calls stand behind it
 * here. */
static ncclResult_t enqueue_all(void)
{
	const struct group_call **round = calloc(group.ncalls, sizeof(const struct group_call *));
	ncclResult_t result = round ? ncclSuccess : ncclSystemError;
	size_t n;

	while (round && (n = next_round(round)) != 0) {
		ncclResult_t one = enqueue_round(round, n);

		result = result == ncclSuccess ? one : result;
	}
	free(round);
	return result;
}

static void forget(void)
{
	for (size_t i = 0; i < group.ncalls; i++)
		twin_put(group.calls[i].twin);
	free(group.calls);
	free(group.made);
	memset(&group, 0, sizeof(group));
}

ncclResult_t group_end(ncclResult_t result)
{
	if (group.depth == 0 || --group.depth > 0)
		return result;
	if (group.nmade && (result == ncclSuccess || result == ncclInProgress))
		expect_all();
	if (group.nmade && result == ncclInProgress)
		release_forbid(); /* as in a call that makes one */
	if (group.nmade && result == ncclSuccess)
		create_all();
	if (group.ncalls && (result == ncclSuccess || result == ncclInProgress)) {
		ncclResult_t calls;

		qsort(group.calls, group.ncalls, sizeof(group.calls[0]), compare_calls);
		calls = enqueue_all();
		result = calls == ncclSuccess ? result : calls;
	}
	if (result == ncclSuccess || result == ncclInProgress)
		result = group.refused == ncclSuccess ? result : group.refused;
	forget();
	return result;
}
