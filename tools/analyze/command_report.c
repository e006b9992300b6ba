/* SPDX-License-Identifier: Apache-2.0 */
/* `report`: one page of HTML that needs nothing else, of bounded size. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analyze/command.h"
#include "tools/analyze/fault_feed.h"
#include "tools/analyze/html_text.h"
#include "tools/analyze/report_figure.h"
#include "tools/analyze/report_page.h"
#include "tools/analyze/story.h"

/* Communicators that are shown with plots, the sound ones and all; those told in text alone. */
#define SOUND_FULL_MAX 8u
#define FULL_MAX       24u
#define TEXT_MAX       200u
#define DAMAGES_MAX    50u

/* A part of the page that waits in memory, for what stands before it is known at the end. */
struct part {
	FILE *file;
	char *text;
	size_t size;
};

struct report {
	struct part index; /* a line a communicator */
	struct part body;
	struct report_data *data; /* of this communicator */
	size_t full, in_text, left_out;
	int findings, losses;
};

static struct report *report_of(const struct output *output)
{
	return output->state;
}

/* Collecting ----------------------------------------------------------------------------------- */

/* Returns 0 or -1: no memory. */
static int part_open(struct part *part)
{
	part->file = open_memstream(&part->text, &part->size);
	return part->file ? 0 : -1;
}

/* Whether all that was written is there; text and size are right after it. */
static int part_is_whole(struct part *part)
{
	return fflush(part->file) == 0 && !ferror(part->file);
}

static void part_close(struct part *part)
{
	if (part->file)
		(void)fclose(part->file);
	free(part->text);
}

/* At the first communicator. NULL: no memory. */
static struct report *begin(struct output *output)
{
	struct report *report = calloc(1, sizeof(*report));

	output->state = report;
	if (!report || part_open(&report->index) != 0 || part_open(&report->body) != 0)
		return NULL;
	return report;
}

static void close_report(struct output *output)
{
	struct report *report = report_of(output);

	if (report) {
		part_close(&report->index);
		part_close(&report->body);
	}
	free(report);
	output->state = NULL;
}

static int keep_fault(void *user, const struct timeline_item *item)
{
	report_data_note_fault(user, item);
	return 0;
}

static int comm_begin(struct output *output)
{
	struct report *report = output->state ? output->state : begin(output);
	struct report_data *data = arena_alloc(output->arena, sizeof(*data));
	int status;

	if (!report || !data)
		return BELAY_E_NO_MEMORY;
	report->data = data;
	status = report_data_init(data, output->summary->nranks, &output->summary->passes.rule,
				  output->arena);
	if (status != 0)
		return status;
	return timeline_init(&output->timeline, keep_fault, data, output->arena);
}

static int take_event(struct output *output, uint32_t rank, const struct event_record *event)
{
	return timeline_note_event(&output->timeline, rank, event);
}

static int take_row(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	int status = report_data_note_row(report_of(output)->data, row, facts);

	return status == 0 ? fault_feed_row(&output->timeline, row, facts) : status;
}

static int take_late(struct output *output, const struct late_call *call)
{
	return fault_feed_late(&output->timeline, call);
}

static int take_pass(struct output *output, const struct pass_facts *pass)
{
	report_data_note_pass(report_of(output)->data, pass,
			      pass_times_kind(&output->summary->pass_times, pass));
	return 0;
}

/* A communicator ------------------------------------------------------------------------------- */

/* A line each in an element, so that the style can indent what has to be broken. */
static void print_lines(FILE *file, char *text)
{
	char *rest = NULL;

	fputs("<pre class=\"summary\">", file);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		fputs("<span>", file);
		html_text(file, line);
		fputs("</span>", file);
	}
	fputs("</pre>\n", file);
}

/* The summary as `summary` prints it, save what stands above it already. */
static int print_summary(const struct output *output, FILE *file)
{
	struct output as_text = *output;
	char *text = NULL;
	size_t size = 0;
	int status = BELAY_E_NO_MEMORY;

	as_text.file = open_memstream(&text, &size);
	as_text.colour = 0;
	as_text.without_story = 1;
	as_text.comms = 1; /* none is told in brief here */
	if (!as_text.file)
		goto out;
	status = command_summary_text.comm_end(&as_text);
	if (fclose(as_text.file) != 0 && status == 0)
		status = BELAY_E_NO_MEMORY;
	if (status != 0)
		goto out;
	print_lines(file, text);
out:
	free(text);
	return status;
}

/* What one would tell a colleague. Nothing is told of what is sound. */
static void print_story(FILE *file, const struct story *story)
{
	char words[STORY_SENTENCE_BYTES];

	if (story->count == 0)
		return;
	fputs("<ul class=\"story\">\n", file);
	for (size_t i = 0; i < story->count; i++) {
		fputs("<li>", file);
		html_text(file, story_words(&story->points[i], words));
		fputs("</li>\n", file);
	}
	fputs("</ul>\n", file);
}

static int is_shown_whole(const struct report *report, const struct summary *summary)
{
	if (summary->calls == 0 || report->full >= FULL_MAX)
		return 0;
	return report->full < SOUND_FULL_MAX || summary_has_findings(summary) ||
	       summary_has_losses(summary);
}

