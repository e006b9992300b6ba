/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of long work on stderr: nothing in the first second; then on a terminal one line that is
 * written over and cleared in the end, and elsewhere, only when asked for, a line a second.
 */
#ifndef BELAY_TOOLS_ANALYZE_PROGRESS_H
#define BELAY_TOOLS_ANALYZE_PROGRESS_H

#include <stdint.h>

struct progress {
	int terminal;	   /* stderr is one */
	int wanted;	   /* 0: nothing is ever printed */
	uint64_t begun_ns; /* of the work at hand */
	uint64_t told_ns;  /* when a line was last printed; 0: none stands there */
};

/* `asked`: print even if stderr is no terminal. */
void progress_init(struct progress *progress, int asked);

/* Another work begins: the time that is left is reckoned from here. */
void progress_begin(struct progress *progress);

/* "WHAT: 42 % of 1.6 GB, 12 s left"; called as often as one likes. all_bytes 0: only WHAT and
 * `count`, of `unit`. */
void progress_bytes(struct progress *progress, const char *what, uint64_t done_bytes,
		    uint64_t all_bytes);
void progress_count(struct progress *progress, const char *what, uint64_t count, const char *unit);

/* Takes the line away, so that output can follow on the same terminal. */
void progress_clear(struct progress *progress);

#endif /* BELAY_TOOLS_ANALYZE_PROGRESS_H */
