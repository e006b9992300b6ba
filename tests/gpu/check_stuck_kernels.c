/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call kernel does when data is missing or another signature is there. The test plays the
 * watchers: it abandons, writes the output from host_sum(), releases; or gives a verdict; or is
 * silent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/sum_types.h"
#include "tests/gpu/kernel_ranks.h"

#define LATE_NS	    UINT64_C(2000000)
#define SHORT_NS    UINT64_C(50000000)
#define CALLS_AFTER 6
#define LOSER	    1u /* the rank whose fault it is */

/* ---- the watchers ------------------------------------------------------------------------- */

enum answer { ANSWER_RESCUE, ANSWER_VERDICT, ANSWER_NOTHING };

struct watchers {
	const struct trial *trial;
	enum answer answer;
	uint64_t turn;
	uint32_t stuck;	   /* ranks that said so, by bit */
	uint32_t released; /* ranks */
	uint64_t named;	   /* ranks that any of them missed */
	bool wrong;	   /* a post made no sense */
};

/* Written before any part of the rescue, on every rank: see struct symm_mode. */
static void soil(struct kernel_ranks *ranks, uint64_t turn)
{
	for (unsigned r = 0; r < ranks->nranks; r++)
		store(ranks, &ranks->comm[r].state->mode.dirty[turn % 2], &turn, sizeof(turn));
}

/* R2: has every block left, and one without its output? */
static bool is_abandoned(const struct symm_posts *posts, uint64_t turn)
{
	uint64_t word = word_now(&posts->block[0]);
	bool abandoned = false;

	if (SYMM_BLOCK_TURN(word) != turn)
		return false;
	for (uint32_t b = 0, blocks = SYMM_BLOCK_BLOCKS(word); b < blocks; b++) {
		word = word_now(&posts->block[b]);
		if (SYMM_BLOCK_TURN(word) != turn)
			return false;
		abandoned |= SYMM_BLOCK_STATE(word) == SYMM_BLOCK_ABANDONED;
	}
	return abandoned;
}

static void rescue(struct kernel_ranks *ranks, struct watchers *watchers, unsigned rank)
{
	const struct trial *trial = watchers->trial;
	const struct symm_posts *posts = &ranks->words[rank].posts;
	char *output = (char *)word_now(&posts->output);

	if (word_now(&posts->output_turn) != watchers->turn ||
	    output != launch_of(ranks, rank, trial).recv) {
		printf("# rank %u: posts.output is not that of turn %" PRIu64 "\n", rank,
		       watchers->turn);
		watchers->wrong = true;
		output = launch_of(ranks, rank, trial).recv;
	}
	CUDA(cudaMemcpyAsync(output, ranks->expected, trial->count * element_bytes(trial->dtype),
			     cudaMemcpyDefault, ranks->side));
	CUDA(cudaStreamSynchronize(ranks->side));
	watchers->released |= 1u << rank;
	word_set(&ranks->words[rank].orders.released, watchers->turn << 1 | 1);
}

static void first_stuck(struct kernel_ranks *ranks, struct watchers *watchers)
{
	if (watchers->answer == ANSWER_RESCUE) {
		kernel_ranks_expect(ranks, watchers->trial);
		soil(ranks, watchers->turn);
	} else if (watchers->answer == ANSWER_VERDICT) {
		for (unsigned r = 0; r < ranks->nranks; r++)
			word_set(&ranks->words[r].orders.fail_from, watchers->turn);
	}
}

static void watch_rank(struct kernel_ranks *ranks, struct watchers *watchers, unsigned rank)
{
	struct rank_words *words = &ranks->words[rank];

	if (word_now(&words->posts.stuck) >> 3 != watchers->turn)
		return;
	watchers->named |= word_now(&words->posts.missing);
	if (!watchers->stuck)
		first_stuck(ranks, watchers);
	watchers->stuck |= 1u << rank;
	if (watchers->answer != ANSWER_RESCUE || watchers->released >> rank & 1)
		return;
	word_set(&words->orders.abandon, watchers->turn);
	if (is_abandoned(&words->posts, watchers->turn))
		rescue(ranks, watchers, rank);
}

