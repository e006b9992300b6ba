/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who knocks at a meeting without belonging to it: other users, other secrets, other versions,
 * garbage, silence, floods. The meeting of the true members goes on, except when one who knows the
 * secret does not fit: then it fails on all.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/group/meeting.h"
#include "runtime/group/packet.h"
#include "tests/support/fault_results.h"
#include "tests/support/meeting_ranks.h"

#define FLOOD		 200
#define FLOOD_KEPT	 64
#define DESCRIPTORS_MOST 253 /* SCM_MAX_FD */
#define PLACES_MOST	 18  /* the lobby's places, and one being judged or made room for */
#define WAIT_NS		 UINT64_C(20000000000)

/* A meeting of two whose rank 0 is there already; rank 1 comes by finish(). */
struct scene {
	struct rank_plan plans[2];
	struct rank_report *reports;
	pid_t host;
};

static int try_connect(const char *meeting)
{
	struct sockaddr_un address;
	socklen_t length = meeting_address(meeting, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&address, length) == 0)
		return fd;
	close(fd);
	return -1;
}

static int knock(const char *meeting)
{
	uint64_t end_ns = clock_now_ns() + WAIT_NS;
	int fd;

	while ((fd = try_connect(meeting)) < 0 && clock_now_ns() < end_ns)
		packet_pause(1000000, end_ns);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static void begin(struct scene *scene)
{
	scene->reports = reports_new(2);
	scene->plans[0] = rank_plan(0, 2);
	scene->plans[1] = rank_plan(1, 2);
	scene->host = rank_start(&scene->plans[0], &scene->reports[0]);
	close(knock(scene->plans[0].meeting)); /* it listens now */
}

static void finish(struct scene *scene)
{
	(void)rank_wait(rank_start(&scene->plans[1], &scene->reports[1]));
	(void)rank_wait(scene->host);
}

static void assert_met(const struct scene *scene)
{
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(scene->reports[i].done, 1);
		ck_assert_msg(scene->reports[i].status == 0, "rank %d: %s", i,
			      scene->reports[i].causes);
		ck_assert_int_eq(scene->reports[i].links_tried, 1);
		ck_assert_int_eq(scene->reports[i].leaked, 0);
	}
}

/* The message that a true rank 1 would open with. */
static void compose_hello(const struct scene *scene, struct handshake_message *ret_hello)
{
	handshake_init(ret_hello, HANDSHAKE_HELLO);
	ret_hello->rank = 1;
	ret_hello->nranks = 2;
	ret_hello->pid = 4711;
	ret_hello->control_bytes = 65536;
	ret_hello->region_bytes = scene->plans[0].region_bytes;
	memcpy(ret_hello->secret, scene->plans[0].secret, 16);
	handshake_set_text(ret_hello, scene->plans[0].agree_text);
}

/* Waits for the answer: 0 with the packet, or packet_receive()'s error. */
static int hear(int fd, struct packet *ret_packet)
{
	struct pollfd poll = {.fd = fd, .events = POLLIN};

	ck_assert_int_eq(packet_poll(&poll, 1, clock_now_ns() + WAIT_NS), 1);
	return packet_receive(fd, ret_packet);
}

