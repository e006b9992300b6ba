/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths this process can take, and why not the others. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/info/info_report.h"

/* Each check returns 0, or says in `why` what is missing and fails. */

static int check_memfd(char *why, size_t size)
{
	int fd = memfd_create("belay-info", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0) {
		snprintf(why, size, "memfd_create: %s", strerror(errno));
		return -1;
	}
	(void)close(fd);
	return 0;
}

static int check_pidfd(char *why, size_t size)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0) {
		snprintf(why, size,
			 "pidfd_open: %s; Linux 5.3 or newer is needed, and a seccomp "
			 "filter that allows it",
			 strerror(errno));
		return -1;
	}
	(void)close(fd);
	return 0;
}

/* The kernel chooses a free abstract name for an address without one. */
static int check_socket(char *why, size_t size)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int status = 0;

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t))) {
		snprintf(why, size, "Unix socket with an abstract name: %s", strerror(errno));
		status = -1;
	}
	if (fd >= 0)
		(void)close(fd);
	return status;
}

static void look_at(struct info *info, enum belay_path path, int usable, const char *why)
{
	info->path[path].usable = usable;
	snprintf(info->path[path].why, sizeof(info->path[path].why), "%s", why);
}

/* What libbelay says of each path, and of the devices. */
static void look_at_library(struct info *info)
{
	int devices = belay_device_count();

	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++) {
		const char *why = "";
		int usable = belay_path_usable((enum belay_path)path, &why);

		look_at(info, (enum belay_path)path, usable, why);
	}
	for (int ordinal = 0; ordinal < devices && ordinal < INFO_DEVICES; ordinal++) {
		struct belay_device *device = &info->device[info->ndevices];

		device->size = sizeof(*device);
		/* Devices are shown by their numbers: none after one that does not answer. */
		if (belay_device_get(ordinal, device))
			break;
		info->ndevices++;
	}
}

/* What a communicator would be warned of: once, at the first question. */
static void warn(void *user, enum belay_log_level level, const char *message)
{
	(void)user;
	if (level == BELAY_LOG_WARN)
		command_error("%s", message);
}

/* The value of a setting. Returns 0, or 1: some setting is bad, and it was said. */
static int find_setting(const char *name, struct belay_setting *ret_setting)
{
	struct belay_config config = BELAY_CONFIG_INIT;

	config.log = warn;
	for (int i = 0; i < belay_setting_count(); i++) {
		struct belay_setting setting = {.size = sizeof(setting)};
		int status = belay_setting_get(i, &config, &setting);

		config.log = NULL;

		if (status) {
			command_error("%s: %s", belay_status_text(status), belay_last_error());
			return 1;
		}
		if (strcmp(setting.name, name) == 0) {
			*ret_setting = setting;
			return 0;
		}
	}
	command_error("this libbelay has no setting %s", name);
	return 1;
}

/* Is the word in the list, between commas? */
static int listed(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || !at[length]))
			return 1;
	}
	return 0;
}

static void apply_paths(struct info *info, const struct belay_setting *paths)
{
	char why[512];

	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++) {
		if (listed(paths->value, belay_path_name((enum belay_path)path)))
			continue;
		snprintf(why, sizeof(why), "not in BELAY_PATHS=%.200s (%s)", paths->value,
			 paths->origin);
		look_at(info, (enum belay_path)path, 0, why);
	}
}

int info_look(struct info *ret_info)
{
	struct belay_setting paths;
	struct info info = {0};
	char why[400];

	if (find_setting("BELAY_PATHS", &paths))
		return 1;
	look_at_library(&info);
	if (check_memfd(why, sizeof(why)) || check_pidfd(why, sizeof(why)) ||
	    check_socket(why, sizeof(why)))
		for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++)
			look_at(&info, (enum belay_path)path, 0, why);
	apply_paths(&info, &paths);
	*ret_info = info;
	return 0;
}
