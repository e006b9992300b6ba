/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks for tests of the meeting: each goes through a whole creation (begin, links tried, barrier,
 * agreement, end) as a process or a thread, and leaves word of how it went in shared memory.
 */
#ifndef BELAY_TESTS_MEETING_RANKS_H
#define BELAY_TESTS_MEETING_RANKS_H

#include <stdint.h>
#include <sys/types.h>

#include "runtime/group/rendezvous.h"

/* What one rank is told to do. Start from rank_plan(). */
struct rank_plan {
	int rank;
	int nranks;
	char meeting[80];
	uint8_t secret[16];
	const char *agree_text;
	uint64_t timeout_ms;
	const char *fault; /* BELAY_FAULT's syntax, or NULL */
	size_t region_bytes;
	unsigned int nofile; /* RLIMIT_NOFILE of the process; 0: as it is */
	uint64_t fsize;	     /* RLIMIT_FSIZE of the process; 0: as it is */
	int storm;	     /* 1: a timer signal each millisecond */
	int orphan;	     /* 1: after begin, leaves a child with all its sockets and dies */
	int stop;	     /* 1: after begin, stops itself */
	int unfit;	     /* comes only to say this status */
	int skip_links;	     /* 1: does not try the links, where peers will not answer */
	int runs;	     /* creations of the same name, one after the other; 0 means 1 */
	uint64_t end_status; /* what it gives to rendezvous_end(), negated */
	uint32_t usable;
};

/* How it went. In memory shared by all. */
struct rank_report {
	int done; /* 1: it came to the end, whatever the status */
	int status;
	int links_tried; /* peers that answered over their link */
	uint32_t usable; /* the agreed mask */
	uint64_t generation;
	uint8_t comm_id[16];
	uint64_t elapsed_ms;
	int leaked; /* descriptors open after minus before */
	int region_fd_given;
	int not_cloexec; /* descriptors without the flag */
	char reasons[1024];
	char causes[4096];
};

struct rank_plan rank_plan(int rank, int nranks);

/* An array for `count` reports in memory that forked children share. */
struct rank_report *reports_new(int count);

/* Runs the plan in this thread. */
void rank_run(const struct rank_plan *plan, struct rank_report *report);

/* Runs the plan in a new process, which dies by itself after a minute. */
pid_t rank_start(const struct rank_plan *plan, struct rank_report *report);

/* Waits for the child and returns its wait status. */
int rank_wait(pid_t pid);

/* Starts all and waits for all. */
void ranks_run(const struct rank_plan *plans, struct rank_report *reports, int count);

int count_open_descriptors(void);

/* The RLIMIT_NOFILE that leaves room for `room` more descriptors. */
unsigned int descriptor_limit_for(int room);

#endif /* BELAY_TESTS_MEETING_RANKS_H */
