/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What trace-analyze's analyses use of the C library's memory and sorting: an arena that is freed
 * as a whole and a growing array. What they give is zeroed; NULL means no memory.
 */
#ifndef BELAY_TOOLS_ANALYZE_CONTAINERS_H
#define BELAY_TOOLS_ANALYZE_CONTAINERS_H

#include <stddef.h>

struct arena_chunk;

/* Starts as { 0 }. */
struct arena {
	struct arena_chunk *newest;
};

void *arena_alloc(struct arena *arena, size_t bytes);
char *arena_text(struct arena *arena, const char *text);
void arena_free(struct arena *arena);

/* Starts as { 0 }. Items move when it grows. */
struct vector {
	void *items;
	size_t count;
	size_t capacity;
};

/* Adds one item and returns it. The same item_bytes at every call. */
void *vector_add(struct vector *vector, size_t item_bytes);
void vector_free(struct vector *vector);

/* Sorts in place; `order` as for qsort(). */
void sort_items(void *items, size_t count, size_t item_bytes,
		int (*order)(const void *, const void *));

#endif /* BELAY_TOOLS_ANALYZE_CONTAINERS_H */
