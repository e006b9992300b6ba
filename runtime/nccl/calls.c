/* SPDX-License-Identifier: Apache-2.0 */
/* See calls.h. */
#include "config.h"

#include "runtime/nccl/calls.h"

#include <stdlib.h>
#include <time.h>

#include "runtime/nccl/last_error.h"

/* Between two tries while another stream is at work. */
#define TURN_PAUSE_NS 20000
/* Attempts, until a communicator at rest is found to be busy by a capture. */
#define TRIES_AT_REST 100

/* ---- types and operations -------------------------------------------------------------------- */

/* 0: belay has none. Unsigned sums and products are those of signed integers bit for bit. */
static enum belay_dtype dtype_of(ncclDataType_t dtype, bool wraps)
{
	switch (dtype) {
	case ncclInt8:
		return BELAY_I8;
	case ncclUint8:
		return BELAY_U8;
	case ncclInt32:
		return BELAY_I32;
	case ncclUint32:
		return wraps ? BELAY_I32 : 0;
	case ncclInt64:
		return BELAY_I64;
	case ncclUint64:
		return wraps ? BELAY_I64 : 0;
	case ncclFloat16:
		return BELAY_F16;
	case ncclFloat32:
		return BELAY_F32;
	case ncclFloat64:
		return BELAY_F64;
	case ncclBfloat16:
		return BELAY_BF16;
	default:
		return 0;
	}
}

/* 0: belay has none: averages, and operations that the program has made. */
static enum belay_op op_of(ncclRedOp_t op)
{
	switch (op) {
	case ncclSum:
		return BELAY_SUM;
	case ncclProd:
		return BELAY_PROD;
	case ncclMax:
		return BELAY_MAX;
	case ncclMin:
		return BELAY_MIN;
	default:
		return 0;
	}
}

enum belay_op calls_allreduce_op(ncclRedOp_t op)
{
	enum belay_op ours = op_of(op);

	if (ours)
		return ours;
	return op == ncclAvg ? BELAY_AVG : BELAY_USER_OP;
}

bool calls_translate(ncclDataType_t dtype, ncclRedOp_t op, struct group_call *call)
{
	if (call->twin->watches)
		return false;
	call->op = op_of(op);
	call->dtype = dtype_of(dtype, op == ncclSum || op == ncclProd);
	return call->op && call->dtype;
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

uint64_t calls_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int allreduce(const struct group_call *call)
{
	return belay_allreduce(call->send, call->recv, call->count, call->dtype, call->op,
			       call->twin->belay, call->stream);
}

bool calls_await_turn(const struct twin *twin, struct turn_wait *wait)
{
	if (!wait->until_ns)
		wait->until_ns = calls_now_ns() + twin->patience_ns;
	wait->no_turn = wait->at_rest >= TRIES_AT_REST;
	if (wait->no_turn || calls_now_ns() >= wait->until_ns || twin_has_ended(twin))
		return false;
	(void)nanosleep(&(struct timespec){.tv_nsec = TURN_PAUSE_NS}, NULL);
	/* Before the next attempt: what is at rest now does not refuse that for its turn. */
	wait->at_rest += !twin_is_busy(twin);
	return true;
}

static ncclResult_t result_of(int status)
{
	switch (belay_status_class(status)) {
	case BELAY_CLASS_DONE:
		return ncclSuccess;
	case BELAY_CLASS_CALLER:
		return status == BELAY_E_ARGUMENT ? ncclInvalidArgument : ncclInvalidUsage;
	case BELAY_CLASS_LOCAL:
		return ncclSystemError;
	default:
		return ncclRemoteError;
	}
}

/* The newest cause is the last line. */
static void tell(const struct twin *twin, const char *function, int status)
{
	char causes[LAST_ERROR_BYTES - 512] = "";

	if (belay_comm_causes(twin->belay, causes, sizeof(causes), NULL))
		causes[0] = '\0';
	last_error_set("belay: communicator %.8s: %s: %s: %s\n%s", belay_comm_id(twin->belay),
		       function, belay_status_name(status), belay_status_text(status), causes);
}

ncclResult_t calls_result(const struct twin *twin, const char *function, int status)
{
	ncclResult_t verdict;

	if (status == 0)
		return ncclSuccess;
	verdict = belay_status_class(status) == BELAY_CLASS_VERDICT ? twin_verdict(twin)
								    : ncclSuccess;
	if (verdict != ncclSuccess)
		return verdict;
	tell(twin, function, status);
	return result_of(status);
}

bool calls_have_ended(const struct group_call *call)
{
	bool ended = twin_has_ended(call->twin);

	if (ended)
		last_error_set("belay: a call in a group whose communicator another thread has "
			       "destroyed");
	return ended;
}

ncclResult_t calls_enqueue(const struct group_call *call)
{
	struct turn_wait wait = {0};
	int status;

	if (calls_have_ended(call))
		return ncclInvalidArgument;
	do
		status = allreduce(call);
	while (status == BELAY_E_BUSY && calls_await_turn(call->twin, &wait));
	return calls_result(call->twin, "ncclAllReduce", status);
}
