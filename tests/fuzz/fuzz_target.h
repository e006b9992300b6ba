/* SPDX-License-Identifier: Apache-2.0 */
/* What every fuzz target offers, libFuzzer's entry, and what several of them need. */
#ifndef BELAY_TESTS_FUZZ_TARGET_H
#define BELAY_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/belay.h"

/* Runs the target on one input; ends the process when a promise is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes as a text with a 0 byte behind it, of just that size; the caller's to free. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* A log callback: what is said of damaged inputs is of no interest. */
static inline void fuzz_say_nothing(void *user, enum belay_log_level level, const char *message)
{
	(void)user;
	(void)level;
	(void)message;
}

#endif /* BELAY_TESTS_FUZZ_TARGET_H */
