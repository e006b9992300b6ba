/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Twins: belay's communicator beside one of NCCL's, of the same ranks on the same device. All ranks
 * make the twin at the same place, when NCCL's communicator is ready; either all have it, or none.
 *
 *              expect           create or poll          created
 *   (unknown) --------> EXPECTED --------------> CREATING -------> READY
 *                          |                        |     refused
 *                          |  no peers              +------------> NONE
 *                          +-------------------------------------> NONE
 *
 *   From       Event                                                    To        [function]
 *   unknown    NCCL gave a handle                                       EXPECTED  [twin_expect]
 *   EXPECTED   NCCL's communicator is ready                             CREATING  [twin_create,
 *                                                                                  twin_poll]
 *   CREATING   belay_comm_create_from_nccl() returned                   READY, NONE
 *   any        the program destroys or aborts NCCL's communicator       unknown   [twin_take_out]
 *
 * NONE  belay does not serve it: it is of one rank, or belay has no path for it
 */
#ifndef BELAY_RUNTIME_NCCL_TWIN_H
#define BELAY_RUNTIME_NCCL_TWIN_H

#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/belay.h"
#include "runtime/nccl/release.h"

enum twin_state { TWIN_EXPECTED, TWIN_CREATING, TWIN_READY, TWIN_NONE };

struct twin {
	ncclComm_t nccl;
	_Atomic int state;	  /* release: what led to it; READY: `belay` is there */
	struct belay_comm *belay; /* owned; constant while READY */
	int nranks;
	bool watches;	      /* ranks are of several hosts, and `belay` of this one's: NCCL carries
				 every call out; constant while READY */
	bool watches_all;     /* BELAY_WATCH; likewise */
	uint64_t patience_ns; /* what goes before a call has ended by then; likewise */
	_Atomic bool in_pass; /* a begin mark has been made; relaxed: marks are one thread's */
	_Atomic bool has_verdict; /* belay has told of it; relaxed: the call behind sees it */
	_Atomic bool released;	  /* NCCL's kernels have been told to leave; likewise */
	_Atomic bool on_nccl;	  /* a watched call has been begun, see twin_goes_to_nccl() */
	/* twin.c's. */
	unsigned holders; /* under its lock: the table and whoever has it from twin_get(); the last
			     one to go destroys it */
	bool ended;	  /* likewise: not in the table any more */
	unsigned kept;	  /* likewise: see twin_keep() */
	struct release *release; /* likewise; owned by the twin until twin_take_release() */
	struct twin *next;
};

/* NCCL has made `comm`, which need not be ready. False: out of memory; it stays NCCL's alone. */
bool twin_expect(ncclComm_t comm);
/* NCCL's communicators are ready: makes their twins, each on a thread of its own if there are
 * several. Collective; blocks, see belay_comm_create_from_nccl(). Those that are not EXPECTED are
 * left out. */
void twin_create(const ncclComm_t *comms, int ncomms);
/* NCCL says that `twin->nccl` is ready: begins to make the twin on a thread, the first time. True
 * once that is over. Does not block. */
bool twin_poll(struct twin *twin);

/* For one call on a communicator: NULL: it has no twin. Then twin_put(). Any thread. */
struct twin *twin_get(ncclComm_t comm);
void twin_put(struct twin *twin);
/* The program has destroyed or aborted NCCL's communicator since twin_get(): make no calls. */
bool twin_has_ended(const struct twin *twin);
/* Those that are READY, the newest first, each as by twin_get(); NULL beyond the last. */
struct twin *twin_at(unsigned index);

/* A call of this rank is under way or enqueued, as far as the host knows. Of one that is READY. */
bool twin_is_busy(const struct twin *twin);
/* The verdict that stands, as NCCL's result with the text in last_error.h; ncclSuccess: none. */
ncclResult_t twin_verdict(const struct twin *twin);

/* NCCL has told the program of an error: a watched call will not end. Waits a moment for its
 * verdict, whose text is the last error then. */
void twin_tell_error(const struct twin *twin, ncclResult_t error);

/* Before a call is begun that is NCCL's. From then on a verdict has NCCL's kernels on the
 * communicator leave (release.h), whatever the program does. Any thread. */
void twin_goes_to_nccl(struct twin *twin);
/* The verdict, of one whose kernels have been told to leave or will be: nothing is to be enqueued
 * on NCCL's communicator, where it would end at once without a result. Else ncclSuccess. */
ncclResult_t twin_refuses(const struct twin *twin);
ncclResult_t twin_comm_refuses(ncclComm_t comm);

/* Has calls that wait return: an abort for all ranks, unless this rank has none under way. */
void twin_abort(ncclComm_t comm);
/* Around a function of NCCL's that goes on with the communicator, or makes another from it: no
 * release begins in between, and one that has begun has told NCCL. NULL: it has no twin.
 * `for_good`: none begins any more. */
struct twin *twin_keep(ncclComm_t comm);
void twin_unkeep(struct twin *twin, bool for_good);
/* In between: NCCL has taken back that its kernels are to leave, if it was told. */
void twin_abandon_release(struct twin *twin);
/* Whether its kernels have been told to leave. */
bool twin_is_released(ncclComm_t comm);
/* Of one that has been taken out: what ends NCCL's communicator in place of NCCL's own function.
 * NULL: nothing has been released. */
struct release *twin_take_release(struct twin *twin);
/* Of one that has been taken out: waits for its calls, as destroying it would, if NCCL has had any.
 * True: a verdict has come before their end, and NCCL's communicator is to be aborted. */
bool twin_is_lost(const struct twin *twin);

/* The program destroys or aborts `comm`. From the first on no call finds the twin (NULL: there was
 * none). The second, before an abort of NCCL's, waits until it is not being made any more, and a
 * moment for threads that ask NCCL about it; one that hangs in NCCL goes on when NCCL's
 * communicator has been aborted. The third waits for threads that are in a call, and destroys it:
 * it blocks up to BELAY_DESTROY_MS twice (three times with twin_is_lost()), or BELAY_START_MS if
 * the twin is still being made. A thread that has a call in a group which it does not end is left
 * with the twin after the first. */
struct twin *twin_take_out(ncclComm_t comm);
void twin_let_go(struct twin *twin);
void twin_destroy(struct twin *twin);

#endif /* BELAY_RUNTIME_NCCL_TWIN_H */
