/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the symm path on a GPU, without runtime and processes: every algorithm, type and
 * operation against host_sum(), bit for bit; graphs; then what kernels do when something is missing
 * (check_stuck_kernels.c), the service kernels (check_service_kernels.c), and, with --time, how
 * fast the calls are (time_kernels.c).
 *
 * usage: check_kernels [--time [OPTION...]]
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host_sum.h"
#include "kernels/sum_types.h"
#include "runtime/cuda/block_words.h"
#include "tests/gpu/kernel_ranks.h"

#define MB	    (UINT64_C(1) << 20)
#define SYMM_BYTES  (2 * MB)
#define GRAPH_CALLS 122

static unsigned reported, failed;

void report(bool good, const char *format, ...)
{
	va_list arguments;

	reported++;
	failed += !good;
	printf("%sok %u - ", good ? "" : "not ", reported);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
}

/* One call from entry to comparison. */
static bool call_is_right(struct kernel_ranks *ranks, const struct trial *trial)
{
	kernel_ranks_put(ranks, trial, 1);
	kernel_ranks_call(ranks, trial);
	kernel_ranks_wait(ranks, NULL, NULL);
	return kernel_ranks_compare(ranks, trial, 1);
}

/* ---- bits --------------------------------------------------------------------------------- */

static const uint16_t thread_choices[] = {128, 256, 512, 64};

/* Sizes around packets, the workloads' sizes, and the largest. */
static const size_t sizes[] = {0,	   1,	    7,	    16,	    24,		 1000,
			       4099,	   14336,   114688, 262144, 262144 + 24, MB / 2 - 8,
			       MB / 2 + 1, MB - 24, MB,	    2 * MB};

/* A type and an operation in all sizes. */
static bool sizes_are_right(struct kernel_ranks *ranks, unsigned algorithm, int dtype, int op)
{
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct trial trial = {.dtype = dtype,
				      .op = op,
				      .algorithm = (uint8_t)algorithm,
				      .in_place = i % 3 == 1,
				      .count = (sizes[i] + element_bytes(dtype) - 1) /
					       element_bytes(dtype)};

		if (!algorithm_takes(ranks, algorithm, dtype, trial.count * element_bytes(dtype)))
			continue;
		choose_grid(ranks, &trial, thread_choices[(i + (unsigned)op) % 4]);
		if (!call_is_right(ranks, &trial))
			return false;
	}
	return true;
}

static bool ops_are_right(struct kernel_ranks *ranks, unsigned algorithm, int dtype)
{
	for (int op = HOST_SUM_SUM; op < HOST_SUM_OPS; op++)
		if (!sizes_are_right(ranks, algorithm, dtype, op))
			return false;
	return true;
}

static void check_bits(struct kernel_ranks *ranks)
{
	bool good[SYMM_ALGORITHMS] = {true, true, true, true, true};

	for (int dtype = HOST_SUM_F32; dtype < HOST_SUM_DTYPES; dtype++) {
		kernel_ranks_invent(ranks, dtype, (uint64_t)dtype);
		for (unsigned a = 0; a < SYMM_ALGORITHMS; a++)
			good[a] = good[a] && (!algorithm_takes(ranks, a, dtype, 16) ||
					      ops_are_right(ranks, a, dtype));
	}
	for (unsigned a = 0; a < SYMM_ALGORITHMS; a++)
		report(good[a], "%s with %u ranks gives host_sum's bits", algorithm_name(a),
		       ranks->nranks);
}

/* Each place of send and recv in a packet, apart and together. */
static bool places_are_right(struct kernel_ranks *ranks, unsigned algorithm, int dtype)
{
	for (size_t i = 0; i < 48; i++) {
		struct trial trial = {.dtype = dtype,
				      .op = HOST_SUM_SUM,
				      .algorithm = (uint8_t)algorithm,
				      .in_place = i >= 32,
				      .staged = i % 3 == 0,
				      .count = 4099 + i,
				      .send_at = i % 16,
				      .recv_at = i < 16 ? 0 : i * 7 % 16};

		choose_grid(ranks, &trial, 256);
		if (!call_is_right(ranks, &trial))
			return false;
	}
	return true;
}

