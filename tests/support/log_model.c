/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/log_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The times of the model, ns: a verify pass of 61 layers takes about 30 ms. */
#define PAUSE_FIRST_NS	  3000000 /* before a pass */
#define PAUSE_EVEN_NS	  260000  /* before the first call of a layer */
#define PAUSE_ODD_NS	  150000  /* before the second */
#define STAGE_NS	  900
#define STAGE_JITTER_NS	  60
#define REDUCE_NS	  1300
#define REDUCE_JITTER_NS  90
#define HICCUP_MAX_NS	  400000
#define DEATH_NOTICED_NS  1500000
#define COUNT_OF_TRANSFER 57344 /* elements that take the second part of transfer_by[] */

/* Of an input from rank to rank: at least, by size, deviation. */
static const struct {
	int64_t least_ns, size_ns, jitter_ns;
} transfer_by[] = {
	[BELAY_PATH_SYMM] = {1800, 600, 220},
	[BELAY_PATH_NCCL] = {14000, 2000, 700},
	[BELAY_PATH_HOST] = {6000, 9000, 900},
	[BELAY_PATH_RING] = {40000, 60000, 4000},
};
#define PATHS (sizeof(transfer_by) / sizeof(transfer_by[0]))

struct played_rank {
	struct log_clock clock;
	uint64_t end_ns; /* of the call before; all three on the true clock */
	uint64_t start_ns, staged_ns;
};

struct model {
	const struct log_scenario *scenario;
	const struct log_sink *sink;
	struct call_record *record; /* room for one */
	size_t record_bytes;
	uint64_t random;
	uint32_t nranks;
	/* The call being played. */
	uint64_t seq, pass;
	uint64_t made; /* calls so far, this one included */
	uint32_t index;
	int64_t pass_calls; /* of a whole pass of this kind */
	int in_pass;
	uint64_t count;
	uint8_t path;
	/* The breaker: the ring from seq to before seq. */
	int64_t rescues;
	uint64_t ring_from, ring_until;
	int over;   /* a verdict stands */
	int status; /* the first of the sink that is not 0 */
	struct log_truth truth;
	struct played_rank ranks[BELAY_RANKS_MAX];
};

/* Random numbers: splitmix64, so that they are the same everywhere. */
static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t next_random(uint64_t *random)
{
	return mixed(*random += 0x9e3779b97f4a7c15u);
}

/* A number that belongs to a thing of the scenario, whatever was drawn before. */
static uint64_t random_of(const struct log_scenario *s, uint64_t thing, uint64_t number)
{
	return mixed(mixed((uint64_t)s->seed + thing * 0x9e3779b97f4a7c15u) + number);
}

enum thing { THING_OFFSET = 1, THING_DRIFT, THING_TOKENS, THING_COUNT, THING_NOISE };

/* Near enough to a normal distribution: the sum of twelve uniform numbers, in integers. */
static int64_t normal(struct model *m, int64_t deviation)
{
	int64_t sum = 0;

	for (int i = 0; i < 3; i++) {
		uint64_t bits = next_random(&m->random);

		for (int part = 0; part < 4; part++)
			sum += (int64_t)(bits >> (16 * part) & 0xffff) - 32768;
	}
	return sum * deviation / 65536;
}

static uint64_t around(struct model *m, int64_t middle, int64_t deviation)
{
	int64_t value = middle + normal(m, deviation);

	return value > 0 ? (uint64_t)value : 0;
}

void log_model_comm_id(const struct log_scenario *scenario, char *ret_id)
{
	uint64_t random = (uint64_t)scenario->seed;
	unsigned long long high = next_random(&random), low = next_random(&random);

	snprintf(ret_id, 33, "%016llx%016llx", high, low);
}

/* Clocks ------------------------------------------------------------------------------------ */

/* -limit .. limit */
static int64_t within(uint64_t random, int64_t limit)
{
	return limit ? (int64_t)(random % (2 * (uint64_t)limit + 1)) - limit : 0;
}

