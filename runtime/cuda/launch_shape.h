/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithm, grid and threads of a turn: a pure function of its size and type and of a table that
 * all ranks have alike (S1), never of pointers or anything local. The table is built in, by number
 * of ranks and topology, from the measurements of docs/path-choice.md, or read from BELAY_TUNE.
 */
#ifndef BELAY_RUNTIME_CUDA_LAUNCH_SHAPE_H
#define BELAY_RUNTIME_CUDA_LAUNCH_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/symm_kernels.h"

/* How ranks' devices are joined; the slowest pair counts. */
enum launch_topology {
	TOPOLOGY_ONE_DEVICE = 0, /* all ranks share one device */
	TOPOLOGY_NVLINK = 1,
	TOPOLOGY_PCIE = 2,
	TOPOLOGY_MIXED = 3 /* several devices, some shared */
};

struct launch_row {
	uint64_t up_to_bytes;	 /* of a turn; ascending; the last row: UINT64_MAX */
	uint8_t algorithm;	 /* enum symm_algorithm, for bf16, f16 and f32 */
	uint8_t algorithm_other; /* for types that the full wire cannot carry */
	uint16_t blocks, threads;
};

#define LAUNCH_ROWS_MAX	  16
#define LAUNCH_TOPOLOGIES 4

struct launch_table {
	uint32_t nrows;
	struct launch_row row[LAUNCH_ROWS_MAX];
	/* Agreed: the least of all ranks' residency bounds. */
	uint32_t blocks_max;
	uint32_t pair_blocks_max; /* of grids that the next one may join; 0: none may */
	/* Agreed: rows of SYMM_ISLAND are carried out so; else as SYMM_TWOSHOT_WIRE. */
	bool islands;
	/* Turns of which a worker sends several packets serve one peer after the other, each rank
	 * beginning with the one after it: one stream out of each device and one into each, instead
	 * of all at once. */
	bool staged;
	/* Agreed: pushes to all peers at once are far slower than pulls, so all but rows of
	 * SYMM_ONESHOT_PACKETS are carried out as SYMM_TWOSHOT_PULL. */
	bool pulls;
};

struct launch_shape {
	uint8_t algorithm;
	uint16_t blocks, threads;
	/* With programmatic dependent launch: comes to stand beside the call's kernel before it, if
	 * it follows one (struct symm_launch), and lets the next one come. */
	bool programmatic;
	bool staged; /* struct launch_table */
};

/* The built-in table; not bounded yet, and nothing is programmatic. A tuning file may say
 * otherwise: ask tuning_launch_table() (runtime/tuning.h) for the table in effect. */
void launch_table_builtin(uint32_t nranks, enum launch_topology topology,
			  struct launch_table *ret_table);

/* Shape of a turn of `bytes`. Never more blocks than blocks_max, nor than there is work for; an
 * algorithm that the layout has no room for gives way to one that it has. */
struct launch_shape launch_shape_of(const struct launch_table *table,
				    const struct symm_layout *layout, uint32_t nranks,
				    uint64_t bytes, uint8_t dtype);

/* Multiprocessors that each rank's kernels leave empty, for a rescue's: two where ranks share a
 * device, a sixteenth of one's own. */
uint32_t launch_blocks_kept(uint32_t multiprocessors, uint32_t sharing);

/* Largest grid so that `sharing` ranks' calls, each in `depth` kernels at once (2 with programmatic
 * launch and for a second communicator), fit on the device together with room for a rescue. 0: none
 * does. */
uint32_t launch_blocks_max(uint32_t multiprocessors, uint32_t sharing, uint32_t depth);

/* Names in tuning files and reports: "oneshot-packets", "one_device"; static; "unknown". */
const char *launch_algorithm_name(enum symm_algorithm algorithm);
const char *launch_topology_name(enum launch_topology topology);

#endif /* BELAY_RUNTIME_CUDA_LAUNCH_SHAPE_H */
