/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/compare.h"

int compare_read(struct inputs *inputs, struct output *output, struct compare_side *side,
		 struct findings *findings)
{
	struct findings found = {0};
	int status;

	output->ops = &compare_ops;
	output->state = side;
	status = driver_run(inputs, output, &found);
	output->state = NULL;
	findings->failures |= found.failures;
	findings->losses |= found.losses;
	return status;
}

int compare_run(struct inputs *inputs, char *const *names, struct output *output,
		struct findings *ret_findings)
{
	struct compare_side sides[2] = {{.name = names[0]}, {.name = names[1]}};
	struct findings findings = {0};
	struct vector pairs = {0};
	int status = compare_read(&inputs[0], output, &sides[0], &findings);

	if (status == 0)
		status = compare_read(&inputs[1], output, &sides[1], &findings);
	if (status == 0)
		status = compare_pair_up(&sides[0], &sides[1], &pairs);
	if (status == 0 && output->format == COMMAND_JSON)
		status = compare_json(output, &sides[0], &sides[1], &pairs, NULL);
	else if (status == 0)
		compare_text(output, &sides[0], &sides[1], &pairs, 0);
	if (status == 0)
		*ret_findings = findings;
	vector_free(&pairs);
	compare_side_free(&sides[0]);
	compare_side_free(&sides[1]);
	return status;
}
