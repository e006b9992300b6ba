/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator whose ranks are a part of a larger one's: those of one host, of an NCCL
 * communicator that spans several. It numbers its own ranks from 0, as every communicator does, and
 * this is how they are called there. Texts for people give both numbers, the larger world's first.
 */
#ifndef BELAY_RUNTIME_WORLD_H
#define BELAY_RUNTIME_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"

struct comm_world {
	int32_t nranks;	     /* of the whole; 0: there is no larger one, and the rest is 0 too */
	int32_t host, hosts; /* this part's number, from 1, and how many there are */
	int32_t rank[BELAY_RANKS_MAX]; /* of each own rank, in the whole; ascending */
	char name[25]; /* 24 hexadecimal digits, of the whole: how ids of all its parts begin */
};

/* A rank as people read it. */
struct rank_words {
	char text[48];
};

/* "3"; in a larger world "11 (3 of this host)". A number below 0 is nobody's: "none". `world` may
 * be NULL. */
struct rank_words world_rank_words(const struct comm_world *world, int rank);

/* Which part this is, for nranks own ranks: "ranks 8-15 of 16, host 2 of 2 of NCCL communicator
 * NAME"; cut at size. */
void world_describe(const struct comm_world *world, unsigned nranks, char *buffer, size_t size);

#endif /* BELAY_RUNTIME_WORLD_H */
