/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's allreduce as a peer of belay's, timed as belay-bench times its own calls: see
 * docs/performance.md. Prints one JSON document, as torch_symm.py does.
 *
 * graph: CALLS of them in a CUDA graph, two replays in a row, of which the second is timed. gap:
 * the same with a kernel before each call that waits for G microseconds, on one rank in turn for S
 * more, which are taken off. eager: one by one, between two events, four times as many as replays.
 * --windows: buffers from ncclMemAlloc() in symmetric windows. --kill: no times, but after which
 * time NCCL notices that rank 1 was killed in a replay.
 *
 * NCCL's own variables (NCCL_SYM_CTAS and the like) are the caller's; multicast stays off. Rank R
 * is on GPU R.
 */
#include "config.h"

#include <dlfcn.h>
#include <getopt.h>
#include <inttypes.h>
#include <nccl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench/bench_barrier.h"
#include "tools/bench/bench_device.h"
#include "tools/bench/bench_results.h"
#include "tools/bench/rank_processes.h"
#include "tools/command_line.h"

#define RANKS_MAX   8
#define SIZES_MAX   16
#define ITERS_MAX   1000
#define EAGER_TIMES 4 /* calls one by one for each replay */
#define WARMUP	    3
#define WAIT_NS	    UINT64_C(60000000000)
#define NS_PER_MS   UINT64_C(1000000)
/* --kill: the replay in which rank 1 dies, and how long the others look whether NCCL has noticed.
 */
#define KILL_REPLAY  20
#define KILL_LOOK_NS (3000 * NS_PER_MS)
/* Since NCCL 2.27, so that it can be built with the header of an older one. */
#define WINDOW_SYMMETRIC 1
/* What such memory is handed out in. */
#define WINDOW_UNIT ((size_t)2 << 20)

enum { EXIT_FAILED = 1, EXIT_NOT_HERE = 77 };

/* clang-format off: a text */
static const char help[] =
	"Usage: peer_nccl [OPTION]...\n"
	"Times NCCL's allreduce between rank processes that have a GPU each.\n"
	"\n"
	"  --ranks=N         1 to 8 (2)\n"
	"  --sizes=LIST      bytes of a call, K and M allowed (16K,112K,1M)\n"
	"  --modes=LIST      of graph, gap and eager (graph)\n"
	"  --windows         buffers in symmetric windows\n"
	"  --iters=N         replays of a size, up to 1000 (50); four times as many calls one by "
	"one\n"
	"  --calls=N         calls of a graph (122)\n"
	"  --gap-us=G[,S]    in the mode gap: before each call, and more on one rank in turn "
	"(5,2)\n"
	"  --library=FILE    NCCL (libnccl.so.2)\n"
	"  --kill            when NCCL notices a killed rank, instead of times\n"
	"  --help            print this and exit\n"
	"  --version         print the version and exit\n"
	"\n"
	"Exit status: 0; 1 something failed; 2 usage; 77 this cannot be measured here.\n";
/* clang-format on */

enum mode { MODE_GRAPH, MODE_GAP, MODE_EAGER, MODES };
static const char *const mode_names[MODES] = {"graph", "gap", "eager"};

struct options {
	uint32_t ranks, nsizes;
	uint64_t sizes[SIZES_MAX]; /* bytes, ascending or not */
	uint64_t calls, iters;
	uint64_t gap_ns, skew_ns;
	int modes[MODES];
	int windows, kill, help, version;
	char library[3000];
};

struct rank_report {
	uint32_t wrong[MODES][SIZES_MAX];	  /* 1: the result was not the sum */
	uint64_t ns[MODES][SIZES_MAX][ITERS_MAX]; /* of a call, by sample */
	uint64_t noticed_ns, abort_ns;		  /* --kill; 0: never */
};

/* What the command shares with its ranks. */
struct job {
	struct options options;
	struct bench_barrier barrier;
	_Atomic uint64_t progress; /* samples of all ranks */
	ncclUniqueId id;
	int version;
	struct rank_report report[RANKS_MAX];
};

#define NCCL_FUNCTIONS(X)                                                                          \
	X(get_version, ncclGetVersion)                                                             \
	X(get_unique_id, ncclGetUniqueId)                                                          \
	X(comm_init_rank, ncclCommInitRank)                                                        \
	X(comm_abort, ncclCommAbort)                                                               \
	X(get_async_error, ncclCommGetAsyncError)                                                  \
	X(all_reduce, ncclAllReduce)                                                               \
	X(error_string, ncclGetErrorString)

