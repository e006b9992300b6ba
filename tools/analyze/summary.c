/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tools/analyze/summary.h"

/* How far back the entry of a rescue is looked for: its records and events come within a few
 * blocks. */
#define RESCUES_OPEN 512u

static int note_pass(void *user, const struct pass_facts *pass)
{
	struct summary *summary = user;
	int status = pass_times_note(&summary->pass_times, pass, summary->nranks);

	if (status == 0 && summary->pass_ended)
		status = summary->pass_ended(summary->pass_user, pass);
	return status;
}

int summary_init(struct summary *summary, const char *id, uint32_t nranks, uint64_t present,
		 const struct pass_rule *rule, struct arena *arena)
{
	int status;

	*summary = (struct summary){.id = id, .nranks = nranks, .present = present};
	summary->verdict.rank = -1;
	summary->latency = arena_alloc(arena, sizeof(*summary->latency));
	if (!summary->latency)
		return BELAY_E_NO_MEMORY;
	status = late_init(&summary->late, nranks, arena);
	if (status != 0)
		return status;
	passes_init(&summary->passes, rule);
	summary->passes.ended = note_pass;
	summary->passes.user = summary;
	pass_times_init(&summary->pass_times, arena);
	return stragglers_init(&summary->stragglers, nranks, arena);
}

/* The entry of a call; made when there is none. NULL: no memory. */
static struct summary_rescue *rescue_of(struct summary *summary, uint64_t seq, uint64_t pass)
{
	struct summary_rescue *entries = summary->rescues.items;
	size_t n = summary->rescues.count;
	size_t oldest = n > RESCUES_OPEN ? n - RESCUES_OPEN : 0;
	struct summary_rescue *entry;

	for (size_t i = n; i > oldest; i--) {
		if (entries[i - 1].seq == seq)
			return &entries[i - 1];
	}
	entry = vector_add(&summary->rescues, sizeof(*entry));
	if (entry) {
		entry->seq = seq;
		entry->pass = pass;
	}
	return entry;
}

static int note_rescue_event(struct summary *summary, const struct event_record *event)
{
	struct summary_rescue *entry = rescue_of(summary, event->seq, event->pass);

	if (!entry)
		return BELAY_E_NO_MEMORY;
	if (!entry->via)
		entry->via = event->path;
	if (event->kind == EVENT_RESCUE_BEGIN) {
		if (event->peer >= 0 && (uint32_t)event->peer < summary->nranks)
			entry->lost |= rank_bit((uint32_t)event->peer);
	} else if (event->status == 0) {
		entry->rescued = 1;
		entry->told |= event->mask & mask_of(summary->nranks);
		if (!entry->stuck && event->duration_ns > entry->ns)
			entry->ns = event->duration_ns;
	}
	return 0;
}

static int note_rescue_row(struct summary *summary, const struct call_row *row,
			   const struct row_facts *facts)
{
	struct summary_rescue *entry = rescue_of(summary, row->seq, row->pass);

	if (!entry)
		return BELAY_E_NO_MEMORY;
	entry->rescued = 1;
	entry->pass = row->pass;
	entry->stuck = facts->stuck;
	entry->ns = facts->rescue_ns;
	entry->wait_ns = facts->rescue_wait_ns;
	if (facts->rescue_path)
		entry->via = facts->rescue_path;
	return 0;
}

static void note_verdict_event(struct summary_verdict *verdict, uint32_t rank,
			       const struct event_record *event)
{
	if (verdict->from_event && (verdict->seq != event->seq || verdict->cause != event->cause ||
				    verdict->rank != event->peer))
		verdict->ranks_differ = 1;
	verdict->told_by |= rank_bit(rank);
	if (verdict->from_event)
		return;
	verdict->stands = 1;
	verdict->from_event = 1;
	verdict->seq = event->seq;
	verdict->pass = event->pass;
	verdict->cause = event->cause;
	verdict->rank = event->peer;
	memcpy(verdict->text, event->text, sizeof(verdict->text));
	verdict->text[sizeof(verdict->text) - 1] = '\0';
}

/* Statuses of class VERDICT stand in the order of enum belay_cause. */
static int cause_of_status(int status)
{
	if (status <= BELAY_E_PEER_LOST && status >= BELAY_E_INTERNAL)
		return BELAY_CAUSE_PEER_LOST + (BELAY_E_PEER_LOST - status);
	return BELAY_CAUSE_INTERNAL;
}

static void note_failed_row(struct summary_verdict *verdict, const struct call_row *row,
			    const struct row_facts *facts)
{
	if (verdict->stands)
		return;
	verdict->stands = 1;
	verdict->seq = row->seq;
	verdict->pass = row->pass;
	verdict->cause = cause_of_status(facts->status);
	verdict->told_by = facts->failed;
}

