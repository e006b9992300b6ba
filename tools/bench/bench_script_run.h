/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's run of a script, on host memory or on a device. */
#ifndef BELAY_TOOLS_BENCH_SCRIPT_RUN_H
#define BELAY_TOOLS_BENCH_SCRIPT_RUN_H

#include "tools/bench/bench_run.h"

/* Makes the job's calls. On the host every result is checked, where the script has one op for all
 * calls. Returns 0, or a status, and what failed stands in the job. */
int bench_script_run(struct bench_run *run);

#endif /* BELAY_TOOLS_BENCH_SCRIPT_RUN_H */
