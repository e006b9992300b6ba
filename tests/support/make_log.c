/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_log DIR [NAME=NUMBER ...]: writes made-up call logs below DIR; names as in struct
 * log_scenario. Prints the communicator's id and, as NAME=NUMBER, what was written and what
 * encoding took.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/log_generator.h"

/* clang-format off */
#define FIELD(name) { #name, offsetof(struct log_scenario, name) }
static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	FIELD(seed), FIELD(ranks), FIELD(passes), FIELD(calls), FIELD(count), FIELD(dtype), FIELD(path),
	FIELD(marks), FIELD(jitter_ns), FIELD(hiccups), FIELD(late_ns), FIELD(digests), FIELD(first_seq),
	FIELD(straggler), FIELD(straggler_ns), FIELD(straggler_from), FIELD(straggler_to),
	FIELD(rescue_seq), FIELD(rescue_stuck), FIELD(rescue_lost), FIELD(rescue_ns),
	FIELD(mismatch_seq), FIELD(mismatch_rank), FIELD(kill_seq), FIELD(kill_rank), FIELD(salvage),
	FIELD(digest_seq), FIELD(digest_rank), FIELD(missing),
	FIELD(partial_rank), FIELD(partial_first), FIELD(partial_last), FIELD(open_rank),
	FIELD(clock_rank), FIELD(clock_offset_ns), FIELD(clock_drift_ppb),
	FIELD(lost_rank), FIELD(lost_seq), FIELD(lost_count),
	FIELD(block), FIELD(tick_ns), FIELD(file_bytes), FIELD(keep),
};
/* clang-format on */

static int set_field(struct log_scenario *scenario, const char *argument)
{
	const char *equals = strchr(argument, '=');

	for (size_t i = 0; equals && i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (strlen(fields[i].name) != (size_t)(equals - argument) ||
		    strncmp(fields[i].name, argument, (size_t)(equals - argument)))
			continue;
		*(int64_t *)((char *)scenario + fields[i].offset) = strtoll(equals + 1, NULL, 0);
		return 0;
	}
	fprintf(stderr, "make_log: '%s' is not NAME=NUMBER of a known name\n", argument);
	return -1;
}

int main(int argc, char **argv)
{
	struct log_scenario scenario = LOG_SCENARIO_INIT;
	struct log_result result;

	if (argc < 2) {
		fprintf(stderr, "usage: make_log DIR [NAME=NUMBER ...]\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		if (set_field(&scenario, argv[i]))
			return 2;
	if (log_generate(argv[1], &scenario, &result))
		return 1;
	printf("%s\nrecords=%llu bytes=%llu encode_ns=%llu\n", result.comm_id,
	       (unsigned long long)result.records, (unsigned long long)result.bytes,
	       (unsigned long long)result.encode_ns);
	return 0;
}
