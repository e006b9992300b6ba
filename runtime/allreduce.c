/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a call.
 *
 *   belay_allreduce()      arguments checked; the communicator taken for this thread; the verdict
 *                          looked at
 *     run_call()           on host memory: the call numbered and signed; a record begun
 *       path->allreduce()  path/host_path.c: stage, push, wait, reduce, done
 *                            wait.c: spin, yield, sleep; past the soft deadline the watcher is told
 *                            outcome/watcher.c: late, lost, dead, mismatch -> rescue or verdict
 *       end_record()       the record published: ring, LTTng, call log (trace/)
 *     enqueue_call()       on device memory: stream and buffers looked at
 *       path->allreduce()  path/symm_path.c: kernels launched. The rest is theirs: number, stage,
 *                          push, wait, reduce, done, record; the watcher helps as above
 *                          (cuda/device_calls.c, cuda/device_records.c)
 *
 * A refused call (class CALLER) has changed nothing: no number taken, no word posted, nothing
 * enqueued.
 */
#include <stdbool.h>
#include <stdint.h>

#include "runtime/call_fault.h"
#include "runtime/clock.h"
#include "runtime/communicator.h"
#include "runtime/cuda/device_enqueue.h"
#include "runtime/outcome/path_switch.h"
#include "runtime/path/path.h"
#include "runtime/wait.h"

static bool overlaps_in_part(const void *send, const void *recv, size_t bytes)
{
	uintptr_t a = (uintptr_t)send, b = (uintptr_t)recv;

	return a != b && a < b + bytes && b < a + bytes;
}

static int check_arguments(const struct belay_comm *comm, const void *send, const void *recv,
			   size_t count, enum belay_dtype dtype, enum belay_op op,
			   const struct CUstream_st *stream)
{
	size_t bytes = belay_dtype_bytes(dtype);

	if (!comm || bytes == 0 || dtype > BELAY_I8 || op < BELAY_SUM || op > BELAY_PROD ||
	    count > SIZE_MAX / 2 / bytes)
		return BELAY_E_ARGUMENT;
	if (count > 0 && (!send || !recv || overlaps_in_part(send, recv, count * bytes)))
		return BELAY_E_ARGUMENT;
	return comm_only_watches(comm) || (stream && !comm->device) ? BELAY_E_UNSUPPORTED : 0;
}

/* ---- on host memory -------------------------------------------------------------------------- */

/* Every field: the slot holds an older record. */
static void begin_record(struct belay_comm *comm, struct call *call)
{
	struct call_record *record = trace_call_slot(comm->trace);
	uint32_t nranks = comm->nranks;

	record->start_ns = clock_stamp_ns();
	record->seq = call->seq;
	record->pass = call->pass;
	record->count = call->count;
	record->missing = record->digest = record->rescue_ns = 0;
	record->index = call->index;
	record->enqueue_ns = record->staged_ns = 0;
	record->flags = call->send == call->recv ? CALL_IN_PLACE : 0;
	record->op = (uint8_t)call->op;
	record->dtype = (uint8_t)call->dtype;
	record->path = (uint8_t)comm->path->id;
	record->algorithm = record->rescue_path = 0;
	record->reserved[0] = record->reserved[1] = record->reserved[2] = 0;
	for (uint32_t r = 0; r < nranks; r++)
		record->arrival_ns[r] = CALL_ARRIVAL_NONE;
	call->record = record;
}

static void end_record(struct belay_comm *comm, struct call *call, int status)
{
	struct call_record *record = call->record;
	uint64_t now = clock_stamp_ns();

	record->duration_ns = now > record->start_ns ? now - record->start_ns : 0;
	record->status = (int16_t)status;
	record->arrival_ns[comm->rank] = record->staged_ns;
	trace_call_commit(comm->trace);
}

static void count_call(struct belay_comm *comm, const struct call_record *record)
{
	count_add(&comm->count.calls, 1);
	count_add(&comm->count.bytes,
		  record->count * belay_dtype_bytes((enum belay_dtype)record->dtype));
	count_add(&comm->count.by_path[record->path % 8], 1);
	/* Relaxed: shown by health. */
	atomic_store_explicit(&comm->last_path, record->path, memory_order_relaxed);
	atomic_store_explicit(&comm->last_algorithm, record->algorithm, memory_order_relaxed);
	if (record->seq - comm->first_seq >= WARMUP_CALLS)
		comm_warm_up_is_over(comm);
}

