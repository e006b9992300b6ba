/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `replay`: writes scripts of a recording, has belay-bench make the calls, and compares the log of
 * that with the recording. Communicators are replayed one after the other. belay-bench stands
 * beside this program, or in PATH; it is a program of its own so that the reader of recordings
 * loads neither the library, which LTTng traces, nor CUDA.
 */
#ifndef BELAY_TOOLS_ANALYZE_REPLAY_RUN_H
#define BELAY_TOOLS_ANALYZE_REPLAY_RUN_H

#include "tools/analyze/driver.h"

struct replay_request {
	const char *backend; /* for belay-bench; NULL: its default */
	const char *paths;   /* NULL: the library's default */
	const char *log_dir; /* NULL: a folder that is removed in the end */
	int at_full_speed;
};

/* As driver_run(). *ret_exit is an exit status other than 0 when the replay could not be made,
 * which has been said. */
int replay_run(const struct replay_request *request, struct inputs *inputs, struct output *output,
	       struct findings *ret_findings, int *ret_exit);

#endif /* BELAY_TOOLS_ANALYZE_REPLAY_RUN_H */