static void check_places(struct kernel_ranks *ranks)
{
	bool good[SYMM_ALGORITHMS] = {true, true, true, true, true};
	const int dtypes[] = {HOST_SUM_BF16, HOST_SUM_F32, HOST_SUM_U8, HOST_SUM_F64};

	for (unsigned i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		kernel_ranks_invent(ranks, dtypes[i], 77);
		for (unsigned a = 0; a < SYMM_ALGORITHMS; a++)
			good[a] = good[a] && (!algorithm_takes(ranks, a, dtypes[i], 16) ||
					      places_are_right(ranks, a, dtypes[i]));
	}
	for (unsigned a = 0; a < SYMM_ALGORITHMS; a++)
		report(good[a], "%s with %u ranks is right in every alignment", algorithm_name(a),
		       ranks->nranks);
}

/* ---- many calls in a row ------------------------------------------------------------------ */

/* Calls of all kinds, one behind the other in the buffers. They take what `room` has. */
static unsigned make_series(const struct kernel_ranks *ranks, struct trial *trials, unsigned count,
			    int dtype, size_t largest, uint64_t seed)
{
	size_t room = ranks->capacity - GUARD_BYTES, at = 0;
	unsigned n = 0;

	while (n < count) {
		struct trial *trial = &trials[n];
		size_t bytes = next_random(&seed) % (next_random(&seed) % largest + 1);

		*trial =
			(struct trial){.dtype = dtype,
				       .op = (int)(1 + next_random(&seed) % 4),
				       .algorithm = (uint8_t)(next_random(&seed) % SYMM_ALGORITHMS),
				       .staged = next_random(&seed) % 3 == 0,
				       .count = bytes / element_bytes(dtype),
				       .send_at = at,
				       .recv_at = at};
		if (!algorithm_takes(ranks, trial->algorithm, dtype, bytes))
			trial->algorithm = SYMM_TWOSHOT_PULL;
		choose_grid(ranks, trial, thread_choices[next_random(&seed) % 4]);
		if (next_random(&seed) % 4 == 0)
			trial->blocks = 1;
		at += bytes + next_random(&seed) % 32;
		if (at > room)
			break;
		n++;
	}
	return n;
}

static void enqueue_series(struct kernel_ranks *ranks, unsigned rank, const struct trial *trials,
			   unsigned ntrials)
{
	for (unsigned i = 0; i < ntrials; i++)
		kernel_ranks_enqueue(ranks, rank, &trials[i], stream_of(ranks, rank));
}

static bool series_is_right(struct kernel_ranks *ranks, const struct trial *trials,
			    unsigned ntrials)
{
	kernel_ranks_put(ranks, trials, ntrials);
	for (unsigned r = 0; r < ranks->nranks; r++)
		enqueue_series(ranks, r, trials, ntrials);
	ranks->turn += ntrials;
	kernel_ranks_wait(ranks, NULL, NULL);
	return kernel_ranks_compare(ranks, trials, ntrials);
}

static void check_series(struct kernel_ranks *ranks)
{
	struct trial trials[CALLS_MAX];
	bool good = true;

	for (int dtype = HOST_SUM_F32; dtype < HOST_SUM_DTYPES && good; dtype++) {
		kernel_ranks_invent(ranks, dtype, 5);
		for (uint64_t seed = 1; seed <= 4 && good; seed++) {
			unsigned n = make_series(ranks, trials, 100, dtype, MB / 4,
						 seed * 100 + (uint64_t)dtype);

			good = series_is_right(ranks, trials, n);
		}
	}
	report(good, "calls of all sizes and algorithms back to back, %u ranks", ranks->nranks);
}

