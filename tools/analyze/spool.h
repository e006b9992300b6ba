/* SPDX-License-Identifier: Apache-2.0 */
/* Records of one rank on the way from a source that cannot be read in parts, in an unnamed file
 * in TMPDIR. */
#ifndef BELAY_TOOLS_ANALYZE_SPOOL_H
#define BELAY_TOOLS_ANALYZE_SPOOL_H

#include <stdint.h>

#include "trace/call_log_reader.h"

struct spool;

/* Returns 0, BELAY_E_NO_MEMORY, or BELAY_E_SYSTEM (errno tells). */
int spool_create(uint32_t nranks, struct spool **ret_spool);
/* Add in any order. Return 0 or BELAY_E_SYSTEM (errno tells). */
int spool_add_call(struct spool *spool, const struct call_record *record);
int spool_add_event(struct spool *spool, const struct event_record *event);
/* Ends the writing, or the last reading, and goes to the first batch. Returns 0 or
 * BELAY_E_SYSTEM. */
int spool_rewind(struct spool *spool);
/* The next batch; its rows live until the next call. A file that cannot be read back ends. */
void spool_next(struct spool *spool, struct call_log_batch *ret_batch);
/* Of all rows. */
uint64_t spool_bytes(const struct spool *spool);
void spool_free(struct spool *spool);

#endif /* BELAY_TOOLS_ANALYZE_SPOOL_H */
