/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rescue over the ring, rules R1 to R4: the watchers of all live ranks gather the retained inputs
 * of one turn over Unix sockets, each part checked, and reduce them in rank order into the output
 * of every calling thread that is stuck in that turn. A dead rank's part is donated by the lowest
 * member.
 *
 *            rescue word names a new (turn, attempt)
 *   IDLE -------------------------------------------> GATHERING <--+
 *    ^                                                  |   |      | next chunk
 *    |  all chunks through            chunk complete    |   +--> HOLDING
 *    +--------------------------------------------------+      (output not ours yet, or done)
 *    |                                                  |
 *    +--- verdict, newer attempt, broken link ----------+
 *
 *   From       Event                                              To         [function]
 *   IDLE       the word names a turn, this rank is a member       GATHERING  [rescue_begin]
 *   GATHERING  all parts of the chunk are here and passed on      HOLDING    [rescue_pump]
 *   HOLDING    calling thread has done the turn, or abandoned it  GATHERING  [rescue_pump]
 *              and R4 holds
 *   HOLDING    the same, last chunk                               IDLE       [rescue_pump]
 *   any        a member's link breaks                             IDLE       [rescue_lose_link]
 *   any        a verdict, another attempt                         IDLE       [rescue_cancel]
 *
 * One thread, the watcher, uses it. Nothing here blocks: the caller polls the descriptors.
 */
#ifndef BELAY_RUNTIME_OUTCOME_RESCUE_H
#define BELAY_RUNTIME_OUTCOME_RESCUE_H

#include <stdbool.h>
#include <stdint.h>

struct belay_comm;
struct rescue;

struct rescue *rescue_create(struct belay_comm *comm);
void rescue_free(struct rescue *rescue);

/* Follows the rescue word: begins, changes or cancels; then moves what can be moved. */
void rescue_follow(struct rescue *rescue, uint64_t word, uint64_t members);

/* Gives up the attempt; a calling thread that has abandoned its turn to it is not released by
 * this. */
void rescue_cancel(struct rescue *rescue);

/* The link to `peer` is broken: gives up the attempt if the peer takes part. (The link of a rank
 * that died in an earlier attempt may be found broken only now; this attempt goes on without
 * it.) */
void rescue_lose_link(struct rescue *rescue, unsigned peer);

/* True while the attempt wants `peer`'s link writable, or does not want it read for now. */
bool rescue_wants_write(const struct rescue *rescue, unsigned peer);
bool rescue_wants_read(const struct rescue *rescue, unsigned peer);

/* Reads what stands on the link to `peer`; false when the link is broken. */
bool rescue_read(struct rescue *rescue, unsigned peer);

/* Sends, completes chunks, writes output, releases. Call when anything may have changed. */
void rescue_pump(struct rescue *rescue);

/* True between begin and end. */
bool rescue_active(const struct rescue *rescue);

/* Bytes of a turn that this rank has staged, by its own description; false while that does not
 * stand yet. */
bool rescue_turn_bytes(const struct belay_comm *comm, uint64_t turn, uint64_t *ret_bytes);

/* True when the attempt that a rescue word names goes over NCCL, and a rank has seen that fail. */
bool rescue_is_broken(const struct belay_comm *comm, uint64_t word);

/* Asks every live peer's watcher to look at the segment now. Never blocks. */
void rescue_tell_peers(struct belay_comm *comm);

#endif /* BELAY_RUNTIME_OUTCOME_RESCUE_H */
