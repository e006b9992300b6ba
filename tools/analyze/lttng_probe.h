/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the packets of a trace that look whole and that libbabeltrace2 cannot read all the same. */
#ifndef BELAY_TOOLS_ANALYZE_LTTNG_PROBE_H
#define BELAY_TOOLS_ANALYZE_LTTNG_PROBE_H

#include "tools/analyze/ctf_check.h"

/* Has each stream read by itself, again behind each packet that fails; takes these packets out of
 * `check` and notes them as faults. Returns 0; BELAY_E_SYSTEM: no process or copy can be made;
 * BELAY_E_NO_MEMORY; or BELAY_E_ABORTED when a signal asks for an end. */
int lttng_probe(const char *folder, struct ctf_check *check, size_t *ret_bad);

#endif /* BELAY_TOOLS_ANALYZE_LTTNG_PROBE_H */
