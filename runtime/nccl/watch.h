/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that stay NCCL's, between belay_watch_begin() and belay_watch_end(). */
#ifndef BELAY_RUNTIME_NCCL_WATCH_H
#define BELAY_RUNTIME_NCCL_WATCH_H

#include "runtime/nccl/group.h"

/* What belay records a type as; 0: it has none. */
enum belay_dtype watch_dtype(ncclDataType_t dtype);

/* Whether calls of that kind are watched on the twin's communicator. The same on all ranks. */
bool watch_wants(const struct twin *twin, enum belay_op op);

/* Two calls in a row go between one begin and one end. */
bool watch_joins(const struct group_call *call, const struct group_call *next);

/* Enqueues `ncalls` calls that are watched, those of a twin in a row and such as watch_joins(): all
 * begin, are made in one group of NCCL's, and end. `grouped` false: one call, and no group around
 * it. NCCL's result, with the text in last_error.h. Waits on the host as calls_enqueue() does, and,
 * for communicators that do not block, until NCCL has enqueued the calls or a verdict stands. */
ncclResult_t watch_enqueue(const struct group_call *const *calls, size_t ncalls, bool grouped);

#endif /* BELAY_RUNTIME_NCCL_WATCH_H */
