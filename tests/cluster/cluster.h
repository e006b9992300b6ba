/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator of 2 to 8 ranks in one process, under virtual time and a seeded schedule.
 *
 * Every rank has a calling thread and a watcher. Both are step machines; one step is one access to
 * shared memory, one locked call of the mailbox, or one message of the ring, and between any two
 * steps of one machine the others may take as many as the schedule likes. Pushes are messages that
 * come late, in any order, or never. Ranks die, stop and are starved at any step.
 *
 * What decides is the library's own code: verdict.c, liveness.c, mailbox.c, breaker.c,
 * mismatch_culprit(). What stands here again is the glue that reads words and carries actions out:
 * wait.c, pass.c, watcher.c, watcher_actions.c, rescue.c, path_switch.c and host_path.c, each in
 * the smallest form that keeps the order of its accesses. Mutations are made here, most of them in
 * cluster_rules.c: the library holds no hook for them.
 */
#ifndef BELAY_TESTS_CLUSTER_H
#define BELAY_TESTS_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/outcome/breaker.h"
#include "runtime/outcome/liveness.h"
#include "runtime/outcome/mailbox.h"
#include "runtime/outcome/verdict.h"

#define RANKS_MAX   8
#define CALLS_MAX   16
#define TURNS_MAX   32 /* of a schedule */
#define PLANNED_MAX 6
#define US	    UINT64_C(1000)
#define MS	    (UINT64_C(1000) * US)

/* Deadlines, short so that a schedule has few steps; in the proportions of the defaults. */
#define LATE_NS	   (10 * MS)
#define GRACE_NS   (2 * MS)
#define GIVE_UP_NS (60 * MS)
/* Parts of a turn's input on the ring. */
#define CHUNKS 2u

/* As the preferred path, the ring means that no region is shared: there is no donation, and no
 * other path. */
enum cluster_path {
	CLUSTER_ONESHOT,
	CLUSTER_TWOSHOT, /* results are fetched from their owner's result area */
	CLUSTER_REGION,	 /* two-shot, in place, in region buffers: read and written by peers (R4) */
	CLUSTER_RING	 /* every turn is gathered by the watchers */
};

/* A rule taken away. First those of the protocol's model, by the same names; then those that it has
 * no words for. */
/* clang-format off */
enum mutation {
	MUTATION_NONE,
	ASWRITTEN, NOREREAD, NOWITHDRAW, NOHELP, COMMITANY, OWNSEQ, PLAINSTEP2, GOON, NOACK, RESETWORD,
	DEADDONE, VERDICTATONCE, HALFSTAGED, BEGINEARLY, STALEJOIN, ANYPART, ONEATTEMPT, ONLYSTUCK,
	LATEENDS, NORESULTS, SAMEFLAG, LEAVEATONCE, COUNTEACH, SWITCHNOW, SWITCHOVER, SWITCHLATE,
	LATEISLOST,   /* L1: a missing rank that has staged counts as having sent */
	BLAMEANY,     /* L1: the lowest missing rank is blamed, not the root of the chain */
	RINGDONATES,  /* L3: a dead rank's input counts though nobody can read it */
	NOCOMPARE,    /* M1: signatures are not compared */
	DONORSIGNS,   /* M1: a dead rank's input goes under its donor's signature */
	VERDICTFIRST, /* C1: a commit reads the verdict before the done words */
	LASTCHUNKONLY, /* R4: looked at before the last chunk only */
	RESULTSONLY,  /* R4: looked at only by a rank that waits for results */
	GIVESEARLY,   /* R5: a rank gives its part before it has pushed */
	SPOILEDSTAYS, /* R5: a header that was spoiled is not cleared in a rescue */
	DEADSPOILED,  /* R5: ... nor a dead rank's */
	ANYPLACE,     /* a turn that is rescued is taken for the first of its call */
	WISHLOST,     /* S1: a wish of the breaker's that comes while one is announced is wiped out */
	OWNBREAKER,   /* S1: a rank changes its path as soon as it sees the breaker change */
	PROBEONE,     /* S4: a probe that rank 0 has seen is enough */
	MUTATIONS
};
/* clang-format on */
/* The first that the model has no words for. */
#define MUTATIONS_OF_MODEL LATEISLOST

