/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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
	FILE *file;
	size_t call_bytes;
	uint64_t bytes;
	struct batch_head head; /* of the batch in `rows` */
	char rows[BATCH_BYTES];
};

static size_t row_bytes(const struct spool *spool, uint32_t kind)
{
	return kind == CALL_LOG_CALLS ? spool->call_bytes : sizeof(struct event_record);
}

static FILE *open_unnamed(void)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];
	FILE *file;
	int fd;

	if (!folder || !*folder)
		folder = "/tmp";
	if ((size_t)snprintf(path, sizeof(path), "%s/trace-analyze-XXXXXX", folder) >=
	    sizeof(path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	fd = mkstemp(path);
	if (fd < 0)
		return NULL;
	(void)unlink(path); /* a name that stays is untidy, not wrong */
	file = fdopen(fd, "w+b");
	if (!file)
		close(fd);
	return file;
}

int spool_create(uint32_t nranks, struct spool **ret_spool)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	int status = 0;

	if (!spool)
		return BELAY_E_NO_MEMORY;
	spool->call_bytes = call_record_stride(nranks);
	spool->file = open_unnamed();
	if (!spool->file) {
		status = BELAY_E_SYSTEM;
		free(spool);
	} else {
		*ret_spool = spool;
	}
	return status;
}

static int write_batch(struct spool *spool)
{
	size_t bytes = spool->head.count * row_bytes(spool, spool->head.kind);
	int failed = 0;

	if (spool->head.count)
		failed = fwrite(&spool->head, sizeof(spool->head), 1, spool->file) != 1 ||
			 fwrite(spool->rows, bytes, 1, spool->file) != 1;
	spool->bytes += bytes;
	spool->head.count = 0;
	return failed ? BELAY_E_SYSTEM : 0;
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
	if (status == 0 && (fflush(spool->file) != 0 || fseeko(spool->file, 0, SEEK_SET) != 0))
		status = BELAY_E_SYSTEM;
	return status;
}

void spool_next(struct spool *spool, struct call_log_batch *ret_batch)
{
	struct batch_head head;
	size_t bytes = 0;

	*ret_batch = (struct call_log_batch){.kind = CALL_LOG_END};
	if (fread(&head, sizeof(head), 1, spool->file) != 1)
		return;
	bytes = row_bytes(spool, head.kind);
	if (fread(spool->rows, head.count * bytes, 1, spool->file) != 1)
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
	(void)fclose(spool->file); /* nothing that anybody still needs */
	free(spool);
}
