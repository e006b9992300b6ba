/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches calls: works out what a call kernel is given and picks the kernel; and what has to be
 * known of all kernels at creation. See symm_kernels.h.
 */
#include "kernels/symm_call.cuh"
#include "kernels/symm_enqueue.cuh"
#include "kernels/symm_kernel_list.h"

typedef size_t kernel_list(const struct symm_kernel **ret_kernels);

/* By enum symm_algorithm. */
static kernel_list *const call_lists[SYMM_ALGORITHMS] = {
	one_shot_packets_kernels, one_shot_wire_kernels, two_shot_wire_kernels,
	two_shot_pull_kernels, island_kernels};

enum { OTHER_LISTS = 3 };
static kernel_list *const other_lists[OTHER_LISTS] = {symm_service_kernels, symm_gate_kernels,
						      symm_reduce_kernels};

static const uint8_t recorded[SYMM_ALGORITHMS] = {RECORDED_ONESHOT, RECORDED_ONESHOT,
						  RECORDED_TWOSHOT, RECORDED_PULL, RECORDED_ISLAND};

/* ---- all kernels --------------------------------------------------------------------------------
 */

static int load_list(kernel_list *list, const char **ret_what)
{
	const struct symm_kernel *kernels;
	size_t n = list(&kernels);
	struct cudaFuncAttributes attributes;

	for (size_t i = 0; i < n; i++) {
		cudaError_t error = cudaSuccess;

		if (kernels[i].function)
			error = cudaFuncGetAttributes(&attributes, kernels[i].function);
		if (error != cudaSuccess) {
			(void)cudaGetLastError();
			*ret_what = kernels[i].name;
			return (int)error;
		}
	}
	return 0;
}

int symm_kernels_load(const char **ret_what)
{
	int error = 0;

	for (size_t i = 0; i < OTHER_LISTS && error == 0; i++)
		error = load_list(other_lists[i], ret_what);
	for (size_t i = 0; i < SYMM_ALGORITHMS && error == 0; i++)
		error = load_list(call_lists[i], ret_what);
	return error;
}

/* ---- one call -----------------------------------------------------------------------------------
 */

/* The largest power of two, up to `most`, that divides all that is or-ed together in `numbers`. */
static uint32_t common_power(uint64_t numbers, uint32_t most)
{
	numbers |= most;
	return (uint32_t)(numbers & (~numbers + 1));
}

/* How a buffer of the turn may be accessed: packets of 8 and of 16 bytes at once, up to the first
 * that is partial; smaller units elsewhere. */
static uint8_t describe_buffer(const void *buffer, uint64_t bytes, uint32_t *ret_whole)
{
	uint64_t address = (uint64_t)buffer;

	ret_whole[0] = address % 8 ? 0 : (uint32_t)(bytes / 8);
	ret_whole[1] = address % 16 ? 0 : (uint32_t)(bytes / 16);
	return (uint8_t)common_power(address | bytes, 4);
}

static void fill_comm(const struct symm_comm *comm, struct symm_call *call)
{
	call->region = comm->region;
	call->own = comm->region + comm->rank * comm->layout.stride;
	call->state = comm->state;
	call->steps = comm->steps;
	call->descriptions = comm->descriptions;
	call->posts = comm->posts;
	call->orders = comm->orders;
	call->faults = comm->faults;
	call->layout = comm->layout;
	call->late_ns = comm->late_ns;
	call->last_ns = comm->last_ns;
	call->rank = comm->rank;
	call->nranks = comm->nranks;
	call->nfaults = comm->nfaults;
}

/* Packets in the part of each of so many ranks; a rank alone has no half. */
static uint32_t slice_of(uint32_t packets, uint32_t ranks)
{
	return ranks ? (packets + ranks - 1) / ranks : packets;
}