/* clang-format off */
enum scenario {
	SCENARIO_CALM, SCENARIO_LATE, SCENARIO_STUCK, SCENARIO_CRASH, SCENARIO_TWO_CRASHES, SCENARIO_LOSS,
	SCENARIO_MISMATCH, SCENARIO_ABORT, SCENARIO_SWITCH, SCENARIO_EVERY_STEP, SCENARIO_CHAOS, SCENARIOS
};
/* clang-format on */

/* Of a process, then of one push. */
/* clang-format off */
enum fault_type {
	FAULTY_CRASH, FAULTY_STOP, FAULTY_PREEMPT, FAULTY_STARVE, FAULTY_ABORT,
	FAULTY_LOSE, FAULTY_DELAY, FAULTY_SPOIL
};
/* clang-format on */

/* When a fault of a rank strikes. */
enum trigger {
	AT_STEP,     /* its own step number `count` */
	AFTER_FIRST, /* its step number `count` after the first fault of the schedule */
	AT_PROPOSAL, /* right after its proposal stands */
	AT_RESCUE,   /* its step number `count` after it joined a rescue */
	AT_PUSH	     /* its push number `count` */
};

struct planned_fault {
	enum fault_type type;
	enum trigger trigger;
	unsigned rank;
	uint64_t count;
	uint64_t ns; /* STOP, PREEMPT, STARVE, DELAY: for how long */
	bool struck;
};

/* All that a seed decides before the first step. */
struct plan {
	unsigned nranks, calls, turns;
	uint64_t first_turn;
	unsigned call_of[TURNS_MAX];	/* by turns before it */
	unsigned call_turns[CALLS_MAX]; /* turns of a call */
	unsigned call_begin[CALLS_MAX]; /* turns before its first */
	enum cluster_path path;		/* that calls prefer */
	bool pass_ends[CALLS_MAX + 1];	/* by calls done so far */
	struct planned_fault fault[PLANNED_MAX];
	unsigned nfaults;
	unsigned lost_per_1024;	   /* pushes that never come */
	unsigned spoiled_per_1024; /* headers with a flag of the turn after next */
	unsigned delayed_per_1024; /* pushes that come after the grace */
	unsigned stall_per_1024;   /* steps after which the machine is preempted */
	uint64_t stall_ns_max;
	unsigned pause_per_16; /* pauses between a watcher's look and its deed */
	uint64_t pause_ns_max;
	uint64_t think_ns_max; /* between a rank's calls */
	int odd_rank;	       /* calls differently in the call of odd_turn; -1: none */
	uint64_t odd_turn;     /* the first one of that call */
	unsigned odd_turns;    /* that the call takes there */
	uint64_t destroy_ns;
	/* The breaker, and when the preferred path is broken: `broken_per_1024` pushes are lost. */
	uint32_t breaker_rescues;
	uint64_t breaker_window_ns, probe_ns;
	unsigned broken_per_1024;
	struct broken_time {
		uint64_t from_ns, until_ns;
	} broken[2];
	bool captured; /* calls cannot change their path: they are hasty while it is open (S2) */
	/* What the schedule may not lead to. */
	bool no_rescue, no_verdict;
	bool must_fail;	 /* every rank reports a verdict */
	int culprit;	 /* of any verdict; -1: not known beforehand */
	unsigned causes; /* 1 << enum belay_cause that a verdict may have; 0: any */
};

/* ---- shared memory --------------------------------------------------------------------------- */

struct arrival {
	uint32_t flag;
	uint32_t signature;
	uint64_t turn; /* for the judge, not for the ranks */
};

struct sim_cause {
	uint64_t turn;
	int culprit;
	uint32_t cause;
};

/* A rank's words, slot and headers, as its peers see them. */
struct sim_words {
	uint64_t staged, pushed, results, done;
	uint64_t slot[2]; /* turn whose input stands there whole; 0: torn */
	/* The descriptions of the calls in the slots. */
	struct sim_call {
		uint32_t signature;
		uint64_t last_turn;
		enum cluster_path path;
	} call[2];
	uint64_t result_area[2];
	uint64_t probe, probe_seen;
	uint64_t missing;
	uint64_t heartbeat_ns;
	uint64_t rescue_members[2];
	bool left;
	struct sim_cause cause;
	/* Written by peers. */
	struct arrival input[RANKS_MAX][2], result[RANKS_MAX][2];
};

