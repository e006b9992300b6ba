/* SPDX-License-Identifier: Apache-2.0 */
/* The report's page around its plots: head, style, tiles, tables. */
#ifndef BELAY_TOOLS_ANALYZE_REPORT_PAGE_H
#define BELAY_TOOLS_ANALYZE_REPORT_PAGE_H

#include <stdio.h>

#include "tools/analyze/report_plots.h"

void report_page_begin(FILE *file);
void report_page_end(FILE *file);

/* One communicator, from its heading on. */
void report_comm_begin(const struct report_page *page);
void report_tiles(const struct report_page *page);
void report_plots(const struct report_page *page);
void report_tables(const struct report_page *page);
void report_comm_end(const struct report_page *page);

#endif /* BELAY_TOOLS_ANALYZE_REPORT_PAGE_H */
