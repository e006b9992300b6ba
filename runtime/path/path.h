/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a path must offer, and the call that it carries out. Paths are chosen at creation by
 * choose_path.c, from what every rank found usable; a call never chooses by itself (S1).
 *
 * A path promises: inputs are staged before anything is pushed; `staged`, `pushed`, `results` and
 * `done` are posted in the control segment as protocol rule P1 says; all signatures are compared
 * before the first output store (M1); every wait goes through wait.h or has a deadline of its own.
 */
#ifndef BELAY_RUNTIME_PATH_PATH_H
#define BELAY_RUNTIME_PATH_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/communicator.h"
#include "trace/call_record.h"

/* One call as allreduce.c hands it to a path; faults have been applied already. */
struct call {
	const void *send;
	void *recv;
	size_t count;
	size_t element_bytes;
	int dtype, op;
	uint32_t signature;
	uint64_t seq, pass;
	uint32_t index;
	uint64_t last_turn; /* set by the path before its first turn */
	struct call_record
		*record; /* the path fills staged_ns, arrivals, algorithm, digest, flags */
	/* Of calls on device memory; seq, pass, index and signature are the kernels' there, and
	 * there is no record. */
	struct CUstream_st *stream; /* NULL: the legacy default stream */
	bool captured;
	bool follows;	 /* captured right behind a launch of this communicator's */
	uint64_t ticket; /* for the call's last launch; 0 when captured */
	/* Of watched calls. */
	uint16_t flags;	  /* more of the record's */
	uint64_t details; /* what goes into the signature besides; 0: nothing */
};

struct path {
	enum belay_path id;
	/* Whether the path can work on this machine, told before the ranks meet; the reason for
	 * a person. */
	int (*usable)(const struct settings *settings, const char **ret_reason);
	/* Carries the call out. 0; BELAY_E_* of class VERDICT. */
	int (*allreduce)(struct belay_comm *comm, struct call *call);
	/* For the watcher: true when what a calling thread waits for from `rank` is here already,
	 * and the thread has only not run to see it. On a crowded machine that is common, and
	 * nothing is lost or late then. */
	bool (*is_here)(const struct belay_comm *comm, const struct stuck_turn *stuck,
			unsigned rank);
};

/* For host memory. */
extern const struct path host_path;
extern const struct path ring_path;
/* For device memory: allreduce() enqueues on call->stream and returns. parked_path has the id of
 * the ring: its kernels wait for the watchers, which do what ring_path does. */
extern const struct path symm_path;
extern const struct path nccl_path;
extern const struct path parked_path;

/* hash of (count, dtype, op, pass, place in pass), rule M1. Pure. */
uint32_t call_signature(uint64_t count, int dtype, int op, uint64_t pass, uint32_t index);
/* What the host knows of it; symm_signature() goes on, in a kernel for calls on device memory. */
uint64_t call_signature_base(uint64_t count, int dtype, int op);

/* Whether a path is allowed by BELAY_PATHS and was found usable on every rank at creation. */
bool path_is_agreed(const struct belay_comm *comm, enum belay_path id);

/* The turns of a call: one for each turn-full (comm->turn_bytes), at least one. */
static inline uint64_t call_turns(size_t bytes, size_t turn_bytes)
{
	return bytes <= turn_bytes ? 1 : (bytes + turn_bytes - 1) / turn_bytes;
}

/* Copies the input into the own slot, describes the call and posts `staged`. Shared by the
 * paths. */
void path_stage(struct belay_comm *comm, const struct call *call, uint64_t turn, const void *input,
		size_t bytes);

/* Ends a turn: posts `done`. */
void path_done(struct belay_comm *comm, uint64_t turn);

/* Tells the watcher of a mismatch seen in turn and waits for the verdict. Returns its status. */
int path_mismatch(struct belay_comm *comm, struct call *call, uint64_t turn);

/* Takes what a wait found out into the call's record and the counters. */
struct wait;
void path_note_wait(struct belay_comm *comm, struct call *call, const struct wait *wait);

#endif /* BELAY_RUNTIME_PATH_PATH_H */
