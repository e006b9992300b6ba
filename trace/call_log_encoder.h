/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns records into the bytes of a block: head, columns, zstd frame. Takes its memory at creation;
 * zstd may later give some back and take it again. One thread at a time.
 */
#ifndef BELAY_TRACE_CALL_LOG_ENCODER_H
#define BELAY_TRACE_CALL_LOG_ENCODER_H

#include <stddef.h>
#include <stdint.h>

#include "trace/call_columns.h"
#include "trace/call_log_format.h"

struct call_log_encoder;

/* `records_max`: largest block, 1 .. CALL_LOG_BLOCK_RECORDS. Returns 0 or BELAY_E_NO_MEMORY. */
int call_log_encoder_create(uint32_t nranks, size_t records_max,
			    struct call_log_encoder **ret_encoder);
void call_log_encoder_free(struct call_log_encoder *encoder);

/* One block. `bytes` is the encoder's and lives until its next use. */
struct call_log_block {
	const unsigned char *bytes;
	size_t size;
};

/* Encodes records of one kind; index is the first one's number in the run, lost_total the losses
 * before it. Returns 0 or BELAY_E_SYSTEM (zstd failed, which only lack of memory can cause). */
int call_log_encode(struct call_log_encoder *encoder, enum call_log_block_kind kind,
		    const struct column_rows *rows, uint64_t index, uint64_t lost_total,
		    struct call_log_block *ret_block);

/* Where a run stood when a file ended. */
struct call_log_totals {
	uint64_t calls;
	uint64_t calls_lost;
	uint64_t events;
	uint64_t events_lost;
};

/* Encodes the last block of a file. `bytes` holds CALL_LOG_HEAD_BYTES. */
void call_log_encode_end(const struct call_log_totals *totals, uint64_t now_ns, int continued,
			 unsigned char *bytes);

#endif /* BELAY_TRACE_CALL_LOG_ENCODER_H */
