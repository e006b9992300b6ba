/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/report_figure.h"
#include "tools/analyze/words.h"

void report_print_time(FILE *file, uint64_t ns)
{
	char time[WORDS_TIME_BYTES];

	fputs(ns ? words_time(ns, time) : "0", file);
}

/* From the first call on; what was before counts as 0. */
void report_print_since(const struct report_page *page, uint64_t time_ns)
{
	report_print_time(page->file, time_ns > page->base_ns ? time_ns - page->base_ns : 0);
}

void figure_begin(const struct report_page *page, const char *name, const char *title)
{
	fprintf(page->file,
		"<figure id=\"c%zu-%s\" aria-labelledby=\"c%zu-%s-title\">\n<figcaption>"
		"<h3 id=\"c%zu-%s-title\">%s</h3>\n",
		page->comm, name, page->comm, name, page->comm, name, title);
}

/* The area that the script reads out, column by column. */
void figure_area_begin(const struct report_page *page, const char *name, const char *what)
{
	fprintf(page->file,
		"<div class=\"area\" data-columns=\"c%zu-%s-columns\" data-label=\"%s\">\n",
		page->comm, name, what);
}

void figure_columns_begin(const struct report_page *page, const char *name)
{
	fprintf(page->file,
		"<p class=\"readout\" hidden></p>\n"
		"<script type=\"application/json\" id=\"c%zu-%s-columns\">[",
		page->comm, name);
}

void figure_columns_end(const struct report_page *page)
{
	fputs("]</script>\n", page->file);
}

void figure_end(const struct report_page *page)
{
	fputs("</figure>\n", page->file);
}

void figure_svg_begin(const struct report_page *page, const char *class, size_t width,
		      unsigned height, const char *label)
{
	fprintf(page->file,
		"<svg class=\"%s\" viewBox=\"0 0 %zu %u\" preserveAspectRatio=\"none\" "
		"role=\"img\" aria-label=\"%s\">\n",
		class, width, height, label);
}

/* The axis' marks in words, from the top down, and lines at their heights. */
void figure_print_axis(const struct report_page *page, const struct report_scale *scale)
{
	fputs("<div class=\"ticks\">", page->file);
	for (size_t i = 0; i < scale->nticks; i++) {
		unsigned place = report_scale_place(scale, scale->ticks_ns[i], FIGURE_HEIGHT);

		fprintf(page->file, "<span style=\"bottom:%u.%u%%\">", place / 10, place % 10);
		report_print_time(page->file, scale->ticks_ns[i]);
		fputs("</span>", page->file);
	}
	fputs("</div>\n", page->file);
}

void figure_print_grid(const struct report_page *page, const struct report_scale *scale,
		       size_t width)
{
	fputs("<path class=\"grid\" d=\"", page->file);
	for (size_t i = 0; i < scale->nticks; i++)
		fprintf(page->file, "M0 %uH%zu",
			FIGURE_HEIGHT -
				report_scale_place(scale, scale->ticks_ns[i], FIGURE_HEIGHT),
			width);
	fputs("\"/>\n", page->file);
}
