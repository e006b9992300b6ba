/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control segment: what the ranks of one communicator know of each other. One sealed memfd,
 * mapped by all, zero when it is created; every field has one writer unless it says otherwise.
 *
 * Progress is counted in turns. A turn is one exchange through a slot; a call takes one turn, a
 * call larger than a slot takes several in a row. The ranks agree on the turns of a call because
 * they agree on its signature. So a communicator that makes no large calls has turn == seq.
 *
 * Ordering contract [PROGRESS]
 *
 *   calling thread of a rank               any thread of any rank
 *   plain stores: slot, call description
 *   (1) store-release of a step word --->  (2) load-acquire of the step word
 *                                          plain loads of the slot and the description
 *
 * If (2) reads turn t or a later one, the reader sees what was stored before (1) for t. It may
 * use that data until every rank is done with t: only then can the writer be in turn t + 2, whose
 * slot and description are the same memory (invariant 4). Step words only grow.
 *
 *   calling thread, turn t + 2             watcher that may have come too late
 *   acquired: all have staged t + 1        loads of the slot and the description
 *   (3) release fence; then it stores      (4) acquire fence; loads of all done words
 *
 * If one of them is not done with t, nothing that was loaded is of t + 2.
 *
 * Ordering contract [DEAD]
 *
 *   whoever buries rank d                  any watcher
 *   learned of the end: what d stored      (2) load-acquire of `dead`
 *   on a device: CAS of d's `left_whole`   loads of d's words, of `left_whole`
 *   (1) fetch-or of `dead`, acq_rel  --->
 *
 * If (2) has d's bit, d's words are its last ones, and `left_whole` is answered.
 *
 * Ordering contract [VERDICT], rules V1 to V3 and C1
 *
 *   proposer, or anyone who settles        rank that commits or goes on
 *   (1) CAS of the verdict word            (3) loads or stores of done words
 *   fence seq_cst                          fence seq_cst
 *   (2) loads of all done words            (4) load of the verdict word
 *
 * Either (2) sees the done words that (3) saw or stored, or (4) sees the proposal of (1): a
 * proposal is never decided behind the back of a commit that did not see it.
 */
#ifndef BELAY_RUNTIME_GROUP_CONTROL_SEGMENT_H
#define BELAY_RUNTIME_GROUP_CONTROL_SEGMENT_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/symm_layout.h"
#include "runtime/belay.h"
#include "runtime/group/life_line.h"
#include "runtime/world.h"

#define CONTROL_MAGIC	   UINT64_C(0x31676573796c6562) /* "belyseg1" */
#define CONTROL_VERSION	   3
#define CONTROL_NAME	   "belay-control" /* of the memfd, as seen in /proc/PID/fd */
#define CONTROL_TEXT_BYTES 320
#define LINE		   64

/* What a rank called with, so that others can name both signatures of a mismatch. */
struct control_call {
	uint64_t seq;
	uint64_t count;
	uint64_t pass;
	uint64_t last_turn; /* of the call that this turn belongs to */
	uint32_t index;
	uint32_t signature;
	uint8_t dtype;
	uint8_t op;
	uint8_t path; /* enum belay_path that the turn goes on */
	uint8_t reserved[5];
};

/* Why a rank proposes a verdict. Written before its proposal (V1), not changed once that is
 * decided. */
struct control_cause {
	uint64_t turn;
	uint64_t seq;
	uint64_t pass;
	int32_t culprit;
	uint32_t cause; /* enum belay_cause */
	char text[CONTROL_TEXT_BYTES];
};

/* The agreed id for the survivors, see survivors.c. */
struct control_heirs {
	uint64_t mask;
	unsigned char id[sizeof(struct belay_unique_id)];
};

enum control_rank_state { CONTROL_ABSENT = 0, CONTROL_JOINED = 1, CONTROL_LEFT = 2 };

