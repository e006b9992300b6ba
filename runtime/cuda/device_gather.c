/* SPDX-License-Identifier: Apache-2.0 */
/* See device_gather.h. */
#include "runtime/cuda/device_gather.h"

#include <assert.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/nccl_worker.h"

/* The time that a gather gets; the ring takes over then. */
#define GATHER_NS_MAX (500 * NS_PER_MS)

static_assert(sizeof(struct gather_tag) == DEVICE_PART_HEAD, "the tag is the head of a part");

static char *part(const struct belay_comm *comm, const struct device_gather *gather, unsigned rank)
{
	return comm->device->parts + rank * gather->stride;
}

static int enqueue_copy(struct belay_comm *comm, void *to, const void *from, size_t bytes,
			const char *what)
{
	struct gpu_error error;

	if (gpu_copy(to, from, bytes, comm->device->stream, &error))
		return device_failed(comm, &error, what);
	return 0;
}

/* Puts the own part together where NCCL would put it: an all-gather in place. */
static int make_part(struct belay_comm *comm, const struct device_gather *gather, bool over)
{
	static const char what[] = "giving a part to a rescue";
	const struct device *device = comm->device;
	char *own = part(comm, gather, comm->rank);
	const char *retained = device->symm.region + comm->rank * device->symm.layout.stride +
			       device->symm.layout.retained +
			       (gather->turn & 1) * device->symm.layout.symm_bytes;

	memcpy(device->bounce, &gather->tag, sizeof(gather->tag));
	if (enqueue_copy(comm, own, device->bounce, sizeof(gather->tag), what))
		return -1;
	if (!over && gather->tag.bytes &&
	    enqueue_copy(comm, own + DEVICE_PART_HEAD, retained, gather->tag.bytes, what))
		return -1;
	/* The gather is on another stream. */
	return device_finish(comm, what);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void device_gather_begin(struct belay_comm *comm, struct device_gather *gather, uint64_t turn,
			 const struct gather_tag *tag, bool over)
{
	struct device *device = comm->device;

	*gather = (struct device_gather){
		.state = GATHER_FAILED,
		.tag = *tag,
		.turn = turn,
		.deadline_ns = clock_now_ns() + least(GATHER_NS_MAX, comm->settings.give_up_ns / 4),
		.stride = DEVICE_PART_HEAD + (tag->bytes + 15) / 16 * 16,
	};
	if (!nccl_worker_can_gather(device->nccl) || gather->stride > device->parts_stride ||
	    make_part(comm, gather, over))
		return;
	nccl_worker_gather(device->nccl, part(comm, gather, comm->rank), gather->stride,
			   device->parts);
	gather->state = GATHER_GATHERING;
}

/* Reads all tags. 0: each is as ours, of its own rank. */
static int check_tags(struct belay_comm *comm, const struct device_gather *gather)
{
	static const char what[] = "reading what a rescue has gathered";
	struct gather_tag wanted = gather->tag, tag;
	char *to = comm->device->bounce;

	if (comm->nranks * sizeof(tag) > comm->device->bounce_bytes)
		return -1;
	for (unsigned r = 0; r < comm->nranks; r++)
		if (enqueue_copy(comm, to + r * sizeof(tag), part(comm, gather, r), sizeof(tag),
				 what))
			return -1;
	if (device_finish(comm, what))
		return -1;
	for (unsigned r = 0; r < comm->nranks; r++) {
		memcpy(&tag, to + r * sizeof(tag), sizeof(tag));
		wanted.rank = r;
		if (memcmp(&tag, &wanted, sizeof(tag)) != 0) {
			cause_add(comm->causes, NULL, 0, (int)r, 0,
				  "the part that a rescue got over NCCL is of another turn");
			return -1;
		}
	}
	return 0;
}

enum gather_state device_gather_look(struct belay_comm *comm, struct device_gather *gather,
				     uint64_t now_ns)
{
	enum nccl_progress progress;

	if (gather->state != GATHER_GATHERING)
		return gather->state;
	progress = nccl_worker_progress(comm->device->nccl, now_ns);
	if (progress == NCCL_DONE) {
		gather->took_ns = nccl_worker_gather_ns(comm->device->nccl);
		gather->state = check_tags(comm, gather) ? GATHER_FAILED : GATHER_READY;
	} else if (progress != NCCL_RUNNING) {
		gather->state = GATHER_FAILED;
	} else if (now_ns >= gather->deadline_ns) {
		nccl_worker_cancel(comm->device->nccl);
		gather->state = GATHER_FAILED;
	}
	return gather->state;
}

int device_gather_write(struct belay_comm *comm, const struct device_gather *gather, uint64_t count,
			int dtype, int op, void *output, uint64_t *ret_digest)
{
	static const char what[] = "reducing what a rescue has gathered";
	struct device *device = comm->device;
	uint64_t *digest = &device->symm.state->scratch[0];
	struct gpu_error error;
	int code;

	if (gpu_fill(digest, 0, sizeof(*digest), device->stream, &error))
		return device_failed(comm, &error, what);
	code = symm_launch_reduce(device->parts + DEVICE_PART_HEAD, gather->stride, comm->nranks,
				  count, dtype, op, output, digest, device->stream);
	if (code) {
		gpu_launch_error(code, what, &error);
		return device_failed(comm, &error, what);
	}
	if (enqueue_copy(comm, &device->answers->digest, digest, sizeof(*digest), what) ||
	    device_finish(comm, what))
		return -1;
	*ret_digest = device->answers->digest;
	return 0;
}

void device_gather_cancel(struct belay_comm *comm, struct device_gather *gather)
{
	if (gather->state == GATHER_GATHERING)
		nccl_worker_cancel(comm->device->nccl);
	gather->state = GATHER_IDLE;
}
