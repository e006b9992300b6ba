/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "runtime/belay.h"
#include "tools/analyze/cost_table.h"

#define POINTS_MAX  100000u
#define COST_US_MAX 1e12

static int path_of_name(const char *name, uint8_t *ret_path)
{
	for (int path = BELAY_PATH_SYMM; name && path <= BELAY_PATH_RING; path++) {
		if (strcmp(name, belay_path_name((enum belay_path)path)) == 0) {
			*ret_path = (uint8_t)path;
			return 0;
		}
	}
	return -1;
}

/* Returns 0 when the row says nothing, such as one of calls that failed. */
static int point_of_row(json_t *row, struct cost_point *ret_point)
{
	json_t *bytes = json_object_get(row, "bytes"), *us = json_object_get(row, "p50_us");
	double cost = json_number_value(us);

	if (!json_is_integer(bytes) || json_integer_value(bytes) < 0 || !json_is_number(us) ||
	    !(cost >= 0 && cost < COST_US_MAX))
		return 0;
	if (path_of_name(json_string_value(json_object_get(row, "path")), &ret_point->path) != 0)
		return 0;
	ret_point->bytes = (uint64_t)json_integer_value(bytes);
	ret_point->ns = (uint64_t)(cost * 1e3 + 0.5);
	return 1;
}

static int by_path_and_bytes(const void *a, const void *b)
{
	const struct cost_point *x = a, *y = b;

	if (x->path != y->path)
		return x->path < y->path ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Of one size on one path the fastest stays: algorithms and types do not matter here. */
static void sort_points(struct vector *points)
{
	struct cost_point *items = points->items;
	size_t kept = 0;

	if (points->count == 0)
		return;
	sort_items(items, points->count, sizeof(*items), by_path_and_bytes);
	for (size_t i = 1; i < points->count; i++) {
		if (items[i].path != items[kept].path || items[i].bytes != items[kept].bytes)
			items[++kept] = items[i];
	}
	points->count = kept + 1;
}

static int take_rows(json_t *rows, struct cost_table *table)
{
	struct cost_point point, *kept;
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		if (!point_of_row(row, &point))
			continue;
		kept = vector_add(&table->points, sizeof(*kept));
		if (!kept)
			return BELAY_E_NO_MEMORY;
		*kept = point;
	}
	sort_points(&table->points);
	return 0;
}

static int take_document(json_t *document, struct cost_table *table, char *ret_reason)
{
	json_t *rows = json_object_get(document, "rows");
	json_int_t ranks = json_integer_value(json_object_get(document, "ranks"));
	int status;

	if (!json_is_array(rows) || json_array_size(rows) > POINTS_MAX) {
		(void)snprintf(ret_reason, COST_REASON_BYTES, "it has no list \"rows\"");
		return BELAY_E_ARGUMENT;
	}
	status = take_rows(rows, table);
	if (status == 0 && table->points.count == 0) {
		(void)snprintf(ret_reason, COST_REASON_BYTES,
			       "no row has \"path\", \"bytes\" and \"p50_us\"");
		status = BELAY_E_ARGUMENT;
	}
	table->ranks = ranks > 0 && ranks <= BELAY_RANKS_MAX ? (uint32_t)ranks : 0;
	return status;
}

int cost_table_load(const char *file, struct cost_table *ret_table, char *ret_reason)
{
	struct cost_table table = {0};
	json_error_t error;
	json_t *document = json_load_file(file, 0, &error);
	int status;

	if (!document) {
		(void)snprintf(ret_reason, COST_REASON_BYTES, "%s", error.text);
		return BELAY_E_ARGUMENT;
	}
	status = take_document(document, &table, ret_reason);
	json_decref(document);
	if (status != 0) {
		cost_table_free(&table);
		return status;
	}
	*ret_table = table;
	return 0;
}

void cost_table_free(struct cost_table *table)
{
	vector_free(&table->points);
}

/* Between two neighbours of one path, both ends included. */
static int between(const struct cost_point *left, const struct cost_point *right, uint64_t bytes,
		   uint64_t *ret_ns)
{
	double share;

	if (bytes < left->bytes || bytes > right->bytes || left->path != right->path)
		return -1;
	share = right->bytes > left->bytes
			? (double)(bytes - left->bytes) / (double)(right->bytes - left->bytes)
			: 0;
	*ret_ns = (uint64_t)((1 - share) * (double)left->ns + share * (double)right->ns + 0.5);
	return 0;
}

int cost_table_find(const struct cost_table *table, uint8_t path, uint64_t bytes, uint64_t *ret_ns)
{
	const struct cost_point *points = table->points.items;
	uint64_t best = UINT64_MAX;

	for (size_t i = 0; i < table->points.count; i++) {
		size_t next = i + 1 < table->points.count && points[i + 1].path == points[i].path
				      ? i + 1
				      : i;
		uint64_t ns;

		if ((!path || points[i].path == path) &&
		    between(&points[i], &points[next], bytes, &ns) == 0 && ns < best)
			best = ns;
	}
	if (best == UINT64_MAX)
		return -1;
	*ret_ns = best;
	return 0;
}

int cost_table_has(const struct cost_table *table, uint8_t path)
{
	const struct cost_point *points = table->points.items;

	for (size_t i = 0; i < table->points.count; i++) {
		if (points[i].path == path)
			return 1;
	}
	return 0;
}
