/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks for scenario tests: N real processes (or, on request, N threads of one) that each run a
 * scenario function and leave word of how it went in memory shared with the test, so that the word
 * of a killed rank can be read too.
 *
 * A test never passes by its cap: when the cap is over, all ranks are killed and the test fails.
 * After each run the group has checked that no process, no descriptor and no file in /dev/shm is
 * left, and that no rank made a complaint (RANK_EXPECT) or spoiled a guard byte.
 */
#ifndef BELAY_TESTS_RANK_GROUP_H
#define BELAY_TESTS_RANK_GROUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"
#include "tests/support/fault_results.h"

#define RANK_IDS    512
#define RANK_TRIALS 10240
#define RANK_WORDS  16
#define RANK_BLOW   (RANK_WORDS - 3) /* the word that struct rank_blow waits for */

/* How it went on one rank. Zeroed before the run. */
struct rank_report {
	int created;	    /* status of the last creation */
	int failed;	    /* status of the first call or pass end that failed; 0: none */
	uint64_t failed_ns; /* how long it took */
	uint64_t began_at;  /* when the last call began: rank_now_ns() */
	uint64_t failed_at; /* when `failed` was known */
	uint64_t told_at;   /* the first message about a verdict */
	uint64_t rescue_ns; /* the longest call of this rank that ended by rescue; noted
			     * only for fault_results.h */
	uint64_t calls;	    /* calls that returned 0, in all communicators */
	uint64_t passes;    /* passes committed */
	uint64_t bits;	    /* hash of all outputs so far: equal on ranks that saw the same */
	bool has_verdict;
	struct belay_verdict verdict;
	struct belay_statistics statistics; /* at the end of the first communicator */
	enum belay_path path;
	uint64_t survivors;	      /* mask that belay_comm_survivors() gave */
	uint64_t second_life;	      /* calls made by the survivors' new communicator */
	int destroyed;		      /* status of the first communicator's destruction */
	int messages;		      /* to the log callback */
	bool left_nccl;		      /* one of them: rescues go over sockets from now on */
	char injected[256];	      /* BELAY_FAULT of the first creation */
	char message[600];	      /* the last one of level error */
	char complaint[600];	      /* the first expectation that did not hold; "": all held */
	char text[4096];	      /* the scenario's own */
	int16_t outcome[RANK_TRIALS]; /* the scenario's own */
	uint64_t number[8];	      /* the scenario's own */
	bool ended;		      /* the scenario returned */
};

/* What one rank's scenario has in hand. */
struct rank_seat {
	int rank;
	int nranks;
	const void *plan; /* the scenario's own */
	struct rank_report *report;
	_Atomic uint64_t
		*words; /* RANK_WORDS, shared by all ranks, from 0: to wait for each other */
	const struct belay_unique_id *ids; /* RANK_IDS, the same on all ranks */
	struct belay_config config; /* quick deadlines; a scenario changes what it is about */
	struct belay_comm *comm;
	uint64_t made; /* calls begun: what the inputs are made from */
	char *memory;  /* see rank_calls.c */
	size_t memory_bytes;
	pthread_mutex_t log_lock;
};

typedef void (*rank_scenario)(struct rank_seat *seat);

/* What the test does to ranks from outside. */
struct rank_blow {
	int signal;	   /* 0: nothing */
	int rank;	   /* -1: all of them */
	uint64_t at;	   /* once word RANK_BLOW is at least this; 0: from the start */
	uint64_t after_ns; /* then so much later */
};

struct rank_spec {
	int nranks;
	rank_scenario scenario;
	const void *plan;
	unsigned cap_ms; /* 0: 30 s */
	bool one_core;	 /* all ranks on one core */
	bool threads;	 /* ranks are threads of one process */
	struct rank_blow blow;
	const char *injected; /* words for fault_results.h, where BELAY_FAULT says nothing */
	bool gpu;	      /* ranks use a GPU, whose driver keeps descriptors of its own */
};

struct rank_group {
	int nranks;
	struct rank_report *report;	  /* by rank */
	uint64_t blow_at;		  /* when the blow fell; 0: it did not */
	uint64_t end_at;		  /* when the last process had ended */
	int wait_status[BELAY_RANKS_MAX]; /* as waitpid() gives it; threads: of their process */
};

/* Runs the scenario on all ranks. Fails the test by itself when something is left or a rank
 * complains. */
void rank_group_run(const struct rank_spec *spec, struct rank_group *ret_group);

/* Ranks that ended by themselves with status 0, as a mask. */
uint64_t rank_group_alive(const struct rank_group *group);

/* True when BELAY_TESTS_LONG=1. */
bool rank_tests_long(void);
/* How often a test repeats itself: the variable's number; without it the one for BELAY_TESTS_LONG=1
 * or the ordinary one. */
int rank_times(const char *variable, int in_long, int ordinary);

/* Waits until word `index` is at least `value`. False after 20 s. */
bool rank_await(struct rank_seat *seat, int index, uint64_t value);
void rank_announce(struct rank_seat *seat, int index);

/* Notes the first complaint of a rank; the test then fails with its text. */
void rank_complain(struct rank_seat *seat, const char *file, int line, const char *text, long got);
#define RANK_EXPECT(seat, condition)                                                               \
	do {                                                                                       \
		if (!(condition))                                                                  \
			rank_complain(seat, __FILE__, __LINE__, #condition, 0);                    \
	} while (0)
#define RANK_EXPECT_STATUS(seat, call, wanted)                                                     \
	do {                                                                                       \
		int got_ = (call);                                                                 \
		if (got_ != (wanted))                                                              \
			rank_complain(seat, __FILE__, __LINE__, #call " == " #wanted, got_);       \
	} while (0)

uint64_t rank_now_ns(void);
int rank_open_descriptors(void);

/* Private memory in use, without what is shared (the rings of newest records fill up once); 0 under
 * sanitizers, which keep what was freed. */
long rank_private_kib(void);

#endif /* BELAY_TESTS_RANK_GROUP_H */