struct log_clock log_model_clock(const struct log_scenario *s, uint32_t rank)
{
	struct log_clock clock = {0};

	if (rank > 0) {
		clock.offset_ns = within(random_of(s, THING_OFFSET, rank), s->clocks_offset_ns);
		clock.drift_ppb = within(random_of(s, THING_DRIFT, rank), s->clocks_drift_ppb);
	}
	if ((int64_t)rank == s->clock_rank) {
		clock.offset_ns += s->clock_offset_ns;
		clock.drift_ppb += s->clock_drift_ppb;
	}
	return clock;
}

/* What a time that passed is on the rank's clock. In two parts, so that nothing overflows. */
static uint64_t span_on(const struct log_clock *clock, uint64_t ns)
{
	int64_t seconds = (int64_t)(ns / 1000000000u), rest = (int64_t)(ns % 1000000000u);

	if (!clock->drift_ppb)
		return ns;
	return ns + (uint64_t)(seconds * clock->drift_ppb + rest * clock->drift_ppb / 1000000000);
}

static uint64_t time_on(const struct log_clock *clock, uint64_t time_ns)
{
	return LOG_MODEL_BEGIN_NS + span_on(clock, time_ns - LOG_MODEL_BEGIN_NS) +
	       (uint64_t)clock->offset_ns;
}

/* Telling ----------------------------------------------------------------------------------- */

/* An event of this call and rank, to be filled further. */
static struct event_record event_of(const struct model *m, uint32_t r, enum event_kind kind,
				    uint64_t time_ns)
{
	return (struct event_record){
		.kind = (uint8_t)kind,
		.time_ns = time_on(&m->ranks[r].clock, time_ns),
		.seq = m->seq,
		.pass = m->in_pass && m->scenario->marks ? m->pass : 0,
		.peer = -1,
	};
}

static void tell_event(struct model *m, uint32_t r, const struct event_record *event)
{
	if (!m->status && m->sink->event)
		m->status = m->sink->event(m->sink->user, r, event);
}

/* The record's times, so far true ones, become those of the rank's clock. */
static void tell_call(struct model *m, uint32_t r)
{
	const struct played_rank *rank = &m->ranks[r];
	struct call_record *record = m->record;

	record->start_ns = time_on(&rank->clock, rank->start_ns);
	record->staged_ns = (uint32_t)span_on(&rank->clock, rank->staged_ns - rank->start_ns);
	record->enqueue_ns = (uint32_t)m->scenario->enqueue_ns;
	record->duration_ns = span_on(&rank->clock, record->duration_ns);
	record->rescue_ns = span_on(&rank->clock, record->rescue_ns);
	for (uint32_t peer = 0; rank->clock.drift_ppb && peer < m->nranks; peer++) {
		if (record->arrival_ns[peer] != CALL_ARRIVAL_NONE)
			record->arrival_ns[peer] = span_on(&rank->clock, record->arrival_ns[peer]);
	}
	if (!m->status)
		m->status = m->sink->call(m->sink->user, r, record);
}

static void tell_truth(struct model *m)
{
	struct log_truth *truth = &m->truth;
	uint64_t last_ns = 0;

	if (m->status || !m->sink->truth)
		return;
	truth->seq = m->seq;
	truth->pass = m->in_pass ? m->pass : 0;
	truth->nranks = m->nranks;
	for (uint32_t r = 0; r < m->nranks; r++) {
		const struct played_rank *rank = &m->ranks[r];

		truth->of[r] =
			(struct log_truth_rank){rank->start_ns, rank->staged_ns, rank->end_ns};
		if (truth->ranks >> r & 1 && rank->staged_ns > last_ns) {
			last_ns = rank->staged_ns;
			truth->last_rank = r;
		}
	}
	m->status = m->sink->truth(m->sink->user, truth);
}

/* The scenario's rules ------------------------------------------------------------------------ */

