/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the launch table, as the model would choose them. */
#ifndef BELAY_TESTS_LINK_ROWS_H
#define BELAY_TESTS_LINK_ROWS_H

#include "runtime/cuda/launch_shape.h"
#include "tests/link_model/link_machines.h"

/* Microseconds of a turn with one of belay's algorithms; `other`: of a type that the full wire does
 * not carry. Where a machine makes no islands, islands are two-shot. */
double link_algorithm_us(const struct link_machine *machine, int nranks,
			 enum symm_algorithm algorithm, bool other, double bytes);

/* Rows of ranks joined by PCIe: for 2, 4 or 8 of them. Returns how many. */
int link_rows(int nranks, struct launch_row ret_rows[LAUNCH_ROWS_MAX]);

#endif /* BELAY_TESTS_LINK_ROWS_H */
