/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/what_if.h"

int what_if_init(struct what_if *what_if, const struct what_if_question *question,
		 struct arena *arena)
{
	struct histogram *recorded = arena_alloc(arena, sizeof(*recorded));
	struct histogram *changed = arena_alloc(arena, sizeof(*changed));

	if (!recorded || !changed)
		return BELAY_E_NO_MEMORY;
	*what_if = (struct what_if){.question = question,
				    .recorded = recorded,
				    .changed = changed,
				    .recorded_late_ns = UINT64_MAX};
	what_if->late.first_rank = -1;
	what_if->give_up.first_rank = -1;
	return 0;
}

/* Time saved ----------------------------------------------------------------------------------- */

/* The wait that the ranks on time would have saved. */
static uint64_t wait_saved(struct what_if *what_if, const struct call_row *row,
			   const struct row_facts *facts)
{
	uint64_t on_time = what_if->question->on_time, others_ns, saved;
	int then_last = row_last_but(row, on_time, &others_ns);

	if (!on_time || then_last < 0)
		return 0;
	what_if->then_last[then_last]++;
	if (!(on_time & rank_bit((uint32_t)facts->last_rank)))
		return 0;
	saved = facts->last_arrival_ns > others_ns ? facts->last_arrival_ns - others_ns : 0;
	what_if->was_last++;
	what_if->wait_saved_ns += saved;
	return saved;
}

/* What the other path would have saved; negative: cost. */
static int64_t transfer_saved(struct what_if *what_if, const struct row_facts *facts)
{
	const struct what_if_question *question = what_if->question;
	uint64_t bytes = record_bytes(facts->any);
	uint64_t transfer_ns = facts->end_ns - facts->last_arrival_ns, table_ns;

	if (!question->costs)
		return 0;
	if (facts->any->flags & CALL_WATCHED) {
		what_if->watched++;
		return 0;
	}
	if (cost_table_find(question->costs, question->path, bytes, &table_ns) != 0) {
		what_if->outside++;
		return 0;
	}
	what_if->replaced++;
	what_if->transfer_ns += transfer_ns;
	what_if->table_ns += table_ns;
	return (int64_t)transfer_ns - (int64_t)table_ns;
}

static void note_savings(struct what_if *what_if, const struct call_row *row,
			 const struct row_facts *facts)
{
	if (facts->last_rank < 0 || facts->stuck || facts->status < 0) {
		what_if->silent++;
		return;
	}
	what_if->compared++;
	what_if->pass_saved_ns += (int64_t)wait_saved(what_if, row, facts);
	what_if->pass_saved_ns += transfer_saved(what_if, facts);
}

void what_if_note_pass(struct what_if *what_if, const struct pass_facts *pass)
{
	int64_t recorded = (int64_t)(pass->end_ns - pass->start_ns);
	int64_t changed = recorded - what_if->pass_saved_ns;

	histogram_add(what_if->recorded, (uint64_t)recorded);
	histogram_add(what_if->changed, changed > 0 ? (uint64_t)changed : 0);
	what_if->pass_saved_ns = 0;
}

/* Deadlines ------------------------------------------------------------------------------------ */

/* How long the rank waited for the last of its peers, which is `ret_peer`. */
static uint64_t waited_for(const struct call_record *record, uint32_t nranks, uint32_t rank,
			   uint32_t *ret_peer)
{
	uint64_t last = 0;

	for (uint32_t peer = 0; peer < nranks; peer++) {
		uint64_t arrival = record->arrival_ns[peer];

		if (peer == rank)
			continue;
		/* Of several that never came the lowest; a call that showed nobody tells nothing.
		 */
		if (arrival > record->duration_ns)
			arrival = record->missing & rank_bit(peer) ? record->duration_ns : 0;
		if (arrival > last) {
			last = arrival;
			*ret_peer = peer;
		}
	}
	return last > record->staged_ns ? last - record->staged_ns : 0;
}

/* The longest wait of a call, and for whom. */
struct longest_wait {
	uint64_t ns;
	uint32_t peer;
};

static struct longest_wait longest_wait_of(const struct call_row *row)
{
	struct longest_wait longest = {0};

	for (uint64_t left = row->ranks; left;) {
		uint32_t rank = mask_pop(&left), peer = 0;
		uint64_t ns = waited_for(row->records[rank], row->nranks, rank, &peer);

		if (ns > longest.ns)
			longest = (struct longest_wait){ns, peer};
	}
	return longest;
}

static void note_alarm(struct what_if_alarms *alarms, uint64_t deadline_ns,
		       const struct call_row *row, const struct row_facts *facts,
		       const struct longest_wait *longest)
{
	if (!deadline_ns || longest->ns < deadline_ns)
		return;
	alarms->calls++;
	if (facts->stuck || facts->status < 0)
		return;
	if (alarms->false_calls++ == 0) {
		alarms->first_seq = row->seq;
		alarms->first_pass = row->pass;
		alarms->first_rank = (int)longest->peer;
	}
	alarms->by_rank[longest->peer]++;
}

/* What a recording shows of its own soft deadline: no rank is late before it. */
static void note_recorded_late(struct what_if *what_if, uint64_t waited_ns)
{
	if (waited_ns < what_if->recorded_late_ns)
		what_if->recorded_late_ns = waited_ns;
}

static void note_late_records(struct what_if *what_if, const struct call_row *row, uint64_t late)
{
	while (late) {
		const struct call_record *record = row->records[mask_pop(&late)];
		uint64_t until = record->duration_ns;

		/* A rescue is asked for once the deadline is over. */
		if (record->rescue_ns < until)
			until -= record->rescue_ns;
		if (until > record->staged_ns)
			note_recorded_late(what_if, until - record->staged_ns);
	}
}

static void note_deadlines(struct what_if *what_if, const struct call_row *row,
			   const struct row_facts *facts)
{
	const struct what_if_question *question = what_if->question;
	struct longest_wait longest = longest_wait_of(row);

	note_alarm(&what_if->late, question->late_ns, row, facts, &longest);
	note_alarm(&what_if->give_up, question->give_up_ns, row, facts, &longest);
	what_if->recorded_alarms += facts->late != 0;
	note_late_records(what_if, row, facts->late);
	if (facts->status < 0 && longest.ns > what_if->verdict_waited_ns)
		what_if->verdict_waited_ns = longest.ns;
}

void what_if_note_event(struct what_if *what_if, const struct event_record *event)
{
	if (event->kind == EVENT_LATE && event->duration_ns)
		note_recorded_late(what_if, event->duration_ns);
}

void what_if_note_row(struct what_if *what_if, const struct call_row *row,
		      const struct row_facts *facts)
{
	const struct what_if_question *question = what_if->question;

	if (question->on_time || question->costs)
		note_savings(what_if, row, facts);
	if (question->late_ns || question->give_up_ns)
		note_deadlines(what_if, row, facts);
}

int what_if_rescue_sooner(const struct what_if *what_if, const struct summary *summary,
			  int64_t *ret_ns)
{
	if (!summary->rescue_count || what_if->recorded_late_ns == UINT64_MAX)
		return -1;
	*ret_ns = (int64_t)what_if->recorded_late_ns - (int64_t)what_if->question->late_ns;
	return 0;
}

int what_if_verdict_sooner(const struct what_if *what_if, const struct summary *summary,
			   int64_t *ret_ns)
{
	if (!summary->verdict.stands || summary->verdict.cause != BELAY_CAUSE_PEER_STUCK)
		return -1;
	*ret_ns = (int64_t)what_if->verdict_waited_ns - (int64_t)what_if->question->give_up_ns;
	return 0;
}
