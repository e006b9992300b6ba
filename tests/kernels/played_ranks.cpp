/* SPDX-License-Identifier: Apache-2.0 */
/* See played_ranks.h. */
#include "tests/kernels/played_ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

extern "C" {
#include "kernels/host_sum.h"
}
#include "kernels/sum_types.h"

enum {
	SYMM_BYTES = 4096,
	ROOM = 400, /* of a buffer, beside its data */
	EDGE = 16,  /* the least before its data */
	GUARD = 0x77,
	LATE_NS = 400000,
	LAST_NS = 60000000
};

/* enum belay_algorithm, by enum symm_algorithm. */
static const uint8_t recorded[] = {1, 1, 2, 3, 4};
static const uint64_t element_bytes[] = {0, 4, 8, 2, 2, 4, 8, 1, 1};

template <class T> static zeroed<T> new_zeroed(size_t bytes = sizeof(T))
{
	zeroed<T> memory((T *)calloc(1, bytes));

	played_allow(memory.get(), bytes);
	return memory;
}

/* ---- ranks -------------------------------------------------------------------------------------
 */

played_ranks::played_ranks(uint64_t seed, uint32_t nranks, uint64_t first,
			   enum played_mutation mutation)
    : nranks(nranks), first(first)
{
	played_begin(seed, nranks, mutation);
	symm_layout_make(nranks, SYMM_BYTES, &layout);
	region = new_zeroed<char>(layout.stride * nranks + 256);
	for (uint32_t r = 0; r < nranks; r++)
		make_rank(r);
}

/* As symm_launch_init() and the runtime leave it. */
void played_ranks::make_rank(uint32_t r)
{
	rank_memory *m = new rank_memory();
	/* calloc() aligns to 16. */
	char *own = region.get() + r * layout.stride;

	rank.emplace_back(m);
	m->state = new_zeroed<symm_state>();
	m->posts = new_zeroed<symm_posts>();
	m->orders = new_zeroed<symm_orders>();
	m->fault = new_zeroed<symm_fault>();
	played_allow(m->steps, sizeof(m->steps));
	played_allow(m->descriptions, sizeof(m->descriptions));
	memset(own + layout.wire, 0xff, layout.retained - layout.wire);
	for (struct symm_line &line : m->state->line)
		line.turn = line.seq = first - 1;
	m->state->mode.dirty[0] = m->state->mode.dirty[1] = SYMM_NO_TURN;
	m->comm.layout = layout;
	m->comm.region = region.get();
	m->comm.state = m->state.get();
	m->comm.steps = m->steps;
	m->comm.descriptions = m->descriptions;
	m->comm.posts = m->posts.get();
	m->comm.orders = m->orders.get();
	m->comm.rank = r;
	m->comm.nranks = nranks;
	m->comm.late_ns = LATE_NS;
	m->comm.last_ns = LAST_NS;
}

void played_ranks::arm(uint32_t r, const struct symm_fault &fault)
{
	*rank[r]->fault = fault;
	rank[r]->comm.faults = rank[r]->fault.get();
	rank[r]->comm.nfaults = 1;
}

/* ---- turns -------------------------------------------------------------------------------------
 */

uint64_t played_ranks::most_bytes(uint32_t algorithm) const
{
	return algorithm == SYMM_ONESHOT_PACKETS ? layout.packets_bytes
	       : algorithm == SYMM_ONESHOT_WIRE	 ? layout.wire_bytes
						 : layout.symm_bytes;
}

/* Often none, few, all. */
static uint64_t random_count(uint64_t most)
{
	switch (played_random(8)) {
	case 0:
		return 0;
	case 1:
		return std::min<uint64_t>(most, 1 + played_random(9));
	case 2:
		return most;
	default:
		return played_random(most + 1);
	}
}

/* Words of all ones are what the full wire cannot carry. */
void played_ranks::make_inputs(struct turn *t)
{
	std::vector<const void *> sources;
	void *destination;
	struct host_sum_job job = {};

	t->input.resize(nranks);
	t->result.resize(t->bytes + 8);
	for (std::vector<char> &input : t->input) {
		input.resize(t->bytes + 8);
		for (uint64_t i = 0; i < t->bytes; i++)
			input[i] = (char)(played_random(40) ? played_random(256) : 255);
		if (t->bytes >= 4 && played_random(2))
			memset(&input[played_random(t->bytes / 4) * 4], 0xff, 4);
		sources.push_back(input.data());
	}
	destination = t->result.data();
	job.sources = sources.data();
	job.nsources = nranks;
	job.destinations = &destination;
	job.ndestinations = 1;
	job.count = t->count;
	job.dtype = t->dtype;
	job.op = t->op;
	t->digest = host_sum(&job);
}

