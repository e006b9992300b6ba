/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call record and one event record: what the LTTng events, the call log and trace-analyze
 * share, so that they cannot disagree. Times are CLOCK_MONOTONIC nanoseconds of this host.
 */
#ifndef BELAY_TRACE_CALL_RECORD_H
#define BELAY_TRACE_CALL_RECORD_H

#include <assert.h>
#include <stdint.h>

/* An arrival that was not seen: the peer never arrived, or the call ended without looking. */
#define CALL_ARRIVAL_NONE UINT64_MAX

/* Bits of call_record.flags. Logged: never renumber. */
enum call_flag {
	CALL_IN_PLACE = 1u << 0, /* send == recv */
	CALL_GRAPH = 1u << 1,	 /* replayed from a CUDA graph */
	CALL_RESCUED = 1u << 2,	 /* this rank was stuck and finished by rescue */
	CALL_LATE = 1u << 3, /* this rank waited past the soft deadline; `missing` says for whom */
	CALL_REGION = 1u << 4,	/* recv is a region buffer */
	CALL_CHUNKED = 1u << 5, /* larger than a slot, went in several turns */
	CALL_DIGEST = 1u << 6,	/* `digest` was computed */
	CALL_FUSED = 1u << 7,	/* several calls of NCCL's as one: op is that of the first */
	CALL_WATCHED =
		1u << 8 /* made by the program on NCCL, between belay_watch_begin() and _end() */
};

/*
 * One call, of whatever enum belay_op, as one rank saw it. In a ring the record is followed by
 * `nranks` arrivals, uint64_t each: when that peer's input for this call was seen here, in ns after
 * start_ns; own rank: when staged. call_record_stride() is the distance between records.
 */
struct call_record {
	uint64_t seq;
	uint64_t pass;	      /* from 1; 0 outside any pass */
	uint64_t start_ns;    /* t_start */
	uint64_t count;	      /* elements; of watched calls see struct belay_watched */
	uint64_t duration_ns; /* t_end - t_start */
	uint64_t missing;     /* ranks not arrived at the soft deadline; 0 when in time */
	uint64_t digest;    /* sum of the output's 64-bit little-endian words, the tail zero-padded,
			       mod 2^64 */
	uint64_t rescue_ns; /* from the request for rescue to the release; 0 when none */
	uint32_t index;	    /* place in the pass, from 0; outside passes 0 */
	uint32_t enqueue_ns;   /* t_start - t_enqueue; 0 on the host path; saturates */
	uint32_t staged_ns;    /* t_staged - t_start; saturates */
	int16_t status;	       /* enum belay_status */
	uint16_t flags;	       /* enum call_flag */
	uint8_t op;	       /* enum belay_op */
	uint8_t dtype;	       /* enum belay_dtype */
	uint8_t path;	       /* enum belay_path */
	uint8_t algorithm;     /* enum belay_algorithm */
	uint8_t rescue_path;   /* enum belay_path over which it was rescued; 0: not rescued */
	uint8_t reserved[3];   /* 0 */
	uint64_t arrival_ns[]; /* nranks of them */
};
static_assert(sizeof(struct call_record) == 88, "call_record is shared and logged");

/* Bytes from one record to the next in a ring: whole cache lines. */
static inline uint32_t call_record_stride(uint32_t nranks)
{
	return (uint32_t)((sizeof(struct call_record) + 8u * nranks + 63u) / 64u * 64u);
}

/* What an event record tells. Logged: never renumber. The names are those of the LTTng events. */
enum event_kind {
	EVENT_COMM_CREATE = 1,	/* value: nranks; mask: usable paths (bit = enum belay_path); text:
				   version. Of one host's part of a larger communicator also peer:
				   the rank there, else -1; text: "VERSION; which part" */
	EVENT_COMM_DESTROY = 2, /* value: calls made */
	EVENT_PASS_BEGIN = 3,	/* seq: next call; pass */
	EVENT_PASS_END = 4, /* seq: last call; pass; duration_ns: waited for the commit; status */
	EVENT_LATE = 5, /* seq, pass; peer: rank named; mask: ranks missing; duration_ns: waited so
			   far */
	EVENT_RESCUE_BEGIN =
		6, /* seq, pass; peer: whose data was lost, -1 unknown; value: attempt; path: via */
	EVENT_RESCUE_END = 7, /* seq, pass; duration_ns; status; mask: ranks that were stuck, as far
				 as known here; value: ns of duration_ns that NCCL took to gather,
				 0: over sockets, or not gathered */
	EVENT_BREAKER =
		8, /* value: enum belay_breaker_state; path: that calls are to take; seq: last
		      that rank 0 has begun; mask: ranks that missed a probe; text: reason */
	EVENT_PATH_SWITCH = 9, /* path: new path; value: old path; seq: from which; text: reason */
	EVENT_VERDICT = 10,    /* seq, pass; cause; peer: culprit or -1; value: proposer; text */
	EVENT_ERROR = 11,      /* status; peer: rank or -1; seq or 0; value: foreign code; text */
	EVENT_CLOCK = 12       /* the GPU's clock: at time_ns it showed value ns; duration_ns: error
				  bound of that */
};

/* The longest verdict that the library tells fits. */
#define EVENT_TEXT_BYTES 320

/* Something that happened on one rank, other than a call. */
struct event_record {
	uint64_t time_ns;
	uint64_t seq;
	uint64_t pass;
	uint64_t mask;
	uint64_t duration_ns;
	int64_t value;
	int32_t peer;
	int16_t status;		     /* enum belay_status */
	uint8_t kind;		     /* enum event_kind */
	uint8_t cause;		     /* enum belay_cause */
	uint8_t path;		     /* enum belay_path */
	uint8_t reserved[7];	     /* 0 */
	char text[EVENT_TEXT_BYTES]; /* 0-terminated, the rest 0 */
};
static_assert(sizeof(struct event_record) == 384, "event_record is shared and logged");

#endif /* BELAY_TRACE_CALL_RECORD_H */
