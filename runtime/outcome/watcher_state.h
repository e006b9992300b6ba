/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher's own state and its two halves: the thread (watcher.c) and the deeds
 * (watcher_actions.c). */
#ifndef BELAY_RUNTIME_OUTCOME_WATCHER_STATE_H
#define BELAY_RUNTIME_OUTCOME_WATCHER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/communicator.h"
#include "runtime/outcome/breaker.h"
#include "runtime/outcome/liveness.h"
#include "runtime/outcome/rescue.h"

/* All but `stop` and `kick_fd` belong to the watcher's thread. */
struct watcher {
	struct belay_comm *comm;
	pthread_t thread;
	_Atomic bool stop;
	int kick_fd;
	struct rescue *rescue;
	uint64_t gone;	 /* ranks whose process has ended */
	uint64_t broken; /* ranks whose link is closed */
	uint64_t salvaged;
	uint64_t next_heartbeat_ns, next_look_ns;
	uint64_t beats;
	uint64_t done_seen;
	uint64_t starved_seq;
	/* About the calling thread's present wait. */
	enum wait_phase wait_phase;
	uint64_t wait_turn;
	bool late_told;
	uint64_t lost_since_ns[BELAY_RANKS_MAX];
	uint64_t stood_still_ns, stood_still_before_ns;
	bool verdict_met;
	/* Probes of the breaker: every rank's part, then rank 0's. */
	uint64_t probe_sent, probe_seen;
	bool hasty; /* on a device: kernels have been told that the breaker is not closed */
	struct breaker breaker;
	uint64_t rescues_seen, probe_round;
};

/* Carries an action out. */
void watcher_act(struct watcher *w, const struct outcome_view *view,
		 const struct outcome_action *action);

/* A verdict is decided: tells people and traces once, ends rescue, releases the calling thread. */
void watcher_meet_verdict(struct watcher *w);

/* Peers whose process has begun to end: dead as well. Their memory may be taken down for long
 * after, and kernels of theirs may run on meanwhile; what these still post and push counts or does
 * no harm (docs/decisions/0008). */
void watcher_look_for_deaths(struct watcher *w);

/* A peer's process has ended: dead, unless it had left before. */
void watcher_note_exit(struct watcher *w, unsigned rank);

/* True when a rank's heartbeat is older than three periods: its process is stopped or its
 * watcher starved (L4). */
bool watcher_stands_still(const struct belay_comm *comm, unsigned rank, uint64_t now);

/* The members of the attempt that a rescue word names. */
uint64_t watcher_rescue_members(const struct belay_comm *comm, uint64_t word);

#endif /* BELAY_RUNTIME_OUTCOME_WATCHER_STATE_H */
