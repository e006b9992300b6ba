/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank processes of a command: the same program, executed anew once for each rank with the hidden
 * argument --rank-process=RANK and a shared file at descriptor RANK_JOB_FD. (Fork and exec, since
 * LTTng records a process that only forks under its parent's id.)
 *
 * Nothing is left behind: a rank dies with the command, by PR_SET_PDEATHSIG; a signal that ends the
 * command ends the ranks first; a rank that does not come to its end is killed. A rank that was
 * killed is told about, not waited for.
 */
#ifndef BELAY_TOOLS_RANK_PROCESSES_H
#define BELAY_TOOLS_RANK_PROCESSES_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/belay.h"

#define RANK_JOB_FD   3
#define RANK_ARGUMENT "--rank-process="

struct rank_process {
	pid_t pid;	 /* 0 once it has been reaped */
	int wait_status; /* as waitpid() gave it, once pid is 0 */
	int overdue;	 /* 1: killed by this command because it did not end */
};

struct rank_processes {
	int count;
	struct rank_process rank[BELAY_RANKS_MAX];
	sigset_t outer_mask; /* of signals, to be restored */
};

struct rank_limits {
	uint64_t stall_ns; /* longest time without progress of any rank */
	uint64_t grace_ns; /* longest time between the end of one rank and that of the next */
	/* Grows while ranks make progress; called several times a second. */
	uint64_t (*progress)(void *user);
	void (*ended)(void *user, int rank); /* a rank has ended, in whatever way */
	void *user;
};

/*
 * Starts `count` ranks that inherit job_fd. Returns 0, or -1 with errno; then none is left. From
 * here on until the end of rank_processes_wait(), signals that end a program wait.
 */
int rank_processes_start(struct rank_processes *processes, int count, int job_fd);

/*
 * Waits for the end of all ranks. Returns 0; or the number of a signal that came in the meantime:
 * then the ranks are gone and the command should end by that signal.
 */
int rank_processes_wait(struct rank_processes *processes, const struct rank_limits *limits);

/* In main(): the rank if this process was started by the above, else -1. */
int rank_process_rank(int argc, char *const *argv);

/* Ends this program by a signal, as if it had not been caught. */
void end_by_signal(int number);

#endif /* BELAY_TOOLS_RANK_PROCESSES_H */
