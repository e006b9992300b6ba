/* SPDX-License-Identifier: Apache-2.0 */
/* Fault injection: the text's grammar, when a fault is due, and the faults that act on the
 * process. */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/fault_injection.h"

static char heard[1024];

static void hear(void *user, enum belay_log_level level, const char *message)
{
	(void)user;
	(void)level;
	snprintf(heard, sizeof(heard), "%s", message);
}

/* Parses; ret_cause (may be NULL) gets what was said about it. */
static int parse(const char *text, struct faults *ret_faults, char *ret_cause, size_t size)
{
	struct cause_config config = {.log = hear, .level = BELAY_LOG_WARN, .rank = -1};
	struct cause_chain *causes = cause_chain_create(&config);
	int status = faults_parse(text, ret_faults, causes);

	if (ret_cause)
		cause_newest(causes, ret_cause, size);
	cause_chain_free(causes);
	return status;
}

static const struct {
	const char *text;
	struct fault fault;
} right[] = {
	{"rank=1,seq=500,kind=drop", {1, 500, 500, 1, FAULT_DROP, FAULT_AT_PUSH, 0}},
	{"kind=corrupt,rank=63,seq=5:9", {63, 5, 9, 1, FAULT_CORRUPT, FAULT_AT_PUSH, 0}},
	{"rank=*,seq=5:90:7,kind=flag", {-1, 5, 90, 7, FAULT_FLAG, FAULT_AT_STAGE, 0}},
	{"rank=0,seq=*,kind=delay:1.5,at=reduce",
	 {0, 0, UINT64_MAX, 1, FAULT_DELAY, FAULT_AT_REDUCE, 1500000}},
	{"rank=0,kind=kill,at=handshake", {0, 0, UINT64_MAX, 1, FAULT_KILL, FAULT_AT_HANDSHAKE, 0}},
	{"rank=2,seq=18446744073709551615,kind=stop:200",
	 {2, UINT64_MAX, UINT64_MAX, 1, FAULT_STOP, FAULT_AT_STAGE, 200000000}},
	{"rank=2,seq=1,kind=kill,at=wait", {2, 1, 1, 1, FAULT_KILL, FAULT_AT_WAIT, 0}},
	{"rank=2,seq=1,kind=kill,at=rescue", {2, 1, 1, 1, FAULT_KILL, FAULT_AT_RESCUE, 0}},
	{"rank=2,seq=1,kind=kill,at=verdict", {2, 1, 1, 1, FAULT_KILL, FAULT_AT_VERDICT, 0}},
	{"rank=2,seq=1,kind=kill,at=destroy", {2, 1, 1, 1, FAULT_KILL, FAULT_AT_DESTROY, 0}},
	{"rank=2,seq=1,kind=skip", {2, 1, 1, 1, FAULT_SKIP, FAULT_AT_STAGE, 0}},
	{"rank=2,seq=1,kind=extra", {2, 1, 1, 1, FAULT_EXTRA, FAULT_AT_STAGE, 0}},
	{"rank=2,seq=1,kind=swap", {2, 1, 1, 1, FAULT_SWAP, FAULT_AT_STAGE, 0}},
	{"rank=2,seq=1,kind=count", {2, 1, 1, 1, FAULT_COUNT, FAULT_AT_STAGE, 0}},
	{"rank=2,seq=1,kind=dtype", {2, 1, 1, 1, FAULT_DTYPE, FAULT_AT_STAGE, 0}},
	{"rank=2,seq=1,kind=op", {2, 1, 1, 1, FAULT_OP, FAULT_AT_STAGE, 0}},
	{"rank=2,kind=map-fail", {2, 0, UINT64_MAX, 1, FAULT_MAP_FAIL, FAULT_AT_HANDSHAKE, 0}},
	{"rank=2,kind=slow-push", {2, 0, UINT64_MAX, 1, FAULT_SLOW_PUSH, FAULT_AT_HANDSHAKE, 0}},
	{"rank=2,kind=selftest", {2, 0, UINT64_MAX, 1, FAULT_SELFTEST, FAULT_AT_HANDSHAKE, 0}},
	{"rank=2,seq=1,kind=starve:2000", {2, 1, 1, 1, FAULT_STARVE, FAULT_AT_STAGE, 2000000000}},
	{"rank=2,seq=1,kind=nccl-error", {2, 1, 1, 1, FAULT_NCCL_ERROR, FAULT_AT_STAGE, 0}},
	{"rank=2,seq=1,kind=nccl-hang", {2, 1, 1, 1, FAULT_NCCL_HANG, FAULT_AT_STAGE, 0}},
	{"rank=2,seq=1,kind=cuda-sticky", {2, 1, 1, 1, FAULT_CUDA_STICKY, FAULT_AT_STAGE, 0}},
};

