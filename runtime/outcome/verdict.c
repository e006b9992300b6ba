/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of the verdict word as pure functions; see verdict.h. */
#include "runtime/outcome/verdict.h"

#include <assert.h>

static bool is_dead(const struct progress *progress, unsigned rank)
{
	return progress->dead >> rank & 1;
}

uint64_t progress_staged(const struct progress *progress, unsigned rank)
{
	uint64_t staged = progress->staged[rank], done = progress->done[rank];

	return staged > done ? staged : done;
}

uint64_t progress_done(const struct progress *progress, unsigned rank)
{
	if (is_dead(progress, rank) && progress->donation)
		return progress_staged(progress, rank);
	return progress->done[rank];
}

uint64_t progress_first_open(const struct progress *progress)
{
	uint64_t least = progress_done(progress, 0);

	for (unsigned r = 1; r < progress->nranks; r++) {
		uint64_t done = progress_done(progress, r);

		if (done < least)
			least = done;
	}
	return least + 1;
}

bool progress_all_done(const struct progress *progress, uint64_t turn)
{
	return progress_first_open(progress) > turn;
}

bool progress_all_staged(const struct progress *progress, uint64_t turn)
{
	for (unsigned r = 0; r < progress->nranks; r++)
		if (progress_staged(progress, r) < turn)
			return false;
	return true;
}

int progress_dead_lacks(const struct progress *progress, uint64_t turn)
{
	for (unsigned r = 0; r < progress->nranks; r++)
		if (is_dead(progress, r) &&
		    (!progress->donation || progress_staged(progress, r) < turn))
			return (int)r;
	return -1;
}

/* The transitions of the diagram, by state. */
static const uint8_t allowed[] = {
	[VERDICT_NONE] = 1u << VERDICT_PROPOSED,
	[VERDICT_PROPOSED] = 1u << VERDICT_DECIDED | 1u << VERDICT_WITHDRAWN,
	[VERDICT_DECIDED] = 0,
	[VERDICT_WITHDRAWN] = 1u << VERDICT_PROPOSED,
};

static uint64_t move(uint64_t word, enum verdict_state to, uint64_t turn, unsigned proposer)
{
	assert(allowed[verdict_state(word)] & 1u << to);
	return verdict_pack(to, turn, proposer);
}

bool verdict_propose(uint64_t word, uint64_t turn, unsigned proposer, uint64_t *ret_word)
{
	if (!(allowed[verdict_state(word)] & 1u << VERDICT_PROPOSED))
		return false;
	if (verdict_state(word) == VERDICT_WITHDRAWN && turn <= verdict_turn(word))
		return false;
	*ret_word = move(word, VERDICT_PROPOSED, turn, proposer);
	return true;
}

uint64_t verdict_settle(uint64_t word, const struct progress *progress)
{
	uint64_t turn = verdict_turn(word);
	bool all = progress_all_done(progress, turn);

	return move(word, all ? VERDICT_WITHDRAWN : VERDICT_DECIDED, turn, verdict_proposer(word));
}

enum commit_state verdict_commit(uint64_t word, const struct progress *progress, uint64_t turn)
{
	enum verdict_state state = verdict_state(word);
	bool concerns = verdict_turn(word) <= turn;

	if (state == VERDICT_DECIDED && concerns)
		return COMMIT_FAILED;
	if (!progress_all_done(progress, turn))
		return COMMIT_WAIT;
	if (state == VERDICT_PROPOSED && concerns)
		return COMMIT_SETTLE;
	return COMMIT_DONE;
}
