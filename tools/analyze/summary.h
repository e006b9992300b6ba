/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that the summary of one communicator says. Bounded memory; pure. */
#ifndef BELAY_TOOLS_ANALYZE_SUMMARY_H
#define BELAY_TOOLS_ANALYZE_SUMMARY_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/containers.h"
#include "tools/analyze/histogram.h"
#include "tools/analyze/late.h"
#include "tools/analyze/pass_times.h"
#include "tools/analyze/passes.h"
#include "tools/analyze/signatures.h"
#include "tools/analyze/stragglers.h"

/* Of each kind of finding, so many are kept and printed; all are counted. The breaker and the
 * verdict keep a sound recording far below. */
#define SUMMARY_KEPT_MAX       100000u
#define SUMMARY_MISMATCHES_MAX 1000u
#define SUMMARY_CHANGES_MAX    1000u
#define SUMMARY_PATHS	       5 /* enum belay_path, 0: unknown */

struct summary_rescue {
	uint64_t seq, pass;
	uint64_t lost;	/* mask: whose data did not arrive, as far as known */
	uint64_t stuck; /* mask: by the records */
	uint64_t told;	/* mask: by the events; counts where no record tells */
	uint64_t ns;
	uint64_t wait_ns; /* before it, by the records; 0: not known */
	uint8_t via;	  /* enum belay_path; 0: unknown */
	int rescued;	  /* 0: only begun */
};

struct summary_mismatch {
	uint64_t seq, pass;
	struct signature_list signatures;
};

struct summary_digest {
	uint64_t seq, pass;
	uint64_t ranks; /* mask: not like the majority */
};

struct summary_verdict {
	int stands;
	int from_event;	  /* 0: derived from the calls' statuses */
	int ranks_differ; /* ranks report different verdicts: a bug in belay */
	uint64_t seq, pass;
	int cause;	  /* enum belay_cause */
	int rank;	  /* at fault; -1: not known */
	uint64_t told_by; /* mask */
	char text[EVENT_TEXT_BYTES];
};

/* From this call on calls of its size took another path than before, by the calls' records. That
 * calls of another size take another path is no change. */
struct summary_path_change {
	uint64_t seq, pass;
	uint8_t from, to; /* enum belay_path */
};

#define SUMMARY_SIZES 64u

/* The path that calls of a size took last; a place is used by the size that was met last. */
struct summary_size_path {
	uint64_t signature; /* pass_signature() */
	uint8_t path;	    /* enum belay_path; 0: none yet */
};

/* What the events tell of paths, beyond the records. */
struct summary_switches {
	uint64_t opened; /* times that the breaker did */
	int64_t breaker; /* its state, as told last */
	uint64_t opened_seq, opened_last_seq;
	/* The earliest switch and its reason: a path may have been refused at the start. seq 0:
	 * none. */
	uint64_t first_seq;
	uint8_t first_from, first_to;
	char reason[EVENT_TEXT_BYTES];
};

/* What is there of one rank. */
struct summary_rank {
	int present;
	uint64_t records;
	uint64_t first_seq, last_seq;
	uint64_t lost;	/* records that were made and are not here */
	int open_ended; /* its last file was not closed and nobody saved the rest */
	int saved_by;	/* rank that saved its newest records; -1: none */
};

struct summary {
	const char *id;
	uint32_t nranks;
	/* Which ranks of a larger communicator these are, one host's; "": they are all. */
	char part[EVENT_TEXT_BYTES];
	uint64_t present; /* mask */
	struct summary_rank ranks[BELAY_RANKS_MAX];
	uint64_t calls;
	uint64_t calls_partial;	       /* of which a rank's record is missing that has data */
	uint64_t calls_partial_silent; /* of these: do not tell who was last */
	uint64_t calls_clocks_differ;  /* of which the ranks' times contradict each other */
	uint64_t first_seq, last_seq;
	uint64_t first_ns, last_ns;
	uint64_t paths[SUMMARY_PATHS];
	uint64_t lost_records;
	struct histogram *latency;
	struct late late;
	struct stragglers stragglers;
	struct passes passes;
	struct pass_times pass_times;
	struct vector path_changes; /* struct summary_path_change */
	uint64_t path_change_count; /* all of them */
	struct summary_size_path size_paths[SUMMARY_SIZES];
	struct summary_switches switches;
	pass_function *pass_ended; /* NULL: nobody else asks */
	void *pass_user;
	struct vector rescues;	  /* struct summary_rescue, by seq after summary_finish() */
	struct vector mismatches; /* struct summary_mismatch */
	struct vector digests;	  /* struct summary_digest */
	uint64_t digest_count;	  /* all of them */
	uint64_t rescue_count;	  /* after summary_finish() */
	struct summary_verdict verdict;
};

/* `id` must live as long as the summary. Memory is the arena's, save the vectors: summary_free().
 * Returns 0 or BELAY_E_NO_MEMORY. */
int summary_init(struct summary *summary, const char *id, uint32_t nranks, uint64_t present,
		 const struct pass_rule *rule, struct arena *arena);
/* Both return 0, BELAY_E_NO_MEMORY or what late.found or pass_ended returned. */
int summary_note_event(struct summary *summary, uint32_t rank, const struct event_record *event);
int summary_note_row(struct summary *summary, const struct call_row *row,
		     const struct row_facts *facts);
int summary_finish(struct summary *summary);
void summary_free(struct summary *summary);

/* The longest stretch in which the rank kept being last: stragglers_run(), to the pass where passes
 * tell the same. */
void summary_straggler_run(const struct summary *summary, uint32_t rank,
			   struct straggler_run *ret_run);

/* 1 if there was a rescue, mismatch, digest difference or verdict. */
int summary_has_findings(const struct summary *summary);
/* 1 if records were lost or a rank's data is missing. */
int summary_has_losses(const struct summary *summary);

#endif /* BELAY_TOOLS_ANALYZE_SUMMARY_H */
