/* SPDX-License-Identifier: Apache-2.0 */
/* Latency by path and size: a row each, and a bar on one common scale under it. */
#include <inttypes.h>

#include "tools/analyze/report_figure.h"
#include "tools/analyze/words.h"

#define BAR_WIDTH  1000u
#define BAR_HEIGHT 10u

/* By path, then by size; those of all other sizes come last. */
static int by_path_and_size(const void *a, const void *b)
{
	const struct report_group *x = *(const struct report_group *const *)a;
	const struct report_group *y = *(const struct report_group *const *)b;

	if ((x->bytes == UINT64_MAX) != (y->bytes == UINT64_MAX))
		return x->bytes == UINT64_MAX ? 1 : -1;
	if (x->path != y->path)
		return x->path < y->path ? -1 : 1;
	if (x->collective != y->collective)
		return x->collective < y->collective ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static size_t sort_groups(const struct report_data *data, const struct report_group **groups)
{
	size_t n = 0;

	for (size_t i = 0; i <= REPORT_GROUPS; i++) {
		if (data->groups[i].latency)
			groups[n++] = &data->groups[i];
	}
	sort_items(groups, n, sizeof(groups[0]), by_path_and_size);
	return n;
}

static void scale_of(const struct report_group *const *groups, size_t n,
		     struct report_scale *ret_scale)
{
	uint64_t low_ns = UINT64_MAX, high_ns = 1;

	for (size_t i = 0; i < n; i++) {
		uint64_t p50 = histogram_quantile(groups[i]->latency, 0.50);

		if (p50 < low_ns)
			low_ns = p50;
		if (groups[i]->latency->largest > high_ns)
			high_ns = groups[i]->latency->largest;
	}
	report_scale_logarithmic(low_ns ? low_ns : 1, high_ns, ret_scale);
}

static void print_name(FILE *file, const struct report_group *group)
{
	char bytes[WORDS_TIME_BYTES], what[WORDS_NAME_BYTES];

	if (group->bytes == UINT64_MAX)
		fputs("<th scope=\"row\">others</th><td>others</td>", file);
	else
		fprintf(file, "<th scope=\"row\">%s%s%s</th><td>%s</td>",
			belay_path_name((enum belay_path)group->path), group->collective ? " " : "",
			group->collective ? words_op(group->collective, what) : "",
			words_bytes(group->bytes, bytes));
}

static void print_numbers(FILE *file, const struct histogram *latency)
{
	fprintf(file, "<td>%" PRIu64 "</td><td>", latency->count);
	report_print_time(file, histogram_quantile(latency, 0.50));
	fputs("</td><td>", file);
	report_print_time(file, histogram_quantile(latency, 0.99));
	fputs("</td><td>", file);
	report_print_time(file, latency->largest);
	fputs("</td></tr>\n", file);
}

static void print_bar(const struct report_page *page, const struct report_scale *scale,
		      const struct histogram *latency)
{
	FILE *file = page->file;
	unsigned p50 = report_scale_place(scale, histogram_quantile(latency, 0.50), BAR_WIDTH);
	unsigned p99 = report_scale_place(scale, histogram_quantile(latency, 0.99), BAR_WIDTH);
	unsigned max = report_scale_place(scale, latency->largest, BAR_WIDTH);

	fputs("<tr class=\"bar\" aria-hidden=\"true\"><td colspan=\"6\">", file);
	figure_svg_begin(page, "spread", BAR_WIDTH, BAR_HEIGHT, "median, 99th percentile, worst");
	fputs("<path class=\"grid\" d=\"", file);
	for (size_t i = 0; i < scale->nticks; i++)
		fprintf(file, "M%u 0V%u", report_scale_place(scale, scale->ticks_ns[i], BAR_WIDTH),
			BAR_HEIGHT);
	fprintf(file,
		"\"/><path class=\"to-worst\" d=\"M%u 5H%u\"/><path class=\"to-p99\" d=\"M%u "
		"5H%u\"/>"
		"<path class=\"p50\" d=\"M%u 5h0\"/></svg></td></tr>\n",
		p50, max, p50, p99, p50);
}

static void print_scale_row(const struct report_page *page, const struct report_scale *scale)
{
	fputs("<tr class=\"bar scale\" aria-hidden=\"true\"><td colspan=\"6\"><div>", page->file);
	for (size_t i = 0; i < scale->nticks; i++) {
		unsigned place = report_scale_place(scale, scale->ticks_ns[i], BAR_WIDTH);

		fprintf(page->file, "<span style=\"left:%u.%u%%\">", place / 10, place % 10);
		report_print_time(page->file, scale->ticks_ns[i]);
		fputs("</span>", page->file);
	}
	fputs("</div></td></tr>\n", page->file);
}

void report_plot_latency(const struct report_page *page)
{
	const struct report_group *groups[REPORT_GROUPS + 1];
	size_t n = sort_groups(page->data, groups);
	struct report_scale scale;

	if (n == 0)
		return;
	scale_of(groups, n, &scale);
	figure_begin(page, "latency", "Latency by size and path");
	fputs("<p>A call's latency is that of its slowest rank; logarithmic scale.</p>\n"
	      "<ul class=\"key\"><li><i class=\"k-p50\"></i>median</li>"
	      "<li><i class=\"k-p99\"></i>to the 99th percentile</li>"
	      "<li><i class=\"k-worst\"></i>to the worst</li></ul></figcaption>\n"
	      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"latency\">\n"
	      "<table class=\"latency\"><thead><tr><th scope=\"col\">path</th>"
	      "<th scope=\"col\">bytes</th><th scope=\"col\">calls</th><th "
	      "scope=\"col\">median</th>"
	      "<th scope=\"col\">p99</th><th scope=\"col\">worst</th></tr></thead>\n<tbody>\n",
	      page->file);
	for (size_t i = 0; i < n; i++) {
		fputs("<tr>", page->file);
		print_name(page->file, groups[i]);
		print_numbers(page->file, groups[i]->latency);
		print_bar(page, &scale, groups[i]->latency);
	}
	print_scale_row(page, &scale);
	fputs("</tbody></table></div>\n", page->file);
	figure_end(page);
}