static int note_mismatch(struct summary *summary, const struct call_row *row,
			 const struct row_facts *facts)
{
	struct summary_mismatch *entry;

	if (summary->mismatches.count >= SUMMARY_MISMATCHES_MAX)
		return 0;
	entry = vector_add(&summary->mismatches, sizeof(*entry));
	if (!entry)
		return BELAY_E_NO_MEMORY;
	entry->seq = row->seq;
	entry->pass = row->pass;
	signatures_group(row, facts->mismatched, &entry->signatures);
	return 0;
}

static int note_digest(struct summary *summary, const struct call_row *row,
		       const struct row_facts *facts)
{
	struct summary_digest *entry;

	summary->digest_count++;
	if (summary->digests.count >= SUMMARY_KEPT_MAX)
		return 0;
	entry = vector_add(&summary->digests, sizeof(*entry));
	if (!entry)
		return BELAY_E_NO_MEMORY;
	*entry = (struct summary_digest){row->seq, row->pass, facts->digest_outliers};
	return 0;
}

static void note_breaker_event(struct summary_switches *switches, const struct event_record *event)
{
	int64_t before = switches->breaker;

	switches->breaker = event->value;
	/* Open again after a probe that failed is still open. */
	if (event->value != BELAY_BREAKER_OPEN || before == BELAY_BREAKER_HALF_OPEN)
		return;
	if (switches->opened++ == 0)
		switches->opened_seq = event->seq;
	switches->opened_last_seq = event->seq;
}

static void note_switch_event(struct summary_switches *switches, const struct event_record *event)
{
	if (switches->first_seq && switches->first_seq <= event->seq)
		return;
	switches->first_seq = event->seq;
	switches->first_from =
		event->value > 0 && event->value < SUMMARY_PATHS ? (uint8_t)event->value : 0;
	switches->first_to = event->path < SUMMARY_PATHS ? event->path : 0;
	memcpy(switches->reason, event->text, sizeof(switches->reason));
	switches->reason[sizeof(switches->reason) - 1] = '\0';
}

