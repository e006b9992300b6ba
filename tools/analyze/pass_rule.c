/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/pass_rule.h"

uint64_t pass_signature(const struct call_record *record)
{
	return record->count << 16 | (uint64_t)record->dtype << 8 | record->op;
}

/* The shortest period of a whole list: its length minus its longest proper border (Knuth,
 * Morris, Pratt). */
static size_t shortest_period(const uint64_t *list, size_t n, size_t *border)
{
	size_t length = 0;

	border[0] = 0;
	for (size_t i = 1; i < n; i++) {
		while (length && list[i] != list[length])
			length = border[length - 1];
		if (list[i] == list[length])
			length++;
		border[i] = length;
	}
	return n - border[n - 1];
}

void pass_rule_find(const uint64_t *signatures, size_t n, uint64_t first_seq, size_t *scratch,
		    struct pass_rule *ret_rule)
{
	size_t from = 0, period = 0;

	*ret_rule = (struct pass_rule){.by = PASS_BY_NOTHING};
	if (n < 4)
		return;
	period = shortest_period(signatures, n, scratch);
	if (period > n / 2) {
		/* The start may differ, such as a warm-up: look at the second half, then go back
		 * as far as it holds. */
		from = n / 2;
		period = shortest_period(signatures + from, n - from, scratch);
		if (period > (n - from) / 2)
			return;
		while (from > 0 && signatures[from - 1] == signatures[from - 1 + period])
			from--;
	}
	if (period < 2)
		return;
	*ret_rule = (struct pass_rule){
		.by = PASS_BY_PERIOD, .first_seq = first_seq + from, .period = period};
}

uint64_t pass_rule_apply(const struct pass_rule *rule, const struct call_row *row)
{
	if (rule->by == PASS_BY_MARKS)
		return row->pass;
	if (rule->by == PASS_BY_NOTHING || row->seq < rule->first_seq)
		return 0;
	return (row->seq - rule->first_seq) / rule->period + 1;
}

uint64_t pass_rule_index(const struct pass_rule *rule, const struct call_row *row)
{
	if (rule->by == PASS_BY_MARKS)
		return row->records[__builtin_ctzll(row->ranks)]->index;
	if (rule->by == PASS_BY_NOTHING || row->seq < rule->first_seq)
		return 0;
	return (row->seq - rule->first_seq) % rule->period;
}

const char *pass_by_name(enum pass_by by)
{
	static const char *const names[] = {[PASS_BY_NOTHING] = "nothing",
					    [PASS_BY_MARKS] = "marks",
					    [PASS_BY_PERIOD] = "period"};

	return names[by];
}
