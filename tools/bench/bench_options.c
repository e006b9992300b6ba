/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_DIR_MODE 0700 /* as the library's */
/* Defaults. The calls of the verify pass; odd, so that what a slot of the library held two calls
 * before is other data; and as many checked replays as fill its slots twice. */
#define GRAPH_CALLS	 122
#define BUFFERS		 3
#define GRAPH_WARMUP	 2
#define GRAPH_ITERATIONS 50

/* clang-format off: texts and tables */
const char bench_help[] =
	"Usage: belay-bench [OPTION]...\n"
	"Runs allreduces between rank processes, checks every result bit for bit, and times them.\n"
	"\n"
	"What is run:\n"
	"  --backend=auto|host|cuda  where (auto: the GPUs if there are any, else host)\n"
	"  --ranks=N             rank processes, 1 to 64 (2)\n"
	"  --sizes=LIST          bytes of a call, K and M allowed (1K,14336,112K,256K,1M,2M)\n"
	"  --dtype=TYPE          bf16, f16, f32, f64, i32, i64, u8 or i8 (bf16)\n"
	"  --op=OP               sum, max, min or prod (sum)\n"
	"  --iters=N             timed calls of each size (200; in graphs 50)\n"
	"  --warmup=N            calls before them (20; in graphs 2)\n"
	"  --graph               capture the calls of a pass in a CUDA graph (cuda); a time is "
	"that of a\n"
	"                        replay, shared out among its calls; --iters and --warmup are "
	"replays\n"
	"  --calls-per-graph=N   calls of a graph, where no workload says (122)\n"
	"  --buffers=N           pairs of buffers that calls on a GPU go through in turn (3)\n"
	"  --gap-us=G[,S]        in a size's graph each rank computes for G microseconds before "
	"each\n"
	"                        call, one rank in turn for S more; no part of the time of a call\n"
	"  --eager-host-time     also the host's time in a call, and in a bare kernel launch "
	"(cuda)\n"
	"  --in-place            send and receive in the same buffer\n"
	"  --region-buffers      take the buffers from belay_buffer_alloc()\n"
	"  --pin=auto|yes|no     rank R on the R-th processor, in turn (auto: yes for several "
	"ranks on the host)\n"
	"\n"
	"Workloads, instead of sizes:\n"
	"  --workload=NAME|FILE  verify-pass (122 calls of 57344 bf16), or a file\n"
	"  --passes=P            verify-pass: makes P passes (100); a file: stops after P\n"
	"  --script=FILE         single calls and what each rank computes before them, as\n"
	"                        trace-analyze replay writes them\n"
	"\n"
	"How it is run:\n"
	"  --paths=LIST          allowed paths, in order of preference (BELAY_PATHS)\n"
	"  --algorithm=NAME      oneshot or twoshot, whatever the tuning says; on GPUs also\n"
	"                        oneshot-packets, oneshot-wire, twoshot-wire, twoshot-pull or\n"
	"                        island\n"
	"  --blocks=LIST         grid of --algorithm on GPUs (32); --tune tries all "
	"(8,16,32,64,128)\n"
	"  --threads=LIST        threads of its blocks (256); --tune tries all (256,512)\n"
	"  --fault=SPEC          fault injection (BELAY_FAULT), such as rank=1,seq=50,kind=drop\n"
	"  --first-seq=N         number of the first call (1)\n"
	"  --log-dir=DIR         write call logs below DIR (BELAY_LOG_DIR)\n"
	"  --tune=FILE           measure the algorithms and write a tuning file (BELAY_TUNE)\n"
	"\n"
	"  --format=text|json    how results are printed (text)\n"
	"  -h, --help            print this and exit\n"
	"  -V, --version         print the version and exit\n"
	"\n"
	"Exit status: 0 all right; 1 a wrong result, a verdict, or ranks that could not run; 2 "
	"usage;\n"
	"4 output not written; 77 the backend is not on this machine.\n";

