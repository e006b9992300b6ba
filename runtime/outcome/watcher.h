/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher: the communicator's one background thread in each process. It sleeps in poll() on
 * the peers' pidfds, the links to the peers' watchers and its own eventfd; each time it wakes it
 * reads what there is into a view, asks outcome_decide() (pure, liveness.h) for the next action,
 * carries it out and looks again, until there is nothing to do.
 */
#ifndef BELAY_RUNTIME_OUTCOME_WATCHER_H
#define BELAY_RUNTIME_OUTCOME_WATCHER_H

#include <stdint.h>

struct belay_comm;
struct watcher;

/* Starts the thread. 0, BELAY_E_SYSTEM, BELAY_E_LIMIT or BELAY_E_NO_MEMORY, with causes. */
int watcher_start(struct belay_comm *comm, struct watcher **ret_watcher);

/* Makes it look now. Any thread; never blocks. NULL is allowed. */
void watcher_kick(struct watcher *watcher);

/* Ends and frees it. Its loop never blocks for longer than one step, so this is short. NULL is
 * allowed. */
void watcher_stop(struct watcher *watcher);

#endif /* BELAY_RUNTIME_OUTCOME_WATCHER_H */
