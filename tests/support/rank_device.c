/* SPDX-License-Identifier: Apache-2.0 */
/* See rank_device.h. */
#include "config.h"

#include "tests/support/rank_device.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/host_sum.h"
#include "tests/support/rank_calls.h"

#define GUARD_BYTES 64
#define GUARD	    0xa5
#define RANKS_MAX   16

int device_create(struct rank_seat *seat, int id_index)
{
	if (!seat->config.device)
		seat->config.device = "0";
	if (!seat->config.paths)
		seat->config.paths = "symm,ring";
	return rank_create(seat, id_index);
}

/* ---- inputs --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Any bits; words of all ones, which the full wire takes for "not here", are frequent. */
static void make_input(char *to, size_t bytes, uint64_t number, int rank)
{
	for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
		uint64_t word = mix(number << 32 ^ (uint64_t)rank << 24 ^ i);
		size_t left = bytes - i;

		if (word % 32 == 0)
			word = UINT64_MAX;
		memcpy(to + i, &word, left < sizeof(word) ? left : sizeof(word));
	}
}

/* ---- one call ------------------------------------------------------------------------------- */

/* guard, send, guard, recv, guard; each end of a buffer touches its guard. */
void device_call_prepare(struct rank_seat *seat, struct device_call *call)
{
	size_t half;

	call->bytes = call->count * belay_dtype_bytes((enum belay_dtype)call->dtype);
	half = (GUARD_BYTES + call->send_shift + call->bytes + 63) / 64 * 64;
	call->memory = cpu_gpu_memory(GPU_POINTER_DEVICE, atoi(seat->config.device),
				      2 * half + 3 * GUARD_BYTES + call->recv_shift);
	if (!call->memory)
		abort();
	call->send = call->memory + GUARD_BYTES + call->send_shift;
	call->recv =
		call->in_place ? call->send : call->memory + half + GUARD_BYTES + call->recv_shift;
}

static size_t memory_bytes(const struct device_call *call)
{
	return 2 * ((GUARD_BYTES + call->send_shift + call->bytes + 63) / 64 * 64) +
	       3 * GUARD_BYTES + call->recv_shift;
}

void device_call_fill(struct rank_seat *seat, struct device_call *call, uint64_t number)
{
	call->number = number;
	memset(call->memory, GUARD, memory_bytes(call));
	make_input(call->send, call->bytes, number, seat->rank);
}

bool device_call_enqueue(struct rank_seat *seat, const struct device_call *call,
			 struct CUstream_st *stream)
{
	int status =
		belay_allreduce(call->send, call->recv, call->count, (enum belay_dtype)call->dtype,
				(enum belay_op)call->op, seat->comm, stream);

	if (status && !seat->report->failed)
		seat->report->failed = status;
	return status == 0;
}

/* The whole memory as it must be afterwards. */
static void check_memory(struct rank_seat *seat, const struct device_call *call, const char *inputs,
			 size_t stride)
{
	size_t size = memory_bytes(call);
	char *wanted = malloc(size);
	const void *sources[RANKS_MAX];
	void *destination;

	if (!wanted)
		abort();
	memset(wanted, GUARD, size);
	memcpy(wanted + (call->send - call->memory), inputs + (size_t)seat->rank * stride,
	       call->bytes);
	destination = wanted + (call->recv - call->memory);
	for (int r = 0; r < seat->nranks; r++)
		sources[r] = inputs + (size_t)r * stride;
	(void)host_sum(&(struct host_sum_job){.sources = sources,
					      .nsources = (unsigned)seat->nranks,
					      .destinations = &destination,
					      .ndestinations = 1,
					      .count = call->count,
					      .dtype = call->dtype,
					      .op = call->op});
	for (size_t i = 0; i < size; i++)
		if (call->memory[i] != wanted[i]) {
			rank_complain(seat, __FILE__, __LINE__, "memory differs at byte", (long)i);
			break;
		}
	free(wanted);
}

void device_call_check(struct rank_seat *seat, const struct device_call *call)
{
	size_t stride = (call->bytes + 127) / 64 * 64;
	char *inputs = aligned_alloc(64, (size_t)seat->nranks * stride);

	if (!inputs)
		abort();
	for (int r = 0; r < seat->nranks; r++)
		make_input(inputs + (size_t)r * stride, call->bytes, call->number, r);
	check_memory(seat, call, inputs, stride);
	free(inputs);
	for (size_t i = 0; i < call->bytes; i++)
		seat->report->bits = mix(seat->report->bits + (unsigned char)call->recv[i]);
	seat->report->calls++;
}

void device_call_free(struct device_call *call)
{
	cpu_gpu_memory_free(call->memory);
	call->memory = NULL;
}

bool device_call(struct rank_seat *seat, struct device_call call, struct CUstream_st *stream)
{
	bool well;

	device_call_prepare(seat, &call);
	device_call_fill(seat, &call, ++seat->made);
	well = device_call_enqueue(seat, &call, stream);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
	if (well)
		device_call_check(seat, &call);
	device_call_free(&call);
	return well;
}

struct device_call device_call_random(uint64_t *random, size_t bytes_max)
{
	struct device_call call;
	uint64_t x;
	size_t bytes;

	*random += 0x9e3779b97f4a7c15u;
	x = mix(*random);
	bytes = x % 4 ? (x >> 8) % 700 : (x >> 8) % bytes_max;
	call = (struct device_call){
		.dtype = BELAY_F32 + (int)(x >> 40 & 7),
		.op = BELAY_SUM + (int)(x >> 43 & 3),
		.send_shift = x >> 45 & 1 ? x >> 46 & 15 : 0,
		.recv_shift = x >> 50 & 1 ? x >> 51 & 15 : 0,
		.in_place = x >> 55 & 1,
	};
	call.count = bytes / belay_dtype_bytes((enum belay_dtype)call.dtype);
	return call;
}

void device_expect_nothing_left(struct rank_seat *seat)
{
	struct cpu_gpu_objects left;

	cpu_gpu_end_default_stream();
	cpu_gpu_count(&left);
	RANK_EXPECT(seat, left.allocations == 0);
	RANK_EXPECT(seat, left.regions == 0 && left.spaces == 0 && left.mappings == 0);
	RANK_EXPECT(seat, left.registrations == 0);
	RANK_EXPECT(seat, left.streams == 0);
}