static struct {
#define MEMBER(member, function) __typeof__(function) *member;
	NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
	/* NULL: older than 2.19 and 2.27. */
	ncclResult_t (*mem_alloc)(void **, size_t);
	ncclResult_t (*window_register)(ncclComm_t, void *, size_t, void **, int);
} nccl;

/* A rank's run. */
struct run {
	struct job *job;
	struct rank_report *report;
	uint32_t rank;
	struct CUstream_st *stream;
	ncclComm_t comm;
	char *send, *recv, *expected; /* device memory of the largest call */
	char *nothing;		      /* zeros, to begin with */
	uint64_t *wrong;
};

/* Of a rank: what it cannot go on with. The others hear of it by the command. */
static _Noreturn void fail(const struct run *run, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static _Noreturn void fail(const struct run *run, int status, const char *format, ...)
{
	char text[600];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	command_error("rank %" PRIu32 ": %s", run->rank, text);
	_exit(status);
}

static void device(const struct run *run, int status)
{
	if (status)
		fail(run, EXIT_FAILED, "%s", bench_device_error());
}

static void call_nccl(const struct run *run, ncclResult_t result, const char *name)
{
	if (result != ncclSuccess)
		fail(run, EXIT_FAILED, "%s: %s", name, nccl.error_string(result));
}

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* fails only for a clock that does not exist */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- NCCL ------------------------------------------------------------------------------------ */

static void load_nccl(const struct run *run)
{
#define FIND(member, function) {&nccl.member, #function},
	/* All are pointers to functions, which POSIX lets one store as dlsym() returns them. */
	const struct {
		void *place;
		const char *name;
	} wanted[] = {NCCL_FUNCTIONS(FIND){&nccl.mem_alloc, "ncclMemAlloc"},
		      {&nccl.window_register, "ncclCommWindowRegister"}};
#undef FIND
	size_t needed = sizeof(wanted) / sizeof(wanted[0]) - 2;
	void *handle = dlopen(run->job->options.library, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fail(run, EXIT_NOT_HERE, "no NCCL: %s", dlerror());
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		void *function = dlsym(handle, wanted[i].name);

		if (!function && i < needed)
			fail(run, EXIT_NOT_HERE, "this NCCL has no %s", wanted[i].name);
		memcpy(wanted[i].place, &function, sizeof(function));
	}
}

static void together(const struct run *run)
{
	if (bench_barrier_wait(&run->job->barrier, run->job->options.ranks))
		fail(run, EXIT_FAILED, "another rank ended early");
}

static void join_nccl(struct run *run)
{
	struct job *job = run->job;

	load_nccl(run);
	if (run->rank == 0) {
		call_nccl(run, nccl.get_version(&job->version), "ncclGetVersion");
		call_nccl(run, nccl.get_unique_id(&job->id), "ncclGetUniqueId");
	}
	together(run);
	call_nccl(run,
		  nccl.comm_init_rank(&run->comm, (int)job->options.ranks, job->id, (int)run->rank),
		  "ncclCommInitRank");
}

/* 1: the stream is empty; 0: not yet. */
static int is_done(const struct run *run)
{
	int done = bench_device_done(run->stream);

	device(run, done < 0 ? -1 : 0);
	return done;
}

static void wait_for_stream(const struct run *run)
{
	uint64_t until_ns = now_ns() + WAIT_NS;

	while (!is_done(run)) {
		if (now_ns() > until_ns)
			fail(run, EXIT_FAILED, "NCCL does not come to an end");
	}
}

/* ---- buffers --------------------------------------------------------------------------------- */

static size_t bytes_max(const struct options *options)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < options->nsizes; i++)
		most = options->sizes[i] > most ? options->sizes[i] : most;
	return (size_t)most;
}

/* A buffer of a call: in a window, which all ranks register alike, or plain. */
static char *call_buffer(const struct run *run, size_t bytes)
{
	size_t whole = (bytes + WINDOW_UNIT - 1) / WINDOW_UNIT * WINDOW_UNIT;
	void *memory = NULL, *window = NULL;

	if (!run->job->options.windows) {
		device(run, bench_device_alloc(bytes, &memory));
		return memory;
	}
	if (!nccl.mem_alloc || !nccl.window_register)
		fail(run, EXIT_NOT_HERE, "this NCCL has no windows: 2.27 or newer is needed");
	call_nccl(run, nccl.mem_alloc(&memory, whole), "ncclMemAlloc");
	call_nccl(run, nccl.window_register(run->comm, memory, whole, &window, WINDOW_SYMMETRIC),
		  "ncclCommWindowRegister");
	return memory;
}

