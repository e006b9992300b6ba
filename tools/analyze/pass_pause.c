/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/pass_pause.h"
#include "tools/analyze/pass_rule.h"

/* A long pause is so many times the median one. */
#define LONG_TIMES 4u

/* 0 where the call before is not known, or does not end before. */
static uint64_t pause_before(struct pass_pauses *pauses, const struct call_record *record)
{
	uint64_t pause = 0;

	if (pauses->end_ns && record->seq == pauses->end_seq + 1 &&
	    record->start_ns > pauses->end_ns)
		pause = record->start_ns - pauses->end_ns;
	pauses->end_ns = record->start_ns + record->duration_ns;
	pauses->end_seq = record->seq;
	return pause;
}

void pass_pause_note(struct pass_pauses *pauses, const struct call_record *record)
{
	uint64_t pause = pause_before(pauses, record);

	if (pause)
		histogram_add(pauses->ns, pause);
}

int pass_pause_judge(struct pass_pauses *pauses)
{
	pauses->long_ns = LONG_TIMES * histogram_quantile(pauses->ns, 0.50);
	pauses->end_ns = 0;
	return pauses->ns->count && pauses->ns->largest > pauses->long_ns;
}

uint64_t pass_pause_signature(struct pass_pauses *pauses, const struct call_record *record)
{
	uint64_t pause = pause_before(pauses, record);

	return pass_signature(record) | (pause > pauses->long_ns ? PASS_PAUSE_BIT : 0);
}
