/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's side of a communicator: everything that its calling thread and its watcher share.
 *
 *   JOINING ----> READY ----> FAILED ----> (destroyed)
 *      |            +------------------------^
 *      +--> creation failed, nothing is left
 *
 *   From     Event                                   To       [function]
 *   JOINING  all ranks agreed on a path              READY    [belay_comm_create]
 *   READY    a call or a pass end met the verdict    FAILED   [comm_fail]
 *
 * READY   calls run; a verdict may stand already and not be met yet
 * FAILED  sticky (V6): no call stages, pushes or posts any more; all return the verdict's status
 *
 * Who writes what: fields under "calling thread" belong to the one thread that holds `busy`; the
 * watcher reads of them only what is atomic. `mailbox` is under its own lock. The rest is constant
 * once READY.
 */
#ifndef BELAY_RUNTIME_COMMUNICATOR_H
#define BELAY_RUNTIME_COMMUNICATOR_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/fault_injection.h"
#include "runtime/group/control_segment.h"
#include "runtime/group/region.h"
#include "runtime/group/rendezvous.h"
#include "runtime/outcome/mailbox.h"
#include "runtime/outcome/verdict.h"
#include "runtime/settings.h"
#include "runtime/tuning.h"
#include "runtime/world.h"
#include "trace/trace.h"

struct device;
struct path;
struct watcher;

/* Calls after which the warm-up hard deadline ends, if no pass has ended before. */
#define WARMUP_CALLS 1000

struct belay_comm {
	/* Calling thread, hot. */
	alignas(LINE) _Atomic uint32_t busy; /* 1 while a thread is inside; see comm_enter() */
	bool failed;
	bool pass_open;
	_Atomic bool warm;   /* the warm-up hard deadline is over */
	bool wake_pending;   /* posted words since the last look at `sleepers` */
	uint64_t turn;	     /* last turn begun */
	uint64_t seq;	     /* last call begun */
	uint64_t pass;	     /* last pass begun */
	uint32_t index;	     /* calls of the open pass so far */
	uint32_t spin_polls; /* polls before the first yield */
	bool crowded;	     /* more ranks than cores */
	const struct path *path;
	uint64_t switch_seen; /* the path switch that `path` is from */
	struct control_rank *own;
	const _Atomic uint32_t *fork_cookie; /* reads 0 in a forked child */

	/* Constant. */
	unsigned rank;
	unsigned nranks;
	struct comm_world world; /* nranks not 0: this host's part, which only watches */
	struct device *device;	 /* NULL: a communicator of host memory; see cuda/device.h */
	struct control_segment control;
	struct region region;
	size_t turn_bytes; /* largest turn: a slot of the region, or device->turn_bytes */
	struct settings settings;
	struct tuning tuning;
	struct faults faults;
	struct group_members members;
	uint64_t yield_ns; /* yields before the first sleep */
	char id[33];
	char reasons[600];		/* why paths are not used */
	belay_verdict_function verdict; /* the program's, or NULL */
	void *verdict_user;

	/* Calling thread, not so hot. */
	uint64_t first_seq;
	uint64_t skipped_seq; /* fault injection: the seq that a call was left out at last; 0:
			       * none */
	uint64_t pass_first_seq;
	uint64_t ended_pass; /* last pass ended; 0: none */
	uint64_t ended_first_seq, ended_last_seq, ended_turn;
	int ended_status;
	uint64_t commit_wait_ns;
	/* Counters, see belay_statistics; relaxed: they order nothing and are read only to be
	 * shown. */
	struct {
		_Atomic uint64_t calls, passes, bytes, late_calls, own_rescues;
		_Atomic uint64_t by_path[8];
		_Atomic uint64_t late_by_rank[BELAY_RANKS_MAX];
		_Atomic uint64_t late_worst_ns[BELAY_RANKS_MAX];
	} count;

	struct mailbox mailbox;	   /* of the turn; on a device the watcher posts for the kernels */
	struct mailbox commits;	   /* on a device: of a calling thread that waits for a commit */
	pthread_mutex_t note_lock; /* comm_note_verdict(); taken before the lock of `causes` */
	bool verdict_noted;	   /* under note_lock: the verdict stands in `causes` */
	_Atomic uint32_t
		path_id; /* enum belay_path of `path`, for others than the calling thread */
	_Atomic uint32_t path_wanted; /* rank 0: the watcher's wish for a switch; 0: none */
	_Atomic uint32_t last_path, last_algorithm; /* of the last call done, for health */
	_Atomic uint64_t late_named; /* turn << 8 | rank that the watcher named late */
	_Atomic bool abort_asked;
	struct watcher *watcher;
	struct trace *trace;
	struct cause_chain *causes;
};

