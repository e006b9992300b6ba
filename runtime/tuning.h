/* SPDX-License-Identifier: Apache-2.0 */
/* The table that says which algorithm is used from which size on, built in or from the file of
 * BELAY_TUNE. */
#ifndef BELAY_RUNTIME_TUNING_H
#define BELAY_RUNTIME_TUNING_H

#include <stdint.h>

struct cause_chain;

struct tuning {
	uint64_t twoshot_from_bytes; /* calls of at least so many bytes go two-shot */
	uint64_t hash; /* of all of the above: ranks must have the same, else they choose
			  differently */
};

/*
 * Reads the row for `nranks` of a tuning file. A line is empty, a comment (`# ...`), or
 *
 * 	ranks=N twoshot_from=BYTES
 *
 * with N from 1 to 64, each at most once, and BYTES a number or one with K, M or G.
 *
 * @param path    NULL or "": no file
 * @param tuning  in: the built-in values; they stay where the file says nothing on `nranks`. Out:
 *                the values in effect and their hash; untouched on failure
 * @return 0, or BELAY_E_SETTING: the file cannot be read or a line is wrong; the cause names file
 * and line
 */
int tuning_load(const char *path, uint32_t nranks, struct tuning *tuning,
		struct cause_chain *causes);

#endif /* BELAY_RUNTIME_TUNING_H */
