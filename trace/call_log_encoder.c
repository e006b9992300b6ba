/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/call_log_encoder.h"

#include <assert.h>
#include <stdlib.h>
#include <zstd.h>

#include "runtime/belay.h"

/* Level 1: more would cost a hundred times as much for 1 %. The window only needs to span a block's
 * planes. */
#define COMPRESSION_LEVEL      1
#define COMPRESSION_WINDOW_LOG 17

struct call_log_encoder {
	ZSTD_CCtx *context;
	unsigned char *out;
	size_t out_bytes;
	size_t records_max;
	struct column_content content;
	struct column_work work;
};

static size_t content_bound(uint32_t nranks, size_t records_max)
{
	size_t calls = call_columns_bound(records_max, nranks);
	size_t events = event_columns_bound(records_max);

	return calls > events ? calls : events;
}

/* zstd's bound, and a block header for each flush. */
static size_t frame_bound(size_t content_bytes)
{
	return ZSTD_compressBound(content_bytes) + 32 * COLUMN_CUTS_MAX;
}

static int configure(ZSTD_CCtx *context)
{
	return ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel,
						   COMPRESSION_LEVEL)) ||
	       ZSTD_isError(
		       ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, COMPRESSION_WINDOW_LOG)) ||
	       ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1));
}

/* Compresses the content, each plane by itself: planes differ so much that a shared code would cost
 * 10 %. Returns the frame's bytes, 0 on failure. */
static size_t compress(struct call_log_encoder *encoder)
{
	const struct column_content *content = &encoder->content;
	ZSTD_outBuffer out = {encoder->out + CALL_LOG_HEAD_BYTES,
			      encoder->out_bytes - CALL_LOG_HEAD_BYTES, 0};
	ZSTD_inBuffer in = {content->bytes, 0, 0};

	if (ZSTD_isError(ZSTD_CCtx_reset(encoder->context, ZSTD_reset_session_only)) ||
	    ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(encoder->context, content->used)))
		return 0;
	for (size_t cut = 0; cut < content->ncuts; cut++) {
		in.size = content->cuts[cut];
		if (ZSTD_compressStream2(encoder->context, &out, &in, ZSTD_e_flush) != 0)
			return 0;
	}
	in.size = content->used;
	if (ZSTD_compressStream2(encoder->context, &out, &in, ZSTD_e_end) != 0)
		return 0;
	return out.pos;
}

/* Makes zstd take all the memory that it will need, now that its lack is still an error that
 * someone gets. */
static int warm_up(struct call_log_encoder *encoder, size_t content_bytes)
{
	encoder->content.used = content_bytes;
	encoder->content.ncuts = 0;
	return compress(encoder) ? 0 : BELAY_E_NO_MEMORY;
}

int call_log_encoder_create(uint32_t nranks, size_t records_max,
			    struct call_log_encoder **ret_encoder)
{
	size_t content_bytes = content_bound(nranks, records_max);
	struct call_log_encoder *encoder = calloc(1, sizeof(*encoder));
	int status = BELAY_E_NO_MEMORY;

	if (!encoder)
		goto out;
	encoder->records_max = records_max;
	encoder->out_bytes = CALL_LOG_HEAD_BYTES + frame_bound(content_bytes);
	encoder->out = malloc(encoder->out_bytes);
	encoder->content.bytes = calloc(1, content_bytes);
	encoder->context = ZSTD_createCCtx();
	if (!encoder->out || !encoder->content.bytes || !encoder->context ||
	    configure(encoder->context))
		goto out;
	status = warm_up(encoder, content_bytes);
	if (status)
		goto out;

	*ret_encoder = encoder;
	encoder = NULL; /* the caller's now */
out:
	call_log_encoder_free(encoder);
	return status;
}

void call_log_encoder_free(struct call_log_encoder *encoder)
{
	if (!encoder)
		return;
	ZSTD_freeCCtx(encoder->context);
	free(encoder->content.bytes);
	free(encoder->out);
	free(encoder);
}

static const void *row_at(const struct column_rows *rows, size_t i)
{
	return (const char *)rows->rows + ((rows->first + i) & rows->mask) * rows->stride;
}

static void describe_calls(const struct column_rows *rows, struct call_log_head *head)
{
	const struct call_record *first = row_at(rows, 0);
	const struct call_record *last = row_at(rows, rows->count - 1);

	head->first_seq = first->seq;
	head->first_ns = first->start_ns;
	head->last_ns = last->start_ns + last->duration_ns;
	for (size_t i = 0; i < rows->count; i++) {
		const struct call_record *record = row_at(rows, i);

		if (record->status)
			head->failures++; /* a block holds fewer records than this can count */
	}
}

static void describe_events(const struct column_rows *rows, struct call_log_head *head)
{
	const struct event_record *first = row_at(rows, 0);

	head->first_seq = first->seq;
	head->first_ns = first->time_ns;
	head->last_ns = ((const struct event_record *)row_at(rows, rows->count - 1))->time_ns;
}

int call_log_encode(struct call_log_encoder *encoder, enum call_log_block_kind kind,
		    const struct column_rows *rows, uint64_t index, uint64_t lost_total,
		    struct call_log_block *ret_block)
{
	struct call_log_head head = {
		.kind = (uint8_t)kind,
		.count = (uint16_t)rows->count,
		.first_index = index,
		.lost_total = lost_total,
	};

	assert(rows->count >= 1 && rows->count <= encoder->records_max);
	if (kind == CALL_LOG_BLOCK_CALLS) {
		describe_calls(rows, &head);
		call_columns_encode(&encoder->work, rows, &encoder->content);
	} else {
		describe_events(rows, &head);
		event_columns_encode(&encoder->work, rows, &encoder->content);
	}
	head.raw_bytes = (uint32_t)encoder->content.used;
	head.frame_bytes = (uint32_t)compress(encoder);
	if (!head.frame_bytes)
		return BELAY_E_SYSTEM;
	call_log_head_pack(&head, encoder->out);
	ret_block->bytes = encoder->out;
	ret_block->size = CALL_LOG_HEAD_BYTES + head.frame_bytes;
	return 0;
}

void call_log_encode_end(const struct call_log_totals *totals, uint64_t now_ns, int continued,
			 unsigned char *bytes)
{
	const struct call_log_head head = {
		.kind = CALL_LOG_BLOCK_END,
		.flags = continued ? CALL_LOG_END_CONTINUED : 0,
		.first_index = totals->calls,
		.lost_total = totals->calls_lost,
		.first_seq = totals->events,
		.first_ns = now_ns,
		.last_ns = totals->events_lost,
	};

	call_log_head_pack(&head, bytes);
}
