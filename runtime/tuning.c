/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tuning file. It comes from outside: its kind, its size and each line are checked. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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
#define HOST_EXPECTED                                                                              \
	"'ranks=N twoshot_from=BYTES' with N from 1 to 64, each N once, or '# comment'"
#define LAUNCH_EXPECTED                                                                            \
	"'ranks=N programmatic=yes|no' or 'ranks=N staged=yes|no' with N from 1 to 16, each N "    \
	"once"
#define DEVICE_EXPECTED                                                                            \
	"'ranks=N topology=one_device|nvlink|pcie|mixed up_to=BYTES algorithm=NAME other=NAME "    \
	"blocks=B threads=T' with N from 1 to 16, BYTES ascending in at most 16 rows, names "      \
	"oneshot-packets, oneshot-wire, twoshot-wire, twoshot-pull or island (other: "             \
	"oneshot-packets or twoshot-pull), "                                                       \
	"B from 1 to 256, T a multiple of 32 up to 512"

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

static int take_number(const char **text, const char *name, uint64_t least, uint64_t most,
		       uint64_t *ret_value)
{
	size_t length;
	const char *value = take_value(text, name, &length);

	if (!value || number_parse(value, length, ret_value))
		return -1;
	return *ret_value >= least && *ret_value <= most ? 0 : -1;
}

static int take_size(const char **text, const char *name, uint64_t *ret_value)
{
	size_t length;
	const char *value = take_value(text, name, &length);

	return value ? number_parse_size(value, length, ret_value) : -1;
}

/* ---- rows for host memory -------------------------------------------------------------------- */

/* What a file has said so far. */
struct reading {
	uint32_t nranks;
	struct tuning *tuning;
	uint64_t seen; /* bit N - 1: there was a row of N ranks for host memory */
	uint64_t launches_seen, staged_seen; /* the same, programmatic launch, order of peers */
	/* The last row for device memory, of any ranks: rows of one table stand together. */
	uint64_t ranks, topology, up_to, rows;
	uint32_t tables_seen[LAUNCH_TOPOLOGIES]; /* bit N - 1: there is a table of N ranks */
};

static int read_host_row(struct reading *reading, const char *text, uint64_t ranks)
{
	uint64_t from;

	if (take_size(&text, "twoshot_from=", &from) || *text ||
	    reading->seen & UINT64_C(1) << (ranks - 1))
		return -1;
	reading->seen |= UINT64_C(1) << (ranks - 1);
	if (ranks == reading->nranks)
		reading->tuning->twoshot_from_bytes = from;
	return 0;
}

/* ---- rows for device memory ------------------------------------------------------------------ */

static bool is_name(const char *name, const char *text, size_t length)
{
	return strlen(name) == length && strncmp(name, text, length) == 0;
}

/* The rest of a row that says yes or no, once for each number of ranks. */
static int take_choice(const char *text, const char *name, uint64_t ranks, uint64_t *seen,
		       bool *ret_yes)
{
	size_t length;
	const char *value = take_value(&text, name, &length);
	bool yes = value && is_name("yes", value, length);

	if (ranks > SYMM_RANKS_MAX || !value || *text || !(yes || is_name("no", value, length)) ||
	    *seen & UINT64_C(1) << (ranks - 1))
		return -1;
	*seen |= UINT64_C(1) << (ranks - 1);
	*ret_yes = yes;
	return 0;
}

static int read_launch_row(struct reading *reading, const char *text, uint64_t ranks)
{
	bool yes;

	if (take_choice(text, "programmatic=", ranks, &reading->launches_seen, &yes))
		return -1;
	if (ranks == reading->nranks)
		reading->tuning->plain_launches = !yes;
	return 0;
}

static int read_staged_row(struct reading *reading, const char *text, uint64_t ranks)
{
	bool yes;

	if (take_choice(text, "staged=", ranks, &reading->staged_seen, &yes))
		return -1;
	if (ranks == reading->nranks)
		reading->tuning->staged = yes ? TUNING_STAGED_YES : TUNING_STAGED_NO;
	return 0;
}

static int take_topology(const char **text, uint64_t *ret_topology)
{
	size_t length;
	const char *value = take_value(text, "topology=", &length);

	for (uint64_t t = 0; value && t < LAUNCH_TOPOLOGIES; t++) {
		if (is_name(launch_topology_name((enum launch_topology)t), value, length)) {
			*ret_topology = t;
			return 0;
		}
	}
	return -1;
}

static int take_algorithm(const char **text, const char *name, uint8_t *ret_algorithm)
{
	size_t length;
	const char *value = take_value(text, name, &length);

	for (uint8_t a = 0; value && a < SYMM_ALGORITHMS; a++) {
		if (is_name(launch_algorithm_name((enum symm_algorithm)a), value, length)) {
			*ret_algorithm = a;
			return 0;
		}
	}
	return -1;
}

