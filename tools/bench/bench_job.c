/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/bench/bench_data.h"

/* Durations that are kept, of all ranks: 4 GiB. */
#define KEPT_MAX (UINT64_C(1) << 29)

/* Takes `bytes` of the file from `*at` on, whole lines. */
static uint64_t take(uint64_t *at, uint64_t bytes)
{
	uint64_t place = *at;

	*at += (bytes + 63u) & ~UINT64_C(63);
	return place;
}

/* The largest call of a type that a script makes. */
static uint64_t script_most(const struct bench_script *script, uint32_t dtype, int *ret_used)
{
	uint64_t most = 0;

	for (uint64_t i = 0; script && i < script->ncalls; i++) {
		const struct script_call *call = &script->calls[i];

		if (call->dtype != dtype)
			continue;
		*ret_used = 1;
		most = call->count > most ? call->count : most;
	}
	return most;
}

static uint64_t pool_count(const struct bench_order *order, uint32_t dtype)
{
	int used = 0;
	uint64_t most = script_most(order->script, dtype, &used);

	for (uint32_t i = 0; i < order->nsteps; i++) {
		const struct bench_step *step = &order->steps[i];

		if (step->dtype == dtype) {
			used = 1;
			most = step->count > most ? step->count : most;
		}
	}
	return used ? most + BENCH_PLACES * BENCH_PLACE_BYTES /
				       belay_dtype_bytes((enum belay_dtype)dtype)
		    : 0;
}

/* Counts timed samples and passes. Returns 0, or -1 when there are too many. */
static int count_calls(const struct bench_order *order, struct bench_job *head)
{
	for (uint32_t i = 0; i < order->nsteps; i++) {
		const struct bench_step *step = &order->steps[i];
		uint64_t calls;

		if (__builtin_mul_overflow(step->passes, step->calls, &calls) ||
		    __builtin_add_overflow(head->ncalls, calls, &head->ncalls) ||
		    head->ncalls > KEPT_MAX / order->nranks)
			return -1;
		head->npasses += step->in_passes ? step->passes : 0;
		if (head->npasses > KEPT_MAX / order->nranks)
			return -1;
	}
	return 0;
}

static void place_pools(const struct bench_order *order, struct bench_job *head, uint64_t *at)
{
	for (uint32_t dtype = BELAY_F32; dtype < BENCH_DTYPES; dtype++) {
		size_t bytes = belay_dtype_bytes((enum belay_dtype)dtype);

		head->pool_count[dtype] = pool_count(order, dtype);
		head->pool_at[dtype] = take(at, head->pool_count[dtype] * bytes);
	}
	for (uint32_t i = 0; i < order->nsteps; i++) {
		const struct bench_step *step = &order->steps[i];
		uint64_t bytes = step->count * belay_dtype_bytes((enum belay_dtype)step->dtype);

		if (bytes > head->buffer_bytes)
			head->buffer_bytes = bytes;
	}
	for (uint32_t dtype = BELAY_F32; order->script && dtype < BENCH_DTYPES; dtype++) {
		uint64_t bytes =
			head->pool_count[dtype] * belay_dtype_bytes((enum belay_dtype)dtype);

		if (bytes > head->buffer_bytes)
			head->buffer_bytes = bytes; /* a little more than the largest call */
	}
}

static void place_script(const struct bench_order *order, struct bench_job *head, uint64_t *at)
{
	const struct bench_script *script = order->script;

	if (!script)
		return;
	head->script_calls = script->ncalls;
	head->script_checked = 1;
	for (uint64_t i = 0; i < script->ncalls; i++) {
		head->script_checked &= script->calls[i].op == script->calls[0].op;
		/* On a device marks go by behind the host's back, so that it has no times. */
		head->npasses += !order->devices && script->calls[i].flags & SCRIPT_ENDS_PASS;
	}
	head->op = script->calls[0].op;
	head->script_at = take(at, script->ncalls * sizeof(*script->calls));
	head->gaps_at = take(at, script->ncalls * script->nranks * sizeof(*script->gaps_ns));
}

/* Fills a head with everything but the id. Returns 0, or -1 when there are too many calls. */
static int plan(const struct bench_order *order, struct bench_job *head)
{
	uint64_t at = 0;

	memset(head, 0, sizeof(*head));
	head->magic = BENCH_MAGIC;
	head->first_seq = order->first_seq;
	head->nranks = order->nranks;
	head->op = order->op;
	head->in_place = (uint32_t)order->in_place;
	head->region_buffers = (uint32_t)order->region_buffers;
	head->pin = (uint32_t)order->pin;
	head->devices = order->devices;
	head->graph = (uint32_t)order->graph;
	head->buffers = order->buffers;
	head->host_time = (uint32_t)order->host_time;
	head->nsteps = order->nsteps;
	if (count_calls(order, head))
		return -1;
	(void)take(&at, sizeof(*head)); /* the head itself stands at 0 */
	place_script(order, head, &at);
	head->steps_at = take(&at, order->nsteps * sizeof(struct bench_step));
	head->ranks_at = take(&at, order->nranks * sizeof(struct bench_rank));
	head->results_at = take(&at, (uint64_t)order->nranks * order->nsteps *
					     sizeof(struct bench_step_result));
	head->calls_at = take(&at, order->nranks * head->ncalls * sizeof(uint64_t));
	head->passes_at = take(&at, order->nranks * head->npasses * sizeof(uint64_t));
	place_pools(order, head, &at);
	head->bytes = at;
	return 0;
}