/* Whole numbers from -3 to 3: their sum is exact in bf16, in any order. */
static int input(uint32_t rank, size_t element)
{
	return (int)((element + 3 * (size_t)rank) % 7) - 3;
}

static uint16_t bf16_of(int number)
{
	float value = (float)number;
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)(bits >> 16);
}

static int sum_of(uint32_t ranks, size_t element)
{
	int sum = 0;

	for (uint32_t rank = 0; rank < ranks; rank++)
		sum += input(rank, element);
	return sum;
}

static void fill(const struct run *run, size_t bytes)
{
	size_t count = bytes / 2;
	uint16_t *send = malloc(bytes), *expected = malloc(bytes);

	if (!send || !expected)
		fail(run, EXIT_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++) {
		send[i] = bf16_of(input(run->rank, i));
		expected[i] = bf16_of(sum_of(run->job->options.ranks, i));
	}
	device(run, bench_device_copy(run->send, send, bytes, run->stream));
	device(run, bench_device_copy(run->expected, expected, bytes, run->stream));
	wait_for_stream(run);
	free(send);
	free(expected);
}

static void make_buffers(struct run *run)
{
	size_t bytes = bytes_max(&run->job->options);
	void *expected, *nothing, *wrong;

	run->send = call_buffer(run, bytes);
	run->recv = call_buffer(run, bytes);
	device(run, bench_device_alloc(bytes, &expected));
	device(run, bench_device_alloc(bytes, &nothing));
	device(run, bench_device_host_alloc(sizeof(*run->wrong), &wrong));
	run->expected = expected;
	run->nothing = nothing;
	run->wrong = wrong;
	fill(run, bytes);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void call(const struct run *run, uint64_t bytes)
{
	call_nccl(run,
		  nccl.all_reduce(run->send, run->recv, bytes / 2, ncclBfloat16, ncclSum, run->comm,
				  (cudaStream_t)run->stream),
		  "ncclAllReduce");
}

static void begin_size(const struct run *run, uint64_t bytes)
{
	device(run, bench_device_copy(run->recv, run->nothing, bytes, run->stream));
	wait_for_stream(run);
	together(run);
	for (int i = 0; i < WARMUP; i++)
		call(run, bytes);
	wait_for_stream(run);
}

static void end_size(const struct run *run, enum mode mode, uint32_t size)
{
	device(run, bench_device_compare(run->recv, run->expected, run->job->options.sizes[size],
					 run->wrong, run->stream));
	wait_for_stream(run);
	run->report->wrong[mode][size] = *run->wrong != 0;
}

/* What this rank computes before a call of a graph. */
static uint64_t gap_before(const struct run *run, uint64_t number)
{
	const struct options *options = &run->job->options;

	return options->gap_ns + (number % options->ranks == run->rank ? options->skew_ns : 0);
}

static struct bench_graph *capture(const struct run *run, enum mode mode, uint64_t bytes)
{
	struct bench_graph *graph = NULL;

	device(run, bench_device_capture(run->stream));
	for (uint64_t i = 0; i < run->job->options.calls; i++) {
		if (mode == MODE_GAP)
			device(run, bench_device_delay(gap_before(run, i), run->stream));
		call(run, bytes);
	}
	device(run, bench_device_captured(run->stream, &graph));
	return graph;
}

struct events {
	struct bench_event *begin, *end;
};

static uint64_t elapsed(const struct run *run, const struct events *events)
{
	uint64_t ns = 0;

	wait_for_stream(run);
	device(run, bench_event_elapsed(events->begin, events->end, &ns));
	atomic_fetch_add_explicit(&run->job->progress, 1,
				  memory_order_relaxed); /* orders nothing */
	return ns;
}

static void time_replays(const struct run *run, enum mode mode, uint32_t size,
			 const struct events *events)
{
	const struct options *options = &run->job->options;
	uint64_t gaps_ns = mode == MODE_GAP ? options->gap_ns + options->skew_ns : 0;
	struct bench_graph *graph = capture(run, mode, options->sizes[size]);

	for (uint64_t i = 0; i < WARMUP + options->iters; i++) {
		uint64_t ns;

		together(run);
		device(run, bench_graph_launch(graph, run->stream));
		device(run, bench_event_record(events->begin, run->stream));
		device(run, bench_graph_launch(graph, run->stream));
		device(run, bench_event_record(events->end, run->stream));
		ns = elapsed(run, events) / options->calls;
		if (i >= WARMUP)
			run->report->ns[mode][size][i - WARMUP] = ns > gaps_ns ? ns - gaps_ns : 0;
	}
	bench_graph_free(graph);
}

static uint64_t samples_of(const struct options *options, enum mode mode)
{
	uint64_t samples = mode == MODE_EAGER ? options->iters * EAGER_TIMES : options->iters;

	return samples < ITERS_MAX ? samples : ITERS_MAX;
}

static void time_calls(const struct run *run, uint32_t size, const struct events *events)
{
	const struct options *options = &run->job->options;

	for (uint64_t i = 0; i < samples_of(options, MODE_EAGER); i++) {
		together(run);
		device(run, bench_event_record(events->begin, run->stream));
		call(run, options->sizes[size]);
		device(run, bench_event_record(events->end, run->stream));
		run->report->ns[MODE_EAGER][size][i] = elapsed(run, events);
	}
}

static void time_size(const struct run *run, enum mode mode, uint32_t size,
		      const struct events *events)
{
	begin_size(run, run->job->options.sizes[size]);
	if (mode == MODE_EAGER)
		time_calls(run, size, events);
	else
		time_replays(run, mode, size, events);
	end_size(run, mode, size);
}

static void time_all(const struct run *run)
{
	const struct options *options = &run->job->options;
	struct events events;

	device(run, bench_event_create(&events.begin));
	device(run, bench_event_create(&events.end));
	for (enum mode mode = 0; mode < MODES; mode++) {
		for (uint32_t size = 0; options->modes[mode] && size < options->nsizes; size++)
			time_size(run, mode, size, &events);
	}
	together(run);
}

/* ---- a rank that is killed ------------------------------------------------------------------- */

/* The time until NCCL told of an error, or until the stream was empty or broken; 0: neither came.
 */
static uint64_t time_to_notice(const struct run *run)
{
	uint64_t start_ns = now_ns(), ns = 0;

	while (ns < KILL_LOOK_NS) {
		ncclResult_t result = ncclSuccess;

		ns = now_ns() - start_ns;
		if (nccl.get_async_error(run->comm, &result) != ncclSuccess ||
		    result != ncclSuccess || bench_device_done(run->stream))
			return ns;
		(void)sched_yield(); /* a pause, nothing more */
	}
	return 0;
}

static void kill_one(const struct run *run)
{
	uint64_t bytes = run->job->options.sizes[0], start_ns;
	struct bench_graph *graph;

	begin_size(run, bytes);
	graph = capture(run, MODE_GRAPH, bytes);
	for (int i = 0; i < KILL_REPLAY; i++) {
		together(run);
		device(run, bench_graph_launch(graph, run->stream));
		if (i + 1 == KILL_REPLAY && run->rank == 1)
			(void)raise(SIGKILL); /* does not return */
		if (i + 1 < KILL_REPLAY)
			wait_for_stream(run);
	}
	device(run, bench_graph_launch(graph, run->stream)); /* one that rank 1 has no part in */
	run->report->noticed_ns = time_to_notice(run);
	bench_graph_free(graph); /* the abort waits for graphs of its kernels */
	start_ns = now_ns();
	(void)nccl.comm_abort(run->comm); /* how long it takes is all that matters */
	run->report->abort_ns = now_ns() - start_ns;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static struct job *map_job(int fd)
{
	void *memory = mmap(NULL, sizeof(struct job), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int be_rank(uint32_t rank)
{
	struct run run = {.rank = rank, .job = map_job(RANK_JOB_FD)};

	if (!run.job)
		fail(&run, EXIT_FAILED, "cannot map the job");
	run.report = &run.job->report[rank];
	device(&run, bench_device_use((int)rank, &run.stream));
	join_nccl(&run);
	make_buffers(&run);
	if (run.job->options.kill)
		kill_one(&run);
	else
		time_all(&run);
	/* The communicator goes with the process: its graphs are gone, and nobody needs it. */
	_exit(0);
}

/* ---- the command ----------------------------------------------------------------------------- */

static uint64_t progress(void *user)
{
	struct job *job = user;

	return atomic_load_explicit(&job->progress, memory_order_relaxed); /* that it moves */
}

static void ended(void *user, int rank)
{
	struct job *job = user;

	(void)rank;
	bench_barrier_break(&job->barrier);
}

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The slowest rank's times, sorted; returns how many. */
static size_t slowest(const struct job *job, enum mode mode, uint32_t size, uint64_t *times)
{
	size_t n = (size_t)samples_of(&job->options, mode);

	for (size_t i = 0; i < n; i++) {
		times[i] = 0;
		for (uint32_t rank = 0; rank < job->options.ranks; rank++) {
			uint64_t ns = job->report[rank].ns[mode][size][i];

			times[i] = ns > times[i] ? ns : times[i];
		}
	}
	qsort(times, n, sizeof(*times), compare_numbers);
	return n;
}

static int is_right(const struct job *job, enum mode mode, uint32_t size)
{
	for (uint32_t rank = 0; rank < job->options.ranks; rank++) {
		if (job->report[rank].wrong[mode][size])
			return 0;
	}
	return 1;
}

static void print_row(const struct job *job, enum mode mode, uint32_t size, const char *separator)
{
	static uint64_t times[ITERS_MAX];
	size_t n = slowest(job, mode, size, times);

	printf("%s{\"mode\": \"%s\", \"bytes\": %" PRIu64
	       ", \"min_us\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f, \"checked\": %s}",
	       separator, mode_names[mode], job->options.sizes[size],
	       (double)bench_percentile(times, n, 0.0) / 1e3,
	       (double)bench_percentile(times, n, 0.5) / 1e3,
	       (double)bench_percentile(times, n, 0.99) / 1e3,
	       is_right(job, mode, size) ? "true" : "false");
}

static void print_rows(const struct job *job)
{
	const char *separator = "";

	printf(", \"rows\": [");
	for (enum mode mode = 0; mode < MODES; mode++) {
		for (uint32_t i = 0; job->options.modes[mode] && i < job->options.nsizes; i++) {
			print_row(job, mode, i, separator);
			separator = ", ";
		}
	}
	printf("]");
}

static void print_ms(uint64_t ns)
{
	if (ns)
		printf("%.1f", (double)ns / 1e6);
	else
		printf("null");
}

static void print_kill(const struct job *job)
{
	const struct rank_report *report = &job->report[0];

	printf(", \"noticed_ms\": ");
	print_ms(report->noticed_ns);
	printf(", \"abort_ms\": ");
	print_ms(report->abort_ns);
}

static void print(const struct job *job)
{
	printf("{\"nccl\": \"%d.%d.%d\", \"ranks\": %" PRIu32 ", \"windows\": %s",
	       job->version / 10000, job->version / 100 % 100, job->version % 100,
	       job->options.ranks, job->options.windows ? "true" : "false");
	if (job->options.kill)
		print_kill(job);
	else
		print_rows(job);
	printf("}\n");
}

/* The status of the first rank that failed. A rank that was to be killed has not, nor one whose
 * abort did not come to an end. */
static int status_of(const struct job *job, const struct rank_processes *processes)
{
	for (int rank = 0; rank < processes->count; rank++) {
		int status = processes->rank[rank].wait_status;

		if (status == 0 ||
		    (job->options.kill && (rank == 1 || processes->rank[rank].overdue)))
			continue;
		return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
	}
	return 0;
}

static int run_ranks(struct job *job, int fd)
{
	const struct rank_limits limits = {.stall_ns = WAIT_NS + 30000 * NS_PER_MS,
					   .grace_ns = 15000 * NS_PER_MS,
					   .progress = progress,
					   .ended = ended,
					   .user = job};
	struct rank_processes processes;
	int number, status;

	if (rank_processes_start(&processes, (int)job->options.ranks, fd)) {
		command_error("cannot start the ranks");
		return EXIT_FAILED;
	}
	number = rank_processes_wait(&processes, &limits);
	if (number)
		return -number;
	status = status_of(job, &processes);
	if (status)
		return status;
	print(job);
	return command_finish(stdout, "standard output", 0);
}

static int measure(const struct options *options)
{
	const char *why = "";
	struct job *job = NULL;
	int fd, status;

	if (bench_device_count(&why) < (int)options->ranks) {
		command_error("each of %" PRIu32 " ranks needs a GPU of its own: %s",
			      options->ranks, why);
		return EXIT_NOT_HERE;
	}
	/* Neither by windows nor otherwise. */
	(void)setenv("NCCL_NVLS_ENABLE", "0", 1);
	fd = memfd_create("peer_nccl", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, sizeof(struct job)) == 0)
		job = map_job(fd);
	if (!job) {
		command_error("no memory for the results");
		return EXIT_FAILED;
	}
	job->options = *options;
	status = run_ranks(job, fd);
	(void)munmap(job, sizeof(*job)); /* at the end of the program */
	(void)close(fd);
	return status;
}

/* ---- options --------------------------------------------------------------------------------- */

static int read_sizes(char *list, struct options *options)
{
	char *word;

	options->nsizes = 0;
	while ((word = strsep(&list, ","))) {
		if (options->nsizes == SIZES_MAX ||
		    command_parse_size(word, &options->sizes[options->nsizes]) ||
		    options->sizes[options->nsizes] == 0 || options->sizes[options->nsizes] % 2)
			return -1;
		options->nsizes++;
	}
	return 0;
}

static int read_modes(char *list, struct options *options)
{
	char *word;

	memset(options->modes, 0, sizeof(options->modes));
	while ((word = strsep(&list, ","))) {
		enum mode mode = 0;

		while (mode < MODES && strcmp(word, mode_names[mode]) != 0)
			mode++;
		if (mode == MODES)
			return -1;
		options->modes[mode] = 1;
	}
	return 0;
}

static int read_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret_number)
{
	uint64_t number;

	if (command_parse_number(text, &number) || number < min || number > max)
		return -1;
	*ret_number = number;
	return 0;
}

static int read_gap(char *text, struct options *options)
{
	const char *gap = strsep(&text, ",");
	uint64_t gap_us = 0, skew_us = 0;

	if (read_number(gap, 0, 1000000, &gap_us) ||
	    (text && read_number(text, 0, 1000000, &skew_us)))
		return -1;
	options->gap_ns = gap_us * 1000;
	options->skew_ns = skew_us * 1000;
	return 0;
}

static int read_flag(int option, struct options *options)
{
	switch (option) {
	case 'w':
		options->windows = 1;
		break;
	case 'k':
		options->kill = 1;
		break;
	case 'h':
		options->help = 1;
		break;
	default: /* 'v' */
		options->version = 1;
	}
	return 0;
}

static int read_option(int option, char *value, struct options *options)
{
	uint64_t ranks = 0;

	switch (option) {
	case 'r':
		if (read_number(value, 1, RANKS_MAX, &ranks))
			return -1;
		options->ranks = (uint32_t)ranks;
		return 0;
	case 's':
		return read_sizes(value, options);
	case 'm':
		return read_modes(value, options);
	case 'i':
		return read_number(value, 1, ITERS_MAX, &options->iters);
	case 'c':
		return read_number(value, 1, 10000, &options->calls);
	case 'g':
		return read_gap(value, options);
	case 'l':
		snprintf(options->library, sizeof(options->library), "%s", value);
		return 0;
	default:
		return read_flag(option, options);
	}
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"ranks", required_argument, NULL, 'r'},   {"sizes", required_argument, NULL, 's'},
		{"modes", required_argument, NULL, 'm'},   {"iters", required_argument, NULL, 'i'},
		{"calls", required_argument, NULL, 'c'},   {"gap-us", required_argument, NULL, 'g'},
		{"library", required_argument, NULL, 'l'}, {"windows", no_argument, NULL, 'w'},
		{"kill", no_argument, NULL, 'k'},	   {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},	   {NULL, 0, NULL, 0}};
	int option, place = 0;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", known, &place)) != -1) {
		if (option == '?' || option == ':')
			return command_bad_option(option, argv);
		if (read_option(option, optarg, options))
			return command_complain("--%s '%s': not what is expected there",
						known[place].name, optarg);
	}
	return optind < argc ? command_complain("unexpected operand '%s'", argv[optind]) : 0;
}

int main(int argc, char **argv)
{
	static struct options options = {.ranks = 2,
					 .nsizes = 3,
					 .sizes = {16384, 114688, 1048576},
					 .calls = 122,
					 .iters = 50,
					 .gap_ns = 5000,
					 .skew_ns = 2000,
					 .modes = {1, 0, 0},
					 .library = "libnccl.so.2"};
	int rank, status;

	command_begin("peer_nccl");
	rank = rank_process_rank(argc, argv);
	if (rank >= 0)
		return be_rank((uint32_t)rank);
	status = parse(argc, argv, &options);
	if (status == 0 && options.help)
		return command_help(help);
	if (status == 0 && options.version)
		return command_version();
	if (status == 0)
		status = measure(&options);
	if (status < 0)
		end_by_signal(-status);
	return status;
}
