/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two recordings side by side. Each is read through the driver on its own, with compare_ops as the
 * command and a side as its state; what is kept of it is small. Then communicators are paired:
 * those of one id, else those of as many ranks in the order in which they began.
 */
#ifndef BELAY_TOOLS_ANALYZE_COMPARE_H
#define BELAY_TOOLS_ANALYZE_COMPARE_H

#include "tools/analyze/command.h"
#include "tools/analyze/driver.h"

#define COMPARE_PASSES_MAX 100000u /* kept one by one; quantiles are of all */
#define COMPARE_SIZES_MAX  48u /* sizes and paths told apart; the rest is left out, and counted */

struct compare_pass {
	uint64_t pass;
	uint64_t calls;
	uint64_t duration_ns;
	uint64_t time_ns, wait_ns; /* in allreduce, and of that waiting; mean of the ranks */
	uint64_t calls_hash;	   /* of all calls from the first one to this pass' last */
	int waited_for;		   /* rank; -1: not known */
};

/* Median, 99th percentile and largest, ns. */
struct compare_quantiles {
	uint64_t p50, p99, max;
};

/* The calls of one size on one path. */
struct compare_size {
	uint64_t bytes;
	uint8_t path;
	uint8_t collective; /* record_collective() */
	uint64_t calls;
	struct compare_quantiles latency;
};

/* One communicator of a recording. */
struct compare_comm {
	char id[33];
	uint32_t nranks;
	uint64_t present; /* mask */
	uint64_t calls;
	uint64_t calls_hash; /* of counts, dtypes and ops in their order */
	struct compare_quantiles latency;
	enum pass_by passes_by;
	uint64_t passes;
	struct compare_quantiles pass;
	uint64_t time_ns, wait_ns; /* in allreduce, all passes */
	int last_rank;		   /* most often; -1: not known */
	double last_share;
	uint64_t late_calls, rescues, mismatches, digests, lost_records;
	struct summary_verdict verdict;
	uint64_t clocks_differ;		  /* mask of ranks */
	struct vector kept;		  /* struct compare_pass */
	const struct compare_size *sizes; /* by bytes, path, collective */
	size_t nsizes;
	uint64_t sizes_left_out; /* calls */
};

/* One recording. Starts as { .name }; free with compare_side_free(). */
struct compare_side {
	const char *name;
	struct arena arena;
	struct vector comms;	   /* struct compare_comm * */
	struct vector damages;	   /* struct input_damage */
	struct compare_feed *feed; /* of the communicator that is being read */
};

/* Collects into output->state, a struct compare_side *; prints nothing. */
extern const struct command_ops compare_ops;
void compare_side_free(struct compare_side *side);

/* Two communicators; one of them may be NULL: without a partner. */
struct compare_pair {
	const struct compare_comm *a, *b;
};

/* Pairs, in the order of a, then what is left of b. Returns 0 or BELAY_E_NO_MEMORY; free with
 * vector_free(). */
int compare_pair_up(const struct compare_side *a, const struct compare_side *b,
		    struct vector *ret_pairs);

/* How far the two made the same calls (counts, dtypes and ops in their order). */
struct compare_sameness {
	int same;	    /* all */
	uint64_t same_pass; /* the last pass of a up to which they are, as far as passes are kept;
			       0: from the beginning they are not, or it is not known */
};

void compare_calls(const struct compare_pair *pair, struct compare_sameness *ret_sameness);

/* Print both; `every_pass` has a row for each pass that was kept, not those that differ most. */
void compare_text(const struct output *output, const struct compare_side *a,
		  const struct compare_side *b, const struct vector *pairs, int every_pass);
/* What of a side could not be read. */
void compare_damages_text(const struct output *output, const struct compare_side *side);
/* `more`, a json_t * or NULL, is an object whose fields stand in the document too; its reference is
 * taken. Returns 0 or BELAY_E_NO_MEMORY. */
int compare_json(const struct output *output, const struct compare_side *a,
		 const struct compare_side *b, const struct vector *pairs, void *more);

/* Reads a recording into a side; what was found is added to `findings`. As driver_run(). */
int compare_read(struct inputs *inputs, struct output *output, struct compare_side *side,
		 struct findings *findings);

/* All of it: reads two recordings, by what they are called, and prints. As driver_run(). */
int compare_run(struct inputs *inputs, char *const *names, struct output *output,
		struct findings *ret_findings);

#endif /* BELAY_TOOLS_ANALYZE_COMPARE_H */
