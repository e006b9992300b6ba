/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/analyze/interrupt.h"
#include "tools/analyze/lttng_copy.h"

static int join_path(char *ret_path, const char *folder, const char *name)
{
	if ((size_t)snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

static int copy_bytes(FILE *from, FILE *to, uint64_t bytes)
{
	char block[65536];

	while (bytes) {
		size_t n = bytes < sizeof(block) ? (size_t)bytes : sizeof(block);

		if (interrupt_requested()) {
			errno = EINTR;
			return -1;
		}
		if (fread(block, 1, n, from) != n || fwrite(block, 1, n, to) != n)
			return -1;
		bytes -= n;
	}
	return 0;
}

static int copy_packets(FILE *from, FILE *to, const struct vector *packets, size_t first)
{
	const struct ctf_packet *list = packets->items;

	for (size_t i = first; i < packets->count; i++) {
		if (fseeko(from, (off_t)list[i].offset, SEEK_SET) != 0 ||
		    copy_bytes(from, to, list[i].bytes) != 0)
			return -1;
	}
	return 0;
}

/* `packets` NULL: the first `bytes` of the file. */
static int copy_file(const char *from_path, const char *to_path, const struct vector *packets,
		     size_t first, uint64_t bytes)
{
	FILE *from = fopen(from_path, "rbe");
	FILE *to = from ? fopen(to_path, "wbe") : NULL;
	int failed = !to;

	if (!failed)
		failed = packets ? copy_packets(from, to, packets, first) != 0
				 : copy_bytes(from, to, bytes) != 0;
	if (from)
		(void)fclose(from); /* only read */
	if (to && fclose(to) != 0)
		failed = 1;
	return failed ? -1 : 0;
}

static int link_file(const char *from_path, const char *to_path)
{
	char whole_path[PATH_MAX];

	return realpath(from_path, whole_path) ? symlink(whole_path, to_path) : -1;
}

static int make_folder(struct lttng_copy *copy)
{
	const char *temporary = getenv("TMPDIR");

	if (!temporary || !*temporary)
		temporary = "/tmp";
	if (join_path(copy->folder, temporary, "trace-analyze-XXXXXX") == 0 &&
	    mkdtemp(copy->folder))
		return 0;
	copy->folder[0] = '\0';
	return -1;
}

static int add_metadata(const struct lttng_copy *copy, const char *folder)
{
	const struct ctf_extent *extent = &copy->check->metadata;
	char from[PATH_MAX], to[PATH_MAX];

	if (join_path(from, folder, "metadata") != 0 ||
	    join_path(to, copy->folder, "metadata") != 0)
		return -1;
	return extent->reason ? copy_file(from, to, NULL, 0, extent->whole) : link_file(from, to);
}

static int add_stream(const struct lttng_copy *copy, const char *folder,
		      const struct ctf_stream *stream, size_t first)
{
	char from[PATH_MAX], to[PATH_MAX];

	if (!stream->extent.whole)
		return 0;
	if (join_path(from, folder, stream->name) != 0 ||
	    join_path(to, copy->folder, stream->name) != 0)
		return -1;
	return stream->extent.reason || first ? copy_file(from, to, &stream->packets, first, 0)
					      : link_file(from, to);
}

int lttng_copy_make(struct lttng_copy *copy, const char *folder, const struct ctf_check *check)
{
	const struct ctf_stream *streams = check->streams.items;

	copy->check = check;
	if (make_folder(copy) != 0 || add_metadata(copy, folder) != 0)
		return -1;
	for (size_t i = 0; i < check->streams.count; i++) {
		if (add_stream(copy, folder, &streams[i], 0) != 0)
			return -1;
	}
	return 0;
}

int lttng_copy_make_part(struct lttng_copy *copy, const char *folder, const struct ctf_check *check,
			 size_t stream, size_t packet)
{
	const struct ctf_stream *streams = check->streams.items;

	copy->check = check;
	return make_folder(copy) != 0 || add_metadata(copy, folder) != 0
		       ? -1
		       : add_stream(copy, folder, &streams[stream], packet);
}

void lttng_copy_remove(struct lttng_copy *copy)
{
	const struct ctf_stream *streams;
	char path[PATH_MAX];

	if (!copy->folder[0])
		return;
	/* What was not made cannot be removed: that is no error. */
	streams = copy->check->streams.items;
	for (size_t i = 0; i < copy->check->streams.count; i++) {
		if (join_path(path, copy->folder, streams[i].name) == 0)
			(void)unlink(path);
	}
	if (join_path(path, copy->folder, "metadata") == 0)
		(void)unlink(path);
	(void)rmdir(copy->folder);
	copy->folder[0] = '\0';
}
