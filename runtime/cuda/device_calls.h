/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher's side of this rank's kernels: what they post becomes the states of the mailbox, and
 * those become orders. What to do is decided in stuck_kernel.h; here it is done. Watcher only, but
 * for the functions of device.h that say otherwise.
 */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_CALLS_H
#define BELAY_RUNTIME_CUDA_DEVICE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

struct belay_comm;
struct device_calls;

/* NULL without memory. */
struct device_calls *device_calls_create(void);
void device_calls_free(struct device_calls *calls);

/* Moves what can be moved. Returns when it wants to be called again at the latest, ns: kernels
 * cannot wake anybody. */
uint64_t device_calls_watch(struct belay_comm *comm, uint64_t now_ns);

/* The breaker has opened or closed: kernels from the next on ask for a rescue at once, or wait up
 * to the soft deadline again (decision 0007). */
void device_calls_set_hasty(struct belay_comm *comm, bool hasty);

/* The call that a turn of this rank belongs to, by what its kernels have described. */
uint64_t device_calls_seq(const struct belay_comm *comm, uint64_t turn);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_CALLS_H */
