/* SPDX-License-Identifier: Apache-2.0 */
/* The table that says which algorithm is used from which size on, built in or from the file of
 * BELAY_TUNE. */
#ifndef BELAY_RUNTIME_TUNING_H
#define BELAY_RUNTIME_TUNING_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/launch_shape.h"

struct cause_chain;

/* What the file says about turns on device memory with these ranks joined in one way. */
struct tuning_rows {
	uint32_t nrows; /* 0: nothing, the built-in table stands */
	struct launch_row row[LAUNCH_ROWS_MAX];
};

enum tuning_staged { TUNING_STAGED_BUILT_IN = 0, TUNING_STAGED_YES = 1, TUNING_STAGED_NO = 2 };

struct tuning {
	uint64_t twoshot_from_bytes; /* host memory: calls of at least so many bytes go two-shot */
	struct tuning_rows device[LAUNCH_TOPOLOGIES]; /* by enum launch_topology */
	bool plain_launches; /* no programmatic launch, where it could be used */
	uint8_t staged;	     /* enum tuning_staged */
	uint64_t hash;	     /* of all of the above: ranks must have the same, else they choose
				differently */
};

/*
 * Reads the rows for `nranks` of a tuning file. A line is empty, a comment (`# ...`), or one of
 *
 * 	ranks=N twoshot_from=BYTES
 * 	ranks=N topology=HOW up_to=BYTES algorithm=A other=A blocks=B threads=T
 * 	ranks=N programmatic=yes|no
 * 	ranks=N staged=yes|no
 *
 * with BYTES a number or one with K, M or G. The first kind is for host memory; N is from 1 to 64,
 * each at most once. The second is for device memory; docs/path-choice.md tells what it means. N is
 * from 1 to 16; HOW one of one_device, nvlink, pcie, mixed; of one N and HOW the BYTES ascend, in
 * at most 16 rows, and the last row also counts for all above. The third, each N at most once,
 * takes programmatic launch away from calls on device memory, or leaves it. The fourth, likewise, has
 * them serve one peer after the other, or all at once.
 *
 * @param path    NULL or "": no file
 * @param tuning  in: the built-in values; they stay where the file says nothing on `nranks`. Out:
 *                the values in effect and their hash; untouched on failure
 * @return 0, or BELAY_E_SETTING: the file cannot be read or a line is wrong; the cause names file
 * and line
 */
int tuning_load(const char *path, uint32_t nranks, struct tuning *tuning,
		struct cause_chain *causes);

/* The launch table in effect: the file's rows, or the built-in ones. */
void tuning_launch_table(const struct tuning *tuning, uint32_t nranks,
			 enum launch_topology topology, struct launch_table *ret_table);

#endif /* BELAY_RUNTIME_TUNING_H */