/* The rest of a row, behind its topology. */
static int take_launch_row(const char *text, struct launch_row *ret_row)
{
	uint64_t blocks, threads;

	if (take_size(&text, "up_to=", &ret_row->up_to_bytes) ||
	    take_algorithm(&text, "algorithm=", &ret_row->algorithm) ||
	    take_algorithm(&text, "other=", &ret_row->algorithm_other) ||
	    take_number(&text, "blocks=", 1, SYMM_BLOCKS_MAX, &blocks) ||
	    take_number(&text, "threads=", 32, 512, &threads) || threads % 32 || *text)
		return -1;
	ret_row->blocks = (uint16_t)blocks;
	ret_row->threads = (uint16_t)threads;
	return ret_row->algorithm_other == SYMM_ONESHOT_PACKETS ||
			       ret_row->algorithm_other == SYMM_TWOSHOT_PULL
		       ? 0
		       : -1;
}

/* Begins a table, unless the row goes on with the last one. -1: there was such a table before. */
static int enter_table(struct reading *reading, uint64_t ranks, uint64_t topology)
{
	if (reading->rows && reading->ranks == ranks && reading->topology == topology)
		return 0;
	if (reading->tables_seen[topology] & 1u << (ranks - 1))
		return -1;
	reading->tables_seen[topology] |= 1u << (ranks - 1);
	reading->ranks = ranks;
	reading->topology = topology;
	reading->rows = 0;
	return 0;
}

static int read_device_row(struct reading *reading, const char *text, uint64_t ranks)
{
	struct launch_row row;
	struct tuning_rows *rows;
	uint64_t topology;

	if (ranks > SYMM_RANKS_MAX || take_topology(&text, &topology) ||
	    take_launch_row(text, &row) || enter_table(reading, ranks, topology) ||
	    reading->rows == LAUNCH_ROWS_MAX ||
	    (reading->rows && row.up_to_bytes <= reading->up_to))
		return -1;
	reading->rows++;
	reading->up_to = row.up_to_bytes;
	if (ranks != reading->nranks)
		return 0;
	rows = &reading->tuning->device[topology];
	rows->row[rows->nrows++] = row;
	return 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Takes in one line. NULL, or what would have been right. */
static const char *read_line(char *line, struct reading *reading)
{
	uint64_t ranks;
	size_t length = strcspn(line, "\n");
	const char *text;

	if (!line[length] && length == LINE_BYTES_MAX - 1)
		return HOST_EXPECTED; /* cut by the buffer */
	line[length] = '\0';
	text = line + strspn(line, " \t");
	if (!*text || *text == '#')
		return NULL;
	if (take_number(&text, "ranks=", 1, BELAY_RANKS_MAX, &ranks))
		return HOST_EXPECTED;
	if (strncmp(text, "programmatic=", strlen("programmatic=")) == 0)
		return read_launch_row(reading, text, ranks) ? LAUNCH_EXPECTED : NULL;
	if (strncmp(text, "staged=", strlen("staged=")) == 0)
		return read_staged_row(reading, text, ranks) ? LAUNCH_EXPECTED : NULL;
	if (strncmp(text, "topology=", strlen("topology=")) == 0)
		return read_device_row(reading, text, ranks) ? DEVICE_EXPECTED : NULL;
	return read_host_row(reading, text, ranks) ? HOST_EXPECTED : NULL;
}

static int read_rows(FILE *file, const char *path, uint32_t nranks, struct tuning *tuning,
		     struct cause_chain *causes)
{
	struct reading reading = {.nranks = nranks, .tuning = tuning};
	char line[LINE_BYTES_MAX];
	unsigned number = 0;

	while (fgets(line, sizeof(line), file)) {
		const char *expected =
			++number > LINES_MAX ? "at most 10000 lines" : read_line(line, &reading);

		if (expected) {
			cause_add(causes, NULL, 0, -1, 0,
				  "BELAY_TUNE='%s', line %u: '%.60s': expected %s", path, number,
				  line, expected);
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

/* FNV-1a, byte by byte. */
static void hash_add(uint64_t *hash, uint64_t value)
{
	for (unsigned shift = 0; shift < 64; shift += 8)
		*hash = (*hash ^ (value >> shift & 0xff)) * UINT64_C(0x100000001b3);
}

/* Over the values in effect, so that two files that say the same here agree. */
static uint64_t hash_of(const struct tuning *tuning)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	hash_add(&hash, tuning->twoshot_from_bytes);
	hash_add(&hash, tuning->plain_launches);
	hash_add(&hash, tuning->staged);
	for (unsigned t = 0; t < LAUNCH_TOPOLOGIES; t++) {
		const struct tuning_rows *rows = &tuning->device[t];

		hash_add(&hash, rows->nrows);
		for (uint32_t i = 0; i < rows->nrows; i++) {
			const struct launch_row *row = &rows->row[i];

			hash_add(&hash, row->up_to_bytes);
			hash_add(&hash, (uint64_t)row->algorithm << 40 |
						(uint64_t)row->algorithm_other << 32 |
						(uint64_t)row->blocks << 16 | row->threads);
		}
	}
	return hash;
}

void tuning_launch_table(const struct tuning *tuning, uint32_t nranks,
			 enum launch_topology topology, struct launch_table *ret_table)
{
	const struct tuning_rows *rows = &tuning->device[topology];

	launch_table_builtin(nranks, topology, ret_table);
	if (tuning->staged != TUNING_STAGED_BUILT_IN)
		ret_table->staged = tuning->staged == TUNING_STAGED_YES;
	if (rows->nrows == 0)
		return;
	memcpy(ret_table->row, rows->row, sizeof(rows->row));
	ret_table->nrows = rows->nrows;
	ret_table->islands = true; /* asked for by name */
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
