/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a block's workers move data on the GPU played on the CPU: packets, the full wire, pulling.
 *
 * A turn is cut into slices (one-shot: one; two-shot: one for each rank, its owner), a slice into
 * units, and the units of each slice among the blocks, alike on all ranks.
 */
#include "config.h"

#include <string.h>

#include "kernels/host_sum.h"
#include "runtime/belay.h"
#include "tests/support/cpu_gpu_call.h"

#define UNITS_A_STEP 128
#define ALL_ONES     UINT32_MAX

/* Units of one block in one slice. */
struct share {
	uint64_t begin, end;   /* units of the slice */
	uint64_t slice_offset; /* bytes of the turn before the slice */
};

static const uint8_t dtype_bytes[] = {
	[BELAY_F32] = 4, [BELAY_F64] = 8, [BELAY_F16] = 2, [BELAY_BF16] = 2,
	[BELAY_I32] = 4, [BELAY_I64] = 8, [BELAY_U8] = 1,  [BELAY_I8] = 1,
};

uint64_t data_bytes(const struct turn_arguments *arguments)
{
	return arguments->launch.count * dtype_bytes[arguments->launch.dtype];
}

static uint64_t unit_bytes(uint8_t algorithm)
{
	return algorithm == SYMM_ONESHOT_PACKETS ? 8 : 16;
}

static uint64_t units_of(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit;
}

static uint32_t slices(const struct turn_run *run, const struct block *block)
{
	return two_shot(block->algorithm) ? run->arguments->comm.nranks : 1;
}

static uint32_t own_slice(const struct turn_run *run, const struct block *block)
{
	return two_shot(block->algorithm) ? run->arguments->comm.rank : 0;
}

static struct share share_of(const struct turn_run *run, const struct block *block, uint32_t slice)
{
	uint64_t unit = unit_bytes(block->algorithm), blocks = run->arguments->launch.blocks;
	uint64_t all = units_of(data_bytes(run->arguments), unit);
	uint64_t most = (all + slices(run, block) - 1) / slices(run, block);
	uint64_t first = slice * most < all ? slice * most : all;
	uint64_t units = all - first < most ? all - first : most;

	return (struct share){.begin = units * block->b / blocks,
			      .end = units * (block->b + 1) / blocks,
			      .slice_offset = first * unit};
}

/* A run of units to be worked on in one step. */
struct piece {
	uint64_t unit, units;	/* of the slice */
	uint64_t offset, bytes; /* of the turn */
};

static struct piece piece_at(const struct turn_run *run, const struct block *block,
			     const struct share *share)
{
	uint64_t unit = unit_bytes(block->algorithm), all = data_bytes(run->arguments);
	struct piece piece = {.unit = block->unit, .units = share->end - block->unit};

	if (piece.units > UNITS_A_STEP)
		piece.units = UNITS_A_STEP;
	piece.offset = share->slice_offset + piece.unit * unit;
	piece.bytes = piece.units * unit;
	if (piece.bytes > all - piece.offset)
		piece.bytes = all - piece.offset;
	return piece;
}

static void shorten(const struct turn_run *run, const struct block *block, struct piece *piece,
		    uint64_t units)
{
	uint64_t unit = unit_bytes(block->algorithm), all = data_bytes(run->arguments);

	piece->units = units;
	piece->bytes = units * unit;
	if (piece->bytes > all - piece->offset)
		piece->bytes = all - piece->offset;
}

/* ---- places --------------------------------------------------------------------------------- */

static char *retained(const struct turn_run *run, const struct block *block, uint32_t rank)
{
	const struct symm_layout *layout = &run->arguments->comm.layout;

	return region_of_rank(&run->arguments->comm, rank) + layout->retained +
	       block->at.parity * layout->symm_bytes;
}

/* Where in `rank`'s region the inputs of `sender` arrive. */
static uint64_t *input_slot(const struct turn_run *run, const struct block *block, uint32_t rank,
			    uint32_t sender)
{
	const struct symm_comm *comm = &run->arguments->comm;
	const struct symm_layout *layout = &comm->layout;
	uint64_t place = (uint64_t)block->at.parity * comm->nranks + sender;
	char *region = region_of_rank(comm, rank);

	switch (block->algorithm) {
	case SYMM_ONESHOT_PACKETS:
		return (uint64_t *)(region + layout->packets + place * 2 * layout->packets_bytes);
	case SYMM_ONESHOT_WIRE:
		return (uint64_t *)(region + layout->wire + place * layout->wire_bytes);
	default:
		return (uint64_t *)(region + layout->inputs + place * layout->slice_bytes);
	}
}