/* "VERSION; PART". It goes to terminals and pages: nothing in it may act there. */
static void note_creation(struct summary *summary, const struct event_record *event)
{
	const char *end = memchr(event->text, '\0', sizeof(event->text));
	const char *part = end ? strstr(event->text, "; ") : NULL;

	if (!part || summary->part[0])
		return;
	(void)snprintf(summary->part, sizeof(summary->part), "%s", part + 2);
	for (char *c = summary->part; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
}

int summary_note_event(struct summary *summary, uint32_t rank, const struct event_record *event)
{
	passes_note_event(&summary->passes, event);
	switch (event->kind) {
	case EVENT_COMM_CREATE:
		note_creation(summary, event);
		return 0;
	case EVENT_LATE:
		return late_note_event(&summary->late, rank, event);
	case EVENT_RESCUE_BEGIN:
	case EVENT_RESCUE_END:
		return note_rescue_event(summary, event);
	case EVENT_VERDICT:
		note_verdict_event(&summary->verdict, rank, event);
		return 0;
	case EVENT_BREAKER:
		note_breaker_event(&summary->switches, event);
		return 0;
	case EVENT_PATH_SWITCH:
		note_switch_event(&summary->switches, event);
		return 0;
	default:
		return 0;
	}
}

/* 0: unknown */
static uint8_t path_of(const struct row_facts *facts)
{
	return facts->any->path < SUMMARY_PATHS ? facts->any->path : 0;
}

/* A change is kept when the first size makes it; those that follow make the same. */
static int keep_path_change(struct summary *summary, const struct call_row *row, uint8_t from,
			    uint8_t to)
{
	struct summary_path_change *changes = summary->path_changes.items, *change;
	size_t n = summary->path_changes.count;

	if (n && changes[n - 1].from == from && changes[n - 1].to == to)
		return 0;
	summary->path_change_count++;
	if (n == SUMMARY_CHANGES_MAX)
		return 0;
	change = vector_add(&summary->path_changes, sizeof(*change));
	if (!change)
		return BELAY_E_NO_MEMORY;
	*change = (struct summary_path_change){row->seq, row->pass, from, to};
	return 0;
}

static int note_path(struct summary *summary, const struct call_row *row,
		     const struct row_facts *facts)
{
	uint64_t signature = pass_signature(facts->any);
	struct summary_size_path *place =
		&summary->size_paths[signature * 0x9e3779b97f4a7c15u >> 58];
	uint8_t from = place->signature == signature ? place->path : 0, to = path_of(facts);

	*place = (struct summary_size_path){signature, to};
	return from && to && from != to ? keep_path_change(summary, row, from, to) : 0;
}

static void count_call(struct summary *summary, const struct call_row *row,
		       const struct row_facts *facts)
{
	if (summary->calls == 0) {
		summary->first_seq = row->seq;
		summary->first_ns = facts->start_ns;
	}
	if (facts->start_ns < summary->first_ns)
		summary->first_ns = facts->start_ns;
	if (facts->end_ns > summary->last_ns)
		summary->last_ns = facts->end_ns;
	summary->last_seq = row->seq;
	summary->calls++;
	if ((row->ranks & summary->present) != summary->present) {
		summary->calls_partial++;
		summary->calls_partial_silent += facts->last_rank < 0;
	}
	summary->calls_clocks_differ += facts->clocks_differ != 0;
	summary->paths[path_of(facts)]++;
	histogram_add(summary->latency, facts->latency_ns);
}

/* What only a call that did not go well needs. */
static int note_findings(struct summary *summary, const struct call_row *row,
			 const struct row_facts *facts)
{
	int status = 0;

	if (facts->stuck)
		status = note_rescue_row(summary, row, facts);
	if (status == 0 && facts->mismatched)
		status = note_mismatch(summary, row, facts);
	if (status == 0 && facts->digest_outliers)
		status = note_digest(summary, row, facts);
	if (facts->status < 0)
		note_failed_row(&summary->verdict, row, facts);
	return status;
}

int summary_note_row(struct summary *summary, const struct call_row *row,
		     const struct row_facts *facts)
{
	int status;

	count_call(summary, row, facts);
	status = note_path(summary, row, facts);
	if (status == 0)
		status = note_findings(summary, row, facts);
	if (status == 0)
		status = late_note_row(&summary->late, row, facts);
	if (status == 0)
		status = stragglers_note_row(&summary->stragglers, row, facts);
	if (status == 0)
		status = passes_note_row(&summary->passes, row, facts);
	return status;
}

static int by_seq(const void *a, const void *b)
{
	const struct summary_rescue *x = a, *y = b;

	return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Keeps the rescues that came to an end, in the order of seq. */
static void sort_rescues(struct summary *summary)
{
	struct summary_rescue *entries = summary->rescues.items;
	size_t kept = 0;

	for (size_t i = 0; i < summary->rescues.count; i++) {
		if (entries[i].rescued)
			entries[kept++] = entries[i];
	}
	summary->rescues.count = kept;
	summary->rescue_count = kept;
	for (size_t i = 0; i < kept; i++) {
		if (!entries[i].stuck)
			entries[i].stuck = entries[i].told;
	}
	sort_items(entries, kept, sizeof(*entries), by_seq);
	if (summary->rescues.count > SUMMARY_KEPT_MAX)
		summary->rescues.count = SUMMARY_KEPT_MAX;
}

int summary_finish(struct summary *summary)
{
	int status = late_finish(&summary->late);

	if (status == 0)
		status = passes_finish(&summary->passes);
	sort_rescues(summary);
	return status;
}

void summary_free(struct summary *summary)
{
	vector_free(&summary->path_changes);
	vector_free(&summary->rescues);
	vector_free(&summary->mismatches);
	vector_free(&summary->digests);
}

/* A place of the stretches is known to a stretch; one of the passes goes before where it lies in
 * another pass within that. */
static int is_better(uint64_t pass_seq, uint64_t pass, uint64_t seq, uint64_t seq_pass,
		     uint64_t stretch)
{
	return pass != seq_pass && (pass_seq > seq ? pass_seq - seq : seq - pass_seq) <= stretch;
}

void summary_straggler_run(const struct summary *summary, uint32_t rank,
			   struct straggler_run *ret_run)
{
	const struct pass_run *passes = &summary->pass_times.longest[rank];
	uint64_t stretch = summary->stragglers.stretch_calls;
	struct straggler_run run;

	stragglers_run(&summary->stragglers, rank, &run);
	if (run.first_seq && passes->passes > 1 &&
	    is_better(passes->first_seq, passes->first_pass, run.first_seq, run.first_pass,
		      stretch)) {
		run.first_seq = passes->first_seq;
		run.first_pass = passes->first_pass;
	}
	if (run.first_seq && passes->passes > 1 && !run.to_the_end &&
	    is_better(passes->last_seq, passes->last_pass, run.last_seq, run.last_pass, stretch)) {
		run.last_seq = passes->last_seq;
		run.last_pass = passes->last_pass;
	}
	*ret_run = run;
}

int summary_has_findings(const struct summary *summary)
{
	return summary->rescue_count || summary->mismatches.count || summary->digest_count ||
	       summary->verdict.stands;
}

int summary_has_losses(const struct summary *summary)
{
	return summary->lost_records || summary->present != mask_of(summary->nranks);
}
