/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the ring of records in device memory to the trace. Kernels write a record of each turn into
 * place turn mod SYMM_RING_RECORDS; the watcher copies what is new, on a stream of its own, and
 * hands it to the trace as call records. One producer: the watcher.
 *
 *   IDLE ------------------> COPYING ------------------> IDLE
 *        new turns are done          copies are there
 *
 * A record is taken when two later turns are done, so that its kernel has ended and the next one
 * has added up the digest; or, when nothing has been done for a while, by both its ends and by the
 * parts of its digest. Turns that the ring has lost to newer ones are counted exactly.
 */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_RECORDS_H
#define BELAY_RUNTIME_CUDA_DEVICE_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

struct belay_comm;
struct device_records;

/* What the watcher knows of a turn and its kernel does not. */
struct device_note {
	uint64_t turn;
	uint16_t flags; /* enum call_flag to add: late, rescued */
	uint8_t rescue_path;
	bool digest_known;
	uint64_t missing, rescue_ns, digest;
};

/* NULL without memory, with a cause. */
struct device_records *device_records_create(struct belay_comm *comm);
void device_records_free(struct device_records *records);

/* Moves what can be moved. Returns when it wants to be called again, ns. Watcher. */
uint64_t device_records_drain(struct belay_comm *comm, uint64_t now_ns);

/* Adds to the record of a turn that is not drained yet. Watcher. */
void device_records_note(struct belay_comm *comm, const struct device_note *note);

/* Makes the record of the turn that failed, from its description, once those before it are drained;
 * later turns have none. Watcher, once, when the verdict is met. */
void device_records_fail(struct belay_comm *comm, uint64_t turn, int status);

/* Drains to the end, by deadline_ns. Before the trace is closed; no watcher runs any more. */
void device_records_finish(struct belay_comm *comm, uint64_t deadline_ns);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_RECORDS_H */
