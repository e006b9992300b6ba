/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels around calls: self-test, probe, comparison of clocks, pass marks, the rescue's
 * reduction, gate and parked kernel. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/host_sum.h"
#include "kernels/sum_types.h"
#include "tests/gpu/kernel_ranks.h"

#define MS UINT64_C(1000000)

static uint32_t all_ranks(const struct kernel_ranks *ranks)
{
	return (1u << ranks->nranks) - 1;
}

static struct trial small_trial(const struct kernel_ranks *ranks)
{
	struct trial trial = {.dtype = HOST_SUM_BF16, .op = HOST_SUM_SUM, .count = 7168};

	choose_grid(ranks, &trial, 256);
	return trial;
}

/* ---- before the first call ---------------------------------------------------------------- */

/* The verdicts of all owners, once `spoiler` has written a wrong bit; nranks: nobody has. */
static bool selftest_finds(struct kernel_ranks *ranks, unsigned spoiler, uint64_t nonce)
{
	int32_t want = spoiler < ranks->nranks ? (int32_t)spoiler : -1;

	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(symm_launch_selftest_write(&ranks->comm[r], nonce, r == spoiler,
						stream_of(ranks, r)));
	kernel_ranks_wait(ranks, NULL, NULL);
	for (unsigned r = 0; r < ranks->nranks; r++) {
		int32_t *verdict = (int32_t *)ranks->scratch;

		*verdict = 99;
		CUDA(symm_launch_selftest_verify(&ranks->comm[r], nonce, verdict,
						 stream_of(ranks, r)));
		kernel_ranks_wait(ranks, NULL, NULL);
		if (*verdict != want) {
			printf("# rank %u: verdict %d instead of %d\n", r, *verdict, want);
			return false;
		}
	}
	return true;
}

static void check_selftest(struct kernel_ranks *ranks)
{
	report(selftest_finds(ranks, ranks->nranks, 1) && selftest_finds(ranks, 0, 2) &&
		       selftest_finds(ranks, ranks->nranks - 1, 3) &&
		       selftest_finds(ranks, ranks->nranks, 4),
	       "the self-test finds one wrong bit and who wrote it, %u ranks", ranks->nranks);
}

/* Without rank 0's probe. */
static void check_probe(struct kernel_ranks *ranks)
{
	bool good = true;

	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(symm_launch_probe(&ranks->comm[r], 7, r == 0, stream_of(ranks, r)));
	kernel_ranks_wait(ranks, NULL, NULL);
	for (unsigned r = 0; r < ranks->nranks; r++) {
		uint32_t *seen = (uint32_t *)ranks->scratch;
		uint32_t want = r == 0 ? ranks->nranks - 1 : ranks->nranks - 2;

		CUDA(symm_launch_probe_read(&ranks->comm[r], 7, seen, stream_of(ranks, r)));
		kernel_ranks_wait(ranks, NULL, NULL);
		good = good && *seen == want;
	}
	report(good, "the probe counts the peers that can be heard, %u ranks", ranks->nranks);
}

static void give_calibration(struct kernel_ranks *ranks, void *round)
{
	word_set(&ranks->words[0].orders.calibration, *(uint64_t *)round);
}

static void check_calibration(struct kernel_ranks *ranks)
{
	const uint64_t *posted = ranks->words[0].posts.calibration;
	uint64_t round = 3, first;
	bool good;

	CUDA(symm_launch_calibrate(&ranks->comm[0], round, 1000 * MS, stream_of(ranks, 0)));
	kernel_ranks_wait(ranks, give_calibration, &round);
	first = word_now(&posted[1]);
	good = word_now(&posted[0]) == round && first != 0;
	CUDA(symm_launch_calibrate(&ranks->comm[0], round + 1, 5 * MS, stream_of(ranks, 0)));
	kernel_ranks_wait(ranks, NULL, NULL);
	good = good && word_now(&posted[0]) == round;
	round += 2;
	CUDA(symm_launch_calibrate(&ranks->comm[0], round, 1000 * MS, stream_of(ranks, 0)));
	kernel_ranks_wait(ranks, give_calibration, &round);
	report(good && word_now(&posted[0]) == round && word_now(&posted[1]) > first,
	       "clocks are compared when the host says so, and the wait for it ends");
}

/* ---- passes ------------------------------------------------------------------------------- */

static void mark(struct kernel_ranks *ranks, int begin, uint64_t ticket)
{
	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(symm_launch_pass(&ranks->comm[r], begin, ticket, stream_of(ranks, r)));
}

