/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks' devices are to each other, from the facts that every rank has told. Pure, and the
 * same on every rank but for what is asked about one rank. */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_TOPOLOGY_H
#define BELAY_RUNTIME_CUDA_DEVICE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/launch_shape.h"
#include "runtime/group/control_segment.h"

/* True when two ranks are on one device. */
bool topology_same_device(const struct control_facts *a, const struct control_facts *b);

/* Ranks on a rank's device, itself included. */
uint32_t topology_sharing(const struct control_device *devices, uint32_t nranks, uint32_t rank);

/* How the devices are joined; a link counts as the lesser of what its two ends say of it. */
enum launch_topology topology_of(const struct control_device *devices, uint32_t nranks);

/* Whether programmatic dependent launch may be used: it keeps two calls of a rank resident, so each
 * rank needs a device of its own; and every device must know it. */
bool topology_programmatic(const struct control_device *devices, uint32_t nranks);

/* The largest grid that fits on every device: the least of what the ranks told. At least 1. */
uint32_t topology_blocks_max(const struct control_device *devices, uint32_t nranks);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_TOPOLOGY_H */
