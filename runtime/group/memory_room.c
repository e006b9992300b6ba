/* SPDX-License-Identifier: Apache-2.0 */
/* Everything here is a hint: what cannot be read is taken as no limit. */
#include "config.h"

#include "runtime/group/memory_room.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* File names of the two versions of the cgroup interface. */
struct cgroup_files {
	const char *mount; /* below the cgroup root */
	const char *limit;
	const char *used;
	const char *inactive; /* lines of memory.stat: page cache that can be dropped */
	const char *active;
};

static const struct cgroup_files version_2 = {"", "memory.max", "memory.current", "inactive_file ",
					      "active_file "};
static const struct cgroup_files version_1 = {"/memory", "memory.limit_in_bytes",
					      "memory.usage_in_bytes", "total_inactive_file ",
					      "total_active_file "};

/* Reads a small file as text; 0 or -1. */
static int read_text(const char *path, char *ret_text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t got;

	if (fd < 0)
		return -1;
	do
		got = read(fd, ret_text, size - 1);
	while (got < 0 && errno == EINTR);
	(void)close(fd); /* only read from */
	if (got < 0)
		return -1;
	ret_text[got] = '\0';
	return 0;
}

static uint64_t number_after(const char *text, const char *name)
{
	const char *at = text;

	while (at && strncmp(at, name, strlen(name)) != 0) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static int read_number(const char *folder, const char *file, uint64_t *ret_number)
{
	char path[1200], text[64], *end;
	uint64_t number;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (read_text(path, text, sizeof(text)) != 0)
		return -1;
	number = strtoull(text, &end, 10);
	if (end == text) /* "max" */
		return -1;
	*ret_number = number;
	return 0;
}

static uint64_t droppable_bytes(const char *folder, const struct cgroup_files *files)
{
	char path[1200], text[8192];

	(void)snprintf(path, sizeof(path), "%s/memory.stat", folder);
	if (read_text(path, text, sizeof(text)) != 0)
		return 0;
	return number_after(text, files->inactive) + number_after(text, files->active);
}

/* Narrows *room to what one cgroup leaves. */
static void look_at_cgroup(const char *folder, const char *name, const struct cgroup_files *files,
			   struct memory_room *room)
{
	uint64_t limit, used, droppable, left;

	if (read_number(folder, files->limit, &limit) != 0 ||
	    read_number(folder, files->used, &used) != 0)
		return;
	droppable = droppable_bytes(folder, files);
	used -= droppable < used ? droppable : used;
	left = limit > used ? limit - used : 0;
	if (left >= room->bytes)
		return;
	room->bytes = left;
	room->is_cgroup = 1;
	(void)snprintf(room->where, sizeof(room->where),
		       "memory cgroup %.200s (limit %" PRIu64 " bytes, %" PRIu64 " in use)",
		       *name ? name : "/", limit, used);
}

/* The cgroup and all above it: each one's limit holds. In a container the path may name what is
 * not mounted there; then only the mount's root, the container's own cgroup, can be read. */
static void look_upwards(const char *root, char *name, const struct cgroup_files *files,
			 struct memory_room *room)
{
	char folder[1100];
	char *slash;

	for (;;) {
		(void)snprintf(folder, sizeof(folder), "%s%s%s", root, files->mount, name);
		look_at_cgroup(folder, name, files, room);
		slash = strrchr(name, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
}

/* One line of /proc/self/cgroup: "0::/path" in version 2, "7:cpu,memory:/path" in version 1. */
static void look_at_line(const char *root, char *line, struct memory_room *room)
{
	char *controllers = strchr(line, ':');
	char *name = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!name)
		return;
	*controllers++ = '\0';
	*name++ = '\0';
	if (strlen(name) > 800)
		return;
	if (!*controllers)
		look_upwards(root, name, &version_2, room);
	else if (strstr(controllers, "memory"))
		look_upwards(root, name, &version_1, room);
}

static void look_at_machine(const char *proc, struct memory_room *room)
{
	char path[600], text[4096];
	uint64_t kib;

	(void)snprintf(path, sizeof(path), "%s/meminfo", proc);
	if (read_text(path, text, sizeof(text)) != 0)
		return;
	kib = number_after(text, "MemAvailable:") + number_after(text, "SwapFree:");
	if (kib == 0 || kib * 1024 >= room->bytes)
		return;
	room->bytes = kib * 1024;
	(void)snprintf(room->where, sizeof(room->where),
		       "the machine (%" PRIu64 " bytes available)", room->bytes);
}

void memory_room_find_at(const char *proc, const char *cgroup, struct memory_room *ret_room)
{
	struct memory_room room = {.bytes = UINT64_MAX};
	char path[600], text[4096], *rest = text, *line;

	look_at_machine(proc, &room);
	(void)snprintf(path, sizeof(path), "%s/self/cgroup", proc);
	if (read_text(path, text, sizeof(text)) == 0)
		while ((line = strsep(&rest, "\n")) != NULL)
			look_at_line(cgroup, line, &room);
	*ret_room = room;
}

void memory_room_find(struct memory_room *ret_room)
{
	memory_room_find_at("/proc", "/sys/fs/cgroup", ret_room);
}
