/* SPDX-License-Identifier: Apache-2.0 */
/* See watch.h. */
#include "config.h"

#include "runtime/nccl/watch.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/nccl/calls.h"
#include "runtime/nccl/intercept.h"
#include "runtime/nccl/say.h"

/* Between two questions whether NCCL has enqueued a call. */
#define SETTLE_PAUSE_NS 20000
/* Of operations that NCCL has; others are the program's, whose numbers ranks need not share. */
#define NCCL_OPS 5

/* nccl.h declares them without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* ---- what is recorded ------------------------------------------------------------------------ */

enum belay_dtype watch_dtype(ncclDataType_t dtype)
{
	/* By number: older headers do not name all. */
	static const uint8_t dtypes[] = {
		BELAY_I8,  BELAY_U8,  BELAY_I32, BELAY_U32,  BELAY_I64,	   BELAY_U64,
		BELAY_F16, BELAY_F32, BELAY_F64, BELAY_BF16, BELAY_F8E4M3, BELAY_F8E5M2,
	};

	return (unsigned)dtype < sizeof(dtypes) ? (enum belay_dtype)dtypes[dtype] : 0;
}

bool watch_wants(const struct twin *twin, enum belay_op op)
{
	return twin->watches_all || op <= BELAY_USER_OP;
}

bool watch_joins(const struct group_call *call, const struct group_call *next)
{
	return call->twin == next->twin && call->stream == next->stream && call->watched &&
	       next->watched;
}