static void watch(struct kernel_ranks *ranks, void *context)
{
	for (unsigned r = 0; r < ranks->nranks; r++)
		watch_rank(ranks, context, r);
}

/* ---- what is tried ------------------------------------------------------------------------ */

static struct trial trial_of(const struct kernel_ranks *ranks, unsigned algorithm, uint64_t count)
{
	struct trial trial = {.dtype = HOST_SUM_BF16,
			      .op = HOST_SUM_SUM,
			      .algorithm = (uint8_t)algorithm,
			      .count = count};

	choose_grid(ranks, &trial, 256);
	return trial;
}

static void start_afresh(struct kernel_ranks *ranks)
{
	kernel_ranks_reset(ranks, 100);
	for (unsigned r = 0; r < ranks->nranks; r++)
		ranks->comm[r].late_ns = LATE_NS;
	kernel_ranks_invent(ranks, HOST_SUM_BF16, 11);
}

static bool calls_are_right(struct kernel_ranks *ranks, unsigned algorithm, unsigned calls)
{
	for (unsigned i = 0; i < calls; i++) {
		struct trial trial = trial_of(ranks, algorithm, 7168 + 8 * i);

		kernel_ranks_put(ranks, &trial, 1);
		kernel_ranks_call(ranks, &trial);
		kernel_ranks_wait(ranks, NULL, NULL);
		if (!kernel_ranks_compare(ranks, &trial, 1))
			return false;
	}
	return true;
}

/* The next call with a fault of LOSER's in it, and how the watchers met it. */
static struct watchers call_with_fault(struct kernel_ranks *ranks, const struct trial *trial,
				       uint32_t kind, enum answer answer)
{
	struct watchers watchers = {.trial = trial, .answer = answer, .turn = ranks->turn + 1};

	kernel_ranks_put(ranks, trial, 1);
	kernel_ranks_fault(ranks, LOSER, kind, SYMM_AT_PUSH, 0);
	kernel_ranks_call(ranks, trial);
	kernel_ranks_wait(ranks, watch, &watchers);
	ranks->comm[LOSER].nfaults = 0;
	return watchers;
}

static bool say(bool good, const char *what, const struct kernel_ranks *ranks, unsigned algorithm)
{
	if (!good)
		printf("# %s: not so (%u ranks, %s)\n", what, ranks->nranks,
		       algorithm_name(algorithm));
	return good;
}

/* All but LOSER must be stuck; LOSER may be, where it waits for results. */
static uint32_t losers_peers(const struct kernel_ranks *ranks)
{
	return ((1u << ranks->nranks) - 1) & ~(1u << LOSER);
}

static bool holders_posted_done(const struct kernel_ranks *ranks, const struct watchers *watchers)
{
	for (unsigned r = 0; r < ranks->nranks; r++)
		if (watchers->released >> r & 1 &&
		    word_now(&ranks->words[r].steps[3]) != watchers->turn)
			return false;
	return true;
}

/* Rescued, and again two turns later, in the parity that is dirty; then calls as before. */
static bool rescue_is_right(struct kernel_ranks *ranks, unsigned algorithm, uint32_t kind,
			    uint64_t count)
{
	struct trial trial = trial_of(ranks, algorithm, count);
	struct watchers watchers;

	start_afresh(ranks);
	if (!calls_are_right(ranks, algorithm, 2))
		return false;
	for (unsigned i = 0; i < 2; i++) {
		watchers = call_with_fault(ranks, &trial, kind, ANSWER_RESCUE);
		if (!say(!watchers.wrong, "posts make sense", ranks, algorithm) ||
		    !say((watchers.released & losers_peers(ranks)) == losers_peers(ranks),
			 "all peers were rescued", ranks, algorithm) ||
		    !say(watchers.named >> LOSER & 1, "the lost rank is named", ranks, algorithm) ||
		    !say(holders_posted_done(ranks, &watchers), "holders post done", ranks,
			 algorithm) ||
		    !kernel_ranks_compare(ranks, &trial, 1) ||
		    !calls_are_right(ranks, algorithm, 1))
			return false;
	}
	return calls_are_right(ranks, algorithm, CALLS_AFTER);
}

