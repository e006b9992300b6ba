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

/* Whether the lower half of the ranks is on one NUMA node and the upper half on another one, so that
 * what goes between them is slow; at least two ranks in each. */
bool topology_has_islands(const struct control_device *devices, uint32_t nranks);

/* Whether the links are to be probed: pushes over PCIe may collapse where many push at once. */
bool topology_asks_probe(const struct control_device *devices, uint32_t nranks);

/* What the probe says: the slowest rank's pushes take more than three times as long as the slowest
 * one's pulls. False where any rank has made none. */
bool topology_pushes_slowly(const struct control_device *devices, uint32_t nranks);

/* The largest grid that fits on every device. Ranks that share one run at the same time, each with
 * one call, and leave room for a rescue; a rank that is alone has room for a second communicator,
 * or for the call behind. At least 1. */
uint32_t topology_blocks_max(const struct control_device *devices, uint32_t nranks);

/* Blocks of a rescue's kernel that find room beside those of all calls on every rank; at least 1.
 */
uint32_t topology_blocks_kept(const struct control_device *devices, uint32_t nranks);

/* ... if two calls of each rank stand there at once, as with programmatic dependent launch. 0: not
 * even one block does, or some device does not know such launches. */
uint32_t topology_pair_blocks_max(const struct control_device *devices, uint32_t nranks);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_TOPOLOGY_H */
