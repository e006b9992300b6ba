/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/log_generator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/belay.h"
#include "trace/call_log_encoder.h"
#include "trace/call_log_file.h"
#include "trace/call_record.h"

/* Events that wait for the next block of calls: as much as a block of calls usually brings. */
#define EVENTS_MAX 256

struct written_rank {
	struct call_log_encoder *encoder;
	struct call_log_file file;
	struct call_log_totals totals;
	unsigned char *records; /* the open block */
	size_t count;
	struct event_record events[EVENTS_MAX];
	size_t nevents;
};

struct generator {
	const struct log_scenario *scenario;
	const struct log_truth_taker *truth; /* NULL: nobody asks */
	const char *dir;
	struct log_result *result;
	uint32_t nranks;
	size_t stride;
	uint64_t dead; /* mask */
	struct written_rank ranks[BELAY_RANKS_MAX];
};

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* the machine may be busy */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int is_missing(const struct generator *g, uint32_t r)
{
	return g->scenario->missing >> r & 1;
}

/* Blocks ------------------------------------------------------------------------------------ */

static int write_block(struct generator *g, struct written_rank *rank,
		       const struct call_log_block *block)
{
	int status = call_log_file_prepare(&rank->file, block->size, &rank->totals);

	if (!status)
		status = call_log_file_append(&rank->file, block->bytes, block->size);
	if (status) {
		fprintf(stderr, "log generator: %s: %s\n", rank->file.failed_step,
			strerror(rank->file.failed_errno));
		return -1;
	}
	g->result->bytes += block->size;
	return 0;
}

static int flush_events(struct generator *g, struct written_rank *rank)
{
	struct column_rows rows = {
		.rows = rank->events,
		.stride = sizeof(rank->events[0]),
		.mask = SIZE_MAX,
		.count = rank->nevents,
		.nranks = g->nranks,
	};
	struct call_log_block block;

	if (!rank->nevents)
		return 0;
	if (call_log_encode(rank->encoder, CALL_LOG_BLOCK_EVENTS, &rows, rank->totals.events, 0,
			    &block) ||
	    write_block(g, rank, &block))
		return -1;
	rank->totals.events += rank->nevents;
	rank->nevents = 0;
	return 0;
}

static int flush_calls(struct generator *g, struct written_rank *rank)
{
	struct column_rows rows = {
		.rows = rank->records,
		.stride = g->stride,
		.mask = SIZE_MAX,
		.count = rank->count,
		.nranks = g->nranks,
		.tick_shift = (uint32_t)__builtin_ctzll((unsigned long long)g->scenario->tick_ns),
	};
	struct call_log_block block;
	uint64_t begin = cpu_ns();

	if (!rank->count)
		return 0;
	if (call_log_encode(rank->encoder, CALL_LOG_BLOCK_CALLS, &rows, rank->totals.calls,
			    rank->totals.calls_lost, &block))
		return -1;
	g->result->encode_ns += cpu_ns() - begin;
	if (write_block(g, rank, &block))
		return -1;
	rank->totals.calls += rank->count;
	g->result->records += rank->count;
	rank->count = 0;
	return 0;
}

/* Events stand near the calls of their time, as in a log that a running rank writes. */
static int flush(struct generator *g, struct written_rank *rank)
{
	return flush_events(g, rank) || flush_calls(g, rank) ? -1 : 0;
}

/* What the model tells ------------------------------------------------------------------------ */

static int take_event(void *user, uint32_t r, const struct event_record *event)
{
	struct generator *g = user;
	struct written_rank *rank = &g->ranks[r];

	if (is_missing(g, r))
		return 0;
	rank->events[rank->nevents++] = *event;
	return rank->nevents == EVENTS_MAX ? flush_events(g, rank) : 0;
}

/* Whether a rank's record of this call goes into its log; `ret_lost`: its writer dropped it. */
static int is_recorded(const struct generator *g, uint32_t r, uint64_t of_seq, int *ret_lost)
{
	const struct log_scenario *s = g->scenario;
	int64_t seq = (int64_t)of_seq;

	*ret_lost = (int64_t)r == s->lost_rank && seq >= s->lost_seq &&
		    seq < s->lost_seq + s->lost_count;
	if ((int64_t)r == s->partial_rank && (seq < s->partial_first || seq > s->partial_last))
		return 0;
	return !*ret_lost;
}

