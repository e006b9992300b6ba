/* SPDX-License-Identifier: Apache-2.0 */
/* belay-info --process: the communicators of a process that runs, is stopped or hangs. */
#ifndef BELAY_TOOLS_INFO_PROCESS_H
#define BELAY_TOOLS_INFO_PROCESS_H

#include "tools/command_line.h"

/* The third form, besides enum command_format. */
#define FORMAT_PROMETHEUS 2

/* Prints to stdout. Returns 0; or 1: there is no such process or communicator, or it cannot be
 * looked at, which was said. */
int info_process(int pid, int format);

#endif /* BELAY_TOOLS_INFO_PROCESS_H */
