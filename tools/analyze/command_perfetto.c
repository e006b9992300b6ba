/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `export --to=perfetto`: a track for each rank, its passes, their calls, and in a call where its
 * time went; arrows from the one that arrived last to those that waited for it; and a track of what
 * went wrong. Times are those of CLOCK_MONOTONIC, on Perfetto's default clock: what else was traced
 * on the machine by that clock can be laid beside.
 */
#include <inttypes.h>

#include "tools/analyze/fault_feed.h"
#include "tools/analyze/perfetto_packet.h"
#include "tools/analyze/print_text.h"
#include "tools/analyze/words.h"

#define NAME_BYTES 64
#define TEXT_BYTES 512

/* What stands open in a rank's track, and how far it has come: nothing may begin before. */
struct rank_track {
	uint64_t id;
	uint64_t pass; /* 0: none open */
	uint64_t end_ns;
};

/* Of one communicator. */
struct perfetto {
	struct perfetto_packet packet;
	uint64_t faults; /* track */
	uint64_t arrows; /* id of the last */
	struct rank_track ranks[BELAY_RANKS_MAX];
};

/* When the parts of a call were, in rising order. */
struct call_times {
	uint64_t begin_ns;
	uint64_t staged_ns;
	uint64_t waited_ns; /* end of the wait */
	uint64_t rescue_ns; /* begin of the rescue; end_ns: none */
	uint64_t end_ns;
};

/* Tracks --------------------------------------------------------------------------------------- */

static void write_packet(const struct output *output, struct perfetto *perfetto)
{
	perfetto_end(&perfetto->packet);
	(void)fwrite(perfetto->packet.bytes, 1, perfetto->packet.used, output->file);
}

/* FNV-1a: the same communicator has the same tracks in every trace. */
static uint64_t track_of(const char *comm_id)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = comm_id; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	/* Few bytes, for they stand in every packet; room for the tracks below; never 0. */
	return (hash >> 32) << 8 | 1;
}

static void begin_track(const struct output *output, struct perfetto *perfetto, uint64_t track,
			uint64_t parent, const char *name, unsigned order)
{
	perfetto_track(&perfetto->packet, track, parent, name, order);
	write_packet(output, perfetto);
}

static void begin_tracks(const struct output *output, struct perfetto *perfetto)
{
	uint64_t comm = track_of(output->summary->id);
	char name[NAME_BYTES];

	(void)snprintf(name, sizeof(name), "communicator %s", output->summary->id);
	begin_track(output, perfetto, comm, 0, name, (unsigned)output->comms_done);
	perfetto->faults = comm + 1;
	begin_track(output, perfetto, perfetto->faults, comm, "what went wrong", 0);
	for (uint64_t left = output->summary->present; left;) {
		uint32_t rank = mask_pop(&left);
		struct rank_track *track = &perfetto->ranks[rank];

		track->id = comm + 2 + rank;
		(void)snprintf(name, sizeof(name), "rank %" PRIu32, rank);
		begin_track(output, perfetto, track->id, comm, name, rank + 1);
	}
}

/* Slices --------------------------------------------------------------------------------------- */

static void begin_slice(struct perfetto *perfetto, const struct rank_track *track, uint64_t time_ns,
			const char *name)
{
	perfetto_slice_begin(&perfetto->packet, track->id, time_ns, name);
}

static void end_slice(const struct output *output, struct perfetto *perfetto,
		      const struct rank_track *track, uint64_t time_ns)
{
	perfetto_slice_end(&perfetto->packet, track->id, time_ns);
	write_packet(output, perfetto);
}

static void end_pass(const struct output *output, struct perfetto *perfetto,
		     struct rank_track *track)
{
	if (track->pass)
		end_slice(output, perfetto, track, track->end_ns);
	track->pass = 0;
}

/* A pass begins for a rank with its first call. */
static void change_pass(const struct output *output, struct perfetto *perfetto,
			struct rank_track *track, uint64_t pass, uint64_t begin_ns)
{
	char name[NAME_BYTES];