/* A part of an input on the ring. */
struct part {
	uint64_t word, members;
	unsigned origin, chunk;
	uint32_t signature;
	unsigned holds_rank; /* for the judge: whose input it is, of which turn */
	uint64_t holds_turn;
};

enum message_type { MESSAGE_INPUT, MESSAGE_RESULT, MESSAGE_PART, MESSAGE_EXIT };

struct message {
	enum message_type type;
	unsigned from, to;
	uint64_t due_ns;
	struct arrival arrival;
	struct part part;
};

#define MESSAGES_MAX 1024
#define INBOX_MAX    128

/* ---- machines -------------------------------------------------------------------------------- */

/* Reads progress as comm_read_progress() does, a word a step. */
struct reader {
	struct progress progress;
	unsigned cursor;
};

struct rank;
struct cluster;
typedef void (*step_fn)(struct cluster *c, struct rank *rank);

struct sim_thread {
	step_fn step; /* NULL: has ended */
	const char *name;
	uint64_t *ready_ns; /* in cluster.ready_ns */
	uint64_t held_until_ns;
	bool asleep;
	uint64_t turn;
	uint64_t last_turn; /* of the call */
	unsigned calls;	    /* begun */
	enum cluster_path path;
	bool hasty;
	uint64_t switch_seen, switch_word; /* taken last; loaded */
	uint32_t wish;
	unsigned cursor;
	struct reader reader;
	/* The wait it is in, as in wait.c. */
	struct stuck_turn stuck;
	bool told;
	uint64_t missing_before;
	uint64_t dead_seen;
	uint64_t mismatched;
	step_fn done_step; /* what follows a wait that ends well */
	uint64_t verdict_seen, left_seen, destroy_since_ns;
};

struct sim_rescue {
	uint64_t word, members, turn;
	bool active;
	bool joined;	 /* and gives its part */
	bool whole_call; /* the ring's own way of working */
	unsigned place;	 /* of the turn in its call */
	unsigned chunk;
	uint32_t signature;
	bool differs;	  /* some rank's signature */
	unsigned clears;  /* whose header is looked at: the own, and those of dead ranks */
	uint64_t spoiled; /* peers at whom it has another flag than the turn's */
	uint32_t spoiled_flag[RANKS_MAX];
	uint64_t have, sent;
	struct part part[RANKS_MAX];
	struct stuck_turn stuck;
	struct reader reader;
	uint64_t dead_seen;
};

struct sim_watcher {
	step_fn step; /* NULL: has ended */
	step_fn back; /* where rescue goes on */
	const char *name;
	uint64_t *ready_ns;
	uint64_t held_until_ns; /* stopped or starved: nothing wakes it before */
	bool asleep;
	bool kicked; /* its eventfd or a link has something for it */
	unsigned cursor, actions;
	struct reader reader;
	struct outcome_view view;
	struct outcome_action action;
	uint64_t exits; /* ranks whose pidfd has fired and is not handled */
	unsigned exited;
	uint64_t wait_turn;
	enum wait_phase wait_phase;
	bool late_told;
	uint64_t lost_since_ns[RANKS_MAX];
	uint64_t settle_from;
	uint64_t stood_still_ns, stood_still_before_ns;
	uint64_t probe_sent, probe_seen;
	uint64_t next_look_ns, round; /* in one look of path_switch.c */
	struct sim_rescue rescue;
	struct message inbox[INBOX_MAX];
	unsigned inbox_length;
};

/* ---- what the judge knows -------------------------------------------------------------------- */

struct judged {
	uint64_t lib_turn;     /* turn whose output buffer the library holds; 0: the user has it */
	uint64_t completed;    /* last turn whose output was complete when done was posted */
	bool output_whole;     /* of lib_turn */
	uint64_t rescue_wrote; /* turn whose output its watcher has begun to write */
	uint64_t committed;    /* last turn of the last committed pass */
	uint64_t pass_failed;  /* last turn of the pass that failed; 0: none */
	bool reported;
	struct sim_cause report; /* what it told the user */
	uint64_t done_before;
	bool ended_well;
};

