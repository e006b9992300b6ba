/* SPDX-License-Identifier: Apache-2.0 */
/* See device_memory.h and device.h. */
#include "runtime/cuda/device_memory.h"

#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda/block_words.h"
#include "runtime/cuda/device.h"

/* Far above what any copy of a turn takes; below it the watcher's heartbeat does not go stale. */
#define COPY_NS_MAX (500 * NS_PER_MS)

int device_failed(struct belay_comm *comm, const struct gpu_error *error, const char *what)
{
	if (error->sticky)
		device_fault(comm, error, what);
	else
		cause_add(comm->causes, NULL, 0, (int)comm->rank, 0, "%s: %s: %s (%d)", what,
			  error->call, error->text, error->code);
	return -1;
}

int device_finish(struct belay_comm *comm, const char *what)
{
	struct gpu_error error;
	int done = gpu_stream_wait(comm->device->stream, clock_now_ns() + COPY_NS_MAX, &error);

	if (done == 1)
		return 0;
	if (done < 0)
		return device_failed(comm, &error, what);
	cause_add(comm->causes, NULL, 0, (int)comm->rank, 0, "%s: not done on the GPU within %d ms",
		  what, (int)(COPY_NS_MAX / NS_PER_MS));
	return -1;
}

bool device_is_quiet(struct belay_comm *comm)
{
	struct gpu_error error = {0};
	int done = gpu_stream_done(comm->device->stream, &error);

	return done == 1 || (done < 0 && error.sticky);
}

static int copy(struct belay_comm *comm, void *to, const void *from, size_t bytes, const char *what)
{
	struct gpu_error error;

	if (gpu_copy(to, from, bytes, comm->device->stream, &error))
		return device_failed(comm, &error, what);
	return 0;
}

static int fill(struct belay_comm *comm, void *memory, size_t bytes, const char *what)
{
	struct gpu_error error;

	if (gpu_fill(memory, 0, bytes, comm->device->stream, &error))
		return device_failed(comm, &error, what);
	return 0;
}

static char *region_of(const struct belay_comm *comm, unsigned rank)
{
	return comm->device->symm.region + rank * comm->device->symm.layout.stride;
}

/* ---- retained inputs ------------------------------------------------------------------------- */

bool device_input_is_whole(struct belay_comm *comm, unsigned rank, uint64_t turn)
{
	static const char what[] = "reading block words";
	const struct device *device = comm->device;
	uint64_t words[SYMM_BLOCKS_MAX];
	const char *from = region_of(comm, rank) + device->symm.layout.block_staged +
			   (turn & 1) * sizeof(words);

	if ((!device->shared && rank != comm->rank) || sizeof(words) > device->bounce_bytes)
		return false;
	if (copy(comm, device->bounce, from, sizeof(words), what) || device_finish(comm, what))
		return false;
	memcpy(words, device->bounce, sizeof(words));
	return block_words_whole(words, turn);
}

int device_read_retained(struct belay_comm *comm, unsigned rank, uint64_t turn, size_t offset,
			 size_t bytes, void *to)
{
	static const char what[] = "reading a retained input";
	const struct device *device = comm->device;
	const char *from = region_of(comm, rank) + device->symm.layout.retained +
			   (turn & 1) * device->symm.layout.symm_bytes + offset;

	if (!device->shared && rank != comm->rank)
		return -1;
	if (rank != comm->rank && offset == 0 && !device_input_is_whole(comm, rank, turn))
		return -1;
	for (size_t n; bytes > 0; bytes -= n, from += n, to = (char *)to + n) {
		n = bytes < device->bounce_bytes ? bytes : device->bounce_bytes;
		if (copy(comm, device->bounce, from, n, what) || device_finish(comm, what))
			return -1;
		memcpy(to, device->bounce, n);
	}
	return 0;
}

/* ---- output ---------------------------------------------------------------------------------- */

int device_write_output(struct belay_comm *comm, void *output, size_t offset, const void *from,
			size_t bytes)
{
	static const char what[] = "writing the output of a rescue";
	const struct device *device = comm->device;
	char *to = (char *)output + offset;

	for (size_t n; bytes > 0; bytes -= n, to += n, from = (const char *)from + n) {
		n = bytes < device->bounce_bytes ? bytes : device->bounce_bytes;
		memcpy(device->bounce, from, n);
		if (copy(comm, to, device->bounce, n, what) || device_finish(comm, what))
			return -1;
	}
	return 0;
}

/* ---- mode, and what R5 asks for -------------------------------------------------------------- */

static int clear_parity(struct belay_comm *comm, uint64_t parity)
{
	static const char what[] = "clearing the slots of an abandoned turn";
	const struct symm_layout *layout = &comm->device->symm.layout;
	const size_t flags = sizeof(uint64_t) * SYMM_BLOCKS_MAX * SYMM_RANKS_MAX;
	const size_t packets = comm->nranks * 2 * layout->packets_bytes;
	char *own = region_of(comm, comm->rank);

	if (fill(comm, own + layout->headers + parity * flags, flags, what) ||
	    fill(comm, own + layout->results_ready + parity * flags, flags, what))
		return -1;
	return fill(comm, own + layout->packets + parity * packets, packets, what);
}

int device_prepare_rescue(struct belay_comm *comm, uint64_t turn)
{
	static const char what[] = "marking an abandoned turn";
	const struct device *device = comm->device;
	uint64_t parity = turn & 1;

	device->answers->mode.dirty[parity] = turn;
	if (copy(comm, &device->symm.state->mode.dirty[parity],
		 &device->answers->mode.dirty[parity], sizeof(uint64_t), what))
		return -1;
	if (device->shared && clear_parity(comm, parity))
		return -1;
	return device_finish(comm, what);
}

int device_write_hasty(struct belay_comm *comm, bool hasty)
{
	static const char what[] = "telling the kernels of the breaker";
	const struct device *device = comm->device;

	device->answers->mode.hasty = hasty;
	if (copy(comm, &device->symm.state->mode.hasty, &device->answers->mode.hasty,
		 sizeof(uint64_t), what))
		return -1;
	return device_finish(comm, what);
}
