/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the first message of a connection to a meeting. Built with libFuzzer
 * (clang -fsanitize=fuzzer,address) or with replay_inputs.c, which runs it over files.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/group/handshake.h"
#include "tests/fuzz/fuzz_target.h"

/* Whatever decodes must encode to the same bytes, and be judged without harm. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
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
	return 0;
}
