/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The breaker of a path, rule S4: too many rescues in a time and the next path is taken. Pure; rank
 * 0's watcher keeps it for the communicator, so that there is one opinion.
 *
 *             rescues in the window            back-off over
 *   CLOSED ---------------------------> OPEN ------------------> HALF_OPEN
 *     ^                                  ^                           |  |
 *     |                                  |  the probe failed         |  |
 *     |                                  +---------------------------+  |
 *     +-----------------------------------------------------------------+
 *                         every rank saw every other's probe
 *
 *   From       Event                     To         [function]
 *   CLOSED     the last of N rescues     OPEN       [breaker_rescued]
 *   OPEN       back-off over             HALF_OPEN  [breaker_probe_due]
 *   HALF_OPEN  probe seen by all         CLOSED     [breaker_probe_ended]
 *   HALF_OPEN  probe missed              OPEN       [breaker_probe_ended]
 *
 * CLOSED     calls take the preferred path
 * OPEN       calls take the next path, from an agreed turn on
 * HALF_OPEN  the same, and the watchers try the preferred path among themselves, in words of their
 *            own
 *
 * The back-off doubles with each opening and each failed probe, up to 64 times the first; it starts
 * small again after the breaker has been closed for ten back-offs.
 */
#ifndef BELAY_RUNTIME_OUTCOME_BREAKER_H
#define BELAY_RUNTIME_OUTCOME_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/belay.h"

#define BREAKER_RESCUES_MAX   1000
#define BREAKER_DOUBLINGS_MAX 6

struct breaker {
	enum belay_breaker_state state;
	uint32_t rescues;   /* that open it ... */
	uint64_t window_ns; /* ... within this time */
	uint64_t first_backoff_ns;
	unsigned doublings;
	uint64_t since_ns; /* of the present state */
	uint64_t next_probe_ns;
	uint32_t count;			       /* rescues noted so far */
	uint64_t when_ns[BREAKER_RESCUES_MAX]; /* of the newest, by count modulo rescues */
};

void breaker_init(struct breaker *breaker, uint32_t rescues, uint64_t window_ns,
		  uint64_t first_backoff_ns);

/* A turn was rescued. True when that opens the breaker. */
bool breaker_rescued(struct breaker *breaker, uint64_t now_ns);

/* True once when the back-off is over: a probe begins. */
bool breaker_probe_due(struct breaker *breaker, uint64_t now_ns);

/* The probe is over. */
void breaker_probe_ended(struct breaker *breaker, bool all_saw_it, uint64_t now_ns);

#endif /* BELAY_RUNTIME_OUTCOME_BREAKER_H */