/* What all ranks and their job will take, near enough: each has its inputs and two buffers. */
static uint64_t memory_needed(const struct bench_job *head)
{
	uint64_t of_a_rank = 2 * head->buffer_bytes;

	for (uint32_t dtype = BELAY_F32; dtype < BENCH_DTYPES; dtype++)
		of_a_rank += head->pool_count[dtype] * belay_dtype_bytes((enum belay_dtype)dtype);
	return head->bytes + head->nranks * of_a_rank;
}

/* Of the machine, in bytes; UINT64_MAX when it does not say. */
static uint64_t memory_available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t kilobytes, bytes = UINT64_MAX;

	if (!file)
		return bytes;
	while (bytes == UINT64_MAX && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &kilobytes) == 1)
			bytes = kilobytes * 1024;
	}
	(void)fclose(file); /* only read */
	return bytes;
}

static void fill_steps(struct bench_job *job, const struct bench_order *order)
{
	struct bench_step *steps = bench_at(job, job->steps_at);
	uint64_t call = 0, pass = 0;

	for (uint32_t i = 0; i < order->nsteps; i++) {
		steps[i] = order->steps[i];
		steps[i].per_sample += steps[i].per_sample == 0;
		steps[i].first_call = call;
		steps[i].first_pass = pass;
		call += steps[i].passes * steps[i].calls;
		pass += steps[i].in_passes ? steps[i].passes : 0;
	}
}

static void fill_script(struct bench_job *job, const struct bench_script *script)
{
	if (!script)
		return;
	memcpy(bench_at(job, job->script_at), script->calls,
	       script->ncalls * sizeof(*script->calls));
	memcpy(bench_at(job, job->gaps_at), script->gaps_ns,
	       script->ncalls * script->nranks * sizeof(*script->gaps_ns));
}

static void fill_pools(struct bench_job *job)
{
	for (uint32_t dtype = BELAY_F32; dtype < BENCH_DTYPES; dtype++)
		data_expected((enum belay_dtype)dtype, (enum belay_op)job->op, job->seed,
			      (int)job->nranks, 0, job->pool_count[dtype],
			      bench_at(job, job->pool_at[dtype]));
}

/* A memfd of so many bytes, mapped; all of it there before use, so that lack of memory is an
 * error. */
static int map_new(uint64_t bytes, void **ret_memory, int *ret_fd)
{
	struct rlimit limit;
	void *memory;
	int fd = -1;
	int error = EFBIG;

	/* A file over this limit would raise SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
		goto fail;
	fd = memfd_create("belay-bench", MFD_CLOEXEC);
	if (fd < 0) {
		error = errno;
		goto fail;
	}
	error = posix_fallocate(fd, 0, (off_t)bytes);
	if (error)
		goto fail;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		error = errno;
		goto fail;
	}
	*ret_memory = memory;
	*ret_fd = fd;
	return 0;
fail:
	if (fd >= 0)
		(void)close(fd);
	errno = error;
	return -1;
}

int bench_job_create(const struct bench_order *order, struct bench_job **ret_job, int *ret_fd)
{
	struct bench_job head;
	struct bench_job *job;
	void *memory;
	int fd;

	if (plan(order, &head)) {
		errno = EFBIG;
		return -1;
	}
	/* Reserving more than there is does not fail, it wakes the OOM killer. */
	if (memory_needed(&head) > memory_available()) {
		errno = ENOMEM;
		return -1;
	}
	if (belay_unique_id_create(&head.id) || getrandom(&head.seed, sizeof(head.seed), 0) < 0) {
		errno = EIO;
		return -1;
	}
	if (map_new(head.bytes, &memory, &fd))
		return -1;
	job = memory;
	*job = head;
	fill_steps(job, order);
	fill_script(job, order->script);
	fill_pools(job);
	*ret_job = job;
	*ret_fd = fd;
	return 0;
}

int bench_job_open(int fd, struct bench_job **ret_job)
{
	struct stat file;
	struct bench_job *job;

	if (fstat(fd, &file) || (uint64_t)file.st_size < sizeof(*job))
		return -1;
	job = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (job == MAP_FAILED)
		return -1;
	if (job->magic != BENCH_MAGIC || job->bytes != (uint64_t)file.st_size) {
		(void)munmap(job, (size_t)file.st_size);
		return -1;
	}
	*ret_job = job;
	return 0;
}

void bench_job_close(struct bench_job *job, int fd)
{
	(void)munmap(job, job->bytes);
	(void)close(fd);
}
