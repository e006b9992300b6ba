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

/* The model, nanoseconds: a verify pass of 61 layers takes about 30 ms. */
#define BASE_NS		   1000000000000u /* the clock when all begin */
#define PAUSE_FIRST_NS	   3000000	  /* before a pass */
#define PAUSE_EVEN_NS	   260000	  /* before the first call of a layer */
#define PAUSE_ODD_NS	   150000	  /* before the second */
#define STAGE_NS	   900
#define STAGE_JITTER_NS	   60
#define TRANSFER_NS	   2400
#define TRANSFER_JITTER_NS 220
#define REDUCE_NS	   1300
#define REDUCE_JITTER_NS   90
#define HICCUP_MAX_NS	   400000
#define EVENTS_MAX	   64

struct generated_rank {
	struct call_log_encoder *encoder;
	struct call_log_file file;
	struct call_log_totals totals;
	unsigned char *records;
	size_t count;
	struct event_record events[EVENTS_MAX];
	size_t nevents;
	uint64_t end_ns; /* of the call before, on the common clock */
	uint64_t start_ns, staged_ns;
};

struct generator {
	const struct log_scenario *scenario;
	struct log_result *result;
	uint64_t random;
	uint32_t nranks;
	size_t stride;
	uint64_t seq, pass;
	uint32_t index;
	int over; /* a verdict stands */
	struct generated_rank ranks[BELAY_RANKS_MAX];
};

/* Random numbers: splitmix64, so that they are the same everywhere. */
static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t next_random(struct generator *g)
{
	return mixed(g->random += 0x9e3779b97f4a7c15u);
}

/* Near enough to a normal distribution: the sum of twelve uniform numbers, in integers. */
static int64_t normal(struct generator *g, int64_t deviation)
{
	int64_t sum = 0;

	for (int i = 0; i < 3; i++) {
		uint64_t bits = next_random(g);

		for (int part = 0; part < 4; part++)
			sum += (int64_t)(bits >> (16 * part) & 0xffff) - 32768;
	}
	return sum * deviation / 65536;
}

