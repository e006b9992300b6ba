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
#include "runtime/cuda/block_words.h"
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
	return block_words_grid(posts->block, turn) == GRID_ABANDONED;
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
			kernel_ranks_enqueue(ranks, r, trial, stream_of(ranks, r));
	kernel_ranks_wait(ranks, NULL, NULL);
	for (unsigned r = 0; r < ranks->nranks; r++)
		if (who >> r & 1 &&
		    !say(kernel_ranks_staged(ranks, r) <= turn, "nothing is posted after failure",
			 ranks, trial->algorithm))
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

/* Its record of the last turn says that its input stood there so late. */
static bool is_recorded_late(struct kernel_ranks *ranks, unsigned algorithm, uint64_t ns)
{
	const struct symm_state *state = ranks->comm[LOSER].state;
	struct symm_record record;

	fetch(ranks, &record, &state->ring[ranks->turn % SYMM_RING_RECORDS], sizeof(record));
	if (record.turn == ranks->turn && record.staged >= ns)
		return true;
	printf("# turn %" PRIu64 ", %s: the record of turn %" PRIu64
	       " says staged after %u ns, not %" PRIu64 "\n",
	       ranks->turn, algorithm_name(algorithm), record.turn, record.staged, ns);
	return false;
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
			good = calls_are_right(ranks, a, 3) &&
			       (at != SYMM_AT_STAGE || is_recorded_late(ranks, a, fault.ns));
	}
	ranks->comm[LOSER].nfaults = 0;
	report(good,
	       "a rank that is slow at any step harms nothing, and its record knows, %u ranks",
	       ranks->nranks);
}

/* A rank that comes after the soft deadline: the others say whom they miss, nobody answers, and all
 * end by themselves. What is delayed later than the push, nobody needs to miss. */
static void check_late(struct kernel_ranks *ranks, unsigned algorithm)
{
	struct trial trial = trial_of(ranks, algorithm, 7168);
	struct symm_fault fault = {.step = 1, .kind = SYMM_FAULT_DELAY, .ns = 10 * LATE_NS};
	bool good = true;

	start_afresh(ranks);
	for (unsigned at = SYMM_AT_STAGE; at <= SYMM_AT_REDUCE && good; at++) {
		struct watchers watchers = {
			.trial = &trial, .answer = ANSWER_NOTHING, .turn = ranks->turn + 1};

		fault.at = at;
		fault.first = fault.last = watchers.turn;
		store(ranks, ranks->faults + LOSER, &fault, sizeof(fault));
		ranks->comm[LOSER].nfaults = 1;
		kernel_ranks_put(ranks, &trial, 1);
		kernel_ranks_call(ranks, &trial);
		kernel_ranks_wait(ranks, watch, &watchers);
		ranks->comm[LOSER].nfaults = 0;
		good = kernel_ranks_compare(ranks, &trial, 1) &&
		       say(at > SYMM_AT_PUSH || watchers.named >> LOSER & 1,
			   "the late rank is named", ranks, algorithm) &&
		       calls_are_right(ranks, algorithm, 2);
	}
	report(good, "a rank that is late at any step is waited for: %s, %u ranks",
	       algorithm_name(algorithm), ranks->nranks);
}

/* ---- faults that the host carries out -------------------------------------------------------- */

struct asked {
	uint64_t turn, asked; /* what was asked, once it has been */
	uint64_t staged;      /* LOSER's step then */
};

/* Plays the runtime of the rank that is to be killed or stopped, and does neither. */
static void answer_fault(struct kernel_ranks *ranks, void *context)
{
	struct rank_words *words = &ranks->words[LOSER];
	uint64_t fault = word_now(&words->posts.fault_asked);
	struct asked *asked = context;

	if (asked->asked || fault >> 8 != asked->turn)
		return;
	asked->staged = kernel_ranks_staged(ranks, LOSER);
	asked->asked = fault;
	word_set(&words->orders.fault_done, fault);
}

/* Before its staging a rank has not staged; at all later points it has, as a whole. */
static bool ask_is_right(struct kernel_ranks *ranks, unsigned algorithm, uint32_t at)
{
	struct trial trial = trial_of(ranks, algorithm, 50001);
	struct asked asked = {.turn = ranks->turn + 1};

	kernel_ranks_put(ranks, &trial, 1);
	kernel_ranks_fault(ranks, LOSER, SYMM_FAULT_ASK, at, 0);
	kernel_ranks_call(ranks, &trial);
	kernel_ranks_wait(ranks, answer_fault, &asked);
	ranks->comm[LOSER].nfaults = 0;
	return say(asked.asked == (asked.turn << 8 | at), "the point is asked for", ranks,
		   algorithm) &&
	       say((asked.staged >= asked.turn) == (at > SYMM_AT_STAGE),
		   "it has staged whole, or not begun to", ranks, algorithm) &&
	       kernel_ranks_compare(ranks, &trial, 1);
}

