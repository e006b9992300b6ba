/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memfds whose pages are reserved before use, so that lack of memory is an error and
 * never a signal. */
#ifndef BELAY_RUNTIME_GROUP_SHARED_MEMORY_H
#define BELAY_RUNTIME_GROUP_SHARED_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct cause_chain;

/* Creates a memfd of `bytes`, reserves `reserved` bytes at the start of every `stride` (stride 0:
 * one stride of all), and seals its size. RLIMIT_FSIZE and the memory cgroup's limit are looked at
 * first. Returns 0, BELAY_E_LIMIT (which limit, needed and allowed), BELAY_E_NO_MEMORY or
 * BELAY_E_SYSTEM. */
int shared_memory_create(const char *name, size_t bytes, size_t stride, size_t reserved,
			 int *ret_fd, struct cause_chain *causes);

/* Maps a memfd got from another process after checking size and seals. */
int shared_memory_map(int fd, size_t bytes, void **ret_memory, struct cause_chain *causes);

/* Enters pages that are reserved already into this process's page tables, so that no call takes the
 * fault (1 to 3 us each). Changes nothing in them. `memory` is page-aligned. Returns 0, or -1
 * where the kernel cannot (before 5.14). */
int shared_memory_prefault(void *memory, size_t bytes);

/* Reserves pages later (region buffers). Same statuses. Needs no new descriptor. */
int shared_memory_reserve(int fd, size_t offset, size_t bytes, struct cause_chain *causes);

#endif /* BELAY_RUNTIME_GROUP_SHARED_MEMORY_H */