static uint64_t mix(uint64_t hash, uint64_t with)
{
	hash = (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* Elements of the larger buffer. */
static uint64_t elements(const struct group_call *call)
{
	bool parts = call->op == BELAY_ALL_GATHER || call->op == BELAY_REDUCE_SCATTER ||
		     call->op == BELAY_ALL_TO_ALL || call->op == BELAY_GATHER ||
		     call->op == BELAY_SCATTER;

	return parts ? call->count * (uint64_t)call->twin->nranks : call->count;
}

static uint64_t reduction(const struct group_call *call)
{
	return (unsigned)call->nccl_op < NCCL_OPS ? (uint64_t)call->nccl_op : NCCL_OPS;
}

/* A segment: calls between one begin and one end. */
struct segment {
	const struct group_call *const *calls;
	size_t ncalls;
	struct belay_watched watched;
	bool made;  /* NCCL's calls are to be made */
	bool begun; /* ... and to be ended */
};

static struct belay_watched describe(const struct group_call *const *calls, size_t ncalls)
{
	struct belay_watched watched = {.size = sizeof(watched),
					.op = calls[0]->op,
					.dtype = calls[0]->dtype,
					.root = calls[0]->root,
					.calls = (unsigned)ncalls};
	uint64_t bytes = 0;

	for (size_t i = 0; i < ncalls; i++) {
		const struct group_call *call = calls[i];

		if (call->dtype != watched.dtype)
			watched.dtype = BELAY_U8;
		bytes += elements(call) * belay_dtype_bytes(call->dtype);
		watched.details = mix(watched.details, reduction(call));
		if (i == 0)
			continue;
		watched.details = mix(watched.details, call->count);
		watched.details = mix(watched.details, (uint64_t)call->op << 32 |
							       (uint64_t)call->dtype << 24 |
							       (unsigned)call->root);
	}
	watched.count = bytes / belay_dtype_bytes(watched.dtype);
	return watched;
}

/* ---- NCCL's part ----------------------------------------------------------------------------- */

static ncclResult_t make_reduction(const struct group_call *c)
{
	switch (c->op) {
	case BELAY_REDUCE_SCATTER:
		return REAL(ReduceScatter, c->send, c->recv, c->count, c->nccl_dtype, c->nccl_op,
			    c->twin->nccl, c->stream);
	case BELAY_REDUCE:
		return REAL(Reduce, c->send, c->recv, c->count, c->nccl_dtype, c->nccl_op, c->root,
			    c->twin->nccl, c->stream);
	default:
		return REAL(AllReduce, c->send, c->recv, c->count, c->nccl_dtype, c->nccl_op,
			    c->twin->nccl, c->stream);
	}
}

static ncclResult_t make(const struct group_call *c)
{
	switch (c->op) {
	case BELAY_ALL_GATHER:
		return REAL(AllGather, c->send, c->recv, c->count, c->nccl_dtype, c->twin->nccl,
			    c->stream);
	case BELAY_BROADCAST:
		return REAL(Broadcast, c->send, c->recv, c->count, c->nccl_dtype, c->root,
			    c->twin->nccl, c->stream);
	case BELAY_ALL_TO_ALL:
		return REAL(AlltoAll, c->send, c->recv, c->count, c->nccl_dtype, c->twin->nccl,
			    c->stream);
	case BELAY_GATHER:
		return REAL(Gather, c->send, c->recv, c->count, c->nccl_dtype, c->root,
			    c->twin->nccl, c->stream);
	case BELAY_SCATTER:
		return REAL(Scatter, c->send, c->recv, c->count, c->nccl_dtype, c->root,
			    c->twin->nccl, c->stream);
	default:
		return make_reduction(c);
	}
}

static const char *function_of(const struct segment *segment)
{
	static const char *const names[] = {
		[BELAY_ALL_GATHER] = "ncclAllGather", [BELAY_REDUCE_SCATTER] = "ncclReduceScatter",
		[BELAY_BROADCAST] = "ncclBroadcast",  [BELAY_REDUCE] = "ncclReduce",
		[BELAY_ALL_TO_ALL] = "ncclAlltoAll",  [BELAY_GATHER] = "ncclGather",
		[BELAY_SCATTER] = "ncclScatter",
	};

	return segment->watched.op >= BELAY_ALL_GATHER ? names[segment->watched.op]
						       : "ncclAllReduce";
}

static bool is_error(ncclResult_t result)
{
	return result != ncclSuccess && result != ncclInProgress;
}

static ncclResult_t make_all(const struct segment *segment)
{
	ncclResult_t result = ncclSuccess;

	for (size_t i = 0; i < segment->ncalls && !is_error(result); i++)
		result = make(segment->calls[i]);
	return result;
}

static ncclResult_t make_group(const struct segment *segments, size_t nsegments)
{
	ncclResult_t result = REAL(GroupStart), end;

	if (is_error(result))
		return result;
	for (size_t i = 0; i < nsegments && !is_error(result); i++)
		if (segments[i].made)
			result = make_all(&segments[i]);
	end = REAL(GroupEnd);
	return is_error(result) ? result : end;
}

static bool has_verdict(const struct twin *twin)
{
	struct belay_verdict verdict = {.size = sizeof(verdict)};

	return belay_comm_verdict(twin->belay, &verdict) == 0;
}

/* A communicator that does not block may not have enqueued its calls yet, and the end must come
 * behind them. Bounded by the call's own deadline, which is a verdict; in a capture nothing runs.
 */
static ncclResult_t settle(const struct segment *segment, ncclResult_t result)
{
	const struct twin *twin = segment->calls[0]->twin;
	uint64_t until_ns = result == ncclInProgress ? calls_now_ns() + twin->patience_ns : 0;
	ncclResult_t asked;

	while (result == ncclInProgress && !has_verdict(twin) && !twin_has_ended(twin) &&
	       calls_now_ns() < until_ns) {
		(void)nanosleep(&(struct timespec){.tv_nsec = SETTLE_PAUSE_NS}, NULL);
		asked = REAL(CommGetAsyncError, twin->nccl, &result);
		if (asked != ncclSuccess)
			result = asked;
	}
	return result;
}

/* ---- belay's part ---------------------------------------------------------------------------- */

static void tell_unwatched(const struct segment *segment)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	/* Relaxed: once is enough, and orders nothing. */
	if (!atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
		say(BELAY_LOG_WARN,
		    "%s is captured on another stream than calls of its communicator before it in "
		    "the same capture: it goes to NCCL unwatched",
		    function_of(segment));
}

static ncclResult_t begin(struct segment *segment)
{
	const struct group_call *first = segment->calls[0];
	struct turn_wait wait = {0};
	int status;

	if (calls_have_ended(first))
		return ncclInvalidArgument;
	twin_goes_to_nccl(first->twin);
	do
		status = belay_watch_begin(first->twin->belay, &segment->watched, first->stream);
	while (status == BELAY_E_BUSY && calls_await_turn(first->twin, &wait));
	segment->begun = status == 0;
	segment->made = segment->begun;
	/* Likewise on all ranks, which capture alike. */
	if (status == BELAY_E_BUSY && wait.no_turn) {
		segment->made = true;
		tell_unwatched(segment);
		return ncclSuccess;
	}
	return calls_result(first->twin, function_of(segment), status);
}

/* What NCCL refuses for its arguments has changed nothing of NCCL's, and is no failure. */
static int failure_of(ncclResult_t result)
{
	return result == ncclInvalidArgument || result == ncclInvalidUsage ||
			       result == ncclInProgress
		       ? 0
		       : (int)result;
}

/* `result` of NCCL's calls. The segment's. */
static ncclResult_t end(const struct segment *segment, ncclResult_t result)
{
	const struct group_call *first = segment->calls[0];
	int failed = failure_of(result);
	int status = belay_watch_end(first->twin->belay, &segment->watched, failed, first->stream);

	/* NCCL's own error says more. */
	if (result != ncclSuccess && result != ncclInProgress)
		return result;
	return calls_result(first->twin, function_of(segment), status);
}

/* ---- all ------------------------------------------------------------------------------------- */

static size_t cut(const struct group_call *const *calls, size_t ncalls, struct segment *segments)
{
	size_t n = 0, first = 0;

	for (size_t i = 1; i <= ncalls; i++) {
		if (i < ncalls && watch_joins(calls[first], calls[i]))
			continue;
		segments[n++] = (struct segment){.calls = calls + first,
						 .ncalls = i - first,
						 .watched = describe(calls + first, i - first)};
		first = i;
	}
	return n;
}

static ncclResult_t enqueue_segments(struct segment *segments, size_t nsegments, bool grouped)
{
	ncclResult_t first = ncclSuccess, result, made;

	for (size_t i = 0; i < nsegments; i++) {
		/* What of the program's group NCCL is still enqueueing. */
		if (grouped)
			(void)settle(&segments[i], ncclInProgress);
		result = begin(&segments[i]);
		first = first == ncclSuccess ? result : first;
	}
	/* While one began another may have been destroyed. */
	for (size_t i = 0; i < nsegments; i++)
		segments[i].made = segments[i].made && !twin_has_ended(segments[i].calls[0]->twin);
	if (nsegments == 1 && !segments[0].made)
		return first;
	made = grouped ? make_group(segments, nsegments) : make_all(segments);
	for (size_t i = 0; i < nsegments; i++) {
		result = made;
		if (segments[i].begun)
			result = end(&segments[i], settle(&segments[i], made));
		first = first == ncclSuccess ? result : first;
	}
	return first;
}

ncclResult_t watch_enqueue(const struct group_call *const *calls, size_t ncalls, bool grouped)
{
	struct segment one, *segments = ncalls > 1 ? calloc(ncalls, sizeof(*segments)) : &one;
	ncclResult_t result;

	if (!segments)
		return ncclSystemError;
	result = enqueue_segments(segments, cut(calls, ncalls, segments), grouped);
	if (segments != &one)
		free(segments);
	return result;
}
