/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks do in scenarios: create, make calls whose every output is compared bit for bit with
 * the rank-order sum, mark passes, meet the verdict, and live on as survivors.
 */
#ifndef BELAY_TESTS_RANK_CALLS_H
#define BELAY_TESTS_RANK_CALLS_H

#include "tests/support/rank_group.h"

/* A rank's ordinary work and what is to go wrong in it. Zero: the default. */
struct work_plan {
	const char *fault;   /* BELAY_FAULT of all ranks */
	const char *give_up; /* hard deadline, ms */
	const char *late;
	const char *grace;
	const char *paths;
	const char *symm_max;
	uint64_t first_seq;
	int passes;   /* 0: 10 */
	int calls;    /* of a pass; 0: 5 */
	size_t count; /* f32 elements; 0: 100 and 12000 in turn */
	bool in_place;
	bool regions; /* buffers from belay_buffer_alloc() */
	bool stay;    /* no second life after a verdict */
};

/* seat->comm from ids[id_index]; notes and returns the status. */
int rank_create(struct rank_seat *seat, int id_index);
void rank_apply(struct rank_seat *seat, const struct work_plan *plan);
void rank_destroy(struct rank_seat *seat);

/* How one call is made. */
struct call_shape {
	size_t count;
	size_t send_shift, recv_shift; /* bytes off alignment */
	bool in_place;
	char *send, *recv; /* NULL: the seat's own guarded memory; else `count` floats each */
};

/* One f32 sum; its inputs follow from seat->made and the rank. True: 0 was returned and all is
 * right. */
bool rank_call_shaped(struct rank_seat *seat, const struct call_shape *shape);
bool rank_call(struct rank_seat *seat, size_t count);

/* Calls in passes, until all are made or something fails. True: all is well. */
bool rank_work(struct rank_seat *seat, const struct work_plan *plan);
bool rank_pass(struct rank_seat *seat, int calls, size_t count);

/* For a rank that makes no call itself: until a verdict stands, at most 20 s. */
void rank_await_verdict(struct rank_seat *seat);
/* Until the communicator knows that the rank is dead, at most 20 s. */
void rank_await_death(struct rank_seat *seat, int rank);

/* The verdict stands: notes it, sees that later calls return it at once. */
void rank_meet_verdict(struct rank_seat *seat);

/* Survivors' new communicator in the same process; leaves it destroyed. */
void rank_live_on(struct rank_seat *seat);

/* A whole life by a struct work_plan: create, work, verdict and second life or clean end. */
void rank_life(struct rank_seat *seat);
/* What follows the work: verdict and second life, or a clean end. */
void rank_end_of_life(struct rank_seat *seat, const struct work_plan *plan);

/* The test's side. Survivors: ranks whose bit is set. */
void assert_all_well(const struct rank_group *group);
void assert_one_verdict(const struct rank_group *group, uint64_t survivors, enum belay_cause cause,
			int culprit, uint64_t seq);
void assert_lived_on(const struct rank_group *group, uint64_t survivors);

#endif /* BELAY_TESTS_RANK_CALLS_H */
