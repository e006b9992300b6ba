/* SPDX-License-Identifier: Apache-2.0 */
/* See call_fault.h. */
#include "runtime/call_fault.h"

#include "runtime/cuda/device_enqueue.h"
#include "runtime/path/host_path.h"

static enum fault_kind take(struct belay_comm *comm, uint64_t seq, enum fault_point at,
			    uint32_t mask)
{
	return fault_take(&comm->faults, (int)comm->rank, seq, at, mask, NULL);
}

enum fault_kind host_path_push_fault(struct belay_comm *comm, const struct call *call)
{
	const uint32_t mask =
		FAULT_BIT(FAULT_DROP) | FAULT_BIT(FAULT_FLAG) | FAULT_BIT(FAULT_CORRUPT);
	enum fault_kind kind = take(comm, call->seq, FAULT_AT_PUSH, mask);

	return kind ? kind : take(comm, call->seq, FAULT_AT_STAGE, mask);
}

/* Another type of the same size, so that no buffer is overrun. */
static int other_dtype(int dtype)
{
	static const uint8_t other[] = {
		[BELAY_F32] = BELAY_I32, [BELAY_I32] = BELAY_F32,  [BELAY_F64] = BELAY_I64,
		[BELAY_I64] = BELAY_F64, [BELAY_F16] = BELAY_BF16, [BELAY_BF16] = BELAY_F16,
		[BELAY_U8] = BELAY_I8,	 [BELAY_I8] = BELAY_U8,
	};

	return other[dtype];
}

/* A whole call that the program did not make; one element of scratch. */
static void extra_call(struct belay_comm *comm, const struct call *call)
{
	uint64_t scratch = 0;
	struct call extra = {
		.send = &scratch,
		.recv = &scratch,
		.count = 1,
		.element_bytes = call->element_bytes,
		.dtype = call->dtype,
		.op = call->op,
		.seq = ++comm->seq,
		.pass = comm->pass_open ? comm->pass : 0,
		.index = comm->pass_open ? comm->index++ : 0,
		.record = trace_call_slot(comm->trace),
	};

	/* The record is not committed: the program's own call will use the slot. */
	extra.record->start_ns = 0;
	extra.signature = call_signature(1, extra.dtype, extra.op, extra.pass, extra.index);
	(void)comm->path->allreduce(comm, &extra); /* its failure is the next call's too */
}

/* The same on device memory; its failure shows as the next call's. What a watched call does may be
 * none of belay's. */
static void extra_device_call(struct belay_comm *comm, const struct call *call)
{
	void *scratch = comm->device->symm.state->scratch; /* an address only: device memory */
	struct enqueue enqueue;
	struct call extra = {
		.send = scratch,
		.recv = scratch,
		.count = 1,
		.element_bytes = call->details ? sizeof(float) : call->element_bytes,
		.dtype = call->details ? BELAY_F32 : call->dtype,
		.op = call->details ? BELAY_SUM : call->op,
		.stream = call->stream,
	};
	int status = enqueue_begin(comm, call->stream, &enqueue);

	if (status)
		return;
	extra.captured = enqueue.captured;
	extra.ticket = enqueue.ticket;
	status = comm->path->allreduce(comm, &extra);
	comm->seq += status == 0;
	enqueue_end(comm, &enqueue, status == 0);
}

/* Kinds that the kernels do not carry out themselves (device_faults.h). */
static enum call_fault device_fault_before(struct belay_comm *comm, const struct call *call)
{
	enum fault_kind kind = take(comm, comm->seq + 1, FAULT_AT_STAGE,
				    FAULT_BIT(FAULT_SKIP) | FAULT_BIT(FAULT_EXTRA));

	if (kind == FAULT_EXTRA)
		extra_device_call(comm, call);
	if (kind != FAULT_SKIP || comm->skipped_seq == comm->seq + 1)
		return CALL_FAULT_GO_ON;
	comm->skipped_seq = comm->seq + 1;
	return CALL_FAULT_SKIP;
}

#define BEFORE_CALLS                                                                               \
	(FAULT_BIT(FAULT_SKIP) | FAULT_BIT(FAULT_EXTRA) | FAULT_BIT(FAULT_COUNT) |                 \
	 FAULT_BIT(FAULT_DTYPE) | FAULT_BIT(FAULT_OP))

enum call_fault call_fault_before(struct belay_comm *comm, struct call *call)
{
	if (comm->device)
		return device_fault_before(comm, call);
	switch (take(comm, comm->seq + 1, FAULT_AT_STAGE, BEFORE_CALLS)) {
	case FAULT_SKIP:
		/* The call left out takes no number: without this, no later call would be made. */
		if (comm->skipped_seq == comm->seq + 1)
			break;
		comm->skipped_seq = comm->seq + 1;
		return CALL_FAULT_SKIP;
	case FAULT_EXTRA:
		extra_call(comm, call);
		break;
	case FAULT_COUNT:
		call->count -= call->count > 0;
		break;
	case FAULT_DTYPE:
		call->dtype = other_dtype(call->dtype);
		break;
	case FAULT_OP:
		call->op = call->op == BELAY_PROD ? BELAY_SUM : call->op + 1;
		break;
	default:
		break;
	}
	return CALL_FAULT_GO_ON;
}

void call_fault_begun(struct belay_comm *comm, struct call *call)
{
	/* The place of the next call: what a rank that has swapped the two would sign. */
	if (take(comm, call->seq, FAULT_AT_STAGE, FAULT_BIT(FAULT_SWAP)))
		call->signature = call_signature(call->count, call->dtype, call->op, call->pass,
						 call->index + 1);
	fault_act(&comm->faults, (int)comm->rank, call->seq, FAULT_AT_STAGE);
}