static uint64_t pattern_count(const struct model *m)
{
	const struct log_scenario *s = m->scenario;
	uint64_t count = (uint64_t)s->count;

	switch ((enum log_pattern)s->pattern) {
	case LOG_PATTERN_LAYERS:
		return m->index + 1 == m->pass_calls ? count / 4 : count << (m->index & 1);
	case LOG_PATTERN_TOKENS:
		return count / 8 * (1 + random_of(s, THING_TOKENS, m->pass) % 16);
	case LOG_PATTERN_RANDOM:
		return count / 8 * (1 + random_of(s, THING_COUNT, m->seq) % 16);
	case LOG_PATTERN_ALIKE:
		break;
	}
	return count;
}

static uint64_t count_of_call(const struct model *m)
{
	const struct log_scenario *s = m->scenario;

	if (!m->in_pass)
		return (uint64_t)s->count / 2;
	if (s->noise && random_of(s, THING_NOISE, m->seq) % (uint64_t)s->noise == 0)
		return (uint64_t)s->count * 3;
	return pattern_count(m);
}

/* Whether a thing that began in `first` and comes again `every` so many is due. */
static int is_due(uint64_t now, int64_t first, int64_t every)
{
	if (first <= 0 || now < (uint64_t)first)
		return 0;
	return every > 0 ? (now - (uint64_t)first) % (uint64_t)every == 0 : now == (uint64_t)first;
}

static int is_between(uint64_t now, int64_t from, int64_t to)
{
	return (int64_t)now >= from && (!to || (int64_t)now <= to);
}

static int is_straggling(const struct model *m, uint32_t r)
{
	const struct log_scenario *s = m->scenario;
	uint64_t first = s->straggler_from > 0 ? (uint64_t)s->straggler_from : 1;
	uint64_t rank = (uint64_t)s->straggler;

	if (s->straggler < 0 || !is_between(m->seq, (int64_t)first, s->straggler_to))
		return 0;
	if (s->rotate > 0)
		rank = (rank + (m->seq - first) / (uint64_t)s->rotate) % m->nranks;
	return r == rank;
}

static int is_slow(const struct model *m, uint32_t r)
{
	const struct log_scenario *s = m->scenario;

	return (int64_t)r == s->slow_rank && m->in_pass &&
	       is_due(m->pass, s->slow_pass, s->slow_every);
}

/* Lost writes are of the first path: where it is not taken, nothing is lost. */
static int is_lost_write(const struct model *m)
{
	const struct log_scenario *s = m->scenario;

	return m->path == s->path && is_due(m->seq, s->rescue_seq, s->rescue_every);
}

static int is_rescued(const struct model *m, uint32_t r)
{
	const struct log_scenario *s = m->scenario;

	return is_lost_write(m) && (s->rescue_stuck < 0 || (int64_t)r == s->rescue_stuck);
}

/* Dead, or stuck for ever: makes this call no more. */
static int is_absent(const struct model *m, uint32_t r)
{
	const struct log_scenario *s = m->scenario;

	return ((int64_t)r == s->kill_rank && (int64_t)m->seq == s->kill_seq) ||
	       ((int64_t)r == s->stuck_rank && (int64_t)m->seq == s->stuck_seq);
}

static uint8_t path_of_call(const struct model *m)
{
	const struct log_scenario *s = m->scenario;

	if (m->seq >= m->ring_from && m->seq < m->ring_until)
		return BELAY_PATH_RING;
	if (s->switch_seq && (int64_t)m->seq >= s->switch_seq &&
	    (!s->switch_back || (int64_t)m->seq < s->switch_back))
		return (uint8_t)s->switch_path;
	return (uint8_t)s->path;
}

/* One call ------------------------------------------------------------------------------------ */

static void tell_breaker(struct model *m, enum belay_breaker_state state, uint8_t path)
{
	struct event_record event = event_of(m, 0, EVENT_BREAKER, m->ranks[0].end_ns);

	event.pass = 0; /* the watcher knows of no pass */
	event.value = state;
	event.path = path;
	tell_event(m, 0, &event);
}

