/* SPDX-License-Identifier: Apache-2.0 */
/* See device_topology.h. */
#include "runtime/cuda/device_topology.h"

#include <string.h>

/* The first compute capability (major * 10 + minor) that knows programmatic dependent launch. */
#define COMPUTE_PROGRAMMATIC 90
/* Pushes that are slower than pulls by less than this win all the same: a pull waits for the peer's
 * answer. */
#define PUSH_SLOWNESS 3

bool topology_same_device(const struct control_facts *a, const struct control_facts *b)
{
	return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

uint32_t topology_sharing(const struct control_device *devices, uint32_t nranks, uint32_t rank)
{
	uint32_t sharing = 0;

	for (uint32_t r = 0; r < nranks; r++)
		sharing += topology_same_device(&devices[r].facts, &devices[rank].facts);
	return sharing;
}

static bool joined_by_nvlink(const struct control_device *devices, uint32_t a, uint32_t b)
{
	return (devices[a].facts.peer_nvlink >> b & 1) && (devices[b].facts.peer_nvlink >> a & 1);
}

/* Kinds of pairs that there are. */
struct pairs {
	bool shared, nvlink, pcie;
};

static struct pairs look_at_pairs(const struct control_device *devices, uint32_t nranks)
{
	struct pairs pairs = {0};

	for (uint32_t a = 0; a < nranks; a++) {
		for (uint32_t b = a + 1; b < nranks; b++) {
			if (topology_same_device(&devices[a].facts, &devices[b].facts))
				pairs.shared = true;
			else if (joined_by_nvlink(devices, a, b))
				pairs.nvlink = true;
			else
				pairs.pcie = true;
		}
	}
	return pairs;
}

enum launch_topology topology_of(const struct control_device *devices, uint32_t nranks)
{
	struct pairs pairs = look_at_pairs(devices, nranks);

	if (pairs.shared)
		return pairs.nvlink || pairs.pcie ? TOPOLOGY_MIXED : TOPOLOGY_ONE_DEVICE;
	if (pairs.pcie)
		return TOPOLOGY_PCIE;
	/* A rank alone has no link to be slow on. */
	return pairs.nvlink ? TOPOLOGY_NVLINK : TOPOLOGY_ONE_DEVICE;
}

bool topology_asks_probe(const struct control_device *devices, uint32_t nranks)
{
	bool asked = false;

	for (uint32_t r = 0; r < nranks; r++)
		asked = asked || devices[r].facts.asks_probe;
	return nranks > 1 && (asked || topology_of(devices, nranks) == TOPOLOGY_PCIE);
}

bool topology_pushes_slowly(const struct control_device *devices, uint32_t nranks)
{
	uint64_t push = UINT64_MAX, pull = UINT64_MAX;

	for (uint32_t r = 0; r < nranks; r++) {
		const struct control_facts *facts = &devices[r].facts;

		if (facts->push_rate == 0 || facts->pull_rate == 0)
			return false;
		push = facts->push_rate < push ? facts->push_rate : push;
		pull = facts->pull_rate < pull ? facts->pull_rate : pull;
	}
	return push < pull / PUSH_SLOWNESS;
}

/* Of the ranks from `first` up to `end`; -1: not known, or not the same one. */
static int32_t common_node(const struct control_device *devices, uint32_t first, uint32_t end)
{
	int32_t node = devices[first].facts.numa_node;

	for (uint32_t r = first + 1; r < end; r++)
		if (devices[r].facts.numa_node != node)
			return -1;
	return node;
}

bool topology_has_islands(const struct control_device *devices, uint32_t nranks)
{
	int32_t lower, upper;

	if (nranks < 4 || nranks % 2 != 0)
		return false;
	lower = common_node(devices, 0, nranks / 2);
	upper = common_node(devices, nranks / 2, nranks);
	return lower >= 0 && upper >= 0 && lower != upper;
}

uint32_t topology_blocks_max(const struct control_device *devices, uint32_t nranks)
{
	uint32_t blocks = SYMM_BLOCKS_MAX;

	for (uint32_t r = 0; r < nranks; r++) {
		uint32_t sharing = topology_sharing(devices, nranks, r);
		uint32_t fit = launch_blocks_max(devices[r].facts.multiprocessors, sharing,
						 sharing > 1 ? 1 : 2);

		blocks = fit < blocks ? fit : blocks;
	}
	return blocks ? blocks : 1;
}

uint32_t topology_blocks_kept(const struct control_device *devices, uint32_t nranks)
{
	uint32_t blocks = SYMM_BLOCKS_MAX;

	for (uint32_t r = 0; r < nranks; r++) {
		uint32_t kept = launch_blocks_kept(devices[r].facts.multiprocessors,
						   topology_sharing(devices, nranks, r));

		blocks = kept < blocks ? kept : blocks;
	}
	return blocks ? blocks : 1;
}

uint32_t topology_pair_blocks_max(const struct control_device *devices, uint32_t nranks)
{
	uint32_t blocks = SYMM_BLOCKS_MAX;

	for (uint32_t r = 0; r < nranks; r++) {
		uint32_t fit = launch_blocks_max(devices[r].facts.multiprocessors,
						 topology_sharing(devices, nranks, r), 2);

		if (devices[r].facts.compute < COMPUTE_PROGRAMMATIC)
			fit = 0;
		blocks = fit < blocks ? fit : blocks;
	}
	return blocks;
}
