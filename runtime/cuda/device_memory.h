/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rescue does with device memory, besides device_read_retained() and device_write_output()
 * of device.h. On the watcher's stream; each waits for what it enqueued, bounded, and returns 0 or
 * -1 with a cause. A lost context is complained of (device_fault()). Watcher only.
 */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_MEMORY_H
#define BELAY_RUNTIME_CUDA_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct belay_comm;
struct gpu_error;

/* Whether the retained input of a turn, the own or that of a rank that died, is whole and can be
 * read (P3). */
bool device_input_is_whole(struct belay_comm *comm, unsigned rank, uint64_t turn);

/* Before this rank gives its part to the rescue of a turn (R5): marks the turn in mode.dirty, and
 * clears the own headers, result flags and packets of its parity, where a spoiled word might bear
 * the flag of a turn to come. */
int device_prepare_rescue(struct belay_comm *comm, uint64_t turn);

/* mode.hasty of later kernels. */
int device_write_hasty(struct belay_comm *comm, bool hasty);

/* Waits for what was enqueued on the watcher's stream. */
int device_finish(struct belay_comm *comm, const char *what);

/* True when nothing that the watcher enqueued can still write: its stream is done, or its context
 * lost. */
bool device_is_quiet(struct belay_comm *comm);

/* Says what failed; -1. */
int device_failed(struct belay_comm *comm, const struct gpu_error *error, const char *what);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_MEMORY_H */
