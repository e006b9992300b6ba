/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm and which grid a turn takes. Pure: the same answer on every rank (S1). */
#include "runtime/cuda/launch_shape.h"

#include "runtime/belay.h"

#define PACKET_DATA_BYTES 8u  /* of the 16 of a packet with flags */
#define WIRE_DATA_BYTES	  16u /* of a packet on the full wire */
#define THREADS_MAX	  512u
#define WARP		  32u

/* ---- the built-in table: docs/path-choice.md has the measurements
 * -------------------------------- */

#define KB(n)	 (UINT64_C(1024) * (n))
#define ANY_SIZE UINT64_MAX
#define PACKETS	 SYMM_ONESHOT_PACKETS
#define WIRE	 SYMM_ONESHOT_WIRE
#define TWOSHOT	 SYMM_TWOSHOT_WIRE
#define PULL	 SYMM_TWOSHOT_PULL
#define ISLAND	 SYMM_ISLAND /* TWOSHOT where ranks make no islands */

static const struct builtin_row {
	uint8_t topology;
	uint8_t ranks_from; /* up to the next larger number of the topology */
	struct launch_row row;
} builtin[] = {
	/* clang-format off */
	/* topology         ranks    up to     float    other  blocks threads */
	{ TOPOLOGY_ONE_DEVICE, 1, { KB(32),   PACKETS, PACKETS,  16, 128 } },
	{ TOPOLOGY_ONE_DEVICE, 1, { KB(160),  PACKETS, PACKETS,  32, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 1, { KB(320),  WIRE,    PACKETS,  16, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 1, { KB(2048), WIRE,    PULL,     64, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 1, { ANY_SIZE, TWOSHOT, PULL,     64, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 3, { KB(32),   PACKETS, PACKETS,  15, 256 } },
	{ TOPOLOGY_ONE_DEVICE, 3, { KB(80),   WIRE,    PACKETS,  16, 256 } },
	{ TOPOLOGY_ONE_DEVICE, 3, { KB(160),  WIRE,    PACKETS,  15, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 3, { KB(320),  WIRE,    PACKETS,  16, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 3, { KB(1536), TWOSHOT, PULL,     16, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 3, { ANY_SIZE, PULL,    PULL,     31, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 5, { KB(32),   PACKETS, PACKETS,   8, 256 } },
	{ TOPOLOGY_ONE_DEVICE, 5, { KB(80),   WIRE,    PACKETS,   8, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 5, { KB(160),  WIRE,    PACKETS,  14, 512 } },
	{ TOPOLOGY_ONE_DEVICE, 5, { KB(384),  TWOSHOT, PULL,      8, 256 } },
	{ TOPOLOGY_ONE_DEVICE, 5, { ANY_SIZE, PULL,    PULL,     14, 512 } },

	{ TOPOLOGY_NVLINK,     1, { KB(32),   PACKETS, PACKETS,  16, 128 } },
	{ TOPOLOGY_NVLINK,     1, { KB(80),   WIRE,    PACKETS,  32, 128 } },
	{ TOPOLOGY_NVLINK,     1, { KB(160),  WIRE,    PACKETS,  64, 128 } },
	{ TOPOLOGY_NVLINK,     1, { KB(384),  WIRE,    PULL,     64, 256 } },
	{ TOPOLOGY_NVLINK,     1, { KB(768),  WIRE,    PULL,     64, 512 } },
	{ TOPOLOGY_NVLINK,     1, { ANY_SIZE, TWOSHOT, PULL,     64, 512 } },
	{ TOPOLOGY_NVLINK,     3, { KB(32),   PACKETS, PACKETS,  16, 256 } },
	{ TOPOLOGY_NVLINK,     3, { KB(256),  WIRE,    PULL,     64, 256 } },
	{ TOPOLOGY_NVLINK,     3, { ANY_SIZE, TWOSHOT, PULL,    132, 256 } },
	{ TOPOLOGY_NVLINK,     5, { KB(32),   PACKETS, PACKETS,  16, 256 } },
	{ TOPOLOGY_NVLINK,     5, { KB(64),   WIRE,    PULL,     32, 256 } },
	{ TOPOLOGY_NVLINK,     5, { KB(256),  TWOSHOT, PULL,     64, 256 } },
	{ TOPOLOGY_NVLINK,     5, { ANY_SIZE, TWOSHOT, PULL,    132, 256 } },

	/* What the link model says, tests/link_model/crossovers rows: one test knows both. */
	{ TOPOLOGY_PCIE,       1, { KB(8),    PACKETS, PACKETS,  16, 256 } },
	{ TOPOLOGY_PCIE,       1, { KB(512),  WIRE,    PACKETS,  16, 256 } },
	{ TOPOLOGY_PCIE,       1, { ANY_SIZE, WIRE,    PULL,     16, 256 } },
	{ TOPOLOGY_PCIE,       3, { KB(3),    PACKETS, PACKETS,  16, 256 } },
	{ TOPOLOGY_PCIE,       3, { KB(48),   WIRE,    PACKETS,  16, 256 } },
	{ TOPOLOGY_PCIE,       3, { KB(96),   TWOSHOT, PACKETS,  16, 256 } },
	{ TOPOLOGY_PCIE,       3, { ANY_SIZE, TWOSHOT, PULL,     16, 256 } },
	{ TOPOLOGY_PCIE,       5, { KB(8),    WIRE,    PACKETS,  16, 256 } },
	{ TOPOLOGY_PCIE,       5, { KB(24),   TWOSHOT, PACKETS,  16, 256 } },
	{ TOPOLOGY_PCIE,       5, { KB(256),  TWOSHOT, PULL,     16, 256 } },
	{ TOPOLOGY_PCIE,       5, { ANY_SIZE, ISLAND,  PULL,     16, 256 } },

	{ TOPOLOGY_MIXED,      1, { KB(16),   PACKETS, PACKETS,   8, 256 } },
	{ TOPOLOGY_MIXED,      1, { KB(64),   WIRE,    PULL,     16, 256 } },
	{ TOPOLOGY_MIXED,      1, { ANY_SIZE, TWOSHOT, PULL,     32, 256 } },
	/* clang-format on */
};

#define BUILTIN_ROWS (sizeof(builtin) / sizeof(builtin[0]))

/* The group of rows that counts for so many ranks. */
static uint32_t group_of(uint32_t nranks, enum launch_topology topology)
{
	uint32_t group = 0;

	for (uint32_t i = 0; i < BUILTIN_ROWS; i++)
		if (builtin[i].topology == topology && builtin[i].ranks_from <= nranks)
			group = builtin[i].ranks_from;
	return group;
}

void launch_table_builtin(uint32_t nranks, enum launch_topology topology,
			  struct launch_table *ret_table)
{
	uint32_t group = group_of(nranks, topology);

	*ret_table = (struct launch_table){
		.blocks_max = SYMM_BLOCKS_MAX,
		.staged = topology == TOPOLOGY_PCIE,
	};
	for (uint32_t i = 0; i < BUILTIN_ROWS; i++)
		if (builtin[i].topology == topology && builtin[i].ranks_from == group)
			ret_table->row[ret_table->nrows++] = builtin[i].row;
}

/* ---- the shape of a turn --------------------------------------------------------------------- */

static bool wire_carries(uint8_t dtype)
{
	return dtype == BELAY_BF16 || dtype == BELAY_F16 || dtype == BELAY_F32;
}

static uint64_t divide_up(uint64_t value, uint64_t by)
{
	return value / by + (value % by != 0);
}

/* The largest slice of a two-shot turn: whole packets, dealt out to the ranks. */
static uint64_t slice_of(uint64_t bytes, uint32_t nranks)
{
	return divide_up(divide_up(bytes, WIRE_DATA_BYTES), nranks) * WIRE_DATA_BYTES;
}

static bool has_room(const struct symm_layout *layout, uint32_t nranks, uint8_t algorithm,
		     uint64_t bytes, uint8_t dtype)
{
	switch (algorithm) {
	case SYMM_ONESHOT_PACKETS:
		return bytes <= layout->packets_bytes;
	case SYMM_ONESHOT_WIRE:
		return wire_carries(dtype) && bytes <= layout->wire_bytes;
	case SYMM_TWOSHOT_WIRE:
		return wire_carries(dtype) && slice_of(bytes, nranks) <= layout->slice_bytes;
	case SYMM_ISLAND:
		return wire_carries(dtype) && symm_layout_has_islands(layout, nranks) &&
		       slice_of(bytes, nranks) <= layout->slice_bytes;
	default:
		return true; /* pulls from the retained inputs, which take every turn */
	}
}

/* What was asked for, or the first that has room, in the order of what a small turn costs; but
 * islands are two-shot first of all. */
static uint8_t algorithm_with_room(const struct symm_layout *layout, uint32_t nranks,
				   uint8_t wanted, uint64_t bytes, uint8_t dtype)
{
	uint8_t algorithm = wanted;

	if (algorithm == SYMM_ISLAND && !has_room(layout, nranks, algorithm, bytes, dtype))
		algorithm = SYMM_TWOSHOT_WIRE;
	for (uint8_t next = 0; !has_room(layout, nranks, algorithm, bytes, dtype); next++)
		algorithm = next;
	return algorithm;
}

static const struct launch_row *row_of(const struct launch_table *table, uint64_t bytes)
{
	uint32_t i = 0;

	while (i + 1 < table->nrows && bytes > table->row[i].up_to_bytes)
		i++;
	return &table->row[i];
}

static uint32_t clamp(uint64_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : (uint32_t)value;
}

/* So many blocks that each worker has something to do. */
static uint64_t blocks_with_work(uint8_t algorithm, uint64_t bytes, uint32_t threads)
{
	uint64_t packet = algorithm == SYMM_ONESHOT_PACKETS ? PACKET_DATA_BYTES : WIRE_DATA_BYTES;

	return divide_up(divide_up(bytes, packet), threads);
}

/* Whether a worker has several packets for a peer: of one, the order is that of the peers anyway.
 */
static bool sends_several(uint8_t algorithm, uint32_t nranks, uint64_t bytes, uint64_t workers)
{
	switch (algorithm) {
	case SYMM_ONESHOT_PACKETS:
		return divide_up(bytes, PACKET_DATA_BYTES) > workers;
	case SYMM_ONESHOT_WIRE:
		return divide_up(bytes, WIRE_DATA_BYTES) > workers;
	case SYMM_TWOSHOT_WIRE:
		return slice_of(bytes, nranks) > workers * WIRE_DATA_BYTES;
	case SYMM_ISLAND:
		return slice_of(bytes, nranks / 2) > workers * WIRE_DATA_BYTES;
	default:
		return false;
	}
}

static uint8_t algorithm_of(const struct launch_table *table, uint8_t algorithm)
{
	if (table->pulls && algorithm != SYMM_ONESHOT_PACKETS)
		return SYMM_TWOSHOT_PULL;
	return algorithm == SYMM_ISLAND && !table->islands ? SYMM_TWOSHOT_WIRE : algorithm;
}

struct launch_shape launch_shape_of(const struct launch_table *table,
				    const struct symm_layout *layout, uint32_t nranks,
				    uint64_t bytes, uint8_t dtype)
{
	const struct launch_row *row = row_of(table, bytes);
	uint8_t wanted =
		algorithm_of(table, wire_carries(dtype) ? row->algorithm : row->algorithm_other);
	uint8_t algorithm = algorithm_with_room(layout, nranks, wanted, bytes, dtype);
	uint32_t threads = clamp(row->threads / WARP * WARP, WARP, THREADS_MAX);
	uint64_t blocks = blocks_with_work(algorithm, bytes, threads);

	if (blocks > row->blocks)
		blocks = row->blocks;
	blocks = clamp(blocks, 1, clamp(table->blocks_max, 1, SYMM_BLOCKS_MAX));
	return (struct launch_shape){
		.algorithm = algorithm,
		.blocks = (uint16_t)blocks,
		.threads = (uint16_t)threads,
		.programmatic = blocks <= table->pair_blocks_max,
		.staged =
			table->staged && sends_several(algorithm, nranks, bytes, blocks * threads),
	};
}

uint32_t launch_blocks_kept(uint32_t multiprocessors, uint32_t sharing)
{
	return sharing > 1 ? 2 : multiprocessors / 16;
}

/*
 * So many blocks in all that even with each on a multiprocessor of its own some of these are empty,
 * whatever the blocks' sizes. A bound by occupancy is not enough: narrow blocks of one turn, dealt
 * out over all multiprocessors, keep the wide blocks of the next turn out, and ranks wait for each
 * other for ever (eight ranks were seen to, with seven eighths of an H200 filled by that count).
 * Nor would NCCL's kernels, which take a whole multiprocessor a block, start beside them.
 *
 * Empty: launch_blocks_kept() for each rank that shares the device.
 *
 * With programmatic launch two kernels of each rank stand on the device at once, and the one that
 * waits holds registers that a peer may need to start. Therefore a kernel lets the next one come
 * only if its own grid is one that fits twice, and only such a one comes early: what stands there
 * is then either one grid of a rank, within the bound of depth 1, or two, each within that of
 * depth 2.
 */
uint32_t launch_blocks_max(uint32_t multiprocessors, uint32_t sharing, uint32_t depth)
{
	uint32_t kept = (sharing ? sharing : 1) * launch_blocks_kept(multiprocessors, sharing);
	uint32_t resident = multiprocessors > kept ? multiprocessors - kept : 1;
	uint32_t kernels = (sharing ? sharing : 1) * (depth ? depth : 1);

	return clamp(resident / kernels, 0, SYMM_BLOCKS_MAX);
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *launch_algorithm_name(enum symm_algorithm algorithm)
{
	static const char *const names[SYMM_ALGORITHMS] = {
		[SYMM_ONESHOT_PACKETS] = "oneshot-packets",
		[SYMM_ONESHOT_WIRE] = "oneshot-wire",
		[SYMM_TWOSHOT_WIRE] = "twoshot-wire",
		[SYMM_TWOSHOT_PULL] = "twoshot-pull",
		[SYMM_ISLAND] = "island",
	};

	return (unsigned)algorithm < SYMM_ALGORITHMS ? names[algorithm] : "unknown";
}

const char *launch_topology_name(enum launch_topology topology)
{
	static const char *const names[LAUNCH_TOPOLOGIES] = {
		[TOPOLOGY_ONE_DEVICE] = "one_device",
		[TOPOLOGY_NVLINK] = "nvlink",
		[TOPOLOGY_PCIE] = "pcie",
		[TOPOLOGY_MIXED] = "mixed",
	};

	return (unsigned)topology < LAUNCH_TOPOLOGIES ? names[topology] : "unknown";
}
