/* SPDX-License-Identifier: Apache-2.0 */
/* What every fuzz target offers: libFuzzer's entry. */
#ifndef BELAY_TESTS_FUZZ_TARGET_H
#define BELAY_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* Runs the target on one input; ends the process when a promise is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* BELAY_TESTS_FUZZ_TARGET_H */
