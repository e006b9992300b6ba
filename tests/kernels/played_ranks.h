/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks on the played GPU: their memory as the runtime lays it out, turns of random inputs and
 * shapes, what has to stand in memory afterwards, and a watcher that rescues one turn.
 */
#ifndef BELAY_TESTS_PLAYED_RANKS_H
#define BELAY_TESTS_PLAYED_RANKS_H

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "kernels/symm_layout.h"
}
#include "kernels/symm_kernels.h"
#include "tests/kernels/played_gpu.h"

struct free_memory {
	void operator()(void *memory) const
	{
		free(memory);
	}
};
template <class T> using zeroed = std::unique_ptr<T, free_memory>;

/* A buffer of the application with room around it that nobody may touch. */
struct guarded {
	std::vector<char> memory, before; /* as it was when the turn was launched */
	size_t at;			  /* where the output begins */
};

/* One allreduce of all ranks. */
struct turn {
	uint64_t number;
	uint32_t algorithm, blocks, threads;
	uint8_t dtype, op, staged;
	uint64_t count, bytes, digest;
	std::vector<std::vector<char>> input; /* by rank */
	std::vector<char> result;
	std::vector<guarded> output, separate_input;
};

struct rank_memory {
	struct symm_comm comm;
	zeroed<symm_state> state;
	zeroed<symm_posts> posts;
	zeroed<symm_orders> orders;
	zeroed<symm_fault> fault;
	uint64_t steps[8];
	struct symm_description descriptions[2];
};

class played_ranks
{
      public:
	/* The next turn is `first`. */
	played_ranks(uint64_t seed, uint32_t nranks, uint64_t first,
		     enum played_mutation mutation = MUTATION_NONE);

	void arm(uint32_t rank, const struct symm_fault &fault);

	/* Random but for the algorithm; `full`: as large as may be. Launched on all ranks. */
	void launch_turn(uint32_t algorithm, bool full);
	void launch_random_turns(unsigned n);
	uint32_t random_algorithm(void) const;

	/* Note a problem, once, when what stands in memory is wrong. */
	void check_done(const struct turn &t, bool digest);
	void check_staged(uint64_t turn, uint32_t r, uint64_t ns);
	void check_untouched(const struct turn &t, uint32_t rank);
	void check_last_turn(void);
	void check_slots_are_empty(void);
	void note(const char *what, uint64_t turn, uint32_t rank);

	uint32_t nranks;
	uint64_t first;
	std::vector<turn> turns;
	std::vector<std::unique_ptr<rank_memory>> rank;
	struct symm_layout layout;
	zeroed<char> region;
	std::string problem; /* empty: none so far */

      private:
	void make_rank(uint32_t r);
	void make_inputs(struct turn *t);
	void launch_on(struct turn *t, uint32_t r, uint64_t signature_base);
	uint64_t digest_of(uint32_t r, uint64_t turn) const;
	void check_output(const struct turn &t, uint32_t r);
	void check_record(const struct turn &t, uint32_t r);
	uint64_t most_bytes(uint32_t algorithm) const;
};

/* What the watchers of all ranks do when turn `hit` gets stuck, once all have staged it: they ask
 * for it, mark it, write the outputs of the ranks whose kernels have left, and release those. */
class played_watchers
{
      public:
	played_watchers(played_ranks *ranks, uint64_t hit) : ranks(ranks), hit(hit)
	{
		marked.resize(ranks->nranks);
		released.resize(ranks->nranks);
	}
	void look(void);
	unsigned rescued(void) const;

      private:
	bool is_stuck(void) const;
	bool all_staged(void) const;
	bool has_left(uint32_t r, bool *ret_abandoned) const;
	void answer_faults(void);
	void mark(uint32_t r);
	void write_output(uint32_t r);

	played_ranks *ranks;
	uint64_t hit;
	bool asked = false;
	std::vector<bool> marked, released;
};

#endif /* BELAY_TESTS_PLAYED_RANKS_H */
