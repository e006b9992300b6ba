/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call costs on a path, by its bytes, as measured when all ranks arrive at once. The file is
 * the JSON document of `belay-bench --format=json`, of which only {"rows":[{"path":...,
 * "bytes":..., "p50_us":...}, ...]} and, if it is there, "ranks" are looked at.
 */
#ifndef BELAY_TOOLS_ANALYZE_COST_TABLE_H
#define BELAY_TOOLS_ANALYZE_COST_TABLE_H

#include <stdint.h>

#include "tools/analyze/containers.h"

struct cost_point {
	uint64_t bytes;
	uint64_t ns;
	uint8_t path; /* enum belay_path */
};

/* Starts as { 0 }; free with cost_table_free(). */
struct cost_table {
	struct vector points; /* struct cost_point, by path and bytes, each pair once */
	uint32_t ranks;	      /* that it was measured with; 0: not said */
};

#define COST_REASON_BYTES 192

/* Returns 0; BELAY_E_ARGUMENT with the reason when the file cannot be read or is no table; or
 * BELAY_E_NO_MEMORY. */
int cost_table_load(const char *file, struct cost_table *ret_table, char *ret_reason);
void cost_table_free(struct cost_table *table);

/* The cost on `path` (0: on the one that costs least), linear between two measured sizes. Returns
 * 0, or -1 for sizes outside what was measured: nothing is known of them. */
int cost_table_find(const struct cost_table *table, uint8_t path, uint64_t bytes, uint64_t *ret_ns);

/* 1 if the path was measured at all. */
int cost_table_has(const struct cost_table *table, uint8_t path);

#endif /* BELAY_TOOLS_ANALYZE_COST_TABLE_H */
