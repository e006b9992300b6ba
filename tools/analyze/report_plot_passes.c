/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over time, the slow ones marked; calls over time where no passes are known. */
#include <inttypes.h>

#include "tools/analyze/report_figure.h"

/* Units of the height in the SVG of the shares. */
#define SHARES 100u

/* Beyond this ratio of longest to mean a linear scale shows nothing but the longest. */
#define LINEAR_RATIO 6u

struct pass_plot {
	const struct report_page *page;
	const struct report_series *series;
	int of_passes; /* else of calls */
	struct report_scale scale;
	uint64_t slow_ns[PASS_TIMES_KINDS];
};

static uint64_t longest_of(const struct report_series *series)
{
	uint64_t longest = 1;

	for (size_t i = 0; i < series->count; i++) {
		if (series->columns[i].longest_ns > longest)
			longest = series->columns[i].longest_ns;
	}
	return longest;
}

static uint64_t shortest_of(const struct report_series *series)
{
	uint64_t shortest = UINT64_MAX;

	for (size_t i = 0; i < series->count; i++) {
		if (series->columns[i].shortest_ns < shortest)
			shortest = series->columns[i].shortest_ns;
	}
	return shortest ? shortest : 1;
}

static uint64_t mean_of(const struct report_series *series)
{
	double sum_ns = 0, count = 0;

	for (size_t i = 0; i < series->count; i++) {
		sum_ns += (double)series->columns[i].sum_ns;
		count += (double)series->columns[i].count;
	}
	return count > 0 ? (uint64_t)(sum_ns / count) : 0;
}

static void pass_plot_init(struct pass_plot *plot, const struct report_page *page)
{
	const struct report_data *data = page->data;
	const struct pass_times *times = &page->summary->pass_times;
	uint64_t longest_ns;

	*plot = (struct pass_plot){.page = page, .of_passes = data->passes.count != 0};
	plot->series = plot->of_passes ? &data->passes : &data->calls;
	longest_ns = longest_of(plot->series);
	if (longest_ns / LINEAR_RATIO > mean_of(plot->series))
		report_scale_logarithmic(shortest_of(plot->series), longest_ns, &plot->scale);
	else
		report_scale_linear(longest_ns, &plot->scale);
	for (size_t i = 0; i < PASS_TIMES_KINDS; i++)
		plot->slow_ns[i] = plot->of_passes && i < times->nkinds
					   ? pass_kind_slow_above(&times->kinds[i])
					   : UINT64_MAX;
}

/* The slow pass of the column that stands highest; NULL: none. */
static const struct report_peak *slow_peak(const struct pass_plot *plot,
					   const struct report_stretch *column)
{
	const struct report_peak *best = NULL;

	for (size_t i = 0; i < PASS_TIMES_KINDS; i++) {
		const struct report_peak *peak = &column->peaks[i];

		if (peak->ns > plot->slow_ns[i] && (!best || peak->ns > best->ns))
			best = peak;
	}
	return best;
}

static unsigned height_of(const struct pass_plot *plot, uint64_t ns)
{
	return FIGURE_HEIGHT - report_scale_place(&plot->scale, ns, FIGURE_HEIGHT);
}

static void print_ranges(const struct pass_plot *plot)
{
	FILE *file = plot->page->file;

	fputs("<path class=\"range\" d=\"", file);
	for (size_t i = 0; i < plot->series->count; i++) {
		const struct report_stretch *column = &plot->series->columns[i];

		fprintf(file, "M%zu %uV%u", i * FIGURE_COLUMN + FIGURE_COLUMN / 2,
			height_of(plot, column->shortest_ns), height_of(plot, column->longest_ns));
	}
	fputs("\"/>\n<path class=\"slow\" d=\"", file);
	for (size_t i = 0; i < plot->series->count; i++) {
		const struct report_peak *peak = slow_peak(plot, &plot->series->columns[i]);

		if (peak)
			fprintf(file, "M%zu %uh0", i * FIGURE_COLUMN + FIGURE_COLUMN / 2,
				height_of(plot, peak->ns));
	}
	fputs("\"/>\n", file);
}

/* Parts of a hundred of the time of all the column's passes. */
static unsigned share_of(uint64_t part_ns, const struct report_stretch *column)
{
	uint64_t whole_ns = column->sum_ns ? column->sum_ns : 1;
	double share = (double)part_ns / (double)whole_ns * SHARES;

	return share >= SHARES ? SHARES : (unsigned)(share + 0.5);
}

static void print_share_bars(const struct pass_plot *plot, int of_wait)
{
	FILE *file = plot->page->file;

	fprintf(file, "<path class=\"%s\" d=\"", of_wait ? "wait" : "transfer");
	for (size_t i = 0; i < plot->series->count; i++) {
		const struct report_stretch *column = &plot->series->columns[i];
		unsigned transfer = share_of(column->transfer_ns, column);
		unsigned both = share_of(column->transfer_ns + column->wait_ns, column);
		unsigned bottom = of_wait ? transfer : 0, top = of_wait ? both : transfer;

		if (top > bottom)
			fprintf(file, "M%zu %uh%uv-%uh-%uz", i * FIGURE_COLUMN, SHARES - bottom,
				FIGURE_COLUMN, top - bottom, FIGURE_COLUMN);
	}
	fputs("\"/>\n", file);
}