static void check_ask(struct kernel_ranks *ranks, unsigned algorithm)
{
	bool good = true;

	start_afresh(ranks);
	for (unsigned r = 0; r < ranks->nranks; r++)
		ranks->comm[r].late_ns = SHORT_NS;
	for (uint32_t at = SYMM_AT_STAGE; at <= SYMM_AT_REDUCE && good; at++)
		good = ask_is_right(ranks, algorithm, at) && calls_are_right(ranks, algorithm, 2);
	report(good, "the host is asked at each step, and the call goes on: %s, %u ranks",
	       algorithm_name(algorithm), ranks->nranks);
}

/* ---- dirty turns ----------------------------------------------------------------------------- */

#define LEFTOVER 0x11
#define PULLED	 3 /* enum belay_algorithm */

/* Full-wire slots of one parity in one rank's region: three areas, of which the last has a gap, the
 * rank's own results. */
#define SLOT_AREAS 4
struct slots {
	char *from[SLOT_AREAS];
	size_t bytes[SLOT_AREAS];
};

static struct slots slots_of(const struct kernel_ranks *ranks, unsigned rank, uint64_t turn)
{
	const struct symm_layout *layout = &ranks->comm[rank].layout;
	char *own = ranks->space[0] + rank * layout->stride;
	uint64_t parity = turn % 2, n = ranks->nranks, slice = layout->slice_bytes;
	char *results = own + layout->results + parity * n * slice;

	return (struct slots){
		.from = {own + layout->wire + parity * n * layout->wire_bytes,
			 own + layout->inputs + parity * n * slice, results,
			 results + (rank + 1) * slice},
		.bytes = {n * layout->wire_bytes, n * slice, rank * slice, (n - rank - 1) * slice},
	};
}

/* As if writes of an abandoned turn had stayed there. */
static void leave_leftovers(struct kernel_ranks *ranks, uint64_t turn)
{
	for (unsigned r = 0; r < ranks->nranks; r++) {
		struct slots slots = slots_of(ranks, r, turn);

		for (unsigned i = 0; i < SLOT_AREAS; i++)
			CUDA(cudaMemsetAsync(slots.from[i], LEFTOVER, slots.bytes[i], ranks->side));
	}
	CUDA(cudaStreamSynchronize(ranks->side));
}

static bool area_is_clean(struct kernel_ranks *ranks, const char *from, size_t bytes)
{
	static unsigned char piece[FETCH_MAX];

	for (size_t at = 0; at < bytes; at += FETCH_MAX) {
		size_t now = bytes - at < FETCH_MAX ? bytes - at : FETCH_MAX;

		fetch(ranks, piece, from + at, now);
		for (size_t i = 0; i < now; i++)
			if (piece[i] != 0xff)
				return false;
	}
	return true;
}

static bool slots_are_clean(struct kernel_ranks *ranks, uint64_t turn)
{
	for (unsigned r = 0; r < ranks->nranks; r++) {
		struct slots slots = slots_of(ranks, r, turn);

		for (unsigned i = 0; i < SLOT_AREAS; i++)
			if (!area_is_clean(ranks, slots.from[i], slots.bytes[i])) {
				printf("# rank %u: a slot of area %u is not all ones\n", r, i);
				return false;
			}
	}
	return true;
}

static bool was_pulled(struct kernel_ranks *ranks)
{
	struct symm_record record;

	for (unsigned r = 0; r < ranks->nranks; r++) {
		fetch(ranks, &record, &ranks->comm[r].state->ring[ranks->turn % SYMM_RING_RECORDS],
		      sizeof(record));
		if (record.turn != ranks->turn || record.algorithm != PULLED)
			return false;
	}
	return true;
}

/* A turn t is said to be abandoned: t + 1 is as ever, t + 2 is pulled and cleans the slots, and
 * what comes then is as ever again. */
static void check_dirty(struct kernel_ranks *ranks, unsigned algorithm)
{
	bool pulls = algorithm == SYMM_TWOSHOT_PULL, good;
	uint64_t dirty;

	start_afresh(ranks);
	good = calls_are_right(ranks, algorithm, 3);
	dirty = ranks->turn;
	soil(ranks, dirty);
	leave_leftovers(ranks, dirty);
	good = good && calls_are_right(ranks, algorithm, 1) &&
	       say(was_pulled(ranks) == pulls, "the turn between is as ever", ranks, algorithm) &&
	       say(pulls || !slots_are_clean(ranks, dirty), "leftovers are there", ranks,
		   algorithm) &&
	       calls_are_right(ranks, algorithm, 1) &&
	       say(was_pulled(ranks), "the dirty turn is pulled", ranks, algorithm) &&
	       say(slots_are_clean(ranks, dirty), "the slots are clean", ranks, algorithm) &&
	       calls_are_right(ranks, algorithm, 1) &&
	       say(was_pulled(ranks) == pulls, "the turn after is as ever", ranks, algorithm);
	for (unsigned a = 0; a < SYMM_ALGORITHMS && good; a++)
		good = calls_are_right(ranks, a, 3);
	report(good, "a dirty turn is pulled and leaves clean slots: %s, %u ranks",
	       algorithm_name(algorithm), ranks->nranks);
}

