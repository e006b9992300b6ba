/* SPDX-License-Identifier: Apache-2.0 */
/* trace-analyze: options and exit status only; tools/analyze/ does the work. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/analyze/compare.h"
#include "tools/analyze/driver.h"
#include "tools/analyze/interrupt.h"
#include "tools/analyze/replay_run.h"
#include "tools/output_file.h"

/* Exit statuses: an interface, in the man page and in tests/cli. 2 and 4 are those of every
 * command. */
enum exit_status {
	EXIT_SOUND = 0,	   /* every call is sound */
	EXIT_FINDINGS = 1, /* the data is sound and holds rescues, mismatches, digest differences or
			      a verdict */
	EXIT_USAGE = COMMAND_USAGE,
	EXIT_LOSSES = 3, /* input missing, damaged or with lost records; wins over EXIT_FINDINGS */
	EXIT_NOT_WRITTEN = COMMAND_NOT_WRITTEN
};

static const char help[] =
	"Usage: trace-analyze [COMMAND] [OPTION]... INPUT...\n"
	"Tells what happened in a recording of belay. INPUT is a call log, a folder of call logs\n"
	"(searched below) or an LTTng trace folder; several are joined by communicator and call.\n"
	"\n"
	"Commands:\n"
	"  summary             one screen: latency, passes, who was late, what was rescued, the\n"
	"                      verdict, what is missing from the data (the default)\n"
	"  passes              a row a pass\n"
	"  stragglers          a row a rank: how often it was the last to arrive, by how much\n"
	"  faults              what went wrong, in the order of time\n"
	"  calls               a row a call and rank\n"
	"  report              a page of HTML with plots, which needs nothing else\n"
	"  export              the calls, for other programs\n"
	"  what-if             what ranks on time, another path or other deadlines would have\n"
	"                      changed\n"
	"  compare             two recordings side by side: two INPUTs\n"
	"  replay              the same calls again through libbelay, compared pass by pass\n"
	"\n"
	"Options:\n"
	"      --format=FORMAT   text (the default) or json\n"
	"      --output=FILE     write there instead of standard output; never over an input\n"
	"      --absolute        times of CLOCK_MONOTONIC instead of times from the first call\n"
	"      --progress        progress on standard error even where that is no terminal\n"
	"      --seq=A:B         only the calls A to B; A alone: one call     (calls, export,\n"
	"                        replay)\n"
	"      --pass=N          only the calls of pass N                     (calls, export,\n"
	"                        replay)\n"
	"      --rank=R          only the records of rank R                   (calls, export)\n"
	"      --slower-than=US  only records of more than US microseconds    (calls, export)\n"
	"      --to=FORMAT       csv, json or perfetto                        (export)\n"
	"      --on-time=R,...   these ranks no later than the others         (what-if)\n"
	"      --costs=FILE      calls at the measured costs of this table, a JSON document of\n"
	"                        belay-bench                                  (what-if)\n"
	"      --path=NAME       ... on this path of it, not the cheapest     (what-if)\n"
	"      --late-ms=MS      another soft deadline                        (what-if)\n"
	"      --give-up-ms=MS   another hard deadline                        (what-if)\n"
	"      --backend=NAME    auto (the default), host or cuda             (replay)\n"
	"      --paths=LIST      allowed paths, in order of preference        (replay)\n"
	"      --speed=SPEED     recorded (the default) or max                (replay)\n"
	"      --log-dir=DIR     keeps the call logs of the replay there      (replay)\n"
	"  -h, --help            print this text\n"
	"  -V, --version         print the version\n"
	"\n"
	"Exit status: 0 every call is sound; 1 there were rescues, mismatches, digest differences "
	"or\n"
	"a verdict; 2 wrong usage; 3 input is missing, damaged or has lost records; 4 the output\n"
	"could not be written; 77 the backend of replay is not on this machine.\n";

enum option_code {
	OPTION_FORMAT = 256,
	OPTION_OUTPUT,
	OPTION_ABSOLUTE,
	OPTION_PROGRESS,
	OPTION_SEQ,
	OPTION_PASS,
	OPTION_RANK,
	OPTION_SLOWER_THAN,
	OPTION_TO,
	OPTION_ON_TIME,
	OPTION_COSTS,
	OPTION_PATH,
	OPTION_LATE_MS,
	OPTION_GIVE_UP_MS,
	OPTION_BACKEND,
	OPTION_PATHS,
	OPTION_SPEED,
	OPTION_LOG_DIR
};

