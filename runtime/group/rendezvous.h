/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks of a communicator find each other: rank 0 listens on an abstract Unix socket, the
 * others connect, all are checked (same user, same secret, version, world size, settings), and rank
 * 0 hands out the shared memory, everybody's pidfd and one connected socket for each pair. Every
 * step ends by one deadline and names who is missing.
 *
 *   rendezvous_begin()    joined; memory and sockets received, nothing mapped yet
 *   rendezvous_barrier()  all ranks have come here (self-test: written / verified)
 *   rendezvous_agree()    every rank's usable paths and reasons -> the same answer on all
 *   rendezvous_end()      closes the meeting's own sockets; or gives up, telling the others why
 */
#ifndef BELAY_RUNTIME_GROUP_RENDEZVOUS_H
#define BELAY_RUNTIME_GROUP_RENDEZVOUS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"
#include "runtime/fault_injection.h"

struct cause_chain;
struct rendezvous;

struct rendezvous_spec {
	/* Where: the abstract socket's name is made from uid and this text (unique id: its
	 * random part; environment: the job). */
	const char *meeting;
	uint8_t secret[16]; /* all zero for meetings from the environment, where only the user is
			       checked */
	int rank;
	int nranks;
	const char *agree_text; /* settings_agree_text() and first_seq */
	size_t control_bytes;	/* control segment; rank 0 creates and reserves it */
	size_t region_bytes;	/* data of all ranks; created sparse, the first part of each stride
				   reserved by rank 0 */
	size_t region_stride;
	size_t region_reserved; /* bytes reserved (fallocate) at the start of each stride */
	uint64_t deadline_ns;	/* CLOCK_MONOTONIC */
	struct faults *faults;
	/* 0, or the status of a failure before the meeting, whose cause stands in the chain: this
	 * rank then comes only to tell the others, and rendezvous_begin() returns it at the
	 * latest at the deadline. */
	int unfit;
};

/* What the ranks share once they have met. Descriptors are the caller's to close after
 * rendezvous_end(). */
struct group_members {
	uint8_t comm_id[16]; /* random, made by rank 0 for this communicator; belay_comm_id() */
	uint64_t generation; /* of this meeting, random, not 0 */
	int control_fd;	     /* sealed memfd (no shrink, no grow), control_bytes */
	int region_fd;	     /* the same, region_bytes; -1 if it could not be had (region_error says
			      * why) */
	char region_error[160];
	int pidfd[BELAY_RANKS_MAX]; /* of each rank's process, made by itself; own one too */
	int link[BELAY_RANKS_MAX];  /* connected SOCK_SEQPACKET to each peer, non-blocking, CLOEXEC;
				       own: -1 */
};

/*
 * Returns 0, or with causes and nothing left open
 *   BELAY_E_START_TIMEOUT  ranks are missing at the deadline, or one died in the meeting: they are
 *                          named
 *   BELAY_E_REFUSED        another version, world size or setting, another secret, or a rank taken
 *                          twice
 *   BELAY_E_ARGUMENT       a rank or number of ranks out of range
 *   BELAY_E_SYSTEM, _LIMIT, _NO_MEMORY   here, or on another rank, which is named
 * All ranks that are in the meeting get the same status; so it is for the calls below.
 */
int rendezvous_begin(const struct rendezvous_spec *spec, struct rendezvous **ret_meeting,
		     struct group_members *ret_members, struct cause_chain *causes);
int rendezvous_barrier(struct rendezvous *meeting);

/* usable: bit (1 << enum belay_path) for each path that works here; reason: why others do not, one
 * line each, at most 500 bytes. ret_usable: the AND over all ranks; ret_reasons: "rank N: ..."
 * lines of the ranks that vetoed, cut at size. */
int rendezvous_agree(struct rendezvous *meeting, uint32_t usable, const char *reason,
		     uint32_t *ret_usable, char *ret_reasons, size_t size);

/* status 0: all is well, the last barrier (nobody returns before all have come here). Else: tells
 * the others the status and the newest cause, and returns it. The meeting is gone afterwards. If
 * rank 0 dies while it releases this barrier, some ranks return 0 and others fail: those that go
 * on hold its pidfd and find a dead rank in their communicator. */
int rendezvous_end(struct rendezvous *meeting, int status);

/* A rank's name for itself in messages of the others is "rank N (pid P)". */

#endif /* BELAY_RUNTIME_GROUP_RENDEZVOUS_H */
