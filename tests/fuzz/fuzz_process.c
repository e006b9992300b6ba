/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: belay-info --process over a process whose control segment holds anything. The
 * input's first byte is the form of the output; then come patches of the segment: where (two
 * bytes), how many bytes, the bytes.
 */
#include "config.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/group/control_segment.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/info/info_process.h"

#define RANKS 2

static char *segment; /* what this process shows of itself */
static size_t segment_bytes;
static int output; /* standard output, to be read back */

static void set_up_once(void)
{
	int fd = memfd_create(CONTROL_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	segment_bytes = control_segment_bytes(RANKS);
	output = memfd_create("output", MFD_CLOEXEC);
	if (fd < 0 || output < 0 || ftruncate(fd, (off_t)segment_bytes) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) || dup2(output, STDOUT_FILENO) < 0)
		abort();
	segment = mmap(NULL, segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (segment == MAP_FAILED)
		abort();
}

static void fill(const uint8_t *data, size_t size)
{
	struct control_segment places;

	control_segment_place(segment, RANKS, &places);
	memset(segment, 0, places.mapped_bytes);
	control_segment_fill(&places, RANKS, "0123456789abcdef0123456789abcdef");
	for (uint32_t r = 0; r < RANKS; r++)
		control_rank_preset(&places.rank[r], 0, 4711, 1);
	while (size > 3) {
		size_t at = ((size_t)data[0] | (size_t)data[1] << 8) % places.mapped_bytes;
		size_t bytes = data[2];

		data += 3;
		size -= 3;
		bytes = bytes < size ? bytes : size;
		bytes = bytes < places.mapped_bytes - at ? bytes : places.mapped_bytes - at;
		memcpy(segment + at, data, bytes);
		data += bytes;
		size -= bytes;
	}
}

static int is_found(void)
{
	struct belay_process *process;
	int count;

	if (belay_process_open(getpid(), &process))
		abort();
	count = belay_process_comm_count(process);
	belay_process_close(process);
	return count;
}

/* Nothing acts on a terminal, and JSON is JSON with every communicator in it. */
static void judge(const char *text, size_t length, int format)
{
	json_t *document, *comms;

	for (size_t i = 0; i < length; i++)
		if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
			abort();
	if (format != COMMAND_JSON)
		return;
	document = json_loadb(text, length, 0, NULL);
	comms = json_object_get(document, "comms");
	if (json_array_size(comms) != 1 ||
	    json_array_size(json_object_get(json_array_get(comms, 0), "ranks")) != RANKS)
		abort();
	json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[16384];
	int format = size ? data[0] % 3 : 0;
	ssize_t length;

	if (!segment)
		set_up_once();
	if (!size)
		return 0;
	fill(data + 1, size - 1);
	if (!is_found())
		return 0;
	if (info_process(getpid(), format) || fflush(stdout))
		abort();
	length = pread(output, text, sizeof(text), 0);
	if (length <= 0 || length == (ssize_t)sizeof(text))
		abort();
	judge(text, (size_t)length, format);
	if (ftruncate(output, 0) || lseek(output, 0, SEEK_SET))
		abort();
	return 0;
}
