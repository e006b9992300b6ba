/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of NCCL's that the program makes itself, and belay watches: the gate of the NCCL path
 * before each, its end behind.
 *
 *   belay_watch_begin()   arguments checked; the verdict looked at; stream looked at
 *     nccl_gate_open()    path/nccl_path.c: a kernel that numbers, signs and waits for all ranks
 *   (the program)         NCCL's own kernels
 *   belay_watch_end()
 *     nccl_gate_close()   a kernel that says that the turn is done, and completes the record
 *
 * Between the two the communicator is nobody's: device->watched says what was begun, and
 * enqueue_begin() refuses all else. What hangs between the two kernels is seen by
 * cuda/nccl_watch.c.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/call_fault.h"
#include "runtime/communicator.h"
#include "runtime/cuda/device_enqueue.h"
#include "runtime/outcome/watcher.h"
#include "runtime/path/nccl_path.h"

/* What a fault injected into NCCL is told as: ncclInternalError. */
#define INJECTED_RESULT 3
/* ncclInProgress: of a communicator that does not block. */
#define RESULT_IN_PROGRESS 7

/* ---- arguments ------------------------------------------------------------------------------- */

static bool op_is_known(enum belay_op op)
{
	return (op >= BELAY_SUM && op <= BELAY_USER_OP) ||
	       (op >= BELAY_ALL_GATHER && op <= BELAY_SCATTER);
}

/* A newer program may ask for more than this library knows: then it must not. */
static bool is_ours(const struct belay_watched *watched)
{
	const char *bytes = (const char *)watched;

	if (watched->size < sizeof(*watched) || watched->size > 4096)
		return false;
	for (size_t i = sizeof(*watched); i < watched->size; i++)
		if (bytes[i])
			return false;
	return true;
}

static int check_arguments(const struct belay_comm *comm, const struct belay_watched *watched)
{
	size_t bytes;

	if (!comm || !watched || !is_ours(watched))
		return BELAY_E_ARGUMENT;
	bytes = belay_dtype_bytes(watched->dtype);
	if (bytes == 0 || !op_is_known(watched->op) || watched->root < 0 ||
	    watched->count > SIZE_MAX / 2 / bytes)
		return BELAY_E_ARGUMENT;
	return comm->device ? 0 : BELAY_E_UNSUPPORTED;
}

/* Never 0: no watched call has the signature of one that belay carries out. */
static uint64_t details_of(const struct belay_watched *watched)
{
	unsigned calls = watched->calls ? watched->calls : 1;
	uint64_t mixed = symm_mix(0x7761746368, (uint64_t)(unsigned)watched->root << 32 | calls);

	mixed = symm_mix(mixed, watched->details);
	return mixed ? mixed : 1;
}

static struct call call_of(const struct belay_watched *watched, struct CUstream_st *stream)
{
	return (struct call){
		.count = watched->count,
		.element_bytes = belay_dtype_bytes(watched->dtype),
		.dtype = (int)watched->dtype,
		.op = (int)watched->op,
		.stream = stream,
		.flags = watched->calls > 1 ? CALL_WATCHED | CALL_FUSED : CALL_WATCHED,
		.details = details_of(watched),
	};
}

/* ---- begin ----------------------------------------------------------------------------------- */

static int open_call(struct belay_comm *comm, struct call *call)
{
	struct device_watched *watched = &comm->device->watched;
	enum fault_kind fault = nccl_gate_fault(comm);
	struct enqueue enqueue;
	int status = enqueue_begin(comm, call->stream, &enqueue);

	if (status)
		return status;
	call->captured = enqueue.captured;
	status = nccl_gate_open(comm, call);
	if (status == 0) {
		comm->seq++;
		*watched = (struct device_watched){.open = true,
						   .fault = fault,
						   .stream = enqueue.stream,
						   .capture = enqueue.capture};
	}
	enqueue_end(comm, &enqueue, status == 0);
	return status;
}

static int begin(struct belay_comm *comm, struct call *call)
{
	if (comm->failed || comm_decided(comm))
		return comm_fail(comm);
	if (!comm->device->watched.open && faults_armed(&comm->faults) &&
	    call_fault_before(comm, call) == CALL_FAULT_SKIP) {
		comm->device->watched = (struct device_watched){.open = true, .left_out = true};
		return 0;
	}
	return open_call(comm, call);
}

int belay_watch_begin(struct belay_comm *comm, const struct belay_watched *watched,
		      struct CUstream_st *stream)
{
	int status = check_arguments(comm, watched);
	struct call call;

	if (status)
		return status;
	status = comm_enter(comm);
	if (status)
		return status;
	call = call_of(watched, stream);
	status = begin(comm, &call);
	comm_leave(comm);
	return status;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* The result of NCCL's call, which a fault on purpose may spoil. */
static int result_of(const struct device_watched *watched, int failed)
{
	return failed == 0 && watched->fault == FAULT_NCCL_ERROR ? INJECTED_RESULT : failed;
}

static int end_gate(struct belay_comm *comm, const struct device_watched *watched,
		    const struct call *call, int failed)
{
	int result = result_of(watched, failed);
	int status = nccl_gate_close(comm, call, result == 0 && watched->fault == FAULT_NONE);

	if (status || result == 0)
		return status;
	/* Relaxed: see struct device. What is captured has not been made yet. */
	if (!call->captured)
		atomic_store_explicit(&comm->device->watched_failed, result, memory_order_relaxed);
	return nccl_gate_failed(comm);
}

/* `watched` is what was open, and is not any more. */
static int close_call(struct belay_comm *comm, const struct device_watched *watched,
		      struct call *call, int failed)
{
	struct enqueue enqueue;
	int status = enqueue_begin(comm, call->stream, &enqueue);

	if (status)
		return status;
	if (enqueue.stream != watched->stream || enqueue.capture != watched->capture) {
		enqueue_end(comm, &enqueue, false);
		return BELAY_E_ARGUMENT;
	}
	call->captured = enqueue.captured;
	call->ticket = enqueue.ticket;
	status = end_gate(comm, watched, call, failed);
	enqueue_end(comm, &enqueue, status == 0);
	return status;
}

static int end(struct belay_comm *comm, struct call *call, int failed)
{
	struct device_watched watched = comm->device->watched;
	int status;

	if (!watched.open)
		return BELAY_E_STATE;
	comm->device->watched.open = false;
	if (comm->failed || comm_decided(comm))
		return comm_fail(comm);
	status = watched.left_out ? 0 : close_call(comm, &watched, call, failed);
	comm->device->watched.open = status == BELAY_E_ARGUMENT || status == BELAY_E_BUSY;
	return status;
}

int belay_watch_end(struct belay_comm *comm, const struct belay_watched *watched, int failed,
		    struct CUstream_st *stream)
{
	int status = check_arguments(comm, watched);
	struct call call;

	if (status)
		return status;
	status = comm_enter(comm);
	if (status)
		return status;
	call = call_of(watched, stream);
	status = end(comm, &call, failed);
	comm_leave(comm);
	return status;
}

/* ---- errors ---------------------------------------------------------------------------------- */

int belay_watch_error(struct belay_comm *comm, int result)
{
	if (!comm || result <= 0 || result == RESULT_IN_PROGRESS)
		return BELAY_E_ARGUMENT;
	if (comm_forked(comm))
		return BELAY_E_FORKED;
	if (!comm->device)
		return BELAY_E_UNSUPPORTED;
	/* Relaxed: see struct device. */
	if (atomic_exchange_explicit(&comm->device->watched_error, result, memory_order_relaxed) !=
	    result)
		watcher_kick(comm->watcher);
	return 0;
}
