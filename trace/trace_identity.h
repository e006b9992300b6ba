/* SPDX-License-Identifier: Apache-2.0 */
/* Whose records: what an LTTng event must say besides its record. */
#ifndef BELAY_TRACE_TRACE_IDENTITY_H
#define BELAY_TRACE_TRACE_IDENTITY_H

#include <stdint.h>

struct trace_identity {
	uint64_t comm_high; /* the communicator's id, its 32 digits as two numbers */
	uint64_t comm_low;
	uint32_t rank;
	uint32_t nranks;
};

#endif /* BELAY_TRACE_TRACE_IDENTITY_H */
