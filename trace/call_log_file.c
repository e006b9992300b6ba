/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/call_log_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/belay.h"

#define FOLDER_MODE 0700
#define FILE_MODE   0600

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now); /* cannot fail for these clocks */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int failed(struct call_log_file *file, const char *step, int error)
{
	file->failed_step = step;
	file->failed_errno = error;
	return BELAY_E_SYSTEM;
}

void call_log_file_init(struct call_log_file *file, const struct call_log_file_config *config)
{
	memset(file, 0, sizeof(*file));
	file->config = *config;
	file->dir_fd = -1;
	file->fd = -1;
}

void call_log_file_name(char *name, size_t size, uint32_t rank, uint32_t number)
{
	(void)snprintf(name, size, "rank-%04u.%u.belay", rank, number);
}

int call_log_folder_open(const char *dir, const char *comm_id, const char **ret_step)
{
	int above, folder;

	*ret_step = "mkdir";
	if (mkdir(dir, FOLDER_MODE) && errno != EEXIST)
		return -1;
	*ret_step = "open folder";
	above = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (above < 0)
		return -1;
	folder = mkdirat(above, comm_id, FOLDER_MODE);
	if (!folder || errno == EEXIST)
		folder = openat(above, comm_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	(void)close(above); /* only read */
	return folder;
}

/* One more than the greatest number that a file of this rank has; other runs' files are not
 * touched. */
static uint32_t next_free_number(int dir_fd, uint32_t rank)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	uint32_t next = 0;

	while (dir && (entry = readdir(dir))) {
		char name[64];
		unsigned int of_rank, number;

		if (sscanf(entry->d_name, "rank-%u.%u.", &of_rank, &number) != 2 || of_rank != rank)
			continue;
		call_log_file_name(name, sizeof(name), of_rank, number);
		if (!strcmp(name, entry->d_name) && number >= next &&
		    number < CALL_LOG_FILE_NUMBER_MAX)
			next = number + 1;
	}
	if (dir)
		(void)closedir(dir); /* only read */
	else if (fd >= 0)
		(void)close(fd);
	return next;
}

static int open_folder(struct call_log_file *file)
{
	const char *step;

	file->dir_fd = call_log_folder_open(file->config.dir, file->config.comm_id, &step);
	if (file->dir_fd < 0)
		return failed(file, step, errno);
	file->number = next_free_number(file->dir_fd, file->config.rank);
	file->first_number = file->number;
	return 0;
}

static void pack_headers(const struct call_log_file *file, const struct call_log_totals *totals,
			 unsigned char *headers)
{
	struct call_log_header header = {
		.version_major = CALL_LOG_MAJOR,
		.version_minor = CALL_LOG_MINOR,
		.rank = file->config.rank,
		.nranks = file->config.nranks,
		.file_number = file->number,
		.salvaged_by = file->config.salvaged_by,
		.tick_ns = file->config.tick_ns,
		.run_id = file->config.run_id,
		.created_monotonic_ns = clock_ns(CLOCK_MONOTONIC),
		.created_realtime_ns = clock_ns(CLOCK_REALTIME),
		.first_call = totals->calls,
		.first_event = totals->events,
		.calls_lost = totals->calls_lost,
	};

	/* Not terminated there: the id fills the field. */
	memcpy(header.comm_id, file->config.comm_id,
	       strnlen(file->config.comm_id, sizeof(header.comm_id)));
	for (unsigned int copy = 0; copy < CALL_LOG_HEADER_COPIES; copy++)
		call_log_header_pack(&header, headers + copy * CALL_LOG_HEADER_BYTES);
}

/* Writes all or nothing at `offset`: a part that stands is cut off again. */
static int write_whole(struct call_log_file *file, int fd, const void *bytes, size_t size,
		       uint64_t offset)
{
	const char *at = bytes;
	size_t rest = size;

	while (rest) {
		ssize_t n = pwrite(fd, at, rest, (off_t)(offset + (size - rest)));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int error = n < 0 ? errno : ENOSPC;

			/* Where even this fails a reader finds the torn block by itself. */
			if (ftruncate(fd, (off_t)offset))
				error = errno;
			return failed(file, "write", error);
		}
		at += n;
		rest -= (size_t)n;
	}
	return 0;
}

