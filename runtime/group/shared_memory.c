/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can kill a user of shared memory, and what makes it an error before it comes:
 *   SIGXFSZ  growing a file over RLIMIT_FSIZE       -> the limit is compared first
 *   SIGBUS   touching a page that cannot be had      -> pages are reserved by fallocate()
 *   SIGBUS   touching a page past the end of file    -> the size is sealed, and checked at mapping
 *   SIGKILL  the OOM killer                          -> the memory cgroups are looked at first
 */
#include "config.h"

#include "runtime/group/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/group/memory_room.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

/* Reserved by one fallocate(): some 0.5 ms, less than between signals of a usual timer. */
#define RESERVE_STEP_BYTES ((size_t)1 << 20)

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int check_file_limit(size_t bytes, struct cause_chain *causes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	    bytes <= limit.rlim_cur)
		return 0;
	cause_add(causes, NULL, 0, -1, 0,
		  "shared memory needs %zu bytes in one file, RLIMIT_FSIZE (ulimit -f) allows "
		  "%" PRIu64,
		  bytes, (uint64_t)limit.rlim_cur);
	return BELAY_E_LIMIT;
}

static int check_memory_room(size_t bytes, struct cause_chain *causes)
{
	struct memory_room room;

	memory_room_find(&room);
	if (bytes <= room.bytes)
		return 0;
	cause_add(causes, NULL, 0, -1, 0,
		  "shared memory needs %zu bytes, %" PRIu64 " can be had in %s", bytes, room.bytes,
		  room.where);
	return room.is_cgroup ? BELAY_E_LIMIT : BELAY_E_NO_MEMORY;
}

/* A memfd that cannot be executed where the kernel knows such; older ones refuse the flag. */
static int open_memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static int status_of_errno(int error)
{
	switch (error) {
	case ENOMEM:
	case ENOSPC:
		return BELAY_E_NO_MEMORY;
	case EMFILE:
	case ENFILE:
	case EFBIG:
		return BELAY_E_LIMIT;
	default:
		return BELAY_E_SYSTEM;
	}
}

/*
 * An interrupted fallocate() gives back what it had got, so a step longer than the time between two
 * signals would never end. Each interruption halves the step; one page takes a microsecond.
 */
static int reserve(int fd, size_t offset, size_t bytes)
{
	size_t step = RESERVE_STEP_BYTES;

	while (bytes > 0) {
		size_t now = bytes < step ? bytes : step;

		if (fallocate(fd, 0, (off_t)offset, (off_t)now) == 0) {
			offset += now;
			bytes -= now;
		} else if (errno != EINTR) {
			return errno;
		} else if (step > 4096) {
			step /= 2;
		}
	}
	return 0;
}

int shared_memory_reserve(int fd, size_t offset, size_t bytes, struct cause_chain *causes)
{
	int status = check_memory_room(bytes, causes);
	int error;

	if (status)
		return status;
	error = reserve(fd, offset, bytes);
	if (!error)
		return 0;
	cause_add(causes, "fallocate", error, -1, 0, "cannot reserve %zu bytes of shared memory",
		  bytes);
	return status_of_errno(error);
}

static int reserve_strides(int fd, size_t bytes, size_t stride, size_t reserved)
{
	int error = 0;

	for (size_t at = 0; at < bytes && !error; at += stride)
		error = reserve(fd, at, reserved < bytes - at ? reserved : bytes - at);
	return error;
}

/* Sizes, reserves and seals; returns 0 or the errno of *ret_call. */
static int furnish(int fd, size_t bytes, size_t stride, size_t reserved, const char **ret_call)
{
	int error = 0;

	*ret_call = "ftruncate";
	while (ftruncate(fd, (off_t)bytes) != 0)
		if (errno != EINTR)
			return errno;
	*ret_call = "fallocate";
	error = reserve_strides(fd, bytes, stride, reserved);
	if (error)
		return error;
	/* A memfd is born with all rights for all; others could open it where /proc lets them. */
	*ret_call = "fchmod";
	if (fchmod(fd, 0600) != 0)
		return errno;
	*ret_call = "fcntl(F_ADD_SEALS)";
	return fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) == 0 ? 0 : errno;
}

int shared_memory_create(const char *name, size_t bytes, size_t stride, size_t reserved,
			 int *ret_fd, struct cause_chain *causes)
{
	const char *call = "memfd_create";
	size_t strides;
	int error, fd, status;

	if (bytes == 0 || bytes > PTRDIFF_MAX || reserved > (stride ? stride : bytes)) {
		cause_add(causes, NULL, 0, -1, 0,
			  "shared memory of %zu bytes, %zu of each %zu reserved", bytes, reserved,
			  stride);
		return BELAY_E_ARGUMENT;
	}
	stride = stride ? stride : bytes;
	strides = bytes / stride + (bytes % stride != 0);
	status = check_file_limit(bytes, causes);
	if (!status)
		status = check_memory_room(strides * reserved, causes);
	if (status)
		return status;

	fd = open_memfd(name);
	error = fd < 0 ? errno : furnish(fd, bytes, stride, reserved, &call);
	if (error) {
		cause_add(causes, call, error, -1, 0, "cannot make shared memory of %zu bytes",
			  bytes);
		if (fd >= 0)
			(void)close(fd); /* it goes in any case */
		return status_of_errno(error);
	}
	*ret_fd = fd;
	return 0;
}

int shared_memory_map(int fd, size_t bytes, void **ret_memory, struct cause_chain *causes)
{
	struct stat info;
	void *memory;
	int seals;

	if (fstat(fd, &info) != 0) {
		cause_add(causes, "fstat", errno, -1, 0, "cannot look at shared memory");
		return BELAY_E_SYSTEM;
	}
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS || (size_t)info.st_size != bytes) {
		cause_add(causes, NULL, 0, -1, 0,
			  "shared memory is %lld bytes with seals %#x; expected %zu bytes of "
			  "sealed size",
			  (long long)info.st_size, (unsigned int)seals, bytes);
		return BELAY_E_SYSTEM;
	}
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		int error = errno;

		cause_add(causes, "mmap", error, -1, 0, "cannot map %zu bytes of shared memory",
			  bytes);
		return status_of_errno(error);
	}
	*ret_memory = memory;
	return 0;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int shared_memory_prefault(void *memory, size_t bytes)
{
	int result;

	do
		result = madvise(memory, bytes, MADV_POPULATE_WRITE);
	while (result != 0 && (errno == EINTR || errno == EAGAIN));
	return result;
}
