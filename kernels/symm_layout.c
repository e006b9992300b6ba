/* SPDX-License-Identifier: Apache-2.0 */
/* Where things lie in a region. See symm_layout.h. */
#include "kernels/symm_layout.h"

#define KB UINT64_C(1024)
/* What the driver maps at once; regions are that far apart or a multiple of it. */
#define STRIDE_STEP (2048 * KB)
#define AREA_STEP   256

static uint64_t round_up(uint64_t value, uint64_t step)
{
	return (value + step - 1) / step * step;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Takes `bytes` from the growing region; returns where they begin. */
static uint64_t take(uint64_t *end, uint64_t bytes)
{
	uint64_t at = *end;

	*end = round_up(at + bytes, AREA_STEP);
	return at;
}

/*
 * Packets take twice their data, and every algorithm that pushes whole inputs takes a slot for each
 * sender: so the largest calls that may go this way shrink as the ranks grow. Each area stays at or
 * below 32 MB. Above them there is two-shot, whose slots take what one input takes.
 */
static uint64_t packets_bytes_of(uint32_t nranks)
{
	return nranks <= 4 ? 512 * KB : nranks <= 8 ? 256 * KB : 128 * KB;
}

static uint64_t wire_bytes_of(uint32_t nranks)
{
	return nranks <= 2   ? 8192 * KB
	       : nranks <= 4 ? 4096 * KB
	       : nranks <= 8 ? 2048 * KB
			     : 1024 * KB;
}

void symm_layout_make(uint32_t nranks, uint64_t symm_bytes, struct symm_layout *ret_layout)
{
	uint64_t end = 0;
	uint64_t turn = round_up(symm_bytes ? symm_bytes : 1, AREA_STEP);
	struct symm_layout layout = {
		.packets_bytes = least(packets_bytes_of(nranks), turn),
		.wire_bytes = least(wire_bytes_of(nranks), turn),
		/* In whole packets, rounded up twice: of the turn, and of a rank's part of them. */
		.slice_bytes = (turn / 16 + nranks - 1) / nranks * 16,
		.symm_bytes = turn,
	};

	layout.headers = take(&end, 2 * sizeof(uint64_t) * SYMM_BLOCKS_MAX * SYMM_RANKS_MAX);
	layout.block_staged = take(&end, 2 * sizeof(uint64_t) * SYMM_BLOCKS_MAX);
	layout.results_ready = take(&end, 2 * sizeof(uint64_t) * SYMM_BLOCKS_MAX * SYMM_RANKS_MAX);
	layout.selftest = take(&end, (uint64_t)SYMM_SELFTEST_BYTES * SYMM_RANKS_MAX);
	layout.probe = take(&end, sizeof(uint64_t) * SYMM_RANKS_MAX);
	layout.packets = take(&end, 2 * nranks * 2 * layout.packets_bytes);
	layout.wire = take(&end, 2 * nranks * layout.wire_bytes);
	layout.inputs = take(&end, 2 * nranks * layout.slice_bytes);
	layout.results = take(&end, 2 * nranks * layout.slice_bytes);
	layout.retained = take(&end, 2 * turn);
	layout.stride = round_up(end, STRIDE_STEP);
	*ret_layout = layout;
}