FAULT_TEST(garbage_with_descriptors_is_dropped, "35")
{
	struct scene scene;
	struct packet packet;
	struct handshake_message hello;
	uint8_t bytes[HANDSHAKE_BYTES_MAX];
	int pipes[2], fds[8], fd;

	begin(&scene);
	ck_assert_int_eq(pipe(pipes), 0);
	for (int i = 0; i < 8; i++)
		fds[i] = pipes[i % 2];
	fd = knock(scene.plans[0].meeting);
	compose_hello(&scene, &hello);
	hello.secret[0] ^= 1;
	ck_assert_int_eq(packet_send(fd, &hello, fds, 8), 0);
	ck_assert_int_eq(hear(fd, &packet), 0);
	ck_assert_int_eq(packet.message.type, HANDSHAKE_FAIL);
	ck_assert_int_eq(packet.message.status, BELAY_E_REFUSED);
	close(fd);
	compose_hello(&scene, &hello);
	hello.type = 99; /* no such message */
	fd = knock(scene.plans[0].meeting);
	ck_assert_int_eq(packet_send(fd, &hello, fds, 8), 0);
	ck_assert_int_eq(hear(fd, &packet), -EPIPE);
	/* The host has closed its copies: only this process's write end is left. */
	close(pipes[1]);
	ck_assert_int_eq(read(pipes[0], bytes, 1), 0);
	close(fd);

	for (size_t n = 0; n < sizeof(bytes); n = n * 2 + 1) {
		memset(bytes, 0xa5, n);
		fd = knock(scene.plans[0].meeting);
		ck_assert_int_eq(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
		ck_assert_int_eq(hear(fd, &packet), -EPIPE);
		close(fd);
	}
	finish(&scene);
	assert_met(&scene);
}
END_TEST

/* Longer than any message, and with as many descriptors as the kernel lets through. */
START_TEST(a_packet_too_long_or_too_full_is_dropped_whole)
{
	static uint8_t bytes[150000];
	struct scene scene;
	struct packet packet;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(DESCRIPTORS_MOST * sizeof(int))];
	} control;
	struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	int pipes[2], fds[DESCRIPTORS_MOST], fd;
	char byte;

	begin(&scene);
	ck_assert_int_eq(pipe(pipes), 0);
	for (int i = 0; i < DESCRIPTORS_MOST; i++)
		fds[i] = pipes[1];
	memset(&control, 0, sizeof(control));
	header.msg_control = control.bytes;
	header.msg_controllen = sizeof(control.bytes);
	CMSG_FIRSTHDR(&header)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&header)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&header)->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), fds, sizeof(fds));
	for (size_t n = HANDSHAKE_BYTES_MAX + 1; n <= sizeof(bytes); n *= 4) {
		fd = knock(scene.plans[0].meeting);
		part.iov_len = n;
		ck_assert_int_eq(sendmsg(fd, &header, MSG_NOSIGNAL), (ssize_t)n);
		ck_assert_int_eq(hear(fd, &packet), -EPIPE);
		close(fd);
	}
	/* The host has kept none of the write ends. */
	close(pipes[1]);
	ck_assert_int_eq(read(pipes[0], &byte, 1), 0);
	close(pipes[0]);
	finish(&scene);
	assert_met(&scene);
}
END_TEST

/* Knocks again and again, and keeps as many connections as it may, until it is killed. */
static void flood(const struct sockaddr_un *address, socklen_t length, int as_nobody)
{
	int fds[FLOOD_KEPT];

	alarm(60);
	if (as_nobody && setuid(65534) != 0)
		_exit(1);
	for (int i = 0; i < FLOOD_KEPT; i++)
		fds[i] = -1;
	for (unsigned i = 0;; i = (i + 1) % FLOOD_KEPT) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)connect(fds[i], (const struct sockaddr *)address, length);
	}
}

static int open_descriptors_of(pid_t pid)
{
	char path[40];
	struct dirent *entry;
	int count = 0;
	DIR *folder;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)) != NULL)
		count += *entry->d_name != '.';
	if (folder)
		closedir(folder);
	return count;
}

/* The most descriptors that the process has in a while. */
static int most_descriptors_of(pid_t pid)
{
	int most = 0;

	for (int i = 0; i < 300; i++) {
		int now = open_descriptors_of(pid);

		most = now > most ? now : most;
		packet_pause(1000000, UINT64_MAX);
	}
	return most;
}

/* By the own user and, where that can be tried, by another one. */
START_TEST(a_flood_without_end_costs_few_descriptors_and_keeps_no_member_out)
{
	struct scene scene;
	struct sockaddr_un address;
	socklen_t length;
	int before, most;
	pid_t pid;

	if (_i == 1 && geteuid() != 0) {
		printf("# SKIP only root can become another user\n");
		return;
	}
	begin(&scene);
	before = open_descriptors_of(scene.host);
	length = meeting_address(scene.plans[0].meeting, &address);
	pid = fork();
	if (pid == 0)
		flood(&address, length, _i);
	most = most_descriptors_of(scene.host);
	finish(&scene);
	kill(pid, SIGKILL);
	(void)rank_wait(pid);
	assert_met(&scene);
	ck_assert_int_le(most, before + PLACES_MOST);
}
END_TEST