static const struct option long_options[] = {
	{"format", required_argument, NULL, OPTION_FORMAT},
	{"output", required_argument, NULL, OPTION_OUTPUT},
	{"absolute", no_argument, NULL, OPTION_ABSOLUTE},
	{"progress", no_argument, NULL, OPTION_PROGRESS},
	{"seq", required_argument, NULL, OPTION_SEQ},
	{"pass", required_argument, NULL, OPTION_PASS},
	{"rank", required_argument, NULL, OPTION_RANK},
	{"slower-than", required_argument, NULL, OPTION_SLOWER_THAN},
	{"to", required_argument, NULL, OPTION_TO},
	{"on-time", required_argument, NULL, OPTION_ON_TIME},
	{"costs", required_argument, NULL, OPTION_COSTS},
	{"path", required_argument, NULL, OPTION_PATH},
	{"late-ms", required_argument, NULL, OPTION_LATE_MS},
	{"give-up-ms", required_argument, NULL, OPTION_GIVE_UP_MS},
	{"backend", required_argument, NULL, OPTION_BACKEND},
	{"paths", required_argument, NULL, OPTION_PATHS},
	{"speed", required_argument, NULL, OPTION_SPEED},
	{"log-dir", required_argument, NULL, OPTION_LOG_DIR},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

enum command_number {
	COMMAND_SUMMARY = 0,
	COMMAND_PASSES,
	COMMAND_STRAGGLERS,
	COMMAND_FAULTS,
	COMMAND_CALLS,
	COMMAND_REPORT,
	COMMAND_EXPORT,
	COMMAND_WHAT_IF,
	COMMAND_COMPARE,
	COMMAND_REPLAY,
	COMMANDS
};

/* `json`: NULL where there is one format only. */
static const struct {
	const char *name;
	const struct command_ops *text, *json;
} commands[COMMANDS] = {
	[COMMAND_SUMMARY] = {"summary", &command_summary_text, &command_summary_json},
	[COMMAND_PASSES] = {"passes", &command_passes_text, &command_passes_json},
	[COMMAND_STRAGGLERS] = {"stragglers", &command_stragglers_text, &command_stragglers_json},
	[COMMAND_FAULTS] = {"faults", &command_faults_text, &command_faults_json},
	[COMMAND_CALLS] = {"calls", &command_calls_text, &command_calls_json},
	[COMMAND_REPORT] = {"report", &command_report, NULL},
	[COMMAND_EXPORT] = {"export", &command_export_csv, &command_export_json},
	[COMMAND_WHAT_IF] = {"what-if", &command_what_if_text, &command_what_if_json},
	[COMMAND_COMPARE] = {"compare", &compare_ops, &compare_ops},
	[COMMAND_REPLAY] = {"replay", &compare_ops, &compare_ops},
};

/* Options that only some commands take. */
#define FILTERED (1u << COMMAND_CALLS | 1u << COMMAND_EXPORT)
#define CHOOSING (FILTERED | 1u << COMMAND_REPLAY)
static const struct {
	enum option_code code;
	unsigned commands; /* bits of enum command_number */
	const char *name, *whose;
} homes[] = {
	{OPTION_SEQ, CHOOSING, "--seq", "calls, export and replay"},
	{OPTION_PASS, CHOOSING, "--pass", "calls, export and replay"},
	{OPTION_RANK, FILTERED, "--rank", "calls and export"},
	{OPTION_SLOWER_THAN, FILTERED, "--slower-than", "calls and export"},
	{OPTION_TO, 1u << COMMAND_EXPORT, "--to", "export"},
	{OPTION_ON_TIME, 1u << COMMAND_WHAT_IF, "--on-time", "what-if"},
	{OPTION_COSTS, 1u << COMMAND_WHAT_IF, "--costs", "what-if"},
	{OPTION_PATH, 1u << COMMAND_WHAT_IF, "--path", "what-if"},
	{OPTION_LATE_MS, 1u << COMMAND_WHAT_IF, "--late-ms", "what-if"},
	{OPTION_GIVE_UP_MS, 1u << COMMAND_WHAT_IF, "--give-up-ms", "what-if"},
	{OPTION_BACKEND, 1u << COMMAND_REPLAY, "--backend", "replay"},
	{OPTION_PATHS, 1u << COMMAND_REPLAY, "--paths", "replay"},
	{OPTION_SPEED, 1u << COMMAND_REPLAY, "--speed", "replay"},
	{OPTION_LOG_DIR, 1u << COMMAND_REPLAY, "--log-dir", "replay"},
};

struct request {
	size_t command;
	const char *output_path; /* NULL: standard output */
	uint64_t given;		 /* options: bit of enum option_code - OPTION_FORMAT */
	const char *costs_path;
	struct cost_table costs;
	struct replay_request replay;
	int progress; /* asked for */
	struct output output;
	struct output_file output_file; /* at output_path */
	char **operands;
	int noperands;
};

static int parse_range(const char *text, struct call_filter *filter)
{
	const char *colon = strchr(text, ':');
	uint64_t first = 0, last = UINT64_MAX;
	char left[32] = "";
	size_t length = colon ? (size_t)(colon - text) : strlen(text);

	if (length >= sizeof(left))
		return -1;
	memcpy(left, text, length);
	if (length && command_parse_number(left, &first) != 0)
		return -1;
	if (!length && !colon)
		return -1;
	if (!colon)
		last = first;
	else if (colon[1] && command_parse_number(colon + 1, &last) != 0)
		return -1;
	if (first > last)
		return -1;
	filter->seq_first = first;
	filter->seq_last = last;
	return 0;
}

static int parse_rank(const char *text, struct call_filter *filter)
{
	uint64_t rank;

	if (command_parse_number(text, &rank) != 0 || rank >= BELAY_RANKS_MAX)
		return -1;
	filter->ranks = rank_bit((uint32_t)rank);
	return 0;
}

/* More than US microseconds, a fraction allowed. */
static int parse_slower_than(const char *text, struct call_filter *filter)
{
	char *end = NULL;
	double us = strtod(text, &end);

	if (end == text || *end || !(us >= 0 && us < 1e15))
		return -1;
	filter->slower_than_ns = (uint64_t)(us * 1000.0) + 1;
	return 0;
}

static int parse_to(const char *text, enum export_format *ret_to)
{
	if (strcmp(text, "csv") == 0)
		*ret_to = EXPORT_CSV;
	else if (strcmp(text, "json") == 0)
		*ret_to = EXPORT_JSON;
	else if (strcmp(text, "perfetto") == 0)
		*ret_to = EXPORT_PERFETTO;
	else
		return -1;
	return 0;
}

static int take_filter(struct request *request, int code)
{
	struct call_filter *filter = &request->output.filter;

	switch (code) {
	case OPTION_SEQ:
		return parse_range(optarg, filter) == 0
			       ? 0
			       : command_complain("--seq takes A:B with A at most B, not '%s'",
						  optarg);
	case OPTION_PASS:
		return command_parse_number(optarg, &filter->pass) == 0 && filter->pass
			       ? 0
			       : command_complain("--pass takes a number from 1, not '%s'", optarg);
	case OPTION_RANK:
		return parse_rank(optarg, filter) == 0
			       ? 0
			       : command_complain("--rank takes 0 to %d, not '%s'",
						  BELAY_RANKS_MAX - 1, optarg);
	default:
		return parse_slower_than(optarg, filter) == 0
			       ? 0
			       : command_complain("--slower-than takes microseconds, not '%s'",
						  optarg);
	}
}

/* Ranks, separated by commas. */
static int parse_ranks(const char *text, uint64_t *ret_mask)
{
	uint64_t mask = 0;

	do {
		char *end = NULL;
		unsigned long rank = strtoul(text, &end, 10);

		if (*text < '0' || *text > '9' || rank >= BELAY_RANKS_MAX || (*end && *end != ','))
			return -1;
		mask |= rank_bit((uint32_t)rank);
		text = *end ? end + 1 : NULL;
	} while (text);
	*ret_mask = mask;
	return 0;
}

/* Milliseconds, a fraction allowed. */
static int parse_ms(const char *text, uint64_t *ret_ns)
{
	char *end = NULL;
	double ms = strtod(text, &end);

	if (end == text || *end || !(ms > 0 && ms < 1e12))
		return -1;
	*ret_ns = (uint64_t)(ms * 1e6 + 0.5);
	return *ret_ns ? 0 : -1;
}

static int parse_path(const char *text, uint8_t *ret_path)
{
	for (int path = BELAY_PATH_SYMM; path <= BELAY_PATH_RING; path++) {
		if (strcmp(text, belay_path_name((enum belay_path)path)) == 0) {
			*ret_path = (uint8_t)path;
			return 0;
		}
	}
	return -1;
}

static int take_question(struct request *request, int code)
{
	struct what_if_question *question = &request->output.question;

	switch (code) {
	case OPTION_ON_TIME:
		return parse_ranks(optarg, &question->on_time) == 0
			       ? 0
			       : command_complain("--on-time takes ranks from 0 to %d, not '%s'",
						  BELAY_RANKS_MAX - 1, optarg);
	case OPTION_COSTS:
		request->costs_path = optarg;
		return 0;
	case OPTION_PATH:
		return parse_path(optarg, &question->path) == 0
			       ? 0
			       : command_complain("--path takes symm, nccl, host or ring, not '%s'",
						  optarg);
	case OPTION_LATE_MS:
		return parse_ms(optarg, &question->late_ns) == 0
			       ? 0
			       : command_complain("--late-ms takes milliseconds, not '%s'", optarg);
	default:
		return parse_ms(optarg, &question->give_up_ns) == 0
			       ? 0
			       : command_complain("--give-up-ms takes milliseconds, not '%s'",
						  optarg);
	}
}

static int take_replay(struct request *request, int code)
{
	struct replay_request *replay = &request->replay;

	switch (code) {
	case OPTION_BACKEND:
		replay->backend = optarg;
		return strcmp(optarg, "auto") == 0 || strcmp(optarg, "host") == 0 ||
				       strcmp(optarg, "cuda") == 0
			       ? 0
			       : command_complain("--backend takes auto, host or cuda, not '%s'",
						  optarg);
	case OPTION_PATHS:
		replay->paths = optarg;
		return 0; /* the library knows them */
	case OPTION_SPEED:
		replay->at_full_speed = strcmp(optarg, "max") == 0;
		return replay->at_full_speed || strcmp(optarg, "recorded") == 0
			       ? 0
			       : command_complain("--speed takes recorded or max, not '%s'",
						  optarg);
	default:
		replay->log_dir = optarg;
		return *optarg ? 0 : command_complain("--log-dir takes the name of a folder");
	}
}

static int take_option(struct request *request, int code)
{
	request->given |= 1ull << (code - OPTION_FORMAT);
	switch (code) {
	case OPTION_FORMAT:
		return command_parse_format(optarg, &request->output.format) == 0
			       ? 0
			       : command_complain("--format takes text or json, not '%s'", optarg);
	case OPTION_OUTPUT:
		request->output_path = optarg;
		return *optarg ? 0 : command_complain("--output takes the name of a file");
	case OPTION_ABSOLUTE:
		request->output.absolute = 1;
		return 0;
	case OPTION_PROGRESS:
		request->progress = 1;
		return 0;
	case OPTION_TO:
		return parse_to(optarg, &request->output.to) == 0
			       ? 0
			       : command_complain("--to takes csv, json or perfetto, not '%s'",
						  optarg);
	case OPTION_ON_TIME:
	case OPTION_COSTS:
	case OPTION_PATH:
	case OPTION_LATE_MS:
	case OPTION_GIVE_UP_MS:
		return take_question(request, code);
	case OPTION_BACKEND:
	case OPTION_PATHS:
	case OPTION_SPEED:
	case OPTION_LOG_DIR:
		return take_replay(request, code);
	default:
		return take_filter(request, code);
	}
}

/* 1 if one letter too many, one too few, a wrong one or two that changed places make `word` of
 * `name`. */
static int is_slip_of(const char *word, const char *name)
{
	size_t n = strlen(word), m = strlen(name), same = 0, end = 0;

	while (word[same] && word[same] == name[same])
		same++;
	while (end < n - same && end < m - same && word[n - 1 - end] == name[m - 1 - end])
		end++;
	if (n - same - end == 2 && m - same - end == 2)
		return word[same] == name[same + 1] && word[same + 1] == name[same];
	return n - same - end <= 1 && m - same - end <= 1;
}

/* A command that was misspelt would be looked for as an input. */
static int check_spelling(const char *word)
{
	if (!*word || access(word, F_OK) == 0)
		return 0;
	for (size_t i = 0; i < COMMANDS; i++) {
		if (is_slip_of(word, commands[i].name))
			return command_complain(
				"'%s' is neither a command nor an input; '%s' is a command", word,
				commands[i].name);
	}
	return 0;
}

/* Takes the command out of the operands. */
static int take_command(struct request *request)
{
	const char *word = request->noperands ? request->operands[0] : "";

	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(word, commands[i].name) != 0)
			continue;
		request->command = i;
		request->operands++;
		request->noperands--;
		return 0;
	}
	return check_spelling(word);
}