enum option_value {
	OPT_BACKEND = 256,
	OPT_RANKS,
	OPT_SIZES,
	OPT_DTYPE,
	OPT_OP,
	OPT_ITERS,
	OPT_WARMUP,
	OPT_GRAPH,
	OPT_CALLS_PER_GRAPH,
	OPT_BUFFERS,
	OPT_GAP_US,
	OPT_EAGER_HOST_TIME,
	OPT_PATHS,
	OPT_ALGORITHM,
	OPT_BLOCKS,
	OPT_THREADS,
	OPT_TUNE,
	OPT_WORKLOAD,
	OPT_PASSES,
	OPT_FAULT,
	OPT_FIRST_SEQ,
	OPT_LOG_DIR,
	OPT_IN_PLACE,
	OPT_REGION_BUFFERS,
	OPT_PIN,
	OPT_SCRIPT,
	OPT_FORMAT,
	OPT_HELP,
	OPT_VERSION,
	OPT_END
};

static const struct option options_known[] = {
	{"backend", required_argument, NULL, OPT_BACKEND},
	{"ranks", required_argument, NULL, OPT_RANKS},
	{"sizes", required_argument, NULL, OPT_SIZES},
	{"dtype", required_argument, NULL, OPT_DTYPE},
	{"op", required_argument, NULL, OPT_OP},
	{"iters", required_argument, NULL, OPT_ITERS},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"graph", no_argument, NULL, OPT_GRAPH},
	{"calls-per-graph", required_argument, NULL, OPT_CALLS_PER_GRAPH},
	{"buffers", required_argument, NULL, OPT_BUFFERS},
	{"gap-us", required_argument, NULL, OPT_GAP_US},
	{"eager-host-time", no_argument, NULL, OPT_EAGER_HOST_TIME},
	{"paths", required_argument, NULL, OPT_PATHS},
	{"algorithm", required_argument, NULL, OPT_ALGORITHM},
	{"blocks", required_argument, NULL, OPT_BLOCKS},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"tune", required_argument, NULL, OPT_TUNE},
	{"workload", required_argument, NULL, OPT_WORKLOAD},
	{"passes", required_argument, NULL, OPT_PASSES},
	{"fault", required_argument, NULL, OPT_FAULT},
	{"first-seq", required_argument, NULL, OPT_FIRST_SEQ},
	{"log-dir", required_argument, NULL, OPT_LOG_DIR},
	{"in-place", no_argument, NULL, OPT_IN_PLACE},
	{"region-buffers", no_argument, NULL, OPT_REGION_BUFFERS},
	{"pin", required_argument, NULL, OPT_PIN},
	{"script", required_argument, NULL, OPT_SCRIPT},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};
/* clang-format on */

/* The options as they are read; `given` has a bit for each. */
struct reading {
	struct bench_options *options;
	uint32_t given;
	uint64_t passes;
	int pin; /* 0 auto, 1 yes, 2 no */
};

const struct bench_algorithm bench_algorithms[BENCH_ALGORITHMS] = {
	{"oneshot-packets", 0, "oneshot-packets", "oneshot-packets"},
	{"oneshot-wire", 0, "oneshot-wire", "oneshot-packets"},
	{"twoshot-wire", 0, "twoshot-wire", "twoshot-pull"},
	{"twoshot-pull", 0, "twoshot-pull", "twoshot-pull"},
	{"island", 0, "island", "twoshot-pull"},
	{"oneshot", BELAY_ALGORITHM_ONESHOT, "oneshot-wire", "oneshot-packets"},
	{"twoshot", BELAY_ALGORITHM_TWOSHOT, "twoshot-wire", "twoshot-pull"},
};

static const char default_sizes[] = "1K,14336,112K,256K,1M,2M";

/* The place of a word in a list that ends with NULL; -1: not in it. */
static int find_word(const char *word, const char *const *list)
{
	for (int i = 0; list[i]; i++) {
		if (strcmp(list[i], word) == 0)
			return i;
	}
	return -1;
}

static int bad_value(int option, const char *value, const char *expected)
{
	return command_complain("--%s '%s': expected %s", options_known[option - OPT_BACKEND].name,
				value, expected);
}

static int read_number(int option, const char *value, uint64_t min, uint64_t max,
		       uint64_t *ret_number)
{
	uint64_t number;
	char expected[80];

	if (command_parse_number(value, &number) || number < min || number > max) {
		snprintf(expected, sizeof(expected), "a number from %" PRIu64 " to %" PRIu64, min,
			 max);
		return bad_value(option, value, expected);
	}
	*ret_number = number;
	return 0;
}

