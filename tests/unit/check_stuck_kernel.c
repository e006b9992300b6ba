/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stuck_kernel.c against a made-up kernel of G blocks: each access to a word that two sides share
 * is a step, and seeded schedules mix the steps of blocks, watcher, rescue and verdict. After each
 * step:
 *   - nobody but the watcher writes the output once the watcher may, and then all blocks have left
 * (R2)
 *   - a kernel is released only while no write is queued (R3)
 *   - a turn is done once, by its blocks or by its holder, and never after a failed one (V6)
 * and every schedule ends: no block stays behind.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/stuck_kernel.h"

#define BLOCKS_MAX 6
#define TURNS	   4
#define STEPS_MAX  200000

enum block_state {
	B_WORKING,  /* its data is not here */
	B_WRITING,  /* writes output */
	B_LEAVING,  /* has read the order to abandon */
	B_SWAPPING, /* its word is posted */
	B_HOLDING,  /* waits for `released` */
	B_OUT
};

struct world {
	uint64_t seed, random;
	unsigned blocks;
	enum block_state block[BLOCKS_MAX];
	bool owns[BLOCKS_MAX];
	struct symm_posts posts;
	struct symm_orders orders;
	uint64_t turn, first, done_word;
	int owner, holder; /* -1: none */
	bool kernel_failed;
	unsigned loss; /* of 100 looks, how many find no data */
	struct mailbox mailbox;
	bool writing, written; /* the watcher's write: queued; landed */
	uint64_t failed;       /* verdict */
	uint64_t mismatch_told, gave_up_told;
	unsigned times_done[TURNS + 2], rescues, kills;
};

static struct world w;

static uint32_t random_below(uint32_t n)
{
	w.random = w.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(w.random >> 33) % n;
}

#define HOLDS(condition)                                                                           \
	ck_assert_msg((condition), "%s in schedule %lu, turn %lu", #condition,                     \
		      (unsigned long)w.seed, (unsigned long)w.turn)

/* ---- the kernel ------------------------------------------------------------------------------ */

static void begin_kernel(void)
{
	w.turn++;
	w.blocks = 1 + random_below(BLOCKS_MAX);
	w.owner = w.holder = -1;
	w.written = false;
	memset(w.owns, 0, sizeof(w.owns));
	for (unsigned b = 0; b < w.blocks; b++)
		w.block[b] = B_WORKING;
}

static void count_done(void)
{
	w.times_done[w.turn - w.first]++;
	HOLDS(w.times_done[w.turn - w.first] == 1);
	HOLDS(!w.kernel_failed);
}

static bool all_out(void)
{
	for (unsigned b = 0; b < w.blocks; b++)
		if (w.block[b] != B_OUT)
			return false;
	return true;
}

static void leave(unsigned b, enum symm_block_state state)
{
	w.posts.block[b] = SYMM_BLOCK_WORD(w.turn, w.blocks, state);
	if (w.owner == (int)b)
		w.owner = -1;
	if (state == SYMM_BLOCK_DONE)
		w.block[b] = B_OUT;
	if (block_words_grid(w.posts.block, w.turn) == GRID_DONE)
		count_done();
}

/* What the gate warp does while data is missing. */
static void wait_on(unsigned b)
{
	uint64_t step = SYMM_BLOCK_WORD(w.turn, w.blocks, random_below(SYMM_BLOCK_DONE));

	if (step > w.posts.block[b])
		w.posts.block[b] = step;
	if (w.owner < 0) {
		w.owner = (int)b;
		w.posts.output = 1000 + w.turn;
		w.posts.output_turn = w.turn;
		w.owns[b] = false; /* `stuck` is a step of its own */
	} else if (w.owner == (int)b && !w.owns[b]) {
		w.owns[b] = true;
		w.posts.stuck = w.turn << 3 | (1 + random_below(2));
		w.posts.missing = 1 + random_below(6);
	}
	if (w.orders.fail_from && w.orders.fail_from <= w.turn) {
		w.kernel_failed = true;
		w.block[b] = B_OUT;
	} else if (w.orders.abandon == w.turn) {
		w.block[b] = B_LEAVING;
	}
}

