/* SPDX-License-Identifier: Apache-2.0 */
/* Layout, mapping, buffers and self-test of the regions; see region.h. */
#include "runtime/group/region.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/cause.h"
#include "runtime/group/shared_memory.h"

#define PAGE	    4096u
#define STAGGER_MAX (16 * 256)

static size_t round_up(size_t value, size_t unit)
{
	return (value + unit - 1) / unit * unit;
}

void region_layout(unsigned nranks, size_t slot_bytes, size_t buffers_bytes,
		   struct region_layout *ret_layout)
{
	size_t slot = round_up(slot_bytes + STAGGER_MAX, PAGE);
	/* A slice is a whole number of lines: up to a line more than its share. */
	size_t result = round_up(slot_bytes / nranks + 64 + STAGGER_MAX, PAGE);
	size_t head = round_up(sizeof(struct region_head), PAGE);

	*ret_layout = (struct region_layout){
		.slot_bytes = slot_bytes,
		.result_bytes = result - STAGGER_MAX,
		.buffers_bytes = round_up(buffers_bytes, PAGE),
		.slot_offset = {head, head + slot},
		.result_offset = {head + 2 * slot, head + 2 * slot + result},
		.buffers_offset = head + 2 * slot + 2 * result,
	};
	ret_layout->reserved_bytes = ret_layout->buffers_offset;
	ret_layout->stride = ret_layout->buffers_offset + ret_layout->buffers_bytes;
}

/* For kernels that cannot prefault: own pages only, for it writes to them. */
static void touch_pages(char *memory, size_t bytes)
{
	/* Relaxed: the store is there to fault the page in, and must not be optimised away. */
	for (size_t i = 0; i < bytes; i += PAGE)
		atomic_store_explicit((_Atomic char *)(memory + i), 0, memory_order_relaxed);
}

int region_open(struct region *region, const struct region_layout *layout, unsigned nranks,
		unsigned rank, int fd, struct cause_chain *causes)
{
	void *memory = NULL;
	int status = 0;

	*region = (struct region){.layout = *layout, .nranks = nranks, .rank = rank, .fd = fd};
	if (fd < 0) {
		region->private_ = aligned_alloc(PAGE, layout->reserved_bytes);
		if (!region->private_)
			return BELAY_E_NO_MEMORY;
		memset(region->private_, 0, layout->reserved_bytes);
		return 0;
	}
	status = shared_memory_map(fd, layout->stride * nranks, &memory, causes);
	if (status)
		return status;
	region->base = memory;
	for (unsigned r = 0; r < nranks; r++)
		if (shared_memory_prefault(region_stride(region, r), layout->reserved_bytes) != 0 &&
		    r == rank)
			touch_pages(region_stride(region, r), layout->reserved_bytes);
	return 0;
}

void region_close(struct region *region)
{
	while (region->buffers) {
		struct region_buffer *next = region->buffers->next;

		free(region->buffers);
		region->buffers = next;
	}
	if (region->base)
		(void)munmap(region->base, region->layout.stride * region->nranks);
	free(region->private_);
	region->base = region->private_ = NULL;
}

uint64_t region_offset_of(const struct region *region, const void *buffer, size_t bytes)
{
	const char *own = region->base ? region_stride(region, region->rank) : NULL;
	const struct region_buffer *b;
	size_t offset;

	if (!own || (const char *)buffer < own || (uintptr_t)buffer % 64 != 0)
		return REGION_NO_OFFSET;
	offset = (size_t)((const char *)buffer - own);
	for (b = region->buffers; b; b = b->next)
		if (offset >= b->offset && bytes <= b->bytes &&
		    offset - b->offset <= b->bytes - bytes)
			return offset;
	return REGION_NO_OFFSET;
}

/* First fit between the allocated buffers; the list is short and this is not in a call. */
static struct region_buffer **find_gap(struct region *region, size_t bytes, size_t *ret_offset)
{
	struct region_buffer **link = &region->buffers;
	size_t start = region->layout.buffers_offset;

	for (; *link; link = &(*link)->next) {
		if ((*link)->offset - start >= bytes)
			break;
		start = (*link)->offset + (*link)->bytes;
	}
	if (!*link && region->layout.stride - start < bytes)
		return NULL;
	*ret_offset = start;
	return link;
}

int region_buffer_alloc(struct region *region, size_t bytes, void **ret_buffer,
			struct cause_chain *causes)
{
	struct region_buffer **link, *buffer;
	size_t offset = 0, whole = round_up(bytes, PAGE);
	int status;

	if (!region->base)
		return BELAY_E_UNSUPPORTED;
	if (bytes > region->layout.buffers_bytes)
		return BELAY_E_NO_MEMORY;
	link = find_gap(region, whole, &offset);
	buffer = malloc(sizeof(*buffer));
	if (!link || !buffer) {
		status = BELAY_E_NO_MEMORY;
		goto out;
	}
	status = shared_memory_reserve(region->fd, region->rank * region->layout.stride + offset,
				       whole, causes);
	if (status)
		goto out;
	*buffer = (struct region_buffer){.offset = offset, .bytes = whole, .next = *link};
	*link = buffer;
	*ret_buffer = region_stride(region, region->rank) + offset;
	memset(*ret_buffer, 0, whole);
	buffer = NULL; /* the list's now */
out:
	free(buffer);
	return status;
}

int region_buffer_free(struct region *region, void *buffer)
{
	struct region_buffer **link = &region->buffers;
	char *own = region->base ? region_stride(region, region->rank) : NULL;

	for (; own && *link; link = &(*link)->next) {
		struct region_buffer *gone = *link;

		if (own + gone->offset != buffer)
			continue;
		*link = gone->next;
		/* Gives the pages back; if that fails they are only kept. */
		(void)madvise(buffer, gone->bytes, MADV_REMOVE);
		free(gone);
		return 0;
	}
	return BELAY_E_ARGUMENT;
}

/* Every line differs by writer and owner, so that a line in the wrong place is noticed. */
static unsigned char pattern(uint64_t nonce, unsigned writer, unsigned owner, unsigned i)
{
	uint64_t x = (nonce ^ writer * 0x9e3779b97f4a7c15u ^ owner * 0xc2b2ae3d27d4eb4fu) + i;

	x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
	return (unsigned char)(x >> 56);
}

void region_selftest_write(struct region *region, uint64_t nonce, int spoil)
{
	for (unsigned owner = 0; owner < region->nranks; owner++) {
		unsigned char *line = region_head(region, owner)->selftest + 64 * region->rank;

		for (unsigned i = 0; i < 64; i++)
			line[i] = (unsigned char)(pattern(nonce, region->rank, owner, i) ^
						  (spoil ? 0x5a : 0));
	}
}

int region_selftest_verify(const struct region *region, uint64_t nonce)
{
	for (unsigned writer = 0; writer < region->nranks; writer++) {
		const unsigned char *line =
			region_head(region, region->rank)->selftest + 64 * writer;

		for (unsigned i = 0; i < 64; i++)
			if (line[i] != pattern(nonce, writer, region->rank, i))
				return (int)writer;
	}
	return -1;
}