static int read_sizes(const char *list, struct bench_options *options)
{
	uint32_t n = 0;
	char *copy = strdup(list);
	char *rest = copy;
	char *word;
	int status = 0;

	if (!copy)
		return command_complain("--sizes: out of memory");
	while (status == 0 && (word = strsep(&rest, ","))) {
		if (n == BENCH_SIZES_MAX)
			status = bad_value(OPT_SIZES, list, "at most 256 sizes");
		else if (command_parse_size(word, &options->sizes[n]) ||
			 options->sizes[n] > BENCH_SIZE_MAX)
			status = bad_value(OPT_SIZES, word,
					   "bytes up to 65536M, such as 14336 or "
					   "112K, between commas");
		n++;
	}
	free(copy);
	options->nsizes = n;
	return status;
}

/* What the library says of a variable that an option has set, without where it has that from. NULL:
 * it is about another variable. */
static const char *said_of(const char *variable)
{
	static const char from[] = "(from the environment): ";
	const char *text = belay_last_error(), *at = strstr(text, from);

	if (strncmp(text, variable, strlen(variable)) != 0)
		return NULL;
	return at ? at + strlen(from) : text;
}

/* A setting of the library: into the environment, over what stands there, and checked as creation
 * will. */
static int read_setting(int option, const char *value, const char *variable)
{
	struct belay_setting setting = {.size = sizeof(setting)};
	int status;

	if (setenv(variable, value, 1))
		return command_complain("--%s: out of memory",
					options_known[option - OPT_BACKEND].name);
	status = belay_setting_get(0, NULL, &setting);
	if (status == BELAY_E_SETTING && said_of(variable))
		return command_complain("--%s '%s': %s", options_known[option - OPT_BACKEND].name,
					value, said_of(variable));
	return 0; /* another setting that is bad is told in the end */
}

static int read_dtype(const char *value, struct bench_options *options)
{
	options->dtype = workload_dtype(value);
	if (!options->dtype)
		return bad_value(OPT_DTYPE, value, "bf16, f16, f32, f64, i32, i64, u8 or i8");
	return 0;
}

static int read_op(const char *value, struct bench_options *options)
{
	for (int op = BELAY_SUM; op <= BELAY_PROD; op++) {
		if (strcmp(value, belay_op_name((enum belay_op)op)) == 0) {
			options->op = (enum belay_op)op;
			return 0;
		}
	}
	return bad_value(OPT_OP, value, "sum, max, min or prod");
}

static int read_backend(const char *value, struct bench_options *options)
{
	static const char *const backends[] = {"auto", "host", "cuda", NULL};
	int place = find_word(value, backends);

	if (place < 0)
		return bad_value(OPT_BACKEND, value, "auto, host or cuda");
	options->backend = (enum bench_backend)place;
	return 0;
}

static int read_algorithm(const char *value, struct bench_options *options)
{
	for (size_t i = 0; i < BENCH_ALGORITHMS; i++) {
		if (strcmp(value, bench_algorithms[i].name) == 0) {
			options->algorithm = &bench_algorithms[i];
			return 0;
		}
	}
	return bad_value(OPT_ALGORITHM, value,
			 "oneshot or twoshot; on GPUs also oneshot-packets, oneshot-wire, "
			 "twoshot-wire, twoshot-pull or island");
}

/* A list of numbers from min to max, multiples of min. */
static int read_shapes(int option, const char *list, uint64_t min, uint64_t max, uint32_t *numbers,
		       uint32_t *ret_n)
{
	char *copy = strdup(list);
	char *rest = copy;
	char *word;
	uint64_t number = 0;
	uint32_t n = 0;
	int status = 0;

	if (!copy)
		return command_complain("--%s: out of memory",
					options_known[option - OPT_BACKEND].name);
	while (status == 0 && (word = strsep(&rest, ","))) {
		if (n == BENCH_SHAPES_MAX)
			status = bad_value(option, list, "at most 16 numbers");
		else
			status = read_number(option, word, min, max, &number);
		if (status == 0 && number % min)
			status = bad_value(option, word, "a multiple of 32");
		if (status == 0)
			numbers[n++] = (uint32_t)number;
	}
	free(copy);
	*ret_n = n;
	return status;
}

