/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's collectives. An allreduce that belay has goes to belay; all others stay NCCL's and are
 * watched (watch.c).
 *
 *   ncclAllReduce(), ncclAllGather(), ...
 *     takes()               no: straight to the real one. BELAY_DISABLE; NCCL itself is calling;
 *                           there is no twin that is ready; or BELAY_WATCH does not ask for it
 *     carry_out()
 *       group_add_call()    in a group: what follows is at its end
 *       calls_enqueue()     belay's: belay_allreduce() on the program's stream
 *       watch_enqueue()     NCCL's: belay_watch_begin(), the real one, belay_watch_end()
 *
 * Which of these follows from the twin's state, the settings that agree and the arguments, and so
 * is the same on all ranks.
 */
#include "config.h"

#include "runtime/nccl/calls.h"
#include "runtime/nccl/intercept.h"
#include "runtime/nccl/watch.h"

/* Enqueues it, or leaves it to the group's end. Takes over the hold of the twin. */
static ncclResult_t carry_out(const struct group_call *call)
{
	ncclResult_t result = call->refused;

	if (result != ncclSuccess) {
		group_refuse(result);
		twin_put(call->twin);
		return result;
	}
	if (group_is_open() && group_add_call(call))
		return ncclSuccess;
	if (group_is_open())
		result = ncclSystemError;
	else
		result = call->watched ? watch_enqueue(&call, 1, false) : calls_enqueue(call);
	twin_put(call->twin);
	return result;
}

/* Fills what the call is for belay; false: it goes to NCCL unseen. */
static bool translates(struct group_call *call)
{
	/* An allreduce comes without an op of belay's. */
	bool is_allreduce = !call->op;

	if (is_allreduce && calls_translate(call->nccl_dtype, call->nccl_op, call))
		return true;
	if (is_allreduce)
		call->op = calls_allreduce_op(call->nccl_op);
	call->dtype = watch_dtype(call->nccl_dtype);
	call->watched = true;
	return call->dtype && watch_wants(call->twin, call->op);
}

/* True: the call is belay's to carry out, to watch or to refuse, and holds the twin. */
static bool takes(struct group_call *call, ncclComm_t comm, const void *caller)
{
	struct twin *twin = intercept_between(caller) ? twin_get(comm) : NULL;

	if (!twin)
		return false;
	call->twin = twin;
	/* Acquire: `belay` is there. */
	if (atomic_load_explicit(&twin->state, memory_order_acquire) == TWIN_READY) {
		if (translates(call))
			return true;
		twin_goes_to_nccl(twin);
		call->refused = twin_refuses(twin);
	}
	if (call->refused != ncclSuccess)
		return true;
	twin_put(twin);
	return false;
}

EXPORT ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
				  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				  cudaStream_t stream)
{
	struct group_call call = {.send = sendbuff,
				  .recv = recvbuff,
				  .count = count,
				  .nccl_dtype = datatype,
				  .nccl_op = op,
				  .stream = stream};

	if (takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(AllReduce, sendbuff, recvbuff, count, datatype, op, comm, stream);
}

EXPORT ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
				  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
	struct group_call call = {.op = BELAY_ALL_GATHER,
				  .send = sendbuff,
				  .recv = recvbuff,
				  .count = sendcount,
				  .nccl_dtype = datatype,
				  .stream = stream};

	if (takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(AllGather, sendbuff, recvbuff, sendcount, datatype, comm, stream);
}

EXPORT ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
				      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				      cudaStream_t stream)
{
	struct group_call call = {.op = BELAY_REDUCE_SCATTER,
				  .nccl_op = op,
				  .send = sendbuff,
				  .recv = recvbuff,
				  .count = recvcount,
				  .nccl_dtype = datatype,
				  .stream = stream};

	if (takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(ReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
}

EXPORT ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
				  ncclDataType_t datatype, int root, ncclComm_t comm,
				  cudaStream_t stream)
{
	struct group_call call = {.op = BELAY_BROADCAST,
				  .root = root,
				  .send = sendbuff,
				  .recv = recvbuff,
				  .count = count,
				  .nccl_dtype = datatype,
				  .stream = stream};

	if (takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(Broadcast, sendbuff, recvbuff, count, datatype, root, comm, stream);
}

EXPORT ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root,
			      ncclComm_t comm, cudaStream_t stream)
{
	struct group_call call = {.op = BELAY_BROADCAST,
				  .root = root,
				  .send = buff,
				  .recv = buff,
				  .count = count,
				  .nccl_dtype = datatype,
				  .stream = stream};

	if (takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(Bcast, buff, count, datatype, root, comm, stream);
}

EXPORT ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count,
			       ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
			       cudaStream_t stream)
{
	struct group_call call = {.op = BELAY_REDUCE,
				  .nccl_op = op,
				  .root = root,
				  .send = sendbuff,
				  .recv = recvbuff,
				  .count = count,
				  .nccl_dtype = datatype,
				  .stream = stream};

	if (takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(Reduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
}

/* Older headers do not declare these; an NCCL that lacks them says so. */

EXPORT ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
				 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
	struct group_call call = {.op = BELAY_ALL_TO_ALL,
				  .send = sendbuff,
				  .recv = recvbuff,
				  .count = count,
				  .nccl_dtype = datatype,
				  .stream = stream};

	if (real_nccl()->AlltoAll && takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(AlltoAll, sendbuff, recvbuff, count, datatype, comm, stream);
}

EXPORT ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count,
			       ncclDataType_t datatype, int root, ncclComm_t comm,
			       cudaStream_t stream)
{
	struct group_call call = {.op = BELAY_GATHER,
				  .root = root,
				  .send = sendbuff,
				  .recv = recvbuff,
				  .count = count,
				  .nccl_dtype = datatype,
				  .stream = stream};

	if (real_nccl()->Gather && takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(Gather, sendbuff, recvbuff, count, datatype, root, comm, stream);
}

EXPORT ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
				ncclDataType_t datatype, int root, ncclComm_t comm,
				cudaStream_t stream)
{
	struct group_call call = {.op = BELAY_SCATTER,
				  .root = root,
				  .send = sendbuff,
				  .recv = recvbuff,
				  .count = count,
				  .nccl_dtype = datatype,
				  .stream = stream};

	if (real_nccl()->Scatter && takes(&call, comm, __builtin_return_address(0)))
		return carry_out(&call);
	return REAL(Scatter, sendbuff, recvbuff, count, datatype, root, comm, stream);
}
