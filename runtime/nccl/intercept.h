/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions that stand for NCCL's share: whether to stand between, and calls of the real
 * ones. */
#ifndef BELAY_RUNTIME_NCCL_INTERCEPT_H
#define BELAY_RUNTIME_NCCL_INTERCEPT_H

#include <stdbool.h>

#include "runtime/nccl/real_nccl.h"

#define EXPORT __attribute__((visibility("default")))

/* Whether a call from there is to be more than handed on. Functions of the real NCCL call each
 * other by name, which leads here: ncclCommCount() asks ncclCommGetAsyncError() first, for one.
 * They are to get each other, also where belay has called NCCL, on threads of its own. */
bool intercept_between(const void *caller);

/* In a function that is exported. */
#define stands_between() intercept_between(__builtin_return_address(0))

/* Around a call of the real one; the result of that. */
void intercept_enter(void);
ncclResult_t intercept_leave(ncclResult_t result);
/* The result of a function that the real one lacks. */
ncclResult_t intercept_lacks(const char *function);

/* The result of the real ncclX. */
#define REAL(X, ...)                                                                               \
	(real_nccl()->X ? (intercept_enter(), intercept_leave(real_nccl()->X(__VA_ARGS__)))        \
			: intercept_lacks("nccl" #X))

#endif /* BELAY_RUNTIME_NCCL_INTERCEPT_H */
