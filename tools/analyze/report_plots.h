/* SPDX-License-Identifier: Apache-2.0 */
/* The plots of the report, each a figure of HTML; nothing where there is nothing to show. */
#ifndef BELAY_TOOLS_ANALYZE_REPORT_PLOTS_H
#define BELAY_TOOLS_ANALYZE_REPORT_PLOTS_H

#include <stdio.h>

#include "tools/analyze/report_data.h"
#include "tools/analyze/summary.h"

struct report_page {
	FILE *file;
	size_t comm; /* number in the document, from 1: part of ids */
	const struct report_data *data;
	const struct summary *summary;
	uint64_t base_ns; /* times are told from it */
};

void report_plot_passes(const struct report_page *page);
void report_plot_latency(const struct report_page *page);
void report_plot_arrivals(const struct report_page *page);
void report_plot_faults(const struct report_page *page);

#endif /* BELAY_TOOLS_ANALYZE_REPORT_PLOTS_H */
