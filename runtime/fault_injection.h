/* SPDX-License-Identifier: Apache-2.0 */
/* Fault injection, design.md: "Fault injection". Off by default; one branch (faults_armed) when
 * off. */
#ifndef BELAY_RUNTIME_FAULT_INJECTION_H
#define BELAY_RUNTIME_FAULT_INJECTION_H

#include <stdatomic.h>
#include <stdint.h>

struct cause_chain;

enum fault_point {
	FAULT_AT_HANDSHAKE = 1,
	FAULT_AT_STAGE,
	FAULT_AT_PUSH,
	FAULT_AT_WAIT,
	FAULT_AT_REDUCE,
	FAULT_AT_RESCUE,
	FAULT_AT_VERDICT,
	FAULT_AT_DESTROY
};

enum fault_kind {
	FAULT_NONE = 0,
	FAULT_DROP,
	FAULT_DELAY,
	FAULT_KILL,
	FAULT_STOP,
	FAULT_CORRUPT,
	FAULT_FLAG,
	FAULT_SKIP,
	FAULT_EXTRA,
	FAULT_SWAP,
	FAULT_COUNT,
	FAULT_DTYPE,
	FAULT_OP,
	FAULT_MAP_FAIL,
	FAULT_SELFTEST,
	FAULT_NCCL_ERROR,
	FAULT_NCCL_HANG,
	FAULT_CUDA_STICKY,
	FAULT_STARVE,
	FAULT_SLOW_PUSH
};

#define FAULTS_MAX 16

struct fault {
	int rank;		    /* -1: every rank ('*') */
	uint64_t first, last, step; /* seqs; '*': 0 .. UINT64_MAX step 1 */
	enum fault_kind kind;
	enum fault_point at;
	uint64_t ns; /* delay:, stop:, starve: */
};

struct faults {
	uint32_t count;
	_Atomic uint32_t done; /* bit i: this rank has carried list[i] out; any thread of its */
	struct fault list[FAULTS_MAX];
};

/* Parses BELAY_FAULT. Empty: none. Returns 0 or BELAY_E_SETTING with the bad part and what was
 * expected in causes. */
int faults_parse(const char *text, struct faults *ret_faults, struct cause_chain *causes);

/* Refuses a fault of a rank that there is not. Returns 0 or BELAY_E_SETTING with causes. */
int faults_check_ranks(const struct faults *faults, int nranks, struct cause_chain *causes);

static inline int faults_armed(const struct faults *faults)
{
	return (int)__builtin_expect(faults->count != 0, 0);
}

/* The kind that is due for this rank, seq and point among the kinds that change what a call does
 * (drop, corrupt, flag, skip, extra, swap, count, dtype, op, map-fail, selftest, starve ...), or
 * FAULT_NONE; ret_ns (may be NULL) gets its time. Pure. */
enum fault_kind fault_due(const struct faults *faults, int rank, uint64_t seq, enum fault_point at,
			  uint64_t *ret_ns);

#define FAULT_BIT(kind) (UINT32_C(1) << (kind))

/* fault_due() for a place that carries out the kinds of `mask` (FAULT_BITs) only: what it returns
 * counts as carried out. */
enum fault_kind fault_take(struct faults *faults, int rank, uint64_t seq, enum fault_point at,
			   uint32_t mask, uint64_t *ret_ns);

/* Carries out the kinds that act on the process itself at this point: delay (busy or sleeping
 * wait), kill (SIGKILL to this process), stop (SIGSTOP to this process; a helper process sends
 * SIGCONT after the time). They count as carried out before they act. */
void fault_act(struct faults *faults, int rank, uint64_t seq, enum fault_point at);

/* Bit i: fault i of the text has been carried out by this rank. */
uint32_t faults_done(const struct faults *faults);

const char *fault_kind_name(enum fault_kind kind);
const char *fault_point_name(enum fault_point at);

#endif /* BELAY_RUNTIME_FAULT_INJECTION_H */
