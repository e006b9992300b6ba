/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "tools/analyze/spool.h"

#define BATCH_BYTES (256u * 1024)

/* In the file before each batch. */
struct batch_head {
	uint32_t kind;
	uint32_t count;
};

struct spool {
	int fd;
	size_t call_bytes;
	uint64_t bytes;
	/* As in the file. */
	struct batch_head head;
	char rows[BATCH_BYTES];
};
static_assert(offsetof(struct spool, rows) ==
		      offsetof(struct spool, head) + sizeof(struct batch_head),
	      "head and rows are written at once");

static size_t row_bytes(const struct spool *spool, uint32_t kind)
{
	return kind == CALL_LOG_CALLS ? spool->call_bytes : sizeof(struct event_record);
}

static int open_unnamed(void)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];
	int fd;

	if (!folder || !*folder)
		folder = "/tmp";
	if ((size_t)snprintf(path, sizeof(path), "%s/trace-analyze-XXXXXX", folder) >=
	    sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		(void)unlink(path); /* a name that stays is untidy, not wrong */
	return fd;
}

int spool_create(uint32_t nranks, struct spool **ret_spool)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	int status = 0;

	if (!spool)
		return BELAY_E_NO_MEMORY;
	spool->call_bytes = call_record_stride(nranks);
	spool->fd = open_unnamed();
	if (spool->fd < 0) {
		status = BELAY_E_SYSTEM;
		free(spool);
	} else {
		*ret_spool = spool;
	}
	return status;
}

static int write_all(int fd, const void *bytes, size_t size)
{
	const char *from = bytes;

	while (size) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return BELAY_E_SYSTEM;
		from += n;
		size -= (size_t)n;
	}
	return 0;
}

static int write_batch(struct spool *spool)
{
	size_t bytes = spool->head.count * row_bytes(spool, spool->head.kind);
	int status = 0;

	if (spool->head.count)
		status = write_all(spool->fd, &spool->head, sizeof(spool->head) + bytes);
	spool->bytes += bytes;
	spool->head.count = 0;
	return status;
}

static int add(struct spool *spool, uint32_t kind, const void *row)
{
	size_t bytes = row_bytes(spool, kind);
	int status = 0;

	if (spool->head.kind != kind || (spool->head.count + 1) * bytes > BATCH_BYTES)
		status = write_batch(spool);
	spool->head.kind = kind;
	memcpy(spool->rows + spool->head.count * bytes, row, bytes);
	spool->head.count++;
	return status;
}

int spool_add_call(struct spool *spool, const struct call_record *record)
{
	return add(spool, CALL_LOG_CALLS, record);
}

int spool_add_event(struct spool *spool, const struct event_record *event)
{
	return add(spool, CALL_LOG_EVENTS, event);
}

int spool_rewind(struct spool *spool)
{
	int status = write_batch(spool);

	spool->head = (struct batch_head){0};
	if (status == 0 && lseek(spool->fd, 0, SEEK_SET) != 0)
		status = BELAY_E_SYSTEM;
	return status;
}

/* Returns 0, or -1 at the end, or where it cannot be read. */
static int read_all(int fd, void *bytes, size_t size)
{
	char *to = bytes;

	while (size) {
		ssize_t n = read(fd, to, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		to += n;
		size -= (size_t)n;
	}
	return 0;
}

void spool_next(struct spool *spool, struct call_log_batch *ret_batch)
{
	struct batch_head head;
	size_t bytes;

	*ret_batch = (struct call_log_batch){.kind = CALL_LOG_END};
	if (read_all(spool->fd, &head, sizeof(head)) != 0)
		return;
	bytes = row_bytes(spool, head.kind);
	if (read_all(spool->fd, spool->rows, head.count * bytes) != 0)
		return;
	*ret_batch = (struct call_log_batch){.kind = (enum call_log_kind)head.kind,
					     .count = head.count,
					     .stride = bytes,
					     .rows = spool->rows};
}

uint64_t spool_bytes(const struct spool *spool)
{
	return spool->bytes;
}

void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	(void)close(spool->fd); /* nothing that anybody still needs */
	free(spool);
}