/* ---- a graph whose grids change -------------------------------------------------------------- */

#define NODES	    6u
#define NODE_BYTES  (UINT64_C(128) << 10)
#define NODE_BLOCKS 16u

static void make_nodes(const struct kernel_ranks *ranks, struct trial *trials)
{
	unsigned fit = blocks_that_fit(ranks), most = fit < NODE_BLOCKS ? fit : NODE_BLOCKS;
	const unsigned blocks[NODES] = {1, most, 2, most / 2, 3, most - 1};

	for (unsigned i = 0; i < NODES; i++) {
		trials[i] = trial_of(ranks, i % SYMM_ALGORITHMS, 50001 + 8 * i);
		if (blocks[i] >= 1 && blocks[i] <= most)
			trials[i].blocks = (uint16_t)blocks[i];
		trials[i].send_at = trials[i].recv_at = i * NODE_BYTES;
	}
}

static cudaGraphExec_t capture_nodes(struct kernel_ranks *ranks, unsigned rank,
				     const struct trial *trials)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CUDA(cudaStreamBeginCapture(stream_of(ranks, rank), cudaStreamCaptureModeThreadLocal));
	for (unsigned i = 0; i < NODES; i++)
		kernel_ranks_enqueue(ranks, rank, &trials[i], stream_of(ranks, rank));
	CUDA(cudaStreamEndCapture(stream_of(ranks, rank), &graph));
	CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

static bool replay_is_right(struct kernel_ranks *ranks, const cudaGraphExec_t *exec,
			    const struct trial *trials, struct watchers *watchers)
{
	kernel_ranks_put(ranks, trials, NODES);
	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(cudaGraphLaunch(exec[r], stream_of(ranks, r)));
	ranks->turn += NODES;
	kernel_ranks_wait(ranks, watchers ? watch : NULL, watchers);
	return kernel_ranks_compare(ranks, trials, NODES);
}

/* The second replay loses the data of its call `lost`; the dirty turn has another grid, too. */
static bool rescue_in_graph_is_right(struct kernel_ranks *ranks, unsigned lost)
{
	cudaGraphExec_t exec[SYMM_RANKS_MAX];
	struct watchers watchers = {.answer = ANSWER_RESCUE};
	struct trial trials[NODES];
	bool good;

	start_afresh(ranks);
	make_nodes(ranks, trials);
	watchers.trial = &trials[lost];
	watchers.turn = ranks->turn + NODES + lost + 1;
	kernel_ranks_fault(ranks, LOSER, SYMM_FAULT_DROP, SYMM_AT_PUSH, NODES + lost);
	for (unsigned r = 0; r < ranks->nranks; r++)
		exec[r] = capture_nodes(ranks, r, trials);
	good = replay_is_right(ranks, exec, trials, NULL) &&
	       replay_is_right(ranks, exec, trials, &watchers) &&
	       say((watchers.released & losers_peers(ranks)) == losers_peers(ranks),
		   "all peers were rescued", ranks, trials[lost].algorithm) &&
	       replay_is_right(ranks, exec, trials, NULL);
	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(cudaGraphExecDestroy(exec[r]));
	ranks->comm[LOSER].nfaults = 0;
	return good && say(!watchers.wrong, "posts make sense", ranks, trials[lost].algorithm);
}

static void check_changing_grids(struct kernel_ranks *ranks)
{
	bool good = true;

	for (unsigned lost = 0; lost < NODES && good; lost++)
		good = rescue_in_graph_is_right(ranks, lost);
	report(good, "grids change from call to call in a graph, and each can be rescued, %u ranks",
	       ranks->nranks);
}

void check_stuck_kernels(struct kernel_ranks *ranks)
{
	for (unsigned a = 0; a < SYMM_ALGORITHMS; a++) {
		check_rescue(ranks, a);
		check_verdict(ranks, a);
		check_last_deadline(ranks, a);
		check_mismatch(ranks, a);
		check_late(ranks, a);
		check_ask(ranks, a);
		check_dirty(ranks, a);
	}
	check_changing_grids(ranks);
	check_hasty(ranks);
	check_delay(ranks);
	kernel_ranks_reset(ranks, 0);
}
