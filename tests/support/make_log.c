/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_log DIR [CAUSE] [NAME=NUMBER ...] [--truth=FILE]: writes made-up call logs below DIR.
 *
 * CAUSE is a recording whose cause is known, `make_log --list` shows them; the numbers change it,
 * with names as in struct log_scenario. So `make_log DIR ranks=8 passes=102460` gives a hundred
 * million records, and `make_log DIR rotating ranks=4 seed=3` another recording of a known kind.
 *
 * Prints the communicator's id; as NAME=NUMBER what was written and the CPU time that encoding
 * took; and for each rank whose clock is off, by how much. With --truth every call as it really
 * was, on the true clock, goes to FILE as CSV.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/log_generator.h"

#define TRUTH "--truth="

static int list_causes(void)
{
	for (const struct log_cause *cause = log_causes; cause->name; cause++)
		printf("%-17s %s\n%17s %s\n", cause->name, cause->truth, "", cause->words);
	return 0;
}

static int write_truth(void *user, const struct log_truth *truth)
{
	FILE *file = user;

	for (uint32_t r = 0; r < truth->nranks; r++) {
		const struct log_truth_rank *rank = &truth->of[r];

		if (truth->ranks >> r & 1)
			fprintf(file,
				"%" PRIu64 ",%" PRIu64 ",%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
				truth->seq, truth->pass, r, rank->start_ns, rank->staged_ns,
				rank->end_ns);
	}
	return 0;
}

/* A cause, a number or the file of the truth. */
static int take_argument(const char *argument, struct log_scenario *scenario, FILE **ret_truth)
{
	const struct log_cause *cause = log_cause_find(argument);

	if (cause)
		return log_scenario_set(scenario, cause->words);
	if (strncmp(argument, TRUTH, strlen(TRUTH)))
		return log_scenario_set(scenario, argument);
	*ret_truth = fopen(argument + strlen(TRUTH), "w");
	if (!*ret_truth) {
		perror(argument + strlen(TRUTH));
		return -1;
	}
	fputs("seq,pass,rank,start_ns,staged_ns,end_ns\n", *ret_truth);
	return 0;
}

static void print_result(const struct log_scenario *scenario, const struct log_result *result)
{
	printf("%s\nrecords=%" PRIu64 " bytes=%" PRIu64 " encode_ns=%" PRIu64 "\n", result->comm_id,
	       result->records, result->bytes, result->encode_ns);
	for (uint32_t r = 0; r < (uint32_t)scenario->ranks; r++) {
		struct log_clock clock = log_model_clock(scenario, r);

		if (clock.offset_ns || clock.drift_ppb)
			printf("rank=%u offset_ns=%" PRId64 " drift_ppb=%" PRId64 "\n", r,
			       clock.offset_ns, clock.drift_ppb);
	}
}

int main(int argc, char **argv)
{
	struct log_scenario scenario = LOG_SCENARIO_INIT;
	struct log_truth_taker taker = {write_truth, NULL};
	struct log_result result;
	FILE *truth = NULL;
	int status = 0;

	if (argc == 2 && !strcmp(argv[1], "--list"))
		return list_causes();
	if (argc < 2) {
		fprintf(stderr, "usage: make_log DIR [CAUSE] [NAME=NUMBER ...] [--truth=FILE]\n"
				"       make_log --list\n");
		return 2;
	}
	for (int i = 2; i < argc && !status; i++)
		status = take_argument(argv[i], &scenario, &truth);
	if (status)
		return 2;
	taker.user = truth;
	status = log_generate(argv[1], &scenario, truth ? &taker : NULL, &result);
	if (truth && fclose(truth) != 0)
		status = -1;
	if (status)
		return 1;
	print_result(&scenario, &result);
	return 0;
}
