/* SPDX-License-Identifier: Apache-2.0 */
/* What the marks of passes on the host and on streams share. */
#ifndef BELAY_RUNTIME_PASS_H
#define BELAY_RUNTIME_PASS_H

#include <stdint.h>

#include "runtime/communicator.h"

/* C1 and C2: waits until every rank is done with `turn`, the last of the pass that comm->ended_*
 * tell about, and commits. 0 or the verdict's status. */
int pass_commit(struct belay_comm *comm, uint64_t turn);

/* Ends the pass of comm->ended_* with its commit: ended_status, commit_wait_ns, trace. */
int pass_finish(struct belay_comm *comm);

#endif /* BELAY_RUNTIME_PASS_H */
