/* SPDX-License-Identifier: Apache-2.0 */
/* Fault injection inside kernels: the communicator's faults as kernels read them. What they cannot
 * do themselves, killing and stopping the process, they ask the watcher for. */
#include "runtime/cuda/device_inside.h"

#include <assert.h>
#include <string.h>

#include "runtime/communicator.h"
#include "runtime/cuda/device_calls.h"

static_assert((int)SYMM_AT_STAGE == (int)FAULT_AT_STAGE &&
		      (int)SYMM_AT_PUSH == (int)FAULT_AT_PUSH &&
		      (int)SYMM_AT_WAIT == (int)FAULT_AT_WAIT &&
		      (int)SYMM_AT_REDUCE == (int)FAULT_AT_REDUCE,
	      "kernels count fault points as the runtime does");

/* 0: not for kernels. A call that differs between the ranks is one that signs differently: the
 * arguments themselves the host knows only at capture. */
static uint32_t kernel_kind(enum fault_kind kind)
{
	switch (kind) {
	case FAULT_DROP:
		return SYMM_FAULT_DROP;
	case FAULT_CORRUPT:
		return SYMM_FAULT_CORRUPT;
	case FAULT_FLAG:
		return SYMM_FAULT_FLAG;
	case FAULT_COUNT:
	case FAULT_DTYPE:
	case FAULT_OP:
	case FAULT_SWAP:
		return SYMM_FAULT_SIGN;
	case FAULT_DELAY:
		return SYMM_FAULT_DELAY;
	case FAULT_KILL:
	case FAULT_STOP:
		return SYMM_FAULT_ASK;
	case FAULT_CUDA_STICKY:
		return SYMM_FAULT_STICKY;
	default:
		return 0;
	}
}

static bool is_for_kernels(const struct fault *fault, int rank)
{
	return (fault->rank < 0 || fault->rank == rank) && kernel_kind(fault->kind) &&
	       fault->at >= FAULT_AT_STAGE && fault->at <= FAULT_AT_REDUCE;
}

uint32_t device_faults_pick(const struct faults *faults, int rank,
			    struct symm_fault list[SYMM_FAULTS_MAX])
{
	uint32_t picked = 0;

	for (uint32_t i = 0; i < faults->count && picked < SYMM_FAULTS_MAX; i++) {
		const struct fault *fault = &faults->list[i];
		if (!is_for_kernels(fault, rank))
			continue;
		list[picked++] = (struct symm_fault){
			.first = fault->first,
			.last = fault->last,
			.step = fault->step,
			.kind = kernel_kind(fault->kind),
			.at = (uint32_t)fault->at,
			.ns = fault->ns,
		};
	}
	return picked;
}

/* Kernels do not tell what they have carried out; what they ask for, fault_act() counts. */
uint32_t device_faults_reached(const struct belay_comm *comm)
{
	uint32_t reached = 0;
	uint64_t seq;

	if (!comm->device || !faults_armed(&comm->faults))
		return 0;
	seq = device_calls_seq(comm, device_staged(comm));
	for (uint32_t i = 0; i < comm->faults.count; i++) {
		const struct fault *fault = &comm->faults.list[i];

		if (is_for_kernels(fault, (int)comm->rank) &&
		    kernel_kind(fault->kind) != SYMM_FAULT_ASK && fault->first <= seq)
			reached |= UINT32_C(1) << i;
	}
	return reached;
}

/* From pinned memory: a copy from ordinary memory may wait for the device. */
int device_faults_load(struct belay_comm *comm, struct device *device, struct gpu_error *ret_error)
{
	struct symm_fault list[SYMM_FAULTS_MAX];
	uint32_t count = device_faults_pick(&comm->faults, (int)comm->rank, list);
	size_t bytes = count * sizeof(list[0]);
	void *pinned = NULL;
	int status;

	if (count == 0)
		return 0;
	status = gpu_host_alloc(bytes, &pinned, ret_error);
	if (status == 0)
		status = gpu_alloc(bytes, &device->fault_list, ret_error);
	if (status == 0) {
		memcpy(pinned, list, bytes);
		status = gpu_copy(device->fault_list, pinned, bytes, device->stream, ret_error);
	}
	if (status == 0)
		status = device_settle(device, ret_error);
	if (pinned)
		gpu_host_free(pinned);
	if (status)
		return status;
	device->symm.faults = device->fault_list;
	device->symm.nfaults = count;
	return 0;
}