/* The turns around one where the flag, modulo 2^32 - 1, begins anew. */
static void check_wrap(struct kernel_ranks *ranks, uint64_t turn_before)
{
	bool good = true;

	kernel_ranks_reset(ranks, turn_before);
	kernel_ranks_invent(ranks, HOST_SUM_BF16, 3);
	for (unsigned i = 0; i < 4 * 8 && good; i++) {
		struct trial trial = {.dtype = HOST_SUM_BF16,
				      .op = HOST_SUM_SUM,
				      .algorithm = (uint8_t)(i % SYMM_ALGORITHMS),
				      .count = 7168};

		choose_grid(ranks, &trial, 256);
		good = call_is_right(ranks, &trial);
		if (i % 8 == 7)
			kernel_ranks_reset(ranks, turn_before);
	}
	report(good, "turns above %" PRIu64 " are as good as others, %u ranks", turn_before,
	       ranks->nranks);
	kernel_ranks_reset(ranks, 0);
}

/* ---- graphs ------------------------------------------------------------------------------- */

static cudaGraphExec_t capture(struct kernel_ranks *ranks, unsigned rank,
			       const struct trial *trials, unsigned ntrials)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CUDA(cudaStreamBeginCapture(stream_of(ranks, rank), cudaStreamCaptureModeThreadLocal));
	enqueue_series(ranks, rank, trials, ntrials);
	CUDA(cudaStreamEndCapture(stream_of(ranks, rank), &graph));
	CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

/* Replayed with new numbers each time, and eager calls in between. */
static bool replays_are_right(struct kernel_ranks *ranks, cudaGraphExec_t *exec,
			      const struct trial *trials, unsigned ntrials)
{
	for (unsigned replay = 0; replay < 3; replay++) {
		kernel_ranks_put(ranks, trials, ntrials);
		for (unsigned r = 0; r < ranks->nranks; r++)
			CUDA(cudaGraphLaunch(exec[r], stream_of(ranks, r)));
		ranks->turn += ntrials;
		kernel_ranks_wait(ranks, NULL, NULL);
		if (!kernel_ranks_compare(ranks, trials, ntrials) ||
		    !call_is_right(ranks, &trials[replay]))
			return false;
	}
	return true;
}

static void check_graphs(struct kernel_ranks *ranks)
{
	struct trial trials[CALLS_MAX];
	cudaGraphExec_t exec[SYMM_RANKS_MAX];
	unsigned n;

	kernel_ranks_invent(ranks, HOST_SUM_BF16, 9);
	n = make_series(ranks, trials, GRAPH_CALLS, HOST_SUM_BF16, 30000, 17);
	for (unsigned r = 0; r < ranks->nranks; r++)
		exec[r] = capture(ranks, r, trials, n);
	report(replays_are_right(ranks, exec, trials, n),
	       "a graph of %u calls counts on at each replay, %u ranks", n, ranks->nranks);
	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(cudaGraphExecDestroy(exec[r]));
}

/* ---- what a call leaves behind ------------------------------------------------------------ */

/* Of the newest turn: its parts, as the host adds them up. */
static uint64_t digest_of(const struct symm_state *state, struct kernel_ranks *ranks)
{
	static struct symm_parts parts;
	uint64_t sum = 0;

	fetch(ranks, &parts, &state->parts[ranks->turn % 2], sizeof(parts));
	for (uint32_t b = 0; parts.turn == ranks->turn && b < parts.blocks; b++)
		for (uint32_t w = 0; w < parts.warps; w++)
			sum += parts.digest[b][w];
	return sum;
}

/* Of the turn before: added up by the newest one's kernel. */
static bool digest_before_is(struct kernel_ranks *ranks, unsigned rank, uint64_t want)
{
	const struct symm_state *state = ranks->comm[rank].state;
	uint64_t digest = 0;

	fetch(ranks, &digest, &state->digest[(ranks->turn - 1) % SYMM_RING_RECORDS],
	      sizeof(digest));
	if (digest != want)
		printf("# rank %u: digest of turn %" PRIu64 " is %" PRIx64 " instead of %" PRIx64
		       "\n",
		       rank, ranks->turn - 1, digest, want);
	return digest == want;
}

