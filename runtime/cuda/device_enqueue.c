/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueueing by the calling thread; see device_enqueue.h. */
#include "runtime/cuda/device_enqueue.h"

/* ---- one stream at a time -------------------------------------------------------------------- */

/* cudaStreamLegacy and cudaStreamPerThread: handles that are names. */
#define STREAM_LEGACY	  1u
#define STREAM_PER_THREAD 2u

/* What tells this stream from others: its handle, but the legacy default stream has two, and each
 * thread's default stream has the same one. */
static const void *identity_of(const struct CUstream_st *stream)
{
	static _Thread_local char per_thread;

	if ((uintptr_t)stream == STREAM_LEGACY)
		return NULL;
	return (uintptr_t)stream == STREAM_PER_THREAD ? (const void *)&per_thread : stream;
}

/* NULL: nothing has been captured there. */
static struct device_captured *captured_in(struct device *device, uint64_t capture)
{
	for (unsigned i = 0; i < DEVICE_CAPTURES; i++)
		if (device->captured[i].id == capture)
			return &device->captured[i];
	return NULL;
}

/* A capture runs nothing, but two streams in one capture may become two branches of a graph: unless
 * the graph is told that what comes on this one follows the last launch. */
static bool capture_is_free(struct device *device, const struct enqueue *enqueue)
{
	const struct device_captured *last = captured_in(device, enqueue->capture);

	return !last || last->stream == enqueue->stream ||
	       (last->tail && gpu_capture_after(enqueue->handle, last->tail) == 0);
}

/* Eager work of another stream is over once its last ticket has ended. */
static bool stream_is_free(const struct belay_comm *comm, const struct enqueue *enqueue)
{
	struct device *device = comm->device;

	if (enqueue->captured)
		return capture_is_free(device, enqueue);
	return device->eager_stream == enqueue->stream ||
	       device_ended(comm, device_tickets(device));
}

/* Nothing has been captured between the last launch and this one. */
static bool follows_own(struct device *device, const struct enqueue *enqueue)
{
	const struct device_captured *last =
		enqueue->captured ? captured_in(device, enqueue->capture) : NULL;

	return last && last->tail && last->tail == gpu_capture_tail(enqueue->handle);
}

/* Ids of captures are never 0. */
static void note_captured(struct device *device, const struct enqueue *enqueue)
{
	struct device_captured *last = captured_in(device, enqueue->capture);

	if (!last)
		last = &device->captured[0];
	if (last->id != enqueue->capture)
		for (unsigned i = 1; i < DEVICE_CAPTURES; i++)
			if (device->captured[i].when < last->when)
				last = &device->captured[i];
	*last = (struct device_captured){.id = enqueue->capture,
					 .stream = enqueue->stream,
					 .tail = gpu_capture_tail(enqueue->handle),
					 .when = ++device->captures};
}

static int look_at_stream(struct belay_comm *comm, struct CUstream_st *stream,
			  struct enqueue *enqueue)
{
	enum gpu_capture capture = gpu_stream_capture(stream, &enqueue->capture);

