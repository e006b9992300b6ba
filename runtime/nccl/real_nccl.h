/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NCCL behind libbelay-nccl, found at the first call: the one that the process has, else
 * BELAY_NCCL_LIBRARY, else libnccl.so.2. Not by RTLD_NEXT: under PyTorch NCCL is loaded in a scope
 * of its own, where nothing comes next.
 */
#ifndef BELAY_RUNTIME_NCCL_REAL_NCCL_H
#define BELAY_RUNTIME_NCCL_REAL_NCCL_H

#include <nccl.h>
#include <stdbool.h>

/* Declared by newer headers only; the same in all that have them. */
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 3)
ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
			  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
			 ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
#endif

/* The functions that libbelay-nccl does something about. Those that the header at hand does not
 * declare are forwarded like all others (forward.c). */
#define REAL_NCCL_FUNCTIONS(F)                                                                     \
	F(AllGather)                                                                               \
	F(AllReduce)                                                                               \
	F(AlltoAll)                                                                                \
	F(Bcast)                                                                                   \
	F(Broadcast)                                                                               \
	F(CommAbort)                                                                               \
	F(CommCount)                                                                               \
	F(CommDestroy)                                                                             \
	F(CommFinalize)                                                                            \
	F(CommGetAsyncError)                                                                       \
	F(CommInitAll)                                                                             \
	F(CommInitRank)                                                                            \
	F(CommInitRankConfig)                                                                      \
	F(CommUserRank)                                                                            \
	F(Gather)                                                                                  \
	F(GetErrorString)                                                                          \
	F(GetLastError)                                                                            \
	F(GetVersion)                                                                              \
	F(GroupEnd)                                                                                \
	F(GroupStart)                                                                              \
	F(Reduce)                                                                                  \
	F(Recv)                                                                                    \
	F(ReduceScatter)                                                                           \
	F(Scatter)                                                                                 \
	F(Send)                                                                                    \
	REAL_NCCL_SINCE_18(F)                                                                      \
	REAL_NCCL_SINCE_22(F)                                                                      \
	REAL_NCCL_SINCE_23(F)                                                                      \
	REAL_NCCL_SINCE_27(F)                                                                      \
	REAL_NCCL_SINCE_28(F)

/* Each either wrapped, or, where the header does not know it, handed on. */
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1)
#define REAL_NCCL_SINCE_18(F) F(CommSplit)
#define FORWARDED_BEFORE_18(F)
#else
#define REAL_NCCL_SINCE_18(F)
#define FORWARDED_BEFORE_18(F) F(ncclCommSplit)
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 3)
#define REAL_NCCL_SINCE_22(F) F(GroupSimulateEnd)
#define FORWARDED_BEFORE_22(F)
#else
#define REAL_NCCL_SINCE_22(F)
#define FORWARDED_BEFORE_22(F) F(ncclGroupSimulateEnd)
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 4)
#define REAL_NCCL_SINCE_23(F) F(CommInitRankScalable)
#define FORWARDED_BEFORE_23(F)
#else
#define REAL_NCCL_SINCE_23(F)
#define FORWARDED_BEFORE_23(F) F(ncclCommInitRankScalable)
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
#define REAL_NCCL_SINCE_27(F) F(CommShrink)
#define FORWARDED_BEFORE_27(F)
#else
#define REAL_NCCL_SINCE_27(F)
#define FORWARDED_BEFORE_27(F) F(ncclCommShrink)
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
#define REAL_NCCL_SINCE_28(F) F(CommRevoke)
#define FORWARDED_BEFORE_28(F)
#else
#define REAL_NCCL_SINCE_28(F)
#define FORWARDED_BEFORE_28(F) F(ncclCommRevoke)
#endif

struct real_nccl {
	/* NULL: this NCCL has none. */
#define REAL_NCCL_MEMBER(name) __typeof__(nccl##name) *name;
	REAL_NCCL_FUNCTIONS(REAL_NCCL_MEMBER)
#undef REAL_NCCL_MEMBER
	void *handle;	/* of dlopen(); NULL: there is no NCCL, and all functions are NULL */
	int version;	/* NCCL_VERSION_CODE of it */
	char file[512]; /* where it is from */
	char why[400];	/* it cannot be used */
};

/* Finds it once. Any thread. */
const struct real_nccl *real_nccl(void);

/* A function of it by its whole name, as whatever type it is assigned to; NULL: it has none. */
void *real_nccl_function(const char *name);

/* The address is in it, once it has been found: code of its own. */
bool real_nccl_holds(const void *address);

/* BELAY_DISABLE=1: everything goes straight to the real one. Read once. */
bool real_nccl_alone(void);

#endif /* BELAY_RUNTIME_NCCL_REAL_NCCL_H */
