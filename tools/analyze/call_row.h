/* SPDX-License-Identifier: Apache-2.0 */
/* One call as all its ranks saw it, and what can be told from that alone. Pure. */
#ifndef BELAY_TOOLS_ANALYZE_CALL_ROW_H
#define BELAY_TOOLS_ANALYZE_CALL_ROW_H

#include <stdint.h>

#include "runtime/belay.h"
#include "trace/call_record.h"

/* Times of ranks on one clock may contradict each other by so much: stamps of a host agree to a
 * microsecond, those of GPUs to a few, and a peer may see an input a little before its owner's
 * stamp says that it was staged. */
#define ROW_STAMP_ERROR_NS 10000u

struct call_row {
	uint64_t seq;
	uint64_t pass;	    /* by the rule in use, from 1; 0: none */
	uint64_t ranks;	    /* mask: whose record is here */
	uint64_t unaligned; /* mask: of those, whose times are on a clock of their own, see clocks.h
			     */
	uint32_t nranks;
	const struct call_record *records[BELAY_RANKS_MAX]; /* NULL where absent */
};

struct row_facts {
	const struct call_record *any; /* the lowest rank's record */
	uint64_t start_ns;	       /* earliest start */
	uint64_t end_ns;	       /* latest end */
	uint64_t latency_ns;	       /* longest duration: the slowest rank's */
	uint64_t time_ns;	       /* mean duration */
	uint64_t wait_ns;   /* mean time for which a rank's own input was ready and the last one's
			     * not */
	uint64_t late;	    /* mask: ranks that waited past the soft deadline */
	uint64_t stuck;	    /* mask: ranks that finished by rescue */
	uint64_t rescue_ns; /* the longest rescue */
	uint64_t rescue_wait_ns;  /* how long its rank waited before; 0: not known */
	uint8_t rescue_path;	  /* enum belay_path; 0: none */
	int16_t status;		  /* the first that is negative, by rank; else 0 */
	uint64_t failed;	  /* mask: ranks with a negative status */
	uint64_t mismatched;	  /* mask: ranks with BELAY_E_MISMATCH */
	uint64_t digest_outliers; /* mask: ranks whose output is not the majority's */
	int last_rank;		  /* who arrived last, see row_examine(); -1: not known */
	uint64_t last_arrival_ns; /* when that was; 0: not known */
	int clocks_differ;    /* a rank has left the call before another arrived: not read on one
			       * clock */
	uint64_t lateness_ns; /* last arrival minus the median arrival of the others */
};

/*
 * Computes the facts of a row with at least one record. The last to arrive is known when two
 * records or more can be compared. Ranks whose record is not here, or whose clocks cannot be
 * compared, take part with what the others saw of them; where that is missing too, nobody is named.
 */
void row_examine(const struct call_row *row, struct row_facts *ret_facts);

/* Of a row whose facts name the last: who is the last of all ranks but those in the mask, and when.
 * -1: nobody is left. */
int row_last_but(const struct call_row *row, uint64_t but, uint64_t *ret_arrival_ns);

/* When the rank's input stood ready: t_staged. */
static inline uint64_t record_arrival(const struct call_record *record)
{
	return record->start_ns + record->staged_ns;
}

/* Of the input; of other collectives than allreduces, of the larger buffer. 0: of a type that is
 * not known. */
static inline uint64_t record_bytes(const struct call_record *record)
{
	return record->count * belay_dtype_bytes((enum belay_dtype)record->dtype);
}

/* What tells calls of one size and path apart: 0 of allreduces, of others the op. */
static inline uint8_t record_collective(const struct call_record *record)
{
	return record->op > BELAY_USER_OP ? record->op : 0;
}

static inline uint64_t rank_bit(uint32_t rank)
{
	return 1ull << rank;
}

/* Takes the lowest rank out of a mask that is not empty. */
static inline uint32_t mask_pop(uint64_t *mask)
{
	uint32_t rank = (uint32_t)__builtin_ctzll(*mask);

	*mask &= *mask - 1;
	return rank;
}

/* How long the record's rank waited for the last input of a call, which stood ready then. */
uint64_t record_wait(const struct call_record *record, uint64_t last_arrival_ns);

/* All ranks of a communicator. */
static inline uint64_t mask_of(uint32_t nranks)
{
	return nranks >= 64 ? UINT64_MAX : (1ull << nranks) - 1;
}

#endif /* BELAY_TOOLS_ANALYZE_CALL_ROW_H */