/* What the judge knows of the breaker and the path. */
struct judged_path {
	uint8_t of_turn[TURNS_MAX];	/* 1 + path that the turn was staged for; 0: not yet */
	uint64_t rescued, rescued_last; /* turns that some rank's output was rescued of */
	uint64_t rescued_at_close;
	uint64_t opened_ns, backoff_ns; /* of the last opening; wait for the last probe */
	unsigned calls_then;		/* that rank 0 had begun when the breaker moved last */
};

/* Rank 0's alone. */
struct sim_breaker {
	struct breaker breaker;
	uint64_t rescues_seen, probe_round;
	uint32_t wanted; /* 1 + path, the watcher's wish for the calling thread; 0: none */
};

struct rank {
	unsigned id;
	bool alive;
	uint64_t steps, steps_after_first, steps_in_rescue, pushes;
	bool proposed_now; /* its proposal has just been swapped in */
	bool rescue_joined;
	bool abort_asked, stopping;
	struct sim_words words;
	struct sim_thread thread;
	struct sim_watcher watcher;
	struct mailbox mailbox;
	struct judged judged;
};

/* What happened, to see that the schedules reach what they are made for. */
struct tally {
	uint64_t schedules, steps, proposals, withdrawals, verdicts, rescues, attempts,
		outputs_rescued, donations, commits, named_late, buried;
	uint64_t opened, probes_missed, closed, switches, hasty_turns, spoiled, call_turns;
	uint64_t by_cause[16];
};

struct trace_line {
	uint64_t ns, a, b;
	const char *what;
	unsigned rank;
	char who;
};

#define TRACE_LINES 256

struct cluster {
	struct plan plan;
	enum mutation mutation;
	uint64_t seed, random;
	uint64_t now_ns, last_fault_ns;
	bool first_struck;
	/* When each machine takes its next step, UINT64_MAX never; and ranks whose thread has not
	 * ended. Together, for they are looked at in every step. */
	uint64_t ready_ns[2 * RANKS_MAX];
	uint64_t running;
	uint64_t verdict, rescue, dead;
	uint64_t path_switch; /* turn << 8 | path */
	uint64_t rescued_count, rescued_last;
	uint64_t probe_round;
	enum belay_breaker_state breaker_state;
	struct sim_breaker keeper;
	struct judged_path judged;
	bool outcome_changed; /* of some rank: a report, a commit, a pass that failed */
	uint64_t verdict_before;
	struct rank rank[RANKS_MAX];
	struct message message[MESSAGES_MAX];
	unsigned nmessages;
	uint64_t next_due_ns;
	uint64_t link_due_ns[RANKS_MAX][RANKS_MAX]; /* the ring's links keep order */
	struct tally tally;
	struct trace_line trace[TRACE_LINES];
	uint64_t traced;
	bool failed;
	char failure[256];
};

/* ---- cluster.c: the world -------------------------------------------------------------------- */

/* Runs one schedule to its end; true when no invariant broke. cluster_tell() says what did. */
bool cluster_run(struct cluster *c, enum scenario scenario, uint64_t seed, enum mutation mutation);
void cluster_tell(const struct cluster *c, FILE *file);

uint64_t cluster_random(struct cluster *c, uint64_t below);
void cluster_trace(struct cluster *c, const struct rank *rank, char who, const char *what,
		   uint64_t a, uint64_t b);
