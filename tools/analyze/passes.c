/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/passes.h"

void passes_init(struct passes *passes, const struct pass_rule *rule)
{
	*passes = (struct passes){.rule = *rule};
}

void passes_note_event(struct passes *passes, const struct event_record *event)
{
	if (event->kind != EVENT_PASS_BEGIN && event->kind != EVENT_PASS_END)
		return;
	passes->marks_seen = 1;
	if (event->kind == EVENT_PASS_END && event->status == 0 && event->pass > passes->marked_end)
		passes->marked_end = event->pass;
}

static void name_the_waited_for(struct pass_facts *pass)
{
	pass->waited_for = -1;
	for (int rank = 0; rank < BELAY_RANKS_MAX; rank++) {
		if (pass->blame_ns[rank] > pass->waited_for_ns) {
			pass->waited_for_ns = pass->blame_ns[rank];
			pass->waited_for = rank;
		}
	}
}

static void count_pass(struct passes *passes, const struct pass_facts *pass)
{
	uint64_t calls = pass_calls(pass);

	if (passes->count == 0)
		passes->first_pass = pass->pass;
	passes->last_pass = pass->pass;
	passes->count++;
	if (!pass->whole)
		return;
	if (passes->whole_count == 0 || calls < passes->calls_min)
		passes->calls_min = calls;
	if (calls > passes->calls_max)
		passes->calls_max = calls;
	passes->whole_count++;
}

static int end_pass(struct passes *passes, int is_last)
{
	struct pass_facts *pass = &passes->open;
	int status;

	if (!pass->pass)
		return 0;
	/* A next pass proves that this one ended; of the last one only its mark, or its length,
	 * does. */
	pass->whole = !pass->begins_cut && !pass->failed_calls;
	if (passes->rule.by == PASS_BY_PERIOD)
		pass->whole = pass->whole &&
			      pass_calls(pass) == pass_rule_calls(&passes->rule, pass->first_seq);
	else if (is_last && passes->marks_seen)
		pass->whole = pass->whole && passes->marked_end >= pass->pass;
	name_the_waited_for(pass);
	count_pass(passes, pass);
	status = passes->ended ? passes->ended(passes->user, pass) : 0;
	pass->pass = 0;
	return status;
}

static void begin_pass(struct passes *passes, const struct call_row *row,
		       const struct row_facts *facts)
{
	passes->open = (struct pass_facts){
		.pass = row->pass, .first_seq = row->seq, .start_ns = facts->start_ns};
	passes->open.begins_cut = pass_rule_index(&passes->rule, row) != 0;
}

static void add_call(struct pass_facts *pass, const struct call_row *row,
		     const struct row_facts *facts)
{
	pass->last_seq = row->seq;
	if (facts->start_ns < pass->start_ns)
		pass->start_ns = facts->start_ns;
	if (facts->end_ns > pass->end_ns)
		pass->end_ns = facts->end_ns;
	if (facts->latency_ns > pass->latency_max_ns)
		pass->latency_max_ns = facts->latency_ns;
	pass->bytes += record_bytes(facts->any);
	pass->time_ns += facts->time_ns;
	pass->wait_ns += facts->wait_ns;
	pass->late_calls += facts->late != 0;
	pass->rescued_calls += facts->stuck != 0;
	pass->failed_calls += facts->status < 0;
	if (facts->last_rank >= 0) {
		pass->blame_ns[facts->last_rank] += facts->wait_ns;
		pass->last_calls[facts->last_rank]++;
	} else {
		pass->unseen |= mask_of(row->nranks) & ~row->ranks;
	}
}

int passes_note_row(struct passes *passes, const struct call_row *row,
		    const struct row_facts *facts)
{
	int status = 0;

	if (passes->open.pass && passes->open.pass != row->pass)
		status = end_pass(passes, 0);
	if (!row->pass) {
		passes->outside++;
		return status;
	}
	if (!passes->open.pass)
		begin_pass(passes, row, facts);
	add_call(&passes->open, row, facts);
	return status;
}

int passes_finish(struct passes *passes)
{
	return end_pass(passes, 1);
}
