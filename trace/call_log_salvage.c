/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/call_log_salvage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/call_log_file.h"
#include "trace/call_log_format.h"

#define FILE_BYTES_MASK (((uint64_t)1 << 40) - 1)

/* Reads the head at `offset`; its block must end within `size`. A write that death cut short left a
 * prefix, so a block that is there in full length is whole. */
static int whole_block(int fd, uint64_t offset, uint64_t size, struct call_log_head *ret_head,
		       uint64_t *ret_bytes)
{
	unsigned char bytes[CALL_LOG_HEAD_BYTES];
	size_t head_bytes;
	ssize_t n = pread(fd, bytes, sizeof(bytes), (off_t)offset);

	if (n != (ssize_t)sizeof(bytes) ||
	    call_log_head_unpack(bytes, sizeof(bytes), ret_head, &head_bytes) != CALL_LOG_PARSED)
		return 0;
	*ret_bytes = head_bytes + ret_head->frame_bytes;
	return *ret_bytes <= size - offset;
}

static void count_block(const struct call_log_head *head, struct call_log_position *position)
{
	if (head->kind == CALL_LOG_BLOCK_CALLS && head->first_index == position->calls)
		position->calls += head->count;
	else if (head->kind == CALL_LOG_BLOCK_EVENTS && head->first_index == position->events)
		position->events += head->count;
}

static void read_tail(int fd, uint64_t offset, struct call_log_position *position)
{
	struct call_log_head head;
	struct stat stat;
	uint64_t bytes;

	if (fstat(fd, &stat))
		return;
	while (offset < (uint64_t)stat.st_size &&
	       whole_block(fd, offset, (uint64_t)stat.st_size, &head, &bytes)) {
		count_block(&head, position);
		offset += bytes;
	}
	if (offset < (uint64_t)stat.st_size && ftruncate(fd, (off_t)offset))
		return; /* then a reader will name the torn block, whose records follow in another
			   file */
}

void call_log_salvage_position(const char *dir, const char *comm_id,
			       struct call_log_position *position)
{
	const char *step;
	char name[64];
	int folder, fd;

	if (!position->file)
		return;
	folder = call_log_folder_open(dir, comm_id, &step);
	if (folder < 0)
		return;
	call_log_file_name(name, sizeof(name), position->rank, (uint32_t)(position->file >> 40));
	fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		read_tail(fd, position->file & FILE_BYTES_MASK, position);
		(void)close(fd); /* nothing was written */
	}
	(void)close(folder); /* only read */
}
