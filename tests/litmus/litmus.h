/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checker of litmus tests: small concurrent programs, each with one outcome that must not be, or
 * that may. It tries every execution that the memory model allows.
 *
 * The model is RC11 (Lahav et al., "Repairing Sequential Consistency in C/C++11", PLDI 2017) with
 * three changes, each of which allows more, so that what is forbidden here is forbidden there:
 *
 *   - a release sequence is a store and the read-modify-writes behind it, as in C++20;
 *   - a store may overtake a load, unless a branch on what was loaded stands between them;
 *   - synchronisation has scopes, as on a GPU: two operations order something only if the scope of
 *     each holds the other's thread ("morally strong" in the PTX manual).
 *
 * The text of a test, in a file of them:
 *
 *   test a sentence that says what holds
 *   contract NAME                          of docs/memory-model.md, or: none
 *     writer            | reader           threads; on a GPU with a place: writer @gpu.block
 *     store data 1      | await flag 1 acquire
 *     store flag 1 release | read data any
 *   last data 1                            0 or more: the word's value in the end
 *   never race                             or: never, may, may race
 *
 *   store WORD VALUE         the words are 0 before
 *   read WORD VALUE          only executions in which this value is read count; any: all do
 *   await WORD VALUE         the same, and the thread branches on it: it comes no further else
 *   swap WORD OLD NEW        read-modify-write that reads OLD; an addition is one too
 *   cas WORD OLD NEW         the same, and the thread branches on whether it read OLD
 *   fence
 *
 * Behind each stand an order (relaxed, acquire, release, acq_rel, seq_cst; none: a plain access)
 * and a scope (block, gpu, sys; none: as far as there are threads). ORDER(ENOUGH): the code has
 * ORDER where ENOUGH would do; so with scopes.
 *
 *   never        no execution has the values that stand there
 *   never race   some have, and in none of them two accesses race
 *   may          some execution has; may race: and a race
 *
 * "Never" says too that no order could be weaker: with any one of them one step weaker than what is
 * enough, the outcome may be.
 */
#ifndef BELAY_TESTS_LITMUS_H
#define BELAY_TESTS_LITMUS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LITMUS_THREADS_MAX    6
#define LITMUS_OPERATIONS_MAX 24
#define LITMUS_WORDS_MAX      8
#define LITMUS_EVENTS_MAX     32 /* operations, and the first value of each word */
#define LITMUS_TEXT_BYTES     160

static_assert(LITMUS_EVENTS_MAX == LITMUS_OPERATIONS_MAX + LITMUS_WORDS_MAX, "bits of a uint32_t");

enum litmus_verb { LITMUS_STORE, LITMUS_READ, LITMUS_AWAIT, LITMUS_SWAP, LITMUS_CAS, LITMUS_FENCE };

/* Bits of an order. A fence of no order is no fence. */
enum { LITMUS_ATOMIC = 1, LITMUS_ACQUIRE = 2, LITMUS_RELEASE = 4, LITMUS_SEQ_CST = 8 };

enum litmus_scope { LITMUS_BLOCK, LITMUS_GPU, LITMUS_SYSTEM };

#define LITMUS_ANY INT32_MAX /* value that is read */

struct litmus_operation {
	enum litmus_verb verb;
	int thread; /* -1: the first value of a word */
	int word;   /* -1: a fence */
	int32_t reads, writes;
	unsigned order, order_enough;
	unsigned scope, scope_enough; /* enum litmus_scope */
	bool scoped;		      /* a scope was named */
};

struct litmus_thread {
	char name[24];
	int gpu, block; /* -1: on the host */
};

enum litmus_expectation { LITMUS_NEVER, LITMUS_NEVER_RACE, LITMUS_MAY, LITMUS_MAY_RACE };

struct litmus_test {
	char name[LITMUS_TEXT_BYTES];
	char contract[24];
	struct litmus_thread thread[LITMUS_THREADS_MAX];
	int nthreads;
	/* In the order of lines; of one thread, in its order. */
	struct litmus_operation operation[LITMUS_OPERATIONS_MAX];
	int noperations;
	char word[LITMUS_WORDS_MAX][24];
	int32_t last[LITMUS_WORDS_MAX]; /* LITMUS_ANY: not asked for */
	int nwords;
	enum litmus_expectation expectation;
};

/* What an execution is: whom each read reads from, and the order of the stores to each word. */
struct litmus_execution {
	/* The operations, behind them the first values. */
	struct litmus_operation event[LITMUS_EVENTS_MAX];
	int nevents;
	int from[LITMUS_EVENTS_MAX];	    /* of a read: the event */
	uint32_t before[LITMUS_EVENTS_MAX]; /* of a store: those before it in the word's order */
};

/* Bits. */
enum { LITMUS_REACHED = 1, LITMUS_RACED = 2 };

/* litmus_text.c: the next test of a file. 1, 0 at the end, or -1 and a message on stderr. */
int litmus_read(FILE *file, struct litmus_test *ret_test, unsigned *line);
/* What an operation is, as it is written. */
void litmus_describe(const struct litmus_test *test, const struct litmus_operation *operation,
		     char ret_text[LITMUS_TEXT_BYTES]);

/* litmus_model.c: 0 when the model forbids the execution, else LITMUS_REACHED and perhaps _RACED.
 */
unsigned litmus_judge(const struct litmus_test *test, const struct litmus_execution *execution);

/* litmus_search.c: what all executions show. ret_first: one that shows `wanted`, if any does. */
unsigned litmus_explore(const struct litmus_test *test, unsigned wanted,
			struct litmus_execution *ret_first);
bool litmus_holds(const struct litmus_test *test, unsigned shown);
/* What must be shown once an order is weaker than enough; 0: nothing, for "may". */
unsigned litmus_broken(const struct litmus_test *test);
/* The test with all orders as weak as is said to be enough. */
void litmus_weaken_to_enough(const struct litmus_test *test, struct litmus_test *ret_test);
/* The n-th test with one order or scope one step weaker, and what was changed. False: no more. */
bool litmus_weaken_one(const struct litmus_test *test, unsigned n, struct litmus_test *ret_test,
		       char ret_text[LITMUS_TEXT_BYTES]);
void litmus_tell(const struct litmus_test *test, const struct litmus_execution *execution,
		 FILE *out);

#endif /* BELAY_TESTS_LITMUS_H */