static uint64_t around(struct generator *g, int64_t middle, int64_t deviation)
{
	int64_t value = middle + normal(g, deviation);

	return value > 0 ? (uint64_t)value : 0;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* the machine may be busy */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What a rank's own clock shows. */
static uint64_t rank_clock(const struct generator *g, uint32_t rank, uint64_t time_ns)
{
	const struct log_scenario *s = g->scenario;
	int64_t elapsed = (int64_t)(time_ns - BASE_NS);

	if ((int64_t)rank != s->clock_rank)
		return time_ns;
	return time_ns +
	       (uint64_t)(s->clock_offset_ns + elapsed / 1000 * s->clock_drift_ppb / 1000000);
}

/* Writing --------------------------------------------------------------------------------- */

static int write_block(struct generator *g, struct generated_rank *rank,
		       enum call_log_block_kind kind, const struct column_rows *rows)
{
	struct call_log_totals *totals = &rank->totals;
	struct call_log_block block;
	uint64_t begin = now_ns();
	int status;

	status = kind == CALL_LOG_BLOCK_CALLS
			 ? call_log_encode(rank->encoder, kind, rows, totals->calls,
					   totals->calls_lost, &block)
			 : call_log_encode(rank->encoder, kind, rows, totals->events, 0, &block);
	if (kind == CALL_LOG_BLOCK_CALLS)
		g->result->encode_ns += now_ns() - begin;
	if (!status)
		status = call_log_file_prepare(&rank->file, block.size, totals);
	if (!status)
		status = call_log_file_append(&rank->file, block.bytes, block.size);
	if (status) {
		fprintf(stderr, "log generator: %s: %s\n", rank->file.failed_step,
			strerror(rank->file.failed_errno));
		return -1;
	}
	g->result->bytes += block.size;
	return 0;
}

static int flush_calls(struct generator *g, uint32_t number)
{
	struct generated_rank *rank = &g->ranks[number];
	struct column_rows rows = {
		.rows = rank->records,
		.stride = g->stride,
		.mask = SIZE_MAX,
		.count = rank->count,
		.nranks = g->nranks,
		.tick_shift = (uint32_t)__builtin_ctzll((unsigned long long)g->scenario->tick_ns),
	};

	if (g->scenario->missing >> number & 1)
		rank->count = 0; /* nobody will read them */
	if (!rank->count)
		return 0;
	if (write_block(g, rank, CALL_LOG_BLOCK_CALLS, &rows))
		return -1;
	rank->totals.calls += rank->count;
	g->result->records += rank->count;
	rank->count = 0;
	return 0;
}

static int flush_events(struct generator *g, uint32_t number)
{
	struct generated_rank *rank = &g->ranks[number];
	struct column_rows rows = {
		.rows = rank->events,
		.stride = sizeof(rank->events[0]),
		.mask = SIZE_MAX,
		.count = rank->nevents,
		.nranks = g->nranks,
	};

	if (g->scenario->missing >> number & 1)
		rank->nevents = 0;
	if (!rank->nevents)
		return 0;
	if (write_block(g, rank, CALL_LOG_BLOCK_EVENTS, &rows))
		return -1;
	rank->totals.events += rank->nevents;
	rank->nevents = 0;
	return 0;
}

/* An event of this call and rank, to be filled further. */
static struct event_record *new_event(struct generator *g, uint32_t number, enum event_kind kind,
				      uint64_t time_ns)
{
	struct generated_rank *rank = &g->ranks[number];
	struct event_record *event;

	if (rank->nevents == EVENTS_MAX && flush_events(g, number))
		rank->nevents = 0; /* said on stderr; the next write fails as well */
	event = &rank->events[rank->nevents++];
	memset(event, 0, sizeof(*event));
	event->kind = (uint8_t)kind;
	event->time_ns = rank_clock(g, number, time_ns);
	event->seq = g->seq;
	event->pass = g->pass;
	event->peer = -1;
	return event;
}

/* One call ---------------------------------------------------------------------------------- */

static int is_straggling(const struct generator *g, uint32_t rank)
{
	const struct log_scenario *s = g->scenario;

	return (int64_t)rank == s->straggler && (int64_t)g->seq >= s->straggler_from &&
	       (!s->straggler_to || (int64_t)g->seq <= s->straggler_to);
}

static int is_dead(const struct generator *g, uint32_t rank)
{
	return (int64_t)rank == g->scenario->kill_rank && (int64_t)g->seq == g->scenario->kill_seq;
}

/* When each rank begins the call and has staged its input. */
static void begin_call(struct generator *g)
{
	const struct log_scenario *s = g->scenario;
	int64_t pause = !g->index ? PAUSE_FIRST_NS : g->index & 1 ? PAUSE_ODD_NS : PAUSE_EVEN_NS;
	int hiccup = s->hiccups && next_random(g) % (uint64_t)s->hiccups == 0;
	uint32_t late_rank = (uint32_t)(next_random(g) % g->nranks);

	for (uint32_t r = 0; r < g->nranks; r++) {
		struct generated_rank *rank = &g->ranks[r];

		rank->start_ns = rank->end_ns + around(g, pause, s->jitter_ns);
		if (is_straggling(g, r))
			rank->start_ns += around(g, s->straggler_ns, s->straggler_ns / 50);
		if (hiccup && r == late_rank)
			rank->start_ns += next_random(g) % HICCUP_MAX_NS;
		rank->staged_ns = rank->start_ns + around(g, STAGE_NS, STAGE_JITTER_NS);
	}
}

/* When `r` sees the input of `peer`, ns after its start; NONE when it never does. */
static uint64_t arrival_of(struct generator *g, uint32_t r, uint32_t peer)
{
	const struct log_scenario *s = g->scenario;
	const struct generated_rank *rank = &g->ranks[r];
	uint64_t sent = g->ranks[peer].staged_ns + around(g, TRANSFER_NS, TRANSFER_JITTER_NS);

	if (r == peer)
		return rank->staged_ns - rank->start_ns;
	if (is_dead(g, peer))
		return CALL_ARRIVAL_NONE;
	if ((int64_t)g->seq == s->rescue_seq && (int64_t)r == s->rescue_stuck &&
	    (int64_t)peer == s->rescue_lost)
		return CALL_ARRIVAL_NONE;
	/* What came early is seen at the first look after staging. */
	if (sent < rank->staged_ns)
		sent = rank->staged_ns + around(g, 60 + 25 * (int64_t)peer, 8);
	return sent - rank->start_ns;
}

static struct call_record *new_record(struct generator *g, uint32_t r)
{
	const struct log_scenario *s = g->scenario;
	struct generated_rank *rank = &g->ranks[r];
	struct call_record *record =
		(struct call_record *)(rank->records + rank->count * g->stride);

	memset(record, 0, g->stride);
	record->seq = g->seq;
	record->pass = g->pass;
	record->index = g->pass ? g->index : 0;
	record->start_ns = rank_clock(g, r, rank->start_ns);
	record->count = (uint64_t)s->count;
	record->staged_ns = (uint32_t)(rank->staged_ns - rank->start_ns);
	record->op = BELAY_SUM;
	record->dtype = (uint8_t)s->dtype;
	record->path = (uint8_t)s->path;
	record->algorithm = BELAY_ALGORITHM_TWOSHOT;
	record->flags = CALL_IN_PLACE;
	if (s->digests) {
		record->flags |= CALL_DIGEST;
		record->digest = mixed(g->seq);
		record->digest += (int64_t)g->seq == s->digest_seq && (int64_t)r == s->digest_rank;
	}
	return record;
}

/* Looks past the soft deadline: who was missing then, and the event that says so. */
static void judge_late(struct generator *g, uint32_t r, struct call_record *record)
{
	uint64_t late_ns = (uint64_t)g->scenario->late_ns;
	struct event_record *event;
	int worst = -1;

	if (record->duration_ns <= late_ns)
		return;
	for (uint32_t peer = 0; peer < g->nranks; peer++) {
		if (record->arrival_ns[peer] <= late_ns)
			continue;
		record->missing |= (uint64_t)1 << peer;
		if (worst < 0 || record->arrival_ns[peer] > record->arrival_ns[worst])
			worst = (int)peer;
	}
	if (!record->missing)
		return;
	record->flags |= CALL_LATE;
	event = new_event(g, r, EVENT_LATE, g->ranks[r].start_ns + late_ns);
	event->peer = worst;
	event->mask = record->missing;
	event->duration_ns = late_ns;
}

static void judge_rescue(struct generator *g, uint32_t r, struct call_record *record)
{
	const struct log_scenario *s = g->scenario;
	uint64_t begin = g->ranks[r].start_ns + (uint64_t)s->late_ns;
	struct event_record *event;

	if ((int64_t)g->seq != s->rescue_seq)
		return;
	event = new_event(g, r, EVENT_RESCUE_BEGIN, begin);
	event->peer = (int32_t)s->rescue_lost;
	event->value = 1;
	event->path = BELAY_PATH_RING;
	event = new_event(g, r, EVENT_RESCUE_END, begin + (uint64_t)s->rescue_ns);
	event->duration_ns = (uint64_t)s->rescue_ns;
	event->mask = (uint64_t)1 << s->rescue_stuck;
	if ((int64_t)r != s->rescue_stuck)
		return;
	record->duration_ns = (uint64_t)(s->late_ns + s->rescue_ns);
	record->rescue_ns = (uint64_t)s->rescue_ns;
	record->rescue_path = BELAY_PATH_RING;
	record->flags |= CALL_RESCUED | CALL_LATE;
	record->missing = (uint64_t)1 << s->rescue_lost;
}

static void give_verdict(struct generator *g, uint32_t r, struct call_record *record, int status,
			 enum belay_cause cause, int64_t culprit, const char *text)
{
	struct event_record *event =
		new_event(g, r, EVENT_VERDICT, g->ranks[r].start_ns + record->duration_ns);

	record->status = (int16_t)status;
	event->cause = (uint8_t)cause;
	event->peer = (int32_t)culprit;
	event->value = r == culprit ? 1 : 0;
	snprintf(event->text, sizeof(event->text), "%s", text);
	g->over = 1;
}

static void judge_verdict(struct generator *g, uint32_t r, struct call_record *record)
{
	const struct log_scenario *s = g->scenario;
	char text[EVENT_TEXT_BYTES];

	if ((int64_t)g->seq == s->kill_seq) {
		record->duration_ns = 1500000;
		snprintf(text, sizeof(text), "rank %d is gone", (int)s->kill_rank);
		give_verdict(g, r, record, BELAY_E_PEER_LOST, BELAY_CAUSE_PEER_LOST, s->kill_rank,
			     text);
	} else if ((int64_t)g->seq == s->mismatch_seq) {
		if ((int64_t)r == s->mismatch_rank)
			record->count *= 2;
		snprintf(text, sizeof(text), "rank %d called with count %lld, the others with %lld",
			 (int)s->mismatch_rank, 2 * (long long)s->count, (long long)s->count);
		give_verdict(g, r, record, BELAY_E_MISMATCH, BELAY_CAUSE_MISMATCH, s->mismatch_rank,
			     text);
	}
}

/* Whether a rank's record of this call goes into its log. */
static int is_recorded(struct generator *g, uint32_t r)
{
	const struct log_scenario *s = g->scenario;
	int64_t seq = (int64_t)g->seq;

	if ((int64_t)r == s->partial_rank && (seq < s->partial_first || seq > s->partial_last))
		return 0;
	return !((int64_t)r == s->lost_rank && seq >= s->lost_seq &&
		 seq < s->lost_seq + s->lost_count);
}

static int finish_call(struct generator *g, uint32_t r)
{
	struct generated_rank *rank = &g->ranks[r];
	struct call_record *record = new_record(g, r);
	uint64_t last = 0;

	for (uint32_t peer = 0; peer < g->nranks; peer++) {
		record->arrival_ns[peer] = arrival_of(g, r, peer);
		if (record->arrival_ns[peer] != CALL_ARRIVAL_NONE &&
		    record->arrival_ns[peer] > last)
			last = record->arrival_ns[peer];
	}
	record->duration_ns = last + around(g, REDUCE_NS, REDUCE_JITTER_NS);
	judge_rescue(g, r, record);
	judge_late(g, r, record);
	judge_verdict(g, r, record);
	rank->end_ns = rank->start_ns + record->duration_ns;
	if (is_recorded(g, r))
		rank->count++;
	else if ((int64_t)r == g->scenario->lost_rank && flush_calls(g, r))
		return -1;
	else if ((int64_t)r == g->scenario->lost_rank)
		rank->totals.calls_lost++;
	return (int64_t)rank->count == g->scenario->block ? flush_calls(g, r) : 0;
}

static void mark_pass(struct generator *g, uint32_t r, enum event_kind kind)
{
	struct event_record *event;

	if (!g->pass)
		return;
	event = new_event(g, r, kind, g->ranks[r].end_ns);
	event->duration_ns = kind == EVENT_PASS_END ? around(g, 700, 80) : 0;
	if (kind == EVENT_PASS_END)
		event->seq = g->seq - 1;
}

static int make_call(struct generator *g)
{
	begin_call(g);
	for (uint32_t r = 0; r < g->nranks; r++)
		if (!is_dead(g, r) && finish_call(g, r))
			return -1;
	return 0;
}

static int make_pass(struct generator *g)
{
	for (uint32_t r = 0; r < g->nranks; r++)
		mark_pass(g, r, EVENT_PASS_BEGIN);
	for (g->index = 0; (int64_t)g->index < g->scenario->calls && !g->over; g->index++, g->seq++)
		if (make_call(g))
			return -1;
	for (uint32_t r = 0; r < g->nranks && !g->over; r++)
		mark_pass(g, r, EVENT_PASS_END);
	return 0;
}

/* Life ------------------------------------------------------------------------------------ */

static void init_file(struct generator *g, const char *dir, uint32_t r, int salvaged_by)
{
	const struct call_log_file_config config = {
		.dir = dir,
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

static int begin_rank(struct generator *g, const char *dir, uint32_t r)
{
	struct generated_rank *rank = &g->ranks[r];
	struct event_record *event;

	init_file(g, dir, r, -1);
	rank->end_ns = BASE_NS;
	rank->records = calloc((size_t)g->scenario->block, g->stride);
	if (!rank->records ||
	    call_log_encoder_create(g->nranks, (size_t)g->scenario->block, &rank->encoder)) {
		fprintf(stderr, "log generator: out of memory\n");
		return -1;
	}
	event = new_event(g, r, EVENT_COMM_CREATE, BASE_NS);
	event->seq = 0;
	event->value = g->nranks;
	event->mask = 1u << BELAY_PATH_SYMM | 1u << BELAY_PATH_RING;
	snprintf(event->text, sizeof(event->text), "0.1.0");
	return 0;
}

/* The killed rank's file ends where death found it; what stood in its ring a survivor writes, or
 * nobody does. */
static int end_killed(struct generator *g, const char *dir, uint32_t r)
{
	struct generated_rank *rank = &g->ranks[r];

	call_log_file_close(&rank->file);
	if (!g->scenario->salvage) {
		rank->count = 0;
		rank->nevents = 0;
		return 0;
	}
	init_file(g, dir, r, r == 0 ? 1 : 0);
	return flush_events(g, r) || flush_calls(g, r);
}

static int end_rank(struct generator *g, const char *dir, uint32_t r)
{
	struct generated_rank *rank = &g->ranks[r];
	int killed = g->over && (int64_t)r == g->scenario->kill_rank && g->scenario->kill_seq;
	struct event_record *event;

	if (killed && end_killed(g, dir, r))
		return -1;
	if (!killed) {
		event = new_event(g, r, EVENT_COMM_DESTROY, rank->end_ns);
		event->seq = 0;
		event->pass = 0;
		event->value = (int64_t)(g->seq - (uint64_t)g->scenario->first_seq);
		if (flush_events(g, r) || flush_calls(g, r))
			return -1;
	}
	if ((int64_t)r == g->scenario->open_rank)
		call_log_file_close(&rank->file);
	else
		call_log_file_finish(&rank->file, &rank->totals);
	return 0;
}

static int run(struct generator *g, const char *dir)
{
	for (uint32_t r = 0; r < g->nranks; r++)
		if (begin_rank(g, dir, r))
			return -1;
	for (int64_t pass = 1; pass <= g->scenario->passes && !g->over; pass++) {
		g->pass = g->scenario->marks ? (uint64_t)pass : 0;
		if (make_pass(g))
			return -1;
	}
	for (uint32_t r = 0; r < g->nranks; r++)
		if (end_rank(g, dir, r))
			return -1;
	return 0;
}

int log_generate(const char *dir, const struct log_scenario *scenario,
		 struct log_result *ret_result)
{
	struct generator *g = calloc(1, sizeof(*g));
	int status;

	memset(ret_result, 0, sizeof(*ret_result));
	if (!g)
		return -1;
	g->scenario = scenario;
	g->result = ret_result;
	g->random = (uint64_t)scenario->seed;
	g->nranks = (uint32_t)scenario->ranks;
	g->stride = call_record_stride(g->nranks);
	g->seq = (uint64_t)scenario->first_seq;
	snprintf(ret_result->comm_id, sizeof(ret_result->comm_id), "%016llx%016llx",
		 (unsigned long long)next_random(g), (unsigned long long)next_random(g));
	status = run(g, dir);
	for (uint32_t r = 0; r < g->nranks; r++) {
		call_log_file_close(&g->ranks[r].file);
		call_log_encoder_free(g->ranks[r].encoder);
		free(g->ranks[r].records);
	}
	free(g);
	return status;
}
