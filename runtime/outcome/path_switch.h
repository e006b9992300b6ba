/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing the path of a running communicator, rules S1, S2 and S4: from an agreed turn on, all
 * ranks take the other path; no call decides by itself.
 *
 * Ordering contract [PATH SWITCH]: only rank 0's calling thread announces a switch, at the entry of
 * a call and before it stages that call's first turn: from the turn after this call. No rank can be
 * further than this call then, for it needs rank 0's input; and every rank that gets further has
 * acquired a word that rank 0 stored after the announcement (contract PROGRESS or ARRIVAL). So all
 * ranks know of the switch before they begin the turn it starts with. In the call that takes a
 * switch none is announced, for ranks that are not yet as far have still to read the word.
 */
#ifndef BELAY_RUNTIME_OUTCOME_PATH_SWITCH_H
#define BELAY_RUNTIME_OUTCOME_PATH_SWITCH_H

#include <stdint.h>

#include "runtime/communicator.h"

struct call;
struct watcher;

static inline uint64_t path_switch_pack(uint64_t turn, enum belay_path path)
{
	return turn << 8 | (uint64_t)path;
}

/* Slow part of path_switch_follow(). */
void path_switch_take(struct belay_comm *comm, const struct call *call, uint64_t word);

/* Calling thread, before a call's first turn. Two loads of lines that hardly ever change. */
static inline void path_switch_follow(struct belay_comm *comm, const struct call *call)
{
	/* Acquire: see above; relaxed: own process, only says that there may be work. */
	uint64_t word =
		atomic_load_explicit(&comm->control.head->path_switch, memory_order_acquire);
	uint32_t wanted = atomic_load_explicit(&comm->path_wanted, memory_order_relaxed);

	if (__builtin_expect(word != comm->switch_seen || wanted != 0, 0))
		path_switch_take(comm, call, word);
}

/* Watcher: takes part in probes; rank 0's also keeps the breaker. Returns when it wants to be
 * called again, ns. */
uint64_t path_switch_watch(struct watcher *w, uint64_t now_ns);

#endif /* BELAY_RUNTIME_OUTCOME_PATH_SWITCH_H */
