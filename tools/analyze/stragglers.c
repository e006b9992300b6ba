/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/stragglers.h"

#define STRETCHES	    512u
#define STRETCH_CALLS_FIRST 32u

struct stretch {
	uint64_t calls;
	uint64_t first_seq, first_pass;
	uint64_t last_seq, last_pass;
};

int stragglers_init(struct stragglers *stragglers, uint32_t nranks, struct arena *arena)
{
	struct stretch *stretches = arena_alloc(arena, STRETCHES * sizeof(*stretches));
	uint32_t *counts = arena_alloc(arena, STRETCHES * nranks * sizeof(*counts));

	if (!stretches || !counts)
		return BELAY_E_NO_MEMORY;
	*stragglers = (struct stragglers){.nranks = nranks,
					  .arena = arena,
					  .stretch_calls = STRETCH_CALLS_FIRST,
					  .stretches = stretches,
					  .last_counts = counts};
	return 0;
}

static uint32_t *counts_of(const struct stragglers *stragglers, size_t stretch)
{
	return &stragglers->last_counts[stretch * stragglers->nranks];
}

/* Joins each two stretches to one, so that half of them are free again. */
static void halve(struct stragglers *stragglers)
{
	for (size_t i = 0; i < STRETCHES / 2; i++) {
		struct stretch *left = &stragglers->stretches[2 * i], *right = left + 1;
		uint32_t *to = counts_of(stragglers, i);
		const uint32_t *from = counts_of(stragglers, 2 * i);

		for (uint32_t rank = 0; rank < stragglers->nranks; rank++)
			to[rank] = from[rank] + from[stragglers->nranks + rank];
		stragglers->stretches[i] =
			(struct stretch){left->calls + right->calls, left->first_seq,
					 left->first_pass, right->last_seq, right->last_pass};
	}
	stragglers->nstretches = STRETCHES / 2;
	stragglers->stretch_calls *= 2;
}

static size_t current_stretch(struct stragglers *stragglers)
{
	size_t n = stragglers->nstretches;

	if (n > 0 && stragglers->stretches[n - 1].calls < stragglers->stretch_calls)
		return n - 1;
	if (n == STRETCHES) {
		halve(stragglers);
		n = stragglers->nstretches;
	}
	memset(&stragglers->stretches[n], 0, sizeof(stragglers->stretches[n]));
	memset(counts_of(stragglers, n), 0, stragglers->nranks * sizeof(uint32_t));
	stragglers->nstretches++;
	return n;
}

static void note_stretch(struct stragglers *stragglers, const struct call_row *row, int rank)
{
	size_t i = current_stretch(stragglers);
	struct stretch *stretch = &stragglers->stretches[i];

	if (stretch->calls == 0) {
		stretch->first_seq = row->seq;
		stretch->first_pass = row->pass;
	}
	stretch->calls++;
	stretch->last_seq = row->seq;
	stretch->last_pass = row->pass;
	counts_of(stragglers, i)[rank]++;
}

int stragglers_note_row(struct stragglers *stragglers, const struct call_row *row,
			const struct row_facts *facts)
{
	struct straggler_rank *rank;

	if (facts->last_rank < 0)
		return 0;
	rank = &stragglers->ranks[facts->last_rank];
	if (!rank->lateness)
		rank->lateness = arena_alloc(stragglers->arena, sizeof(*rank->lateness));
	if (!rank->lateness)
		return BELAY_E_NO_MEMORY;
	stragglers->calls++;
	rank->last_calls++;
	if (facts->lateness_ns >= rank->worst_ns) {
		rank->worst_ns = facts->lateness_ns;
		rank->worst_seq = row->seq;
	}
	histogram_add(rank->lateness, facts->lateness_ns);
	note_stretch(stragglers, row, facts->last_rank);
	return 0;
}

int stragglers_worst(const struct stragglers *stragglers)
{
	uint32_t rank = 0;
	uint64_t last;

	for (uint32_t i = 1; i < stragglers->nranks; i++) {
		if (stragglers->ranks[i].last_calls > stragglers->ranks[rank].last_calls)
			rank = i;
	}
	last = stragglers->ranks[rank].last_calls;
	if (!last || 2 * last * stragglers->nranks < 3 * stragglers->calls)
		return -1;
	return (int)rank;
}

static int kept_being_last(const struct stragglers *stragglers, size_t stretch, uint32_t rank)
{
	uint64_t last = counts_of(stragglers, stretch)[rank];
	uint64_t calls = stragglers->stretches[stretch].calls;

	return stragglers->nranks == 2 ? 4 * last >= 3 * calls : 2 * last >= calls;
}

void stragglers_run(const struct stragglers *stragglers, uint32_t rank,
		    struct straggler_run *ret_run)
{
	const struct stretch *stretches = stragglers->stretches;
	size_t best_first = 0, best_length = 0, length = 0;

	for (size_t i = 0; i < stragglers->nstretches; i++) {
		length = kept_being_last(stragglers, i, rank) ? length + 1 : 0;
		if (length && length >= best_length) {
			best_length = length;
			best_first = i + 1 - length;
		}
	}
	*ret_run = (struct straggler_run){0};
	if (!best_length)
		return;
	ret_run->first_seq = stretches[best_first].first_seq;
	ret_run->first_pass = stretches[best_first].first_pass;
	ret_run->last_seq = stretches[best_first + best_length - 1].last_seq;
	ret_run->last_pass = stretches[best_first + best_length - 1].last_pass;
	ret_run->to_the_end = best_first + best_length == stragglers->nstretches;
	for (size_t i = best_first; i < best_first + best_length; i++) {
		ret_run->calls += stretches[i].calls;
		ret_run->last_calls += counts_of(stragglers, i)[rank];
	}
}
