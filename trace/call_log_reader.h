/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one call log, trusting nothing in it. Bounded memory: one block, and a few
 * decoded rows of it.
 */
#ifndef BELAY_TRACE_CALL_LOG_READER_H
#define BELAY_TRACE_CALL_LOG_READER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/call_record.h"

struct call_log_reader;

/* What the file's header says. */
struct call_log_info {
	char comm_id[33];
	uint32_t rank;
	uint32_t nranks;
	uint32_t version_major;
	uint32_t version_minor;
	uint32_t file_number; /* K of rank-NNNN.K.belay */
	uint64_t run_id;      /* of the process that made the records */
	int salvaged_by;      /* rank that wrote it for a dead one; -1: the rank itself */
	uint64_t created_monotonic_ns;
	uint64_t created_realtime_ns;
};

enum call_log_kind { CALL_LOG_END = 0, CALL_LOG_CALLS = 1, CALL_LOG_EVENTS = 2 };

/* Some decoded rows of a block. `rows` lives until the next call on the reader. */
struct call_log_batch {
	enum call_log_kind kind;
	size_t count;
	size_t stride;	  /* bytes between rows: call_record_stride(nranks), or sizeof(struct
			     event_record) */
	const void *rows; /* struct call_record or struct event_record */
};

/* One stretch that could not be read. */
struct call_log_damage {
	uint64_t offset;
	uint64_t bytes;
	int64_t records_lost; /* -1: unknown */
	char reason[96];
};

/* Opens the log that begins at `offset` of a file: 0, unless several were written into one. Returns
 * 0; BELAY_E_SYSTEM (errno tells); BELAY_E_ARGUMENT when it is no call log, or of a major version
 * this reader does not know; BELAY_E_NO_MEMORY. `ret_reason` (static text) is set on failure. */
int call_log_reader_open(const char *path, uint64_t offset, struct call_log_reader **ret_reader,
			 const char **ret_reason);

/* Where the next log begins in the same file; 0: nowhere. Hops from head to head. */
uint64_t call_log_reader_following(struct call_log_reader *reader);

/* Ends the log there, in front of the next one, which would be damage otherwise. Before reading. */
void call_log_reader_limit(struct call_log_reader *reader, uint64_t end);

const struct call_log_info *call_log_reader_info(const struct call_log_reader *reader);

/* The next rows, skipping damage. Returns 0 (kind CALL_LOG_END at the end) or
 * BELAY_E_NO_MEMORY. */
int call_log_reader_next(struct call_log_reader *reader, struct call_log_batch *ret_batch);

/* Bytes read so far and in all, for progress. */
void call_log_reader_progress(const struct call_log_reader *reader, uint64_t *ret_done,
			      uint64_t *ret_total);

/* How a file ends. */
enum call_log_closed {
	CALL_LOG_NOT_CLOSED = 0, /* its writer was killed, or still writes */
	CALL_LOG_CLOSED = 1,	 /* cleanly: no record of the run follows */
	CALL_LOG_CONTINUED = 2	 /* in the file of the next number */
};

/* After the end: damage met, in order of offset (beyond 1024 stretches the last entry stands for
 * all the rest); call records that the writer itself counted as lost; and enum call_log_closed. */
size_t call_log_reader_damage(const struct call_log_reader *reader,
			      const struct call_log_damage **ret_list);
uint64_t call_log_reader_records_lost(const struct call_log_reader *reader);
int call_log_reader_closed(const struct call_log_reader *reader);

void call_log_reader_close(struct call_log_reader *reader);

#endif /* BELAY_TRACE_CALL_LOG_READER_H */
