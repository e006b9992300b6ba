/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of libbelay-nccl itself, to stderr, as BELAY_LOG says; belay's communicators have their
 * own. Never in a call. */
#ifndef BELAY_RUNTIME_NCCL_SAY_H
#define BELAY_RUNTIME_NCCL_SAY_H

#include "runtime/belay.h"

/* One line, without its end. */
void say(enum belay_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif /* BELAY_RUNTIME_NCCL_SAY_H */
