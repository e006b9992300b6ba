/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the report's plots are made of. Marks are SVG stretched to the page's width; all text is
 * HTML beside it, so that it keeps its size on a phone. What a column says in words stands in a
 * list behind the plot, which report.js reads out under the pointer or the arrow keys.
 */
#ifndef BELAY_TOOLS_ANALYZE_REPORT_FIGURE_H
#define BELAY_TOOLS_ANALYZE_REPORT_FIGURE_H

#include <stdio.h>

#include "tools/analyze/report_plots.h"
#include "tools/analyze/report_scale.h"

/* Units of a column's width and of a plot's height in the SVG. */
#define FIGURE_COLUMN 10u
#define FIGURE_HEIGHT 1000u

/* A time span, and a time since page->base_ns; before it counts as 0. */
void report_print_time(FILE *file, uint64_t ns);
void report_print_since(const struct report_page *page, uint64_t time_ns);

/* <figure> and its heading; the caption is left open. `name` makes the ids. */
void figure_begin(const struct report_page *page, const char *name, const char *title);
/* What the script reads out; `what` its columns are, in one word. */
void figure_area_begin(const struct report_page *page, const char *name, const char *what);
/* Around the list of JSON strings, one for each column. */
void figure_columns_begin(const struct report_page *page, const char *name);
void figure_columns_end(const struct report_page *page);
void figure_end(const struct report_page *page);

void figure_svg_begin(const struct report_page *page, const char *class, size_t width,
		      unsigned height, const char *label);
/* The marks of an upright axis in words, and lines at their heights. */
void figure_print_axis(const struct report_page *page, const struct report_scale *scale);
void figure_print_grid(const struct report_page *page, const struct report_scale *scale,
		       size_t width);

#endif /* BELAY_TOOLS_ANALYZE_REPORT_FIGURE_H */
