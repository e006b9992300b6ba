/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher's side of a kernel: what a host path's calling thread does with the mailbox, done for
 * a kernel by what it posts (kernels/symm_layout.h). Pure: a view in, the next thing to do out; the
 * watcher does it, builds a new view and asks again until there is nothing (device_calls.c).
 *
 *   Mailbox    Seen                                     Done                    Then
 *   IDLE       `stuck` of a turn not done               mailbox_post            STUCK
 *   STUCK      phase or missing ranks have changed      mailbox_update          STUCK
 *   STUCK      the turn is done, or a verdict           mailbox_clear           IDLE
 *   ASKED      not ordered yet                          orders.abandon          ASKED
 *   ASKED      the turn is done, or a verdict           mailbox_clear           IDLE
 *   ASKED      all blocks left, one at least abandoned  mailbox_abandon         ABANDONED
 *   ABANDONED  (rescue.c writes the output)             -                       RELEASED
 *   RELEASED   outcome, and no write is queued          orders.released, clear  IDLE
 *   IDLE       a verdict; an order to abandon stands    orders.released: none   IDLE
 *
 * and in every state: a fault point is acted on, a mismatch and a kernel that gave up are
 * complained about, each once; a verdict is passed on as orders.fail_from.
 *
 * STUCK, ASKED  blocks of the kernel may still write the output
 * ABANDONED     every block of the grid has left the turn, so only the watcher may write (R2). A
 * block that was DONE before wrote the same bits. RELEASED      nothing is queued that writes (R3):
 * rescue.c has seen its stream done
 */
#ifndef BELAY_RUNTIME_CUDA_STUCK_KERNEL_H
#define BELAY_RUNTIME_CUDA_STUCK_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/block_words.h"
#include "runtime/outcome/mailbox.h"

struct stuck_view {
	/* Posts of the own kernel, as they stand; see struct symm_posts. */
	uint64_t stuck, missing, output_turn, mismatch, gave_up, fault_asked;
	uint64_t done;	      /* own turns done; read after the posts above */
	enum grid_state grid; /* of the mailbox's turn; read after `stuck` */
	/* The mailbox. */
	enum mailbox_state state;
	uint64_t turn, told_missing;
	enum wait_phase phase;
	int outcome; /* RELEASED */
	bool queued; /* RELEASED: the watcher's stream may still hold a write (R3) */
	/* Orders as they stand. */
	uint64_t abandon, fail_from, released, fault_done;
	/* What has been complained about. */
	uint64_t mismatch_told; /* turn */
	uint64_t gave_up_told;	/* turn */
	/* The decided verdict's turn; 0: none. */
	uint64_t failed;
};

enum stuck_action_kind {
	STUCK_NOTHING = 0,
	STUCK_ACT,	/* act on fault point `value`, then orders.fault_done = value */
	STUCK_FAIL,	/* orders.fail_from = value */
	STUCK_COMPLAIN, /* of a mismatch in turn `value` */
	STUCK_GAVE_UP,	/* complain of a kernel that left turn `value` */
	STUCK_POST,	/* mailbox_post: turn, phase, missing */
	STUCK_UPDATE,	/* mailbox_update: phase, missing */
	STUCK_CLEAR,	/* mailbox_clear */
	STUCK_ORDER,	/* orders.abandon = value */
	STUCK_ABANDON,	/* mailbox_abandon */
	STUCK_RELEASE,	/* mailbox_clear, then orders.released = value */
	STUCK_LET_GO	/* orders.released = value: no result, and nobody was to write one */
};

struct stuck_action {
	enum stuck_action_kind kind;
	enum wait_phase phase;
	uint64_t turn, missing, value;
};

struct stuck_action stuck_decide(const struct stuck_view *view);

/* `stuck` and its halves. */
#define STUCK_TURN(word)  ((word) >> 3)
#define STUCK_PHASE(word) ((enum wait_phase)((word)&7))

#endif /* BELAY_RUNTIME_CUDA_STUCK_KERNEL_H */
