/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call log's thread: takes records from the rings, encodes them and writes them to disk.
 * Everything that can block, making the folder included, happens there and nowhere else.
 */
#ifndef BELAY_TRACE_CALL_LOG_WRITER_H
#define BELAY_TRACE_CALL_LOG_WRITER_H

#include <stdint.h>

#include "trace/trace.h"
#include "trace/trace_ring.h"

struct call_log_writer;

/* Starts the thread. The area is the own rank's; config->rings may be NULL, then nothing can be
 * salvaged. Strings are copied. Returns 0, BELAY_E_NO_MEMORY or BELAY_E_SYSTEM (no thread). */
int call_log_writer_start(const struct trace_config *config, struct trace_area *area,
			  struct call_log_writer **ret_writer);

/* Asks the thread to write now what there is. Any thread; one system call. */
void call_log_writer_wake(struct call_log_writer *writer);

/* Asks the thread to write a dead rank's rest. Any thread. */
void call_log_writer_salvage(struct call_log_writer *writer, uint32_t rank);

/* Writes the rest, ends the file and the thread, frees. Past deadline_ns (CLOCK_MONOTONIC) the
 * thread is left behind: it touches neither rings nor callback any more and frees itself. Returns 0
 * or BELAY_E_TIMEOUT. */
int call_log_writer_stop(struct call_log_writer *writer, uint64_t deadline_ns);

#endif /* BELAY_TRACE_CALL_LOG_WRITER_H */
