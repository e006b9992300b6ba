/* SPDX-License-Identifier: Apache-2.0 */
/* belay-info: options and exit status; info_*.c do the work. */
#include "config.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tools/bench/bench_group.h"
#include "tools/info/info_process.h"
#include "tools/info/info_report.h"

/* clang-format off: texts and tables */
static const char help[] =
	"Usage: belay-info [OPTION]...\n"
	"Tells what belay can do on this machine: paths, settings, versions.\n"
	"\n"
	"  --probe               start ranks on each path and make a few checked calls\n"
	"  --ranks=N             ranks of the probe, 2 to 64 (2)\n"
	"  --process=PID         show the communicators of a process, even if it hangs or is "
	"stopped\n"
	"  --format=FORMAT       text or json; with --process also prometheus (text)\n"
	"  -h, --help            print this and exit\n"
	"  -V, --version         print the version and exit\n"
	"\n"
	"Exit status: 0 done; 1 a setting is bad, a probed path fails, or the process has no\n"
	"communicator to show; 2 usage; 4 output not written.\n";

enum { OPT_PROBE = 256, OPT_RANKS, OPT_PROCESS, OPT_FORMAT, OPT_HELP, OPT_VERSION };

static const struct option options_known[] = {
	{"probe", no_argument, NULL, OPT_PROBE},
	{"ranks", required_argument, NULL, OPT_RANKS},
	{"process", required_argument, NULL, OPT_PROCESS},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};
/* clang-format on */

struct info_options {
	int probe, help, version;
	uint64_t ranks;	  /* 0: not given */
	uint64_t process; /* 0: none */
	int format;	  /* enum command_format or FORMAT_PROMETHEUS */
};

static int read_format(const char *value, struct info_options *options)
{
	enum command_format format;

	if (strcmp(value, "prometheus") == 0)
		options->format = FORMAT_PROMETHEUS;
	else if (command_parse_format(value, &format) == 0)
		options->format = (int)format;
	else
		return command_complain("--format '%s': expected text, json or prometheus", value);
	return 0;
}

static int read_number(const char *name, const char *value, uint64_t min, uint64_t max,
		       uint64_t *ret_number)
{
	uint64_t number;

	if (command_parse_number(value, &number) || number < min || number > max)
		return command_complain("--%s '%s': expected a number from %llu to %llu", name,
					value, (unsigned long long)min, (unsigned long long)max);
	*ret_number = number;
	return 0;
}

static int read_option(int option, const char *value, struct info_options *options)
{
	switch (option) {
	case OPT_PROBE:
		options->probe = 1;
		return 0;
	case OPT_RANKS:
		return read_number("ranks", value, 2, BELAY_RANKS_MAX, &options->ranks);
	case OPT_PROCESS:
		return read_number("process", value, 1, INT_MAX, &options->process);
	case OPT_FORMAT:
		return read_format(value, options);
	case OPT_HELP:
		options->help = 1;
		return 0;
	default: /* OPT_VERSION */
		options->version = 1;
		return 0;
	}
}

static int check_pairs(const struct info_options *options)
{
	if (options->probe && options->process)
		return command_complain("--probe and --process exclude each other");
	if (options->ranks && !options->probe)
		return command_complain("--ranks needs --probe");
	if (options->format == FORMAT_PROMETHEUS && !options->process)
		return command_complain("--format=prometheus needs --process");
	return 0;
}

static int long_form(int option)
{
	return option == 'h' ? OPT_HELP : option == 'V' ? OPT_VERSION : option;
}

static int parse(int argc, char **argv, struct info_options *ret_options)
{
	int option;
	int status = 0;

	*ret_options = (struct info_options){0};
	opterr = 0;
	while (status == 0 &&
	       (option = getopt_long(argc, argv, ":hV", options_known, NULL)) != -1) {
		option = long_form(option);
		if (option < OPT_PROBE)
			return command_bad_option(option, argv);
		status = read_option(option, optarg, ret_options);
		if (ret_options->help || ret_options->version)
			return status;
	}
	if (status == 0 && optind < argc)
		status = command_complain("unexpected operand '%s'", argv[optind]);
	return status ? status : check_pairs(ret_options);
}

/* Returns the exit status, or minus a signal's number. */
static int report(const struct info_options *options)
{
	struct info info;
	int status;

	if (info_look(&info))
		return 1;
	status = options->probe ? info_probe(options->ranks ? (uint32_t)options->ranks : 2, &info)
				: 0;
	if (status < 0)
		return status;
	if (info_print(&info, (enum command_format)options->format)) {
		command_error("out of memory");
		status = 1;
	}
	return command_finish(stdout, "standard output", status);
}

static int act(const struct info_options *options)
{
	if (options->help)
		return command_help(help);
	if (options->version)
		return command_version();
	if (options->process)
		return command_finish(stdout, "standard output",
				      info_process((int)options->process, options->format));
	return report(options);
}

int main(int argc, char **argv)
{
	struct info_options options;
	int status;

	command_begin("belay-info");
	if (bench_is_rank(argc, argv, &status))
		return status;
	status = parse(argc, argv, &options);
	if (status == 0)
		status = act(&options);
	if (status < 0)
		end_by_signal(-status);
	return status;
}
