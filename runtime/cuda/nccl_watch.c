/* SPDX-License-Identifier: Apache-2.0 */
/* See nccl_watch.h. */
#include "runtime/cuda/nccl_watch.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nccl_worker.h"
#include "runtime/cuda/posted_words.h"

/* How often NCCL is asked for errors while a call runs. */
#define LOOK_NS (20 * NS_PER_MS)
/* Over the hard deadline: a gate that waits for a late rank reaches that too, and whoever waits in
 * it can name the rank. */
#define MARGIN_NS (200 * NS_PER_MS)

/* The own turn that is on NCCL and not done; 0: none. */
static uint64_t open_turn(const struct belay_comm *comm)
{
	/* The description of the turn is there. */
	uint64_t turn = device_staged(comm);

	if (turn <= device_done(comm, comm->rank) ||
	    comm->own->call[turn & 1].path != BELAY_PATH_NCCL)
		return 0;
	return turn;
}

static void complain(struct belay_comm *comm, uint64_t turn, const char *why, uint64_t now_ns)
{
	struct nccl_watch *watch = &comm->device->nccl_watch;
	uint64_t seq = comm->own->call[turn & 1].seq;

	if (watch->text[0])
		return;
	snprintf(watch->text, sizeof(watch->text), "%s [rank %s, seq %" PRIu64 "]", why,
		 comm_rank_words(comm, (int)comm->rank).text, seq);
	cause_add(comm->causes, NULL, 0, (int)comm->rank, seq, "a call on NCCL failed: %s", why);
	(void)mailbox_complain(&comm->mailbox, COMPLAINT_NCCL, turn, now_ns);
}

/* By the turn's description, which is for people here (P2). */
static const char *function_of(const struct belay_comm *comm, uint64_t turn)
{
	switch (comm->own->call[turn & 1].op) {
	case BELAY_ALL_GATHER:
		return "ncclAllGather";
	case BELAY_REDUCE_SCATTER:
		return "ncclReduceScatter";
	case BELAY_BROADCAST:
		return "ncclBroadcast";
	case BELAY_REDUCE:
		return "ncclReduce";
	case BELAY_ALL_TO_ALL:
		return "ncclAlltoAll";
	case BELAY_GATHER:
		return "ncclGather";
	case BELAY_SCATTER:
		return "ncclScatter";
	default:
		return "ncclAllReduce";
	}
}

/* Of ncclResult_t, for people; the numbers are NCCL's for good. */
static const char *result_name(int result)
{
	static const char *const names[] = {
		"ncclSuccess",	     "ncclUnhandledCudaError", "ncclSystemError",
		"ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
		"ncclRemoteError",   "ncclInProgress",
	};

	return (unsigned)result < sizeof(names) / sizeof(names[0]) ? names[result] : "an error";
}

/* An error of belay's own communicators, or what the program has told of its own. */
static bool has_failed(struct belay_comm *comm, uint64_t turn, char *ret_why, size_t size)
{
	struct device *device = comm->device;
	int failed = atomic_load_explicit(&device->watched_failed, memory_order_relaxed);
	int error = atomic_load_explicit(&device->watched_error, memory_order_relaxed);

	if (device->nccl && nccl_worker_calls_error(device->nccl, ret_why, size))
		return true;
	if (failed)
		snprintf(ret_why, size, "%s returned %s (%d) to the program",
			 function_of(comm, turn), result_name(failed), failed);
	else if (error)
		snprintf(ret_why, size,
			 "ncclCommGetAsyncError told the program of %s (%d) while %s ran",
			 result_name(error), error, function_of(comm, turn));
	return failed || error;
}

static void look_at(struct belay_comm *comm, uint64_t turn, uint64_t now_ns)
{
	struct nccl_watch *watch = &comm->device->nccl_watch;
	uint64_t patience = comm_give_up_ns(comm) + MARGIN_NS;
	char why[240];

	if (watch->turn != turn) {
		watch->turn = turn;
		watch->since_ns = now_ns;
	}
	if (has_failed(comm, turn, why, sizeof(why))) {
		complain(comm, turn, why, now_ns);
	} else if (now_ns - watch->since_ns >= patience) {
		snprintf(why, sizeof(why),
			 "%s did not end within the hard deadline of %" PRIu64 " ms",
			 function_of(comm, turn), comm_give_up_ns(comm) / NS_PER_MS);
		complain(comm, turn, why, now_ns);
	}
}

/* Only behind the order to leave without a result: the end kernel behind an aborted ncclAllReduce
 * would take what that has left for one. */
static void abort_if_failed(struct belay_comm *comm)
{
	if (comm->device->nccl && post_load(&comm->control.device[comm->rank].orders.fail_from))
		nccl_worker_abort_calls(comm->device->nccl);
}

uint64_t nccl_watch_calls(struct belay_comm *comm, uint64_t now_ns)
{
	uint64_t turn;

	if (comm_decided(comm)) {
		abort_if_failed(comm);
		return UINT64_MAX;
	}
	turn = open_turn(comm);
	if (!turn) {
		comm->device->nccl_watch.turn = 0;
		return UINT64_MAX;
	}
	look_at(comm, turn, now_ns);
	return now_ns + LOOK_NS;
}

const char *nccl_watch_failure(const struct belay_comm *comm)
{
	const struct device *device = comm->device;

	return device && device->nccl_watch.text[0] ? device->nccl_watch.text : NULL;
}
