/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process in which libbabeltrace2 reads a trace, as seen from the one that analyses: frames
 * come through a pipe, and nothing in them is trusted, since the sender may have gone mad over the
 * trace.
 */
#ifndef BELAY_TOOLS_ANALYZE_LTTNG_PROCESS_H
#define BELAY_TOOLS_ANALYZE_LTTNG_PROCESS_H

#include <sys/types.h>

#include "tools/analyze/lttng_frame.h"

struct lttng_process {
	pid_t pid;
	int pipe;
	struct inbox *inbox;
	uint64_t signs_left; /* signs of life that a process in its right mind may still give */
};

enum lttng_receipt {
	LTTNG_RECEIVED,
	LTTNG_CUT_SHORT, /* it ended without saying so, or what it sent makes no sense */
	LTTNG_STUCK,	 /* it was silent, or busy with nothing, for too long */
	LTTNG_ABORTED	 /* a signal asks for an end: interrupt.h */
};

/* Starts reading the trace at `folder`, of `bytes` in all. Returns 0, BELAY_E_NO_MEMORY or
 * BELAY_E_SYSTEM (errno tells). */
int lttng_process_start(struct lttng_process *process, const char *folder, uint64_t bytes,
			enum lttng_reading reading);

/* The next frame and its payload, which must have room for LTTNG_FRAME_BYTES_MAX bytes and be
 * aligned for a record. Its sizes and ranks are possible. Blocks up to 15 s. */
enum lttng_receipt lttng_process_receive(struct lttng_process *process,
					 struct lttng_frame *ret_frame, void *ret_payload);

/* Ends the process, whatever it does. Returns the signal by which it had died, else 0. */
int lttng_process_end(struct lttng_process *process);

#endif /* BELAY_TOOLS_ANALYZE_LTTNG_PROCESS_H */
