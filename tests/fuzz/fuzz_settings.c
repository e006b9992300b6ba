/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what belay is told by people and launchers. The first byte chooses what the rest is:
 * a value, a tuning file, the settings of two ranks that must agree, or an environment.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/group/environment_id.h"
#include "runtime/settings_parse.h"
#include "runtime/tuning.h"
#include "tests/fuzz/fuzz_target.h"

#define LINES_MAX 64
#define RANKS	  4

static struct cause_chain *new_causes(void)
{
	const struct cause_config quiet = {.log = fuzz_say_nothing, .rank = -1};

	return cause_chain_create(&quiet);
}

/* A refusal says why. */
static void judge_causes(int status, struct cause_chain *causes)
{
	char text[64] = "";

	cause_newest(causes, text, sizeof(text));
	if (status && !*text)
		abort();
	cause_chain_free(causes);
}

/* What is taken prints in one form, which is taken for the same. */
static void try_value(enum setting_index index, char *text)
{
	struct settings settings = {0}, again = {0};
	char one[SETTINGS_TEXT_MAX], other[SETTINGS_TEXT_MAX];

	settings.text[index] = text;
	if (setting_parse(index, text, &settings))
		return;
	(void)setting_canonical(index, &settings, one, sizeof(one));
	again.text[index] = one;
	if (setting_parse(index, one, &again))
		abort();
	if (strcmp(one, setting_canonical(index, &again, other, sizeof(other))) != 0)
		abort();
}

static void judge_table(const struct tuning_rows *rows)
{
	if (rows->nrows > LAUNCH_ROWS_MAX)
		abort();
	for (uint32_t i = 0; i < rows->nrows; i++) {
		const struct launch_row *row = &rows->row[i];

		if (row->blocks < 1 || row->blocks > SYMM_BLOCKS_MAX || row->threads < 32 ||
		    row->threads > 512 || row->algorithm >= SYMM_ALGORITHMS ||
		    row->algorithm_other >= SYMM_ALGORITHMS)
			abort();
		if (i > 0 && row->up_to_bytes <= row[-1].up_to_bytes)
			abort();
	}
}

static void try_tuning(const char *text, size_t length)
{
	struct tuning tuning = {.twoshot_from_bytes = 77};
	const struct tuning before = tuning;
	struct cause_chain *causes = new_causes();
	char path[] = "/proc/self/fd/000000000000";
	int fd = memfd_create("tuning", MFD_CLOEXEC), status;

	if (fd < 0 || write(fd, text, length) != (ssize_t)length)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	status = tuning_load(path, RANKS, &tuning, causes);
	judge_causes(status, causes);
	if (status && memcmp(&before, &tuning, sizeof(before)) != 0)
		abort();
	for (int t = 0; t < LAUNCH_TOPOLOGIES; t++)
		judge_table(&tuning.device[t]);
	close(fd);
}

/* The text is two, with a 0 byte between. */
static void try_agreement(const char *text, size_t length)
{
	const char *other = text + strlen(text) + 1;
	char difference[64] = "";

	if (other > text + length)
		other = text;
	if (settings_agree_compare(text, other, difference, sizeof(difference)) !=
	    (strcmp(text, other) == 0 || !*difference))
		abort();
}

/* Each line is a variable; the settings, and a rank's place, are read from them. */
static void try_environment(char *text)
{
	char *lines[LINES_MAX + 1] = {NULL}, **before = environ, *rest = text;
	struct cause_chain *causes = new_causes();
	struct environment_id id;
	struct settings settings;
	int status;

	/* Nothing is no entry: getenv() reads two bytes of each. */
	for (int i = 0; i < LINES_MAX && rest; i += *lines[i] != '\0')
		lines[i] = strsep(&rest, "\n");
	environ = lines;
	status = settings_load(NULL, &settings, causes);
	if (status == 0) {
		char agreed[4096];

		if (settings_agree_text(&settings, agreed, sizeof(agreed)))
			abort();
		status = environment_id_read(settings.text[SETTING_job], &id, causes);
		if (status == 0 &&
		    (id.rank < 0 || id.rank >= id.nranks || id.nranks > BELAY_RANKS_MAX))
			abort();
		settings_free(&settings);
	}
	environ = before;
	judge_causes(status, causes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = size ? fuzz_text(data + 1, size - 1) : NULL;

	switch (size ? data[0] % 4 : -1) {
	case 0:
		for (int i = 0; i < SETTINGS_COUNT; i++)
			try_value((enum setting_index)i, text);
		break;
	case 1:
		try_tuning(text, size - 1);
		break;
	case 2:
		try_agreement(text, size - 1);
		break;
	case 3:
		try_environment(text);
		break;
	default:
		break;
	}
	free(text);
	return 0;
}