static int read_pin(const char *value, struct reading *reading)
{
	static const char *const pins[] = {"auto", "yes", "no", NULL};
	int place = find_word(value, pins);

	if (place < 0)
		return bad_value(OPT_PIN, value, "auto, yes or no");
	reading->pin = place;
	return 0;
}

static int read_buffers(const char *value, struct bench_options *options)
{
	uint64_t buffers;
	int status = read_number(OPT_BUFFERS, value, 1, BENCH_BUFFERS_MAX, &buffers);

	if (status == 0)
		options->buffers = (uint32_t)buffers;
	return status;
}

static int read_gap(const char *value, struct bench_options *options)
{
	uint64_t us[2] = {0, 0};
	char *copy = strdup(value);
	char *rest = copy;
	char *word;
	uint32_t n = 0;
	int status = 0;

	if (!copy)
		return command_complain("--gap-us: out of memory");
	while (status == 0 && (word = strsep(&rest, ","))) {
		if (n == 2)
			status = bad_value(OPT_GAP_US, value, "one number, or two with a comma");
		else
			status = read_number(OPT_GAP_US, word, 0, WORKLOAD_GAP_US_MAX, &us[n++]);
	}
	free(copy);
	options->gap_ns = us[0] * 1000;
	options->skew_ns = us[1] * 1000;
	return status;
}

static int read_ranks(const char *value, struct bench_options *options)
{
	uint64_t nranks;
	int status = read_number(OPT_RANKS, value, 1, BELAY_RANKS_MAX, &nranks);

	if (status == 0)
		options->nranks = (uint32_t)nranks;
	return status;
}

/* Options with a value that changes more than one place, or none here. */
static int read_text_option(int option, const char *value, struct reading *reading)
{
	struct bench_options *options = reading->options;

	switch (option) {
	case OPT_BACKEND:
		return read_backend(value, options);
	case OPT_SIZES:
		return read_sizes(value, options);
	case OPT_DTYPE:
		return read_dtype(value, options);
	case OPT_OP:
		return read_op(value, options);
	case OPT_ALGORITHM:
		return read_algorithm(value, options);
	case OPT_BLOCKS:
		return read_shapes(option, value, 1, 256, options->blocks, &options->nblocks);
	case OPT_THREADS:
		return read_shapes(option, value, 32, 512, options->threads, &options->nthreads);
	case OPT_GAP_US:
		return read_gap(value, options);
	case OPT_PIN:
		return read_pin(value, reading);
	case OPT_PATHS:
		return read_setting(option, value, "BELAY_PATHS");
	case OPT_FAULT:
		return read_setting(option, value, "BELAY_FAULT");
	case OPT_LOG_DIR:
		return read_setting(option, value, "BELAY_LOG_DIR");
	default: /* OPT_FORMAT */
		if (command_parse_format(value, &options->format))
			return bad_value(option, value, "text or json");
		return 0;
	}
}

static int read_option(int option, const char *value, struct reading *reading)
{
	struct bench_options *options = reading->options;

	switch (option) {
	case OPT_RANKS:
		return read_ranks(value, options);
	case OPT_ITERS:
		return read_number(option, value, 1, 1000000000, &options->iterations);
	case OPT_WARMUP:
		return read_number(option, value, 0, 1000000000, &options->warmup);
	case OPT_PASSES:
		return read_number(option, value, 1, WORKLOAD_PASSES_MAX, &reading->passes);
	case OPT_FIRST_SEQ:
		return read_number(option, value, 1, BENCH_SEQ_MAX, &options->first_seq);
	case OPT_GRAPH:
		options->graph = 1;
		return 0;
	case OPT_CALLS_PER_GRAPH:
		return read_number(option, value, 1, BENCH_GRAPH_CALLS_MAX,
				   &options->calls_per_graph);
	case OPT_BUFFERS:
		return read_buffers(value, options);
	case OPT_EAGER_HOST_TIME:
		options->host_time = 1;
		return 0;
	case OPT_IN_PLACE:
		options->in_place = 1;
		return 0;
	case OPT_REGION_BUFFERS:
		options->region_buffers = 1;
		return 0;
	case OPT_TUNE:
		options->tune = value;
		return 0;
	case OPT_WORKLOAD:
		options->workload_name = value;
		return 0;
	case OPT_SCRIPT:
		options->script_name = value;
		return 0;
	case OPT_HELP:
		options->help = 1;
		return 0;
	case OPT_VERSION:
		options->version = 1;
		return 0;
	default:
		return read_text_option(option, value, reading);
	}
}

