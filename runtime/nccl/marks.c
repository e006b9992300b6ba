/* SPDX-License-Identifier: Apache-2.0 */
/* See belay_nccl.h. */
#include "config.h"

#include <stddef.h>

#include "runtime/nccl/belay_nccl.h"
#include "runtime/nccl/twin.h"

#define EXPORT __attribute__((visibility("default")))

static int mark_all(struct CUstream_st *stream,
		    int (*mark)(struct belay_comm *comm, struct CUstream_st *stream))
{
	struct twin *twin;
	int status = 0;

	for (unsigned i = 0; (twin = twin_at(i)) != NULL; i++) {
		int one = mark(twin->belay, stream);

		if (status == 0)
			status = one;
		twin_put(twin);
	}
	return status;
}

EXPORT int belay_nccl_pass_begin(struct CUstream_st *stream)
{
	return mark_all(stream, belay_pass_begin);
}

EXPORT int belay_nccl_pass_end(struct CUstream_st *stream)
{
	return mark_all(stream, belay_pass_end);
}

EXPORT struct belay_comm *belay_nccl_comm(unsigned index)
{
	struct twin *twin = twin_at(index);
	struct belay_comm *belay;

	if (!twin)
		return NULL;
	belay = twin->belay;
	twin_put(twin);
	return belay;
}