	if (pass == track->pass)
		return;
	end_pass(output, perfetto, track);
	if (!pass)
		return;
	(void)snprintf(name, sizeof(name), "pass %" PRIu64, pass);
	begin_slice(perfetto, track, begin_ns, name);
	perfetto_number(&perfetto->packet, PERFETTO_PASS, pass);
	write_packet(output, perfetto);
	track->pass = pass;
}

/* Calls ---------------------------------------------------------------------------------------- */

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	if (value < low)
		return low;
	return value > high ? high : value;
}

/* When the last input was seen here; UINT64_MAX: not all were. */
static uint64_t last_seen_ns(const struct call_record *record, uint32_t nranks)
{
	uint64_t last_ns = record->staged_ns;

	for (uint32_t peer = 0; peer < nranks; peer++) {
		if (record->arrival_ns[peer] == CALL_ARRIVAL_NONE)
			return UINT64_MAX;
		if (record->arrival_ns[peer] > last_ns)
			last_ns = record->arrival_ns[peer];
	}
	return record->start_ns + last_ns;
}

/* The wait ends when the last rank's input stood ready, or, where that is not known, was seen.
 * Times that contradict each other, as of clocks that were put right, are moved to where slices
 * nest. */
static void find_times(const struct call_row *row, const struct row_facts *facts, uint32_t rank,
		       uint64_t not_before_ns, struct call_times *ret_times)
{
	const struct call_record *record = row->records[rank];
	uint64_t end_ns = record->start_ns + record->duration_ns;
	int compared = facts->last_rank >= 0 && !(row->unaligned & rank_bit(rank));
	struct call_times times = {.end_ns = end_ns > not_before_ns ? end_ns : not_before_ns};

	times.begin_ns = clamp(record->start_ns, not_before_ns, times.end_ns);
	times.staged_ns = clamp(record_arrival(record), times.begin_ns, times.end_ns);
	times.rescue_ns = times.end_ns;
	if (record->flags & CALL_RESCUED)
		times.rescue_ns =
			clamp(times.end_ns - record->rescue_ns, times.staged_ns, times.end_ns);
	times.waited_ns =
		clamp(compared ? facts->last_arrival_ns : last_seen_ns(record, row->nranks),
		      times.staged_ns, times.rescue_ns);
	*ret_times = times;
}

static void add_notes(const struct output *output, struct perfetto *perfetto,
		      const struct call_row *row, const struct row_facts *facts, uint32_t rank)
{
	const struct call_record *record = row->records[rank];
	struct perfetto_packet *packet = &perfetto->packet;

	perfetto_number(packet, PERFETTO_SEQ, row->seq);
	if (row->pass)
		perfetto_number(packet, PERFETTO_PLACE,
				pass_rule_index(&output->summary->passes.rule, row));
	perfetto_number(packet, PERFETTO_BYTES, record_bytes(record));
	perfetto_text(packet, PERFETTO_PATH, belay_path_name(record->path));
	perfetto_text(packet, PERFETTO_ALGORITHM, belay_algorithm_name(record->algorithm));
	if (facts->last_rank == (int)rank)
		perfetto_number(packet, PERFETTO_BEHIND_NS, facts->lateness_ns);
	if (record->status)
		perfetto_text(packet, PERFETTO_STATUS, belay_status_name(record->status));
}

/* Until the own input stands ready for the others. */
static void write_stage(const struct output *output, struct perfetto *perfetto,
			const struct rank_track *track, const struct call_times *times)
{
	if (times->staged_ns <= times->begin_ns)
		return;
	begin_slice(perfetto, track, times->begin_ns, "stage");
	write_packet(output, perfetto);
	end_slice(output, perfetto, track, times->staged_ns);
}

static void write_wait(const struct output *output, struct perfetto *perfetto,
		       const struct rank_track *track, const struct row_facts *facts,
		       const struct call_times *times)
{
	char name[NAME_BYTES] = "wait";

	if (times->waited_ns <= times->staged_ns)
		return;
	if (facts->last_rank >= 0)
		(void)snprintf(name, sizeof(name), "wait for rank %d", facts->last_rank);
	begin_slice(perfetto, track, times->staged_ns, name);
	write_packet(output, perfetto);
	end_slice(output, perfetto, track, times->waited_ns);
}

