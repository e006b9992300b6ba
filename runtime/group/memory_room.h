/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much more memory this process may take before the kernel's OOM killer steps in. Reserving
 * pages past that does not fail, it kills; so belay looks first.
 */
#ifndef BELAY_RUNTIME_GROUP_MEMORY_ROOM_H
#define BELAY_RUNTIME_GROUP_MEMORY_ROOM_H

#include <stddef.h>
#include <stdint.h>

struct memory_room {
	uint64_t bytes;	 /* room left at the narrowest place; UINT64_MAX when no bound is known */
	char where[400]; /* that place, for a person: "memory cgroup /a/b (limit 10 bytes, 7 in
			    use)" */
	int is_cgroup;	 /* 1: a cgroup's limit; 0: the machine's memory */
};

/* Looks at every memory cgroup above this process (version 1 and 2) and at the machine. */
void memory_room_find(struct memory_room *ret_room);

/* The same with other roots than /proc and /sys/fs/cgroup, for tests. */
void memory_room_find_at(const char *proc, const char *cgroup, struct memory_room *ret_room);

#endif /* BELAY_RUNTIME_GROUP_MEMORY_ROOM_H */