void cluster_break(struct cluster *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void cluster_send(struct cluster *c, const struct message *message);
void cluster_wake_thread(struct cluster *c, struct rank *rank);
void cluster_kick(struct cluster *c, struct rank *rank);
/* A store of a probe is lost: the preferred path is broken. */
bool cluster_drops_probe(struct cluster *c);
bool cluster_swap_verdict(struct cluster *c, uint64_t from, uint64_t to);
/* One word a call; true when the last one has been read. */
bool reader_step(struct cluster *c, struct reader *reader);
void reader_begin(struct reader *reader);

static inline uint64_t cluster_bit(unsigned rank)
{
	return UINT64_C(1) << rank;
}

static inline uint64_t cluster_everyone(const struct cluster *c)
{
	return cluster_bit(c->plan.nranks) - 1;
}

static inline void thread_next(struct rank *rank, step_fn step)
{
	rank->thread.step = step;
	rank->thread.cursor = 0;
}

static inline void watcher_next(struct rank *rank, step_fn step)
{
	rank->watcher.step = step;
	rank->watcher.cursor = 0;
}

/* ---- the parts ------------------------------------------------------------------------------- */

/* The schedules of SCENARIO_EVERY_STEP in which each fault strikes at each step once. */
#define STEPS_OF_EACH 300u
#define EVERY_STEP    (9u * STEPS_OF_EACH)

void cluster_plan(struct cluster *c, enum scenario scenario); /* cluster_plan.c */

void thread_enter(struct cluster *c, struct rank *rank); /* cluster_thread.c: first step */
void thread_begin_call(struct cluster *c, struct rank *rank);
void watcher_look(struct cluster *c, struct rank *rank); /* cluster_watcher.c: first step */
void watcher_sleep(struct cluster *c, struct rank *rank, uint64_t until_ns);
void rescue_follow_step(struct cluster *c, struct rank *rank, step_fn back); /* cluster_rescue.c */
void rescue_receive(struct cluster *c, struct rank *rank);
void rescue_stop(struct rank *rank);
bool rescue_has_message(const struct cluster *c, const struct rank *rank);

/* cluster_switch.c: a calling thread's part, before each call; and a watcher's, at the end of each
 * look, which goes to sleep at `until_ns` at the latest. */
void switch_follow(struct cluster *c, struct rank *rank);
void switch_announce_late(struct cluster *c, struct rank *rank);
void switch_watch(struct cluster *c, struct rank *rank, uint64_t until_ns);

/* cluster_judge.c: the invariants. */
void judge_step(struct cluster *c, struct rank *rank); /* who has taken it */
void judge_end(struct cluster *c);
void judge_slot_write(struct cluster *c, const struct rank *rank, uint64_t turn);
void judge_slot_read(struct cluster *c, const struct rank *reader, const struct rank *owner,
		     uint64_t turn);
void judge_input_read(struct cluster *c, const struct rank *reader, const struct rank *owner,
		      uint64_t turn);
void judge_own_output(struct cluster *c, struct rank *rank, uint64_t turn);
void judge_pushed_output(struct cluster *c, const struct rank *writer, struct rank *owner,
			 uint64_t turn);
void judge_rescued_output(struct cluster *c, struct rank *rank, uint64_t turn, unsigned place);
void judge_done(struct cluster *c, struct rank *rank, uint64_t turn);
void judge_failed_pass(struct cluster *c, struct rank *rank, uint64_t turn);
void judge_commit(struct cluster *c, struct rank *rank, uint64_t turn);
void judge_report(struct cluster *c, struct rank *rank, const struct sim_cause *cause,
		  uint64_t word);
void judge_complaint(struct cluster *c, const struct rank *rank, uint64_t turn);
void judge_late(struct cluster *c, const struct rank *rank, int named);

/* cluster_judge_path.c: the same, of the breaker and the path. */
void judge_path(struct cluster *c, const struct rank *rank, uint64_t turn);
void judge_rescued(struct cluster *c, uint64_t turn);
void judge_breaker_opens(struct cluster *c);
void judge_probe_begins(struct cluster *c);
void judge_probe_ends(struct cluster *c, bool all_saw_it);
void judge_call_entry(struct cluster *c, const struct rank *rank);
void judge_path_end(struct cluster *c);

bool plan_spoils(const struct plan *plan); /* some header may be given a wrong flag */
/* The call that a turn belongs to, and its last turn as a rank has it. */
unsigned plan_call_of(const struct plan *plan, uint64_t turn);
uint64_t plan_last_turn(const struct plan *plan, unsigned rank, unsigned call);

/* cluster_rules.c: the library's pure rules, or what a mutation makes of them. */
uint32_t rules_signature(const struct cluster *c, unsigned rank, uint64_t turn);
uint32_t rules_flag(const struct cluster *c, uint64_t turn);
bool rules_stands(const struct cluster *c, uint64_t word);
bool rules_may_settle(const struct cluster *c, unsigned rank, uint64_t word);
uint64_t rules_settle(const struct cluster *c, uint64_t word, const struct progress *progress);
enum commit_state rules_commit(const struct cluster *c, uint64_t word,
			       const struct progress *progress, uint64_t turn);
struct outcome_action rules_decide(const struct cluster *c, const struct outcome_view *view);
bool rules_donation(const struct cluster *c);
const char *mutation_name(enum mutation mutation);
const char *scenario_name(enum scenario scenario);

#endif /* BELAY_TESTS_CLUSTER_H */