static bool pass_is(const struct kernel_ranks *ranks, uint64_t pass, uint64_t first, uint64_t last)
{
	for (unsigned r = 0; r < ranks->nranks; r++) {
		const struct symm_posts *posts = &ranks->words[r].posts;

		if (word_now(&posts->pass_ended) != pass || word_now(&posts->pass_begun) != pass ||
		    word_now(&posts->pass_first_seq) != first ||
		    word_now(&posts->pass_last_seq) != last ||
		    word_now(&posts->pass_last_turn) != ranks->turn ||
		    word_now(&posts->ticket) != 10 + pass ||
		    word_now(&posts->ticket_turn) != ranks->turn)
			return false;
	}
	return true;
}

static void check_passes(struct kernel_ranks *ranks)
{
	struct trial trial = small_trial(ranks);
	bool good = true;

	kernel_ranks_reset(ranks, 40);
	kernel_ranks_call(ranks, &trial);
	for (uint64_t pass = 1; pass <= 3; pass++) {
		uint64_t calls = pass == 2 ? 0 : 2 + pass;
		uint64_t before = ranks->turn;

		mark(ranks, 1, 0);
		for (uint64_t i = 0; i < calls; i++)
			kernel_ranks_call(ranks, &trial);
		mark(ranks, 0, 10 + pass);
		kernel_ranks_wait(ranks, NULL, NULL);
		good = good &&
		       pass_is(ranks, pass, calls ? before + 1 : 0, calls ? ranks->turn : 0);
	}
	report(good, "pass marks post the pass and its calls, %u ranks", ranks->nranks);
}

/* ---- the rescue's reduction --------------------------------------------------------------- */

static bool reduction_is_right(struct kernel_ranks *ranks, const struct trial *trial, size_t off)
{
	size_t bytes = trial->count * element_bytes(trial->dtype);
	size_t stride = (bytes + 15) / 16 * 16;
	char *parts = ranks->recv[0] + GUARD_BYTES, *output = ranks->send[0] + GUARD_BYTES + off;
	uint64_t *digest = ranks->comm[0].state->scratch;
	uint64_t want = kernel_ranks_expect(ranks, trial), found = 0;

	store(ranks, digest, &found, sizeof(found));
	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(cudaMemcpyAsync(parts + r * stride, ranks->input[r] + GUARD_BYTES, bytes,
				     cudaMemcpyDefault, stream_of(ranks, 0)));
	CUDA(cudaMemsetAsync(output - GUARD_BYTES, 0x5a, bytes + 2 * GUARD_BYTES,
			     stream_of(ranks, 0)));
	CUDA(symm_launch_reduce(parts, stride, ranks->nranks, trial->count, trial->dtype, trial->op,
				output, digest, stream_of(ranks, 0)));
	CUDA(cudaMemcpyAsync(ranks->output[0], output - GUARD_BYTES, bytes + 2 * GUARD_BYTES,
			     cudaMemcpyDefault, stream_of(ranks, 0)));
	kernel_ranks_wait(ranks, NULL, NULL);
	fetch(ranks, &found, digest, sizeof(found));
	if (memcmp(ranks->output[0] + GUARD_BYTES, ranks->expected, bytes) == 0 && found == want &&
	    ranks->output[0][GUARD_BYTES - 1] == 0x5a &&
	    ranks->output[0][GUARD_BYTES + bytes] == 0x5a)
		return true;
	printf("# dtype %d, op %d, %" PRIu64 " elements at + %zu: digest %" PRIx64
	       " instead of %" PRIx64 "\n",
	       trial->dtype, trial->op, trial->count, off, found, want);
	return false;
}

static void check_reduction(struct kernel_ranks *ranks)
{
	static const uint64_t counts[] = {1, 13, 7168, 50001};
	bool good = true;

	for (int dtype = HOST_SUM_F32; dtype < HOST_SUM_DTYPES && good; dtype++) {
		kernel_ranks_invent(ranks, dtype, 31);
		for (unsigned i = 0; i < 16 && good; i++) {
			struct trial trial = {
				.dtype = dtype, .op = (int)(1 + i % 4), .count = counts[i / 4]};

			good = reduction_is_right(ranks, &trial, 0) &&
			       reduction_is_right(ranks, &trial, i);
		}
	}
	report(good, "a rescue's reduction gives host_sum's bits, %u parts", ranks->nranks);
}

/* ---- gate --------------------------------------------------------------------------------- */

static void enqueue_gate(struct kernel_ranks *ranks, unsigned rank, const struct trial *trial)
{
	struct symm_launch launch = launch_of(ranks, rank, trial);

	launch.path = 2;
	CUDA(symm_launch_gate(&ranks->comm[rank], &launch, stream_of(ranks, rank)));
	launch.ticket = ranks->turn + 1;
	CUDA(symm_launch_gate_end(&ranks->comm[rank], &launch, stream_of(ranks, rank)));
}

