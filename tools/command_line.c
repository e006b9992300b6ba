/* SPDX-License-Identifier: Apache-2.0 */
/* What belay's commands have in common. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "tools/command_line.h"

static const char *command_name = "belay";

void command_begin(const char *name)
{
	command_name = name;
	(void)signal(SIGPIPE, SIG_IGN); /* fails only for a signal that does not exist */
}

static void say(const char *format, va_list arguments)
{
	char text[4096];

	/* One write a line: a command's rank processes share stderr. */
	vsnprintf(text, sizeof(text), format, arguments);
	fprintf(stderr, "%s: %s\n", command_name, text);
}

int command_complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	fprintf(stderr, "Try '%s --help'.\n", command_name);
	return COMMAND_USAGE;
}

void command_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

int command_bad_option(int found, char *const *argv)
{
	const char *word = optind > 0 ? argv[optind - 1] : "";

	if (found == ':')
		return command_complain("option '%s' needs a value", word);
	/* A short one may stand among others in one word; optopt names it. */
	if (optopt > 0 && optopt < 128 && strncmp(word, "--", 2) != 0)
		return command_complain("unknown option '-%c'", optopt);
	if (optopt)
		return command_complain("option '%s' takes no value", word);
	return command_complain("unknown or ambiguous option '%s'", word);
}

int command_finish(FILE *output, const char *what, int status)
{
	int failed;

	errno = 0;
	failed = fflush(output) || ferror(output);
	if (!failed)
		return status;
	/* An earlier write's errno is gone by now. */
	command_error("cannot write %s%s%s", what, errno ? ": " : "", errno ? strerror(errno) : "");
	return COMMAND_NOT_WRITTEN;
}

int command_help(const char *text)
{
	fputs(text, stdout);
	return command_finish(stdout, "standard output", COMMAND_OK);
}

int command_version(void)
{
	printf("%s (belay) %s\n", command_name, belay_version());
	return command_finish(stdout, "standard output", COMMAND_OK);
}

/* Reads digits up to the first other character. Returns it, or NULL: no digit, or more than 64
 * bits. */
static const char *read_digits(const char *text, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *c = text;

	for (; *c >= '0' && *c <= '9'; c++) {
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
			return NULL;
	}
	if (c == text)
		return NULL;
	*ret_value = value;
	return c;
}

int command_parse_number(const char *text, uint64_t *ret_value)
{
	uint64_t value;
	const char *end = read_digits(text, &value);

	if (!end || *end)
		return -1;
	*ret_value = value;
	return 0;
}

int command_parse_size(const char *text, uint64_t *ret_value)
{
	uint64_t value, unit = 1;
	const char *end = read_digits(text, &value);

	if (!end)
		return -1;
	if (*end == 'K' || *end == 'k')
		unit = 1024;
	else if (*end == 'M' || *end == 'm')
		unit = 1024 * 1024;
	if (end[unit > 1] || __builtin_mul_overflow(value, unit, &value))
		return -1;
	*ret_value = value;
	return 0;
}

int command_parse_format(const char *text, enum command_format *ret_value)
{
	if (strcmp(text, "text") == 0)
		*ret_value = COMMAND_TEXT;
	else if (strcmp(text, "json") == 0)
		*ret_value = COMMAND_JSON;
	else
		return -1;
	return 0;
}

int command_colour(FILE *output)
{
	const char *no = getenv("NO_COLOR");

	return !(no && *no) && isatty(fileno(output));
}
