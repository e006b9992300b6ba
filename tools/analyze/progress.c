/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tools/analyze/progress.h"

#define QUIET_NS	  1000000000u /* what is done sooner needs no progress */
#define TERMINAL_EVERY_NS 200000000u
#define LINE_EVERY_NS	  1000000000u

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void progress_init(struct progress *progress, int asked)
{
	*progress = (struct progress){.terminal = isatty(STDERR_FILENO)};
	progress->wanted = asked || progress->terminal;
	progress_begin(progress);
}

void progress_begin(struct progress *progress)
{
	progress->begun_ns = now_ns();
}

static int is_due(const struct progress *progress, uint64_t now)
{
	uint64_t every = progress->terminal ? TERMINAL_EVERY_NS : LINE_EVERY_NS;

	if (!progress->wanted)
		return 0;
	return progress->told_ns ? now - progress->told_ns >= every
				 : now - progress->begun_ns >= QUIET_NS;
}

static void print_line(struct progress *progress, const char *what, const char *how_far,
		       uint64_t now)
{
	fprintf(stderr, "%strace-analyze: %.40s: %s%s", progress->terminal ? "\r" : "", what,
		how_far, progress->terminal ? "\033[K" : "\n");
	fflush(stderr);
	progress->told_ns = now;
}

static double unit_of(uint64_t bytes, const char **ret_name)
{
	*ret_name = bytes >= 1000000000u ? "GB" : "MB";
	return bytes >= 1000000000u ? 1e9 : 1e6;
}

void progress_bytes(struct progress *progress, const char *what, uint64_t done_bytes,
		    uint64_t all_bytes)
{
	uint64_t now = now_ns();
	double done = (double)done_bytes, all = (double)all_bytes;
	const char *name;
	double unit = unit_of(all_bytes, &name);
	char text[96];
	int used;

	if (!all_bytes || !is_due(progress, now))
		return;
	used = snprintf(text, sizeof(text), "%.0f %% of %.1f %s", 100.0 * done / all, all / unit,
			name);
	/* Too early for a guess otherwise. */
	if (done_bytes * 100 >= all_bytes && done_bytes <= all_bytes)
		(void)snprintf(text + used, sizeof(text) - (size_t)used, ", %.0f s left",
			       (double)(now - progress->begun_ns) / 1e9 * (all - done) / done);
	print_line(progress, what, text, now);
}

void progress_count(struct progress *progress, const char *what, uint64_t count, const char *unit)
{
	uint64_t now = now_ns();
	char text[96];

	if (!is_due(progress, now))
		return;
	(void)snprintf(text, sizeof(text), "%" PRIu64 " %s", count, unit);
	print_line(progress, what, text, now);
}

void progress_clear(struct progress *progress)
{
	if (progress->told_ns && progress->terminal)
		fputs("\r\033[K", stderr);
	progress->told_ns = 0;
}