static uint64_t *result_slot(const struct turn_run *run, const struct block *block, uint32_t rank,
			     uint32_t owner)
{
	const struct symm_comm *comm = &run->arguments->comm;
	uint64_t place = (uint64_t)block->at.parity * comm->nranks + owner;

	return (uint64_t *)(region_of_rank(comm, rank) + comm->layout.results +
			    place * comm->layout.slice_bytes);
}

/* ---- one unit on the wire ------------------------------------------------------------------- */

/* The canonical NaN in each element of a word of all ones; only types that have one come here. */
static uint32_t nan_word(uint8_t dtype)
{
	switch (dtype) {
	case BELAY_F16:
		return 0x7e007e00;
	case BELAY_BF16:
		return 0x7fc07fc0;
	default:
		return 0x7fc00000;
	}
}

static uint64_t without_sentinel(uint64_t pair, uint8_t dtype)
{
	if ((uint32_t)pair == ALL_ONES)
		pair = (pair & ~(uint64_t)ALL_ONES) | nan_word(dtype);
	if (pair >> 32 == ALL_ONES)
		pair = (pair & ALL_ONES) | (uint64_t)nan_word(dtype) << 32;
	return pair;
}

static void store_packet(uint64_t *slot, uint64_t unit, const unsigned char *data, uint32_t flag)
{
	uint32_t word[2];

	memcpy(word, data, sizeof(word));
	store_word(&slot[2 * unit], (uint64_t)flag << 32 | word[0]);
	store_word(&slot[2 * unit + 1], (uint64_t)flag << 32 | word[1]);
}

static void store_wire(uint64_t *slot, uint64_t unit, const unsigned char *data, uint8_t dtype)
{
	uint64_t pair[2];

	memcpy(pair, data, sizeof(pair));
	store_word(&slot[2 * unit], without_sentinel(pair[0], dtype));
	store_word(&slot[2 * unit + 1], without_sentinel(pair[1], dtype));
}

/* False: not here yet. */
static bool load_packet(const uint64_t *slot, uint64_t unit, uint32_t flag, unsigned char *data)
{
	uint64_t pair[2] = {load_word(&slot[2 * unit]), load_word(&slot[2 * unit + 1])};
	uint32_t word[2] = {(uint32_t)pair[0], (uint32_t)pair[1]};

	if (pair[0] >> 32 != flag || pair[1] >> 32 != flag)
		return false;
	memcpy(data, word, sizeof(word));
	return true;
}

static bool load_wire(const uint64_t *slot, uint64_t unit, unsigned char *data)
{
	uint64_t pair[2] = {load_word(&slot[2 * unit]), load_word(&slot[2 * unit + 1])};

	for (int i = 0; i < 2; i++)
		if ((uint32_t)pair[i] == ALL_ONES || pair[i] >> 32 == ALL_ONES)
			return false;
	memcpy(data, pair, sizeof(pair));
	return true;
}

static void reset_wire(uint64_t *slot, uint64_t unit, uint64_t units)
{
	for (uint64_t i = 2 * unit; i < 2 * (unit + units); i++)
		store_word(&slot[i], UINT64_MAX);
}

/* ---- staging and pushing -------------------------------------------------------------------- */

/* Of another parity: one of turn + 2 would be taken for that turn's when it comes. */
uint32_t data_flag(const struct turn_run *run, const struct block *block)
{
	uint64_t turn = block->at.turn;

	if (!run->fault.flag)
		return block->at.flag;
	switch (turn % 3) {
	case 0:
		return symm_flag_of(turn + 1);
	case 1:
		return symm_flag_of(turn - 1);
	default:
		return block->at.flag == UINT32_MAX ? 0 : UINT32_MAX;
	}
}