/* The path of this call, and what its change is told by. */
static void choose_path(struct model *m)
{
	uint8_t before = m->path;
	int is_breaker = m->seq == m->ring_from || m->seq == m->ring_until;

	if (m->seq == m->ring_until) {
		tell_breaker(m, BELAY_BREAKER_HALF_OPEN, (uint8_t)m->scenario->path);
		tell_breaker(m, BELAY_BREAKER_CLOSED, (uint8_t)m->scenario->path);
	}
	m->path = path_of_call(m);
	for (uint32_t r = 0; r < m->nranks && m->path != before; r++) {
		struct event_record event = event_of(m, r, EVENT_PATH_SWITCH, m->ranks[r].end_ns);

		event.path = m->path;
		event.value = before;
		snprintf(event.text, sizeof(event.text), "%s",
			 !is_breaker ? "the scenario's wish"
			 : m->seq == m->ring_from
				 ? "the breaker opened: too many rescues on the path"
				 : "the breaker closed: every rank has seen every probe of the "
				   "path");
		tell_event(m, r, &event);
	}
}

/* After a call with a lost write. The switch is agreed for the call after the next. */
static void note_rescue(struct model *m)
{
	const struct log_scenario *s = m->scenario;

	if (!s->breaker || ++m->rescues < s->breaker)
		return;
	m->rescues = 0;
	m->ring_from = m->seq + 2;
	m->ring_until = s->breaker_calls ? m->ring_from + (uint64_t)s->breaker_calls : UINT64_MAX;
	tell_breaker(m, BELAY_BREAKER_OPEN, BELAY_PATH_RING);
}

/* When each rank begins the call and has staged its input. */
static void begin_call(struct model *m)
{
	const struct log_scenario *s = m->scenario;
	int64_t pause = !m->index ? PAUSE_FIRST_NS : m->index & 1 ? PAUSE_ODD_NS : PAUSE_EVEN_NS;
	int hiccup = s->hiccups && next_random(&m->random) % (uint64_t)s->hiccups == 0;
	uint32_t late_rank = (uint32_t)(next_random(&m->random) % m->nranks);

	for (uint32_t r = 0; r < m->nranks; r++) {
		struct played_rank *rank = &m->ranks[r];

		rank->start_ns = rank->end_ns + around(m, pause, s->jitter_ns);
		if (is_straggling(m, r))
			rank->start_ns += around(m, s->straggler_ns, s->straggler_ns / 50);
		if (is_slow(m, r))
			rank->start_ns += around(m, s->slow_ns, s->slow_ns / 50);
		if (hiccup && r == late_rank)
			rank->start_ns += next_random(&m->random) % HICCUP_MAX_NS;
		rank->staged_ns = rank->start_ns + around(m, STAGE_NS, STAGE_JITTER_NS);
	}
}

static uint64_t transfer_time(struct model *m)
{
	size_t path = m->path < PATHS ? m->path : 0;
	int64_t by_size = transfer_by[path].size_ns * (int64_t)m->count / COUNT_OF_TRANSFER;

	return around(m, transfer_by[path].least_ns + by_size, transfer_by[path].jitter_ns);
}

/* When `r` sees the input of `peer`, ns after its start; NONE when it never does. */
static uint64_t arrival_of(struct model *m, uint32_t r, uint32_t peer)
{
	const struct played_rank *rank = &m->ranks[r];
	uint64_t sent = m->ranks[peer].staged_ns + transfer_time(m);

	if (r == peer)
		return rank->staged_ns - rank->start_ns;
	if (is_absent(m, peer))
		return CALL_ARRIVAL_NONE;
	if (is_rescued(m, r) && (int64_t)peer == m->scenario->rescue_lost)
		return CALL_ARRIVAL_NONE;
	/* What came early is seen at the first look after staging. */
	if (sent < rank->staged_ns)
		sent = rank->staged_ns + around(m, 60 + 25 * (int64_t)peer, 8);
	return sent - rank->start_ns;
}

