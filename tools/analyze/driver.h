/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the recordings through a command: communicator by communicator, row by row. */
#ifndef BELAY_TOOLS_ANALYZE_DRIVER_H
#define BELAY_TOOLS_ANALYZE_DRIVER_H

#include "tools/analyze/command.h"

/* Looks at the operands of a command; of those that give nothing at all stderr says why, at once.
 * Returns 0, BELAY_E_NO_MEMORY or BELAY_E_ABORTED. */
int driver_read(struct inputs *inputs, char *const *operands, int noperands);

/* What the exit status is made of. */
struct findings {
	int failures; /* a rescue, mismatch, digest difference or verdict */
	int losses;   /* damage, lost records, a rank without data */
};

/* Returns 0; or, with the document not complete, BELAY_E_NO_MEMORY, BELAY_E_SYSTEM (the output
 * cannot be written) or BELAY_E_ABORTED (a signal asks for an end: interrupt.h). */
int driver_run(struct inputs *inputs, struct output *output, struct findings *ret_findings);

#endif /* BELAY_TOOLS_ANALYZE_DRIVER_H */