/* `arrow`: that ends here; 0: none does. */
static void write_transfer(const struct output *output, struct perfetto *perfetto,
			   const struct rank_track *track, const struct call_times *times,
			   uint64_t arrow)
{
	if (times->rescue_ns <= times->waited_ns)
		return;
	begin_slice(perfetto, track, times->waited_ns, "transfer");
	if (arrow)
		perfetto_arrow_end(&perfetto->packet, arrow);
	write_packet(output, perfetto);
	end_slice(output, perfetto, track, times->rescue_ns);
}

static void write_rescue(const struct output *output, struct perfetto *perfetto,
			 const struct rank_track *track, const struct call_record *record,
			 const struct call_times *times)
{
	char name[NAME_BYTES];

	if (!(record->flags & CALL_RESCUED))
		return;
	(void)snprintf(name, sizeof(name), "rescue over %s",
		       record->rescue_path ? belay_path_name(record->rescue_path) : "another path");
	begin_slice(perfetto, track, times->rescue_ns, name);
	write_packet(output, perfetto);
	end_slice(output, perfetto, track, times->end_ns);
}

/* The moment at which the last input stood ready: where the next so many arrows begin. */
static void write_last_arrival(const struct output *output, struct perfetto *perfetto,
			       const struct rank_track *track, const struct call_times *times,
			       unsigned arrows)
{
	perfetto_instant(&perfetto->packet, track->id, times->staged_ns, "last to arrive");
	for (unsigned i = 1; i <= arrows; i++)
		perfetto_arrow_begin(&perfetto->packet, perfetto->arrows + i);
	write_packet(output, perfetto);
}

static void begin_call(const struct output *output, struct perfetto *perfetto,
		       const struct call_row *row, const struct row_facts *facts, uint32_t rank,
		       const struct call_times *times)
{
	const struct call_record *record = row->records[rank];
	struct rank_track *track = &perfetto->ranks[rank];
	char bytes[WORDS_TIME_BYTES], what[WORDS_NAME_BYTES], name[NAME_BYTES];

	change_pass(output, perfetto, track, row->pass, times->begin_ns);
	(void)snprintf(name, sizeof(name), "%s %s", words_collective(record->op, what),
		       words_bytes(record_bytes(record), bytes));
	begin_slice(perfetto, track, times->begin_ns, name);
	add_notes(output, perfetto, row, facts, rank);
	write_packet(output, perfetto);
}

static void end_call(const struct output *output, struct perfetto *perfetto, uint32_t rank,
		     const struct call_times *times)
{
	end_slice(output, perfetto, &perfetto->ranks[rank], times->end_ns);
	perfetto->ranks[rank].end_ns = times->end_ns;
}

/* Those of `ranks` that waited for the last one, as far as an arrow from there can show: all of
 * them on one clock. */
static uint64_t waiting_ranks(const struct perfetto *perfetto, const struct call_row *row,
			      const struct row_facts *facts, uint64_t ranks)
{
	uint32_t last = (uint32_t)facts->last_rank;
	uint64_t waiting = 0;
	struct call_times from, to;

	if (row->unaligned & rank_bit(last))
		return 0;
	find_times(row, facts, last, perfetto->ranks[last].end_ns, &from);
	ranks &= ~(rank_bit(last) | row->unaligned);
	while (ranks) {
		uint32_t rank = mask_pop(&ranks);

		find_times(row, facts, rank, perfetto->ranks[rank].end_ns, &to);
		if (to.waited_ns > to.staged_ns && to.waited_ns >= from.staged_ns &&
		    to.rescue_ns > to.waited_ns)
			waiting |= rank_bit(rank);
	}
	return waiting;
}

