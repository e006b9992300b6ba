/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calling thread tells its watcher when a call is not going well, and what it is told.
 * Never touched by a call that is on time. One lock, held for a few stores; nothing is called under
 * it.
 *
 *   From       Event                                     To         [function, thread]
 *   IDLE       soft deadline, dead sender, ring call     STUCK      [mailbox_post, calling]
 *   STUCK      the data came, or a verdict               IDLE       [mailbox_clear, calling]
 *   STUCK      rescue has begun                          ASKED      [mailbox_ask, watcher]
 *   ASKED      the data came, or a verdict               IDLE       [mailbox_clear, calling]
 *   ASKED      the calling thread writes no more output  ABANDONED  [mailbox_abandon, calling]
 *   ABANDONED  output written, or rescue failed          RELEASED   [mailbox_release, watcher]
 *   RELEASED   outcome taken                             IDLE       [mailbox_clear, calling]
 *
 * STUCK, ASKED  the calling thread may still write the output
 * ABANDONED     only the watcher may write the output (R2)
 * RELEASED      nobody writes it; the calling thread takes the outcome and posts `done` (R3)
 */
#ifndef BELAY_RUNTIME_OUTCOME_MAILBOX_H
#define BELAY_RUNTIME_OUTCOME_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/outcome/liveness.h"

enum mailbox_state {
	MAILBOX_IDLE = 0,
	MAILBOX_STUCK = 1,
	MAILBOX_ASKED = 2,
	MAILBOX_ABANDONED = 3,
	MAILBOX_RELEASED = 4
};

struct path;

/* The turn that the calling thread is stuck in. */
struct stuck_turn {
	enum wait_phase phase;
	uint64_t turn, seq, pass;
	uint64_t missing;
	uint64_t since_ns;
	uint64_t give_up_ns;
	/* What a rescue has to write: the whole output of the turn. */
	void *output;
	size_t count; /* elements of this turn */
	int dtype, op;
	const struct path *path; /* that the turn goes on */
	/* Kernels: */
	bool at_once;	/* the breaker is open: what is sent and not here counts as lost at once */
	bool no_rescue; /* the turn is NCCL's, and nothing is retained (S3) */
	bool region;	/* peers read the input or push results in place, in region buffers: R4 */
};

struct mailbox {
	pthread_mutex_t lock;
	enum mailbox_state state;
	struct stuck_turn stuck; /* valid unless IDLE */
	int outcome;	   /* RELEASED: 0, or -1 when the rescue was given up (a verdict follows) */
	uint64_t digest;   /* RELEASED with 0: of the output */
	uint64_t asked_ns; /* when rescue began */
	enum complaint complaint;
	uint64_t complaint_turn, complaint_since_ns;
};

void mailbox_init(struct mailbox *mailbox);
void mailbox_destroy(struct mailbox *mailbox);

/* Calling thread. */
void mailbox_post(struct mailbox *mailbox, const struct stuck_turn *stuck);
void mailbox_update_missing(struct mailbox *mailbox, uint64_t missing);
/* The same turn waits for something else now: a kernel, whose blocks wait each for itself. */
void mailbox_update(struct mailbox *mailbox, enum wait_phase phase, uint64_t missing);
bool mailbox_asked(struct mailbox *mailbox);
/* False when the ask was taken back meanwhile. */
bool mailbox_abandon(struct mailbox *mailbox);
bool mailbox_released(struct mailbox *mailbox, int *ret_outcome, uint64_t *ret_digest,
		      uint64_t *ret_asked_ns);
void mailbox_clear(struct mailbox *mailbox);
/* False when one like it, or a worse one, stands already. */
bool mailbox_complain(struct mailbox *mailbox, enum complaint complaint, uint64_t turn,
		      uint64_t now_ns);

/* Watcher. */
int mailbox_outcome(struct mailbox *mailbox);
enum mailbox_state mailbox_read(struct mailbox *mailbox, struct stuck_turn *ret_stuck);
/* Asks for turn's output; the state after (IDLE when the calling thread is not stuck in that
 * turn). */
enum mailbox_state mailbox_ask(struct mailbox *mailbox, uint64_t turn, uint64_t now_ns);
void mailbox_release(struct mailbox *mailbox, uint64_t turn, int outcome, uint64_t digest);

#endif /* BELAY_RUNTIME_OUTCOME_MAILBOX_H */