static int take_call(void *user, uint32_t r, const struct call_record *record)
{
	struct generator *g = user;
	struct written_rank *rank = &g->ranks[r];
	int lost;

	if (is_missing(g, r))
		return 0;
	if (!is_recorded(g, r, record->seq, &lost)) {
		/* A block holds no gap. */
		if (lost && flush(g, rank))
			return -1;
		rank->totals.calls_lost += (uint64_t)lost;
		return 0;
	}
	memcpy(rank->records + rank->count++ * g->stride, record, g->stride);
	return (int64_t)rank->count == g->scenario->block ? flush(g, rank) : 0;
}

static int take_truth(void *user, const struct log_truth *truth)
{
	struct generator *g = user;
	uint64_t all = UINT64_MAX >> (64 - g->nranks);

	g->dead = all & ~truth->ranks;
	return g->truth ? g->truth->take(g->truth->user, truth) : 0;
}

/* Files --------------------------------------------------------------------------------------- */

static void init_file(struct generator *g, uint32_t r, int salvaged_by)
{
	const struct call_log_file_config config = {
		.dir = g->dir,
		.comm_id = g->result->comm_id,
		.rank = r,
		.nranks = g->nranks,
		.salvaged_by = salvaged_by,
		.tick_ns = (uint32_t)g->scenario->tick_ns,
		.run_id = (uint64_t)g->scenario->seed * 1000 + r,
		.bytes_max = (uint64_t)g->scenario->file_bytes,
		.files_keep = (uint32_t)g->scenario->keep,
	};

	call_log_file_init(&g->ranks[r].file, &config);
}

static int begin_rank(struct generator *g, uint32_t r)
{
	struct written_rank *rank = &g->ranks[r];

	init_file(g, r, -1);
	rank->records = calloc((size_t)g->scenario->block, g->stride);
	if (rank->records &&
	    !call_log_encoder_create(g->nranks, (size_t)g->scenario->block, &rank->encoder))
		return 0;
	fprintf(stderr, "log generator: out of memory\n");
	return -1;
}

/* The killed rank's file ends where death found it; what stood in its ring a survivor writes, or
 * nobody does. */
static int end_killed(struct generator *g, uint32_t r)
{
	struct written_rank *rank = &g->ranks[r];

	call_log_file_close(&rank->file);
	if (!g->scenario->salvage)
		return 0;
	init_file(g, r, r == 0 ? 1 : 0);
	if (flush(g, rank))
		return -1;
	call_log_file_finish(&rank->file, &rank->totals);
	return 0;
}

static int end_rank(struct generator *g, uint32_t r)
{
	const struct log_scenario *s = g->scenario;
	struct written_rank *rank = &g->ranks[r];

	if (g->dead >> r & 1 && (int64_t)r == s->kill_rank)
		return end_killed(g, r);
	if (flush(g, rank))
		return -1;
	/* Who hangs closes nothing. */
	if ((int64_t)r == s->open_rank || g->dead >> r & 1)
		call_log_file_close(&rank->file);
	else
		call_log_file_finish(&rank->file, &rank->totals);
	return 0;
}

static int run(struct generator *g)
{
	const struct log_sink sink = {
		.user = g, .call = take_call, .event = take_event, .truth = take_truth};
	int status = 0;

	for (uint32_t r = 0; !status && r < g->nranks; r++)
		status = begin_rank(g, r);
	if (!status)
		status = log_model_play(g->scenario, &sink);
	for (uint32_t r = 0; !status && r < g->nranks; r++)
		status = end_rank(g, r);
	return status ? -1 : 0;
}

int log_generate(const char *dir, const struct log_scenario *scenario,
		 const struct log_truth_taker *truth, struct log_result *ret_result)
{
	struct generator *g = calloc(1, sizeof(*g));
	int status;

	memset(ret_result, 0, sizeof(*ret_result));
	if (!g)
		return -1;
	g->scenario = scenario;
	g->truth = truth;
	g->dir = dir;
	g->result = ret_result;
	g->nranks = (uint32_t)scenario->ranks;
	g->stride = call_record_stride(g->nranks);
	log_model_comm_id(scenario, ret_result->comm_id);
	status = run(g);
	for (uint32_t r = 0; r < g->nranks; r++) {
		call_log_file_close(&g->ranks[r].file);
		call_log_encoder_free(g->ranks[r].encoder);
		free(g->ranks[r].records);
	}
	free(g);
	return status;
}
