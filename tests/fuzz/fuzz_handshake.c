/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the first message of a connection to a meeting, as it is, and with magic, length and
 * checksum put right, behind which a fuzzer would not come by itself. Built with libFuzzer
 * (clang -fsanitize=fuzzer,address) or with replay_inputs.c, which runs it over files.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/group/handshake.h"
#include "tests/fuzz/fuzz_target.h"

#define CHECKSUM_AT 120

static void put(uint8_t *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

/* Whatever decodes must encode to the same bytes, and be judged without harm. */
static void try_message(const uint8_t *data, size_t size)
{
	static struct handshake_message own, message;
	static uint8_t again[HANDSHAKE_BYTES_MAX];
	enum handshake_result result;
	char text[600] = "";

	handshake_init(&own, HANDSHAKE_HELLO);
	own.nranks = 4;
	handshake_set_text(&own, "BELAY_LATE_MS=10\n");
	memset(&message, 0, sizeof(message));
	result = handshake_decode(data, size, &message);
	if (result == HANDSHAKE_OK &&
	    (handshake_encode(&message, again) != size || memcmp(again, data, size) != 0))
		abort();
	if (handshake_verify(&own, &message, result, text, sizeof(text)) == HANDSHAKE_MISFIT &&
	    !*text)
		abort();
}

static void mend(uint8_t *bytes, size_t size)
{
	static const uint8_t magic[8] = {'b', 'e', 'l', 'a', 'y', 0x00, 0xf5, 0x0a};
	uint64_t head;

	memcpy(bytes, magic, sizeof(magic));
	put(bytes + 28, size - HANDSHAKE_HEAD_BYTES, 4);
	head = handshake_hash(bytes, CHECKSUM_AT, 0);
	put(bytes + CHECKSUM_AT,
	    handshake_hash(bytes + HANDSHAKE_HEAD_BYTES, size - HANDSHAKE_HEAD_BYTES, head), 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy;

	try_message(data, size);
	if (size < HANDSHAKE_HEAD_BYTES)
		return 0;
	copy = fuzz_text(data, size);
	mend((uint8_t *)copy, size);
	try_message((const uint8_t *)copy, size);
	free(copy);
	return 0;
}
