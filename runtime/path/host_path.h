/* SPDX-License-Identifier: Apache-2.0 */
/* Constants and fault hooks of the host path. */
#ifndef BELAY_RUNTIME_PATH_HOST_PATH_H
#define BELAY_RUNTIME_PATH_HOST_PATH_H

#include "runtime/path/path.h"

/* From here on calls whose buffers are all region buffers go two-shot (docs/performance.md). */
#define HOST_TWO_SHOT_REGION_BYTES 4096

/* FAULT_DROP, FAULT_FLAG or FAULT_CORRUPT when one is due for this call, else FAULT_NONE. */
enum fault_kind host_path_push_fault(struct belay_comm *comm, const struct call *call);

#endif /* BELAY_RUNTIME_PATH_HOST_PATH_H */
