/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only door from the runtime to tracing. One struct trace for each communicator and rank.
 * Calls and events go into rings in memory that the caller gives (the control segment), to LTTng
 * when a session listens, and, when a folder is set, through a background thread into the call
 * log. Nothing here blocks or fails a call: what cannot be kept is counted as lost.
 */
#ifndef BELAY_TRACE_TRACE_H
#define BELAY_TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "trace/call_record.h"

struct trace;

struct trace_config {
	const char *comm_id; /* 32 hexadecimal digits; copied */
	uint32_t rank;
	uint32_t nranks;
	void *rings; /* nranks areas of trace_ring_bytes() each, shared and zeroed at creation;
			NULL: private memory for own rank */
	const char *log_dir; /* NULL or "": no call log */
	uint64_t file_bytes_max;
	uint32_t files_keep;
	/* A message for a person, at most once a cause; called from the background thread. */
	void (*message)(void *user, const char *text);
	void *message_user;
};

/* Bytes of one rank's area of rings (calls and events), a multiple of 4096. */
size_t trace_ring_bytes(uint32_t nranks);

/* Opens; starts the background thread when there is a folder. A folder that cannot be written is a
 * message and lost records, not a failure. Returns 0, BELAY_E_NO_MEMORY or BELAY_E_SYSTEM. */
int trace_open(const struct trace_config *config, struct trace **ret_trace);

/* The next record to fill; never NULL. One calling thread at a time. Fields and the nranks arrivals
 * hold old values: set every one. */
struct call_record *trace_call_slot(struct trace *trace);

/* Publishes the record from trace_call_slot(). Hot path: no lock, no system call (save one wake of
 * the writer each time the ring is half full). */
void trace_call_commit(struct trace *trace);

/* Counts `calls` calls whose records were lost before they came here. The thread that commits. */
void trace_call_lost(struct trace *trace, uint64_t calls);

/* Publishes an event. Any thread of the process. */
void trace_event(struct trace *trace, const struct event_record *event);

/* Writes what a dead rank left in its rings (in shared memory) and had not written to its own log,
 * into a file of that rank's. By one survivor only; asynchronous, done at the latest by
 * trace_close(). */
void trace_salvage(struct trace *trace, uint32_t dead_rank);

/* Call records that did not reach the log. */
uint64_t trace_records_lost(const struct trace *trace);

/* Writes out what there is and frees. Waits for the disk until deadline_ns (CLOCK_MONOTONIC), then
 * leaves the rest as lost. NULL is allowed. Returns 0 or BELAY_E_TIMEOUT. */
int trace_close(struct trace *trace, uint64_t deadline_ns);

#endif /* BELAY_TRACE_TRACE_H */
