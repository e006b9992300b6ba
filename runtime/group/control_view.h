/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a control segment from outside a communicator's calls: by its own queries, and by
 * another process (belay_process_*) that maps the segment read-only. Loads only, each number by
 * itself; nothing here waits for a rank, so a hanging or stopped process can be looked at.
 */
#ifndef BELAY_RUNTIME_GROUP_CONTROL_VIEW_H
#define BELAY_RUNTIME_GROUP_CONTROL_VIEW_H

#include "runtime/group/control_segment.h"

/* One rank's state at now_ns (CLOCK_MONOTONIC). The size field stays as it is. */
void control_view_rank(const struct control_segment *segment, unsigned rank, uint64_t now_ns,
		       struct belay_rank_health *ret_health);

/* The last turn that a rank is done with, by its step word and by what its kernels post. */
uint64_t control_view_done(const struct control_segment *segment, unsigned rank);

/* The last turns that a rank has staged, has pushed, whose results it has pushed: likewise. */
uint64_t control_view_staged(const struct control_segment *segment, unsigned rank);
uint64_t control_view_pushed(const struct control_segment *segment, unsigned rank);
uint64_t control_view_results(const struct control_segment *segment, unsigned rank);

/* The last pass that a rank has begun. */
uint64_t control_view_pass(const struct control_segment *segment, unsigned rank);

/* The path of the newest agreed switch, or the first one. */
enum belay_path control_view_path(const struct control_segment *segment);

/* The verdict. Returns 1, or 0 and leaves ret_verdict alone when none is decided. The size field
 * stays as it is. */
int control_view_verdict(const struct control_segment *segment, struct belay_verdict *ret_verdict);

#endif /* BELAY_RUNTIME_GROUP_CONTROL_VIEW_H */
