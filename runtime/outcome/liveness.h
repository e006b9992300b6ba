/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one rank makes of what it sees, rules L1 to L3, V2, V5, R1 and M1: the next thing its
 * watcher should do. Pure: a view in, an action out; the watcher carries it out, reads a new view
 * and asks again. Whatever is stale in a view can only delay an action or make its compare-and-swap
 * fail.
 *
 * A rank's own call, as its calling thread tells the watcher (mailbox.h):
 *
 *           past the soft deadline           asked to abandon         outcome known
 *   IDLE ---------------------------> STUCK ------------------> ABANDONED ----------> IDLE
 *                                       |        data came, or a verdict                ^
 *                                       +-----------------------------------------------+
 */
#ifndef BELAY_RUNTIME_OUTCOME_LIVENESS_H
#define BELAY_RUNTIME_OUTCOME_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/outcome/verdict.h"

/* What the calling thread is waiting for. */
enum wait_phase {
	WAIT_NOTHING = 0, /* in no wait, or not past the soft deadline */
	WAIT_INPUTS = 1,  /* arrival headers: the step `pushed` sends them */
	WAIT_RESULTS = 2, /* results of a two-shot call: the step `results` sends them */
	WAIT_COMMIT = 3,  /* a pass's end: the step `done` */
	WAIT_GATHER = 4,  /* a call on the ring path: sent by the watchers themselves */
	WAIT_VERDICT = 5  /* a mismatch was seen: only a verdict can end it */
};

/* Causes that do not come from waiting. */
enum complaint {
	COMPLAINT_NONE = 0,
	COMPLAINT_MISMATCH = 1,
	COMPLAINT_ABORT = 2,
	COMPLAINT_GAVE_UP = 3,	/* a kernel left by its own last deadline */
	COMPLAINT_NCCL = 4,	/* a call that began on NCCL cannot be finished (S3) */
	COMPLAINT_GPU_FAULT = 5 /* the context of this rank's device is lost */
};

struct outcome_view {
	unsigned self;
	uint64_t now_ns;
	uint64_t verdict; /* the words, read after `progress` */
	uint64_t rescue;
	uint64_t rescue_members; /* of the attempt in `rescue` */
	bool rescue_broken;	 /* ... which goes over NCCL, and some rank saw that fail */
	struct progress progress;
	uint64_t left;	  /* ranks that have destroyed their communicator */
	uint64_t waiting; /* ranks that are themselves past the soft deadline in a wait */
	uint64_t stopped; /* ranks whose watcher has shown no heartbeat for three periods; a label
			     (L4) */
	/* Own calling thread. */
	enum wait_phase phase;
	uint64_t turn;		    /* that it waits in */
	uint64_t missing;	    /* ranks whose data it lacks */
	uint64_t since_ns;	    /* start of the wait */
	uint64_t lost_since_ns[64]; /* when the watcher first saw a missing rank's step posted; 0:
				       not yet */
	enum complaint complaint;
	uint64_t complaint_turn; /* of a mismatch */
	uint64_t complaint_since_ns;
	bool late_told; /* the late rank of this wait has been named */
	bool at_once;	/* a kernel while the breaker is open: what is sent and not here is lost */
	bool no_rescue; /* nothing is retained of this turn: a call on NCCL (S3) */
	/* Deadlines, ns from since_ns. */
	uint64_t late_ns, grace_ns, give_up_ns;
};

enum outcome_action_kind {
	OUTCOME_NOTHING = 0,
	OUTCOME_SETTLE,	   /* re-read progress, CAS verdict_settle() over `from` */
	OUTCOME_PROPOSE,   /* write own cause line, CAS `from` to `to` */
	OUTCOME_RESCUE,	   /* write own members, CAS rescue word `from` to `to` */
	OUTCOME_NAME_LATE, /* tell who is late: `rank`; then late_told */
	OUTCOME_BURY	   /* add ranks `mask` to the dead: they have left and are waited for */
};

struct outcome_action {
	enum outcome_action_kind kind;
	uint64_t from, to; /* words of the CAS */
	uint64_t mask;	   /* OUTCOME_RESCUE: the members */
	int rank;	   /* at fault, late, or whose data is lost; -1 when not known */
	uint32_t cause;	   /* enum belay_cause of a proposal */
};

/* The next action for this view. */
struct outcome_action outcome_decide(const struct outcome_view *view);

/* The rank that everybody waits for in the end: of those that have not sent what is missing, the
 * one that is furthest behind by its step words; of equals one that stands still, then one that is
 * not itself waiting, then the lowest (L1). -1 when all have sent. */
int liveness_root(const struct outcome_view *view);

/* Which of the missing ranks have posted the step that sends what is missing: their data is lost
 * or under way. */
uint64_t liveness_sent(const struct outcome_view *view);

/* When decide should be asked again at the latest, even if nothing happens: ns of the clock;
 * UINT64_MAX never. */
uint64_t outcome_next_ns(const struct outcome_view *view);

#endif /* BELAY_RUNTIME_OUTCOME_LIVENESS_H */
