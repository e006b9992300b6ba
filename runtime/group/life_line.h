/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A word in shared memory by which a process's death is seen at once. A pidfd tells of it only when
 * the process is gone for good, and with a GPU context to take down that takes 100 ms and more
 * (measured; docs/decisions/0008). A robust mutex tells as soon as the thread that holds it has
 * ended: the kernel marks it before it takes anything down.
 *
 *   FREE -----------> HELD -----------> FREE         its rank's watcher: starts, stops
 *                       |
 *                       | the watcher's thread has ended without letting go
 *                       v
 *                     FALLEN                         for whoever looks first; the others learn it
 *                                                    from the dead mask
 *
 * Only a process that dies, or becomes another program, ends its watcher so. A forked child holds
 * nothing.
 *
 * Ordering contract [LIFE LINE]: whoever finds `held` set (acquire; set with release) finds the
 * mutex made; whoever finds the line fallen has acquired, with the mutex, what its owner did.
 */
#ifndef BELAY_RUNTIME_GROUP_LIFE_LINE_H
#define BELAY_RUNTIME_GROUP_LIFE_LINE_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct life_line {
	alignas(64) pthread_mutex_t mutex;
	_Atomic uint32_t held; /* 1: between hold and let go; then others may look */
};

/* By the owner, before anybody looks. */
void life_line_init(struct life_line *line);
/* By the thread whose end is the process's end. */
void life_line_hold(struct life_line *line);
void life_line_let_go(struct life_line *line);

/* True when the owner ended without letting go; only one of those who look is told. It must then
 * call life_line_bury() by the same thread before that thread ends. Does not wait. */
bool life_line_has_fallen(struct life_line *line);
void life_line_bury(struct life_line *line);

#endif /* BELAY_RUNTIME_GROUP_LIFE_LINE_H */
