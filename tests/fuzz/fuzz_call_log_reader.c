/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a whole call log file. Built with libFuzzer (clang -fsanitize=fuzzer,address), or
 * with replay_inputs.c, which runs it over files.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_target.h"
#include "trace/call_log_format.h"
#include "trace/call_log_reader.h"

static volatile unsigned int sink; /* so that reading is not optimised away */

/* Reads every byte of what a block decoded to, so that a sanitizer sees a row that was never
 * made. */
static unsigned int touch(const struct call_log_batch *batch)
{
	const unsigned char *bytes = batch->rows;
	unsigned int sum = 0;

	for (size_t i = 0; i < batch->count * batch->stride; i++)
		sum += bytes[i];
	return sum;
}

/* Whatever stands in the file: the reader ends, goes forward only, and reports no damage outside
 * the file. */
static void read_all(struct call_log_reader *reader, size_t size)
{
	const struct call_log_damage *damage;
	struct call_log_batch batch;
	uint64_t done, total, before = 0;
	size_t count;

	while (!call_log_reader_next(reader, &batch) && batch.kind != CALL_LOG_END) {
		call_log_reader_progress(reader, &done, &total);
		if (done <= before || total > size || !batch.count ||
		    batch.count > CALL_LOG_BLOCK_RECORDS)
			abort();
		before = done;
		sink = touch(&batch);
	}
	count = call_log_reader_damage(reader, &damage);
	for (size_t i = 0; i + 1 < count; i++)
		if (damage[i].offset + damage[i].bytes > size || damage[i].records_lost < -1)
			abort();
}

/* Reads the log at `offset`. Returns where the next one begins; 0: nowhere. */
static uint64_t read_log(const char *path, uint64_t offset, size_t size)
{
	struct call_log_reader *reader = NULL;
	const char *reason = NULL;
	uint64_t following = 0;

	if (!call_log_reader_open(path, offset, &reader, &reason)) {
		following = call_log_reader_following(reader);
		if (following)
			call_log_reader_limit(reader, following);
		read_all(reader, size);
		if (following && (following <= offset || following >= size))
			abort();
	} else if (!reason || reader) {
		abort();
	}
	call_log_reader_close(reader);
	return following;
}

static void read_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	uint64_t offset = 0;
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	do
		offset = read_log(path, offset, size);
	while (offset);
	close(fd);
}

/* Gives every head and header, wherever one may stand, its right checksum, which nobody guesses. */
static void seal(uint8_t *data, size_t size)
{
	for (size_t at = 0; at + 16 <= size; at++) {
		size_t bytes = (size_t)call_log_get(data + at + 4, 4) + 8;

		if (call_log_get(data + at, 4) != CALL_LOG_SKIPPABLE_MAGIC || bytes < 16 ||
		    bytes > size - at)
			continue;
		call_log_put(data + at + 8, call_log_crc32c(data + at + 12, bytes - 12), 4);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *sealed = malloc(size + 1);

	if (!sealed)
		abort();
	read_file(data, size);
	memcpy(sealed, data, size);
	seal(sealed, size);
	read_file(sealed, size);
	free(sealed);
	return 0;
}
