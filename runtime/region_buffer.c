/* SPDX-License-Identifier: Apache-2.0 */
/* belay_buffer_alloc() and belay_buffer_free(): buffers that peers can push results into. */
#include "runtime/communicator.h"

int belay_buffer_alloc(struct belay_comm *comm, size_t bytes, void **ret_buffer)
{
	int status;

	if (!comm || !ret_buffer || bytes == 0)
		return BELAY_E_ARGUMENT;
	status = comm_enter(comm);
	if (status)
		return status;
	status = comm->device ? BELAY_E_UNSUPPORTED
			      : region_buffer_alloc(&comm->region, bytes, ret_buffer, comm->causes);
	comm_leave(comm);
	return status;
}

int belay_buffer_free(struct belay_comm *comm, void *buffer)
{
	int status;

	if (!comm)
		return BELAY_E_ARGUMENT;
	if (!buffer)
		return 0;
	status = comm_enter(comm);
	if (status)
		return status;
	status = region_buffer_free(&comm->region, buffer);
	comm_leave(comm);
	return status;
}
