/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of a rendezvous. Rank 0 is the host (meeting_host.c), the others are members
 * (meeting_member.c). They talk in lock-step: the host sends a step to some members, and each of
 * them answers it before it hears of the next one. So at any time a member has at most one message
 * under way, save a FAIL, and descriptors in flight stay few.
 *
 *             member                              host
 *   SEEKING   connects, HELLO       ------->      checks it
 *   SEATED                          <-------      SEATED, later JOINED for each new rank
 *   SHARING                         <-------      all are here, the listener is closed: SHARE
 *             READY                 ------->
 *                                   <-------      LINKS, up to nranks - 1 times
 *             READY                 ------->
 *   MET                             <-------      all have all: GO
 *             READY or VOTE         ------->      for each barrier and agreement
 *                                   <-------      GO or ANSWER
 *
 * A FAIL goes to the host, and from it to all; who gets one returns its status. A closed socket or
 * a pidfd that fires before that is a death, and the host tells all. The same holds at every step.
 */
#ifndef BELAY_RUNTIME_GROUP_MEETING_H
#define BELAY_RUNTIME_GROUP_MEETING_H

#include <stdint.h>
#include <sys/types.h>

#include "runtime/group/packet.h"
#include "runtime/group/rendezvous.h"

#define MEETING_FAIL_BYTES 768

struct rendezvous {
	struct cause_chain *causes; /* the caller's */
	struct faults *faults;
	struct handshake_message hello; /* what this rank is and wants; the host's measure */
	const char *meeting;		/* its name; the caller's, during rendezvous_begin() only */
	struct rendezvous_spec spec;
	int rank;
	int nranks;
	uint64_t begin_ns;
	uint64_t deadline_ns;
	uint32_t step;	     /* of the exchange that is going on; the same on all ranks */
	uint64_t fault_step; /* see meeting_fault() */

	int unfit; /* 0, or why this rank cannot take part; it still comes, to say so */
	/* 0, or the status that ended the creation; it has been told to whom it could be told. */
	int failed;
	char fail_text[MEETING_FAIL_BYTES];

	/* Host: the sockets of the members. Member: seat 0 leads to the host, the others are
	 * unused. */
	int seat[BELAY_RANKS_MAX];
	int pid[BELAY_RANKS_MAX]; /* of each rank, in its own namespace; 0: not known */
	uint64_t joined;	  /* mask of the ranks that are known to be here */

	/* What is handed to the caller. Owned until rendezvous_begin() returns 0; afterwards only
	 * the pidfds are looked at, until rendezvous_end(). */
	struct group_members shared;
};

/* meeting.c: what host and member share. */

/* Address of the abstract socket; returns its length. */
struct sockaddr_un;
unsigned int meeting_address(const char *meeting, struct sockaddr_un *ret_address);
/* "2, 3" of the ranks not in mask. */
void meeting_list_missing(uint64_t mask, int nranks, char *ret_text, size_t size);
uint64_t meeting_all(const struct rendezvous *m);
/* Milliseconds that the caller gave for the creation. */
unsigned long long meeting_allowed_ms(const struct rendezvous *m);
/* A message of this rank, with its name and secret. */
void meeting_compose(const struct rendezvous *m, enum handshake_type type,
		     struct handshake_message *ret_message);
/*
 * Acts out the faults of at=handshake, whose seq counts the steps of the creation: 0 at its begin,
 * 1 before this rank can be met, 2 when it is seated (rank 0: when all are), 3 with the memory, 4
 * with the links, from 5 on before each barrier and agreement, the last before rendezvous_end()'s.
 */
void meeting_fault(struct rendezvous *m);
/* Whether the table has room for `needed` descriptors more; 0 or BELAY_E_LIMIT. */
int meeting_check_descriptors(unsigned int needed, struct cause_chain *causes);
/* 0 or BELAY_E_LIMIT or BELAY_E_SYSTEM for an errno value. */
int meeting_status_of_errno(int error);

/*
 * Ends the creation with a fact about the group, which stands in every rank's causes in the same
 * words. Tells the others. Returns status.
 */
int meeting_fail_group(struct rendezvous *m, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for a failure of this rank alone, whose cause has been added: it is told with its
 * name. */
int meeting_fail_own(struct rendezvous *m, int status);
/* Takes a status from outside: what is none of creation's becomes BELAY_E_SYSTEM. */
int meeting_status_from(int32_t status);

/* meeting_host.c */
int host_begin(struct rendezvous *m);
int host_barrier(struct rendezvous *m);
int host_agree(struct rendezvous *m, uint32_t usable, const char *reason, uint32_t *ret_usable,
	       char *ret_reasons, size_t size);
/* Tells every member that the creation is over; does not wait. */
void host_tell_failure(struct rendezvous *m);

/* meeting_lobby.c: the host's side until all have joined. 0, or a status that all have been
 * told. */
int lobby_gather(struct rendezvous *m);

/* meeting_host.c, for the lobby: reads one packet of a seated member. 0: *ret_packet is filled; 1:
 * nothing there; else the creation's failure, told to all. */
int host_hear(struct rendezvous *m, int rank, struct packet *ret_packet);
int host_lost(struct rendezvous *m, int rank);

/* meeting_member.c */
int member_begin(struct rendezvous *m);
int member_barrier(struct rendezvous *m);
int member_agree(struct rendezvous *m, uint32_t usable, const char *reason, uint32_t *ret_usable,
		 char *ret_reasons, size_t size);
void member_tell_failure(struct rendezvous *m);
/*
 * One try to be seated: connects and waits for the answer. 0: seated; 1: try again later (ret_why
 * says what happened); else the creation's failure. Also used by a rank 0 that finds the name
 * taken.
 */
int member_try(struct rendezvous *m, char *ret_why, size_t size);

#endif /* BELAY_RUNTIME_GROUP_MEETING_H */