static void check_rescue(struct kernel_ranks *ranks, unsigned algorithm)
{
	bool drop = rescue_is_right(ranks, algorithm, SYMM_FAULT_DROP, 7168) &&
		    rescue_is_right(ranks, algorithm, SYMM_FAULT_DROP, 50001);
	bool flag = rescue_is_right(ranks, algorithm, SYMM_FAULT_FLAG, 7168);

	report(drop, "a call whose data is lost ends with the watcher's output: %s, %u ranks",
	       algorithm_name(algorithm), ranks->nranks);
	report(flag, "a wrong flag is as good as none: %s, %u ranks", algorithm_name(algorithm),
	       ranks->nranks);
}

/* Ended without a result: nothing is written, and the kernels behind touch nothing either. */
static bool has_failed(struct kernel_ranks *ranks, const struct trial *trial, uint64_t turn,
		       uint32_t who)
{
	for (unsigned r = 0; r < ranks->nranks; r++) {
		uint64_t failed;

		if (!(who >> r & 1))
			continue;
		fetch(ranks, &failed, &ranks->comm[r].state->mode.failed, sizeof(failed));
		if (!say(failed == turn, "mode.failed is set", ranks, trial->algorithm) ||
		    !say(output_is_untouched(ranks, r, trial), "the output is untouched", ranks,
			 trial->algorithm))
			return false;
	}
	return true;
}

/* One more call, on the ranks of `who`: it leaves at once. */
static bool later_calls_leave(struct kernel_ranks *ranks, const struct trial *trial, uint32_t who)
{
	uint64_t turn = ranks->turn;

	for (unsigned r = 0; r < ranks->nranks; r++)
		if (who >> r & 1)
			kernel_ranks_enqueue(ranks, r, trial, ranks->stream[r]);
	kernel_ranks_wait(ranks, NULL, NULL);
	for (unsigned r = 0; r < ranks->nranks; r++)
		if (who >> r & 1 &&
		    !say(word_now(&ranks->words[r].steps[0]) <= turn,
			 "nothing is posted after failure", ranks, trial->algorithm))
			return false;
	return has_failed(ranks, trial, turn, who);
}

static void check_verdict(struct kernel_ranks *ranks, unsigned algorithm)
{
	struct trial trial = trial_of(ranks, algorithm, 7168);
	struct watchers watchers;

	start_afresh(ranks);
	watchers = call_with_fault(ranks, &trial, SYMM_FAULT_DROP, ANSWER_VERDICT);
	report(has_failed(ranks, &trial, watchers.turn, losers_peers(ranks)) &&
		       later_calls_leave(ranks, &trial, losers_peers(ranks)),
	       "a verdict ends a call that waits, without a result: %s, %u ranks",
	       algorithm_name(algorithm), ranks->nranks);
}

static void check_last_deadline(struct kernel_ranks *ranks, unsigned algorithm)
{
	struct trial trial = trial_of(ranks, algorithm, 7168);
	struct watchers watchers;
	bool good;

	start_afresh(ranks);
	for (unsigned r = 0; r < ranks->nranks; r++)
		ranks->comm[r].last_ns = SHORT_NS;
	watchers = call_with_fault(ranks, &trial, SYMM_FAULT_DROP, ANSWER_NOTHING);
	good = has_failed(ranks, &trial, watchers.turn, losers_peers(ranks));
	for (unsigned r = 0; r < ranks->nranks && good; r++)
		good = r == LOSER || say(word_now(&ranks->words[r].posts.gave_up) == watchers.turn,
					 "gave_up is posted", ranks, algorithm);
	report(good, "nobody answers, and the call leaves all the same: %s, %u ranks",
	       algorithm_name(algorithm), ranks->nranks);
}

