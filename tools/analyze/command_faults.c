/* SPDX-License-Identifier: Apache-2.0 */
/* `faults`: what went wrong, in the order of time. */
#include <inttypes.h>
#include <string.h>

#include "tools/analyze/print_json.h"
#include "tools/analyze/print_text.h"
#include "tools/analyze/words.h"

static const char *breaker_name(int state)
{
	static const char *const names[] = {"closed", "open", "half open"};

	return state >= 0 && state < 3 ? names[state] : "unknown";
}

static int take_event(struct output *output, uint32_t rank, const struct event_record *event)
{
	return timeline_note_event(&output->timeline, rank, event);
}

static int take_row(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	if (!facts->stuck && !facts->mismatched && !facts->digest_outliers)
		return 0;
	return timeline_note_row(&output->timeline, row, facts);
}

static int take_late(struct output *output, const struct late_call *call)
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

		status = timeline_note(&output->timeline, &item);
	}
	return status;
}

/* A verdict that no event tells of is known from the statuses of the calls alone. */
static int add_derived_verdict(struct output *output)
{
	const struct summary_verdict *verdict = &output->summary->verdict;
	struct timeline_item item = {.kind = TIMELINE_VERDICT,
				     .subject = -1,
				     .detail = verdict->cause,
				     .seq = verdict->seq,
				     .pass = verdict->pass,
				     .time_ns = output->summary->last_ns,
				     .ranks = verdict->told_by};

	if (!verdict->stands || verdict->from_event)
		return 0;
	(void)strcpy(item.text, "from the calls' status; no event tells of it");
	return timeline_note(&output->timeline, &item);
}

static int finish(struct output *output)
{
	int status = add_derived_verdict(output);

	return status == 0 ? timeline_finish(&output->timeline) : status;
}

/* Text ------------------------------------------------------------------------------------- */

/* What happened, in words. */
static void print_what(const struct output *output, const struct timeline_item *item)
{
	char ranks[WORDS_RANKS_BYTES], time[WORDS_TIME_BYTES];
	FILE *file = output->file;

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
		break;
	case TIMELINE_BREAKER:
		fprintf(file, "%s: %s", item->path ? belay_path_name(item->path) : "path",
			breaker_name(item->detail));
		break;
	case TIMELINE_PATH_SWITCH:
		fprintf(file, "%s to %s", belay_path_name((enum belay_path)item->detail),
			belay_path_name(item->path));
		break;
	case TIMELINE_MISMATCH:
		fprintf(file, "the ranks' calls differ");
		break;
	case TIMELINE_DIGEST:
		fprintf(file, "the output of rank %s is not that of the others", ranks);
		break;
	case TIMELINE_VERDICT:
		fprintf(file, "%s", belay_cause_name((enum belay_cause)item->detail));
		if (item->subject >= 0)
			fprintf(file, ", rank %d at fault", item->subject);
		fprintf(file, " (told by rank %s)", ranks);
		break;
	case TIMELINE_ERROR:
		fprintf(file, "rank %d: %s", item->subject, belay_status_name(item->detail));
		break;
	}
}

static int tell_text(void *user, const struct timeline_item *item)
{
	struct output *output = user;

	if (output->rows++ == 0) {
		text_bold(output);
		fprintf(output->file, "%16s %12s %8s  %-17s  %s\n", "time (us)", "seq", "pass",
			"what", "");
		text_plain(output);
	}
	text_time(output, item->time_ns, 16);
	fprintf(output->file, " %12" PRIu64 " %8" PRIu64 "  %-17s  ", item->seq, item->pass,
		timeline_kind_name(item->kind));
	print_what(output, item);
	if (item->text[0])
		fprintf(output->file, ": %s", item->text);
	fputc('\n', output->file);
	return 0;
}

static int end_text(struct output *output)
{
	int status = finish(output);

	if (status == 0 && output->rows == 0)
		fputs("nothing went wrong in what was recorded\n", output->file);
	return status;
}

/* JSON ---------------------------------------------------------------------------------------- */

static json_t *number_or_null(uint64_t value)
{
	return value ? json_number(value) : json_null();
}

/* What `detail` means is the kind's business. */
static int add_detail(json_t *object, const struct timeline_item *item)
{
	switch (item->kind) {
	case TIMELINE_BREAKER:
		return json_object_set_new(object, "state",
					   json_string(breaker_name(item->detail)));
	case TIMELINE_PATH_SWITCH:
		return json_object_set_new(
			object, "from",
			json_string(belay_path_name((enum belay_path)item->detail)));
	case TIMELINE_VERDICT:
		return json_object_set_new(
			object, "cause",
			json_string(belay_cause_name((enum belay_cause)item->detail)));
	case TIMELINE_ERROR:
		return json_object_set_new(object, "status",
					   json_string(belay_status_name(item->detail)));
	case TIMELINE_LATE:
	case TIMELINE_LOST_WRITE:
	case TIMELINE_RESCUE:
	case TIMELINE_MISMATCH:
	case TIMELINE_DIGEST:
		break;
	}
	return 0;
}

static int tell_json(void *user, const struct timeline_item *item)
{
	struct output *output = user;
	json_t *object = json_pack(
		"{s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "time_us",
		json_time_us(output, item->time_ns), "what", timeline_kind_name(item->kind), "seq",
		number_or_null(item->seq), "pass", number_or_null(item->pass), "rank",
		json_rank_or_null(item->subject), "ranks", json_ranks(item->ranks), "us",
		item->amount_ns ? json_us(item->amount_ns) : json_null(), "path",
		json_path_or_null(item->path), "text", json_text(item->text));

	if (object && add_detail(object, item) != 0) {
		json_decref(object);
		object = NULL;
	}
	return json_row(output, object);
}

static int end_json(struct output *output)
{
	int status = finish(output);

	return status == 0 ? json_rows_end(output) : status;
}

static int begin(struct output *output, timeline_function *tell)
{
	return timeline_init(&output->timeline, tell, output, output->arena);
}

static int begin_text(struct output *output)
{
	text_heading(output);
	return begin(output, tell_text);
}

static int begin_json(struct output *output)
{
	int status = json_rows_begin(output, "faults");

	return status == 0 ? begin(output, tell_json) : status;
}

const struct command_ops command_faults_text = {
	.name = "faults",
	.comm_begin = begin_text,
	.event = take_event,
	.row = take_row,
	.late = take_late,
	.comm_end = end_text,
	.end = text_damages,
};

const struct command_ops command_faults_json = {
	.name = "faults",
	.begin = json_document_begin,
	.comm_begin = begin_json,
	.event = take_event,
	.row = take_row,
	.late = take_late,
	.comm_end = end_json,
	.end = json_document_end,
};
