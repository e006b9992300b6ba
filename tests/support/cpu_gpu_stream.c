/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, captures and graphs of the GPU played on the CPU. See cpu_gpu.h. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/cpu_gpu_inside.h"

#define NS_PER_S      UINT64_C(1000000000)
#define YIELDS	      40     /* of a stream whose kernel waits, before it sleeps */
#define SLEEP_MOST_NS 200000 /* two cores carry eight ranks */
#define SYNC_MOST_NS  (60 * NS_PER_S)
#define FREE_MOST_S   10
/* Kernels need a tenth of it. Many of the usual size are too much for what the C library keeps of
 * stacks, and a forked child in which it lets go of some must not exit beside LTTng. */
#define STACK_BYTES (1 << 20)

/* One enqueued operation, or one recorded in a graph. */
struct operation {
	struct operation *next;
	const struct cpu_gpu_kernel *kernel;
	alignas(16) unsigned char arguments[];
};

struct CUstream_st {
	struct CUstream_st *next; /* in the list of all */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct operation *first, **last;
	uint64_t enqueued, finished;
	bool closing, legacy;
	/* While it captures. */
	struct cpu_gpu_graph *graph;
	enum cpu_gpu_capture mode;
	pthread_t capturer;
	uint64_t capture_id;
	/* Where the node behind the last one is to be linked, which tells nodes apart; NULL: there
	 * is none, or what comes next follows several. */
	const void *tail;
	bool broken;
};

struct cpu_gpu_graph {
	struct operation *first, **last;
	size_t nodes;
};

static struct {
	pthread_mutex_t lock; /* before the lock of a stream */
	struct CUstream_st *list, *legacy;
	unsigned count, capturing;
	uint64_t captures;
	const char *broken_by;
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool background;
static _Thread_local int relaxed; /* gpu_capture_relax() */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- the thread of a stream ----------------------------------------------------------------- */

/* Longer the longer nothing happens. */
static void pause_a_little(unsigned *idle)
{
	struct timespec nap = {.tv_nsec = 20000};

	if (++*idle <= YIELDS) {
		(void)sched_yield(); /* cannot fail on Linux */
		return;
	}
	nap.tv_nsec += (long)(*idle - YIELDS) * 10000;
	if (nap.tv_nsec > SLEEP_MOST_NS)
		nap.tv_nsec = SLEEP_MOST_NS;
	(void)nanosleep(&nap, NULL); /* a shorter nap does as well */
}

/* As if the kernel had no processor, for a test's sake. More often while it waits: what it waits
 * for comes meanwhile, and is not seen. */
static void stall(uint64_t *random, enum cpu_gpu_step step)
{
	uint64_t most = cpu_gpu_stall_ns();

	if (most && cpu_gpu_random(random) % (step == CPU_GPU_WAITING ? 4 : 32) == 0)
		(void)nanosleep(
			&(struct timespec){.tv_nsec = (long)(cpu_gpu_random(random) % most)}, NULL);
}

static void carry_out(const struct operation *operation, uint64_t *random)
{
	const struct cpu_gpu_kernel *kernel = operation->kernel;
	void *run = calloc(1, kernel->run_bytes + 1);
	enum cpu_gpu_step step = CPU_GPU_BUSY;
	unsigned idle = 0;

	if (!run)
		abort();
	while (step != CPU_GPU_ENDED && !cpu_gpu_lost()) {
		stall(random, step);
		step = kernel->step(operation->arguments, run);
		if (step == CPU_GPU_WAITING)
			pause_a_little(&idle);
		else
			idle = 0;
	}
	if (kernel->end)
		kernel->end(run);
	free(run);
}

static struct operation *take_first_locked(struct CUstream_st *stream)
{
	struct operation *operation = stream->first;