START_TEST(a_right_text_is_understood)
{
	const struct fault *expected = &right[_i].fault;
	struct faults faults;
	const struct fault *fault = &faults.list[0];

	ck_assert_int_eq(parse(right[_i].text, &faults, NULL, 0), 0);
	ck_assert_uint_eq(faults.count, 1);
	ck_assert(faults_armed(&faults));
	ck_assert_int_eq(fault->rank, expected->rank);
	ck_assert_uint_eq(fault->first, expected->first);
	ck_assert_uint_eq(fault->last, expected->last);
	ck_assert_uint_eq(fault->step, expected->step);
	ck_assert_str_eq(fault_kind_name(fault->kind), fault_kind_name(expected->kind));
	ck_assert_str_eq(fault_point_name(fault->at), fault_point_name(expected->at));
	ck_assert_uint_eq(fault->ns, expected->ns);
}
END_TEST

static const struct {
	const char *text;
	const char *bad;      /* the part that is named */
	const char *expected; /* a part of what was expected */
} wrong[] = {
	{"rank=1,seq=500", "'rank=1,seq=500'", "at least rank= and kind="},
	{"seq=500,kind=drop", "'seq=500,kind=drop'", "at least rank= and kind="},
	{"drop", "'drop'", "rank=, seq=, kind= or at="},
	{"rank=1,sek=5,kind=drop", "'sek=5'", "rank=, seq=, kind= or at="},
	{"rank=64,kind=drop", "'rank=64'", "N from 0 to 63"},
	{"rank=-1,kind=drop", "'rank=-1'", "N from 0 to 63"},
	{"rank=,kind=drop", "'rank='", "N from 0 to 63"},
	{"rank=1,seq=,kind=drop", "'seq='", "seq=A:B:STEP"},
	{"rank=1,seq=9:5,kind=drop", "'seq=9:5'", "A at most B"},
	{"rank=1,seq=1:5:0,kind=drop", "'seq=1:5:0'", "STEP at least 1"},
	{"rank=1,seq=1:5:1:1,kind=drop", "'seq=1:5:1:1'", "seq=A:B:STEP"},
	{"rank=1,seq=1:,kind=drop", "'seq=1:'", "seq=A:B:STEP"},
	{"rank=1,seq=18446744073709551616,kind=drop", "'seq=18446744073709551616'", "seq=A"},
	{"rank=1,kind=dorp", "'kind=dorp'", "drop, delay:MS"},
	{"rank=1,kind=none", "'kind=none'", "drop, delay:MS"},
	{"rank=1,kind=delay", "'kind=delay'", "delay:MS"},
	{"rank=1,kind=delay:", "'kind=delay:'", "milliseconds"},
	{"rank=1,kind=delay:5ms", "'kind=delay:5ms'", "milliseconds"},
	{"rank=1,kind=delay:86400000.1", "'kind=delay:86400000.1'", "up to 86400000"},
	{"rank=1,kind=drop:5", "'kind=drop:5'", "drop, delay:MS"},
	{"rank=1,kind=kill,at=lunch", "'at=lunch'", "handshake, stage, push"},
	{"rank=1,kind=kill,at=", "'at='", "handshake, stage, push"},
	{"rank=1,rank=2,kind=kill", "'rank=2'", "only once"},
	{"rank=1, kind=kill", "' kind=kill'", "separated by commas"},
	{"rank=1,kind=kill,", "''", "separated by commas"},
	{"rank=1,kind=kill;", "''", "faults by ';'"},
	{";", "''", "faults by ';'"},
};