static bool gate_is_recorded(struct kernel_ranks *ranks, unsigned rank)
{
	struct symm_record record;
	const struct symm_posts *posts = &ranks->words[rank].posts;

	fetch(ranks, &record, &ranks->comm[rank].state->ring[ranks->turn % SYMM_RING_RECORDS],
	      sizeof(record));
	for (unsigned q = 0; q < ranks->nranks; q++)
		if (record.arrival[q] == UINT32_MAX)
			return false;
	return record.turn == ranks->turn && record.turn_again == ranks->turn && record.path == 2 &&
	       word_now(&posts->block[0]) == SYMM_BLOCK_WORD(ranks->turn, 1, SYMM_BLOCK_DONE) &&
	       word_now(&posts->ticket) == ranks->turn &&
	       word_now(&posts->ticket_turn) == ranks->turn &&
	       word_now(&ranks->words[rank].steps[0]) == ranks->turn;
}

struct late_gate {
	const struct trial *trial;
	bool enqueued;
	uint64_t turn;
};

/* Rank 0 comes when the last rank has missed it. */
static void come_late(struct kernel_ranks *ranks, void *context)
{
	struct late_gate *late = context;
	const struct symm_posts *posts = &ranks->words[ranks->nranks - 1].posts;

	if (late->enqueued || word_now(&posts->stuck) != (late->turn << 3 | 1) ||
	    !(word_now(&posts->missing) & 1))
		return;
	late->enqueued = true;
	enqueue_gate(ranks, 0, late->trial);
}

static void check_gate(struct kernel_ranks *ranks)
{
	struct trial trial = small_trial(ranks);
	struct late_gate late = {.trial = &trial};
	bool good = true;

	kernel_ranks_reset(ranks, UINT32_MAX - 2);
	for (unsigned i = 0; i < 6 && good; i++) {
		for (unsigned r = 0; r < ranks->nranks; r++)
			enqueue_gate(ranks, r, &trial);
		ranks->turn++;
		kernel_ranks_wait(ranks, NULL, NULL);
		for (unsigned r = 0; r < ranks->nranks; r++)
			good = good && gate_is_recorded(ranks, r);
		kernel_ranks_call(ranks, &trial);
		kernel_ranks_wait(ranks, NULL, NULL);
	}
	report(good, "the gate lets calls of all ranks through and counts on, %u ranks",
	       ranks->nranks);
	if (ranks->nranks == 1)
		return;
	for (unsigned r = 1; r < ranks->nranks; r++) {
		ranks->comm[r].late_ns = MS;
		enqueue_gate(ranks, r, &trial);
	}
	late.turn = ranks->turn + 1;
	kernel_ranks_wait(ranks, come_late, &late);
	ranks->turn++;
	report(late.enqueued && gate_is_recorded(ranks, 1),
	       "the gate names who is late, and lets it in, %u ranks", ranks->nranks);
}

static void give_verdict(struct kernel_ranks *ranks, void *context)
{
	(void)context;
	for (unsigned r = 0; r < ranks->nranks; r++)
		if (!word_now(&ranks->words[r].posts.mismatch))
			return;
	for (unsigned r = 0; r < ranks->nranks; r++)
		word_set(&ranks->words[r].orders.fail_from, ranks->turn + 1);
}

static void check_gate_mismatch(struct kernel_ranks *ranks)
{
	struct trial trial = small_trial(ranks), other = trial;
	bool good = true;

	kernel_ranks_reset(ranks, 9);
	other.count++;
	for (unsigned r = 0; r < ranks->nranks; r++) {
		ranks->comm[r].late_ns = MS;
		enqueue_gate(ranks, r, r == 0 ? &other : &trial);
	}
	kernel_ranks_wait(ranks, give_verdict, NULL);
	for (unsigned r = 0; r < ranks->nranks; r++) {
		uint64_t failed;

		fetch(ranks, &failed, &ranks->comm[r].state->mode.failed, sizeof(failed));
		good = good && failed == 10 &&
		       word_now(&ranks->words[r].posts.mismatch) >> 8 == 10 &&
		       word_now(&ranks->words[r].posts.block[0]) == 0;
	}
	report(good, "the gate tells another signature and closes, %u ranks", ranks->nranks);
}

/* ---- parked ------------------------------------------------------------------------------- */

struct ring {
	const struct trial *trial;
	uint64_t turn;
	uint32_t released;
	bool wrong;
};

