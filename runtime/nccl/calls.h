/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduces of NCCL's as belay's. */
#ifndef BELAY_RUNTIME_NCCL_CALLS_H
#define BELAY_RUNTIME_NCCL_CALLS_H

#include "runtime/nccl/group.h"

/* Fills dtype and op. False: belay has none such, or the twin only watches, and the call is NCCL's.
 * The same on all ranks, as the arguments are. */
bool calls_translate(ncclDataType_t dtype, ncclRedOp_t op, struct group_call *call);

/* Enqueues it; NCCL's result, with the text in last_error.h. While another stream has work of the
 * communicator to do it waits for that, up to BELAY_GIVE_UP_MS: NCCL, too, has streams take turns.
 */
ncclResult_t calls_enqueue(const struct group_call *call);

#endif /* BELAY_RUNTIME_NCCL_CALLS_H */