static int is_given(const struct request *request, enum option_code code)
{
	return request->given >> (code - OPTION_FORMAT) & 1;
}

static int check_homes(const struct request *request)
{
	for (size_t i = 0; i < sizeof(homes) / sizeof(homes[0]); i++) {
		if (is_given(request, homes[i].code) &&
		    !(homes[i].commands >> request->command & 1))
			return command_complain("%s is an option of %s", homes[i].name,
						homes[i].whose);
	}
	return 0;
}

static int check_question(struct request *request)
{
	struct what_if_question *question = &request->output.question;
	char reason[COST_REASON_BYTES];

	if (!question->on_time && !request->costs_path && !question->late_ns &&
	    !question->give_up_ns)
		return command_complain(
			"what-if needs --on-time, --costs, --late-ms or --give-up-ms");
	if (!request->costs_path)
		return question->path ? command_complain("--path needs a table, see --costs") : 0;
	if (cost_table_load(request->costs_path, &request->costs, reason) != 0)
		return command_complain("--costs '%s': %s", request->costs_path, reason);
	if (question->path && !cost_table_has(&request->costs, question->path))
		return command_complain("--costs '%s' has no path %s", request->costs_path,
					belay_path_name(question->path));
	question->costs = &request->costs;
	return 0;
}

/* Nobody reads these there. */
static int check_terminal(const struct request *request, const char *what)
{
	return !request->output_path && isatty(STDOUT_FILENO)
		       ? command_complain("%s is not for a terminal: give --output", what)
		       : 0;
}

