/* SPDX-License-Identifier: Apache-2.0 */
/* See belay_nccl.h. */
#include "config.h"

#include <stddef.h>

#include "runtime/nccl/belay_nccl.h"
#include "runtime/nccl/twin.h"

#define EXPORT __attribute__((visibility("default")))

/* A communicator that was made in the middle of a pass has no part of it. */
static int mark(struct twin *twin, bool begin, struct CUstream_st *stream)
{
	bool in_pass = atomic_load_explicit(&twin->in_pass, memory_order_relaxed);
	int status;

	if (!begin && !in_pass)
		return 0;
	status =
		begin ? belay_pass_begin(twin->belay, stream) : belay_pass_end(twin->belay, stream);
	if (status == 0)
		atomic_store_explicit(&twin->in_pass, begin, memory_order_relaxed);
	return status;
}

static int mark_all(bool begin, struct CUstream_st *stream)
{
	struct twin *twin;
	int status = 0;

	for (unsigned i = 0; (twin = twin_at(i)) != NULL; i++) {
		int one = mark(twin, begin, stream);

		if (status == 0)
			status = one;
		twin_put(twin);
	}
	return status;
}

EXPORT int belay_nccl_pass_begin(struct CUstream_st *stream)
{
	return mark_all(true, stream);
}

EXPORT int belay_nccl_pass_end(struct CUstream_st *stream)
{
	return mark_all(false, stream);
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
