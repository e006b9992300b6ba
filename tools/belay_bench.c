/* SPDX-License-Identifier: Apache-2.0 */
/* belay-bench: options and exit status; bench_group.c and bench_rank.c do the work. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_device.h"
#include "tools/bench/bench_group.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_tune.h"

/* Exit statuses: an interface, in the man page and in tests/cli; see also enum command_status. */
enum {
	EXIT_RIGHT = 0,	     /* every result right, no verdict */
	EXIT_WRONG = 1,	     /* a wrong result, a verdict, or ranks that could not run */
	EXIT_NO_BACKEND = 77 /* the backend is not on this machine */
};

static int run(const struct bench_options *options)
{
	const char *faults = getenv("BELAY_FAULT"); /* --fault sets it */
	struct bench_group group;
	int status;

	if (bench_group_force(options->nranks, options->algorithm, options->blocks[0],
			      options->threads[0])) {
		command_error("cannot choose the algorithm: %s", strerror(errno));
		return EXIT_WRONG;
	}
	status = bench_group_run(options, &group);
	if (status)
		return status;
	bench_results_complain(&group.results, group.job, &group.processes);
	if (faults)
		(void)bench_results_tell_faults(group.job, faults);
	status = group.results.failed ? EXIT_WRONG : EXIT_RIGHT;
	if (bench_results_print(&group.results, group.job, options->format)) {
		command_error("out of memory for the results");
		status = EXIT_WRONG;
	}
	bench_group_free(&group);
	return command_finish(stdout, "standard output", status);
}

/* On which GPUs the ranks are to be: none on the host backend. -1: they were asked for and are not
 * here. */
static int find_devices(struct bench_options *options)
{
	const char *why;
	int devices;

	if (options->backend == BENCH_HOST)
		return 0;
	devices = bench_device_count(&why);
	if (devices <= 0 && options->backend == BENCH_CUDA) {
		command_error("backend cuda: %s", why);
		return -1;
	}
	options->devices = devices > 0 ? (uint32_t)devices : 0;
	return 0;
}

static int act(struct bench_options *options)
{
	if (options->help)
		return command_help(bench_help);
	if (options->version)
		return command_version();
	if (find_devices(options))
		return EXIT_NO_BACKEND;
	if (options->tune)
		return options->devices ? bench_tune_device(options) : bench_tune(options);
	return run(options);
}

int main(int argc, char **argv)
{
	struct bench_options options;
	int status;

	command_begin("belay-bench");
	if (bench_is_rank(argc, argv, &status))
		return status;
	status = bench_options_parse(argc, argv, &options);
	if (status == 0)
		status = act(&options);
	bench_options_free(&options);
	if (status < 0)
		end_by_signal(-status);
	return status;
}
