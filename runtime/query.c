/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a communicator. They read; none of them waits, and all may be asked during a
 * call. */
#include <stdio.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "runtime/group/control_view.h"
#include "runtime/path/path.h"

int belay_comm_rank(const struct belay_comm *comm)
{
	return comm ? (int)comm->rank : -1;
}

int belay_comm_nranks(const struct belay_comm *comm)
{
	return comm ? (int)comm->nranks : -1;
}

const char *belay_comm_id(const struct belay_comm *comm)
{
	return comm ? comm->id : NULL;
}

/* What every query checks: its struct, which begins with its size, is one we know how to fill. */
static int check(const struct belay_comm *comm, const void *ret_struct, size_t known)
{
	const size_t *size = ret_struct;

	if (!comm || !size || *size < known)
		return BELAY_E_ARGUMENT;
	return comm_forked(comm) ? BELAY_E_FORKED : 0;
}

int belay_comm_verdict(const struct belay_comm *comm, struct belay_verdict *ret_verdict)
{
	int status = check(comm, ret_verdict, sizeof(*ret_verdict));

	if (status)
		return status;
	return control_view_verdict(&comm->control, ret_verdict) ? 0 : BELAY_E_STATE;
}

int belay_comm_place(const struct belay_comm *comm, struct belay_place *ret_place)
{
	int status = check(comm, ret_place, sizeof(*ret_place));
	const struct comm_world *world;

	if (status)
		return status;
	world = &comm->world;
	ret_place->hosts = world->nranks ? world->hosts : 1;
	ret_place->host = world->nranks ? world->host : 1;
	ret_place->nranks = world->nranks ? world->nranks : (int)comm->nranks;
	ret_place->rank = world->nranks ? world->rank[comm->rank] : (int)comm->rank;
	return 0;
}

/* Relaxed loads throughout what follows: numbers to be shown, each by itself. */
static uint64_t shown(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/* What has been enqueued may not have begun, and then nobody has posted it. */
static bool is_in_flight(const struct belay_comm *comm)
{
	return comm->device && !comm_decided(comm) && !device_idle(comm);
}

int belay_comm_health(const struct belay_comm *comm, struct belay_health *ret_health)
{
	int status = check(comm, ret_health, sizeof(*ret_health));
	struct belay_rank_health own;

	if (status)
		return status;
	control_view_rank(&comm->control, comm->rank, clock_now_ns(), &own);
	ret_health->seq = own.seq;
	ret_health->done_seq = own.done_seq;
	ret_health->pass = control_view_pass(&comm->control, comm->rank);
	ret_health->age_ns = own.age_ns;
	ret_health->in_call = own.in_call || is_in_flight(comm);
	ret_health->path =
		(enum belay_path)atomic_load_explicit(&comm->path_id, memory_order_relaxed);
	ret_health->breaker = (enum belay_breaker_state)atomic_load_explicit(
		&comm->control.head->breaker_state, memory_order_relaxed);
	ret_health->missing = shown(&comm->own->missing);
	ret_health->has_verdict = comm_decided(comm);
	ret_health->last_path =
		(enum belay_path)atomic_load_explicit(&comm->last_path, memory_order_relaxed);
	ret_health->last_algorithm = (enum belay_algorithm)atomic_load_explicit(
		&comm->last_algorithm, memory_order_relaxed);
	return 0;
}

int belay_comm_rank_health(const struct belay_comm *comm, int rank,
			   struct belay_rank_health *ret_health)
{
	int status = check(comm, ret_health, sizeof(*ret_health));

	if (status)
		return status;
	if (rank < 0 || (unsigned)rank >= comm->nranks)
		return BELAY_E_ARGUMENT;
	control_view_rank(&comm->control, (unsigned)rank, clock_now_ns(), ret_health);
	return 0;
}

int belay_comm_statistics(const struct belay_comm *comm, struct belay_statistics *ret_statistics)
{
	int status = check(comm, ret_statistics, sizeof(*ret_statistics));

	if (status)
		return status;
	ret_statistics->calls = shown(&comm->count.calls);
	ret_statistics->passes = shown(&comm->count.passes);
	ret_statistics->bytes = shown(&comm->count.bytes);
	for (unsigned i = 0; i < 8; i++)
		ret_statistics->calls_by_path[i] = shown(&comm->count.by_path[i]);
	ret_statistics->late_calls = shown(&comm->count.late_calls);
	ret_statistics->rescued_seqs = shown(&comm->control.head->rescued_seqs);
	ret_statistics->own_rescues = shown(&comm->count.own_rescues);
	for (unsigned r = 0; r < BELAY_RANKS_MAX; r++) {
		ret_statistics->late_by_rank[r] = shown(&comm->count.late_by_rank[r]);
		ret_statistics->late_worst_ns[r] = shown(&comm->count.late_worst_ns[r]);
	}
	ret_statistics->records_lost = trace_records_lost(comm->trace);
	ret_statistics->faults_done = faults_done(&comm->faults) | device_faults_reached(comm);
	return 0;
}

int belay_comm_causes(const struct belay_comm *comm, char *buffer, size_t size, size_t *ret_size)
{
	size_t needed;

	if (!comm || (!buffer && size > 0))
		return BELAY_E_ARGUMENT;
	if (comm_forked(comm))
		return BELAY_E_FORKED;
	needed = cause_text(comm->causes, buffer, size);
	if (ret_size)
		*ret_size = needed;
	return 0;
}