static int given(const struct reading *reading, int option)
{
	return (reading->given & 1u << (option - OPT_BACKEND)) != 0;
}

/* Two options that do not go together. */
static int check_pairs(const struct reading *reading)
{
	static const struct {
		int option, other;
		const char *why;
	} apart[] = {
		{OPT_SIZES, OPT_WORKLOAD, "the workload says how large its calls are"},
		{OPT_DTYPE, OPT_WORKLOAD, "the workload says of which type its calls are"},
		{OPT_ITERS, OPT_WORKLOAD, "--passes says how many"},
		{OPT_WARMUP, OPT_WORKLOAD, "workloads have no warm-up"},
		{OPT_TUNE, OPT_WORKLOAD, "tuning measures sizes"},
		{OPT_TUNE, OPT_ALGORITHM, "tuning measures both"},
		{OPT_TUNE, OPT_FAULT, "tuning measures healthy calls"},
		{OPT_EAGER_HOST_TIME, OPT_GRAPH, "in a graph the host makes no calls"},
		{OPT_EAGER_HOST_TIME, OPT_WORKLOAD, "it is measured for sizes"},
		{OPT_CALLS_PER_GRAPH, OPT_WORKLOAD, "a graph has the calls of a pass"},
		{OPT_GAP_US, OPT_WORKLOAD, "the workload says how long ranks compute"},
		{OPT_GAP_US, OPT_TUNE, "tuning measures calls alone"},
		{OPT_RANKS, OPT_SCRIPT, "the script says how many"},
		{OPT_SIZES, OPT_SCRIPT, "the script says how large its calls are"},
		{OPT_DTYPE, OPT_SCRIPT, "the script says of which type its calls are"},
		{OPT_OP, OPT_SCRIPT, "the script says what its calls do"},
		{OPT_IN_PLACE, OPT_SCRIPT, "the script says which calls are in place"},
		{OPT_ITERS, OPT_SCRIPT, "a script is run once"},
		{OPT_WARMUP, OPT_SCRIPT, "scripts have no warm-up"},
		{OPT_GRAPH, OPT_SCRIPT, "its calls are made one by one"},
		{OPT_TUNE, OPT_SCRIPT, "tuning measures sizes"},
		{OPT_WORKLOAD, OPT_SCRIPT, "one of them is run"},
		{OPT_EAGER_HOST_TIME, OPT_SCRIPT, "it is measured for sizes"},
	};

	for (size_t i = 0; i < sizeof(apart) / sizeof(apart[0]); i++) {
		if (given(reading, apart[i].option) && given(reading, apart[i].other))
			return command_complain("--%s and --%s exclude each other: %s",
						options_known[apart[i].option - OPT_BACKEND].name,
						options_known[apart[i].other - OPT_BACKEND].name,
						apart[i].why);
	}
	if (given(reading, OPT_PASSES) && !given(reading, OPT_WORKLOAD))
		return command_complain("--passes needs --workload");
	if (reading->options->graph && reading->options->backend != BENCH_CUDA)
		return command_complain("--graph needs --backend=cuda: there are no graphs on the "
					"host path");
	if (reading->options->algorithm && !reading->options->algorithm->host &&
	    reading->options->backend != BENCH_CUDA)
		return command_complain("--algorithm '%s' needs --backend=cuda",
					reading->options->algorithm->name);
	if (given(reading, OPT_CALLS_PER_GRAPH) && !given(reading, OPT_GRAPH))
		return command_complain("--calls-per-graph needs --graph");
	if (given(reading, OPT_GAP_US) && !given(reading, OPT_GRAPH))
		return command_complain("--gap-us needs --graph");
	if (reading->options->host_time && reading->options->backend != BENCH_CUDA)
		return command_complain("--eager-host-time needs --backend=cuda");
	return 0;
}

