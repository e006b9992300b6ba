/* SPDX-License-Identifier: Apache-2.0 */
/* belay-info --probe: creates communicators between rank processes and makes checked calls on each
 * path. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_group.h"
#include "tools/info/info_report.h"

#define PROBE_CALLS   20
#define PROBE_BUFFERS 3
/* Of a communicator on devices. */
#define INFO_DEVICE_RANKS 16

/* The first rank that failed says why. */
static void say_why(struct info_probe *probe, const struct bench_group *group)
{
	for (uint32_t rank = 0; rank < group->job->nranks; rank++) {
		const struct bench_rank *out = bench_rank(group->job, rank);

		if (out->error[0]) {
			snprintf(probe->why, sizeof(probe->why), "%s", out->error);
			return;
		}
	}
	snprintf(probe->why, sizeof(probe->why), "%s",
		 group->results.wrong ? "wrong results" : "a rank was lost");
}

static void note(struct info_probe *probe, const struct bench_group *group)
{
	probe->works = !group->results.failed;
	for (size_t i = 0; i < group->results.nrows; i++)
		probe->calls += group->results.rows[i].calls;
	probe->p50_us = group->results.rows[1].p50_us;
	if (!probe->works)
		say_why(probe, group);
}

static int is_for_devices(enum belay_path path)
{
	return path == BELAY_PATH_SYMM || path == BELAY_PATH_NCCL;
}

/* Returns 0, or -1 and says in `why` what keeps a usable path from being tried with these ranks. */
static int can_try(const struct info *info, enum belay_path path, char *why, size_t size)
{
	if (path == BELAY_PATH_NCCL && info->probe_ranks > info->ndevices) {
		snprintf(why, size, "NCCL takes one rank a device, and there %s %" PRIu32,
			 info->ndevices == 1 ? "is" : "are", info->ndevices);
		return -1;
	}
	if (is_for_devices(path) && info->probe_ranks > INFO_DEVICE_RANKS) {
		snprintf(why, size, "a communicator on devices has at most %d ranks",
			 INFO_DEVICE_RANKS);
		return -1;
	}
	return 0;
}

static int probe_path(const struct info *info, enum belay_path path, struct info_probe *probe)
{
	uint32_t nranks = info->probe_ranks;
	struct bench_options options = {.backend = is_for_devices(path) ? BENCH_CUDA : BENCH_HOST,
					.devices = is_for_devices(path) ? info->ndevices : 0,
					.buffers = PROBE_BUFFERS,
					.nranks = nranks,
					.sizes = {1024, 65536, 1048576},
					.nsizes = 3,
					.dtype = BELAY_F32,
					.op = BELAY_SUM,
					.iterations = PROBE_CALLS,
					.pin = nranks > 1};
	struct bench_group group;
	int status;

	if (setenv("BELAY_PATHS", belay_path_name(path), 1)) {
		command_error("out of memory");
		return 1;
	}
	status = bench_group_run(&options, &group);
	if (status)
		return status;
	probe->tried = 1;
	note(probe, &group);
	bench_group_free(&group);
	return probe->works ? 0 : 1;
}

static int probe_paths(struct info *info)
{
	int worst = 0;

	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++) {
		struct info_probe *probe = &info->probe[path];
		int status;

		if (!info->path[path].usable ||
		    can_try(info, (enum belay_path)path, probe->why, sizeof(probe->why)))
			continue;
		status = probe_path(info, (enum belay_path)path, probe);
		if (status < 0)
			return status;
		worst = status > worst ? status : worst;
	}
	return worst;
}

/* A copy of a variable, to be given to restore(); NULL: not set. */
static char *save(const char *name)
{
	const char *value = getenv(name);

	return value ? strdup(value) : NULL;
}

static void restore(const char *name, char *value)
{
	if (value)
		(void)setenv(name, value, 1); /* only the report would differ */
	else
		(void)unsetenv(name);
	free(value);
}

int info_probe(uint32_t nranks, struct info *info)
{
	char *paths = save("BELAY_PATHS");
	char *level = save("BELAY_LOG");
	int status;

	info->probe_ranks = nranks;
	/* What goes wrong comes back from the ranks as text; their own messages would say it
	 * twice. */
	(void)setenv("BELAY_LOG", "off", 1);
	status = probe_paths(info);
	restore("BELAY_LOG", level);
	restore("BELAY_PATHS", paths);
	return status;
}
