/* SPDX-License-Identifier: Apache-2.0 */
/* The arrival heat map: a row a rank, a column so many calls, darker the further behind. */
#include <inttypes.h>

#include "tools/analyze/report_figure.h"

/* The same colours mean the same times in every report. */
static const struct {
	uint64_t from_ns;
	const char *name;
} levels[] = {
	{0, "under 1 us"},  {1000, "1 us"},    {3000, "3 us"},
	{10000, "10 us"},   {30000, "30 us"},  {100000, "0.1 ms"},
	{300000, "0.3 ms"}, {1000000, "1 ms"}, {10000000, "10 ms"},
};

#define LEVELS (sizeof(levels) / sizeof(levels[0]))

#define RANKS_TOLD	3u  /* of a column, in words */
#define WORST_CALLS_MAX 32u /* of a column whose worst is shown first */

static size_t level_of(uint64_t ns)
{
	size_t level = LEVELS - 1;

	while (ns < levels[level].from_ns)
		level--;
	return level;
}

static uint64_t mean_of(const struct report_arrivals *arrivals, size_t column, uint32_t rank)
{
	return arrivals->sum_ns[column * arrivals->nranks + rank] / arrivals->columns[column].calls;
}

static uint64_t worst_of(const struct report_arrivals *arrivals, size_t column, uint32_t rank)
{
	return arrivals->worst_ns[column * arrivals->nranks + rank];
}

typedef uint64_t value_function(const struct report_arrivals *arrivals, size_t column,
				uint32_t rank);

/* Cells of one level in one path, neighbours of a row as one rectangle. Level 0 is the ground. */
static void print_level(FILE *file, const struct report_arrivals *arrivals, value_function *value,
			size_t level)
{
	fprintf(file, "<path class=\"l%zu\" d=\"", level);
	for (uint32_t rank = 0; rank < arrivals->nranks; rank++) {
		for (size_t i = 0, end; i < arrivals->count; i = end) {
			end = i + 1;
			if (level_of(value(arrivals, i, rank)) != level)
				continue;
			while (end < arrivals->count &&
			       level_of(value(arrivals, end, rank)) == level)
				end++;
			fprintf(file, "M%zu %uh%zuv%uh-%zuz", i * FIGURE_COLUMN,
				rank * FIGURE_COLUMN, (end - i) * FIGURE_COLUMN, FIGURE_COLUMN,
				(end - i) * FIGURE_COLUMN);
		}
	}
	fputs("\"/>\n", file);
}

static void print_map(const struct report_page *page, const char *class, value_function *value,
		      const char *label)
{
	const struct report_arrivals *arrivals = &page->data->arrivals;

	figure_svg_begin(page, class, arrivals->count * FIGURE_COLUMN,
			 arrivals->nranks * FIGURE_COLUMN, label);
	for (size_t level = 1; level < LEVELS; level++)
		print_level(page->file, arrivals, value, level);
	fputs("</svg>\n", page->file);
}

/* Few enough to be read. */
static void print_rank_names(const struct report_page *page)
{
	uint32_t n = page->data->arrivals.nranks;
	uint32_t step = n <= 16 ? 1 : n <= 32 ? 2 : 4;

	fputs("<div class=\"ranks\">", page->file);
	for (uint32_t rank = 0; rank < n; rank += step)
		fprintf(page->file, "<span style=\"top:%.2f%%\">rank %" PRIu32 "</span>",
			100.0 * ((double)rank + 0.5) / (double)n, rank);
	fputs("</div>\n", page->file);
}

static void print_key(FILE *file)
{
	fputs("<ul class=\"key heat-key\">", file);
	for (size_t level = 0; level < LEVELS; level++)
		fprintf(file, "<li><i class=\"l%zu\"></i>%s%s</li>", level, levels[level].name,
			level == LEVELS - 1 ? " and more" : "");
	fputs("</ul>", file);
}

/* The ranks of the column that came furthest behind, the worst first. */
static unsigned worst_ranks(const struct report_arrivals *arrivals, size_t column,
			    uint32_t ranks[RANKS_TOLD])
{
	unsigned n = 0;

	for (uint32_t rank = 0; rank < arrivals->nranks; rank++) {
		uint64_t worst = worst_of(arrivals, column, rank);
		unsigned i;

		if (worst == 0 ||
		    (n == RANKS_TOLD && worst <= worst_of(arrivals, column, ranks[n - 1])))
			continue;
		if (n < RANKS_TOLD)
			n++;
		for (i = n - 1; i > 0 && worst_of(arrivals, column, ranks[i - 1]) < worst; i--)
			ranks[i] = ranks[i - 1];
		ranks[i] = rank;
	}
	return n;
}

