/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_script.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_workload.h"
#include "tools/command_line.h"

/* A gap for each of 64 ranks, and some. */
#define LINE_BYTES_MAX 2048
#define BLANKS	       " \t\r\n"

/* A script while it is read, and where to say what is wrong. */
struct reading {
	const char *file;
	size_t line;
	char *problem;
	size_t problem_size;
	struct bench_script script;
	uint64_t room; /* calls that there is memory for */
	int in_pass;
	int begins_pass; /* the next call */
};

/* Says what is wrong where. Returns -1. */
static int problem(const struct reading *reading, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int problem(const struct reading *reading, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	snprintf(reading->problem, reading->problem_size, "%s:%zu: %s", reading->file,
		 reading->line, text);
	return -1;
}

static int make_room(struct reading *reading)
{
	struct bench_script *script = &reading->script;
	uint64_t room = reading->room ? 2 * reading->room : 1024;
	void *calls, *gaps;

	if (script->ncalls < reading->room)
		return 0;
	if (script->ncalls == SCRIPT_CALLS_MAX)
		return problem(reading, "more than %" PRIu64 " calls", SCRIPT_CALLS_MAX);
	calls = realloc(script->calls, room * sizeof(*script->calls));
	if (calls)
		script->calls = calls;
	gaps = realloc(script->gaps_ns, room * script->nranks * sizeof(*script->gaps_ns));
	if (gaps)
		script->gaps_ns = gaps;
	if (!calls || !gaps)
		return problem(reading, "out of memory");
	reading->room = room;
	return 0;
}

static int read_op(const char *word, uint8_t *ret_op)
{
	for (int op = BELAY_SUM; word && op <= BELAY_PROD; op++) {
		if (strcmp(word, belay_op_name((enum belay_op)op)) == 0) {
			*ret_op = (uint8_t)op;
			return 0;
		}
	}
	return -1;
}

static int read_flags(const char *word, uint16_t *ret_flags)
{
	*ret_flags = 0;
	if (word && strcmp(word, "-") == 0)
		return 0;
	for (; word && *word; word++) {
		if (*word != 'i' && *word != 'r')
			return -1;
		*ret_flags |= *word == 'i' ? SCRIPT_IN_PLACE : SCRIPT_REGION;
	}
	return word ? 0 : -1;
}

/* One gap, which is all ranks', or one for each. */
static int read_gaps(const struct reading *reading, char *word, uint64_t *ret_gaps)
{
	uint32_t nranks = reading->script.nranks, n = 0;
	char *rest = NULL;

	for (char *gap = word ? strtok_r(word, ",", &rest) : NULL; gap;
	     gap = strtok_r(NULL, ",", &rest)) {
		if (n == nranks || command_parse_number(gap, &ret_gaps[n]) != 0 ||
		    ret_gaps[n] > SCRIPT_GAP_NS_MAX)
			return -1;
		n++;
	}
	for (uint32_t rank = 1; n == 1 && rank < nranks; rank++)
		ret_gaps[rank] = ret_gaps[0];
	return n == 1 || n == nranks ? 0 : -1;
}

static int read_call(struct reading *reading, char *count, char **rest)
{
	struct bench_script *script = &reading->script;
	struct script_call call = {0};
	const char *dtype = strtok_r(NULL, BLANKS, rest), *op = strtok_r(NULL, BLANKS, rest);
	const char *flags = strtok_r(NULL, BLANKS, rest);
	char *gaps = strtok_r(NULL, BLANKS, rest);

	if (!script->nranks)
		return problem(reading, "'%.20s': expected 'ranks N' first", count);
	if (make_room(reading))
		return -1;
	if (command_parse_number(count, &call.count) || call.count > WORKLOAD_COUNT_MAX)
		return problem(reading,
			       "'%.20s': expected ranks, begin, end or a number of elements",
			       count);
	call.dtype = dtype ? (uint8_t)workload_dtype(dtype) : 0;
	if (!call.dtype)
		return problem(reading, "expected a dtype behind the count");
	if (read_op(op, &call.op))
		return problem(reading, "expected sum, max, min or prod behind the dtype");
	if (read_flags(flags, &call.flags))
		return problem(reading, "expected flags, i, r or -, behind the op");
	if (read_gaps(reading, gaps, &script->gaps_ns[script->ncalls * script->nranks]))
		return problem(reading,
			       "expected one gap in ns, or one for each of %" PRIu32
			       " ranks, behind the flags",
			       script->nranks);
	call.flags |= reading->begins_pass ? SCRIPT_BEGINS_PASS : 0;
	reading->begins_pass = 0;
	script->calls[script->ncalls++] = call;
	return 0;
}

static int read_ranks(struct reading *reading, const char *word)
{
	uint64_t nranks;

	if (reading->script.nranks)
		return problem(reading, "'ranks' is given twice");
	if (!word || command_parse_number(word, &nranks) || nranks < 1 || nranks > BELAY_RANKS_MAX)
		return problem(reading, "expected 1 to %d ranks", BELAY_RANKS_MAX);
	reading->script.nranks = (uint32_t)nranks;
	return 0;
}

static int begin_pass(struct reading *reading)
{
	if (reading->in_pass)
		return problem(reading, "'begin' within a pass");
	reading->in_pass = 1;
	reading->begins_pass = 1;
	return 0;
}

static int end_pass(struct reading *reading)
{
	struct bench_script *script = &reading->script;

	if (!reading->in_pass || reading->begins_pass)
		return problem(reading, "'end' of a pass without calls");
	reading->in_pass = 0;
	script->calls[script->ncalls - 1].flags |= SCRIPT_ENDS_PASS;
	return 0;
}

static int read_line(struct reading *reading, char *text)
{
	char *rest = NULL, *word;
	int status;

	text[strcspn(text, "#")] = '\0';
	word = strtok_r(text, BLANKS, &rest);
	if (!word)
		return 0;
	if (strcmp(word, "ranks") == 0)
		status = read_ranks(reading, strtok_r(NULL, BLANKS, &rest));
	else if (strcmp(word, "begin") == 0)
		status = begin_pass(reading);
	else if (strcmp(word, "end") == 0)
		status = end_pass(reading);
	else
		status = read_call(reading, word, &rest);
	if (status == 0 && strtok_r(NULL, BLANKS, &rest))
		return problem(reading, "more words than expected");
	return status;
}

static int read_lines(FILE *input, struct reading *reading)
{
	char text[LINE_BYTES_MAX];

	while (fgets(text, sizeof(text), input)) {
		reading->line++;
		if (!strchr(text, '\n') && !feof(input))
			return problem(reading, "longer than %d characters, or a binary file",
				       LINE_BYTES_MAX - 2);
		if (read_line(reading, text))
			return -1;
	}
	if (ferror(input))
		return problem(reading, "cannot read on: %s", strerror(errno));
	if (!reading->script.ncalls)
		return problem(reading, "no call up to here, the end");
	if (reading->in_pass)
		return problem(reading, "a pass is not ended");
	return 0;
}

int bench_script_read(FILE *input, const char *name, struct bench_script *ret_script,
		      char *ret_problem, size_t problem_size)
{
	struct reading reading = {
		.file = name, .problem = ret_problem, .problem_size = problem_size};
	int status = read_lines(input, &reading);

	if (status)
		bench_script_free(&reading.script);
	else
		*ret_script = reading.script;
	return status;
}

void bench_script_free(struct bench_script *script)
{
	free(script->calls);
	free(script->gaps_ns);
	script->calls = NULL;
	script->gaps_ns = NULL;
	script->ncalls = 0;
}
