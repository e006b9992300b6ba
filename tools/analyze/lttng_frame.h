/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that reads an LTTng trace sends to the one that analyses, through a pipe. */
#ifndef BELAY_TOOLS_ANALYZE_LTTNG_FRAME_H
#define BELAY_TOOLS_ANALYZE_LTTNG_FRAME_H

#include <stdint.h>
#include <stdio.h>

enum lttng_frame_kind {
	LTTNG_FRAME_ALIVE = 1, /* nothing to tell, but at work */
	LTTNG_FRAME_CALL, /* a struct call_record with arrivals: call_record_stride(nranks) bytes */
	LTTNG_FRAME_EVENT,     /* a struct event_record */
	LTTNG_FRAME_DISCARDED, /* a uint64_t: events that LTTng had no room for */
	LTTNG_FRAME_ODD,       /* an event of belay's that lacks a field it must have */
	LTTNG_FRAME_OPENED,    /* the metadata is understood */
	LTTNG_FRAME_PACKET,    /* a packet was read to its end; LTTNG_READ_PACKETS only */
	LTTNG_FRAME_PROBLEM,   /* text: why reading ended early */
	LTTNG_FRAME_END	       /* all was read */
};

struct lttng_frame {
	uint32_t kind;
	uint32_t bytes; /* that follow */
	uint32_t rank;
	uint32_t nranks;
	uint64_t comm_high;
	uint64_t comm_low;
};

#define LTTNG_FRAME_BYTES_MAX 1024u

/* At the latest after so many messages of libbabeltrace2's a frame is sent. */
#define LTTNG_MESSAGES_BETWEEN_SIGNS 4096u

enum lttng_reading {
	LTTNG_READ_RECORDS, /* gives the records */
	LTTNG_READ_PACKETS  /* gives only how far it comes */
};

/* In the reading process: reads the whole trace at `folder` and writes frames. Needs
 * HAVE_BABELTRACE. */
void lttng_read_trace(const char *folder, enum lttng_reading reading, FILE *frames);

#endif /* BELAY_TOOLS_ANALYZE_LTTNG_FRAME_H */