static int check_export(const struct request *request)
{
	if (!request->output.to)
		return command_complain("export needs --to=csv, --to=json or --to=perfetto");
	return request->output.to == EXPORT_PERFETTO ? check_terminal(request, "--to=perfetto") : 0;
}

/* What only the whole command line can tell. */
static int check(struct request *request)
{
	int status = take_command(request);

	if (status != 0)
		return status;
	if (request->noperands == 0)
		return command_complain("no input was given");
	status = check_homes(request);
	if (status != 0)
		return status;
	if (is_given(request, OPTION_FORMAT) && !commands[request->command].json)
		return command_complain("%s has one format: --format is not for it",
					commands[request->command].name);
	if (request->command == COMMAND_WHAT_IF)
		return check_question(request);
	if (request->command == COMMAND_COMPARE && request->noperands != 2)
		return command_complain("compare takes two inputs, not %d", request->noperands);
	if (request->command == COMMAND_EXPORT)
		return check_export(request);
	if (request->command == COMMAND_REPORT)
		return check_terminal(request, "report");
	return 0;
}

/* Returns -1 to go on, else the exit status. */
static int parse(int argc, char **argv, struct request *request)
{
	int code, status = 0;

	opterr = 0;
	while (status == 0 && (code = getopt_long(argc, argv, ":hV", long_options, NULL)) != -1) {
		if (code == 'h')
			return command_help(help);
		if (code == 'V')
			return command_version();
		if (code == '?' || code == ':')
			return command_bad_option(code, argv);
		status = take_option(request, code);
	}
	if (status != 0)
		return status;
	request->operands = argv + optind;
	request->noperands = argc - optind;
	status = check(request);
	return status == 0 ? -1 : status;
}