/* Whether the input of this slice is for that rank. */
static bool is_for(const struct turn_run *run, const struct block *block, uint32_t rank)
{
	return rank != run->arguments->comm.rank &&
	       (!two_shot(block->algorithm) || rank == block->slice);
}

static void push_unit(const struct turn_run *run, const struct block *block, uint64_t unit,
		      const unsigned char *data)
{
	const struct turn_arguments *a = run->arguments;

	for (uint32_t q = 0; q < a->comm.nranks; q++) {
		uint64_t *slot = input_slot(run, block, q, a->comm.rank);

		if (!is_for(run, block, q))
			continue;
		if (block->algorithm == SYMM_ONESHOT_PACKETS)
			store_packet(slot, unit, data, data_flag(run, block));
		else
			store_wire(slot, unit, data, a->launch.dtype);
	}
}

/* From the retained copy, which is plain and the same. */
static void push_piece(const struct turn_run *run, const struct block *block,
		       const struct piece *piece)
{
	const char *from = retained(run, block, run->arguments->comm.rank) + piece->offset;
	uint64_t size = unit_bytes(block->algorithm);

	if (run->fault.drop || !pushes(block->algorithm))
		return;
	for (uint64_t i = 0; i < piece->units; i++) {
		unsigned char data[16] = {0};
		uint64_t left = piece->bytes - i * size;

		memcpy(data, from + i * size, left < size ? left : size);
		if (run->fault.corrupt && piece->offset == 0 && i == 0)
			data[0] ^= 0x20;
		push_unit(run, block, piece->unit + i, data);
	}
}

/* Steps to the next slice that has something for this block. False: there is none. */
static bool find_work(const struct turn_run *run, struct block *block, struct share *ret_share)
{
	while (block->slice < slices(run, block)) {
		*ret_share = share_of(run, block, block->slice);
		if (block->unit < ret_share->begin)
			block->unit = ret_share->begin;
		if (block->unit < ret_share->end)
			return true;
		block->slice++;
		block->unit = 0;
	}
	return false;
}

bool data_stage(struct turn_run *run, struct block *block, bool push)
{
	const struct turn_arguments *a = run->arguments;
	struct share share;
	struct piece piece;

	if (!find_work(run, block, &share))
		return false;
	piece = piece_at(run, block, &share);
	memcpy(retained(run, block, a->comm.rank) + piece.offset,
	       (const char *)a->launch.send + piece.offset, piece.bytes);
	if (push)
		push_piece(run, block, &piece);
	block->unit += piece.units;
	return true;
}

bool data_push(struct turn_run *run, struct block *block)
{
	struct share share;
	struct piece piece;

	if (!find_work(run, block, &share))
		return false;
	piece = piece_at(run, block, &share);
	push_piece(run, block, &piece);
	block->unit += piece.units;
	return true;
}

/* ---- taking what has come ------------------------------------------------------------------- */

typedef unsigned char piece_data[UNITS_A_STEP * 16];

/* Units that have come, from the piece's first one on without a gap. */
static uint64_t take_units(const struct block *block, const uint64_t *slot,
			   const struct piece *piece, unsigned char *data)
{
	uint64_t size = unit_bytes(block->algorithm), count = 0;
	bool here = true;

	while (here && count < piece->units) {
		unsigned char *to = data + count * size;

		here = block->algorithm == SYMM_ONESHOT_PACKETS
			       ? load_packet(slot, piece->unit + count, block->at.flag, to)
			       : load_wire(slot, piece->unit + count, to);
		count += here;
	}
	return count;
}

/* The inputs of all peers; shortens the piece to what all have sent. Notes who is missing. */
static void take_inputs(const struct turn_run *run, struct block *block, struct piece *piece,
			piece_data *data)
{
	const struct symm_comm *comm = &run->arguments->comm;
	uint64_t least = piece->units;

	block->polled = 0;
	for (uint32_t q = 0; q < comm->nranks; q++) {
		uint64_t units;

		if (q == comm->rank)
			continue;
		units = take_units(block, input_slot(run, block, comm->rank, q), piece, data[q]);
		if (units == 0)
			block->polled |= UINT64_C(1) << q;
		if (units < least)
			least = units;
	}
	shorten(run, block, piece, least);
}

