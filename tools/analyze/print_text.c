/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "tools/analyze/print_text.h"

#define BREAKS_SHOWN  3u
#define STORY_INDENT  12
#define STORY_COLUMNS 100u
#include "tools/analyze/words.h"

#define DAMAGES_SHOWN 6u

void text_bold(const struct output *output)
{
	if (output->colour)
		fputs("\033[1m", output->file);
}

void text_red(const struct output *output)
{
	if (output->colour)
		fputs("\033[1;31m", output->file);
}

void text_plain(const struct output *output)
{
	if (output->colour)
		fputs("\033[0m", output->file);
}

void text_heading(const struct output *output)
{
	const struct summary *summary = output->summary;

	text_bold(output);
	fprintf(output->file, "communicator %s: %" PRIu32 " rank%s\n", summary->id, summary->nranks,
		summary->nranks == 1 ? "" : "s");
	text_plain(output);
	if (summary->part[0])
		fprintf(output->file, "  numbered within their host: %s\n", summary->part);
}

void text_time(const struct output *output, uint64_t time_ns, int width)
{
	int64_t ns = (int64_t)(output->absolute ? time_ns : time_ns - output->base_ns);

	fprintf(output->file, "%*.3f", width, (double)ns / 1000.0);
}

static void print_clock(const struct output *output, uint32_t rank)
{
	char offset[WORDS_TIME_BYTES], bound[WORDS_TIME_BYTES], worst[WORDS_TIME_BYTES];
	struct clock_report report;
	FILE *file = output->file;
	int behind;

	clocks_report(output->clocks, rank, &report);
	behind = report.offset_ns < 0;
	fprintf(file, "rank %" PRIu32 "'s clock is not rank %" PRIu32 "'s", rank,
		output->clocks->reference);
	if (report.refused) {
		fprintf(file, " and cannot be aligned: %s; nothing is concluded from its times\n",
			report.refused);
		return;
	}
	fprintf(file, ": %s by %s", behind ? "behind" : "ahead",
		words_time(behind ? 0 - (uint64_t)report.offset_ns : (uint64_t)report.offset_ns,
			   offset));
	if (report.drift_ppm > 0.05 || report.drift_ppm < -0.05)
		fprintf(file, ", drift %.1f ppm", report.drift_ppm);
	if (report.steps)
		fprintf(file, ", %" PRIu64 " step%s", report.steps, report.steps == 1 ? "" : "s");
	fprintf(file, "; aligned by the calls to within %s, %s at worst\n",
		words_time(report.bound_ns, bound), words_time(report.bound_worst_ns, worst));
}

void text_clocks(const struct output *output, const char *label)
{
	for (uint64_t left = output->clocks->differ; left;) {
		fputs(label, output->file);
		print_clock(output, mask_pop(&left));
	}
}

/* Words wrapped into lines below each other. Returns the column reached. */
static size_t print_wrapped(FILE *file, const char *words, size_t column)
{
	while (*words) {
		size_t length = strcspn(words, " ");

		if (column > STORY_INDENT && column + 1 + length > STORY_COLUMNS) {
			fprintf(file, "\n%*s", STORY_INDENT, "");
			column = STORY_INDENT;
		} else if (column > STORY_INDENT) {
			fputc(' ', file);
			column++;
		}
		fprintf(file, "%.*s", (int)length, words);
		column += length;
		words += length;
		words += strspn(words, " ");
	}
	return column;
}

void text_story(const struct output *output, const struct story *story, int only_faults)
{
	char sentence[STORY_SENTENCE_BYTES];
	int begun = 0;

	for (size_t i = 0; i < story->count; i++) {
		if (only_faults && !story_is_fault(story->points[i].what))
			continue;
		if (!begun) {
			text_bold(output);
			fprintf(output->file, "  %-*s", STORY_INDENT - 2, "in short");
			text_plain(output);
		} else {
			fprintf(output->file, "%*s", STORY_INDENT, "");
		}
		begun = 1;
		(void)print_wrapped(output->file, story_words(&story->points[i], sentence),
				    STORY_INDENT);
		fputc('\n', output->file);
	}
}

static void print_damage(const struct output *output, const struct input_damage *one)
{
	fprintf(output->file, "  %s: %s; %" PRIu64 " records kept", one->file, one->reason,
		one->records_kept);
	if (one->records_lost >= 0)
		fprintf(output->file, ", %" PRId64 " lost\n", one->records_lost);
	else
		fputs(", unknown how many lost\n", output->file);
}

static void print_break(const struct output *output, const struct pass_rule *rule, size_t i)
{
	struct pass_break broken;

	pass_rule_break(rule, i, &broken);
	fprintf(output->file, "%sseq %" PRIu64, i ? ", " : "", broken.seq);
	if (!broken.until)
		fputs(" (for good)", output->file);
	else if (broken.calls != rule->period)
		fprintf(output->file, " (%" PRIu64 " calls from seq %" PRIu64 " on)", broken.calls,
			broken.until);
	else
		fprintf(output->file, " (again from seq %" PRIu64 " on)", broken.until);
}

/* Of what repeats: indent, calls, first seq. */
static const char *const period_words[] = {
	[PERIOD_SIZES] = "%severy %" PRIu64 " calls the same sizes come again, from seq %" PRIu64,
	[PERIOD_ALIKE] = "%s%" PRIu64 " calls each are of one size, from seq %" PRIu64,
	[PERIOD_PAUSES] = "%severy %" PRIu64 " calls a long pause comes again, from seq %" PRIu64,
};

void text_period(const struct output *output, const char *indent)
{
	const struct pass_rule *rule = &output->summary->passes.rule;
	size_t breaks = pass_rule_breaks(rule);

	if (rule->by != PASS_BY_PERIOD)
		return;
	fprintf(output->file, period_words[rule->kind], indent, rule->period, rule->first_seq);
	fprintf(output->file, ": so it is for %.1f %% of the calls\n",
		100.0 * pass_rule_sureness(rule));
	if (!breaks)
		return;
	fprintf(output->file, "%sbroken %s at ", indent, breaks == 1 ? "once," : "first");
	for (size_t i = 0; i < breaks && i < BREAKS_SHOWN; i++)
		print_break(output, rule, i);
	if (breaks > BREAKS_SHOWN)
		fprintf(output->file, ", and %zu times more", breaks - BREAKS_SHOWN);
	fputc('\n', output->file);
}

void text_damages(struct output *output, const struct inputs *inputs)
{
	const struct input_damage *damages = inputs->damages.items;
	size_t n = inputs->damages.count;

	if (output->comms == 0)
		fputs("no calls found\n", output->file);
	if (n == 0)
		return;
	text_red(output);
	fputs("damaged or missing input\n", output->file);
	text_plain(output);
	for (size_t i = 0; i < n && i < DAMAGES_SHOWN; i++)
		print_damage(output, &damages[i]);
	if (n > DAMAGES_SHOWN)
		fprintf(output->file, "  and %zu more (all of them with --format=json)\n",
			n - DAMAGES_SHOWN);
}

void text_damages_aside(struct output *output, const struct inputs *inputs)
{
	const struct input_damage *damages = inputs->damages.items;

	(void)output;
	for (size_t i = 0; i < inputs->damages.count; i++)
		command_error("%s: %s", damages[i].file, damages[i].reason);
}
