/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What belay's commands have in common: help, version, one-line errors, values of options, and
 * output that is known to have been written. Exit statuses 2 and 4 mean the same in all of them.
 */
#ifndef BELAY_TOOLS_COMMAND_LINE_H
#define BELAY_TOOLS_COMMAND_LINE_H

#include <stdint.h>
#include <stdio.h>

enum command_status {
	COMMAND_OK = 0,
	COMMAND_USAGE = 2,	/* bad option or operand */
	COMMAND_NOT_WRITTEN = 4 /* output could not be written */
};

enum command_format { COMMAND_TEXT = 0, COMMAND_JSON = 1 };

/*
 * First thing in main(). `name` (static) stands before every message. A closed pipe becomes an
 * error of the write, not a signal: SIGPIPE is ignored from here on, and stays so across exec.
 */
void command_begin(const char *name);

/* "NAME: MESSAGE" and "Try 'NAME --help'." on stderr. Returns COMMAND_USAGE. */
int command_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "NAME: MESSAGE" on stderr, for what is not the command line's fault. */
void command_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Complains about the option at which getopt_long() has just returned `found`: '?' unknown or
 * ambiguous, ':' without its value. Needs opterr = 0 and an option string that begins with ':' (or
 * "+:"). Returns COMMAND_USAGE.
 */
int command_bad_option(int found, char *const *argv);

/* Prints `text` or "NAME (belay) VERSION" to stdout. Returns COMMAND_OK or COMMAND_NOT_WRITTEN. */
int command_help(const char *text);
int command_version(void);

/*
 * The last act on an output: flushes it and looks whether every write since its opening has
 * succeeded. Returns `status` if so; else says that `what` ("standard output", a file) cannot be
 * written and returns COMMAND_NOT_WRITTEN.
 */
int command_finish(FILE *output, const char *what, int status);

/*
 * Values of options. They return 0; or -1, and then *ret_value is untouched and nothing is printed.
 * number: decimal digits only. size: a number, K or M (x 1024) may follow. format: "text" or
 * "json".
 */
int command_parse_number(const char *text, uint64_t *ret_value);
int command_parse_size(const char *text, uint64_t *ret_value);
int command_parse_format(const char *text, enum command_format *ret_value);

/* 1 if colour is wanted there: a terminal, and no NO_COLOR in the environment. */
int command_colour(FILE *output);

#endif /* BELAY_TOOLS_COMMAND_LINE_H */
