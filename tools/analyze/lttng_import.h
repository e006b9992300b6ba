/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings the events of an LTTng trace into `inputs`. libbabeltrace2 reads in a process of its own,
 * one for each trace, so that a crash or a hang in it costs that trace and nothing else; what it
 * had read by then is kept.
 */
#ifndef BELAY_TOOLS_ANALYZE_LTTNG_IMPORT_H
#define BELAY_TOOLS_ANALYZE_LTTNG_IMPORT_H

struct inputs;

/* 1 if the folder itself is a trace (holds a file `metadata`); not of its parents. */
int lttng_is_trace(const char *folder);

/* Reads one trace. What is wrong with it becomes a damage. Returns 0, BELAY_E_NO_MEMORY, or
 * BELAY_E_ABORTED when a signal asks for an end. */
int lttng_import(struct inputs *inputs, const char *folder);

#endif /* BELAY_TOOLS_ANALYZE_LTTNG_IMPORT_H */
