/* SPDX-License-Identifier: Apache-2.0 */
/* `faults`: what went wrong, in the order of time. */
#include <inttypes.h>

#include "tools/analyze/fault_feed.h"
#include "tools/analyze/print_json.h"
#include "tools/analyze/print_text.h"

static int take_event(struct output *output, uint32_t rank, const struct event_record *event)
{
	return timeline_note_event(&output->timeline, rank, event);
}

static int take_row(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	return fault_feed_row(&output->timeline, row, facts);
}

static int take_late(struct output *output, const struct late_call *call)
{
	return fault_feed_late(&output->timeline, call);
}

/* Text ------------------------------------------------------------------------------------- */

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
	fault_print(output->file, item);
	fputc('\n', output->file);
	return 0;
}

static int end_text(struct output *output)
{
	struct story story;
	int status = fault_feed_finish(&output->timeline, output->summary);

	if (status == 0 && output->rows == 0)
		fputs("nothing went wrong in what was recorded\n", output->file);
	story_tell(output->summary, output->clocks->differ, &story);
	if (status == 0)
		text_story(output, &story, 1);
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
					   json_string(fault_breaker_name(item->detail)));
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
	case TIMELINE_RESCUE:
		return json_object_set_new(object, "wait_us", json_us_or_null(item->wait_ns));
	case TIMELINE_LATE:
	case TIMELINE_LOST_WRITE:
	case TIMELINE_MISMATCH:
	case TIMELINE_DIGEST:
		break;
	}
	return 0;
}

static int tell_json(void *user, const struct timeline_item *item)
{
	struct output *output = user;
	json_t *object =
		json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "time_us",
			  json_time_us(output, item->time_ns), "what",
			  timeline_kind_name(item->kind), "seq", number_or_null(item->seq), "pass",
			  number_or_null(item->pass), "rank", json_rank_or_null(item->subject),
			  "ranks", json_ranks(item->ranks), "us", json_us_or_null(item->amount_ns),
			  "path", json_path_or_null(item->path), "text", json_text(item->text));

	if (object && add_detail(object, item) != 0) {
		json_decref(object);
		object = NULL;
	}
	return json_row(output, object);
}

static int end_json(struct output *output)
{
	int status = fault_feed_finish(&output->timeline, output->summary);

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
