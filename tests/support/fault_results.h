/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of faults find out, for the table in docs/faults.md: with BELAY_FAULT_RESULTS=FILE
 * each run of ranks is a line of JSON in FILE, appended when the test program ends.
 * tests/fault_table.sh makes the table. Without the variable nothing is kept.
 */
#ifndef BELAY_TESTS_FAULT_RESULTS_H
#define BELAY_TESTS_FAULT_RESULTS_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * In place of START_TEST: a test whose runs are noted. `shows` names the rows of the fault matrix
 * and the field cases as docs/faults.md does, such as "3 4 F01". A run counts as passed when the
 * test that it belongs to came to its end.
 */
#define FAULT_TEST(name, shows)                                                                    \
	static void name##_body(int _i);                                                           \
	START_TEST(name)                                                                           \
	{                                                                                          \
		fault_results_begin(#name, shows);                                                 \
		name##_body(_i);                                                                   \
		fault_results_end();                                                               \
	}                                                                                          \
	END_TEST                                                                                   \
	static void name##_body(int _i CK_ATTRIBUTE_UNUSED)

/* One run of ranks. */
struct fault_result {
	int nranks; /* 0: not a matter of ranks */
	bool one_core;
	const char *injected; /* as in BELAY_FAULT, or words; "" when the test's name says it */
	const char *outcome;  /* the verdict's cause, "rescued", "complete", a status */
	uint64_t ns; /* until the last survivor knew, or the rescued call ended; 0: neither */
};

bool fault_results_wanted(void);
void fault_results_begin(const char *test, const char *shows);
void fault_results_add(const struct fault_result *result);
void fault_results_end(void);

#endif /* BELAY_TESTS_FAULT_RESULTS_H */