static void reset_inputs(const struct turn_run *run, const struct block *block,
			 const struct piece *piece)
{
	const struct symm_comm *comm = &run->arguments->comm;

	for (uint32_t q = 0; q < comm->nranks && block->algorithm != SYMM_ONESHOT_PACKETS; q++)
		if (q != comm->rank)
			reset_wire(input_slot(run, block, comm->rank, q), piece->unit,
				   piece->units);
}

/* Reduces a piece into the output and into `copy` (NULL: not there). */
static void reduce(const struct turn_run *run, struct block *block, const struct piece *piece,
		   const void *const *sources, unsigned char *copy)
{
	const struct symm_launch *launch = &run->arguments->launch;
	void *destinations[2] = {(char *)launch->recv + piece->offset, copy};

	block->digest += host_sum(&(struct host_sum_job){
		.sources = sources,
		.nsources = run->arguments->comm.nranks,
		.destinations = destinations,
		.ndestinations = copy ? 2 : 1,
		.count = piece->bytes / dtype_bytes[launch->dtype],
		.dtype = launch->dtype,
		.op = launch->op,
	});
}

static void push_results(const struct turn_run *run, const struct block *block,
			 const struct piece *piece, unsigned char *result)
{
	const struct symm_comm *comm = &run->arguments->comm;

	memset(result + piece->bytes, 0, piece->units * 16 - piece->bytes);
	for (uint32_t q = 0; q < comm->nranks; q++)
		for (uint64_t i = 0; i < piece->units && q != comm->rank && !run->fault.drop; i++)
			store_wire(result_slot(run, block, q, comm->rank), piece->unit + i,
				   result + i * 16, run->arguments->launch.dtype);
}

/* The peers' packets or wire words. */
static bool reduce_pushed(struct turn_run *run, struct block *block, struct piece *piece)
{
	const struct symm_comm *comm = &run->arguments->comm;
	_Alignas(64) piece_data data[SYMM_RANKS_MAX];
	_Alignas(64) piece_data result;
	const void *sources[SYMM_RANKS_MAX];
	bool twice = two_shot(block->algorithm);

	take_inputs(run, block, piece, data);
	/* M1: not one byte before all signatures are known to be equal. */
	if (piece->units == 0 || !block->verified)
		return false;
	for (uint32_t q = 0; q < comm->nranks; q++)
		sources[q] = q == comm->rank
				     ? (const void *)(retained(run, block, q) + piece->offset)
				     : data[q];
	reduce(run, block, piece, sources, twice ? result : NULL);
	reset_inputs(run, block, piece);
	if (twice)
		push_results(run, block, piece, result);
	return true;
}

/* All headers are here, so the peers' retained inputs are too: read where they stand. */
static bool reduce_pulled(struct turn_run *run, struct block *block, const struct piece *piece)
{
	const struct symm_comm *comm = &run->arguments->comm;
	const void *sources[SYMM_RANKS_MAX];

	if (!block->verified)
		return false;
	for (uint32_t q = 0; q < comm->nranks; q++)
		sources[q] = retained(run, block, q) + piece->offset;
	reduce(run, block, piece, sources,
	       (unsigned char *)(result_slot(run, block, comm->rank, comm->rank) +
				 2 * piece->unit));
	return true;
}

static void flag_results(const struct turn_run *run, const struct block *block)
{
	const struct symm_comm *comm = &run->arguments->comm;

	fence_all();
	for (uint32_t q = 0; q < comm->nranks && !run->fault.drop; q++)
		store_word(results_ready_at(comm, q, block->at.parity, block->b, comm->rank),
			   block->at.flag);
}

bool data_reduce(struct turn_run *run, struct block *block)
{
	bool pull = block->algorithm == SYMM_TWOSHOT_PULL;
	struct share share;
	struct piece piece;
	bool done;

	/* The own slice is the only one; find_work() would go on to the next. */
	block->slice = own_slice(run, block);
	share = share_of(run, block, block->slice);
	if (block->unit < share.begin)
		block->unit = share.begin;
	if (block->unit >= share.end) {
		block->polled = 0;
		if (!block->verified)
			return false;
		if (pull)
			flag_results(run, block);
		block->results = true;
		return true;
	}
	piece = piece_at(run, block, &share);
	done = pull ? reduce_pulled(run, block, &piece) : reduce_pushed(run, block, &piece);
	if (done)
		block->unit += piece.units;
	return done;
}