static void fill_turn(const struct symm_launch *launch, struct symm_call *call)
{
	uint64_t bytes = launch->count * symm_element_bytes(launch->dtype);

	call->send = (const char *)launch->send;
	call->recv = (char *)launch->recv;
	call->bytes = bytes;
	call->packets[0] = (uint32_t)((bytes + 7) / 8);
	call->packets[1] = (uint32_t)((bytes + 15) / 16);
	call->slice_packets = slice_of(call->packets[1], call->nranks);
	call->island_packets = slice_of(call->packets[1], call->nranks / 2);
	call->staged = launch->staged;
	call->slowly = launch->staged || call->nfaults != 0;
	call->unit_in = describe_buffer(launch->send, bytes, call->whole_in);
	call->unit_out = describe_buffer(launch->recv, bytes, call->whole_out);
	call->call_count = launch->call_count;
	call->signature_base = launch->signature_base;
	call->ticket = launch->ticket;
	call->turns_after = launch->turns_of_call - 1 - launch->turn_of_call;
	call->first_turn = launch->turn_of_call == 0;
	call->workers = launch->threads;
	call->warps = launch->threads / 32;
	call->programmatic = launch->programmatic;
	call->dtype = launch->dtype;
	call->op = launch->op;
	call->path = launch->path;
	call->algorithm = recorded[launch->algorithm];
	call->flags = launch->flags;
}

/* Variants of a table's row: see symm_kernel_list.h. */
static uint32_t variant_for(uint32_t op, uint32_t nranks)
{
	if (op != HOST_SUM_SUM)
		return 0;
	return nranks == 2 ? 1 : nranks == 4 ? 2 : nranks == 8 ? 3 : 0;
}

/* NULL: there is none, the algorithm does not carry the type. */
static const void *kernel_for(const struct symm_launch *launch, uint32_t nranks)
{
	const struct symm_kernel *kernels;
	const struct symm_kernel *row;
	const void *hot;

	(void)call_lists[launch->algorithm](&kernels);
	row = kernels + launch->dtype * SYMM_VARIANTS;
	hot = row[variant_for(launch->op, nranks)].function;
	return hot ? hot : row[0].function;
}

/* What would make the kernel write where it must not, or wait for ever, is refused here. */
static bool fits(const struct symm_comm *comm, const struct symm_launch *launch)
{
	uint64_t bytes = launch->count * symm_element_bytes(launch->dtype);
	uint64_t most = launch->algorithm == SYMM_ONESHOT_PACKETS ? comm->layout.packets_bytes
			: launch->algorithm == SYMM_ONESHOT_WIRE  ? comm->layout.wire_bytes
								  : comm->layout.symm_bytes;

	if (launch->algorithm == SYMM_ISLAND &&
	    !symm_layout_has_islands(&comm->layout, comm->nranks))
		return false;
	return bytes <= most && launch->blocks >= 1 && launch->blocks <= SYMM_BLOCKS_MAX &&
	       launch->threads >= 32 && launch->threads <= CALL_WORKERS_MAX &&
	       launch->threads % 32 == 0;
}

int symm_launch_call(const struct symm_comm *comm, const struct symm_launch *launch,
		     struct CUstream_st *stream)
{
	struct symm_call call = {};
	void *arguments[] = {&call};
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};
	const void *kernel = NULL;
	cudaError_t error = cudaErrorInvalidValue;

	if (launch->algorithm < SYMM_ALGORITHMS && launch->dtype < HOST_SUM_DTYPES &&
	    fits(comm, launch))
		kernel = kernel_for(launch, comm->nranks);
	if (!kernel)
		goto out;
	fill_comm(comm, &call);
	fill_turn(launch, &call);
	config.gridDim = dim3(launch->blocks);
	config.blockDim = dim3(launch->threads + CALL_SERVICE_THREADS);
	config.stream = stream;
	attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attribute.val.programmaticStreamSerializationAllowed = 1;
	config.attrs = &attribute;
	config.numAttrs = launch->programmatic && launch->follows ? 1 : 0;
	error = cudaLaunchKernelExC(&config, kernel, arguments);
	if (error != cudaSuccess)
		(void)cudaGetLastError();
out:
	return (int)error;
}