static void print_column(const struct report_page *page, size_t i)
{
	const struct report_arrivals *arrivals = &page->data->arrivals;
	FILE *file = page->file;
	uint32_t ranks[RANKS_TOLD];
	unsigned n = worst_ranks(arrivals, i, ranks);

	fprintf(file, "\"seq %" PRIu64, arrivals->columns[i].first_seq);
	if (arrivals->columns[i].last_seq != arrivals->columns[i].first_seq)
		fprintf(file, " to %" PRIu64, arrivals->columns[i].last_seq);
	if (arrivals->columns[i].first_pass)
		fprintf(file, ", pass %" PRIu64, arrivals->columns[i].first_pass);
	if (arrivals->columns[i].last_pass != arrivals->columns[i].first_pass)
		fprintf(file, " to %" PRIu64, arrivals->columns[i].last_pass);
	fputs(n ? ": " : ": all at once", file);
	for (unsigned k = 0; k < n; k++) {
		fprintf(file, "%srank %" PRIu32 " behind by ", k ? "; " : "", ranks[k]);
		report_print_time(file, worst_of(arrivals, i, ranks[k]));
		if (arrivals->columns[i].calls > 1) {
			fputs(" at worst, ", file);
			report_print_time(file, mean_of(arrivals, i, ranks[k]));
			fputs(" in the mean", file);
		}
	}
	fputc('"', file);
}

static void print_choice_of(const struct report_page *page, const char *name, const char *label,
			    int checked)
{
	fprintf(page->file,
		"<input type=\"radio\" name=\"c%zu-heat\" id=\"c%zu-%s\" class=\"show-%s\"%s>"
		"<label for=\"c%zu-%s\">%s</label>\n",
		page->comm, page->comm, name, name, checked ? " checked" : "", page->comm, name,
		label);
}

/* Two radio buttons in front of the maps; the style sheet shows the one that is chosen. Of many
 * calls one is always far behind by chance: then the mean says more. */
static void print_choice(const struct report_page *page)
{
	int mean = page->data->arrivals.width > WORST_CALLS_MAX;

	print_choice_of(page, "worst", "worst of each column", !mean);
	print_choice_of(page, "mean", "mean", mean);
}

static void print_caption(const struct report_page *page)
{
	const struct report_arrivals *arrivals = &page->data->arrivals;

	fputs("<p>How far behind the median of the others each rank's input stood ready.",
	      page->file);
	if (arrivals->width > 1)
		fprintf(page->file, " A column stands for %" PRIu64 " calls.", arrivals->width);
	fputs(" Only calls that tell who was last are here.</p>\n", page->file);
	print_key(page->file);
	fputs("</figcaption>\n", page->file);
}

void report_plot_arrivals(const struct report_page *page)
{
	const struct report_arrivals *arrivals = &page->data->arrivals;

	if (arrivals->count == 0)
		return;
	figure_begin(page, "arrivals", "Arrivals, rank by call");
	print_caption(page);
	print_choice(page);
	fprintf(page->file, "<div class=\"axes heat\" style=\"--ranks:%" PRIu32 "\">\n",
		arrivals->nranks);
	print_rank_names(page);
	figure_area_begin(page, "arrivals", "calls");
	print_map(page, "map worst", worst_of, "arrivals behind the others, worst of each column");
	print_map(page, "map mean", mean_of, "arrivals behind the others, mean of each column");
	fprintf(page->file,
		"</div>\n<div class=\"ends\"><span>seq %" PRIu64 "</span><span>seq %" PRIu64
		"</span></div>\n</div>\n",
		arrivals->columns[0].first_seq, arrivals->columns[arrivals->count - 1].last_seq);
	figure_columns_begin(page, "arrivals");
	for (size_t i = 0; i < arrivals->count; i++) {
		fputs(i ? ",\n" : "\n", page->file);
		print_column(page, i);
	}
	figure_columns_end(page);
	figure_end(page);
}