static void hold(unsigned b)
{
	if (w.orders.released >> 1 != w.turn)
		return;
	if (w.orders.released & 1) {
		HOLDS(w.written);
		w.done_word = w.turn;
		count_done();
	} else {
		w.kernel_failed = true;
	}
	w.block[b] = B_OUT;
}

static void step_block(unsigned b)
{
	switch (w.block[b]) {
	case B_WORKING:
		if (random_below(100) >= w.loss)
			w.block[b] = B_WRITING;
		else
			wait_on(b);
		break;
	case B_WRITING:
		HOLDS(!w.writing && !w.written);
		leave(b, SYMM_BLOCK_DONE);
		break;
	case B_LEAVING: /* all workers had finished all the same, or they have left */
		if (random_below(4) == 0) {
			w.block[b] = B_WRITING;
			break;
		}
		w.block[b] = B_SWAPPING;
		leave(b, SYMM_BLOCK_ABANDONED);
		break;
	case B_SWAPPING:
		w.block[b] = w.holder < 0 ? B_HOLDING : B_OUT;
		if (w.holder < 0)
			w.holder = (int)b;
		break;
	case B_HOLDING:
		hold(b);
		break;
	case B_OUT:
		break;
	}
}

static void step_kernel(void)
{
	if (!all_out())
		step_block(random_below(w.blocks));
	else if (w.turn - w.first < TURNS && !w.kernel_failed)
		begin_kernel();
}

/* ---- watcher and rescue ---------------------------------------------------------------------- */

static uint64_t done_here(void)
{
	uint64_t folded = block_words_done(w.posts.block);

	return folded > w.done_word ? folded : w.done_word;
}

static struct stuck_view look(void)
{
	struct stuck_turn stuck;
	enum mailbox_state state = mailbox_read(&w.mailbox, &stuck);

	return (struct stuck_view){
		.stuck = w.posts.stuck,
		.missing = w.posts.missing,
		.output_turn = w.posts.output_turn,
		.mismatch = w.posts.mismatch,
		.gave_up = w.posts.gave_up,
		.done = done_here(),
		.state = state,
		.turn = stuck.turn,
		.phase = stuck.phase,
		.told_missing = stuck.missing,
		.grid = block_words_grid(w.posts.block, stuck.turn),
		.outcome = w.mailbox.outcome,
		.abandon = w.orders.abandon,
		.fail_from = w.orders.fail_from,
		.released = w.orders.released,
		.mismatch_told = w.mismatch_told,
		.gave_up_told = w.gave_up_told,
		.failed = w.failed,
	};
}

static void release(uint64_t value)
{
	HOLDS(!w.writing);
	HOLDS(w.orders.released < value);
	w.orders.released = value;
}

static void do_action(const struct stuck_action *action)
{
	struct stuck_turn stuck = {
		.turn = action->turn, .phase = action->phase, .missing = action->missing};

	switch (action->kind) {
	case STUCK_FAIL:
		w.orders.fail_from = action->value;
		break;
	case STUCK_POST:
		mailbox_post(&w.mailbox, &stuck);
		break;
	case STUCK_UPDATE:
		mailbox_update(&w.mailbox, action->phase, action->missing);
		break;
	case STUCK_CLEAR:
		mailbox_clear(&w.mailbox);
		break;
	case STUCK_ORDER:
		w.orders.abandon = action->value;
		break;
	case STUCK_ABANDON:
		HOLDS(mailbox_abandon(&w.mailbox));
		break;
	case STUCK_RELEASE:
		mailbox_clear(&w.mailbox);
		release(action->value);
		break;
	case STUCK_LET_GO:
		release(action->value);
		break;
	case STUCK_COMPLAIN:
		w.mismatch_told = action->value;
		break;
	case STUCK_GAVE_UP:
		w.gave_up_told = action->value;
		break;
	case STUCK_ACT:
	case STUCK_NOTHING:
		break;
	}
}