static int check_sizes(const struct bench_options *options)
{
	size_t element = belay_dtype_bytes(options->dtype);

	for (uint32_t i = 0; i < options->nsizes; i++) {
		if (options->sizes[i] % element)
			return command_complain("--sizes '%" PRIu64 "': expected a multiple of %zu "
						"bytes, the size of %s",
						options->sizes[i], element,
						belay_dtype_name(options->dtype));
	}
	return 0;
}

static int read_workload_file(const char *name, struct workload *workload)
{
	char problem[512];
	FILE *file = fopen(name, "re");
	int status;

	if (!file)
		return command_complain(
			"--workload '%s': no workload of that name, and no file: %s", name,
			strerror(errno));
	status = workload_read(file, name, workload, problem, sizeof(problem));
	(void)fclose(file); /* only read */
	return status ? command_complain("%s", problem) : 0;
}

static int read_workload(struct reading *reading)
{
	struct bench_options *options = reading->options;
	int status;

	if (!options->workload_name)
		return 0;
	status = workload_builtin(options->workload_name, reading->passes ? reading->passes : 100,
				  &options->workload);
	if (status < 0)
		return command_complain("--workload: out of memory");
	if (status == 0)
		return 0;
	status = read_workload_file(options->workload_name, &options->workload);
	if (status == 0 && reading->passes)
		workload_limit(&options->workload, reading->passes);
	return status;
}

static int read_script(struct bench_options *options)
{
	const char *name = options->script_name;
	char problem[512];
	FILE *file;
	int status;

	if (!name)
		return 0;
	file = fopen(name, "re");
	if (!file)
		return command_complain("--script '%s': %s", name, strerror(errno));
	status = bench_script_read(file, name, &options->script, problem, sizeof(problem));
	(void)fclose(file); /* only read */
	if (status)
		return command_complain("%s", problem);
	options->nranks = options->script.nranks;
	for (uint64_t i = 0; i < options->script.ncalls; i++)
		options->region_buffers |= (options->script.calls[i].flags & SCRIPT_REGION) != 0;
	return 0;
}

/* What no option has said comes from the environment: told once here, not by each rank. */
static int check_settings(void)
{
	struct belay_setting setting = {.size = sizeof(setting)};

	if (belay_setting_get(0, NULL, &setting) == BELAY_E_SETTING)
		return command_complain("%s", belay_last_error());
	return 0;
}

/* The library knows the number of ranks only when they meet; who asks for a rank too many here is
 * told before. The rest of the spec has been checked. */
static int check_fault_ranks(int nranks)
{
	const char *at = getenv("BELAY_FAULT");

	while (at && (at = strstr(at, "rank=")) != NULL) {
		at += strlen("rank=");
		if (*at != '*' && strtol(at, NULL, 10) >= nranks)
			return command_complain("--fault '%s': expected ranks from 0 to %d",
						getenv("BELAY_FAULT"), nranks - 1);
	}
	return 0;
}

/* The ranks would run on without a log; who asks for one here wants to know first. Made as the
 * library makes it. */
static int check_log_dir(const char *dir)
{
	int made = mkdir(dir, LOG_DIR_MODE) == 0 || errno == EEXIST;
	int fd = made ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int writable = fd >= 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
	int error = errno;

	if (fd >= 0)
		(void)close(fd); /* only looked at */
	if (writable)
		return 0;
	return command_complain(
		"--log-dir '%s': expected a folder to write into, or the name of a new one: "
		"%s",
		dir, strerror(error));
}

static int check_graph_calls(const struct bench_options *options)
{
	for (size_t i = 0; options->graph && i < options->workload.nlines; i++) {
		if (options->workload.lines[i].calls > BENCH_GRAPH_CALLS_MAX)
			return command_complain("--graph: a pass of the workload has %" PRIu64
						" calls; expected at most %d",
						options->workload.lines[i].calls,
						BENCH_GRAPH_CALLS_MAX);
	}
	return 0;
}