START_TEST(a_wrong_text_is_named_with_what_was_expected)
{
	struct faults faults, untouched;
	char cause[512];

	memset(&faults, 0x5a, sizeof(faults));
	untouched = faults;
	ck_assert_msg(parse(wrong[_i].text, &faults, cause, sizeof(cause)) == BELAY_E_SETTING, "%s",
		      wrong[_i].text);
	ck_assert_mem_eq(&faults, &untouched, sizeof(faults));
	ck_assert_msg(strncmp(cause, "BELAY_FAULT: ", 13) == 0, "%s", cause);
	ck_assert_msg(strncmp(cause + 13, wrong[_i].bad, strlen(wrong[_i].bad)) == 0, "%s", cause);
	ck_assert_msg(strstr(cause, wrong[_i].expected) != NULL, "%s", cause);
}
END_TEST

START_TEST(no_text_arms_nothing)
{
	struct faults faults;

	ck_assert_int_eq(parse("", &faults, NULL, 0), 0);
	ck_assert(!faults_armed(&faults));
}
END_TEST

START_TEST(sixteen_faults_are_the_most)
{
	char text[1024] = "rank=1,kind=drop";
	struct faults faults;

	for (int i = 1; i < FAULTS_MAX; i++)
		strcat(text, ";rank=2,kind=drop");
	ck_assert_int_eq(parse(text, &faults, NULL, 0), 0);
	ck_assert_uint_eq(faults.count, FAULTS_MAX);
	strcat(text, ";rank=2,kind=drop");
	ck_assert_int_eq(parse(text, &faults, NULL, 0), BELAY_E_SETTING);
}
END_TEST

START_TEST(a_kind_that_no_path_shows_is_warned_about)
{
	struct faults faults;

	heard[0] = '\0';
	ck_assert_int_eq(parse("rank=1,kind=drop", &faults, NULL, 0), 0);
	ck_assert_str_eq(heard, "");
	ck_assert_int_eq(parse("rank=1,kind=cuda-sticky", &faults, NULL, 0), 0);
#ifdef HAVE_CUDA
	ck_assert_str_eq(heard, "");
#else
	ck_assert_ptr_nonnull(strstr(heard, "kind=cuda-sticky has no effect"));
#endif
	heard[0] = '\0';
	ck_assert_int_eq(parse("rank=1,kind=nccl-hang", &faults, NULL, 0), 0);
#ifdef HAVE_NCCL
	ck_assert_str_eq(heard, "");
#else
	ck_assert_ptr_nonnull(strstr(heard, "kind=nccl-hang has no effect"));
#endif
}
END_TEST

START_TEST(a_fault_is_due_at_its_rank_seq_and_point_only)
{
	struct faults faults;
	uint64_t ns = 0;

	ck_assert_int_eq(parse("rank=1,seq=10:30:10,kind=drop;rank=*,seq=7,kind=starve:2;rank=1,"
			       "seq=*,kind=delay:1",
			       &faults, NULL, 0),
			 0);
	for (uint64_t seq = 1; seq <= 50; seq++)
		ck_assert_int_eq(fault_due(&faults, 1, seq, FAULT_AT_PUSH, &ns),
				 seq == 10 || seq == 20 || seq == 30 ? FAULT_DROP : FAULT_NONE);
	ck_assert_int_eq(fault_due(&faults, 0, 10, FAULT_AT_PUSH, &ns), FAULT_NONE);
	ck_assert_int_eq(fault_due(&faults, 1, 10, FAULT_AT_STAGE, &ns), FAULT_NONE);
	ck_assert_int_eq(fault_due(&faults, 5, 7, FAULT_AT_STAGE, &ns), FAULT_STARVE);
	ck_assert_uint_eq(ns, 2000000);
	ck_assert_int_eq(fault_due(&faults, 5, 7, FAULT_AT_STAGE, NULL), FAULT_STARVE);
}
END_TEST

