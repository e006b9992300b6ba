/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduces as messages that wait for each other, and what their software costs. */
#ifndef BELAY_TESTS_LINK_SCHEDULES_H
#define BELAY_TESTS_LINK_SCHEDULES_H

#include "tests/link_model/link_flow.h"
#include "tests/link_model/link_machines.h"

/* N ranks, S bytes; data carries its flags unless said otherwise. */
enum link_schedule {
	/* 2(N-1) steps: each rank sends S/N to the next one. NCCL's. */
	LINK_RING,
	/* Everybody writes its input to everybody, at once. */
	LINK_ONESHOT_PUSH,
	/* Everybody reads everybody's input, between two barriers. vLLM's and PyTorch's. */
	LINK_ONESHOT_PULL,
	/* Rank q owns the q-th slice of S/N: inputs are written to the owners at once, then results
	 * to all. */
	LINK_TWOSHOT_FLAT,
	/* The same, one after the other: in step k to rank (r + k) mod N. So each has one stream
	 * out and one in. */
	LINK_TWOSHOT_STAGED,
	/* The same in chunks: a chunk's results go while the next one's inputs do. */
	LINK_TWOSHOT_PIPELINED,
	/* Owners read their slices behind a flag, and write the results. */
	LINK_TWOSHOT_PULL,
	/* The same, but results too are read behind a flag: nobody writes data. */
	LINK_TWOSHOT_PULL_ALL,
	/*
	 * Two halves of the ranks, S/(N/2) a slice, each with an owner in both halves. Sums are in
	 * rank order, in float32, rounded once. So within the halves inputs go to the owners; the
	 * lower owner sends what it has, unrounded (twice the bytes of bf16), to the upper one, who
	 * goes on adding, rounds, writes the result to its half and back to the lower owner, who
	 * writes it to the lower half. In chunks.
	 */
	LINK_ISLAND,
	/* In the switch, for comparison with published figures only: owners read their slice summed
	 * by it, and write it to all at once; a barrier before and behind. */
	LINK_TWOSHOT_MULTICAST,
	LINK_SCHEDULES
};

/* What is not the link's. */
struct link_software {
	const char *name;
	double node_us;	    /* a node of a graph begins and ends */
	double exchange_us; /* each time that somebody waits for a message: store, poll, add */
	double wire;	    /* bytes on the wire for each one of data */
	double fence_us;    /* before flags that vouch for other data */
	double copy_gbps;   /* the input is copied first; 0: it is not */
	double engine_gbps; /* what a GPU's blocks bring onto the wire; 0: all that fits */
};

const char *link_schedule_name(enum link_schedule schedule);

/* Chunks of a schedule that works in chunks. */
int link_chunks(double bytes);

/* All messages of an allreduce of bf16. */
void link_build(struct flow_net *net, const struct link_machine *machine, int nranks,
		enum link_schedule schedule, const struct link_software *software, double bytes);

/* The link upwards of a node of the machine, and the one down to it, in a net of link_build(). */
int link_up(int node);
int link_down(const struct link_machine *machine, int node);

/* Microseconds until the last rank has all, the node included. */
double link_time_us(const struct link_machine *machine, int nranks, enum link_schedule schedule,
		    const struct link_software *software, double bytes);

#endif /* BELAY_TESTS_LINK_SCHEDULES_H */