/* What can be checked only when all options are known. */
static int finish(struct reading *reading)
{
	struct bench_options *options = reading->options;
	int status = check_pairs(reading);

	if (status == 0 && !options->nsizes)
		status = read_sizes(default_sizes, options);
	if (status == 0 && !options->workload_name)
		status = check_sizes(options);
	if (status == 0)
		status = read_workload(reading);
	if (status == 0)
		status = read_script(options);
	if (status == 0)
		status = check_graph_calls(options);
	if (status == 0)
		status = check_settings();
	if (status == 0)
		status = check_fault_ranks((int)options->nranks);
	if (status == 0 && given(reading, OPT_LOG_DIR))
		status = check_log_dir(getenv("BELAY_LOG_DIR"));
	/* Shapes are measured as they are used. */
	if (options->tune && options->backend == BENCH_CUDA)
		options->graph = 1;
	/* A replay has many calls: few replays do. */
	if (options->graph && !given(reading, OPT_WARMUP))
		options->warmup = GRAPH_WARMUP;
	if (options->graph && !given(reading, OPT_ITERS))
		options->iterations = GRAPH_ITERATIONS;
	options->pin = reading->pin == 0 ? BENCH_PIN_AUTO : reading->pin == 1;
	return status;
}

static int long_form(int option)
{
	return option == 'h' ? OPT_HELP : option == 'V' ? OPT_VERSION : option;
}

int bench_options_parse(int argc, char **argv, struct bench_options *ret_options)
{
	struct reading reading = {.options = ret_options};
	int option;
	int status = 0;

	*ret_options = (struct bench_options){.nranks = 2,
					      .dtype = BELAY_BF16,
					      .op = BELAY_SUM,
					      .iterations = 200,
					      .warmup = 20,
					      .calls_per_graph = GRAPH_CALLS,
					      .buffers = BUFFERS,
					      .blocks = {32},
					      .threads = {256}};
	opterr = 0;
	/* Not checked with the other settings either: --backend says where. Cannot fail. */
	(void)unsetenv("BELAY_DEVICE");
	while (status == 0 &&
	       (option = getopt_long(argc, argv, ":hV", options_known, NULL)) != -1) {
		option = long_form(option);
		if (option < OPT_BACKEND)
			return command_bad_option(option, argv);
		reading.given |= 1u << (option - OPT_BACKEND);
		status = read_option(option, optarg, &reading);
		if (ret_options->help || ret_options->version)
			return status;
	}
	if (status == 0 && optind < argc)
		status = command_complain("unexpected operand '%s'", argv[optind]);
	if (status == 0)
		status = finish(&reading);
	return status;
}

void bench_options_free(struct bench_options *options)
{
	workload_free(&options->workload);
	bench_script_free(&options->script);
}

static struct bench_step sweep_step(const struct bench_options *options, uint64_t bytes)
{
	return (struct bench_step){.passes = 1,
				   .calls = options->iterations,
				   .per_sample = options->graph ? options->calls_per_graph : 1,
				   .warmup = options->warmup,
				   .count = bytes / belay_dtype_bytes(options->dtype),
				   .gap_ns = options->gap_ns,
				   .skew_ns = options->skew_ns,
				   .dtype = options->dtype};
}

static struct bench_step workload_step(const struct workload_line *line, int graph)
{
	return (struct bench_step){.passes = line->passes,
				   .calls = graph ? 1 : line->calls,
				   .per_sample = graph ? line->calls : 1,
				   .count = line->count,
				   .gap_ns = line->gap_ns,
				   .dtype = line->dtype,
				   .in_passes = 1};
}

int bench_options_steps(const struct bench_options *options, struct bench_step **ret_steps,
			uint32_t *ret_nsteps)
{
	size_t n = options->script_name	    ? 0
		   : options->workload_name ? options->workload.nlines
					    : options->nsizes;
	struct bench_step *steps = calloc(n + 1, sizeof(*steps));

	if (!steps)
		return -1;
	for (size_t i = 0; i < n; i++)
		steps[i] = options->workload_name
				   ? workload_step(&options->workload.lines[i], options->graph)
				   : sweep_step(options, options->sizes[i]);
	*ret_steps = steps;
	*ret_nsteps = (uint32_t)n;
	return 0;
}