static void choose_ops(struct request *request)
{
	static const struct command_ops *const exports[] = {
		[EXPORT_CSV] = &command_export_csv,
		[EXPORT_JSON] = &command_export_json,
		[EXPORT_PERFETTO] = &command_export_perfetto,
	};
	struct output *output = &request->output;

	if (output->to)
		output->ops = exports[output->to];
	else if (output->format == COMMAND_JSON)
		output->ops = commands[request->command].json;
	else
		output->ops = commands[request->command].text;
}

/* Opens the output, which is none of both inputs. Returns 0 or an exit status. */
static int open_output(struct request *request, const struct inputs *inputs)
{
	struct output *output = &request->output;
	const char *path = request->output_path;

	output->file = stdout;
	if (path) {
		if (inputs_contain(&inputs[0], path) || inputs_contain(&inputs[1], path))
			return command_complain("--output '%s' is an input", path);
		if (output_file_open(&request->output_file, path) != 0) {
			command_error("cannot write '%s': %s", path, strerror(errno));
			return EXIT_NOT_WRITTEN;
		}
		output->file = request->output_file.file;
	}
	output->colour = command_colour(output->file);
	return 0;
}

/* What could not be made whole does not get the name that was asked for. */
static int close_output(struct request *request, int status)
{
	const char *path = request->output_path;

	if (!request->output.file)
		return status; /* never opened */
	if (!path)
		return command_finish(stdout, "standard output", status);
	status = command_finish(request->output_file.file, path, status);
	if (status == EXIT_NOT_WRITTEN) {
		output_file_discard(&request->output_file);
	} else if (output_file_commit(&request->output_file) != 0) {
		command_error("cannot write '%s': %s", path, strerror(errno));
		status = EXIT_NOT_WRITTEN;
	}
	return status;
}

