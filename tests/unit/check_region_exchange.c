/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of regions between ranks: each gets each other's, and no rank that fails, dies or
 * keeps silent lets another wait beyond its deadline. The ranks are threads; each offers a pipe of
 * its own. */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/cuda/region_exchange.h"

#define RANKS	 4
#define LONG_NS	 (20 * NS_PER_SECOND)
#define SHORT_NS (50 * NS_PER_MS)

struct rank {
	pthread_t thread;
	unsigned rank;
	int link[SYMM_RANKS_MAX];
	struct region_offer offer;
	int own_fd;
	bool silent; /* does nothing at all */
	uint64_t wait_ns;
	int status;
	int fd[SYMM_RANKS_MAX];
	char why[200];
};

static struct rank ranks[RANKS];

static void *take_part(void *data)
{
	struct rank *r = data;

	if (!r->silent)
		r->status =
			region_exchange(r->link, r->rank, RANKS, &r->offer,
					clock_now_ns() + r->wait_ns, r->fd, r->why, sizeof(r->why));
	return NULL;
}

/* A socket for each pair, and a pipe for each rank. */
static void prepare(void)
{
	memset(ranks, 0, sizeof(ranks));
	for (unsigned a = 0; a < RANKS; a++) {
		int pipe_fd[2];

		ck_assert_int_eq(pipe2(pipe_fd, O_CLOEXEC), 0);
		close(pipe_fd[1]);
		ranks[a].rank = a;
		ranks[a].own_fd = pipe_fd[0];
		ranks[a].offer = (struct region_offer){7, 4096, pipe_fd[0]};
		ranks[a].wait_ns = LONG_NS;
		ranks[a].link[a] = -1;
		for (unsigned r = 0; r < SYMM_RANKS_MAX; r++)
			ranks[a].fd[r] = 1000; /* must stay, or be replaced */
	}
	for (unsigned a = 0; a < RANKS; a++)
		for (unsigned b = a + 1; b < RANKS; b++) {
			int pair[2];

			ck_assert_int_eq(socketpair(AF_UNIX,
						    SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC,
						    0, pair),
					 0);
			ranks[a].link[b] = pair[0];
			ranks[b].link[a] = pair[1];
		}
}

static void run(void)
{
	for (unsigned r = 0; r < RANKS; r++)
		ck_assert_int_eq(pthread_create(&ranks[r].thread, NULL, take_part, &ranks[r]), 0);
	for (unsigned r = 0; r < RANKS; r++)
		ck_assert_int_eq(pthread_join(ranks[r].thread, NULL), 0);
}

static int open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	ck_assert_ptr_nonnull(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static ino_t inode(int fd)
{
	struct stat info;

	ck_assert_int_eq(fstat(fd, &info), 0);
	return info.st_ino;
}

START_TEST(every_rank_gets_every_other_ranks_descriptor)
{
	prepare();
	run();
	for (unsigned a = 0; a < RANKS; a++) {
		ck_assert_msg(ranks[a].status == 0, "rank %u: %s", a, ranks[a].why);
		ck_assert_int_eq(ranks[a].fd[a], -1);
		for (unsigned b = 0; b < RANKS; b++) {
			if (a == b)
				continue;
			ck_assert(inode(ranks[a].fd[b]) == inode(ranks[b].own_fd));
			ck_assert_int_eq(fcntl(ranks[a].fd[b], F_GETFD), FD_CLOEXEC);
		}
	}
}
END_TEST

/* All but rank 2 fail, say why, and leave outputs and descriptors as they were. */
static void expect_all_but_2_fail(int before, const char *why)
{
	for (unsigned r = 0; r < RANKS; r++) {
		if (r == 2)
			continue;
		ck_assert_int_eq(ranks[r].status, -1);
		ck_assert_msg(strstr(ranks[r].why, why), "rank %u: %s", r, ranks[r].why);
		ck_assert_int_eq(ranks[r].fd[0], 1000);
	}
	ck_assert_int_eq(open_descriptors(), before);
}

START_TEST(a_rank_without_a_region_tells_all_and_hears_all)
{
	int before;

	prepare();
	before = open_descriptors();
	ranks[2].offer.fd = -1;
	run();
	/* It heard the others, and its caller knows what it offered. */
	ck_assert_int_eq(ranks[2].status, 0);
	for (unsigned r = 0; r < RANKS; r++)
		if (r != 2)
			close(ranks[2].fd[r]);
	expect_all_but_2_fail(before, "region of rank 2: it has none to share");
}
END_TEST

START_TEST(a_rank_that_is_gone_ends_the_wait_at_once)
{
	uint64_t begin = clock_now_ns();
	int before;

	prepare();
	ranks[2].silent = true;
	for (unsigned r = 0; r < RANKS; r++)
		if (r != 2)
			close(ranks[2].link[r]);
	before = open_descriptors();
	run();
	expect_all_but_2_fail(before, "region of rank 2: ");
	ck_assert(clock_now_ns() - begin < LONG_NS / 2);
}
END_TEST

START_TEST(a_silent_rank_is_waited_for_until_the_deadline)
{
	int before;

	prepare();
	before = open_descriptors();
	ranks[2].silent = true;
	for (unsigned r = 0; r < RANKS; r++)
		ranks[r].wait_ns = SHORT_NS;
	run();
	/* What was sent to it stays in its sockets. */
	expect_all_but_2_fail(before, "region of rank 2: it did not answer in time");
}
END_TEST

START_TEST(another_meeting_or_size_is_refused)
{
	int before;

	prepare();
	before = open_descriptors();
	if (_i == 0)
		ranks[2].offer.meeting++;
	else
		ranks[2].offer.bytes *= 2;
	run();
	ck_assert_int_eq(ranks[2].status, -1);
	expect_all_but_2_fail(before, _i == 0 ? "region of rank 2: what it sent is no region"
					      : "region of rank 2: it has 8192 bytes, here 4096");
}
END_TEST

START_TEST(what_is_no_offer_is_refused)
{
	int before;

	prepare();
	before = open_descriptors();
	ranks[2].silent = true;
	for (unsigned r = 0; r < RANKS; r++)
		if (r != 2)
			ck_assert_int_eq(send(ranks[2].link[r], "x", 1, 0), 1);
	run();
	expect_all_but_2_fail(before, "region of rank 2: what it sent is no region");
}
END_TEST

START_TEST(a_rank_alone_exchanges_nothing)
{
	struct region_offer offer = {7, 4096, -1};
	int link[SYMM_RANKS_MAX] = {-1}, fd[SYMM_RANKS_MAX] = {1000};
	char why[100] = "";

	ck_assert_int_eq(region_exchange(link, 0, 1, &offer, 0, fd, why, sizeof(why)), 0);
	ck_assert_int_eq(fd[0], -1);
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("region_exchange");
	TCase *tests = tcase_create("exchange");

	tcase_add_test(tests, every_rank_gets_every_other_ranks_descriptor);
	tcase_add_test(tests, a_rank_without_a_region_tells_all_and_hears_all);
	tcase_add_test(tests, a_rank_that_is_gone_ends_the_wait_at_once);
	tcase_add_test(tests, a_silent_rank_is_waited_for_until_the_deadline);
	tcase_add_loop_test(tests, another_meeting_or_size_is_refused, 0, 2);
	tcase_add_test(tests, what_is_no_offer_is_refused);
	tcase_add_test(tests, a_rank_alone_exchanges_nothing);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "check_main.h"
