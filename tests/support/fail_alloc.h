/* SPDX-License-Identifier: Apache-2.0 */
/* Lets a chosen allocation fail. Link with $(FAIL_ALLOC_WRAP), which wraps malloc, calloc, realloc
 * and strdup. */
#ifndef BELAY_TESTS_SUPPORT_FAIL_ALLOC_H
#define BELAY_TESTS_SUPPORT_FAIL_ALLOC_H

/* The n-th allocation of this thread from now on fails, from 0, and those after it too; -1: none
 * fails any more. */
void fail_alloc_at(int n);

#endif /* BELAY_TESTS_SUPPORT_FAIL_ALLOC_H */