/* The watchers of a turn that all ranks leave to them. */
static void carry_out(struct kernel_ranks *ranks, void *context)
{
	struct ring *ring = context;

	for (unsigned r = 0; r < ranks->nranks; r++) {
		struct rank_words *words = &ranks->words[r];

		if (ring->released >> r & 1 ||
		    word_now(&words->posts.stuck) != (ring->turn << 3 | 4))
			continue;
		word_set(&words->orders.abandon, ring->turn);
		if (word_now(&words->posts.block[0]) !=
		    SYMM_BLOCK_WORD(ring->turn, 1, SYMM_BLOCK_ABANDONED))
			continue;
		ring->wrong |= word_now(&words->posts.output_turn) != ring->turn ||
			       word_now(&words->posts.missing) != (all_ranks(ranks) & ~(1u << r));
		CUDA(cudaMemcpyAsync((char *)word_now(&words->posts.output), ranks->expected,
				     ring->trial->count * element_bytes(ring->trial->dtype),
				     cudaMemcpyDefault, ranks->side));
		CUDA(cudaStreamSynchronize(ranks->side));
		ring->released |= 1u << r;
		word_set(&words->orders.released, ring->turn << 1 | 1);
	}
}

/* Is the input in the region, as peers and rescues read it? */
static bool is_retained(struct kernel_ranks *ranks, unsigned rank, const struct trial *trial)
{
	const struct symm_layout *layout = &ranks->comm[rank].layout;
	const char *own = ranks->space[0] + rank * layout->stride;
	size_t bytes = trial->count * element_bytes(trial->dtype);
	const uint64_t *staged = (const uint64_t *)(own + layout->block_staged);
	uint64_t word;

	fetch(ranks, &word, &staged[ranks->turn % 2 * SYMM_BLOCKS_MAX], sizeof(word));
	fetch(ranks, ranks->output[rank],
	      own + layout->retained + ranks->turn % 2 * layout->symm_bytes, bytes);
	return word == SYMM_BLOCK_WORD(ranks->turn, 1, SYMM_BLOCK_STAGED) &&
	       memcmp(ranks->output[rank], ranks->input[rank] + GUARD_BYTES + trial->send_at,
		      bytes) == 0;
}

static bool parked_is_right(struct kernel_ranks *ranks, const struct trial *trial)
{
	struct ring ring = {.trial = trial, .turn = ranks->turn + 1};

	kernel_ranks_put(ranks, trial, 1);
	kernel_ranks_expect(ranks, trial);
	for (unsigned r = 0; r < ranks->nranks; r++) {
		struct symm_launch launch = launch_of(ranks, r, trial);

		launch.ticket = ring.turn;
		CUDA(symm_launch_parked(&ranks->comm[r], &launch, stream_of(ranks, r)));
	}
	ranks->turn++;
	kernel_ranks_wait(ranks, carry_out, &ring);
	if (ranks->nranks > 1 && (ring.wrong || ring.released != all_ranks(ranks)))
		return false;
	for (unsigned r = 0; r < ranks->nranks; r++)
		if (word_now(&ranks->words[r].posts.ticket) != ring.turn ||
		    word_now(&ranks->words[r].posts.ticket_turn) != ring.turn ||
		    (ranks->nranks > 1 && (word_now(&ranks->words[r].steps[3]) != ring.turn ||
					   !is_retained(ranks, r, trial))))
			return false;
	return kernel_ranks_compare(ranks, trial, 1);
}

static void check_parked(struct kernel_ranks *ranks)
{
	bool good = true;

	kernel_ranks_reset(ranks, 20);
	kernel_ranks_invent(ranks, HOST_SUM_F32, 3);
	for (size_t i = 0; i < 6 && good; i++) {
		struct trial trial = {.dtype = HOST_SUM_F32,
				      .op = HOST_SUM_SUM,
				      .algorithm = SYMM_ONESHOT_PACKETS,
				      .count = 7168 + i,
				      .send_at = i * 4 % 20 + i % 2};

		choose_grid(ranks, &trial, 256);
		good = parked_is_right(ranks, &trial);
	}
	report(good, "a parked call stages, is carried out by the watchers and ends, %u ranks",
	       ranks->nranks);
}

void check_service_kernels(struct kernel_ranks *ranks)
{
	check_selftest(ranks);
	if (ranks->nranks > 1)
		check_probe(ranks);
	check_calibration(ranks);
	check_passes(ranks);
	check_reduction(ranks);
	check_gate(ranks);
	if (ranks->nranks > 1)
		check_gate_mismatch(ranks);
	check_parked(ranks);
	kernel_ranks_reset(ranks, 0);
}
