/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers of small records over an NCCL communicator that the program has: how its ranks tell each
 * other, before there is anything of belay's to do it by. Every rank makes the same gathers, in the
 * same order.
 *
 * All calls of NCCL's are made by a thread that may be lost; see foreign_thread.h. After a gather
 * that did not end in time no other can be made.
 */
#ifndef BELAY_RUNTIME_CUDA_NCCL_GATHER_H
#define BELAY_RUNTIME_CUDA_NCCL_GATHER_H

#include <stddef.h>
#include <stdint.h>

struct cause_chain;
struct ncclComm;
struct nccl_gather;

/* `library`: which of several NCCLs in the process, "" any; `bytes`: of one rank's record. Returns
 * 0, or BELAY_E_UNSUPPORTED (no NCCL), BELAY_E_NO_MEMORY or BELAY_E_LIMIT with causes. */
int nccl_gather_begin(struct ncclComm *nccl, const char *library, size_t bytes,
		      struct nccl_gather **ret_gather, struct cause_chain *causes);

/* Gives the own record and waits for all of them. Returns 0, or with causes BELAY_E_START_TIMEOUT
 * (NCCL did not answer in time) or BELAY_E_SYSTEM (NCCL or CUDA reports an error). */
int nccl_gather_run(struct nccl_gather *gather, const void *own, uint64_t patience_ns,
		    struct cause_chain *causes);

/* After a gather that has returned 0. The record stands until the next gather. */
const void *nccl_gather_record(const struct nccl_gather *gather, int rank);
int nccl_gather_rank(const struct nccl_gather *gather);
int nccl_gather_nranks(const struct nccl_gather *gather);
/* CUDA's ordinal of the communicator's device. */
int nccl_gather_device(const struct nccl_gather *gather);

/* NULL is allowed and does nothing. */
void nccl_gather_end(struct nccl_gather *gather);

#endif /* BELAY_RUNTIME_CUDA_NCCL_GATHER_H */
