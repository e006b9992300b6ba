/* SPDX-License-Identifier: Apache-2.0 */
/* A folder in TMPDIR with what is whole of a trace, for libbabeltrace2, which would refuse the rest
 * along with it. */
#ifndef BELAY_TOOLS_ANALYZE_LTTNG_COPY_H
#define BELAY_TOOLS_ANALYZE_LTTNG_COPY_H

#include <limits.h>

#include "tools/analyze/ctf_check.h"

struct lttng_copy {
	char folder[PATH_MAX]; /* "": there is none */
	const struct ctf_check *check;
};

/* Copies the whole packets of all streams; what is without fault is only linked. Returns 0 or -1
 * (errno tells; EINTR: a signal asks for an end); lttng_copy_remove() in either case. `check` must
 * live until then. */
int lttng_copy_make(struct lttng_copy *copy, const char *folder, const struct ctf_check *check);

/* The same with one stream, from one of its packets on, whose whole packets are not linked. */
int lttng_copy_make_part(struct lttng_copy *copy, const char *folder, const struct ctf_check *check,
			 size_t stream, size_t packet);

void lttng_copy_remove(struct lttng_copy *copy);

#endif /* BELAY_TOOLS_ANALYZE_LTTNG_COPY_H */
