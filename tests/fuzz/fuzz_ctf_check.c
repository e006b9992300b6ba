/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the look at an LTTng trace before libbabeltrace2 reads it. The first byte chooses
 * metadata or a stream, and whether a stream's packets must have the id of the first one.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_target.h"
#include "tools/analyze/ctf_check.h"

#define AT_UUID 4

struct input {
	const uint8_t *data;
	size_t size;
};

static int read_input(void *user, uint64_t offset, unsigned char *ret_bytes, size_t size)
{
	const struct input *input = user;

	if (offset > input->size || size > input->size - offset)
		abort(); /* nobody asks for what is not there */
	memcpy(ret_bytes, input->data + offset, size);
	return 0;
}

/* Something is wrong, or all is whole. */
static void judge(const struct ctf_extent *extent, size_t size)
{
	if (extent->bytes != size || extent->whole > size ||
	    (extent->reason == NULL) != (extent->faults == 0) ||
	    (!extent->reason && extent->whole != size) ||
	    (extent->reason && extent->fault_at > size))
		abort();
}

static void judge_packets(const struct vector *packets, const struct ctf_extent *extent)
{
	const struct ctf_packet *list = packets->items;
	uint64_t end = 0, sum = 0;

	for (size_t i = 0; i < packets->count; i++) {
		if (list[i].offset < end || !list[i].bytes ||
		    list[i].bytes > extent->bytes - list[i].offset)
			abort();
		end = list[i].offset + list[i].bytes;
		sum += list[i].bytes;
	}
	if (sum != extent->whole)
		abort();
}

static void try_metadata(const uint8_t *data, size_t size)
{
	struct ctf_extent extent;
	unsigned char uuid[CTF_UUID_BYTES];

	(void)ctf_check_metadata(data, size, &extent, uuid);
	judge(&extent, size);
	(void)ctf_is_lttng(data, size);
}

static void try_stream(const uint8_t *data, size_t size, int one_trace)
{
	struct input input = {data, size};
	struct vector packets = {0};
	struct ctf_extent extent;
	const unsigned char *uuid = NULL;

	if (one_trace && size >= AT_UUID + CTF_UUID_BYTES)
		uuid = data + AT_UUID;
	if (ctf_check_stream(read_input, &input, size, uuid, &packets, &extent))
		abort();
	judge(&extent, size);
	judge_packets(&packets, &extent);
	vector_free(&packets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1)
		try_metadata(data + 1, size - 1);
	else
		try_stream(data + 1, size - 1, data[0] & 2);
	return 0;
}