/* One rank's words. Groups stand on lines of their own by who writes and who reads. */
struct control_rank {
	/* Written by the rank's calling thread in every call; read by peers only when something is
	 * wrong, at commits, and by belay-info. */
	alignas(LINE) _Atomic uint64_t staged; /* turn whose input stands whole in the slot */
	_Atomic uint64_t pushed;	       /* turn whose arrival headers have been issued */
	_Atomic uint64_t results;  /* turn whose results have been pushed (or never will be) */
	_Atomic uint64_t done;	   /* turn whose output is complete */
	_Atomic uint64_t seq;	   /* last call begun */
	_Atomic uint64_t done_seq; /* last call finished */
	_Atomic uint64_t pass;	   /* last pass begun */
	_Atomic uint64_t in_call;  /* 1 from entry to return */

	/* By turn parity; published by `staged`. */
	alignas(LINE) struct control_call call[2];

	/* Written by peers that sleep waiting for this rank: bit r for rank r. Read by this rank at
	 * the end of each call. See wait.c, contract [SLEEP]. */
	alignas(LINE) _Atomic uint64_t sleepers;
	/* This rank's futex: counted up by whoever wakes it. */
	alignas(LINE) _Atomic uint32_t bell;

	/* Written by the rank's watcher; the times begin with the rank's creation. */
	alignas(LINE) _Atomic uint64_t heartbeat_ns;
	_Atomic uint64_t progress_ns; /* when the watcher last saw `done` move */
	_Atomic uint32_t state;	      /* enum control_rank_state */
	_Atomic int32_t pid;
	_Atomic uint64_t missing; /* past the soft deadline: ranks waited for; 0: none */
	/* Members of the rescues this rank began, by (turn + attempt) parity; written before the
	 * CAS. */
	_Atomic uint64_t rescue_members[2];
	_Atomic int32_t rescue_lost[2]; /* likewise: whose data was lost */
	_Atomic uint64_t probe_seen;	/* round in which it saw every rank's probe */

	/* With devices: 0: the attempt goes over the ring; else 1 + bytes of each rank's part that
	 * NCCL gathers. By parity and ordered as rescue_members. */
	alignas(LINE) _Atomic uint64_t rescue_gather[2];
	/* With devices, of a rank that is dead: 1 + the last turn that it staged, if its retained
	 * input was found whole then (P3), else 1; 0: nobody has looked. Written by peers: the
	 * first CAS is right for all, and comes before the rank's bit in `dead`. So all judge a
	 * dead rank alike, for ever, whatever a kernel of its still posts. */
	_Atomic uint64_t left_whole;
	/* With devices: the last turn that every block of this rank's kernel has left, at least one
	 * of them without its result. It ends by a rescue or a verdict. */
	_Atomic uint64_t abandoned;

	struct life_line life; /* held by the rank's watcher */

	alignas(LINE) struct control_cause cause;
	alignas(LINE) _Atomic uint32_t heir_asked; /* 1: asks for survivors */
	struct control_heirs heirs;
};

/* What a rank's device is, told before the ranks look at each other (barrier of the creation). */
struct control_facts {
	uint8_t uuid[16]; /* tells ranks that share a device */
	char name[64];
	uint32_t pci_domain, pci_bus, pci_device;
	int32_t numa_node; /* -1: not known */
	uint32_t multiprocessors;
	uint32_t compute;     /* major * 10 + minor */
	uint32_t present;     /* 1: the rank has a device and the rest is filled in */
	uint64_t peer_access; /* bit r: can map rank r's device */
	uint64_t peer_native; /* ... with native atomics */
	uint64_t peer_nvlink; /* ... over NVLink */
	uint32_t asks_probe;  /* 1: links are to be probed, whatever they are (for tests) */
	uint64_t push_rate, pull_rate; /* of the probe, bytes per ms; 0: none was made */
};

/* One rank's device side. Posts are written by its kernels, orders and facts by its process. */
struct control_device {
	alignas(LINE) struct symm_posts posts;
	alignas(LINE) struct symm_orders orders;
	alignas(LINE) struct control_facts facts;
};

/* Of the whole communicator; written by rank 0 before a barrier unless it says otherwise. */
struct control_nccl {
	unsigned char rescue_id[128]; /* ncclUniqueId of the watchers' communicator */
	unsigned char calls_id[128];  /* ... and of the one for whole calls */
	int32_t version;
	_Atomic uint32_t broken; /* 1: a rank saw the watchers' communicator fail; any watcher */
	/* Bit r: rank r could not load NCCL or join; set by itself during creation, so that nobody
	 * waits for it. */
	_Atomic uint64_t unready;
};

