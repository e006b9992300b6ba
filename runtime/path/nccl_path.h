/* SPDX-License-Identifier: Apache-2.0 */
/* The gate before and the end behind a call on NCCL, belay's own or the program's. */
#ifndef BELAY_RUNTIME_PATH_NCCL_PATH_H
#define BELAY_RUNTIME_PATH_NCCL_PATH_H

#include "runtime/path/path.h"

/* Enqueues the gate: takes the number, compares signatures, waits for all ranks. 0, or a status
 * with causes, and nothing was enqueued. */
int nccl_gate_open(struct belay_comm *comm, const struct call *call);

/* Enqueues the end: the turn is done once the stream gets there. Not `came`: what should have come
 * between is not on the stream, and the kernel sees to it that no later one says that the turn is
 * done; somebody tells the watcher. 0, or a status with causes. */
int nccl_gate_close(struct belay_comm *comm, const struct call *call, bool came);

/* FAULT_NCCL_HANG or FAULT_NCCL_ERROR where that is to happen in the middle of the next call;
 * before that takes its number. */
enum fault_kind nccl_gate_fault(struct belay_comm *comm);

/* A call on NCCL did not get onto the stream, and the watcher can know: has it look. The status. */
int nccl_gate_failed(struct belay_comm *comm);

#endif /* BELAY_RUNTIME_PATH_NCCL_PATH_H */
