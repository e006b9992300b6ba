/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "tools/analyze/html_text.h"
#include "tools/analyze/report_assets.h"
#include "tools/analyze/report_figure.h"
#include "tools/analyze/report_page.h"
#include "tools/analyze/words.h"

/* The page ------------------------------------------------------------------------------------- */

/* The policy forbids whatever the page might load. */
void report_page_begin(FILE *file)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
	      "<link rel=\"icon\" href=\"data:,\">\n<title>belay: what happened</title>\n<style>\n",
	      file);
	fputs(report_css, file);
	fputs("</style>\n</head>\n<body>\n<header><h1>What happened</h1></header>\n<main>\n", file);
}

void report_page_end(FILE *file)
{
	fprintf(file,
		"</main>\n<footer><p>Made by trace-analyze (belay) %s. Times are from the "
		"communicator's first call.</p></footer>\n<script>\n",
		belay_version());
	fputs(report_js, file);
	fputs("</script>\n</body>\n</html>\n", file);
}

/* A communicator ------------------------------------------------------------------------------- */

void report_comm_begin(const struct report_page *page)
{
	fprintf(page->file,
		"<section aria-labelledby=\"c%zu\">\n<h2 id=\"c%zu\">Communicator of %" PRIu32
		" rank%s <code>",
		page->comm, page->comm, page->summary->nranks,
		page->summary->nranks == 1 ? "" : "s");
	html_text(page->file, page->summary->id);
	fputs("</code></h2>\n", page->file);
	if (!page->summary->part[0])
		return;
	fputs("<p>Numbered within their host: ", page->file);
	html_text(page->file, page->summary->part);
	fputs(".</p>\n", page->file);
}

void report_comm_end(const struct report_page *page)
{
	fputs("</section>\n", page->file);
}

void report_plots(const struct report_page *page)
{
	report_plot_passes(page);
	report_plot_latency(page);
	report_plot_arrivals(page);
	report_plot_faults(page);
}

/* Tiles ---------------------------------------------------------------------------------------- */

static void tile_begin(const struct report_page *page, const char *name, int bad)
{
	fprintf(page->file, "<li%s><b>%s</b> ", bad ? " class=\"bad\"" : "", name);
}

static void tile_end(const struct report_page *page)
{
	fputs("</li>\n", page->file);
}

/* The kind of which there are most. */
static const struct histogram *usual_times(const struct pass_times *times)
{
	const struct histogram *most = times->kinds[0].ns;

	for (size_t i = 1; i < times->nkinds; i++) {
		if (times->kinds[i].ns->count > most->count)
			most = times->kinds[i].ns;
	}
	return most;
}

static void pass_tile(const struct report_page *page)
{
	const struct pass_times *times = &page->summary->pass_times;
	const struct histogram *usual = usual_times(times);
	struct slow_pass slowest[PASS_TIMES_SLOWEST];
	size_t n;
	uint64_t slow = pass_times_slow(times, slowest, &n);

	tile_begin(page, "passes", slow != 0);
	fprintf(page->file, "%" PRIu64, page->summary->passes.count);
	if (usual) {
		fputs("<small>median ", page->file);
		report_print_time(page->file, histogram_quantile(usual, 0.50));
		fputs(", p99 ", page->file);
		report_print_time(page->file, histogram_quantile(usual, 0.99));
		fprintf(page->file, "; %" PRIu64 " slow</small>", slow);
	}
	tile_end(page);
}

static void call_tile(const struct report_page *page)
{
	tile_begin(page, "calls", 0);
	fprintf(page->file, "%" PRIu64 "<small>median ", page->summary->calls);
	report_print_time(page->file, histogram_quantile(page->summary->latency, 0.50));
	fputs(", p99 ", page->file);
	report_print_time(page->file, histogram_quantile(page->summary->latency, 0.99));
	fputs("</small>", page->file);
	tile_end(page);
}

static void late_tile(const struct report_page *page)
{
	const struct late_rank *ranks = page->summary->late.ranks;
	uint32_t worst = 0;

	for (uint32_t rank = 1; rank < page->summary->nranks; rank++) {
		if (ranks[rank].calls > ranks[worst].calls)
			worst = rank;
	}
	tile_begin(page, "late", ranks[worst].calls != 0);
	if (ranks[worst].calls) {
		fprintf(page->file, "rank %" PRIu32 "<small>in %" PRIu64 " call%s, by up to ",
			worst, ranks[worst].calls, ranks[worst].calls == 1 ? "" : "s");
		report_print_time(page->file, ranks[worst].worst_ns);
		fputs("</small>", page->file);
	} else {
		fputs("nobody", page->file);
	}
	tile_end(page);
}

static void rescue_tile(const struct report_page *page)
{
	const struct summary_rescue *first = page->summary->rescues.items;
	char place[WORDS_PLACE_BYTES];

	tile_begin(page, "rescues", page->summary->rescue_count != 0);
	fprintf(page->file, "%" PRIu64, page->summary->rescue_count);
	if (page->summary->rescue_count)
		fprintf(page->file, "<small>%s%s</small>",
			page->summary->rescue_count > 1 ? "the first at " : "",
			words_place(first->seq, first->pass, place));
	tile_end(page);
}

