/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "tools/analyze/ctf_check.h"

#define METADATA_BYTES_MAX (64u << 20)
#define METADATA_MAGIC	   0x75d11d57u
/* Magic, uuid, checksum, content and packet size in bits, five single bytes. */
#define METADATA_HEAD 37u
#define STREAM_MAGIC  0xc1fc1fc1u
/* Of LTTng: magic, uuid, stream ids; times, sizes, counters and the number of the CPU. */
#define STREAM_HEAD 84u

static uint64_t number_at(const unsigned char *bytes, unsigned size, int big_endian)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)bytes[i] << 8 * (big_endian ? size - 1 - i : i);
	return value;
}

/* 1 if the magic number stands there; in which byte order. */
static int has_magic(const unsigned char *bytes, uint32_t magic, int *ret_big_endian)
{
	*ret_big_endian = number_at(bytes, 4, 1) == magic;
	return *ret_big_endian || number_at(bytes, 4, 0) == magic;
}

/* Bytes of a packet from its sizes in bits; 0 when they cannot be true. */
static uint64_t packet_bytes(uint64_t content_bits, uint64_t packet_bits, uint64_t head,
			     uint64_t left)
{
	if (packet_bits % 8 || packet_bits / 8 > left || content_bits > packet_bits ||
	    content_bits < head * 8)
		return 0;
	return packet_bits / 8;
}

void ctf_check_metadata(const unsigned char *bytes, size_t size, struct ctf_extent *ret_extent)
{
	static const char text_head[] = "/* CTF 1.8 */";
	struct ctf_extent extent = {.bytes = size};
	int big_endian;

	if (size == 0) {
		extent.reason = "the metadata is empty";
	} else if (size >= sizeof(text_head) - 1 &&
		   memcmp(bytes, text_head, sizeof(text_head) - 1) == 0) {
		extent.whole = size; /* plain text has no packets to check */
	} else if (size < METADATA_HEAD || !has_magic(bytes, METADATA_MAGIC, &big_endian)) {
		extent.reason = "the metadata is not that of CTF 1.8";
	} else if (bytes[35] != 1) {
		extent.reason = "the metadata is of an unknown major version";
	} else {
		while (size - extent.whole >= METADATA_HEAD) {
			const unsigned char *head = bytes + extent.whole;
			uint64_t step = has_magic(head, METADATA_MAGIC, &big_endian)
						? packet_bytes(number_at(head + 24, 4, big_endian),
							       number_at(head + 28, 4, big_endian),
							       METADATA_HEAD, size - extent.whole)
						: 0;

			if (step == 0)
				break;
			extent.whole += step;
		}
		if (extent.whole < size)
			extent.reason = "the metadata is cut inside a packet";
	}
	*ret_extent = extent;
}

void ctf_check_stream(ctf_read_function *read, void *user, uint64_t size,
		      struct ctf_extent *ret_extent)
{
	struct ctf_extent extent = {.bytes = size};
	unsigned char head[STREAM_HEAD];
	int big_endian = 0;

	if (size == 0)
		extent.reason = "an empty stream: its events are not on disk";
	while (!extent.reason && extent.whole < size) {
		uint64_t left = size - extent.whole, step;

		if (left < STREAM_HEAD) {
			extent.reason = "a torn packet at the end of a stream";
		} else if (read(user, extent.whole, head, sizeof(head)) != 0) {
			extent.reason = "a stream that cannot be read";
		} else if (!has_magic(head, STREAM_MAGIC, &big_endian)) {
			extent.reason = "bytes in a stream that are no packet";
		} else {
			step = packet_bytes(number_at(head + 48, 8, big_endian),
					    number_at(head + 56, 8, big_endian), STREAM_HEAD, left);
			if (step == 0)
				extent.reason = "a torn packet in a stream";
			extent.whole += step;
		}
	}
	*ret_extent = extent;
}

int ctf_is_lttng(const unsigned char *metadata, size_t size)
{
	static const char words[] = "tracer_name = \"lttng";

	return memmem(metadata, size, words, sizeof(words) - 1) != NULL;
}

/* Files ---------------------------------------------------------------------------------------- */

static int read_file(void *user, uint64_t offset, unsigned char *ret_bytes, size_t size)
{
	const int *fd = user;
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(*fd, ret_bytes + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

static int open_in(const char *folder, const char *name, struct stat *ret_about)
{
	char path[4096];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && fstat(fd, ret_about) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Reads and checks the metadata; whether LTTng wrote it. */
static int check_metadata_file(const char *folder, struct ctf_extent *ret_extent, int *ret_lttng)
{
	struct stat about;
	unsigned char *bytes = NULL;
	int fd = open_in(folder, "metadata", &about);
	int status = 0;

	if (fd < 0)
		return BELAY_E_SYSTEM;
	if ((uint64_t)about.st_size > METADATA_BYTES_MAX) {
		*ret_extent = (struct ctf_extent){(uint64_t)about.st_size, 0,
						  "the metadata is too large to be true"};
		goto out;
	}
	bytes = malloc((size_t)about.st_size + 1);
	if (!bytes)
		status = BELAY_E_NO_MEMORY;
	else if (read_file(&fd, 0, bytes, (size_t)about.st_size) != 0)
		status = BELAY_E_SYSTEM;
	if (status != 0)
		goto out;
	ctf_check_metadata(bytes, (size_t)about.st_size, ret_extent);
	*ret_lttng = ctf_is_lttng(bytes, (size_t)about.st_size);
out:
	free(bytes);
	close(fd);
	return status;
}

static int check_stream_file(const char *folder, const char *name, int is_lttng,
			     struct arena *arena, struct ctf_check *check)
{
	struct ctf_stream *stream;
	struct stat about;
	int fd = open_in(folder, name, &about);

	if (fd >= 0 && !S_ISREG(about.st_mode)) {
		close(fd);
		return 0; /* `index` and the like */
	}
	stream = vector_add(&check->streams, sizeof(*stream));
	if (stream)
		stream->name = arena_text(arena, name);
	if (!stream || !stream->name) {
		if (fd >= 0)
			close(fd);
		return BELAY_E_NO_MEMORY;
	}
	if (fd < 0) {
		stream->extent.reason = "a stream that cannot be read";
		stream->extent.bytes = 1;
		return 0;
	}
	if (is_lttng || about.st_size == 0)
		ctf_check_stream(read_file, &fd, (uint64_t)about.st_size, &stream->extent);
	else
		stream->extent =
			(struct ctf_extent){(uint64_t)about.st_size, (uint64_t)about.st_size, NULL};
	check->bytes += stream->extent.whole;
	close(fd);
	return 0;
}

static int is_stream_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, "metadata") != 0;
}

int ctf_check_folder(const char *folder, struct arena *arena, struct ctf_check *ret_check)
{
	struct ctf_check check = {0};
	struct dirent **entries = NULL;
	int is_lttng = 0, n = 0;
	int status = check_metadata_file(folder, &check.metadata, &is_lttng);

	if (status == 0 && check.metadata.whole) {
		n = scandir(folder, &entries, is_stream_name, alphasort);
		if (n < 0)
			status = errno == ENOMEM ? BELAY_E_NO_MEMORY : BELAY_E_SYSTEM;
	}
	for (int i = 0; i < n; i++) {
		if (status == 0)
			status = check_stream_file(folder, entries[i]->d_name, is_lttng, arena,
						   &check);
		free(entries[i]);
	}
	free(entries);
	if (status == 0)
		*ret_check = check;
	else
		vector_free(&check.streams);
	return status;
}
