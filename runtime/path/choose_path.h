/* SPDX-License-Identifier: Apache-2.0 */
/* Which path a communicator takes: a pure function of what all ranks agreed on (S1). */
#ifndef BELAY_RUNTIME_PATH_CHOOSE_PATH_H
#define BELAY_RUNTIME_PATH_CHOOSE_PATH_H

#include <stdint.h>

#include "runtime/belay.h"

/* The first allowed path, in order of preference, that is usable on all ranks (bit 1 << enum
 * belay_path). 0 and *ret_path; BELAY_E_NO_PATH. */
int choose_path(const uint8_t *preference, uint32_t count, uint32_t usable,
		enum belay_path *ret_path);

#endif /* BELAY_RUNTIME_PATH_CHOOSE_PATH_H */