/* Whole lines are nicer to find than a cut one, but a reader of a pipe is not waited for. */
static void flush_what_fits(FILE *file)
{
	struct pollfd ready = {.fd = fileno(file), .events = POLLOUT};

	if (!ferror(file) && poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT)
		(void)fflush(file);
}

/* A signal came in the middle: there is no document. */
static void drop_output(struct request *request)
{
	if (request->output_path)
		output_file_discard(&request->output_file);
	else
		flush_what_fits(stdout);
}

static int exit_status_of(const struct findings *findings)
{
	if (findings->losses)
		return EXIT_LOSSES;
	return findings->failures ? EXIT_FINDINGS : EXIT_SOUND;
}

/* To compare each operand stands for itself. */
static int read_inputs(const struct request *request, struct inputs *inputs)
{
	int status;

	if (request->command != COMMAND_COMPARE)
		return driver_read(inputs, request->operands, request->noperands);
	status = driver_read(&inputs[0], &request->operands[0], 1);
	return status == 0 ? driver_read(&inputs[1], &request->operands[1], 1) : status;
}

/* *ret_exit: an exit status that goes before what is found; else untouched. */
static int run_command(struct request *request, struct inputs *inputs,
		       struct findings *ret_findings, int *ret_exit)
{
	if (request->command == COMMAND_COMPARE)
		return compare_run(inputs, request->operands, &request->output, ret_findings);
	if (request->command == COMMAND_REPLAY)
		return replay_run(&request->replay, inputs, &request->output, ret_findings,
				  ret_exit);
	choose_ops(request);
	return driver_run(inputs, &request->output, ret_findings);
}

static int analyze(struct request *request)
{
	struct progress progress;
	struct inputs inputs[2] = {{.progress = &progress}, {.progress = &progress}};
	struct findings findings = {0};
	int exit_status = EXIT_NOT_WRITTEN;
	int status;

	progress_init(&progress, request->progress);
	status = read_inputs(request, inputs);
	progress_clear(&progress);
	if (status == 0) {
		exit_status = open_output(request, inputs);
		if (exit_status != 0)
			goto out;
		status = run_command(request, inputs, &findings, &exit_status);
		if (exit_status == 0)
			exit_status = exit_status_of(&findings);
	}
	if (status == BELAY_E_ABORTED) {
		drop_output(request);
		goto out;
	}
	/* A full disk stops the run as well; close_output() names it. */
	if (status == BELAY_E_NO_MEMORY) {
		command_error("out of memory: the output is not complete");
		exit_status = EXIT_NOT_WRITTEN;
	}
	exit_status = close_output(request, exit_status);
out:
	inputs_free(&inputs[0]);
	inputs_free(&inputs[1]);
	return exit_status;
}

int main(int argc, char **argv)
{
	struct request request = {.output.filter = {.seq_last = UINT64_MAX, .ranks = UINT64_MAX}};
	int status;

	command_begin("trace-analyze");
	status = parse(argc, argv, &request);
	if (status < 0) {
		interrupt_begin();
		status = analyze(&request);
	}
	cost_table_free(&request.costs);
	interrupt_end();
	return status;
}
