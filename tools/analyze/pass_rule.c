/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/pass_rule.h"

uint64_t pass_signature(const struct call_record *record)
{
	return record->count << 16 | (uint64_t)record->dtype << 8 | record->op;
}

/* The calls of a stretch that were seen, lost ones included. */
static uint64_t seen_calls(const struct period_follower *follower,
			   const struct period_stretch *stretch)
{
	uint64_t end_seq =
		stretch->end_seq < follower->next_seq ? stretch->end_seq : follower->next_seq;

	return end_seq - stretch->first_seq;
}

/* The period that goes on longest without a break, and where it is met first. */
static void choose_period(const struct period_follower *follower, struct pass_rule *rule)
{
	const struct period_stretch *longest = &follower->stretches[0];

	for (size_t i = 1; i < follower->nstretches; i++) {
		const struct period_stretch *stretch = &follower->stretches[i];

		if (seen_calls(follower, stretch) > seen_calls(follower, longest))
			longest = stretch;
	}
	rule->by = PASS_BY_PERIOD;
	rule->period = longest->calls;
	rule->kind = longest->kind;
	for (size_t i = follower->nstretches; i > 0; i--) {
		const struct period_stretch *stretch = &follower->stretches[i - 1];

		if (stretch->calls == rule->period && stretch->kind == rule->kind)
			rule->first_seq = stretch->first_seq;
	}
}

void pass_rule_from(const struct period_follower *follower, struct pass_rule *ret_rule)
{
	struct pass_rule rule = {.by = PASS_BY_NOTHING,
				 .stretches = follower->stretches,
				 .nstretches = follower->nstretches,
				 .too_many_breaks = follower->too_many};

	if (follower->calls)
		rule.calls = follower->next_seq - follower->first_seq;
	if (follower->nstretches)
		choose_period(follower, &rule);
	for (size_t i = 0; i < follower->nstretches; i++) {
		rule.inside += seen_calls(follower, &follower->stretches[i]);
		rule.unlike += follower->stretches[i].unlike;
	}
	*ret_rule = rule;
}

/* The stretch that holds the call; NULL: none does. */
static const struct period_stretch *stretch_of(const struct pass_rule *rule, uint64_t seq)
{
	size_t low = 0, high = rule->nstretches;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (rule->stretches[middle].end_seq <= seq)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == rule->nstretches || seq < rule->stretches[low].first_seq)
		return NULL;
	return &rule->stretches[low];
}

uint64_t pass_rule_apply(const struct pass_rule *rule, const struct call_row *row)
{
	const struct period_stretch *stretch;

	if (rule->by == PASS_BY_MARKS)
		return row->pass;
	stretch = stretch_of(rule, row->seq);
	return stretch ? stretch->first_pass + (row->seq - stretch->first_seq) / stretch->calls : 0;
}

uint64_t pass_rule_index(const struct pass_rule *rule, const struct call_row *row)
{
	const struct period_stretch *stretch;

	if (rule->by == PASS_BY_MARKS)
		return row->records[__builtin_ctzll(row->ranks)]->index;
	stretch = stretch_of(rule, row->seq);
	return stretch ? (row->seq - stretch->first_seq) % stretch->calls : 0;
}

uint64_t pass_rule_calls(const struct pass_rule *rule, uint64_t seq)
{
	const struct period_stretch *stretch = stretch_of(rule, seq);

	return stretch ? stretch->calls : 0;
}

double pass_rule_sureness(const struct pass_rule *rule)
{
	if (rule->by != PASS_BY_PERIOD || rule->calls == 0)
		return 0;
	return (double)(rule->inside - rule->unlike) / (double)rule->calls;
}

/* A break is the end of a stretch, save where the recording ends. */
size_t pass_rule_breaks(const struct pass_rule *rule)
{
	size_t n = rule->nstretches;

	return n && rule->stretches[n - 1].end_seq == UINT64_MAX ? n - 1 : n;
}

void pass_rule_break(const struct pass_rule *rule, size_t i, struct pass_break *ret_break)
{
	*ret_break = (struct pass_break){.seq = rule->stretches[i].end_seq};
	if (i + 1 == rule->nstretches)
		return;
	ret_break->until = rule->stretches[i + 1].first_seq;
	ret_break->calls = rule->stretches[i + 1].calls;
}

const char *pass_by_name(enum pass_by by)
{
	static const char *const names[] = {[PASS_BY_NOTHING] = "nothing",
					    [PASS_BY_MARKS] = "marks",
					    [PASS_BY_PERIOD] = "period"};

	return names[by];
}