/* ---- the others' results -------------------------------------------------------------------- */

static bool collect_piece(struct turn_run *run, struct block *block, struct piece *piece)
{
	const struct turn_arguments *a = run->arguments;
	uint32_t owner = block->slice;
	uint64_t *slot = result_slot(run, block, a->comm.rank, owner);
	const void *from;
	piece_data data;

	if (block->algorithm == SYMM_TWOSHOT_PULL) {
		if (load_word(results_ready_at(&a->comm, a->comm.rank, block->at.parity, block->b,
					       owner)) != block->at.flag)
			return false;
		from = result_slot(run, block, owner, owner) + 2 * piece->unit;
	} else {
		uint64_t units = take_units(block, slot, piece, data);

		if (units == 0)
			return false;
		shorten(run, block, piece, units);
		reset_wire(slot, piece->unit, units);
		from = data;
	}
	block->digest +=
		host_sum_copy((char *)a->launch.recv + piece->offset, from, piece->bytes, 0);
	return true;
}

bool data_collect(struct turn_run *run, struct block *block)
{
	struct share share;
	struct piece piece;

	block->polled = 0;
	if (block->slice == run->arguments->comm.rank) {
		block->slice++;
		block->unit = 0;
	}
	if (!find_work(run, block, &share)) {
		block->work = WORKER_FINISHED;
		return true;
	}
	if (block->slice == run->arguments->comm.rank)
		return true; /* found on the way: left out at the next step */
	piece = piece_at(run, block, &share);
	if (!collect_piece(run, block, &piece)) {
		block->polled = UINT64_C(1) << block->slice;
		return false;
	}
	block->unit += piece.units;
	return true;
}

/* ---- keeping the slots clean ---------------------------------------------------------------- */

static void clear_part(uint64_t *words, uint64_t bytes, unsigned b, unsigned blocks)
{
	uint64_t count = bytes / sizeof(*words);

	for (uint64_t i = count * b / blocks; i < count * (b + 1) / blocks; i++)
		store_word(&words[i], UINT64_MAX);
}

/* Not the own place among the results: nobody pushes there, and this turn may be a pulled one that
 * uses it. */
void data_clear(struct turn_run *run, const struct block *block)
{
	const struct symm_comm *comm = &run->arguments->comm;
	struct block wire = {.algorithm = SYMM_ONESHOT_WIRE, .at = block->at};
	struct block slices = {.algorithm = SYMM_TWOSHOT_WIRE, .at = block->at};
	unsigned b = block->b, blocks = run->arguments->launch.blocks;

	for (uint32_t q = 0; q < comm->nranks; q++) {
		if (q == comm->rank)
			continue;
		clear_part(input_slot(run, &wire, comm->rank, q), comm->layout.wire_bytes, b,
			   blocks);
		clear_part(input_slot(run, &slices, comm->rank, q), comm->layout.slice_bytes, b,
			   blocks);
		clear_part(result_slot(run, &slices, comm->rank, q), comm->layout.slice_bytes, b,
			   blocks);
	}
}

#define SCRUBBED_UNITS 16

void data_scrub(struct turn_run *run, const struct block *block)
{
	const struct symm_comm *comm = &run->arguments->comm;
	struct block packets = {.algorithm = SYMM_ONESHOT_PACKETS, .at = block->at};
	uint64_t units = comm->layout.packets_bytes / 8;
	uint64_t used = block->algorithm == SYMM_ONESHOT_PACKETS
				? units_of(data_bytes(run->arguments), 8)
				: 0;
	uint64_t from = block->at.turn / 2 * SCRUBBED_UNITS % (units ? units : 1);

	for (uint32_t q = 0; q < comm->nranks; q++) {
		uint64_t *slot = input_slot(run, &packets, comm->rank, q);

		for (uint64_t u = from; u < from + SCRUBBED_UNITS && u < units; u++) {
			if (u < used)
				continue;
			store_word(&slot[2 * u], 0);
			store_word(&slot[2 * u + 1], 0);
		}
	}
}