/* `waiting`: at whom an arrow ends; of the last rank: to whom they begin. */
static void write_call(const struct output *output, struct perfetto *perfetto,
		       const struct call_row *row, const struct row_facts *facts, uint32_t rank,
		       uint64_t waiting)
{
	struct rank_track *track = &perfetto->ranks[rank];
	struct call_times times;

	find_times(row, facts, rank, track->end_ns, &times);
	begin_call(output, perfetto, row, facts, rank, &times);
	write_stage(output, perfetto, track, &times);
	if (facts->last_rank == (int)rank && waiting)
		write_last_arrival(output, perfetto, track, &times,
				   (unsigned)__builtin_popcountll(waiting));
	write_wait(output, perfetto, track, facts, &times);
	write_transfer(output, perfetto, track, &times,
		       waiting & rank_bit(rank) ? ++perfetto->arrows : 0);
	write_rescue(output, perfetto, track, row->records[rank], &times);
	end_call(output, perfetto, rank, &times);
}

/* The last to arrive comes first in the file: arrows at equal times need that. */
static int take_row(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	struct perfetto *perfetto = output->state;
	uint64_t left = call_filter_ranks(&output->filter, row), waiting = 0;

	if (facts->last_rank >= 0 && left & rank_bit((uint32_t)facts->last_rank)) {
		waiting = waiting_ranks(perfetto, row, facts, left);
		left &= ~rank_bit((uint32_t)facts->last_rank);
		write_call(output, perfetto, row, facts, (uint32_t)facts->last_rank, waiting);
	}
	while (left)
		write_call(output, perfetto, row, facts, mask_pop(&left), waiting);
	return fault_feed_row(&output->timeline, row, facts);
}

/* What went wrong ------------------------------------------------------------------------------ */

static int take_event(struct output *output, uint32_t rank, const struct event_record *event)
{
	return timeline_note_event(&output->timeline, rank, event);
}

static int take_late(struct output *output, const struct late_call *call)
{
	return fault_feed_late(&output->timeline, call);
}

static int tell_fault(void *user, const struct timeline_item *item)
{
	const struct output *output = user;
	struct perfetto *perfetto = output->state;
	char text[TEXT_BYTES] = "";
	FILE *words;

	if (!call_filter_takes(&output->filter, item->seq, item->pass))
		return 0;
	words = fmemopen(text, sizeof(text) - 1, "w");
	if (!words)
		return BELAY_E_NO_MEMORY;
	fault_print(words, item);
	(void)fclose(words);
	perfetto_instant(&perfetto->packet, perfetto->faults, item->time_ns,
			 fault_title(item->kind));
	perfetto_text(&perfetto->packet, PERFETTO_WHAT, text);
	if (item->seq)
		perfetto_number(&perfetto->packet, PERFETTO_SEQ, item->seq);
	if (item->pass)
		perfetto_number(&perfetto->packet, PERFETTO_PASS, item->pass);
	if (item->subject >= 0)
		perfetto_number(&perfetto->packet, PERFETTO_RANK, (uint64_t)item->subject);
	write_packet(output, perfetto);
	return 0;
}

/* All ------------------------------------------------------------------------------------------ */

static int comm_begin(struct output *output)
{
	struct perfetto *perfetto = arena_alloc(output->arena, sizeof(*perfetto));

	if (!perfetto)
		return BELAY_E_NO_MEMORY;
	output->state = perfetto;
	/* Ids are unique in the file. */
	perfetto->arrows = (uint64_t)output->comms_done << 40;
	if (output->comms_done == 0) {
		perfetto_preamble(&perfetto->packet);
		write_packet(output, perfetto);
	}
	begin_tracks(output, perfetto);
	return timeline_init(&output->timeline, tell_fault, output, output->arena);
}

static int comm_end(struct output *output)
{
	struct perfetto *perfetto = output->state;

	for (uint64_t left = output->summary->present; left;)
		end_pass(output, perfetto, &perfetto->ranks[mask_pop(&left)]);
	return fault_feed_finish(&output->timeline, output->summary);
}

const struct command_ops command_export_perfetto = {
	.name = "export",
	.comm_begin = comm_begin,
	.event = take_event,
	.row = take_row,
	.late = take_late,
	.comm_end = comm_end,
	.end = text_damages_aside,
};
