/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_workload.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command_line.h"

#define LINE_BYTES_MAX 1024
#define BLANKS	       " \t\r\n"

/* The keys of a line, in the order in which a missing one is complained about. */
enum key { KEY_REPEAT, KEY_CALLS, KEY_COUNT, KEY_DTYPE, KEY_GAP, KEYS };

static const struct {
	const char *name;
	uint64_t min, max; /* max 0: not a number */
} keys[KEYS] = {
	[KEY_REPEAT] = {"repeat", 1, WORKLOAD_PASSES_MAX},
	[KEY_CALLS] = {"calls", 1, WORKLOAD_CALLS_MAX},
	[KEY_COUNT] = {"count", 0, WORKLOAD_COUNT_MAX},
	[KEY_DTYPE] = {"dtype", 0, 0},
	[KEY_GAP] = {"gap_us", 0, WORKLOAD_GAP_US_MAX},
};

/* Where in which file, and where to say what is wrong there. */
struct place {
	const char *file;
	size_t line;
	char *problem;
	size_t problem_size;
};

enum belay_dtype workload_dtype(const char *name)
{
	for (int dtype = BELAY_F32; dtype <= BELAY_I8; dtype++) {
		if (strcmp(name, belay_dtype_name((enum belay_dtype)dtype)) == 0)
			return (enum belay_dtype)dtype;
	}
	return 0;
}

int workload_builtin(const char *name, uint64_t passes, struct workload *ret_workload)
{
	/* 61 layers, two allreduces each; 8 tokens of hidden size 7168. */
	static const struct workload_line verify_pass = {
		.calls = 122, .count = 8 * 7168, .dtype = BELAY_BF16};
	struct workload_line *line;

	if (strcmp(name, "verify-pass") != 0)
		return 1;
	line = malloc(sizeof(*line));
	if (!line)
		return -1;
	*line = verify_pass;
	line->passes = passes;
	ret_workload->lines = line;
	ret_workload->nlines = 1;
	return 0;
}

/* Says what is wrong where. Returns -1. */
static int problem(const struct place *place, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int problem(const struct place *place, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	snprintf(place->problem, place->problem_size, "%s:%zu: %s", place->file, place->line, text);
	return -1;
}

static enum key find_key(const char *name)
{
	enum key key = 0;

	while (key < KEYS && strcmp(name, keys[key].name) != 0)
		key++;
	return key;
}

static void set_number(struct workload_line *line, enum key key, uint64_t value)
{
	switch (key) {
	case KEY_REPEAT:
		line->passes = value;
		break;
	case KEY_CALLS:
		line->calls = value;
		break;
	case KEY_COUNT:
		line->count = value;
		break;
	case KEY_GAP:
		line->gap_ns = value * 1000;
		break;
	case KEY_DTYPE:
	case KEYS:
		break;
	}
}

static int set_value(const struct place *place, struct workload_line *line, enum key key,
		     const char *text)
{
	uint64_t value;

	if (key == KEY_DTYPE) {
		line->dtype = workload_dtype(text);
		if (!line->dtype)
			return problem(place,
				       "dtype '%s': expected bf16, f16, f32, f64, i32, i64, "
				       "u8 or i8",
				       text);
		return 0;
	}
	if (command_parse_number(text, &value) || value < keys[key].min || value > keys[key].max)
		return problem(place, "%s '%s': expected a number from %llu to %llu",
			       keys[key].name, text, (unsigned long long)keys[key].min,
			       (unsigned long long)keys[key].max);
	set_number(line, key, value);
	return 0;
}

/* Takes one "key=value". `seen` collects the keys of the line. */
static int read_word(const struct place *place, char *word, struct workload_line *line,
		     unsigned *seen)
{
	char *value = strchr(word, '=');
	enum key key;

	if (!value)
		return problem(place, "'%s': expected key=value", word);
	*value++ = '\0';
	key = find_key(word);
	if (key == KEYS)
		return problem(place,
			       "unknown key '%s': expected repeat, calls, count, dtype and "
			       "gap_us",
			       word);
	if (*seen & 1u << key)
		return problem(place, "'%s' is given twice", word);
	*seen |= 1u << key;
	return set_value(place, line, key, value);
}

/* Reads one line. Returns 1 when it holds a kind of pass, 0 when it is blank, -1 when it is
 * wrong. */
static int read_line(const struct place *place, char *text, struct workload_line *ret_line)
{
	struct workload_line line = {0};
	unsigned seen = 0;
	char *rest = NULL;

	text[strcspn(text, "#")] = '\0';
	for (char *word = strtok_r(text, BLANKS, &rest); word;
	     word = strtok_r(NULL, BLANKS, &rest)) {
		if (read_word(place, word, &line, &seen))
			return -1;
	}
	if (!seen)
		return 0;
	for (enum key key = 0; key < KEYS; key++) {
		if (!(seen & 1u << key))
			return problem(place, "'%s=' is missing", keys[key].name);
	}
	*ret_line = line;
	return 1;
}

static int append(const struct place *place, struct workload *workload,
		  const struct workload_line *line)
{
	struct workload_line *lines;

	if (workload->nlines == WORKLOAD_LINES_MAX)
		return problem(place, "more than %d kinds of pass", WORKLOAD_LINES_MAX);
	lines = realloc(workload->lines, (workload->nlines + 1) * sizeof(*lines));
	if (!lines)
		return problem(place, "out of memory");
	workload->lines = lines;
	lines[workload->nlines++] = *line;
	return 0;
}

/* Reads all lines; what was read so far is in `workload`, also on failure. */
static int read_lines(FILE *input, struct place *place, struct workload *workload)
{
	char text[LINE_BYTES_MAX];
	struct workload_line line;
	int found;

	while (fgets(text, sizeof(text), input)) {
		place->line++;
		if (!strchr(text, '\n') && !feof(input))
			return problem(place, "longer than %d characters, or a binary file",
				       LINE_BYTES_MAX - 2);
		found = read_line(place, text, &line);
		if (found < 0 || (found > 0 && append(place, workload, &line)))
			return -1;
	}
	if (ferror(input))
		return problem(place, "cannot read on: %s", strerror(errno));
	if (!workload->nlines)
		return problem(place, "no line with a kind of pass up to here, the end");
	return 0;
}

int workload_read(FILE *input, const char *name, struct workload *ret_workload, char *ret_problem,
		  size_t problem_size)
{
	struct place place = {name, 0, ret_problem, problem_size};
	struct workload workload = {0};
	int status = read_lines(input, &place, &workload);

	if (status)
		workload_free(&workload);
	else
		*ret_workload = workload;
	return status;
}

void workload_limit(struct workload *workload, uint64_t passes)
{
	for (size_t i = 0; i < workload->nlines; i++) {
		struct workload_line *line = &workload->lines[i];

		if (passes == 0) {
			workload->nlines = i;
			return;
		}
		if (line->passes > passes)
			line->passes = passes;
		passes -= line->passes;
	}
}

void workload_free(struct workload *workload)
{
	free(workload->lines);
	workload->lines = NULL;
	workload->nlines = 0;
}