static void check_mismatch(struct kernel_ranks *ranks, unsigned algorithm)
{
	struct trial trial = trial_of(ranks, algorithm, 7168);
	struct watchers watchers;
	bool good;

	start_afresh(ranks);
	watchers = call_with_fault(ranks, &trial, SYMM_FAULT_SIGN, ANSWER_VERDICT);
	good = has_failed(ranks, &trial, watchers.turn, (1u << ranks->nranks) - 1);
	for (unsigned r = 0; r < ranks->nranks && good; r++) {
		uint64_t mismatch = word_now(&ranks->words[r].posts.mismatch);

		good = say(mismatch >> 8 == watchers.turn &&
				   (r == LOSER || (mismatch & 0xff) == LOSER),
			   "the mismatch is posted with the rank", ranks, algorithm);
	}
	report(good, "another signature is told and nothing is written: %s, %u ranks",
	       algorithm_name(algorithm), ranks->nranks);
}

/* With the breaker open a kernel asks at once: the soft deadline is far away. */
static void check_hasty(struct kernel_ranks *ranks)
{
	struct trial trial = trial_of(ranks, SYMM_ONESHOT_PACKETS, 7168);
	struct watchers watchers;
	uint64_t hasty = 1, start;

	start_afresh(ranks);
	for (unsigned r = 0; r < ranks->nranks; r++) {
		ranks->comm[r].late_ns = 10 * SHORT_NS;
		store(ranks, &ranks->comm[r].state->mode.hasty, &hasty, sizeof(hasty));
	}
	start = now_ns();
	watchers = call_with_fault(ranks, &trial, SYMM_FAULT_DROP, ANSWER_RESCUE);
	report(say(now_ns() - start < 10 * SHORT_NS, "it asks before the soft deadline", ranks,
		   trial.algorithm) &&
		       (watchers.released & losers_peers(ranks)) == losers_peers(ranks) &&
		       kernel_ranks_compare(ranks, &trial, 1),
	       "a hasty call asks for the rescue at once, %u ranks", ranks->nranks);
}

/* A rank that comes late, but before the soft deadline of a patient one, harms nothing. */
static void check_delay(struct kernel_ranks *ranks)
{
	struct symm_fault fault = {
		.first = 0, .last = UINT64_MAX, .step = 1, .kind = SYMM_FAULT_DELAY, .ns = 100000};
	bool good = true;

	start_afresh(ranks);
	for (unsigned at = SYMM_AT_STAGE; at <= SYMM_AT_REDUCE && good; at++) {
		fault.at = at;
		for (unsigned r = 0; r < ranks->nranks; r++)
			ranks->comm[r].late_ns = SHORT_NS;
		store(ranks, ranks->faults + LOSER, &fault, sizeof(fault));
		ranks->comm[LOSER].nfaults = 1;
		for (unsigned a = 0; a < SYMM_ALGORITHMS && good; a++)
			good = calls_are_right(ranks, a, 3);
	}
	ranks->comm[LOSER].nfaults = 0;
	report(good, "a rank that is slow at any step harms nothing, %u ranks", ranks->nranks);
}

void check_stuck_kernels(struct kernel_ranks *ranks)
{
	for (unsigned a = 0; a < SYMM_ALGORITHMS; a++) {
		check_rescue(ranks, a);
		check_verdict(ranks, a);
		check_last_deadline(ranks, a);
		check_mismatch(ranks, a);
	}
	check_hasty(ranks);
	check_delay(ranks);
	kernel_ranks_reset(ranks, 0);
}
