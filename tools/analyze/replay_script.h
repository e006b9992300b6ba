/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording as scripts for belay-bench, one for each communicator: the calls in their order, and
 * before each what every rank computed. A rank's gap is the time from the end of its call before to
 * the start of this one, on its own clock, and what it took longer to stage than the fastest; so
 * recorded skew comes back by itself. What is not recorded is mapped, and counted:
 *
 *   a rank's record is missing   its gap is the median of the others'; if the others saw it arrive
 *                                last, what brings it there
 *   no rank recorded a call      it is left out
 *   a call that the program made on NCCL itself (watched)    it is left out: time between calls
 *   a call that was rescued, or came from a graph    an ordinary call
 *   all ranks paused long        they pause for 10 s, so that a night does not last one
 *   a call that failed           the script ends before it
 */
#ifndef BELAY_TOOLS_ANALYZE_REPLAY_SCRIPT_H
#define BELAY_TOOLS_ANALYZE_REPLAY_SCRIPT_H

#include <stdio.h>

#include "tools/analyze/command.h"

/* What became of one communicator. */
struct replay_script {
	char id[33];
	uint32_t nranks;
	char *path;	/* the arena's */
	uint64_t calls; /* in the script; 0: nothing to replay */
	uint64_t passes;
	uint64_t left_out;  /* seqs that nobody recorded */
	uint64_t watched;   /* calls that are none of belay's */
	uint64_t gaps_made; /* records missing */
	uint64_t rescued, from_graphs;
	uint64_t pauses_shortened;
	uint64_t failed_seq; /* where it ends; 0: it goes to the end */
	const char *refused; /* why it cannot be replayed (static); NULL: it can */
	uint64_t refused_seq;
	uint64_t longest_ns; /* the longest call */
};

/* Starts as { .folder, ... }; free with replay_scripts_free(). */
struct replay_scripts {
	const char *folder; /* where they are written; the caller's */
	int at_full_speed;  /* no gaps */
	int region_buffers; /* as recorded; 0: none */
	int failed_errno;   /* a script could not be written; 0: all were */
	struct arena arena;
	struct vector scripts;	      /* struct replay_script */
	FILE *file;		      /* of the communicator that is being read */
	struct replay_writer *writer; /* likewise */
};

/* Writes scripts into output->state, a struct replay_scripts *; prints nothing. */
extern const struct command_ops replay_script_ops;
void replay_scripts_free(struct replay_scripts *scripts);

#endif /* BELAY_TOOLS_ANALYZE_REPLAY_SCRIPT_H */