static void fill_record(struct model *m, uint32_t r)
{
	const struct log_scenario *s = m->scenario;
	struct call_record *record = m->record;
	int marked = m->in_pass && s->marks;

	memset(record, 0, m->record_bytes);
	record->seq = m->seq;
	record->pass = marked ? m->pass : 0;
	record->index = marked ? m->index : 0;
	record->count = m->count;
	record->op = BELAY_SUM;
	record->dtype = (uint8_t)s->dtype;
	record->path = m->path;
	record->algorithm =
		m->path == BELAY_PATH_RING ? BELAY_ALGORITHM_GATHER : BELAY_ALGORITHM_TWOSHOT;
	record->flags = CALL_IN_PLACE;
	if (s->digests) {
		record->flags |= CALL_DIGEST;
		record->digest = mixed(m->seq);
		record->digest += (int64_t)m->seq == s->digest_seq && (int64_t)r == s->digest_rank;
	}
}

static void fill_arrivals(struct model *m, uint32_t r)
{
	struct call_record *record = m->record;
	uint64_t last = 0;

	for (uint32_t peer = 0; peer < m->nranks; peer++) {
		record->arrival_ns[peer] = arrival_of(m, r, peer);
		if (record->arrival_ns[peer] != CALL_ARRIVAL_NONE &&
		    record->arrival_ns[peer] > last)
			last = record->arrival_ns[peer];
	}
	record->duration_ns = last + around(m, REDUCE_NS, REDUCE_JITTER_NS);
}

/* What went wrong in it -------------------------------------------------------------------------
 */

static void judge_rescue(struct model *m, uint32_t r)
{
	const struct log_scenario *s = m->scenario;
	struct call_record *record = m->record;
	uint64_t begin = m->ranks[r].start_ns + (uint64_t)s->late_ns;
	struct event_record event;

	if (!is_lost_write(m))
		return;
	event = event_of(m, r, EVENT_RESCUE_BEGIN, begin);
	event.peer = (int32_t)s->rescue_lost;
	event.value = 1;
	event.path = BELAY_PATH_RING;
	tell_event(m, r, &event);
	event = event_of(m, r, EVENT_RESCUE_END, begin + (uint64_t)s->rescue_ns);
	event.path = BELAY_PATH_RING;
	event.duration_ns = (uint64_t)s->rescue_ns;
	event.mask = s->rescue_stuck < 0 ? UINT64_MAX >> (64 - m->nranks)
					 : (uint64_t)1 << s->rescue_stuck;
	tell_event(m, r, &event);
	if (!is_rescued(m, r))
		return;
	record->duration_ns = (uint64_t)(s->late_ns + s->rescue_ns);
	record->rescue_ns = (uint64_t)s->rescue_ns;
	record->rescue_path = BELAY_PATH_RING;
	record->flags |= CALL_RESCUED | CALL_LATE;
	record->missing = (uint64_t)1 << s->rescue_lost;
}

/* Looks past the soft deadline: who was missing then, and the event that says so. */
static void judge_late(struct model *m, uint32_t r)
{
	uint64_t late_ns = (uint64_t)m->scenario->late_ns;
	struct call_record *record = m->record;
	struct event_record event;
	int worst = -1;

	if (record->duration_ns <= late_ns)
		return;
	for (uint32_t peer = 0; peer < m->nranks; peer++) {
		if (record->arrival_ns[peer] <= late_ns)
			continue;
		record->missing |= (uint64_t)1 << peer;
		if (worst < 0 || record->arrival_ns[peer] > record->arrival_ns[worst])
			worst = (int)peer;
	}
	/* What a rescue gives was not late but lost. */
	if (!record->missing || is_rescued(m, r))
		return;
	record->flags |= CALL_LATE;
	event = event_of(m, r, EVENT_LATE, m->ranks[r].start_ns + late_ns);
	event.peer = worst;
	event.mask = record->missing;
	event.duration_ns = late_ns;
	tell_event(m, r, &event);
}

