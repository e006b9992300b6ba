/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of one rank's call log: DIR/COMM-ID/rank-NNNN.K.belay, opened when first needed, one
 * after the other, the oldest removed. What is on disk is whole blocks at all times, save while a
 * write runs. One thread at a time.
 */
#ifndef BELAY_TRACE_CALL_LOG_FILE_H
#define BELAY_TRACE_CALL_LOG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "trace/call_log_encoder.h"

struct call_log_file_config {
	const char *dir;     /* borrowed, as is comm_id, for the life of the file */
	const char *comm_id; /* 32 hexadecimal digits */
	uint32_t rank;
	uint32_t nranks;
	int32_t salvaged_by; /* -1, or the rank that writes in a dead one's place */
	uint32_t tick_ns;
	uint64_t run_id;
	uint64_t bytes_max; /* of one file */
	uint32_t files_keep;
};

struct call_log_file {
	struct call_log_file_config config;
	int dir_fd;	       /* -1: not open */
	int fd;		       /* -1: not open */
	uint32_t number;       /* of the open file, else of the next */
	uint32_t first_number; /* the first that this writer made */
	uint64_t bytes;	       /* whole in the open file */
	/* Of the newest failure: what was tried, on which name, the errno. */
	const char *failed_step;
	int failed_errno;
	char name[64]; /* within the folder */
};

void call_log_file_init(struct call_log_file *file, const struct call_log_file_config *config);

/* Makes room: opens the first or, when `bytes` more would be too many, the next file. `totals` is
 * where the run stands. Returns 0, or BELAY_E_SYSTEM: see failed_*; trying again later is right. */
int call_log_file_prepare(struct call_log_file *file, size_t bytes,
			  const struct call_log_totals *totals);

/* Appends one block whole or not at all. Same statuses. */
int call_log_file_append(struct call_log_file *file, const void *block, size_t bytes);

/* Ends the open file, if any. */
void call_log_file_finish(struct call_log_file *file, const struct call_log_totals *totals);

/* Closes descriptors, adding nothing. */
void call_log_file_close(struct call_log_file *file);

/* "rank-NNNN.K.belay" */
void call_log_file_name(char *name, size_t size, uint32_t rank, uint32_t number);

/* Opens DIR/COMM-ID, making both where missing. Returns a descriptor, or -1 with errno. */
int call_log_folder_open(const char *dir, const char *comm_id, const char **ret_step);

#endif /* BELAY_TRACE_CALL_LOG_FILE_H */
