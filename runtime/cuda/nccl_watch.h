/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher's look at a whole call on NCCL. Between the gate, which all ranks have passed, and
 * the end kernel nothing of belay's runs: so NCCL's errors, and the hard deadline of a call that
 * does not end, are seen from here, by the step words (`staged` is posted by the gate, `done` by
 * the end). Either is a complaint, and the verdict that follows ends the call on every rank (S3).
 * Of a watched call NCCL's errors are the program's to see: here it is the deadline, and what
 * belay_watch_end() was told; and what hangs is the program's to abort.
 */
#ifndef BELAY_RUNTIME_CUDA_NCCL_WATCH_H
#define BELAY_RUNTIME_CUDA_NCCL_WATCH_H

#include <stdint.h>

struct belay_comm;

/* Of the watcher; zero at first. */
struct nccl_watch {
	uint64_t turn;	   /* on NCCL and open; 0: none */
	uint64_t since_ns; /* when it was first seen so */
	char text[320];	   /* what went wrong; "" nothing */
};

/* One look, from every device_watch(), after a verdict too: once kernels are ordered to leave
 * (orders.fail_from) it has NCCL's calls aborted. Returns when it wants to be called again at the
 * latest, ns; UINT64_MAX: no need. */
uint64_t nccl_watch_calls(struct belay_comm *comm, uint64_t now_ns);

/* What went wrong, with the foreign call and its code, for the text of a verdict nccl_failed;
 * NULL: nothing so far. Watcher. */
const char *nccl_watch_failure(const struct belay_comm *comm);

#endif /* BELAY_RUNTIME_CUDA_NCCL_WATCH_H */