/* Room, and the place of the data in it: a multiple of the element, aligned to 16 half the time. */
static void make_buffer(struct guarded *buffer, const struct turn &t)
{
	size_t skew;

	buffer->memory.assign(t.bytes + ROOM, GUARD);
	skew = (16 - (uintptr_t)buffer->memory.data() % 16) % 16;
	buffer->at = EDGE + skew;
	if (played_random(2))
		buffer->at += element_bytes[t.dtype] * played_random(16);
}

/* In place or not. */
void played_ranks::launch_on(struct turn *t, uint32_t r, uint64_t signature_base)
{
	struct guarded *out = &t->output[r], *in = out;
	struct symm_launch launch = {};

	make_buffer(out, *t);
	if (played_random(2)) {
		in = &t->separate_input[r];
		make_buffer(in, *t);
	}
	memcpy(in->memory.data() + in->at, t->input[r].data(), t->bytes);
	out->before = out->memory;
	played_allow(out->memory.data() + out->at, t->bytes);
	launch.send = in->memory.data() + in->at;
	launch.recv = out->memory.data() + out->at;
	launch.count = launch.call_count = t->count;
	launch.signature_base = signature_base;
	launch.ticket = t->number;
	launch.turns_of_call = 1;
	launch.dtype = t->dtype;
	launch.op = t->op;
	launch.algorithm = (uint8_t)t->algorithm;
	launch.path = 1;
	launch.blocks = (uint16_t)t->blocks;
	launch.threads = (uint16_t)t->threads;
	launch.staged = t->staged;
	if (symm_launch_call(&rank[r]->comm, &launch, (struct CUstream_st *)(uintptr_t)r))
		note("a launch is refused", t->number, r);
}

void played_ranks::launch_turn(uint32_t algorithm, bool full)
{
	static const uint8_t wired[] = {HOST_SUM_F32, HOST_SUM_F16, HOST_SUM_BF16};
	bool any = algorithm == SYMM_ONESHOT_PACKETS || algorithm == SYMM_TWOSHOT_PULL;
	uint64_t base = played_random(UINT32_MAX), most;
	struct turn t = {};

	t.number = first + turns.size();
	t.algorithm = algorithm;
	t.dtype = (uint8_t)(any ? 1 + played_random(HOST_SUM_DTYPES - 1) : wired[played_random(3)]);
	t.op = (uint8_t)(1 + played_random(2) * played_random(HOST_SUM_OPS - 1));
	most = most_bytes(algorithm) / element_bytes[t.dtype];
	t.count = full ? most : random_count(most);
	t.bytes = t.count * element_bytes[t.dtype];
	t.blocks = 1 + (uint32_t)played_random(3);
	t.threads = 32 * (1 + (uint32_t)played_random(2));
	t.staged = played_random(3) == 0;
	t.output.resize(nranks);
	t.separate_input.resize(nranks);
	make_inputs(&t);
	turns.push_back(std::move(t));
	for (uint32_t r = 0; r < nranks; r++)
		launch_on(&turns.back(), r, base);
}

/* One that these ranks can take. */
uint32_t played_ranks::random_algorithm(void) const
{
	bool islands = symm_layout_has_islands(&layout, nranks);

	return (uint32_t)played_random(islands ? (int)SYMM_ALGORITHMS : (int)SYMM_ISLAND);
}

void played_ranks::launch_random_turns(unsigned n)
{
	while (n-- > 0)
		launch_turn(random_algorithm(), false);
}

/* ---- what must stand afterwards ----------------------------------------------------------------
 */

void played_ranks::note(const char *what, uint64_t turn, uint32_t r)
{
	char text[200];

	if (!problem.empty())
		return;
	snprintf(text, sizeof(text), "%s; turn %llu, rank %u of %u", what, (unsigned long long)turn,
		 r, nranks);
	problem = text;
}