static bool is_recorded(struct kernel_ranks *ranks, unsigned rank, const struct trial *trial)
{
	const struct symm_state *state = ranks->comm[rank].state;
	uint64_t place = ranks->turn % SYMM_RING_RECORDS, digest = digest_of(state, ranks);
	uint64_t want = kernel_ranks_expect(ranks, trial);
	const struct rank_words *words = &ranks->words[rank];
	struct symm_record record;
	uint64_t block = word_now(&words->posts.block[0]);

	fetch(ranks, &record, &state->ring[place], sizeof(record));
	if (record.turn == ranks->turn && record.turn_again == ranks->turn &&
	    record.seq == ranks->turn && record.count == trial->count &&
	    record.blocks == trial->blocks && digest == want &&
	    block == SYMM_BLOCK_WORD(ranks->turn, trial->blocks, SYMM_BLOCK_DONE) &&
	    block_words_done(words->posts.block) == ranks->turn &&
	    words->descriptions[ranks->turn % 2].count == trial->count)
		return true;
	printf("# rank %u, turn %" PRIu64 ", %s: record %" PRIu64 " .. %" PRIu64 ", digest %" PRIx64
	       " instead of %" PRIx64 ", block word %" PRIx64 ", staged %" PRIu64 "\n",
	       rank, ranks->turn, algorithm_name(trial->algorithm), record.turn, record.turn_again,
	       digest, want, block, kernel_ranks_staged(ranks, rank));
	return false;
}

static void check_records(struct kernel_ranks *ranks)
{
	bool good = true;
	uint64_t before = 0;

	kernel_ranks_invent(ranks, HOST_SUM_F32, 21);
	for (unsigned i = 0; i < 4 * SYMM_ALGORITHMS && good; i++) {
		struct trial trial = {.dtype = HOST_SUM_F32,
				      .op = HOST_SUM_SUM,
				      .algorithm = (uint8_t)(i % SYMM_ALGORITHMS),
				      .count = 5000 + i};

		choose_grid(ranks, &trial, 256);
		good = call_is_right(ranks, &trial);
		for (unsigned r = 0; r < ranks->nranks && good; r++)
			good = is_recorded(ranks, r, &trial) &&
			       (i == 0 || digest_before_is(ranks, r, before));
		before = kernel_ranks_expect(ranks, &trial);
	}
	report(good, "calls leave records, digests and posts, %u ranks", ranks->nranks);
}

/* ---- main --------------------------------------------------------------------------------- */

static void check_with(unsigned nranks)
{
	struct kernel_ranks ranks;

	kernel_ranks_open(&ranks, nranks, SYMM_BYTES, 4 * MB);
	check_bits(&ranks);
	if (nranks == 2 || nranks == 4)
		check_places(&ranks);
	if (nranks <= 8) {
		check_series(&ranks);
		check_records(&ranks);
		check_graphs(&ranks);
	}
	if (nranks == 2 || nranks == 3) {
		check_wrap(&ranks, UINT32_MAX - 5);
		check_wrap(&ranks, 2 * (uint64_t)UINT32_MAX - 5);
		check_wrap(&ranks, UINT64_C(1) << 33);
	}
	if (nranks == 1 || nranks == 2 || nranks == 4)
		check_service_kernels(&ranks);
	if (nranks == 2 || nranks == 4 || nranks == 16)
		check_stuck_kernels(&ranks);
	kernel_ranks_close(&ranks);
}

static int check_all(void)
{
	static const unsigned numbers[] = {2, 1, 3, 4, 8, 16};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		check_with(numbers[i]);
	printf("1..%u\n", reported);
	return failed != 0;
}

static int skip(const char *why)
{
	const char *needed = getenv("BELAY_TESTS_NEED");

	if (needed && strstr(needed, "gpu")) {
		printf("Bail out! a GPU is needed: %s\n", why);
		return 1;
	}
	printf("1..0 # SKIP no GPU: %s\n", why);
	return 77;
}

int main(int argc, char **argv)
{
	const char *why;

	if (!kernel_ranks_possible(&why))
		return skip(why);
	CUDA(cudaSetDevice(0));
	cuda_check(symm_kernels_load(&why), "symm_kernels_load");
	if (argc > 1 && strcmp(argv[1], "--time") == 0)
		return time_kernels(argc - 1, argv + 1);
	return check_all();
}
