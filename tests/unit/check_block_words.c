/* SPDX-License-Identifier: Apache-2.0 */
/* block_words.c: what is concluded from the words of blocks, under random schedules of kernels
 * whose grids change from turn to turn, looked at in the middle of everything. */
#include <check.h>
#include <string.h>

#include "runtime/cuda/block_words.h"

#define SCHEDULES 150
#define TURNS	  12

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % n;
}

/* The kernels of one stream: blocks of a turn end in any order, turns one after the other. */
struct stream {
	uint64_t words[SYMM_BLOCKS_MAX];
	uint64_t turn; /* of the kernel that runs */
	uint32_t blocks, ended;
	uint64_t over[(SYMM_BLOCKS_MAX + 63) / 64]; /* blocks that have ended */
	uint64_t posted;			    /* `done`, as the holders post it */
	int abandoned;				    /* in this turn */
};

static void next_kernel(struct stream *s)
{
	if (s->abandoned)
		s->posted = s->turn;
	s->turn++;
	s->blocks = random_below(4) ? 1 + random_below(8) : 1 + random_below(SYMM_BLOCKS_MAX);
	s->ended = 0;
	s->abandoned = 0;
	memset(s->over, 0, sizeof(s->over));
}

/* A block that waits tells how far it has come, never less than before. */
static void tell_a_step(struct stream *s)
{
	uint32_t b = random_below(s->blocks);
	uint64_t word = SYMM_BLOCK_WORD(s->turn, s->blocks, random_below(SYMM_BLOCK_DONE));

	if (word > s->words[b])
		s->words[b] = word;
}

/* Every block has posted the step or more. */
static int all_reached(const struct stream *s, enum symm_block_state step)
{
	for (uint32_t b = 0; b < s->blocks; b++)
		if (SYMM_BLOCK_TURN(s->words[b]) != s->turn || SYMM_BLOCK_STATE(s->words[b]) < step)
			return 0;
	return 1;
}

static void end_a_block(struct stream *s)
{
	uint32_t b = random_below(s->blocks);
	int leaves = random_below(40) == 0;

	while (s->over[b / 64] >> (b % 64) & 1)
		b = (b + 1) % s->blocks;
	s->over[b / 64] |= UINT64_C(1) << (b % 64);
	s->words[b] = SYMM_BLOCK_WORD(s->turn, s->blocks,
				      leaves ? SYMM_BLOCK_ABANDONED : SYMM_BLOCK_DONE);
	s->abandoned |= leaves;
	s->ended++;
}

static void judge_step(const struct stream *s, enum symm_block_state step, uint64_t done)
{
	uint64_t reached = block_words_reached(s->words, step);

	ck_assert_uint_ge(reached, done);
	ck_assert_uint_le(reached, s->turn);
	ck_assert_int_eq(all_reached(s, step), reached == s->turn);
}

static void judge(const struct stream *s)
{
	int all = s->ended == s->blocks;
	uint64_t done = block_words_done(s->words);
	enum grid_state grid = block_words_grid(s->words, s->turn);

	/* Never too much; and all of it once the kernel has ended. */
	ck_assert_uint_le(done, all && !s->abandoned ? s->turn : s->turn - 1);
	if (all && !s->abandoned)
		ck_assert_uint_eq(done, s->turn);
	ck_assert_int_eq(grid, !all ? GRID_RUNNING : s->abandoned ? GRID_ABANDONED : GRID_DONE);
	ck_assert_int_eq(block_words_grid(s->words, s->turn + 1), GRID_RUNNING);
	judge_step(s, (enum symm_block_state)(s->ended % SYMM_BLOCK_DONE), done);
	if (all && s->turn > 1)
		ck_assert_int_eq(block_words_grid(s->words, s->turn - 1), GRID_PAST);
}

START_TEST(words_never_say_too_much_and_all_when_a_kernel_has_ended)
{
	for (uint64_t seed = 1; seed <= SCHEDULES; seed++) {
		struct stream s = {.turn = (uint64_t)UINT32_MAX * (seed % 3)};

		random_state = seed;
		for (int i = 0; i < TURNS; i++) {
			next_kernel(&s);
			judge(&s);
			while (s.ended < s.blocks) {
				if (random_below(4) == 0)
					tell_a_step(&s);
				else
					end_a_block(&s);
				judge(&s);
			}
		}
	}
}
END_TEST

START_TEST(before_the_first_kernel_nothing_is_done)
{
	static const uint64_t none[SYMM_BLOCKS_MAX];

	ck_assert_uint_eq(block_words_done(none), 0);
	ck_assert_int_eq(block_words_grid(none, 1), GRID_RUNNING);
	ck_assert(!block_words_whole(none, 1));
}
END_TEST

START_TEST(an_input_is_whole_when_every_block_of_its_grid_says_its_turn)
{
	uint64_t words[SYMM_BLOCKS_MAX] = {0};

	for (uint32_t b = 0; b < 5; b++) {
		ck_assert(!block_words_whole(words, 7));
		words[b] = SYMM_BLOCK_WORD(7, 5, SYMM_BLOCK_STAGED);
	}
	ck_assert(block_words_whole(words, 7));
	ck_assert(!block_words_whole(words, 5));
	ck_assert(!block_words_whole(words, 9));
	words[2] = SYMM_BLOCK_WORD(9, 3, SYMM_BLOCK_STAGED); /* the next of this parity begins */
	ck_assert(!block_words_whole(words, 7));
	ck_assert(!block_words_whole(words, 9));
	words[0] = words[1] = words[2];
	ck_assert(block_words_whole(words, 9));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("block_words");
	TCase *t = tcase_create("words");

	tcase_add_test(t, words_never_say_too_much_and_all_when_a_kernel_has_ended);
	tcase_add_test(t, before_the_first_kernel_nothing_is_done);
	tcase_add_test(t, an_input_is_whole_when_every_block_of_its_grid_says_its_turn);
	suite_add_tcase(s, t);
	return s;
}

#include "check_main.h"
