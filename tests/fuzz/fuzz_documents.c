/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: files that people give to the tools: the cost table of trace-analyze what-if, or, by
 * the first byte, a script of belay-bench.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_target.h"
#include "tools/analyze/cost_table.h"
#include "tools/bench/bench_script.h"

/* Points are in order, and a size between two of them costs no more than the dearer one. */
static void judge_points(const struct cost_table *table)
{
	const struct cost_point *points = table->points.items;
	uint64_t ns;

	for (size_t i = 0; i < table->points.count; i++) {
		const struct cost_point *point = &points[i], *next = point + 1;

		if (point->path < BELAY_PATH_SYMM || point->path > BELAY_PATH_RING ||
		    cost_table_find(table, point->path, point->bytes, &ns) || ns > point->ns)
			abort();
		if (i + 1 == table->points.count || next->path != point->path)
			continue;
		if (next->bytes <= point->bytes)
			abort();
		if (cost_table_find(table, point->path,
				    point->bytes + (next->bytes - point->bytes) / 2, &ns) ||
		    ns > (point->ns > next->ns ? point->ns : next->ns) + 1)
			abort();
	}
}

static void try_cost_table(const uint8_t *data, size_t size)
{
	struct cost_table table;
	char reason[COST_REASON_BYTES] = "", path[40];
	int fd = memfd_create("costs", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (cost_table_load(path, &table, reason) == 0) {
		if (!table.points.count || table.ranks > BELAY_RANKS_MAX)
			abort();
		judge_points(&table);
		cost_table_free(&table);
	} else if (!*reason) {
		abort();
	}
	close(fd);
}

static void judge_script(const struct bench_script *script)
{
	if (script->nranks < 1 || script->nranks > BELAY_RANKS_MAX ||
	    script->ncalls > SCRIPT_CALLS_MAX)
		abort();
	for (uint64_t i = 0; i < script->ncalls; i++)
		if (!belay_dtype_bytes((enum belay_dtype)script->calls[i].dtype))
			abort();
	for (uint64_t i = 0; i < script->ncalls * script->nranks; i++)
		if (script->gaps_ns[i] > SCRIPT_GAP_NS_MAX)
			abort();
}

static void try_script(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), problem[512] = "";
	FILE *input = fmemopen(text, size ? size : 1, "r");
	struct bench_script script;

	if (!input)
		abort();
	if (bench_script_read(input, "script", &script, problem, sizeof(problem)) == 0) {
		judge_script(&script);
		bench_script_free(&script);
	} else if (!*problem || strchr(problem, '\n')) {
		abort();
	}
	fclose(input);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] & 1)
		try_script(data + 1, size - 1);
	else if (size)
		try_cost_table(data + 1, size - 1);
	return 0;
}