struct control_head {
	uint64_t magic;
	uint32_t version;
	uint32_t nranks;
	uint64_t bytes;		/* of the whole segment */
	uint64_t rank_offset;	/* of struct control_rank [nranks] */
	uint64_t device_offset; /* of struct control_device [nranks]; 0: too many ranks for devices
				 */
	uint32_t for_device;	/* 1: calls are on device memory, and kernels post */
	uint32_t reserved;
	uint64_t ring_offset; /* of the trace rings */
	uint64_t ring_bytes;  /* of one rank's rings */
	uint64_t heartbeat_period_ns;
	uint32_t usable_paths; /* bit 1 << enum belay_path: agreed at creation */
	uint32_t first_path;   /* enum belay_path chosen at creation */
	char comm_id[40];
	struct comm_world world; /* for whoever looks from outside */

	/* The verdict word; changed only by compare-and-swap, see outcome/verdict.h. */
	alignas(LINE) _Atomic uint64_t verdict;
	/* turn << 8 | path: from that turn on this path is taken; 0: the first. Written by rank 0's
	 * calling thread only, see outcome/path_switch.h. In the verdict's line: both are read
	 * in every call and hardly ever written. */
	_Atomic uint64_t path_switch;
	/* The rescue word; changed only by compare-and-swap, see outcome/verdict.h. */
	alignas(LINE) _Atomic uint64_t rescue;
	/* Dead ranks; bits are only added, by any watcher. */
	alignas(LINE) _Atomic uint64_t dead;
	/* Rescued turns, each counted once by the CAS that raised `rescued_last`. */
	alignas(LINE) _Atomic uint64_t rescued_count;
	_Atomic uint64_t rescued_last;
	/* The same for seqs, for people: a seq may have several turns. */
	_Atomic uint64_t rescued_seqs;
	_Atomic uint64_t rescued_seq_last;
	/* Written by rank 0's watcher. */
	alignas(LINE) _Atomic uint64_t probe_round; /* of the breaker; 0: none so far */
	_Atomic uint32_t breaker_state;		    /* enum belay_breaker_state */
	/* 1 + the rank whose `heirs` are agreed; 0: none yet. CAS from 0. */
	alignas(LINE) _Atomic uint32_t heir_of;
	alignas(LINE) struct control_nccl nccl;
};

static_assert(offsetof(struct control_rank, call) == LINE, "the step words fill one line");
static_assert(sizeof(struct control_rank) % LINE == 0, "ranks do not share lines");
static_assert(sizeof(struct control_call) == sizeof(struct symm_description),
	      "kernels describe calls as the runtime does");
static_assert(offsetof(struct control_call, signature) ==
			      offsetof(struct symm_description, signature) &&
		      offsetof(struct control_call, path) ==
			      offsetof(struct symm_description, path),
	      "likewise");
static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "kernels store plain words");

struct control_segment {
	struct control_head *head;
	struct control_rank *rank;     /* nranks of them */
	struct control_device *device; /* likewise; NULL when there are more than SYMM_RANKS_MAX */
	uint32_t nranks;     /* as it was found: the head's is memory of others, and may change */
	size_t mapped_bytes; /* from the head on: what devices map; whole pages */
	void *rings;
	size_t bytes;
};

/* Bytes of the segment of nranks ranks, a multiple of the page size. */
size_t control_segment_bytes(uint32_t nranks);

/* Points into a mapping; the caller's memory. */
void control_segment_place(void *memory, uint32_t nranks, struct control_segment *ret_segment);

/* Rank 0 fills the head once, before the others look (rendezvous_barrier orders that). */
void control_segment_fill(const struct control_segment *segment, uint32_t nranks,
			  const char *comm_id);

/* Every rank presets its own words: the turn before the first, and that its watcher's times count
 * from now. */
void control_rank_preset(struct control_rank *rank, uint64_t turn_before, int32_t pid,
			 uint64_t now_ns);

/* True when a foreign mapping is a control segment that this code can read (belay-info). */
int control_segment_check(const void *memory, size_t bytes, struct control_segment *ret_segment);

#endif /* BELAY_RUNTIME_GROUP_CONTROL_SEGMENT_H */
