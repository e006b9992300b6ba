/* SPDX-License-Identifier: Apache-2.0 */
/* See block_words.h. */
#include "runtime/cuda/block_words.h"

#include "runtime/cuda/posted_words.h"

/* True when a word is of the turn and says one of the states, or anything of a later turn. */
static bool says(uint64_t word, uint64_t turn, uint32_t from, uint32_t to)
{
	if (SYMM_BLOCK_TURN(word) != turn)
		return SYMM_BLOCK_TURN(word) > turn;
	return SYMM_BLOCK_STATE(word) >= from && SYMM_BLOCK_STATE(word) <= to;
}

/* The last turn of which all words say one of the states. */
static uint64_t last_turn(const uint64_t words[SYMM_BLOCKS_MAX], uint32_t from, uint32_t to)
{
	uint64_t first = post_load(&words[0]), turn = SYMM_BLOCK_TURN(first);

	if (turn == 0)
		return 0;
	for (uint32_t b = 0; b < SYMM_BLOCK_BLOCKS(first); b++)
		if (!says(post_load(&words[b]), turn, from, to))
			return turn - 1;
	return turn;
}

uint64_t block_words_done(const uint64_t words[SYMM_BLOCKS_MAX])
{
	return last_turn(words, SYMM_BLOCK_DONE, SYMM_BLOCK_DONE);
}

uint64_t block_words_reached(const uint64_t words[SYMM_BLOCKS_MAX], enum symm_block_state step)
{
	return last_turn(words, step, SYMM_BLOCK_ABANDONED);
}

enum grid_state block_words_grid(const uint64_t words[SYMM_BLOCKS_MAX], uint64_t turn)
{
	uint64_t first = post_load(&words[0]);
	enum grid_state state = GRID_DONE;

	if (SYMM_BLOCK_TURN(first) != turn)
		return SYMM_BLOCK_TURN(first) > turn ? GRID_PAST : GRID_RUNNING;
	for (uint32_t b = 0; b < SYMM_BLOCK_BLOCKS(first); b++) {
		uint64_t word = post_load(&words[b]);

		if (!says(word, turn, SYMM_BLOCK_DONE, SYMM_BLOCK_ABANDONED))
			return GRID_RUNNING;
		if (SYMM_BLOCK_TURN(word) > turn)
			return GRID_PAST;
		if (SYMM_BLOCK_STATE(word) == SYMM_BLOCK_ABANDONED)
			state = GRID_ABANDONED;
	}
	return state;
}

bool block_words_whole(const uint64_t words[SYMM_BLOCKS_MAX], uint64_t turn)
{
	uint64_t first = post_load(&words[0]);

	for (uint32_t b = 0; b < SYMM_BLOCK_BLOCKS(first); b++)
		if (SYMM_BLOCK_TURN(post_load(&words[b])) != turn)
			return false;
	return true;
}
