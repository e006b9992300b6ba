/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/bench/bench_rank.h"

/* Longer than the longest default deadline, that of the warm-up. */
#define STALL_NS UINT64_C(700000000000)
/* Of a communicator on GPUs. */
#define DEVICE_RANKS_MAX 16
/* A rank that hears of a verdict or is done ends within BELAY_DESTROY_MS. */
#define GRACE_NS UINT64_C(15000000000)

static int be_rank(uint32_t rank)
{
	struct bench_job *job;

	/* Ranks share stderr: whole lines only. */
	(void)setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	if (bench_job_open(RANK_JOB_FD, &job) || rank >= job->nranks)
		return command_complain("--rank-process is for this command's own ranks");
	(void)close(RANK_JOB_FD); /* the mapping stays */
	return bench_rank_run(job, rank);
}

int bench_is_rank(int argc, char *const *argv, int *ret_status)
{
	int rank = rank_process_rank(argc, argv);

	if (rank < 0)
		return 0;
	*ret_status = be_rank((uint32_t)rank);
	return 1;
}

struct watch {
	struct bench_job *job;
	int terminal;
};

static uint64_t progress(void *user)
{
	struct watch *watch = user;
	uint64_t all = watch->job->script_calls ? watch->job->script_calls : watch->job->ncalls;
	uint64_t calls = 0;

	for (uint32_t rank = 0; rank < watch->job->nranks; rank++) {
		/* Relaxed: a number to show, and to see that it moves. */
		calls += atomic_load_explicit(&bench_rank(watch->job, rank)->calls_done,
					      memory_order_relaxed);
	}
	if (watch->terminal && all)
		fprintf(stderr, "\r%3" PRIu64 " %% of %" PRIu64 " %s ",
			calls * 100 / (all * watch->job->nranks), all,
			watch->job->graph ? "replays" : "calls");
	return calls;
}

/* Nobody waits at the barrier for a rank that is gone. */
static void ended(void *user, int rank)
{
	struct watch *watch = user;

	(void)rank;
	bench_barrier_break(&watch->job->barrier);
}

/* Beside a GPU the rank's thread polls, and must leave its watcher and NCCL's threads a processor.
 */
static int is_pinned(const struct bench_options *options)
{
	if (options->pin == BENCH_PIN_AUTO)
		return options->nranks > 1 && !options->devices;
	return options->pin;
}

static int create_job(const struct bench_options *options, struct bench_job **ret_job, int *ret_fd)
{
	struct bench_order order = {.nranks = options->nranks,
				    .op = options->op,
				    .first_seq = options->first_seq,
				    .in_place = options->in_place,
				    .region_buffers = options->region_buffers,
				    .pin = is_pinned(options),
				    .devices = options->devices,
				    .graph = options->graph,
				    .buffers = options->buffers,
				    .host_time = options->host_time,
				    .script = options->script_name ? &options->script : NULL};
	struct bench_step *steps;
	int status;

	if (bench_options_steps(options, &steps, &order.nsteps)) {
		command_error("out of memory");
		return -1;
	}
	order.steps = steps;
	status = bench_job_create(&order, ret_job, ret_fd);
	if (status && errno == EFBIG)
		command_error("more calls, or larger ones, than can be kept (or than ulimit -f "
			      "allows); run fewer at a time");
	else if (status && errno == ENOMEM)
		command_error("the buffers of %" PRIu32
			      " ranks need more memory than is free here; run "
			      "fewer ranks, or smaller calls",
			      options->nranks);
	else if (status)
		command_error("cannot make room for the results: %s", strerror(errno));
	free(steps);
	return status;
}

/* Runs the ranks of a job to their end. Returns as bench_group_run(). */
static int run_ranks(struct bench_group *group)
{
	struct watch watch = {group->job, isatty(STDERR_FILENO)};
	const struct rank_limits limits = {.stall_ns = STALL_NS,
					   .grace_ns = GRACE_NS,
					   .progress = progress,
					   .ended = ended,
					   .user = &watch};
	int number;

	if (rank_processes_start(&group->processes, (int)group->job->nranks, group->job_fd)) {
		command_error("cannot start the ranks: %s", strerror(errno));
		return 1;
	}
	number = rank_processes_wait(&group->processes, &limits);
	if (watch.terminal)
		fputs("\r                                        \r", stderr);
	return -number;
}

int bench_group_run(const struct bench_options *options, struct bench_group *ret_group)
{
	struct bench_group group = {.job_fd = -1};
	int status;

	if (create_job(options, &group.job, &group.job_fd))
		return 1;
	status = run_ranks(&group);
	if (status)
		goto fail;
	if (bench_results_gather(group.job, &group.processes, options->devices ? "cuda" : "host",
				 &group.results)) {
		command_error("out of memory for the results");
		status = 1;
		goto fail;
	}
	*ret_group = group;
	return 0;
fail:
	bench_job_close(group.job, group.job_fd);
	return status;
}

void bench_group_free(struct bench_group *group)
{
	bench_results_free(&group->results);
	bench_job_close(group->job, group->job_fd);
}

void bench_group_write_row(FILE *file, uint32_t nranks, const char *topology, uint64_t up_to_bytes,
			   const struct bench_algorithm *algorithm, const char *other,
			   uint32_t blocks, uint32_t threads)
{
	/* What stdio could not write, the file's end tells. */
	fprintf(file,
		"ranks=%" PRIu32 " topology=%s up_to=%" PRIu64
		" algorithm=%s other=%s blocks=%" PRIu32 " threads=%" PRIu32 "\n",
		nranks, topology, up_to_bytes, algorithm->device, other, blocks, threads);
}

static void write_forced(FILE *file, uint32_t nranks, const struct bench_algorithm *algorithm,
			 uint32_t blocks, uint32_t threads)
{
	static const char *const topologies[] = {"one_device", "nvlink", "pcie", "mixed"};

	if (algorithm->host)
		fprintf(file, "ranks=%" PRIu32 " twoshot_from=%" PRIu64 "\n", nranks,
			algorithm->host == BELAY_ALGORITHM_TWOSHOT ? UINT64_C(0) : UINT64_MAX);
	for (size_t i = 0;
	     nranks <= DEVICE_RANKS_MAX && i < sizeof(topologies) / sizeof(topologies[0]); i++)
		bench_group_write_row(file, nranks, topologies[i], BENCH_SIZE_MAX, algorithm,
				      algorithm->other, blocks, threads);
}

/* A tuning file without a name; the ranks inherit it, above the descriptor that they have their job
 * at. */
static int make_tuning(void)
{
	int fd = memfd_create("belay-tune", MFD_CLOEXEC);
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD, RANK_JOB_FD + 1);

	if (fd >= 0)
		(void)close(fd); /* its copy stays */
	return high;
}

int bench_group_force(uint32_t nranks, const struct bench_algorithm *algorithm, uint32_t blocks,
		      uint32_t threads)
{
	static int fd = -1;
	char path[64];
	FILE *file;
	int copy, status;

	if (!algorithm)
		return 0;
	if (fd < 0)
		fd = make_tuning();
	if (fd < 0 || ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	file = copy < 0 ? NULL : fdopen(copy, "w");
	if (!file)
		return -1;
	write_forced(file, nranks, algorithm, blocks, threads);
	status = ferror(file) ? -1 : 0;
	if (fclose(file))
		status = -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return status || setenv("BELAY_TUNE", path, 1) ? -1 : 0;
}
