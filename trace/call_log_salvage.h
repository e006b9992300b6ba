/* SPDX-License-Identifier: Apache-2.0 */
/* What a dead rank's own log file holds that its rings do not yet say. */
#ifndef BELAY_TRACE_CALL_LOG_SALVAGE_H
#define BELAY_TRACE_CALL_LOG_SALVAGE_H

#include <stdint.h>

struct call_log_position {
	uint32_t rank;
	uint64_t file;	/* as trace_area.file: number << 40 | whole bytes; 0: no file */
	uint64_t calls; /* records written, by the rings' word */
	uint64_t events;
};

/*
 * Reads the dead rank's last file from where its rings say that it ends, counts the whole blocks
 * found there, and cuts off a block that death left torn. So each record stands in a file once.
 * What cannot be read counts as not written.
 */
void call_log_salvage_position(const char *dir, const char *comm_id,
			       struct call_log_position *position);

#endif /* BELAY_TRACE_CALL_LOG_SALVAGE_H */