static void give_verdict(struct model *m, uint32_t r, int status, enum belay_cause cause,
			 int64_t culprit, const char *text)
{
	struct event_record event =
		event_of(m, r, EVENT_VERDICT, m->ranks[r].start_ns + m->record->duration_ns);

	m->record->status = (int16_t)status;
	event.cause = (uint8_t)cause;
	event.peer = (int32_t)culprit;
	event.value = culprit == 0; /* the proposer: the lowest that can */
	snprintf(event.text, sizeof(event.text), "%s", text);
	tell_event(m, r, &event);
	m->over = 1;
}

static void judge_absent(struct model *m, uint32_t r)
{
	const struct log_scenario *s = m->scenario;
	char text[EVENT_TEXT_BYTES];

	if ((int64_t)m->seq == s->kill_seq) {
		snprintf(text, sizeof(text),
			 "rank %d died before it staged seq %llu; its last call was seq %llu",
			 (int)s->kill_rank, (unsigned long long)m->seq,
			 (unsigned long long)m->seq - 1);
		give_verdict(m, r, BELAY_E_PEER_LOST, BELAY_CAUSE_PEER_LOST, s->kill_rank, text);
	} else if ((int64_t)m->seq == s->stuck_seq) {
		snprintf(text, sizeof(text),
			 "rank %d has not come to seq %llu within the hard deadline; its process "
			 "is stopped",
			 (int)s->stuck_rank, (unsigned long long)m->seq);
		give_verdict(m, r, BELAY_E_PEER_STUCK, BELAY_CAUSE_PEER_STUCK, s->stuck_rank, text);
	}
}

static void judge_mismatch(struct model *m, uint32_t r)
{
	const struct log_scenario *s = m->scenario;
	unsigned long long count = m->count;
	char text[EVENT_TEXT_BYTES];

	if ((int64_t)m->seq != s->mismatch_seq)
		return;
	if ((int64_t)r == s->mismatch_rank)
		m->record->count *= 2;
	snprintf(text, sizeof(text), "rank %d called with count %llu, the others with %llu",
		 (int)s->mismatch_rank, 2 * count, count);
	give_verdict(m, r, BELAY_E_MISMATCH, BELAY_CAUSE_MISMATCH, s->mismatch_rank, text);
}

static void set_duration_of_absence(struct model *m)
{
	const struct log_scenario *s = m->scenario;

	if (s->kill_rank >= 0 && (int64_t)m->seq == s->kill_seq)
		m->record->duration_ns = DEATH_NOTICED_NS;
	if (s->stuck_rank >= 0 && (int64_t)m->seq == s->stuck_seq)
		m->record->duration_ns = (uint64_t)s->give_up_ns;
}

static void finish_call(struct model *m, uint32_t r)
{
	struct played_rank *rank = &m->ranks[r];

	fill_record(m, r);
	fill_arrivals(m, r);
	set_duration_of_absence(m);
	judge_rescue(m, r);
	judge_late(m, r);
	judge_absent(m, r);
	judge_mismatch(m, r);
	rank->end_ns = rank->start_ns + m->record->duration_ns;
	m->truth.ranks |= (uint64_t)1 << r;
	tell_call(m, r);
}

static void make_call(struct model *m)
{
	m->made++;
	choose_path(m);
	m->count = count_of_call(m);
	m->truth.ranks = 0;
	begin_call(m);
	for (uint32_t r = 0; r < m->nranks; r++) {
		if (!is_absent(m, r))
			finish_call(m, r);
	}
	tell_truth(m);
	if (is_lost_write(m))
		note_rescue(m);
}

/* Passes and life -------------------------------------------------------------------------------
 */