void device_count_record(struct belay_comm *comm, const struct call_record *record)
{
	count_call(comm, record);
	if (record->flags & CALL_LATE)
		count_add(&comm->count.late_calls, 1);
	if (record->flags & CALL_RESCUED)
		count_add(&comm->count.own_rescues, 1);
}

/* Numbers the call: its seq, and its place in the open pass. */
static void begin_call(struct belay_comm *comm, struct call *call)
{
	struct control_rank *own = comm->own;

	call->seq = ++comm->seq;
	call->pass = comm->pass_open ? comm->pass : 0;
	call->index = comm->pass_open ? comm->index++ : 0;
	/* Relaxed: for health and messages; the step words carry the protocol. */
	atomic_store_explicit(&own->seq, call->seq, memory_order_relaxed);
	atomic_store_explicit(&own->in_call, 1, memory_order_relaxed);
	begin_record(comm, call);
}

static int end_call(struct belay_comm *comm, struct call *call, int status)
{
	struct control_rank *own = comm->own;

	if (status == 0) {
		atomic_store_explicit(&own->done_seq, call->seq, memory_order_relaxed);
		count_call(comm, call->record);
	}
	atomic_store_explicit(&own->in_call, 0, memory_order_relaxed);
	end_record(comm, call, status);
	wait_end_of_call(comm);
	return status;
}

static int run_call(struct belay_comm *comm, struct call *call)
{
	path_switch_follow(comm, call);
	begin_call(comm, call);
	call->signature =
		call_signature(call->count, call->dtype, call->op, call->pass, call->index);
	if (faults_armed(&comm->faults))
		call_fault_begun(comm, call);
	return end_call(comm, call, comm->path->allreduce(comm, call));
}

/* ---- on device memory ------------------------------------------------------------------------ */

/* From the bytes and what was agreed at creation alone, captured or not (S1). */
static const struct path *path_by_size(const struct belay_comm *comm, const struct call *call)
{
	bool large = call->count * call->element_bytes > comm->device->turn_bytes;

	return large && comm->path == &symm_path && path_is_agreed(comm, BELAY_PATH_NCCL)
		       ? &nccl_path
		       : comm->path;
}

/* The kernels number the call; comm->seq counts what the program has asked for, captured or not. */
static int enqueue_call(struct belay_comm *comm, struct call *call)
{
	struct enqueue enqueue;
	int status = enqueue_begin(comm, call->stream, &enqueue);

	if (status)
		return status;
	call->captured = enqueue.captured;
	call->ticket = enqueue.ticket;
	call->follows = enqueue.follows;
	status = enqueue_check_pointers(comm, call);
	if (status == 0)
		status = path_by_size(comm, call)->allreduce(comm, call);
	comm->seq += status == 0;
	enqueue_end(comm, &enqueue, status == 0);
	return status;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* One call of a thread that holds the communicator. */
static int make_call(struct belay_comm *comm, struct call *call)
{
	if (__builtin_expect(comm->failed, 0) || comm_decided(comm))
		return comm_fail(comm);
	if (faults_armed(&comm->faults) && call_fault_before(comm, call) == CALL_FAULT_SKIP)
		return 0;
	return comm->device ? enqueue_call(comm, call) : run_call(comm, call);
}

int belay_allreduce(const void *send, void *recv, size_t count, enum belay_dtype dtype,
		    enum belay_op op, struct belay_comm *comm, struct CUstream_st *stream)
{
	struct call call = {
		.send = send,
		.recv = recv,
		.count = count,
		.element_bytes = belay_dtype_bytes(dtype),
		.dtype = (int)dtype,
		.op = (int)op,
		.stream = stream,
	};
	int status = check_arguments(comm, send, recv, count, dtype, op, stream);

	if (status)
		return status;
	status = comm_enter(comm);
	if (status)
		return status;
	status = make_call(comm, &call);
	comm_leave(comm);
	return status;
}
