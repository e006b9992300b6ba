/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that ask for an end (SIGINT, SIGTERM, SIGHUP): the first is noted, so that the run can
 * stop where its files are in order; a second one, or a second of time, ends the process at once.
 */
#ifndef BELAY_TOOLS_ANALYZE_INTERRUPT_H
#define BELAY_TOOLS_ANALYZE_INTERRUPT_H

/* From here on they are noted. One that is ignored, as under nohup(1), stays ignored. */
void interrupt_begin(void);

/* The signal that came; 0: none. */
int interrupt_requested(void);

/* Ends the process by the signal that came, so that a shell sees what a shell expects; returns when
 * none came. */
void interrupt_end(void);

#endif /* BELAY_TOOLS_ANALYZE_INTERRUPT_H */
