/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written whole or not at all: it has no name until it is complete, so that whoever
 * looks finds the old content or the new one, and nothing is left of a program that was killed.
 */
#ifndef BELAY_TOOLS_OUTPUT_FILE_H
#define BELAY_TOOLS_OUTPUT_FILE_H

#include <stdio.h>

/* Starts as { 0 }. Write to `file`. */
struct output_file {
	FILE *file;
	char *path; /* what it will be called, symbolic links followed; NULL: written in place */
	char *temporary; /* its name so far; NULL: none */
};

/*
 * Opens `path` for writing. What stands there and is no regular file (a pipe, /dev/null) is
 * written in place. Returns 0, or -1 with errno set and `output` untouched.
 */
int output_file_open(struct output_file *output, const char *path);

/* Gives the file its name, in place of what stood there. Returns 0, or -1 with errno set, and then
 * nothing has changed there. `output` is { 0 } after it. */
int output_file_commit(struct output_file *output);

/* Drops what was written. `output` is { 0 } after it, and may be before. */
void output_file_discard(struct output_file *output);

#endif /* BELAY_TOOLS_OUTPUT_FILE_H */