static void step_watcher(void)
{
	struct stuck_view view = look();
	struct stuck_action action;

	/* What the view was made of may change before it is acted on. */
	if (random_below(2))
		step_kernel();
	action = stuck_decide(&view);
	do_action(&action);
}

static void step_rescue(void)
{
	struct stuck_turn stuck;
	enum mailbox_state state = mailbox_read(&w.mailbox, &stuck);

	if (w.writing) {
		for (unsigned b = 0; b < w.blocks; b++)
			HOLDS(w.block[b] != B_WORKING && w.block[b] != B_WRITING);
		HOLDS(stuck.turn == w.turn);
		w.writing = false;
		w.written = true;
		mailbox_release(&w.mailbox, stuck.turn, 0, 1);
		w.rescues++;
	} else if (state == MAILBOX_STUCK && !w.failed) {
		(void)mailbox_ask(&w.mailbox, stuck.turn, 1);
	} else if (state == MAILBOX_ABANDONED && w.failed) {
		mailbox_release(&w.mailbox, stuck.turn, -1, 0);
	} else if (state == MAILBOX_ABANDONED) {
		w.writing = true;
	}
}

/* V2: the first open turn, which this rank may have done meanwhile. */
static void step_verdict(void)
{
	if (!w.failed && random_below(150) == 0) {
		w.failed = done_here() + 1;
		w.kills++;
	}
}

/* ---- schedules ------------------------------------------------------------------------------- */

static bool is_at_rest(void)
{
	struct stuck_turn stuck;

	return all_out() && (w.kernel_failed || w.turn - w.first == TURNS) &&
	       mailbox_read(&w.mailbox, &stuck) == MAILBOX_IDLE && !w.writing;
}

static void run(uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	w.seed = w.random = seed;
	w.first = w.turn = seed % 5 ? seed : UINT32_MAX - 2;
	w.loss = seed % 7 == 0 ? 100 : 40 + random_below(60);
	mailbox_init(&w.mailbox);
	begin_kernel();
	for (int i = 0; i < STEPS_MAX && !is_at_rest(); i++) {
		switch (random_below(8)) {
		case 0:
		case 1:
			step_watcher();
			break;
		case 2:
			step_rescue();
			break;
		case 3:
			if (seed % 2)
				step_verdict();
			break;
		default:
			step_kernel();
			break;
		}
	}
	HOLDS(is_at_rest());
	for (unsigned t = 1; t <= TURNS && !w.kernel_failed; t++)
		HOLDS(w.times_done[t] == 1);
	mailbox_destroy(&w.mailbox);
}

START_TEST(a_kernel_is_done_rescued_or_failed_and_never_two_of_it)
{
	const char *chosen = getenv("BELAY_SEED");
	unsigned rescues = 0, kills = 0;

	if (chosen) {
		run(strtoull(chosen, NULL, 10));
		return;
	}
	for (uint64_t seed = 1; seed <= 6000; seed++) {
		run(seed);
		rescues += w.rescues;
		kills += w.kills;
	}
	/* The schedules do reach what they are about. */
	ck_assert_uint_gt(rescues, 1000);
	ck_assert_uint_gt(kills, 300);
}
END_TEST

/* ---- the table, row by row ------------------------------------------------------------------- */

#define T 9u /* the turn */

