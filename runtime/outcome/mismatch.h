/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank is the odd one of a mismatch, and both signatures in words (M1). */
#ifndef BELAY_RUNTIME_OUTCOME_MISMATCH_H
#define BELAY_RUNTIME_OUTCOME_MISMATCH_H

#include "runtime/communicator.h"
#include "runtime/outcome/liveness.h"

/* The rank outside the majority of signatures; of several the lowest; without a majority the first
 * that differs from rank 0. `here`: ranks whose signature is known. -1 when none differs. Pure. */
int mismatch_culprit(const uint32_t *signatures, uint64_t here, unsigned nranks);

/* Fills culprit and text of a mismatch's cause; `call` is some rank's description of the turn,
 * or NULL. */
void mismatch_describe(const struct belay_comm *comm, const struct outcome_view *view,
		       struct control_cause *cause, const struct control_call *call);

#endif /* BELAY_RUNTIME_OUTCOME_MISMATCH_H */