/* Adds to a counter that only informs. */
static inline void count_add(_Atomic uint64_t *counter, uint64_t value)
{
	/* Relaxed: see belay_comm.count. One writer, so load and store do without a locked
	 * instruction. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
			      memory_order_relaxed);
}

static inline bool comm_forked(const struct belay_comm *comm)
{
	/* Relaxed: fork() is the only writer, and it orders everything before it. */
	return __builtin_expect(atomic_load_explicit(comm->fork_cookie, memory_order_relaxed) == 0,
				0);
}

/* Takes the communicator for this thread: 0, BELAY_E_FORKED or BELAY_E_BUSY. Then comm_leave(). */
static inline int comm_enter(struct belay_comm *comm)
{
	if (comm_forked(comm))
		return BELAY_E_FORKED;
	/* Acquire and release: what the last thread inside wrote is seen by the next one. */
	if (__builtin_expect(atomic_exchange_explicit(&comm->busy, 1, memory_order_acquire) != 0,
			     0))
		return BELAY_E_BUSY;
	return 0;
}

static inline void comm_leave(struct belay_comm *comm)
{
	atomic_store_explicit(&comm->busy, 0, memory_order_release);
}

/* All ranks but this one. */
static inline uint64_t comm_others(const struct belay_comm *comm)
{
	return ranks_below(comm->nranks) & ~rank_bit(comm->rank);
}

/* The line of a rank that a shared word names. Should a peer have gone mad and name a rank that
 * there is not, it is the own line: no word leads out of the segment. */
static inline struct control_rank *comm_named_rank(const struct belay_comm *comm, unsigned rank)
{
	return rank < comm->nranks ? &comm->control.rank[rank] : comm->own;
}

/* True when the verdict word says DECIDED. */
static inline bool comm_decided(const struct belay_comm *comm)
{
	/* Acquire: the proposer's cause line was written before the word. */
	uint64_t word = atomic_load_explicit(&comm->control.head->verdict, memory_order_acquire);

	return __builtin_expect(verdict_decided(word), 0);
}

/* The hard deadline that applies now, ns. */
static inline uint64_t comm_give_up_ns(const struct belay_comm *comm)
{
	/* Relaxed: it chooses a deadline, and orders nothing. */
	return atomic_load_explicit(&comm->warm, memory_order_relaxed)
		       ? comm->settings.give_up_ns
		       : comm->settings.warmup_give_up_ns;
}

static inline void comm_warm_up_is_over(struct belay_comm *comm)
{
	atomic_store_explicit(&comm->warm, true, memory_order_relaxed); /* as above */
}

/* Joins as belay_comm_create() does; with world->nranks not 0, a part of that, for watched calls
 * alone: no paths of its own, and next to no memory. */
int comm_create_in_world(struct belay_comm **ret_comm, const struct belay_unique_id *id, int rank,
			 int nranks, const struct belay_config *config,
			 const struct comm_world *world);

/* It is a host's part of a larger communicator: calls are watched, none is carried out. */
static inline bool comm_only_watches(const struct belay_comm *comm)
{
	return comm->world.nranks != 0;
}

/* A rank as people read it. */
static inline struct rank_words comm_rank_words(const struct belay_comm *comm, int rank)
{
	return world_rank_words(&comm->world, rank);
}

/* Behind a mask of ranks for people: its bits are this communicator's numbers. */
static inline const char *comm_mask_words(const struct belay_comm *comm)
{
	return comm_only_watches(comm) ? " of this host" : "";
}

/* Adds a decided verdict to the causes, once. Any thread. */
void comm_note_verdict(struct belay_comm *comm, const struct control_cause *cause);

/* What this rank's calling thread, or its kernel, waits for past the soft deadline; MAILBOX_IDLE:
 * nothing. Watcher. */
enum mailbox_state comm_read_wait(struct belay_comm *comm, struct stuck_turn *ret_stuck);

/* Meets the verdict: makes the communicator FAILED and returns the verdict's status. Calling
 * thread. */
int comm_fail(struct belay_comm *comm);

/* The status that calls return for a cause. */
int comm_cause_status(enum belay_cause cause);

/* The decided verdict's cause line; NULL when none is decided. Any thread. */
const struct control_cause *comm_verdict_cause(const struct belay_comm *comm);

/* True when a rank counts as done with a turn (L3). Any thread. */
bool comm_rank_is_done(const struct belay_comm *comm, unsigned rank, uint64_t turn);

/* Copies every rank's step words and the dead mask (first; see struct progress). Any thread. */
void comm_read_progress(const struct belay_comm *comm, struct progress *ret_progress);

/* Carries out rule V3 on a proposal that stands, if one does. Any thread. */
void comm_settle(struct belay_comm *comm);

#endif /* BELAY_RUNTIME_COMMUNICATOR_H */