	if (!operation)
		return NULL;
	stream->first = operation->next;
	if (!stream->first)
		stream->last = &stream->first;
	return operation;
}

static void *work(void *argument)
{
	struct CUstream_st *stream = argument;
	struct operation *operation;
	uint64_t random = cpu_gpu_seed() ^ (uint64_t)getpid() << 32 ^ (uintptr_t)stream;

	pthread_mutex_lock(&stream->lock);
	for (;;) {
		operation = take_first_locked(stream);
		if (!operation && stream->closing)
			break;
		if (!operation) {
			pthread_cond_wait(&stream->changed, &stream->lock);
			continue;
		}
		pthread_mutex_unlock(&stream->lock);
		carry_out(operation, &random);
		free(operation);
		pthread_mutex_lock(&stream->lock);
		stream->finished++;
		pthread_cond_broadcast(&stream->changed);
	}
	pthread_mutex_unlock(&stream->lock);
	return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

static int start_thread(struct CUstream_st *stream)
{
	pthread_attr_t attributes;
	int code = pthread_attr_init(&attributes);

	if (code)
		return code;
	code = pthread_attr_setstacksize(&attributes, STACK_BYTES);
	if (code == 0)
		code = pthread_create(&stream->thread, &attributes, work, stream);
	(void)pthread_attr_destroy(&attributes);
	return code;
}

static struct CUstream_st *create_locked(void)
{
	struct CUstream_st *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->last = &stream->first;
	(void)pthread_mutex_init(&stream->lock, NULL); /* cannot fail on Linux, nor the next */
	(void)pthread_cond_init(&stream->changed, NULL);
	if (start_thread(stream)) {
		free(stream);
		return NULL;
	}
	stream->next = streams.list;
	streams.list = stream;
	streams.count++;
	return stream;
}

static struct CUstream_st *create(void)
{
	struct CUstream_st *stream;

	pthread_mutex_lock(&streams.lock);
	stream = create_locked();
	pthread_mutex_unlock(&streams.lock);
	return stream;
}

/* NULL is the legacy default stream. */
static struct CUstream_st *stream_of(struct CUstream_st *stream)
{
	if (stream)
		return stream;
	pthread_mutex_lock(&streams.lock);
	if (!streams.legacy) {
		streams.legacy = create_locked();
		if (!streams.legacy)
			abort();
		streams.legacy->legacy = true;
	}
	stream = streams.legacy;
	pthread_mutex_unlock(&streams.lock);
	return stream;
}

static void unlist(struct CUstream_st *stream)
{
	struct CUstream_st **at;

	pthread_mutex_lock(&streams.lock);
	for (at = &streams.list; *at && *at != stream; at = &(*at)->next)
		;
	if (*at)
		*at = stream->next;
	if (streams.legacy == stream)
		streams.legacy = NULL;
	streams.count--;
	pthread_mutex_unlock(&streams.lock);
}

static void release(struct CUstream_st *stream)
{
	struct timespec until;

	unlist(stream);
	pthread_mutex_lock(&stream->lock);
	stream->closing = true;
	pthread_cond_broadcast(&stream->changed);
	pthread_mutex_unlock(&stream->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FREE_MOST_S;
	/* A kernel that does not end keeps its stream, as on a GPU; a count of threads tells. */
	if (pthread_timedjoin_np(stream->thread, NULL, &until)) {
		(void)pthread_detach(stream->thread);
		return;
	}
	(void)pthread_cond_destroy(&stream->changed);
	(void)pthread_mutex_destroy(&stream->lock);
	free(stream);
}

int gpu_stream_create(struct CUstream_st **ret_stream, struct gpu_error *ret_error)
{
	struct CUstream_st *stream;

	if (cpu_gpu_enter_error("gpu_stream_create", ret_error))
		return -1;
	stream = create();
	if (!stream)
		return cpu_gpu_error("gpu_stream_create", CPU_GPU_NO_MEMORY, ret_error);
	*ret_stream = stream;
	return 0;
}

void gpu_stream_free(struct CUstream_st *stream)
{
	(void)cpu_gpu_enter("gpu_stream_free");
	if (stream)
		release(stream);
}

struct CUstream_st *cpu_gpu_stream_create(void)
{
	return create();
}

void cpu_gpu_stream_free(struct CUstream_st *stream)
{
	if (stream)
		release(stream);
}

void cpu_gpu_end_default_stream(void)
{
	struct CUstream_st *legacy;

	pthread_mutex_lock(&streams.lock);
	legacy = streams.legacy;
	pthread_mutex_unlock(&streams.lock);
	if (legacy)
		release(legacy);
}

unsigned cpu_gpu_count_streams(void)
{
	unsigned count;

	pthread_mutex_lock(&streams.lock);
	count = streams.count;
	pthread_mutex_unlock(&streams.lock);
	return count;
}

/* ---- what a capture forbids ----------------------------------------------------------------- */

void gpu_thread_is_background(void)
{
	background = true;
}

int gpu_capture_relax(void)
{
	return relaxed++;
}

void gpu_capture_restore(int before)
{
	relaxed = before;
}

/* True when what this thread does concerns the capture. */
static bool concerns(const struct CUstream_st *stream)
{
	if (!stream->graph || background || relaxed || stream->mode == CPU_GPU_RELAXED)
		return false;
	return stream->mode == CPU_GPU_GLOBAL || pthread_equal(stream->capturer, pthread_self());
}

static void break_locked(struct CUstream_st *stream, const char *function)
{
	stream->broken = true;
	streams.broken_by = function;
}

/* Breaks the captures that this thread concerns, or that of `only`. True: there was one. */
static bool break_captures(const char *function)
{
	bool broken = false;

	pthread_mutex_lock(&streams.lock);
	for (struct CUstream_st *stream = streams.list; stream && streams.capturing;
	     stream = stream->next) {
		pthread_mutex_lock(&stream->lock);
		if (concerns(stream)) {
			break_locked(stream, function);
			broken = true;
		}
		pthread_mutex_unlock(&stream->lock);
	}
	pthread_mutex_unlock(&streams.lock);
	return broken;
}

int cpu_gpu_unsafe(const char *function)
{
	return break_captures(function) ? CPU_GPU_CAPTURE_UNSUPPORTED : 0;
}

/* ---- enqueueing ----------------------------------------------------------------------------- */

static struct operation *operation_of(const struct cpu_gpu_kernel *kernel, const void *arguments)
{
	struct operation *operation = malloc(sizeof(*operation) + kernel->argument_bytes);

	if (!operation)
		return NULL;
	operation->next = NULL;
	operation->kernel = kernel;
	if (kernel->argument_bytes)
		memcpy(operation->arguments, arguments, kernel->argument_bytes);
	return operation;
}

static int append_locked(struct CUstream_st *stream, struct operation *operation)
{
	struct cpu_gpu_graph *graph = stream->graph;

	if (graph && stream->broken)
		return CPU_GPU_CAPTURE_INVALIDATED;
	if (graph) {
		*graph->last = operation;
		graph->last = &operation->next;
		graph->nodes++;
		stream->tail = (const void *)graph->last;
		return 0;
	}
	*stream->last = operation;
	stream->last = &operation->next;
	stream->enqueued++;
	pthread_cond_broadcast(&stream->changed);
	return 0;
}

static int append(struct CUstream_st *stream, struct operation *operation)
{
	int code;

	if (!operation)
		return CPU_GPU_NO_MEMORY;
	pthread_mutex_lock(&stream->lock);
	code = append_locked(stream, operation);
	pthread_mutex_unlock(&stream->lock);
	if (code)
		free(operation);
	return code;
}

int cpu_gpu_enqueue(struct CUstream_st *given, const struct cpu_gpu_kernel *kernel,
		    const void *arguments)
{
	if (cpu_gpu_lost())
		return cpu_gpu_lost();
	if (!given && break_captures(kernel->name))
		return CPU_GPU_CAPTURE_IMPLICIT;
	return append(stream_of(given), operation_of(kernel, arguments));
}

/* ---- capture and graphs --------------------------------------------------------------------- */

/* The legacy default stream cannot be captured; while another is, CUDA gives no answer. */
static enum gpu_capture capture_of_legacy(void)
{
	enum gpu_capture state;

	pthread_mutex_lock(&streams.lock);
	state = streams.capturing ? GPU_CAPTURE_BROKEN : GPU_NOT_CAPTURING;
	pthread_mutex_unlock(&streams.lock);
	return state;
}

enum gpu_capture gpu_stream_capture(struct CUstream_st *stream, uint64_t *ret_id)
{
	enum gpu_capture state = GPU_NOT_CAPTURING;

	(void)cpu_gpu_enter("gpu_stream_capture");
	if (!stream)
		return capture_of_legacy();
	pthread_mutex_lock(&stream->lock);
	if (stream->graph) {
		state = stream->broken ? GPU_CAPTURE_BROKEN : GPU_CAPTURING;
		*ret_id = stream->capture_id;
	}
	pthread_mutex_unlock(&stream->lock);
	return state;
}

const void *gpu_capture_tail(struct CUstream_st *stream)
{
	const void *tail = NULL;

	if (!stream)
		return NULL;
	pthread_mutex_lock(&stream->lock);
	if (stream->graph)
		tail = stream->tail;
	pthread_mutex_unlock(&stream->lock);
	return tail;
}

/* Graphs are lists here, in the order of capture: all that is left of an edge is that it was made.
 */
static _Atomic unsigned edges;

unsigned cpu_gpu_edges(void)
{
	return atomic_exchange_explicit(&edges, 0, memory_order_relaxed);
}

int gpu_capture_after(struct CUstream_st *stream, const void *tail)
{
	bool captures;

	if (cpu_gpu_enter("gpu_capture_after"))
		return -1;
	pthread_mutex_lock(&stream->lock);
	captures = stream->graph != NULL;
	stream->tail = !stream->tail || stream->tail == tail ? tail : NULL;
	pthread_mutex_unlock(&stream->lock);
	if (captures)
		(void)atomic_fetch_add_explicit(&edges, 1, memory_order_relaxed);
	return captures ? 0 : -1;
}

void cpu_gpu_capture_fork(struct CUstream_st *from, struct CUstream_st *to)
{
	pthread_mutex_lock(&from->lock);
	pthread_mutex_lock(&to->lock);
	to->graph = from->graph;
	to->mode = from->mode;
	to->capturer = from->capturer;
	to->capture_id = from->capture_id;
	to->tail = from->tail;
	to->broken = from->broken;
	pthread_mutex_unlock(&to->lock);
	pthread_mutex_unlock(&from->lock);
}

void cpu_gpu_capture_join(struct CUstream_st *from, struct CUstream_st *to)
{
	pthread_mutex_lock(&to->lock);
	pthread_mutex_lock(&from->lock);
	to->tail = to->tail == from->tail ? to->tail : NULL;
	to->broken = to->broken || from->broken;
	from->graph = NULL;
	pthread_mutex_unlock(&from->lock);
	pthread_mutex_unlock(&to->lock);
}

int cpu_gpu_capture_begin(struct CUstream_st *stream, enum cpu_gpu_capture mode)
{
	struct cpu_gpu_graph *graph = calloc(1, sizeof(*graph));
	bool begun = false;

	if (!graph)
		return CPU_GPU_NO_MEMORY;
	graph->last = &graph->first;
	pthread_mutex_lock(&streams.lock);
	pthread_mutex_lock(&stream->lock);
	if (!stream->legacy && !stream->graph) {
		stream->graph = graph;
		stream->mode = mode;
		stream->capturer = pthread_self();
		stream->capture_id = ++streams.captures;
		stream->broken = false;
		stream->tail = NULL;
		streams.capturing++;
		begun = true;
	}
	pthread_mutex_unlock(&stream->lock);
	pthread_mutex_unlock(&streams.lock);
	if (begun)
		return 0;
	cpu_gpu_graph_free(graph);
	return CPU_GPU_INVALID;
}

int cpu_gpu_capture_end(struct CUstream_st *stream, struct cpu_gpu_graph **ret_graph)
{
	struct cpu_gpu_graph *graph;
	bool broken;

	pthread_mutex_lock(&streams.lock);
	pthread_mutex_lock(&stream->lock);
	graph = stream->graph;
	broken = stream->broken;
	stream->graph = NULL;
	streams.capturing -= graph != NULL;
	pthread_mutex_unlock(&stream->lock);
	pthread_mutex_unlock(&streams.lock);
	if (!graph)
		return CPU_GPU_INVALID;
	if (broken) {
		cpu_gpu_graph_free(graph);
		return CPU_GPU_CAPTURE_INVALIDATED;
	}
	*ret_graph = graph;
	return 0;
}

const char *cpu_gpu_capture_broken_by(void)
{
	const char *function;

	pthread_mutex_lock(&streams.lock);
	function = streams.broken_by ? streams.broken_by : "nothing";
	pthread_mutex_unlock(&streams.lock);
	return function;
}

int cpu_gpu_graph_launch(const struct cpu_gpu_graph *graph, struct CUstream_st *stream)
{
	int code = 0;

	for (const struct operation *node = graph->first; node && code == 0; node = node->next)
		code = cpu_gpu_enqueue(stream, node->kernel, node->arguments);
	return code;
}

size_t cpu_gpu_graph_nodes(const struct cpu_gpu_graph *graph)
{
	return graph->nodes;
}

void cpu_gpu_graph_free(struct cpu_gpu_graph *graph)
{
	struct operation *node = graph ? graph->first : NULL;

	while (node) {
		struct operation *next = node->next;

		free(node);
		node = next;
	}
	free(graph);
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* 1: done; 0: not yet; else minus a code. */
static int is_done(struct CUstream_st *stream, const char *function)
{
	int code = cpu_gpu_lost();
	bool done, capturing;

	if (code)
		return -code;
	if (break_captures(function))
		return -CPU_GPU_CAPTURE_UNSUPPORTED;
	stream = stream_of(stream);
	pthread_mutex_lock(&streams.lock);
	pthread_mutex_lock(&stream->lock);
	capturing = stream->graph != NULL;
	done = stream->finished == stream->enqueued;
	if (capturing)
		break_locked(stream, function);
	pthread_mutex_unlock(&stream->lock);
	pthread_mutex_unlock(&streams.lock);
	return capturing ? -CPU_GPU_CAPTURE_UNSUPPORTED : done;
}

static bool all_is_done(void)
{
	bool done = true;

	pthread_mutex_lock(&streams.lock);
	for (struct CUstream_st *stream = streams.list; stream && done; stream = stream->next) {
		pthread_mutex_lock(&stream->lock);
		done = stream->enqueued == stream->finished;
		pthread_mutex_unlock(&stream->lock);
	}
	pthread_mutex_unlock(&streams.lock);
	return done;
}

void cpu_gpu_wait_to_free(void)
{
	unsigned idle = 0;

	cpu_gpu_hold(true);
	while (!all_is_done() && !cpu_gpu_lost())
		pause_a_little(&idle);
	cpu_gpu_hold(false);
}

int gpu_stream_done(struct CUstream_st *stream, struct gpu_error *ret_error)
{
	int done;

	if (cpu_gpu_enter_error("gpu_stream_done", ret_error))
		return -1;
	done = is_done(stream, "gpu_stream_done");
	return done < 0 ? cpu_gpu_error("gpu_stream_done", -done, ret_error) : done;
}

/* As is_done(), once it is done or the deadline is over. */
static int wait_until_done(struct CUstream_st *stream, uint64_t deadline_ns, const char *function)
{
	int done = is_done(stream, function);
	unsigned idle = 0;

	while (done == 0 && now_ns() < deadline_ns) {
		pause_a_little(&idle);
		done = is_done(stream, function);
	}
	return done;
}

int gpu_stream_wait(struct CUstream_st *stream, uint64_t deadline_ns, struct gpu_error *ret_error)
{
	int done;

	if (cpu_gpu_enter_error("gpu_stream_wait", ret_error))
		return -1;
	done = wait_until_done(stream, deadline_ns, "gpu_stream_wait");
	return done < 0 ? cpu_gpu_error("gpu_stream_wait", -done, ret_error) : done;
}

int cpu_gpu_stream_sync(struct CUstream_st *stream)
{
	int done = wait_until_done(stream, now_ns() + SYNC_MOST_NS, "cpu_gpu_stream_sync");

	if (done == 0)
		abort(); /* a kernel that should have ended long ago */
	return done < 0 ? -done : 0;
}

/* ---- small operations ----------------------------------------------------------------------- */

struct copy {
	void *to;
	const void *from;
	size_t bytes;
	int fill; /* byte, or -1: a copy */
};

/* By words where it can be: kernels and other ranks may look at them meanwhile. */
static bool by_words(const struct copy *copy)
{
	return (((uintptr_t)copy->to | (uintptr_t)copy->from | copy->bytes) & 7) == 0;
}

static void copy_words(const struct copy *copy)
{
	uint64_t *to = copy->to;
	const uint64_t *from = copy->from;

	for (size_t i = 0; i < copy->bytes / sizeof(*to); i++)
		store_word(&to[i], load_word(&from[i]));
}

static void fill_words(const struct copy *copy)
{
	uint64_t *to = copy->to, word = UINT64_C(0x0101010101010101) * (uint64_t)copy->fill;

	for (size_t i = 0; i < copy->bytes / sizeof(*to); i++)
		store_word(&to[i], word);
}

static enum cpu_gpu_step copy_step(const void *arguments, void *run)
{
	const struct copy *copy = arguments;
	bool fills = copy->fill >= 0;

	(void)run;
	if (by_words(copy))
		(fills ? fill_words : copy_words)(copy);
	else if (fills)
		memset(copy->to, copy->fill, copy->bytes);
	else
		memcpy(copy->to, copy->from, copy->bytes);
	return CPU_GPU_ENDED;
}

static const struct cpu_gpu_kernel copy_kernel = {
	.name = "gpu_copy", .argument_bytes = sizeof(struct copy), .step = copy_step};

int gpu_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream,
	     struct gpu_error *ret_error)
{
	int code = cpu_gpu_enter("gpu_copy");

	if (code == 0)
		code = cpu_gpu_enqueue(stream, &copy_kernel,
				       &(struct copy){to, from, bytes, .fill = -1});
	return code ? cpu_gpu_error("gpu_copy", code, ret_error) : 0;
}

int gpu_fill(void *memory, int byte, size_t bytes, struct CUstream_st *stream,
	     struct gpu_error *ret_error)
{
	int code = cpu_gpu_enter("gpu_fill");

	if (code == 0)
		code = cpu_gpu_enqueue(stream, &copy_kernel,
				       &(struct copy){memory, NULL, bytes, .fill = byte & 0xff});
	return code ? cpu_gpu_error("gpu_fill", code, ret_error) : 0;
}

struct word_wait {
	const _Atomic uint64_t *word;
	uint64_t value;
};

static enum cpu_gpu_step wait_step(const void *arguments, void *run)
{
	const struct word_wait *wait = arguments;

	(void)run;
	return atomic_load_explicit(wait->word, memory_order_acquire) >= wait->value
		       ? CPU_GPU_ENDED
		       : CPU_GPU_WAITING;
}

static const struct cpu_gpu_kernel wait_kernel = {
	.name = "wait", .argument_bytes = sizeof(struct word_wait), .step = wait_step};

int cpu_gpu_enqueue_wait(struct CUstream_st *stream, const _Atomic uint64_t *word, uint64_t value)
{
	return cpu_gpu_enqueue(stream, &wait_kernel, &(struct word_wait){word, value});
}

static enum cpu_gpu_step count_step(const void *arguments, void *run)
{
	_Atomic uint64_t *const *word = arguments;

	(void)run;
	(void)atomic_fetch_add_explicit(*word, 1, memory_order_acq_rel);
	return CPU_GPU_ENDED;
}

static const struct cpu_gpu_kernel count_kernel = {
	.name = "count", .argument_bytes = sizeof(_Atomic uint64_t *), .step = count_step};

int cpu_gpu_enqueue_count(struct CUstream_st *stream, _Atomic uint64_t *word)
{
	return cpu_gpu_enqueue(stream, &count_kernel, &word);
}
