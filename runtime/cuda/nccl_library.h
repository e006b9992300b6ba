/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL, found at run time: belay is never linked with it. A process that has an NCCL already (as
 * every program on PyTorch has) keeps the one that it has; two in one process would each take their
 * own memory, threads and connections, and would not know each other's communicators.
 *
 * A library that was found is never closed: NCCL does not survive that.
 */
#ifndef BELAY_RUNTIME_CUDA_NCCL_LIBRARY_H
#define BELAY_RUNTIME_CUDA_NCCL_LIBRARY_H

#include <nccl.h>
#include <stddef.h>

/* The functions used. Non-blocking creation (ncclCommInitRankConfig) came with 2.14. */
#define NCCL_LIBRARY_OLDEST NCCL_VERSION(2, 14, 0)
#define NCCL_LIBRARY_FUNCTIONS(F)                                                                  \
	F(get_version, ncclGetVersion)                                                             \
	F(get_unique_id, ncclGetUniqueId)                                                          \
	F(comm_init, ncclCommInitRankConfig)                                                       \
	F(comm_abort, ncclCommAbort)                                                               \
	F(comm_async_error, ncclCommGetAsyncError)                                                 \
	F(comm_count, ncclCommCount)                                                               \
	F(comm_rank, ncclCommUserRank)                                                             \
	F(comm_device, ncclCommCuDevice)                                                           \
	F(error_string, ncclGetErrorString)                                                        \
	F(last_error, ncclGetLastError)                                                            \
	F(all_gather, ncclAllGather)                                                               \
	F(all_reduce, ncclAllReduce)

struct nccl_library {
#define NCCL_LIBRARY_MEMBER(member, function) __typeof__(function) *member;
	NCCL_LIBRARY_FUNCTIONS(NCCL_LIBRARY_MEMBER)
#undef NCCL_LIBRARY_MEMBER
	int version;	/* NCCL_VERSION_CODE of what is loaded */
	char file[512]; /* where it is from */
};

/* Finds it: the one in the process (of several, the one that is `wanted`); else `wanted`
 * (BELAY_NCCL_LIBRARY), if not empty; else libnccl.so.2. 0, or -1 with the reason: absent, too old,
 * or lacking a function. Any thread. */
int nccl_library_find(const char *wanted, struct nccl_library *ret_library, char *ret_why,
		      size_t size);
/* Only one that is in the process (of several, the one that is `wanted`); for communicators that
 * the program made itself. */
int nccl_library_in_process(const char *wanted, struct nccl_library *ret_library, char *ret_why,
			    size_t size);

/* Why a call failed: "ncclAllGather: unhandled system error (2): ...", with NCCL's own last words,
 * and with advice where NCCL's words are known to need it. */
void nccl_library_explain(const struct nccl_library *library, const char *call, ncclResult_t result,
			  char *ret_text, size_t size);

#endif /* BELAY_RUNTIME_CUDA_NCCL_LIBRARY_H */