void played_ranks::check_output(const struct turn &t, uint32_t r)
{
	const struct guarded &out = t.output[r];
	const char *now = out.memory.data(), *before = out.before.data();
	size_t end = out.at + t.bytes;

	if (memcmp(now + out.at, t.result.data(), t.bytes) != 0)
		note("the output is not the sum", t.number, r);
	if (memcmp(now, before, out.at) != 0 ||
	    memcmp(now + end, before + end, out.memory.size() - end) != 0)
		note("memory beside the output was written", t.number, r);
}

void played_ranks::check_record(const struct turn &t, uint32_t r)
{
	const struct symm_record &record = rank[r]->state->ring[t.number % SYMM_RING_RECORDS];

	if (record.turn != t.number || record.turn_again != t.number || record.seq != t.number)
		note("the record bears another turn", t.number, r);
	/* A turn that cleans up is pulled, whatever it is. */
	if (record.algorithm != recorded[t.algorithm] &&
	    record.algorithm != recorded[SYMM_TWOSHOT_PULL])
		note("the record tells of another algorithm", t.number, r);
	if (record.count != t.count || record.dtype != t.dtype || record.op != t.op ||
	    record.blocks != t.blocks)
		note("the record tells of another call", t.number, r);
}

/* Its input stood there only after so long, and the record knows. */
void played_ranks::check_staged(uint64_t turn, uint32_t r, uint64_t ns)
{
	if (rank[r]->state->ring[turn % SYMM_RING_RECORDS].staged < ns)
		note("the record says that the input was there before it was", turn, r);
}

/* The newest turn's is in parts; the turn after it would add them up. */
uint64_t played_ranks::digest_of(uint32_t r, uint64_t turn) const
{
	const struct symm_state &state = *rank[r]->state;
	const struct symm_parts &parts = state.parts[turn & 1];
	uint64_t sum = 0;

	if (parts.turn == turn) {
		for (uint32_t b = 0; b < parts.blocks; b++)
			for (uint32_t w = 0; w < parts.warps; w++)
				sum += parts.digest[b][w];
		return sum;
	}
	return state.digest[turn % SYMM_RING_RECORDS];
}

void played_ranks::check_done(const struct turn &t, bool digest)
{
	for (uint32_t r = 0; r < nranks; r++) {
		check_output(t, r);
		check_record(t, r);
		if (digest && digest_of(r, t.number) != t.digest)
			note("the digest is another", t.number, r);
	}
}

void played_ranks::check_untouched(const struct turn &t, uint32_t r)
{
	if (t.output[r].memory != t.output[r].before)
		note("the output of a turn without a result was written", t.number, r);
}

void played_ranks::check_last_turn(void)
{
	uint64_t last = turns.back().number;

	for (uint32_t r = 0; r < nranks; r++) {
		const rank_memory &m = *rank[r];

		for (const struct symm_line &line : m.state->line)
			if (line.turn != last || line.seq != last)
				note("a line is not of the last turn", last, r);
		if (m.posts->ticket != last)
			note("the ticket was not posted", last, r);
	}
}

/* Every slot of the full wire, but for the own results, which only pull variants use. */
void played_ranks::check_slots_are_empty(void)
{
	uint64_t slices = nranks * layout.slice_bytes;

	for (uint32_t r = 0; r < nranks; r++)
		for (uint64_t at = layout.wire; at < layout.results + 2 * slices; at += 4) {
			const char *word = region.get() + r * layout.stride + at;

			if (at >= layout.results &&
			    (at - layout.results) % slices / layout.slice_bytes == r)
				continue;
			if (memcmp(word, "\xff\xff\xff\xff", 4) != 0) {
				note("a slot of the full wire holds leftovers", turns.back().number,
				     r);
				break;
			}
		}
}

/* ---- watchers ----------------------------------------------------------------------------------
 */

bool played_watchers::is_stuck(void) const
{
	for (const auto &m : ranks->rank)
		if (m->posts->stuck >> 3 == hit)
			return true;
	return false;
}

/* By what blocks post while they wait. */
bool played_watchers::all_staged(void) const
{
	const struct turn &t = ranks->turns[hit - ranks->first];

	for (const auto &m : ranks->rank)
		for (uint32_t b = 0; b < t.blocks; b++)
			if (SYMM_BLOCK_TURN(m->posts->block[b]) < hit)
				return false;
	return true;
}

