/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened, as one would tell a colleague: decided from the numbers of a summary alone, the
 * worst first. A point says what, since when, which rank, on which path, what belay did and what to
 * look at next. A sound recording has no point, and nothing is concluded from data that is not
 * there. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_STORY_H
#define BELAY_TOOLS_ANALYZE_STORY_H

#include "tools/analyze/summary.h"

#define STORY_POINTS_MAX     24u
#define STORY_SENTENCE_BYTES 800u

/* Their names are an interface: see story_name(). */
enum story_what {
	STORY_VERDICT = 1,
	STORY_VERDICTS_DIFFER,
	STORY_DIGEST,
	STORY_LOST_WRITES,
	STORY_BREAKER,
	STORY_PATH_REFUSED, /* from the start */
	STORY_PATH_CHANGE,
	STORY_LATE,
	STORY_LATE_ALL, /* several ranks, too many for a point each */
	STORY_STRAGGLER,
	STORY_STRAGGLERS_IN_TURN,
	STORY_SLOW_PASSES,
	STORY_CLOCKS,
	STORY_NO_DATA,
	STORY_LOST_RECORDS
};

/* Which of the fields hold anything depends on what it is; those that do not are 0, ranks -1. */
struct story_point {
	enum story_what what;
	int rank;	 /* the one that it is about; -1: several or not known */
	uint64_t ranks;	 /* mask: those that it is about; verdict: who told */
	uint64_t others; /* mask: who suffered; slow passes: whose records are missing there */
	uint64_t seq, pass;
	uint64_t last_seq, last_pass;
	uint64_t count, of;  /* so many calls, passes or records, of so many */
	uint64_t most_count; /* of several ranks one has most of the calls */
	int most_rank;
	uint64_t every;		      /* calls from one to the next, where it is always the same */
	uint64_t from_seq, until_seq; /* of another path */
	uint64_t ns;		      /* the largest, or the median: as the sentence says */
	uint64_t other_ns;	      /* another: lost writes: the longest wait before a rescue */
	int cause;		      /* enum belay_cause */
	uint8_t path, other_path, last_path;
	const char *text; /* of the recording itself; NULL: none */
	int goes_on;	  /* to the end of the recording */
	int in_calls;	  /* slow passes: most of what was too long went by in allreduce */
	int few_ranks;	  /* too few to tell whose output is wrong */
};

struct story {
	size_t count;
	struct story_point points[STORY_POINTS_MAX];
};

/* `clocks_differ`: mask of ranks whose clocks are not that of the others. The summary is finished
 * and outlives the story. */
void story_tell(const struct summary *summary, uint64_t clocks_differ, struct story *ret_story);

/* One or two sentences; written into the buffer, which is returned. */
const char *story_words(const struct story_point *point, char buffer[STORY_SENTENCE_BYTES]);

/* "verdict", "lost_writes" ... */
const char *story_name(enum story_what what);

/* 1 if a timeline of faults shows the numbers of the point. */
int story_is_fault(enum story_what what);

#endif /* BELAY_TOOLS_ANALYZE_STORY_H */
