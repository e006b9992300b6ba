/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analyze/containers.h"

/* Each allocation is a chunk of its own: they are few, and sanitizers see each one's bounds. */
struct arena_chunk {
	struct arena_chunk *older;
	max_align_t data[];
};

void *arena_alloc(struct arena *arena, size_t bytes)
{
	struct arena_chunk *chunk;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	chunk = calloc(1, sizeof(*chunk) + bytes);
	if (!chunk)
		return NULL;
	chunk->older = arena->newest;
	arena->newest = chunk;
	return chunk->data;
}

char *arena_text(struct arena *arena, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = arena_alloc(arena, bytes);

	if (copy)
		memcpy(copy, text, bytes);
	return copy;
}

void arena_free(struct arena *arena)
{
	while (arena->newest) {
		struct arena_chunk *chunk = arena->newest;

		arena->newest = chunk->older;
		free(chunk);
	}
}

static int grow(struct vector *vector, size_t item_bytes)
{
	size_t capacity = vector->capacity ? vector->capacity * 2 : 16;
	void *items;

	if (capacity > SIZE_MAX / 2 / item_bytes)
		return -1;
	items = realloc(vector->items, capacity * item_bytes);
	if (!items)
		return -1;
	vector->items = items;
	vector->capacity = capacity;
	return 0;
}

void *vector_add(struct vector *vector, size_t item_bytes)
{
	void *item;

	if (vector->count == vector->capacity && grow(vector, item_bytes) != 0)
		return NULL;
	item = (char *)vector->items + vector->count * item_bytes;
	memset(item, 0, item_bytes);
	vector->count++;
	return item;
}

void vector_free(struct vector *vector)
{
	free(vector->items);
	*vector = (struct vector){0};
}

void sort_items(void *items, size_t count, size_t item_bytes,
		int (*order)(const void *, const void *))
{
	if (count)
		qsort(items, count, item_bytes, order);
}
