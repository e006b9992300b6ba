/* SPDX-License-Identifier: Apache-2.0 */
/* The fault timeline: a lane for each kind of thing that happened, then the first of each in
 * words. */
#include <inttypes.h>

#include "tools/analyze/fault_feed.h"
#include "tools/analyze/html_text.h"
#include "tools/analyze/report_figure.h"
#include "tools/analyze/words.h"

#define LANE_HEIGHT 10u

/* Columns up to the last call or the last fault. */
static size_t columns_used(const struct report_page *page)
{
	const struct report_faults *faults = &page->data->faults;
	uint64_t span_ns = page->summary->last_ns > faults->origin_ns
				   ? page->summary->last_ns - faults->origin_ns
				   : 0;
	size_t used = span_ns >> faults->shift < REPORT_COLUMNS
			      ? (size_t)(span_ns >> faults->shift) + 1
			      : REPORT_COLUMNS;

	for (size_t kind = 1; kind < REPORT_FAULT_KINDS; kind++) {
		for (size_t i = used; i < REPORT_COLUMNS; i++) {
			if (faults->columns[kind][i])
				used = i + 1;
		}
	}
	return used;
}

static void print_lane(const struct report_page *page, size_t kind, size_t columns)
{
	const struct report_faults *faults = &page->data->faults;
	FILE *file = page->file;

	fprintf(file, "<p class=\"lane\"><b>%s</b> %" PRIu64 "</p>\n",
		fault_title((enum timeline_kind)kind), faults->counts[kind]);
	figure_svg_begin(page, "lane", columns * FIGURE_COLUMN, LANE_HEIGHT,
			 fault_title((enum timeline_kind)kind));
	fprintf(file, "<path class=\"grid\" d=\"M0 5H%zu\"/><path class=\"fault\" d=\"",
		columns * FIGURE_COLUMN);
	for (size_t i = 0; i < columns; i++) {
		if (faults->columns[kind][i])
			fprintf(file, "M%zu 5h0", i * FIGURE_COLUMN + FIGURE_COLUMN / 2);
	}
	fputs("\"/></svg>\n", file);
}

static void print_column(const struct report_page *page, size_t i)
{
	const struct report_faults *faults = &page->data->faults;
	const char *separator = ": ";
	FILE *file = page->file;

	fputs("\"from ", file);
	report_print_time(file, (uint64_t)i << faults->shift);
	for (size_t kind = 1; kind < REPORT_FAULT_KINDS; kind++) {
		if (!faults->columns[kind][i])
			continue;
		fprintf(file, "%s%s %" PRIu32, separator, fault_title((enum timeline_kind)kind),
			faults->columns[kind][i]);
		separator = ", ";
	}
	fputs(*separator == ':' ? ": nothing\"" : "\"", file);
}

static void print_row(const struct report_page *page, const struct timeline_item *item)
{
	char place[WORDS_PLACE_BYTES], text[512] = "";
	FILE *words = fmemopen(text, sizeof(text) - 1, "w");

	fputs("<tr><td>", page->file);
	report_print_since(page, item->time_ns);
	fprintf(page->file, "</td><td>%s</td><td class=\"words\">",
		item->seq ? words_place(item->seq, item->pass, place) : "-");
	fprintf(page->file, "<b>%s</b>: ", fault_title(item->kind));
	if (words) {
		fault_print(words, item);
		(void)fclose(words);
	}
	html_text(page->file, text);
	fputs("</td></tr>\n", page->file);
}

static void print_table(const struct report_page *page)
{
	const struct report_faults *faults = &page->data->faults;
	uint64_t all = 0;

	for (size_t kind = 1; kind < REPORT_FAULT_KINDS; kind++)
		all += faults->counts[kind];
	fprintf(page->file,
		"<details%s><summary>%zu of %" PRIu64
		" in words</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
		"aria-label=\"faults in words\">\n<table><thead><tr><th scope=\"col\">at</th>"
		"<th scope=\"col\">call</th><th scope=\"col\" "
		"class=\"words\">what</th></tr></thead>\n<tbody>\n",
		faults->nkept <= 12 ? " open" : "", faults->nkept, all);
	for (size_t i = 0; i < faults->nkept; i++)
		print_row(page, &faults->kept[i]);
	fputs("</tbody></table></div>\n", page->file);
	if (all > faults->nkept)
		fputs("<p>The first of each kind; all of them: <code>trace-analyze "
		      "faults</code>.</p>\n",
		      page->file);
	fputs("</details>\n", page->file);
}

void report_plot_faults(const struct report_page *page)
{
	const struct report_faults *faults = &page->data->faults;
	size_t columns = columns_used(page);

	if (faults->nkept == 0)
		return;
	figure_begin(page, "faults", "What went wrong, over time");
	fputs("</figcaption>\n<div class=\"axes lanes\">\n", page->file);
	figure_area_begin(page, "faults", "time");
	for (size_t kind = 1; kind < REPORT_FAULT_KINDS; kind++) {
		if (faults->counts[kind])
			print_lane(page, kind, columns);
	}
	fputs("</div>\n<div class=\"ends\"><span>0</span><span>", page->file);
	report_print_time(page->file, (uint64_t)columns << faults->shift);
	fputs("</span></div>\n</div>\n", page->file);
	figure_columns_begin(page, "faults");
	for (size_t i = 0; i < columns; i++) {
		fputs(i ? ",\n" : "\n", page->file);
		print_column(page, i);
	}
	figure_columns_end(page);
	print_table(page);
	figure_end(page);
}
