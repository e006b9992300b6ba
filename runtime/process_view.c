/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicators of another process. Their control segments are memfds that the process holds
 * open; they are found in /proc/PID/fd by name, opened read-only and mapped read-only.
 */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/clock.h"
#include "runtime/group/control_segment.h"
#include "runtime/group/control_view.h"

#define COMMS_MAX   64
#define LINK_PREFIX "/memfd:" CONTROL_NAME

struct belay_process {
	int count;
	struct control_segment comm[COMMS_MAX];
};

/* Does the descriptor `name` of that folder lead to a control segment, by its name? */
static int is_segment(int folder, const char *name)
{
	char target[64];
	ssize_t length = readlinkat(folder, name, target, sizeof(target));

	return length >= (ssize_t)strlen(LINK_PREFIX) &&
	       memcmp(target, LINK_PREFIX, strlen(LINK_PREFIX)) == 0;
}

/* Is the communicator there already? A descriptor can be held twice. */
static int known(const struct belay_process *process, const struct control_segment *segment)
{
	for (int i = 0; i < process->count; i++) {
		if (strncmp(process->comm[i].head->comm_id, segment->head->comm_id,
			    sizeof(segment->head->comm_id)) == 0)
			return 1;
	}
	return 0;
}

/* A file that its owner could cut under the mapping would end this process by SIGBUS. */
static int is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK;
}

/* Maps a segment and takes it in. What is none, or is of another version, is passed over. */
static void take(struct belay_process *process, int fd)
{
	struct control_segment segment;
	struct stat file;
	void *memory;
	size_t bytes;

	if (process->count == COMMS_MAX || fstat(fd, &file) || file.st_size <= 0 || !is_sealed(fd))
		return;
	bytes = (size_t)file.st_size;
	memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return;
	if (control_segment_check(memory, bytes, &segment) && !known(process, &segment))
		process->comm[process->count++] = segment;
	else
		(void)munmap(memory, bytes);
}

static void take_all(struct belay_process *process, DIR *folder)
{
	struct dirent *entry;

	while ((entry = readdir(folder))) {
		int fd;

		if (!is_segment(dirfd(folder), entry->d_name))
			continue;
		/* Should it be a FIFO of that name, opening it must not wait. */
		fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		take(process, fd);
		(void)close(fd); /* the mapping stays */
	}
}

static void say_nothing(void *user, enum belay_log_level level, const char *message)
{
	(void)user;
	(void)level;
	(void)message;
}

/* Keeps as the last error why /proc/PID/fd cannot be read. Returns `status`. */
static int refuse(int pid, int error, int status)
{
	const struct cause_config quiet = {.log = say_nothing, .rank = -1};
	struct cause_chain *causes = cause_chain_create(&quiet);

	if (error == ENOENT)
		cause_add(causes, NULL, 0, -1, 0, "there is no process %d", pid);
	else
		cause_add(causes, "opendir", error, -1, 0, "/proc/%d/fd cannot be read", pid);
	if (causes)
		cause_keep_as_last_error(causes);
	cause_chain_free(causes);
	return status;
}

int belay_process_open(int pid, struct belay_process **ret_process)
{
	struct belay_process *process;
	char path[64];
	DIR *folder;

	if (pid < 1 || !ret_process)
		return BELAY_E_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	folder = opendir(path);
	if (!folder)
		return refuse(pid, errno, BELAY_E_SYSTEM);
	process = calloc(1, sizeof(*process));
	if (process)
		take_all(process, folder);
	(void)closedir(folder);
	if (!process)
		return refuse(pid, ENOMEM, BELAY_E_NO_MEMORY);
	*ret_process = process;
	return 0;
}

void belay_process_close(struct belay_process *process)
{
	if (!process)
		return;
	for (int i = 0; i < process->count; i++)
		(void)munmap(process->comm[i].head, process->comm[i].bytes);
	free(process);
}

int belay_process_comm_count(const struct belay_process *process)
{
	return process ? process->count : 0;
}

/* Texts of another process go to terminals, JSON and labels: nothing in them may act there. */
static void clean(char *text, int digits_only)
{
	for (; *text; text++) {
		if (digits_only ? !isxdigit((unsigned char)*text)
				: (unsigned char)*text < ' ' || (unsigned char)*text > '~')
			*text = '?';
	}
}

int belay_process_comm(const struct belay_process *process, int index,
		       struct belay_process_comm *ret_comm)
{
	struct belay_process_comm comm = {.size = sizeof(comm)};
	const struct control_segment *segment;

	if (!process || index < 0 || index >= process->count || !ret_comm ||
	    ret_comm->size != sizeof(*ret_comm))
		return BELAY_E_ARGUMENT;
	segment = &process->comm[index];
	snprintf(comm.id, sizeof(comm.id), "%.*s", (int)sizeof(segment->head->comm_id) - 1,
		 segment->head->comm_id);
	clean(comm.id, 1);
	comm.nranks = (int)segment->nranks;
	comm.hosts = comm.host = 1;
	comm.world_nranks = comm.nranks;
	if (segment->head->world.nranks) {
		comm.hosts = segment->head->world.hosts;
		comm.host = segment->head->world.host;
		comm.world_nranks = segment->head->world.nranks;
	}
	comm.path = control_view_path(segment);
	/* Relaxed: numbers to be shown, each by itself. */
	comm.breaker = (enum belay_breaker_state)atomic_load_explicit(&segment->head->breaker_state,
								      memory_order_relaxed);
	comm.rescued_seqs =
		atomic_load_explicit(&segment->head->rescued_seqs, memory_order_relaxed);
	comm.verdict.size = sizeof(comm.verdict);
	comm.has_verdict = control_view_verdict(segment, &comm.verdict);
	if (comm.has_verdict)
		clean(comm.verdict.text, 0);
	*ret_comm = comm;
	return 0;
}

int belay_process_rank(const struct belay_process *process, int index, int rank,
		       struct belay_rank_health *ret_health)
{
	if (!process || index < 0 || index >= process->count || !ret_health ||
	    ret_health->size != sizeof(*ret_health) || rank < 0 ||
	    (unsigned)rank >= process->comm[index].nranks)
		return BELAY_E_ARGUMENT;
	control_view_rank(&process->comm[index], (unsigned)rank, clock_now_ns(), ret_health);
	return 0;
}