/* Creates the file of file->number or of the first later number that is free. */
static int create_file(struct call_log_file *file)
{
	int fd;

	for (; file->number < CALL_LOG_FILE_NUMBER_MAX; file->number++) {
		call_log_file_name(file->name, sizeof(file->name), file->config.rank, file->number);
		fd = openat(file->dir_fd, file->name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	errno = EOVERFLOW;
	return -1;
}

static void remove_oldest(struct call_log_file *file)
{
	char name[64];
	uint32_t keep = file->config.files_keep ? file->config.files_keep : 1;

	if (file->number < keep || file->number - keep < file->first_number)
		return;
	call_log_file_name(name, sizeof(name), file->config.rank, file->number - keep);
	(void)unlinkat(file->dir_fd, name, 0); /* gone already is as good */
}

/* Opens a new file beside the open one, if any, which stays as it is on failure. */
static int open_next(struct call_log_file *file, const struct call_log_totals *totals, int *ret_fd)
{
	unsigned char headers[CALL_LOG_HEADER_COPIES * CALL_LOG_HEADER_BYTES];
	int fd = create_file(file);
	int status;

	if (fd < 0)
		return failed(file, "create file", errno);
	pack_headers(file, totals, headers);
	status = write_whole(file, fd, headers, sizeof(headers), 0);
	if (status) {
		(void)unlinkat(file->dir_fd, file->name, 0); /* an empty file would only confuse */
		(void)close(fd);
		return status;
	}
	*ret_fd = fd;
	return 0;
}

static void end_file(struct call_log_file *file, const struct call_log_totals *totals,
		     int continued)
{
	unsigned char end[CALL_LOG_HEAD_BYTES];

	call_log_encode_end(totals, clock_ns(CLOCK_MONOTONIC), continued, end);
	/* Without it the file reads as not closed, which is then the truth. */
	(void)write_whole(file, file->fd, end, sizeof(end), file->bytes);
	(void)close(file->fd);
	file->fd = -1;
}

static int rotate(struct call_log_file *file, const struct call_log_totals *totals)
{
	int open_before = file->fd >= 0;
	uint32_t number = file->number;
	int fd, status;

	if (open_before)
		file->number++;
	status = open_next(file, totals, &fd);
	if (status) {
		file->number = number;
		return status;
	}
	if (open_before)
		end_file(file, totals, 1);
	file->fd = fd;
	file->bytes = CALL_LOG_HEADER_COPIES * CALL_LOG_HEADER_BYTES;
	remove_oldest(file);
	return 0;
}

/* A removed file still takes writes, which nobody would ever read. */
static int was_removed(const struct call_log_file *file)
{
	struct stat stat;

	return !fstat(file->fd, &stat) && stat.st_nlink == 0;
}

/* A file beyond RLIMIT_FSIZE could not grow; a next one can. */
static uint64_t file_bytes_max(const struct call_log_file *file)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur > file->config.bytes_max)
		return file->config.bytes_max;
	return limit.rlim_cur;
}

int call_log_file_prepare(struct call_log_file *file, size_t bytes,
			  const struct call_log_totals *totals)
{
	int status;

	if (file->fd >= 0 && was_removed(file)) {
		call_log_file_close(file);
		return failed(file, "the file was removed", ENOENT);
	}
	if (file->dir_fd < 0) {
		status = open_folder(file);
		if (status)
			return status;
	}
	if (file->fd >= 0 && (file->bytes + bytes + CALL_LOG_HEAD_BYTES <= file_bytes_max(file) ||
			      file->bytes == CALL_LOG_HEADER_COPIES * CALL_LOG_HEADER_BYTES))
		return 0;
	status = rotate(file, totals);
	if (status && file->fd < 0)
		call_log_file_close(file); /* start over from the folder: it may be a new one */
	return status;
}

int call_log_file_append(struct call_log_file *file, const void *block, size_t bytes)
{
	int status = write_whole(file, file->fd, block, bytes, file->bytes);

	if (!status)
		file->bytes += bytes;
	return status;
}

void call_log_file_finish(struct call_log_file *file, const struct call_log_totals *totals)
{
	if (file->fd >= 0)
		end_file(file, totals, 0);
	call_log_file_close(file);
}

void call_log_file_close(struct call_log_file *file)
{
	if (file->fd >= 0)
		(void)close(file->fd); /* every write was checked */
	if (file->dir_fd >= 0)
		(void)close(file->dir_fd);
	file->fd = -1;
	file->dir_fd = -1;
}
