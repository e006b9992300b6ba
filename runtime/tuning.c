/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tuning file. It comes from outside: its kind, its size and each line are checked. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/number_text.h"
#include "runtime/tuning.h"

#define LINE_BYTES_MAX 256
#define LINES_MAX      10000
#define ROW_EXPECTED   "'ranks=N twoshot_from=BYTES' with N from 1 to 64, each N once, or '# comment'"

/* Opens a regular file only: a FIFO would block creation, a device may never end. */
static int open_regular(const char *path, FILE **ret_file)
{
	struct stat about;
	FILE *file = NULL;
	int error = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || fstat(fd, &about) < 0)
		error = errno;
	else if (!S_ISREG(about.st_mode))
		error = EINVAL;
	else if (!(file = fdopen(fd, "r")))
		error = errno;
	if (error && fd >= 0)
		close(fd);
	*ret_file = file;
	return error;
}

/* The value of "NAME=VALUE" at *text, which is moved behind it and the blanks that follow. */
static const char *take_value(const char **text, const char *name, size_t *ret_length)
{
	size_t name_length = strlen(name);
	const char *value = *text + name_length;

	if (strncmp(*text, name, name_length) != 0)
		return NULL;
	*ret_length = strcspn(value, " \t");
	*text = value + *ret_length;
	*text += strspn(*text, " \t");
	return value;
}

/* Reads one row. -1: it is none. */
static int parse_row(const char *text, uint64_t *ret_ranks, uint64_t *ret_from)
{
	size_t length;
	const char *ranks, *from;

	ranks = take_value(&text, "ranks=", &length);
	if (!ranks || number_parse(ranks, length, ret_ranks))
		return -1;
	from = take_value(&text, "twoshot_from=", &length);
	if (!from || number_parse_size(from, length, ret_from) || *text)
		return -1;
	return *ret_ranks >= 1 && *ret_ranks <= BELAY_RANKS_MAX ? 0 : -1;
}

/* Takes in one line. `seen` has a bit for each number of ranks that had a row. */
static int read_line(char *line, uint32_t nranks, struct tuning *tuning, uint64_t *seen)
{
	uint64_t ranks, from;
	size_t length = strcspn(line, "\n");

	if (!line[length] && length == LINE_BYTES_MAX - 1)
		return -1; /* cut by the buffer */
	line[length] = '\0';
	line += strspn(line, " \t");
	if (!*line || *line == '#')
		return 0;
	if (parse_row(line, &ranks, &from) || *seen & UINT64_C(1) << (ranks - 1))
		return -1;
	*seen |= UINT64_C(1) << (ranks - 1);
	if (ranks == nranks)
		tuning->twoshot_from_bytes = from;
	return 0;
}

static int read_rows(FILE *file, const char *path, uint32_t nranks, struct tuning *tuning,
		     struct cause_chain *causes)
{
	char line[LINE_BYTES_MAX];
	uint64_t seen = 0;
	unsigned number = 0;

	while (fgets(line, sizeof(line), file)) {
		if (++number > LINES_MAX || read_line(line, nranks, tuning, &seen)) {
			cause_add(causes, NULL, 0, -1, 0,
				  "BELAY_TUNE='%s', line %u: '%.60s': expected " ROW_EXPECTED, path,
				  number, line);
			return BELAY_E_SETTING;
		}
	}
	if (ferror(file)) {
		cause_add(causes, "read", errno, -1, 0, "BELAY_TUNE='%s': expected a tuning file",
			  path);
		return BELAY_E_SETTING;
	}
	return 0;
}

/* FNV-1a over the values in effect, so that two files that say the same here agree. */
static uint64_t hash_of(const struct tuning *tuning)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (unsigned shift = 0; shift < 64; shift += 8)
		hash = (hash ^ (tuning->twoshot_from_bytes >> shift & 0xff)) *
		       UINT64_C(0x100000001b3);
	return hash;
}

int tuning_load(const char *path, uint32_t nranks, struct tuning *tuning,
		struct cause_chain *causes)
{
	struct tuning loaded = *tuning;
	FILE *file = NULL;
	int status = 0, error;

	if (path && *path) {
		error = open_regular(path, &file);
		if (error) {
			cause_add(causes, "open", error, -1, 0,
				  "BELAY_TUNE='%s': expected a readable tuning file", path);
			status = BELAY_E_SETTING;
			goto out;
		}
		status = read_rows(file, path, nranks, &loaded, causes);
		if (status)
			goto out;
	}
	loaded.hash = hash_of(&loaded);
	*tuning = loaded;
out:
	if (file)
		fclose(file); /* only read: nothing can be lost */
	return status;
}
