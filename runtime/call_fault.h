/* SPDX-License-Identifier: Apache-2.0 */
/* Fault injection at a call's entry: the kinds that change which call a rank makes. */
#ifndef BELAY_RUNTIME_CALL_FAULT_H
#define BELAY_RUNTIME_CALL_FAULT_H

#include "runtime/path/path.h"

enum call_fault { CALL_FAULT_GO_ON = 0, CALL_FAULT_SKIP = 1 };

/* Before the call is numbered: skip, extra, count, dtype, op. */
enum call_fault call_fault_before(struct belay_comm *comm, struct call *call);

/* Numbered and signed, not staged: swap; then what acts on the process (delay, kill, stop). */
void call_fault_begun(struct belay_comm *comm, struct call *call);

#endif /* BELAY_RUNTIME_CALL_FAULT_H */