/* Every block of rank r's grid is done with the turn, one way or the other (R2). */
bool played_watchers::has_left(uint32_t r, bool *ret_abandoned) const
{
	const struct turn &t = ranks->turns[hit - ranks->first];
	const struct symm_posts &posts = *ranks->rank[r]->posts;

	*ret_abandoned = false;
	for (uint32_t b = 0; b < t.blocks; b++) {
		uint64_t word = posts.block[b];

		if (SYMM_BLOCK_TURN(word) < hit ||
		    (SYMM_BLOCK_TURN(word) == hit && SYMM_BLOCK_STATE(word) < SYMM_BLOCK_DONE))
			return false;
		if (SYMM_BLOCK_TURN(word) == hit && SYMM_BLOCK_STATE(word) == SYMM_BLOCK_ABANDONED)
			*ret_abandoned = true;
	}
	return true;
}

void played_watchers::answer_faults(void)
{
	for (auto &m : ranks->rank)
		if (m->posts->fault_asked > m->orders->fault_done && played_random(500) == 0)
			m->orders->fault_done = m->posts->fault_asked;
}

/* Before anything of the rank goes into a rescue. */
void played_watchers::mark(uint32_t r)
{
	const struct symm_layout &layout = ranks->layout;
	uint64_t parity = hit % 2, words = SYMM_BLOCKS_MAX * SYMM_RANKS_MAX * sizeof(uint64_t);
	uint64_t packets = ranks->nranks * layout.packets_bytes * 2;
	char *own = ranks->region.get() + r * layout.stride;

	ranks->rank[r]->state->mode.dirty[parity] = hit;
	memset(own + layout.headers + parity * words, 0, words);
	memset(own + layout.results_ready + parity * words, 0, words);
	memset(own + layout.packets + parity * packets, 0, packets);
	marked[r] = true;
}

void played_watchers::write_output(uint32_t r)
{
	struct turn &t = ranks->turns[hit - ranks->first];
	const struct symm_posts &posts = *ranks->rank[r]->posts;
	char *to = t.output[r].memory.data() + t.output[r].at;

	for (uint32_t q = 0; q < ranks->nranks; q++) {
		const char *retained = ranks->region.get() + q * ranks->layout.stride +
				       ranks->layout.retained + hit % 2 * ranks->layout.symm_bytes;

		if (memcmp(retained, t.input[q].data(), t.bytes) != 0)
			ranks->note("the retained input is not whole", hit, q);
	}
	if (posts.output_turn == hit && posts.output != (uint64_t)(uintptr_t)to)
		ranks->note("the output was said to lie elsewhere", hit, r);
	memcpy(to, t.result.data(), t.bytes);
	ranks->rank[r]->orders->released = hit << 1 | 1;
	released[r] = true;
}

/* Each step at a random time on each rank. Nobody marks before some rank has left. */
void played_watchers::look(void)
{
	bool any_left = false, abandoned, all_marked;

	answer_faults();
	if (!asked && is_stuck() && all_staged() && played_random(200) == 0)
		asked = true;
	if (!asked)
		return;
	for (uint32_t r = 0; r < ranks->nranks; r++) {
		/* Like the runtime: only a kernel that has said that it is stuck is asked. */
		if (ranks->rank[r]->posts->stuck >> 3 == hit && played_random(50) == 0)
			ranks->rank[r]->orders->abandon = hit;
		for (uint32_t b = 0; b < SYMM_BLOCKS_MAX && !any_left; b++)
			any_left = SYMM_BLOCK_STATE(ranks->rank[r]->posts->block[b]) ==
					   SYMM_BLOCK_ABANDONED &&
				   SYMM_BLOCK_TURN(ranks->rank[r]->posts->block[b]) == hit;
	}
	all_marked = std::count(marked.begin(), marked.end(), true) == (long)ranks->nranks;
	for (uint32_t r = 0; r < ranks->nranks; r++) {
		if (any_left && !marked[r] && played_random(50) == 0)
			mark(r);
		if (all_marked && !released[r] && has_left(r, &abandoned) && abandoned &&
		    played_random(200) == 0)
			write_output(r);
	}
}

unsigned played_watchers::rescued(void) const
{
	return (unsigned)std::count(released.begin(), released.end(), true);
}