START_TEST(what_is_carried_out_is_counted_and_nothing_else)
{
	const uint32_t mask = FAULT_BIT(FAULT_DROP) | FAULT_BIT(FAULT_STARVE);
	struct faults faults;
	uint64_t ns = 0;

	ck_assert_int_eq(parse("rank=0,seq=3,kind=drop;rank=0,seq=4,kind=starve:5,at=push;"
			       "rank=0,seq=5,kind=delay:0.001;rank=0,seq=6,kind=drop",
			       &faults, NULL, 0),
			 0);
	ck_assert_int_eq(fault_due(&faults, 0, 3, FAULT_AT_PUSH, NULL), FAULT_DROP);
	ck_assert_int_eq(fault_take(&faults, 0, 3, FAULT_AT_PUSH, FAULT_BIT(FAULT_FLAG), NULL),
			 FAULT_NONE);
	ck_assert_int_eq(fault_take(&faults, 1, 3, FAULT_AT_PUSH, mask, NULL), FAULT_NONE);
	ck_assert_uint_eq(faults_done(&faults), 0);
	ck_assert_int_eq(fault_take(&faults, 0, 4, FAULT_AT_PUSH, mask, &ns), FAULT_STARVE);
	ck_assert_uint_eq(ns, 5000000);
	ck_assert_uint_eq(faults_done(&faults), 2);
	fault_act(&faults, 0, 3, FAULT_AT_PUSH);
	fault_act(&faults, 0, 5, FAULT_AT_STAGE);
	ck_assert_uint_eq(faults_done(&faults), 2 | 4);
	ck_assert_int_eq(fault_take(&faults, 0, 3, FAULT_AT_PUSH, mask, NULL), FAULT_DROP);
	ck_assert_uint_eq(faults_done(&faults), 1 | 2 | 4);
}
END_TEST

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds that one fault takes at (rank 1, seq 5, stage). */
static uint64_t time_act(const char *text)
{
	struct faults faults;
	uint64_t begin_ns;

	ck_assert_int_eq(parse(text, &faults, NULL, 0), 0);
	begin_ns = now_ns();
	fault_act(&faults, 1, 5, FAULT_AT_STAGE);
	return now_ns() - begin_ns;
}

START_TEST(a_delay_lasts_at_least_its_time)
{
	ck_assert_uint_ge(time_act("rank=1,seq=5,kind=delay:0.05"), 50000);
	ck_assert_uint_ge(time_act("rank=1,seq=5,kind=delay:3"), 3000000);
	ck_assert_uint_lt(time_act("rank=1,seq=6,kind=delay:60000"), 30000000000);
}
END_TEST

/* Runs a fault in a child; returns how waitid() with `options` describes it, and the child to
 * reap. */
static pid_t act_in_child(const char *text, int options, siginfo_t *ret_info)
{
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		(void)time_act(text);
		_exit(wait(NULL) < 0 && errno == ECHILD ? 0
							: 9); /* 9: something was left to reap */
	}
	while (waitid(P_PID, (id_t)child, ret_info, options) < 0)
		ck_assert_int_eq(errno, EINTR);
	return child;
}

START_TEST(a_kill_ends_the_process)
{
	siginfo_t info;

	act_in_child("rank=1,seq=5,kind=kill", WEXITED, &info);
	ck_assert_int_eq(info.si_code, CLD_KILLED);
	ck_assert_int_eq(info.si_status, SIGKILL);
}
END_TEST

