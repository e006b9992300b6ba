/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the words of a kernel's blocks say together (SYMM_BLOCK_WORD in kernels/symm_layout.h).
 * Pure.
 *
 * One kernel is one turn, the kernels of a stream follow one another, and every grid has a block 0.
 * So a word of turn t proves that the kernels up to t - 1 have ended, and the word of block 0 says
 * how many words belong to its turn: those are all that has to be read. Each word only grows, so
 * what is concluded while they change was true at some time and can only be too old.
 */
#ifndef BELAY_RUNTIME_CUDA_BLOCK_WORDS_H
#define BELAY_RUNTIME_CUDA_BLOCK_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/symm_layout.h"

/* The highest turn whose output is complete by the words of its blocks alone. A turn that was
 * abandoned is not, until a later one is: its holder posts `done`. 0: none. */
uint64_t block_words_done(const uint64_t words[SYMM_BLOCKS_MAX]);

/* The highest turn of which every block has come as far as `step`, or has left. Blocks that are on
 * time post no step but that they are done, so this is old by as long as they wait without a post
 * (GATE_QUIET_NS in kernels/). 0: none. */
uint64_t block_words_reached(const uint64_t words[SYMM_BLOCKS_MAX], enum symm_block_state step);

enum grid_state {
	GRID_RUNNING = 0,   /* a block has not left the turn; or the kernel has not begun */
	GRID_DONE = 1,	    /* all have left, with their output written */
	GRID_ABANDONED = 2, /* all have left, and at least one abandoned: R2 */
	GRID_PAST = 3	    /* a later turn has begun */
};

/* How the blocks of a turn's kernel stand. */
enum grid_state block_words_grid(const uint64_t words[SYMM_BLOCKS_MAX], uint64_t turn);

/* P3: do the words of one parity of `block_staged` prove that a turn's retained input is whole? */
bool block_words_whole(const uint64_t words[SYMM_BLOCKS_MAX], uint64_t turn);

#endif /* BELAY_RUNTIME_CUDA_BLOCK_WORDS_H */
