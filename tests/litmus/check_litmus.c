/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker on tests whose answers are known, and the ordering contracts of docs/memory-model.md:
 * each holds, and none of its orders could be weaker.
 *
 *   BELAY_LITMUS=1   tells, for each order of each contract, the execution that a weaker one lets
 * in
 */
#include <stdlib.h>
#include <string.h>

#include "tests/litmus/litmus.h"

#include <check.h>

#define TESTS_MAX 128

struct tests {
	struct litmus_test test[TESTS_MAX];
	int n;
};

/* Filled before the first test runs. */
static struct tests classics, contracts;

static int load(const char *name, struct tests *tests)
{
	const char *folder = getenv("top_srcdir");
	char path[4096];
	unsigned line = 0;
	FILE *file;
	int status = -1;

	snprintf(path, sizeof(path), "%s/tests/litmus/%s", folder ? folder : ".", name);
	file = fopen(path, "r");
	if (!file)
		goto out;
	do
		status = tests->n == TESTS_MAX ? -1
					       : litmus_read(file, &tests->test[tests->n], &line);
	while (status == 1 && ++tests->n);
	fclose(file);
out:
	if (status)
		fprintf(stderr, "check_litmus: %s cannot be read behind line %u\n", path, line);
	return status;
}

static bool tells(void)
{
	return getenv("BELAY_LITMUS") != NULL;
}

/* It holds; if not, the execution that shows it is told. */
static void check_holds(const struct litmus_test *test, const char *as)
{
	unsigned wanted = litmus_broken(test);
	struct litmus_execution execution;
	unsigned shown = litmus_explore(test, wanted, &execution);
	bool holds = litmus_holds(test, shown);

	if (!holds && (shown & wanted) == wanted)
		litmus_tell(test, &execution, stdout);
	ck_assert_msg(holds, "%s, %s: %s", test->contract, test->name, as);
}

START_TEST(a_known_test_has_its_known_answer)
{
	check_holds(&classics.test[_i], "the checker is wrong");
}
END_TEST

/* Or a slip in a test would be a test that always holds. */
static const char *const bad_texts[] = {
	"test t\ncontract C\n  p\n  store x 1 relaxd\nnever\n",	     /* no such order */
	"test t\ncontract C\n  p\n  store x 1 relaxed cta\nnever\n", /* ... scope */
	"test t\ncontract C\n  p\n  write x 1\nnever\n",	     /* ... verb */
	"test t\ncontract C\n  p\n  cas x 1 acquire\nnever\n",	     /* no new value */
	"test t\ncontract C\n  p\n  store x 1 | read x 1\nnever\n",  /* no such thread */
	"test t\ncontract C\n  p\n  store x 1\nnever ever\n",
	"test t\ncontract C\n  p\n  store x 1\n",
	"test t\n  p\n  store x 1\nnever\n",
	"contract C\n  p\n  store x 1\nnever\n",
};

START_TEST(a_test_that_is_not_understood_is_refused)
{
	char text[LITMUS_TEXT_BYTES];
	struct litmus_test test;
	unsigned line = 0;
	FILE *file;

	snprintf(text, sizeof(text), "%s", bad_texts[_i]);
	file = fmemopen(text, strlen(text), "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(litmus_read(file, &test, &line), -1);
	fclose(file);
}
END_TEST

START_TEST(a_contract_holds)
{
	check_holds(&contracts.test[_i], "with the orders of the code it does not hold");
}
END_TEST

START_TEST(no_order_of_a_contract_could_be_weaker)
{
	struct litmus_test enough, weaker;
	struct litmus_execution execution;
	unsigned wanted = litmus_broken(&contracts.test[_i]);
	char changed[LITMUS_TEXT_BYTES];

	if (!wanted)
		return;
	litmus_weaken_to_enough(&contracts.test[_i], &enough);
	check_holds(&enough, "the orders that are said to be enough are not");
	for (unsigned n = 0; litmus_weaken_one(&enough, n, &weaker, changed); n++) {
		unsigned shown = litmus_explore(&weaker, wanted, &execution);

		ck_assert_msg(shown & wanted, "%s, %s: it is enough to have %s", enough.contract,
			      enough.name, changed);
		if (tells()) {
			printf("# with %s:\n", changed);
			litmus_tell(&weaker, &execution, stdout);
		}
	}
}
END_TEST

/* As each can have its kinds only once. */
START_TEST(all_tests_have_names_of_their_own)
{
	for (int i = 0; i < contracts.n; i++)
		for (int j = 0; j < i; j++)
			if (strcmp(contracts.test[i].name, contracts.test[j].name) == 0)
				ck_abort_msg("two tests are called '%s'", contracts.test[i].name);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("litmus");
	TCase *checker = tcase_create("checker"), *code = tcase_create("contracts");

	if (load("classics.litmus", &classics) || load("contracts.litmus", &contracts) ||
	    load("device_contracts.litmus", &contracts))
		exit(1);
	tcase_add_loop_test(checker, a_known_test_has_its_known_answer, 0, classics.n);
	tcase_add_loop_test(checker, a_test_that_is_not_understood_is_refused, 0,
			    (int)(sizeof(bad_texts) / sizeof(bad_texts[0])));
	tcase_add_loop_test(code, a_contract_holds, 0, contracts.n);
	tcase_add_loop_test(code, no_order_of_a_contract_could_be_weaker, 0, contracts.n);
	tcase_add_test(code, all_tests_have_names_of_their_own);
	suite_add_tcase(s, checker);
	suite_add_tcase(s, code);
	return s;
}

#include "tests/unit/check_main.h"