/* For a page of several: what there is, and the worst of it. */
static void print_index(const struct report_page *page, FILE *file, const struct story *story)
{
	char words[STORY_SENTENCE_BYTES];

	fprintf(file, "<li%s><a href=\"#c%zu\"><code>", story->count ? " class=\"bad\"" : "",
		page->comm);
	html_text(file, page->summary->id);
	fprintf(file, "</code></a> %" PRIu32 " ranks, %" PRIu64 " calls: ", page->summary->nranks,
		page->summary->calls);
	html_text(file, story->count ? story_words(&story->points[0], words) : "nothing to tell");
	fputs("</li>\n", file);
}

static int print_comm(struct output *output)
{
	struct report *report = report_of(output);
	struct report_page page = {.file = report->body.file,
				   .comm = output->comms_done + 1,
				   .data = report->data,
				   .summary = output->summary,
				   .base_ns = output->base_ns};
	int whole = is_shown_whole(report, output->summary), status;
	struct story story;

	if (!whole && report->in_text >= TEXT_MAX) {
		report->left_out++;
		return 0;
	}
	story_tell(output->summary, output->clocks->differ, &story);
	print_index(&page, report->index.file, &story);
	report_comm_begin(&page);
	print_story(page.file, &story);
	if (whole)
		report_tiles(&page);
	status = print_summary(output, page.file);
	if (whole) {
		report->full++;
		report_plots(&page);
		report_tables(&page);
	} else {
		report->in_text++;
	}
	report_comm_end(&page);
	return status;
}

static int comm_end(struct output *output)
{
	struct report *report = report_of(output);
	int status = fault_feed_finish(&output->timeline, output->summary);

	report->findings |= summary_has_findings(output->summary);
	report->losses |= summary_has_losses(output->summary);
	if (status == 0)
		status = print_comm(output);
	if (status == 0 && (!part_is_whole(&report->index) || !part_is_whole(&report->body)))
		status = BELAY_E_NO_MEMORY;
	return status;
}

/* The page ------------------------------------------------------------------------------------- */

static void print_state(FILE *file, const struct report *report, const struct inputs *inputs)
{
	if (!report)
		fputs("<p class=\"state bad\">No calls were found.</p>\n", file);
	else if (report->findings)
		fputs("<p class=\"state bad\">There were rescues, mismatches, digest differences "
		      "or "
		      "a verdict.</p>\n",
		      file);
	else
		fputs("<p class=\"state\">Every call that was recorded is sound.</p>\n", file);
	if ((report && report->losses) || inputs->damages.count)
		fputs("<p class=\"state bad\">A part of the recording is missing or damaged; "
		      "nothing "
		      "is concluded from what is not there.</p>\n",
		      file);
}

static void print_damage(FILE *file, const struct input_damage *one)
{
	fputs("<tr><td class=\"words\">", file);
	html_text(file, one->file);
	fputs("</td><td class=\"words\">", file);
	html_text(file, one->reason);
	fprintf(file, "</td><td>%" PRIu64 "</td><td>", one->records_kept);
	if (one->records_lost >= 0)
		fprintf(file, "%" PRId64 "</td></tr>\n", one->records_lost);
	else
		fputs("unknown</td></tr>\n", file);
}

static void print_damages(FILE *file, const struct inputs *inputs)
{
	const struct input_damage *damages = inputs->damages.items;
	size_t n = inputs->damages.count;

	if (n == 0)
		return;
	fputs("<section><h2>Damaged or missing input</h2>\n"
	      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"damaged input\">\n"
	      "<table><thead><tr><th scope=\"col\">file</th><th scope=\"col\" class=\"words\">what "
	      "is wrong</th>"
	      "<th scope=\"col\">records kept</th><th "
	      "scope=\"col\">lost</th></tr></thead>\n<tbody>\n",
	      file);
	for (size_t i = 0; i < n && i < DAMAGES_MAX; i++)
		print_damage(file, &damages[i]);
	fputs("</tbody></table></div>\n", file);
	if (n > DAMAGES_MAX)
		fprintf(file, "<p>And %zu more.</p>\n", n - DAMAGES_MAX);
	fputs("</section>\n", file);
}

static void print_body(FILE *file, const struct report *report)
{
	if (report->full + report->in_text > 1) {
		fputs("<nav aria-label=\"communicators\"><ul class=\"index\">\n", file);
		(void)fwrite(report->index.text, 1, report->index.size, file);
		fputs("</ul></nav>\n", file);
	}
	(void)fwrite(report->body.text, 1, report->body.size, file);
	if (report->left_out)
		fprintf(file,
			"<p>And %zu more communicators: <code>trace-analyze summary</code>.</p>\n",
			report->left_out);
}

/* Without any communicator there is no report. */
static void end(struct output *output, const struct inputs *inputs)
{
	struct report *report = report_of(output);

	report_page_begin(output->file);
	print_state(output->file, report, inputs);
	if (report)
		print_body(output->file, report);
	print_damages(output->file, inputs);
	report_page_end(output->file);
}

const struct command_ops command_report = {
	.name = "report",
	.comm_begin = comm_begin,
	.event = take_event,
	.row = take_row,
	.late = take_late,
	.pass = take_pass,
	.comm_end = comm_end,
	.end = end,
	.close = close_report,
};