FAULT_TEST(a_flood_of_silent_connections_does_not_stop_the_meeting, "35")
{
	struct scene scene;
	int fds[FLOOD];

	begin(&scene);
	for (int i = 0; i < FLOOD; i++)
		fds[i] = knock(scene.plans[0].meeting);
	finish(&scene);
	for (int i = 0; i < FLOOD; i++)
		close(fds[i]);
	assert_met(&scene);
	ck_assert_uint_lt(scene.reports[1].elapsed_ms, 5000);
}
END_TEST

FAULT_TEST(a_silent_connection_is_closed_after_a_while, "35")
{
	struct scene scene;
	struct packet packet;
	int fd;

	begin(&scene);
	fd = knock(scene.plans[0].meeting);
	ck_assert_int_eq(hear(fd, &packet), -EPIPE);
	close(fd);
	finish(&scene);
	assert_met(&scene);
}
END_TEST

FAULT_TEST(a_rank_with_another_secret_is_refused_and_the_meeting_goes_on, "35")
{
	struct scene scene;
	struct rank_plan other;
	struct rank_report *report = reports_new(1);

	begin(&scene);
	other = scene.plans[1];
	other.secret[15] ^= 1;
	(void)rank_wait(rank_start(&other, report));
	ck_assert_int_eq(report->status, BELAY_E_REFUSED);
	ck_assert_ptr_nonnull(strstr(report->causes, "the unique ids differ"));
	ck_assert_int_eq(report->leaked, 0);
	finish(&scene);
	assert_met(&scene);
}
END_TEST

enum misfit { MISFIT_LIBRARY, MISFIT_PROTOCOL, MISFIT_RANK };

static const struct {
	enum misfit misfit;
	const char *text;
} misfits[] = {
	{MISFIT_LIBRARY,
	 "belay is version 0.1.0 (handshake 1) on rank 0 and version 0.2.3 (handshake 1) "
	 "on rank 1"},
	{MISFIT_PROTOCOL,
	 "belay is version 0.1.0 (handshake 1) on rank 0 and version 0.1.0 (handshake 9) "
	 "on rank 1"},
	{MISFIT_RANK, "rank 9 (pid 4711) joined a world of 2 ranks, 0 to 1"},
};

FAULT_TEST(a_member_of_another_kind_fails_the_meeting_with_both_values, "35")
{
	struct scene scene;
	struct handshake_message hello;
	struct packet packet;
	int fd;

	begin(&scene);
	compose_hello(&scene, &hello);
	switch (misfits[_i].misfit) {
	case MISFIT_LIBRARY:
		hello.library = 203;
		break;
	case MISFIT_PROTOCOL:
		hello.protocol = 9;
		break;
	case MISFIT_RANK:
		hello.rank = 9;
		break;
	}
	fd = knock(scene.plans[0].meeting);
	ck_assert_int_eq(packet_send(fd, &hello, NULL, 0), 0);
	ck_assert_int_eq(hear(fd, &packet), 0);
	ck_assert_int_eq(packet.message.status, BELAY_E_REFUSED);
	ck_assert_str_eq(packet.message.text, misfits[_i].text);
	(void)rank_wait(scene.host);
	close(fd);
	ck_assert_int_eq(scene.reports[0].status, BELAY_E_REFUSED);
	ck_assert_ptr_nonnull(strstr(scene.reports[0].causes, misfits[_i].text));
	ck_assert_int_eq(scene.reports[0].leaked, 0);
}
END_TEST

/* A member that breaks the order of the meeting ends it; it does not stall or corrupt it. */
FAULT_TEST(a_member_that_speaks_out_of_turn_ends_the_meeting, "35")
{
	struct scene scene;
	struct handshake_message hello;
	struct packet packet;
	int fd, own = (int)syscall(SYS_pidfd_open, getpid(), 0);

	begin(&scene);
	compose_hello(&scene, &hello);
	fd = knock(scene.plans[0].meeting);
	ck_assert_int_eq(packet_send(fd, &hello, &own, 1), 0);
	ck_assert_int_eq(hear(fd, &packet), 0);
	ck_assert_int_eq(packet.message.type, HANDSHAKE_SEATED);
	packet_discard(&packet);
	hello.type = _i == 0 ? HANDSHAKE_READY : HANDSHAKE_VOTE;
	hello.step = 77;
	ck_assert_int_eq(packet_send(fd, &hello, NULL, 0), 0);
	(void)rank_wait(scene.host);
	ck_assert_int_eq(scene.reports[0].status, BELAY_E_SYSTEM);
	ck_assert_int_eq(scene.reports[0].leaked, 0);
	close(fd);
	close(own);
}
END_TEST

