/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a calling thread waits for its peers: spin, yield, sleep, each bounded. All deadlines of
 * calls and pass ends come from here.
 *
 * Ordering contract [SLEEP]
 *
 *   sleeper, waits for rank w              rank w, has posted something
 *   (1) fetch_or own bit in w's sleepers   (3) store of the word waited for
 *   fence seq_cst                          fence seq_cst
 *   (2) loads of the words waited for      (4) load of own sleepers; if not 0: take them all,
 *   futex wait on own bell                     count up their bells, wake them
 *
 * Either (2) sees the store of (3), or (4) sees the bit of (1). The bell is read before (1), so
 * that a wake between (2) and the futex call makes that call return at once. So no wake is lost,
 * and a rank that nobody sleeps for pays one fence a call and no system call. The fence and (4)
 * come at the end of a call and before the first yield inside one: nobody waits on while somebody
 * sleeps for it.
 */
#ifndef BELAY_RUNTIME_WAIT_H
#define BELAY_RUNTIME_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/communicator.h"

enum wait_outcome {
	WAIT_DONE = 0,	  /* nothing is pending any more */
	WAIT_RESCUED = 1, /* the watcher has written the turn's output */
	WAIT_FAILED = 2	  /* a verdict is decided; see comm_fail() */
};

struct wait {
	struct stuck_turn stuck; /* what the watcher is told, should it take long; `missing` is what
				    is pending */
	/* True when what is pending of this rank is here. */
	bool (*arrived)(struct belay_comm *comm, struct wait *wait, unsigned rank);
	/* Where arrivals are noted, ns after start_ns; NULL: nowhere. */
	uint64_t *arrival_ns;
	uint64_t start_ns;
	/* Results: */
	bool late; /* it went past the soft deadline; late_for: for whom */
	uint64_t late_for;
	uint64_t digest;    /* WAIT_RESCUED */
	uint64_t rescue_ns; /* WAIT_RESCUED: from the request to the release */
};

/* Waits until nothing is pending in wait->stuck.missing. */
enum wait_outcome wait_for_ranks(struct belay_comm *comm, struct wait *wait);

/* Wakes whoever sleeps for this rank, if it has posted since the last time. */
void wait_wake_sleepers(struct belay_comm *comm);

static inline void wait_end_of_call(struct belay_comm *comm)
{
	if (comm->wake_pending)
		wait_wake_sleepers(comm);
}

/* Rings a rank's bell: its calling thread, if asleep, looks again. Any thread. */
void wait_ring_bell(struct control_rank *rank);

#endif /* BELAY_RUNTIME_WAIT_H */
