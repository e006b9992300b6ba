/* SPDX-License-Identifier: Apache-2.0 */
/* main() of every Check program: runs suite() and reports in TAP. Include last. */
#ifndef BELAY_TESTS_CHECK_MAIN_H
#define BELAY_TESTS_CHECK_MAIN_H

#include <check.h>
#include <stdlib.h>

static Suite *suite(void);

int main(void)
{
	SRunner *runner = srunner_create(suite());

	if (!getenv("CK_TAP_LOG_FILE_NAME"))
		srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	/* Under automake the TAP lines tell; by hand the status does. */
	return failed && !getenv("AM_TAP_AWK") ? 1 : 0;
}

#endif /* BELAY_TESTS_CHECK_MAIN_H */