static void mark_pass(struct model *m, uint32_t r, enum event_kind kind)
{
	struct event_record event;

	if (!m->scenario->marks)
		return;
	event = event_of(m, r, kind, m->ranks[r].end_ns);
	event.duration_ns = kind == EVENT_PASS_END ? around(m, 700, 80) : 0;
	if (kind == EVENT_PASS_END)
		event.seq = m->seq - 1;
	tell_event(m, r, &event);
}

static int is_going_on(const struct model *m)
{
	return !m->over && !m->status;
}

static void make_calls(struct model *m, int64_t calls)
{
	for (m->index = 0; (int64_t)m->index < calls && is_going_on(m); m->index++, m->seq++)
		make_call(m);
}

static void make_pass(struct model *m, int64_t calls)
{
	m->in_pass = 1;
	for (uint32_t r = 0; r < m->nranks; r++)
		mark_pass(m, r, EVENT_PASS_BEGIN);
	make_calls(m, calls);
	for (uint32_t r = 0; r < m->nranks && is_going_on(m); r++)
		mark_pass(m, r, EVENT_PASS_END);
}

static void make_passes(struct model *m)
{
	const struct log_scenario *s = m->scenario;

	for (int64_t pass = 1; pass <= s->passes && is_going_on(m); pass++) {
		int64_t cut = pass + 1 == s->break_pass && s->break_calls < 0 ? s->break_calls : 0;

		m->in_pass = 0;
		if (pass == s->break_pass)
			make_calls(m, s->break_calls);
		m->pass = (uint64_t)pass;
		m->pass_calls = s->break_pass && pass >= s->break_pass && s->break_period
					? s->break_period
					: s->calls;
		if (is_going_on(m))
			make_pass(m, m->pass_calls + cut);
	}
}

static void begin_rank(struct model *m, uint32_t r)
{
	struct event_record event;

	m->ranks[r].end_ns = LOG_MODEL_BEGIN_NS;
	m->ranks[r].clock = log_model_clock(m->scenario, r);
	event = event_of(m, r, EVENT_COMM_CREATE, LOG_MODEL_BEGIN_NS);
	event.seq = 0;
	event.value = m->nranks;
	event.mask = 1u << BELAY_PATH_SYMM | 1u << BELAY_PATH_RING;
	snprintf(event.text, sizeof(event.text), "0.1.0");
	tell_event(m, r, &event);
}

static void end_rank(struct model *m, uint32_t r)
{
	struct event_record event = event_of(m, r, EVENT_COMM_DESTROY, m->ranks[r].end_ns);

	if (is_absent(m, r))
		return;
	event.seq = 0;
	event.pass = 0;
	event.value = (int64_t)m->made;
	tell_event(m, r, &event);
}

int log_model_play(const struct log_scenario *scenario, const struct log_sink *sink)
{
	struct model *m = calloc(1, sizeof(*m));
	int status = -1;

	if (!m)
		goto out;
	m->scenario = scenario;
	m->sink = sink;
	m->random = (uint64_t)scenario->seed;
	(void)next_random(&m->random); /* the two of the communicator's id */
	(void)next_random(&m->random);
	m->nranks = (uint32_t)scenario->ranks;
	m->record_bytes = call_record_stride(m->nranks);
	m->record = malloc(m->record_bytes);
	if (!m->record)
		goto out;
	m->seq = (uint64_t)scenario->first_seq;
	m->path = (uint8_t)scenario->path;
	m->ring_from = m->ring_until = UINT64_MAX;
	for (uint32_t r = 0; r < m->nranks; r++)
		begin_rank(m, r);
	make_passes(m);
	if (m->over)
		m->seq--; /* stands at the verdict's call, which is_absent() asks for */
	for (uint32_t r = 0; r < m->nranks; r++)
		end_rank(m, r);
	status = m->status;
out:
	if (m)
		free(m->record);
	free(m);
	return status;
}