/* Becomes another user and says the true words; 0 when it was shut out, 1 when it was heard. */
static int speak_as_nobody(const struct scene *scene, const struct sockaddr_un *address,
			   socklen_t length)
{
	struct handshake_message hello;
	struct packet packet;
	int fd, own = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (setuid(65534) != 0)
		return 2;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)address, length) != 0)
		return 3;
	compose_hello(scene, &hello);
	(void)packet_send(fd, &hello, &own, 1); /* it may be closed already */
	return hear(fd, &packet) != -EPIPE;
}

FAULT_TEST(another_user_is_shut_out_whatever_it_says, "35 F84")
{
	struct scene scene;
	struct sockaddr_un address;
	socklen_t length;
	pid_t pid;

	if (geteuid() != 0) {
		printf("# SKIP only root can become another user\n");
		return;
	}
	begin(&scene);
	length = meeting_address(scene.plans[0].meeting, &address);
	pid = fork();
	if (pid == 0)
		_exit(speak_as_nobody(&scene, &address, length));
	ck_assert_int_eq(WEXITSTATUS(rank_wait(pid)), 0);
	finish(&scene);
	assert_met(&scene);
}
END_TEST

/* Holds a meeting's name as another user until it is killed; says by the pipe that it does. */
static void hold_as_nobody(const struct sockaddr_un *address, socklen_t length, int say)
{
	int fd;

	alarm(30);
	if (setuid(65534) != 0)
		_exit(1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(fd, (const struct sockaddr *)address, length) == 0 && listen(fd, 8) == 0)
		(void)write(say, "1", 1);
	for (;;)
		pause();
}

FAULT_TEST(a_name_held_by_another_user_is_said_with_its_user, "35 F84")
{
	struct rank_plan plans[2] = {rank_plan(0, 2), rank_plan(1, 2)};
	struct rank_report *reports = reports_new(2);
	struct sockaddr_un address;
	socklen_t length;
	int pipes[2];
	char byte;
	pid_t pid;

	if (geteuid() != 0) {
		printf("# SKIP only root can become another user\n");
		return;
	}
	memcpy(plans[1].meeting, plans[0].meeting, sizeof(plans[0].meeting));
	length = meeting_address(plans[0].meeting, &address);
	ck_assert_int_eq(pipe(pipes), 0);
	pid = fork();
	if (pid == 0)
		hold_as_nobody(&address, length, pipes[1]);
	ck_assert_int_eq(read(pipes[0], &byte, 1), 1);
	for (int i = 0; i < 2; i++)
		plans[i].timeout_ms = 400;
	ranks_run(plans, reports, 2);
	kill(pid, SIGKILL);
	(void)rank_wait(pid);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(reports[i].status, BELAY_E_START_TIMEOUT);
		ck_assert_msg(strstr(reports[i].causes, "held by user 65534") != NULL, "%s",
			      reports[i].causes);
		ck_assert_int_eq(reports[i].leaked, 0);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("strangers");
	TCase *c = tcase_create("strangers");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, garbage_with_descriptors_is_dropped);
	tcase_add_test(c, a_packet_too_long_or_too_full_is_dropped_whole);
	tcase_add_test(c, a_flood_of_silent_connections_does_not_stop_the_meeting);
	tcase_add_loop_test(c, a_flood_without_end_costs_few_descriptors_and_keeps_no_member_out, 0,
			    2);
	tcase_add_test(c, a_silent_connection_is_closed_after_a_while);
	tcase_add_test(c, a_rank_with_another_secret_is_refused_and_the_meeting_goes_on);
	tcase_add_loop_test(c, a_member_of_another_kind_fails_the_meeting_with_both_values, 0,
			    (int)(sizeof(misfits) / sizeof(misfits[0])));
	tcase_add_loop_test(c, a_member_that_speaks_out_of_turn_ends_the_meeting, 0, 2);
	tcase_add_test(c, another_user_is_shut_out_whatever_it_says);
	tcase_add_test(c, a_name_held_by_another_user_is_said_with_its_user);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