static void verdict_tile(const struct report_page *page)
{
	const struct summary_verdict *verdict = &page->summary->verdict;
	char place[WORDS_PLACE_BYTES];

	tile_begin(page, "verdict", verdict->stands);
	if (verdict->stands) {
		fprintf(page->file, "%s<small>",
			belay_cause_name((enum belay_cause)verdict->cause));
		if (verdict->rank >= 0)
			fprintf(page->file, "rank %d at fault, ", verdict->rank);
		fprintf(page->file, "%s</small>", words_place(verdict->seq, verdict->pass, place));
	} else {
		fputs("none", page->file);
	}
	tile_end(page);
}

void report_tiles(const struct report_page *page)
{
	fputs("<ul class=\"tiles\">\n", page->file);
	pass_tile(page);
	call_tile(page);
	late_tile(page);
	rescue_tile(page);
	verdict_tile(page);
	fputs("</ul>\n", page->file);
}

/* Tables --------------------------------------------------------------------------------------- */

static void table_begin(const struct report_page *page, const char *title, const char *columns)
{
	fprintf(page->file,
		"<h3>%s</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
		"aria-label=\"%s\">\n<table><thead><tr>%s</tr></thead>\n<tbody>\n",
		title, title, columns);
}

static void table_end(const struct report_page *page)
{
	fputs("</tbody></table></div>\n", page->file);
}

static void cell_time(const struct report_page *page, uint64_t ns)
{
	fputs("<td>", page->file);
	report_print_time(page->file, ns);
	fputs("</td>", page->file);
}

static void cell_since(const struct report_page *page, uint64_t time_ns)
{
	fputs("<td>", page->file);
	report_print_since(page, time_ns);
	fputs("</td>", page->file);
}

static void print_pass(const struct report_page *page, const struct slow_pass *pass)
{
	FILE *file = page->file;

	fprintf(file, "<tr><td>%" PRIu64 "</td><td>%" PRIu64 " to %" PRIu64 "</td>", pass->pass,
		pass->first_seq, pass->last_seq);
	cell_since(page, pass->start_ns);
	cell_time(page, pass->duration_ns);
	cell_time(page, pass->wait_ns);
	cell_time(page, pass->time_ns > pass->wait_ns ? pass->time_ns - pass->wait_ns : 0);
	if (pass->waited_for >= 0)
		fprintf(file, "<td>rank %d</td>", pass->waited_for);
	else
		fputs("<td>-</td>", file);
	fprintf(file, "<td>%" PRIu64 "</td><td>%" PRIu64 "</td></tr>\n", pass->late_calls,
		pass->rescued_calls);
}

static void print_slowest(const struct report_page *page)
{
	struct slow_pass passes[PASS_TIMES_SLOWEST];
	size_t n;

	(void)pass_times_slow(&page->summary->pass_times, passes, &n);
	if (n == 0)
		return;
	table_begin(page, "Slowest passes",
		    "<th scope=\"col\">pass</th><th scope=\"col\">seq</th><th scope=\"col\">at</th>"
		    "<th scope=\"col\">duration</th><th scope=\"col\">wait</th>"
		    "<th scope=\"col\">transfer</th><th scope=\"col\">waited for</th>"
		    "<th scope=\"col\">late calls</th><th scope=\"col\">rescued</th>");
	for (size_t i = 0; i < n; i++)
		print_pass(page, &passes[i]);
	table_end(page);
}

static void print_remarks(const struct report_page *page, const struct report_call *call)
{
	char ranks[WORDS_RANKS_BYTES];
	FILE *file = page->file;

	fputs("<td class=\"words\">", file);
	if (call->late)
		fprintf(file, "rank %s waited past the deadline ", words_ranks(call->late, ranks));
	if (call->stuck)
		fprintf(file, "rank %s rescued ", words_ranks(call->stuck, ranks));
	if (call->status)
		fputs(belay_status_name(call->status), file);
	fputs("</td></tr>\n", file);
}

static void print_call(const struct report_page *page, const struct report_call *call)
{
	char bytes[WORDS_TIME_BYTES], what[WORDS_NAME_BYTES];
	FILE *file = page->file;

	fprintf(file, "<tr><td>%" PRIu64 "</td>", call->seq);
	if (call->pass)
		fprintf(file, "<td>%" PRIu64 ", call %" PRIu64 "</td>", call->pass, call->index);
	else
		fputs("<td>-</td>", file);
	cell_since(page, call->start_ns);
	fprintf(file, "<td>%s%s%s</td><td>%s</td>", belay_path_name((enum belay_path)call->path),
		call->collective ? " " : "",
		call->collective ? words_op(call->collective, what) : "",
		words_bytes(call->bytes, bytes));
	cell_time(page, call->latency_ns);
	if (call->last_rank >= 0) {
		fprintf(file, "<td>rank %d, by ", call->last_rank);
		report_print_time(file, call->lateness_ns);
		fputs("</td>", file);
	} else {
		fputs("<td>-</td>", file);
	}
	print_remarks(page, call);
}

static void print_worst_calls(const struct report_page *page)
{
	table_begin(page, "Worst calls",
		    "<th scope=\"col\">seq</th><th scope=\"col\">pass</th><th scope=\"col\">at</th>"
		    "<th scope=\"col\">path</th><th scope=\"col\">bytes</th>"
		    "<th scope=\"col\">latency</th><th scope=\"col\">last to arrive</th>"
		    "<th scope=\"col\" class=\"words\">remarks</th>");
	for (size_t i = 0; i < page->data->nworst_calls; i++)
		print_call(page, &page->data->worst_calls[i]);
	table_end(page);
}

void report_tables(const struct report_page *page)
{
	print_slowest(page);
	print_worst_calls(page);
}