static const struct {
	const char *what;
	struct stuck_view view;
	enum stuck_action_kind kind;
	uint64_t value;
} rows[] = {
	{"nothing is stuck", {.done = T}, STUCK_NOTHING, 0},
	{"a turn that is done is not stuck", {.stuck = T << 3 | 1, .done = T}, STUCK_NOTHING, 0},
	{"a stuck turn is told", {.stuck = T << 3 | 1, .done = T - 1}, STUCK_POST, 0},
	{"a released turn is not told again",
	 {.stuck = T << 3 | 1, .done = T - 1, .released = T << 1 | 1},
	 STUCK_NOTHING,
	 0},
	{"what is missing now is told",
	 {.stuck = T << 3 | 1,
	  .missing = 2,
	  .state = MAILBOX_STUCK,
	  .turn = T,
	  .phase = WAIT_INPUTS,
	  .told_missing = 6},
	 STUCK_UPDATE,
	 0},
	{"a mismatch is complained about once",
	 {.stuck = T << 3 | 1, .done = T - 1, .mismatch = T << 8 | 3},
	 STUCK_COMPLAIN,
	 T},
	{"... and then only a verdict is waited for",
	 {.stuck = T << 3 | 1,
	  .mismatch = T << 8 | 3,
	  .mismatch_told = T,
	  .state = MAILBOX_STUCK,
	  .turn = T,
	  .phase = WAIT_INPUTS},
	 STUCK_UPDATE,
	 0},
	{"an order needs a known output",
	 {.stuck = T << 3 | 1, .state = MAILBOX_ASKED, .turn = T, .phase = WAIT_INPUTS},
	 STUCK_NOTHING,
	 0},
	{"an asked turn is ordered to be abandoned",
	 {.stuck = T << 3 | 1,
	  .output_turn = T,
	  .state = MAILBOX_ASKED,
	  .turn = T,
	  .phase = WAIT_INPUTS},
	 STUCK_ORDER,
	 T},
	{"while a block has not left nothing is abandoned",
	 {.stuck = T << 3 | 1,
	  .output_turn = T,
	  .state = MAILBOX_ASKED,
	  .turn = T,
	  .phase = WAIT_INPUTS,
	  .abandon = T,
	  .grid = GRID_RUNNING},
	 STUCK_NOTHING,
	 0},
	{"all blocks have left",
	 {.stuck = T << 3 | 1,
	  .output_turn = T,
	  .state = MAILBOX_ASKED,
	  .turn = T,
	  .phase = WAIT_INPUTS,
	  .abandon = T,
	  .grid = GRID_ABANDONED},
	 STUCK_ABANDON,
	 T},
	{"an output that is written lets the kernel go on",
	 {.state = MAILBOX_RELEASED, .turn = T, .outcome = 0},
	 STUCK_RELEASE,
	 T << 1 | 1},
	{"... but not while a write of it is queued",
	 {.state = MAILBOX_RELEASED, .turn = T, .outcome = 0, .queued = true},
	 STUCK_NOTHING,
	 0},
	{"one that is not lets it go without",
	 {.state = MAILBOX_RELEASED, .turn = T, .outcome = -1},
	 STUCK_RELEASE,
	 T << 1},
	{"a verdict is passed on", {.failed = T, .done = T - 1}, STUCK_FAIL, T},
	{"a holder that nobody was told of is let go",
	 {.failed = T, .fail_from = T, .done = T - 1, .abandon = T},
	 STUCK_LET_GO,
	 T << 1},
	{"... once",
	 {.failed = T, .fail_from = T, .done = T - 1, .abandon = T, .released = T << 1},
	 STUCK_NOTHING,
	 0},
	{"a verdict leaves an abandoned turn to its rescue",
	 {.failed = T, .fail_from = T, .done = T - 1, .state = MAILBOX_ABANDONED, .turn = T},
	 STUCK_NOTHING,
	 0},
	{"a fault point is acted on first",
	 {.fault_asked = T << 8 | 3, .failed = T},
	 STUCK_ACT,
	 T << 8 | 3},
	{"... once", {.fault_asked = T << 8 | 3, .fault_done = T << 8 | 3}, STUCK_NOTHING, 0},
	{"a kernel that gave up is complained about", {.gave_up = T}, STUCK_GAVE_UP, T},
};

START_TEST(each_row_of_the_table)
{
	struct stuck_action action = stuck_decide(&rows[_i].view);

	ck_assert_msg(action.kind == rows[_i].kind, "%s: %d", rows[_i].what, (int)action.kind);
	ck_assert_msg(action.value == rows[_i].value, "%s: value", rows[_i].what);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("stuck_kernel");
	TCase *t = tcase_create("kernel");

	tcase_add_test(t, a_kernel_is_done_rescued_or_failed_and_never_two_of_it);
	tcase_add_loop_test(t, each_row_of_the_table, 0, (int)(sizeof(rows) / sizeof(rows[0])));
	suite_add_tcase(s, t);
	return s;
}

#include "check_main.h"
