/* SPDX-License-Identifier: Apache-2.0 */
/* A line falls when its owner's process dies, and at no other time. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/group/life_line.h"

static struct life_line *line;
static int to_parent[2];

static void setup(void)
{
	line = mmap(NULL, sizeof(*line), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(line != MAP_FAILED);
	ck_assert_int_eq(pipe(to_parent), 0);
	life_line_init(line);
}

static void teardown(void)
{
	(void)munmap(line, sizeof(*line));
}

static void *hold_until_killed(void *unused)
{
	(void)unused;
	life_line_hold(line);
	(void)!write(to_parent[1], "h", 1);
	for (;;)
		pause();
	return NULL;
}

/* A process whose second thread holds the line; returns once it does. */
static pid_t holder(void)
{
	pid_t pid = fork();
	pthread_t thread;
	char byte;

	if (pid == 0) {
		(void)pthread_create(&thread, NULL, hold_until_killed, NULL);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(to_parent[0], &byte, 1), 1);
	return pid;
}

static void kill_and_reap(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(a_line_that_nobody_has_held_has_not_fallen)
{
	ck_assert(!life_line_has_fallen(line));
}
END_TEST

START_TEST(a_line_that_is_held_has_not_fallen)
{
	pid_t pid = holder();

	for (int i = 0; i < 1000; i++)
		ck_assert(!life_line_has_fallen(line));
	kill_and_reap(pid);
}
END_TEST

START_TEST(a_killed_owner_is_told_to_one_that_looks_and_once)
{
	pid_t pid = holder();

	kill_and_reap(pid);
	ck_assert(life_line_has_fallen(line));
	life_line_bury(line);
	ck_assert(!life_line_has_fallen(line));
}
END_TEST

START_TEST(an_owner_that_lets_go_and_ends_has_not_fallen)
{
	life_line_hold(line);
	life_line_let_go(line);
	ck_assert(!life_line_has_fallen(line));
}
END_TEST

START_TEST(a_forked_child_of_the_owner_ends_without_notice)
{
	pid_t pid;

	life_line_hold(line);
	pid = fork();
	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert(!life_line_has_fallen(line));
	life_line_let_go(line);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("life_line");
	TCase *c = tcase_create("owners");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_line_that_nobody_has_held_has_not_fallen);
	tcase_add_test(c, a_line_that_is_held_has_not_fallen);
	tcase_add_test(c, a_killed_owner_is_told_to_one_that_looks_and_once);
	tcase_add_test(c, an_owner_that_lets_go_and_ends_has_not_fallen);
	tcase_add_test(c, a_forked_child_of_the_owner_ends_without_notice);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