/* However short: a SIGCONT that came before its SIGSTOP would leave the process stopped. */
START_TEST(a_stopped_process_goes_on_and_has_no_child_to_reap)
{
	static const char *const texts[] = {"rank=1,seq=5,kind=stop:20",
					    "rank=1,seq=5,kind=stop:0.001"};
	siginfo_t info;

	act_in_child(texts[_i], WEXITED, &info);
	ck_assert_int_eq(info.si_code, CLD_EXITED);
	ck_assert_int_eq(info.si_status, 0);
}
END_TEST

START_TEST(a_stop_lasts_at_least_its_time)
{
	ck_assert_uint_ge(time_act("rank=1,seq=5,kind=stop:20"), 20000000);
}
END_TEST

START_TEST(a_process_killed_while_stopped_leaves_nobody_behind)
{
	siginfo_t info;
	int ends[2];
	char byte;
	pid_t child;

	/* The helper would live for an hour and hold what it inherited; end of file says that all
	 * are gone. */
	ck_assert_int_eq(pipe(ends), 0);
	child = act_in_child("rank=1,seq=5,kind=stop:3600000", WSTOPPED, &info);
	kill(child, SIGKILL);
	close(ends[1]);
	ck_assert_int_eq((int)read(ends[0], &byte, 1), 0);
	close(ends[0]);
	ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED), 0);
	ck_assert_int_eq(info.si_code, CLD_KILLED);
}
END_TEST

START_TEST(a_fault_of_a_rank_that_there_is_not_is_refused)
{
	struct faults faults;

	ck_assert_int_eq(
		faults_parse("rank=1,seq=5,kind=drop;rank=*,seq=6,kind=drop", &faults, NULL), 0);
	ck_assert_int_eq(faults_check_ranks(&faults, 2, NULL), 0);
	ck_assert_int_eq(faults_check_ranks(&faults, 1, NULL), BELAY_E_SETTING);
}
END_TEST

START_TEST(every_kind_and_point_has_a_name)
{
	for (int kind = FAULT_NONE; kind <= FAULT_SLOW_PUSH; kind++)
		ck_assert_str_ne(fault_kind_name((enum fault_kind)kind), "unknown");
	for (int at = FAULT_AT_HANDSHAKE; at <= FAULT_AT_DESTROY; at++)
		ck_assert_str_ne(fault_point_name((enum fault_point)at), "unknown");
	ck_assert_str_eq(fault_kind_name((enum fault_kind)(FAULT_SLOW_PUSH + 1)), "unknown");
	ck_assert_str_eq(fault_point_name((enum fault_point)0), "unknown");
}
END_TEST

#define ROWS(table) (int)(sizeof(table) / sizeof((table)[0]))

static Suite *suite(void)
{
	Suite *s = suite_create("fault_injection");
	TCase *c = tcase_create("fault_injection");

	tcase_set_timeout(c, 20);
	tcase_add_loop_test(c, a_right_text_is_understood, 0, ROWS(right));
	tcase_add_loop_test(c, a_wrong_text_is_named_with_what_was_expected, 0, ROWS(wrong));
	tcase_add_test(c, no_text_arms_nothing);
	tcase_add_test(c, sixteen_faults_are_the_most);
	tcase_add_test(c, a_kind_that_no_path_shows_is_warned_about);
	tcase_add_test(c, a_fault_is_due_at_its_rank_seq_and_point_only);
	tcase_add_test(c, what_is_carried_out_is_counted_and_nothing_else);
	tcase_add_test(c, a_delay_lasts_at_least_its_time);
	tcase_add_test(c, a_kill_ends_the_process);
	tcase_add_loop_test(c, a_stopped_process_goes_on_and_has_no_child_to_reap, 0, 2);
	tcase_add_test(c, a_stop_lasts_at_least_its_time);
	tcase_add_test(c, a_process_killed_while_stopped_leaves_nobody_behind);
	tcase_add_test(c, a_fault_of_a_rank_that_there_is_not_is_refused);
	tcase_add_test(c, every_kind_and_point_has_a_name);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