static void print_findings_of(FILE *file, const struct report_stretch *column)
{
	if (column->late)
		fprintf(file, "; late calls: %" PRIu64, column->late);
	if (column->rescued)
		fprintf(file, "; rescued calls: %" PRIu64, column->rescued);
	if (column->failed)
		fprintf(file, "; failed calls: %" PRIu64, column->failed);
}

static void print_pass_column(const struct pass_plot *plot, const struct report_stretch *column)
{
	FILE *file = plot->page->file;
	const char *name = plot->of_passes ? "pass" : "seq";
	const struct report_peak *peak = slow_peak(plot, column);

	fprintf(file, "\"%s %" PRIu64, name, column->first);
	if (column->last != column->first)
		fprintf(file, " to %" PRIu64, column->last);
	fputs(", at ", file);
	report_print_since(plot->page, column->first_ns);
	fputs(": ", file);
	if (column->count > 1) {
		report_print_time(file, column->shortest_ns);
		fputs(" to ", file);
	}
	report_print_time(file, column->longest_ns);
	fprintf(file, "; wait %u %%, transfer %u %%", share_of(column->wait_ns, column),
		share_of(column->transfer_ns, column));
	if (column->waited_for >= 0)
		fprintf(file, ", waited for rank %d", column->waited_for);
	if (peak && column->count > 1)
		fprintf(file, "; slow: %s %" PRIu64, name, peak->which);
	else if (peak)
		fputs("; slow", file);
	print_findings_of(file, column);
	fputc('"', file);
}

static void print_pass_caption(const struct pass_plot *plot)
{
	const struct report_page *page = plot->page;
	FILE *file = page->file;

	if (plot->of_passes)
		fputs("<p>How long each pass took, from the start of its first call to the end of "
		      "its last, on a ",
		      file);
	else
		fputs("<p>No passes are known: how long each call took for its slowest rank, on a ",
		      file);
	fprintf(file,
		"%s scale. Below, the part of that time in which ranks waited for the last one ",
		plot->scale.logarithmic ? "logarithmic" : "linear");
	fputs("to arrive, and the part in which data moved; the rest was spent outside allreduce.",
	      file);
	if (plot->series->width > 1)
		fprintf(file,
			" A column stands for %" PRIu64 " %s, from the shortest to the longest.",
			plot->series->width, plot->of_passes ? "passes" : "calls");
	fputs("</p>\n<ul class=\"key\"><li><i class=\"k-range\"></i>duration</li>", file);
	if (plot->of_passes)
		fputs("<li><i class=\"k-slow\"></i>slow: half as long again as the median of its "
		      "kind</li>",
		      file);
	fputs("<li><i class=\"k-wait\"></i>wait</li><li><i class=\"k-transfer\"></i>transfer</li>"
	      "</ul></figcaption>\n",
	      file);
}

static void print_pass_ends(const struct pass_plot *plot)
{
	const struct report_stretch *first = &plot->series->columns[0];
	const struct report_stretch *last = &plot->series->columns[plot->series->count - 1];
	const char *name = plot->of_passes ? "pass" : "seq";

	fprintf(plot->page->file, "<div class=\"ends\"><span>%s %" PRIu64 ", ", name, first->first);
	report_print_since(plot->page, first->first_ns);
	fprintf(plot->page->file, "</span><span>%s %" PRIu64 ", ", name, last->last);
	report_print_since(plot->page, last->last_ns);
	fputs("</span></div>\n", plot->page->file);
}

void report_plot_passes(const struct report_page *page)
{
	struct pass_plot plot;
	size_t width;

	pass_plot_init(&plot, page);
	if (plot.series->count == 0)
		return;
	width = plot.series->count * FIGURE_COLUMN;
	figure_begin(page, "passes", plot.of_passes ? "Passes over time" : "Calls over time");
	print_pass_caption(&plot);
	fputs("<div class=\"axes\">\n", page->file);
	fputs("<div>\n", page->file);
	figure_print_axis(page, &plot.scale);
	fputs("<div class=\"ticks of-shares\"><span style=\"bottom:0%\">0</span>"
	      "<span style=\"bottom:100%\">100 %</span></div>\n</div>\n",
	      page->file);
	figure_area_begin(page, "passes", plot.of_passes ? "passes" : "calls");
	figure_svg_begin(page, "durations", width, FIGURE_HEIGHT, "durations over time");
	figure_print_grid(page, &plot.scale, width);
	print_ranges(&plot);
	fputs("</svg>\n", page->file);
	figure_svg_begin(page, "shares", width, SHARES, "wait and transfer, parts of the time");
	print_share_bars(&plot, 0);
	print_share_bars(&plot, 1);
	fputs("</svg>\n</div>\n", page->file);
	print_pass_ends(&plot);
	fputs("</div>\n", page->file);
	figure_columns_begin(page, "passes");
	for (size_t i = 0; i < plot.series->count; i++) {
		fputs(i ? ",\n" : "\n", page->file);
		print_pass_column(&plot, &plot.series->columns[i]);
	}
	figure_columns_end(page);
	figure_end(page);
}
