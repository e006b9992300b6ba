/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/fault_feed.h"
#include "tools/analyze/words.h"

int fault_feed_row(struct timeline *timeline, const struct call_row *row,
		   const struct row_facts *facts)
{
	if (!facts->stuck && !facts->mismatched && !facts->digest_outliers)
		return 0;
	return timeline_note_row(timeline, row, facts);
}

int fault_feed_late(struct timeline *timeline, const struct late_call *call)
{
	int status = 0;

	for (uint64_t left = call->named; status == 0 && left;) {
		uint32_t rank = mask_pop(&left);
		struct timeline_item item = {.kind = TIMELINE_LATE,
					     .subject = (int)rank,
					     .seq = call->seq,
					     .pass = call->pass,
					     .time_ns = call->time_ns,
					     .ranks = call->observers,
					     .amount_ns = call->wait_ns[rank]};

		status = timeline_note(timeline, &item);
	}
	return status;
}

/* A verdict that no event tells of is known from the statuses of the calls alone. */
static int add_derived_verdict(struct timeline *timeline, const struct summary *summary)
{
	const struct summary_verdict *verdict = &summary->verdict;
	struct timeline_item item = {.kind = TIMELINE_VERDICT,
				     .subject = -1,
				     .detail = verdict->cause,
				     .seq = verdict->seq,
				     .pass = verdict->pass,
				     .time_ns = summary->last_ns,
				     .ranks = verdict->told_by};

	if (!verdict->stands || verdict->from_event)
		return 0;
	(void)strcpy(item.text, "from the calls' status; no event tells of it");
	return timeline_note(timeline, &item);
}

int fault_feed_finish(struct timeline *timeline, const struct summary *summary)
{
	int status = add_derived_verdict(timeline, summary);

	return status == 0 ? timeline_finish(timeline) : status;
}

const char *fault_breaker_name(int state)
{
	static const char *const names[] = {"closed", "open", "half open"};

	return state >= 0 && state < 3 ? names[state] : "unknown";
}

static void print_verdict(FILE *file, const struct timeline_item *item, const char *ranks)
{
	fputs(belay_cause_name((enum belay_cause)item->detail), file);
	if (item->subject >= 0)
		fprintf(file, ", rank %d at fault", item->subject);
	fprintf(file, " (told by rank %s)", ranks);
}

static void print_what(FILE *file, const struct timeline_item *item)
{
	char ranks[WORDS_RANKS_BYTES], time[WORDS_TIME_BYTES];

	words_ranks(item->ranks, ranks);
	words_time(item->amount_ns, time);
	switch (item->kind) {
	case TIMELINE_LATE:
		fprintf(file, "rank %d late by %s; rank %s waited", item->subject, time, ranks);
		break;
	case TIMELINE_LOST_WRITE:
		fprintf(file, "the data of rank %d did not arrive at rank %s", item->subject,
			ranks);
		break;
	case TIMELINE_RESCUE:
		fprintf(file, "rank %s stuck, finished over %s in %s", ranks,
			item->path ? belay_path_name(item->path) : "another path", time);
		if (item->wait_ns)
			fprintf(file, " after a wait of %s", words_time(item->wait_ns, time));
		break;
	case TIMELINE_BREAKER:
		fprintf(file, "%s: %s", item->path ? belay_path_name(item->path) : "path",
			fault_breaker_name(item->detail));
		break;
	case TIMELINE_PATH_SWITCH:
		fprintf(file, "%s to %s", belay_path_name((enum belay_path)item->detail),
			belay_path_name(item->path));
		break;
	case TIMELINE_MISMATCH:
		fputs("the ranks' calls differ", file);
		break;
	case TIMELINE_DIGEST:
		fprintf(file, "the output of rank %s is not that of the others", ranks);
		break;
	case TIMELINE_VERDICT:
		print_verdict(file, item, ranks);
		break;
	case TIMELINE_ERROR:
		fprintf(file, "rank %d: %s", item->subject, belay_status_name(item->detail));
		break;
	}
}

void fault_print(FILE *file, const struct timeline_item *item)
{
	print_what(file, item);
	if (item->text[0])
		fprintf(file, ": %s", item->text);
}

const char *fault_title(enum timeline_kind kind)
{
	static const char *const titles[] = {
		[TIMELINE_LATE] = "late",
		[TIMELINE_LOST_WRITE] = "lost write",
		[TIMELINE_RESCUE] = "rescue",
		[TIMELINE_BREAKER] = "breaker",
		[TIMELINE_PATH_SWITCH] = "path switch",
		[TIMELINE_MISMATCH] = "mismatch",
		[TIMELINE_DIGEST] = "digest difference",
		[TIMELINE_VERDICT] = "verdict",
		[TIMELINE_ERROR] = "error",
	};

	return titles[kind];
}