	if (capture == GPU_CAPTURE_BROKEN) {
		cause_add(
			comm->causes, NULL, 0, (int)comm->rank, 0,
			"nothing can be enqueued on stream %p: its capture is broken, or it is the "
			"legacy default stream while another stream captures",
			(void *)stream);
		return BELAY_E_STATE;
	}
	enqueue->handle = stream;
	enqueue->stream = identity_of(stream);
	enqueue->captured = capture == GPU_CAPTURING;
	enqueue->ticket = enqueue->captured ? 0 : device_tickets(comm->device) + 1;
	if (!stream_is_free(comm, enqueue))
		return BELAY_E_BUSY;
	enqueue->follows = follows_own(comm->device, enqueue);
	return 0;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static int cuda_failed(struct belay_comm *comm, bool begun, const struct gpu_error *error,
		       const char *what)
{
	if (error->sticky || begun) {
		device_fault(comm, error, what);
		return BELAY_E_GPU_FAULT;
	}
	cause_add(comm->causes, NULL, 0, (int)comm->rank, 0, "%s: %s: %s (%d)", what, error->call,
		  error->text, error->code);
	return BELAY_E_SYSTEM;
}

int enqueue_failed(struct belay_comm *comm, bool begun, int code, const char *what)
{
	struct gpu_error error;

	gpu_launch_error(code, what, &error);
	return cuda_failed(comm, begun, &error, what);
}

/* ---- before and after ------------------------------------------------------------------------ */

static int inside_watched_call(struct belay_comm *comm)
{
	cause_add(comm->causes, NULL, 0, (int)comm->rank, comm->seq,
		  "a watched call is open: expected belay_watch_end() before anything else");
	return BELAY_E_STATE;
}

int enqueue_begin(struct belay_comm *comm, struct CUstream_st *stream, struct enqueue *ret_enqueue)
{
	struct enqueue enqueue = {0};
	struct gpu_error error;
	int status;

	if (__builtin_expect(comm->device->watched.open, 0))
		return inside_watched_call(comm);
	if (gpu_use(comm->device->ordinal, &enqueue.before, &error))
		return cuda_failed(comm, false, &error, "taking the device");
	status = look_at_stream(comm, stream, &enqueue);
	if (status) {
		gpu_restore(enqueue.before);
		return status;
	}
	*ret_enqueue = enqueue;
	return 0;
}

void enqueue_end(struct belay_comm *comm, const struct enqueue *enqueue, bool launched)
{
	struct device *device = comm->device;

	if (launched && enqueue->captured) {
		note_captured(device, enqueue);
	} else if (launched) {
		device->eager_stream = enqueue->stream;
		atomic_store_explicit(&device->tickets, enqueue->ticket, memory_order_relaxed);
	}
	gpu_restore(enqueue->before);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static const char *kind_text(enum gpu_pointer kind)
{
	switch (kind) {
	case GPU_POINTER_OTHER_DEVICE:
		return "memory of another device";
	case GPU_POINTER_MANAGED:
		return "managed memory";
	case GPU_POINTER_HOST:
		return "pinned host memory";
	default:
		return "ordinary host memory, or no memory";
	}
}

static int check_pointer(struct belay_comm *comm, const char *name, const void *pointer)
{
	enum gpu_pointer kind = gpu_pointer_kind(pointer, comm->device->ordinal);

	if (__builtin_expect(kind == GPU_POINTER_DEVICE, 1))
		return 0;
	cause_add(comm->causes, NULL, 0, (int)comm->rank, 0,
		  "belay_allreduce(): %s (%p) is %s: expected memory of device %d, which this "
		  "communicator is for",
		  name, pointer, kind_text(kind), comm->device->ordinal);
	return BELAY_E_ARGUMENT;
}

int enqueue_check_pointers(struct belay_comm *comm, const struct call *call)
{
	int status;

	if (call->count == 0)
		return 0; /* nothing is read or written */
	status = check_pointer(comm, "send", call->send);
	if (status == 0 && call->recv != call->send)
		status = check_pointer(comm, "recv", call->recv);
	return status;
}

/* ---- launches -------------------------------------------------------------------------------- */

static uint64_t signature_base(const struct call *call)
{
	uint64_t base = call_signature_base(call->count, call->dtype, call->op);

	return call->details ? symm_mix(base, call->details) : base;
}

static uint16_t flags_of(const struct call *call)
{
	return (uint16_t)(call->flags |
			  (call->send && call->send == call->recv ? CALL_IN_PLACE : 0) |
			  (call->captured ? CALL_GRAPH : 0));
}

void enqueue_describe(const struct belay_comm *comm, const struct call *call, enum belay_path path,
		      struct symm_launch *ret_launch)
{
	(void)comm;
	*ret_launch = (struct symm_launch){
		.send = call->send,
		.recv = call->recv,
		.count = call->count,
		.call_count = call->count,
		.signature_base = signature_base(call),
		.ticket = call->ticket,
		.turns_of_call = 1,
		.dtype = (uint8_t)call->dtype,
		.op = (uint8_t)call->op,
		.path = (uint8_t)path,
		.flags = flags_of(call),
	};
}

/* The part of the call that turn `i` carries, and its shape: from its bytes and the agreed table
 * alone (S1). */
static void describe_turn(const struct belay_comm *comm, const struct call *call, uint64_t i,
			  struct symm_launch *launch)
{
	const struct device *device = comm->device;
	uint64_t begin = i * device->turn_bytes;
	uint64_t bytes = call->count * call->element_bytes - begin;
	struct launch_shape shape;

	if (bytes > device->turn_bytes)
		bytes = device->turn_bytes;
	shape = launch_shape_of(&device->table, &device->symm.layout, comm->nranks, bytes,
				launch->dtype);
	if (begin > 0) {
		launch->send = (const char *)call->send + begin;
		launch->recv = (char *)call->recv + begin;
	}
	launch->count = bytes / call->element_bytes;
	launch->turn_of_call = (uint32_t)i;
	launch->ticket = i + 1 == launch->turns_of_call ? call->ticket : 0;
	launch->algorithm = shape.algorithm;
	launch->blocks = shape.blocks;
	launch->threads = shape.threads;
	launch->programmatic = shape.programmatic;
	launch->follows = i > 0 || call->follows;
	launch->staged = shape.staged;
}

int enqueue_turns(struct belay_comm *comm, const struct call *call, enum belay_path path,
		  enqueue_launch launch_one, const char *what)
{
	const struct device *device = comm->device;
	uint64_t turns = call_turns(call->count * call->element_bytes, device->turn_bytes);
	struct symm_launch launch;

	enqueue_describe(comm, call, path, &launch);
	launch.turns_of_call = (uint32_t)turns;
	if (turns > 1)
		launch.flags |= CALL_CHUNKED;
	for (uint64_t i = 0; i < turns; i++) {
		int code;

		describe_turn(comm, call, i, &launch);
		code = launch_one(&device->symm, &launch, call->stream);
		if (__builtin_expect(code != 0, 0))
			return enqueue_failed(comm, i > 0, code, what);
	}
	return 0;
}
