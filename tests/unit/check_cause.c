/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of causes and the messages: form, bounds, levels, keys, threads. */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cause.h"

static struct {
	unsigned count;
	enum belay_log_level level;
	char text[8192];
} heard;

static void hear(void *user, enum belay_log_level level, const char *message)
{
	ck_assert_ptr_eq(user, &heard);
	heard.count++;
	heard.level = level;
	snprintf(heard.text, sizeof(heard.text), "%s", message);
}

static struct cause_chain *make(enum belay_log_level level)
{
	struct cause_config config = {.log = hear, .log_user = &heard, .level = level, .rank = 3};
	struct cause_chain *chain = cause_chain_create(&config);

	ck_assert_ptr_nonnull(chain);
	memset(&heard, 0, sizeof(heard));
	return chain;
}

static const struct {
	const char *call;
	int code;
	int rank;
	uint64_t seq;
	const char *text;
} forms[] = {
	{NULL, 0, -1, 0, "could not"},
	{NULL, 7, -1, 0, "could not (7)"},
	{"mmap", 0, -1, 0, "could not: mmap"},
	{"mmap", ENOMEM, -1, 0, "could not: mmap: Cannot allocate memory (12)"},
	{"mmap", ENOMEM, 0, 0, "could not: mmap: Cannot allocate memory (12) [rank 0]"},
	{NULL, 0, 2, 500, "could not [rank 2, seq 500]"},
	{NULL, 0, -1, UINT64_MAX, "could not [seq 18446744073709551615]"},
};

START_TEST(a_cause_names_call_code_rank_and_seq)
{
	struct cause_chain *chain = make(BELAY_LOG_WARN);
	char text[200];

	cause_add(chain, forms[_i].call, forms[_i].code, forms[_i].rank, forms[_i].seq, "could %s",
		  "not");
	cause_newest(chain, text, sizeof(text));
	ck_assert_str_eq(text, forms[_i].text);
	ck_assert_uint_eq(heard.count, 0);
	cause_chain_free(chain);
}
END_TEST

START_TEST(only_the_newest_causes_are_kept_and_the_others_counted)
{
	struct cause_chain *chain = make(BELAY_LOG_WARN);
	char text[4096];

	for (int i = 1; i <= 76; i++)
		cause_add(chain, NULL, 0, -1, 0, "cause %d", i);
	ck_assert_uint_lt(cause_text(chain, text, sizeof(text)), sizeof(text));
	ck_assert_ptr_eq(strstr(text, "... 12 earlier causes\ncause 13\n"), text);
	ck_assert_ptr_nonnull(strstr(text, "\ncause 76"));
	ck_assert_ptr_null(strstr(text, "cause 12\n"));
	cause_chain_free(chain);
}
END_TEST

START_TEST(text_is_cut_at_the_buffer_and_its_need_is_told)
{
	struct cause_chain *chain = make(BELAY_LOG_WARN);
	char text[6] = "#####";

	cause_add(chain, NULL, 0, -1, 0, "abc");
	cause_add(chain, NULL, 0, -1, 0, "def");
	ck_assert_uint_eq(cause_text(chain, NULL, 0), 8);
	ck_assert_uint_eq(cause_text(chain, text, 5), 8);
	ck_assert_mem_eq(text, "abc\n\0", 6);
	cause_chain_free(chain);
}
END_TEST

START_TEST(an_empty_chain_and_no_chain_have_empty_texts)
{
	struct cause_chain *chain = make(BELAY_LOG_WARN);
	char text[4] = "#";

	ck_assert_uint_eq(cause_text(chain, text, sizeof(text)), 1);
	ck_assert_str_eq(text, "");
	strcpy(text, "#");
	cause_newest(chain, text, sizeof(text));
	ck_assert_str_eq(text, "");
	cause_flush(chain, BELAY_LOG_ERROR);
	ck_assert_uint_eq(heard.count, 0);
	cause_chain_free(chain);

	cause_add(NULL, NULL, 0, -1, 0, "nobody listens");
	cause_message(NULL, BELAY_LOG_ERROR, "key", "nobody listens");
	cause_flush(NULL, BELAY_LOG_ERROR);
	cause_chain_set_level(NULL, BELAY_LOG_INFO);
	ck_assert_uint_eq(cause_text(NULL, text, sizeof(text)), 1);
	cause_chain_free(NULL);
}
END_TEST

START_TEST(a_flush_sends_what_is_new_in_one_line)
{
	struct cause_chain *chain = make(BELAY_LOG_ERROR);

	cause_add(chain, NULL, 0, -1, 0, "one");
	cause_add(chain, NULL, 0, -1, 0, "two");
	cause_flush(chain, BELAY_LOG_ERROR);
	ck_assert_str_eq(heard.text, "one; two");
	ck_assert_int_eq(heard.level, BELAY_LOG_ERROR);
	cause_add(chain, NULL, 0, -1, 0, "three");
	cause_flush(chain, BELAY_LOG_ERROR);
	ck_assert_str_eq(heard.text, "three");
	cause_flush(chain, BELAY_LOG_ERROR);
	ck_assert_uint_eq(heard.count, 2);
	cause_add(chain, NULL, 0, -1, 0, "below the level");
	cause_flush(chain, BELAY_LOG_WARN);
	ck_assert_uint_eq(heard.count, 2);
	cause_chain_free(chain);
}
END_TEST

START_TEST(a_key_speaks_once_and_is_counted)
{
	struct cause_chain *chain = make(BELAY_LOG_WARN);

	for (int i = 0; i < 5; i++)
		cause_message(chain, BELAY_LOG_WARN, "full disk", "the disk is full (%d)", i);
	ck_assert_uint_eq(heard.count, 1);
	ck_assert_str_eq(heard.text, "the disk is full (0)");
	ck_assert_uint_eq(cause_message_count(chain, "full disk"), 5);
	ck_assert_uint_eq(cause_message_count(chain, "other"), 0);
	cause_message(chain, BELAY_LOG_ERROR, "other", "other");
	cause_message(chain, BELAY_LOG_ERROR, NULL, "without a key");
	cause_message(chain, BELAY_LOG_ERROR, NULL, "without a key");
	ck_assert_uint_eq(heard.count, 4);
	cause_chain_free(chain);
}
END_TEST

START_TEST(a_level_lets_through_what_is_as_severe)
{
	struct cause_chain *chain = make((enum belay_log_level)_i);

	for (int level = BELAY_LOG_OFF; level <= BELAY_LOG_INFO; level++)
		cause_message(chain, (enum belay_log_level)level, NULL, "level %d", level);
	ck_assert_uint_eq(heard.count, (unsigned)_i);
	/* What was not let through does not use up its key. */
	cause_message(chain, BELAY_LOG_INFO, "key", "now");
	cause_chain_set_level(chain, BELAY_LOG_INFO);
	heard.count = 0;
	cause_message(chain, BELAY_LOG_INFO, "key", "now");
	ck_assert_uint_eq(heard.count, _i == BELAY_LOG_INFO ? 0 : 1);
	cause_chain_free(chain);
}
END_TEST

START_TEST(long_and_unprintable_text_stays_one_bounded_line)
{
	struct cause_chain *chain = make(BELAY_LOG_WARN);
	char text[8192];

	cause_message(chain, BELAY_LOG_WARN, NULL, "a\nbelay: error: forged\x1b[2J%5000d", 1);
	ck_assert_uint_lt(strlen(heard.text), 4096);
	ck_assert_ptr_eq(strstr(heard.text, "a?belay: error: forged?[2J"), heard.text);
	ck_assert_str_eq(heard.text + strlen(heard.text) - 3, "...");
	cause_add(chain, NULL, 0, 1, 2, "b\n%5000d", 1);
	cause_newest(chain, text, sizeof(text));
	ck_assert_uint_lt(strlen(text), 512);
	ck_assert_ptr_null(strchr(text, '\n'));
	cause_chain_free(chain);
}
END_TEST

/* Runs with stderr on a pipe; returns what was written. */
static void capture(const struct cause_config *config, char *buffer, size_t size)
{
	struct cause_chain *chain = cause_chain_create(config);
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t length;

	ck_assert_int_eq(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	cause_message(chain, BELAY_LOG_WARN, NULL, "rank 1 is late");
	dup2(saved, STDERR_FILENO);
	close(saved);
	length = read(ends[0], buffer, size - 1);
	buffer[length > 0 ? length : 0] = '\0';
	close(ends[0]);
	cause_chain_free(chain);
}

START_TEST(without_a_function_messages_go_to_stderr)
{
	struct cause_config config = {.level = BELAY_LOG_WARN, .rank = 2};
	char text[200];

	capture(&config, text, sizeof(text));
	ck_assert_str_eq(text, "belay: [rank 2] warn: rank 1 is late\n");
	config.rank = -1;
	capture(&config, text, sizeof(text));
	ck_assert_str_eq(text, "belay: warn: rank 1 is late\n");
}
END_TEST

START_TEST(a_broken_stderr_does_not_harm_the_application)
{
	struct cause_config config = {.level = BELAY_LOG_WARN, .rank = 2};
	struct cause_chain *chain = cause_chain_create(&config);
	int ends[2], saved = dup(STDERR_FILENO);
	sigset_t pending, blocked;

	signal(SIGPIPE, SIG_DFL); /* the default: to die */
	ck_assert_int_eq(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
	errno = ENOENT;
	cause_message(chain, BELAY_LOG_WARN, NULL, "nobody reads this");
	int error = errno;
	dup2(saved, STDERR_FILENO);
	close(saved);

	ck_assert_int_eq(error, ENOENT);
	sigpending(&pending);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
	ck_assert_int_eq(sigismember(&blocked, SIGPIPE), 0);
	cause_chain_free(chain);
}
END_TEST

static void *read_last_error(void *unused)
{
	(void)unused;
	return belay_last_error()[0] ? (void *)belay_last_error() : NULL;
}

START_TEST(the_last_error_belongs_to_a_thread)
{
	struct cause_chain *chain = make(BELAY_LOG_WARN);
	pthread_t other;
	void *seen;

	ck_assert_str_eq(belay_last_error(), "");
	cause_add(chain, NULL, 0, -1, 0, "one");
	cause_add(chain, NULL, 0, -1, 0, "two");
	cause_keep_as_last_error(chain);
	cause_chain_free(chain);
	ck_assert_str_eq(belay_last_error(), "one\ntwo");
	ck_assert_int_eq(pthread_create(&other, NULL, read_last_error, NULL), 0);
	pthread_join(other, &seen);
	ck_assert_ptr_null(seen);
	cause_keep_as_last_error(NULL);
	ck_assert_str_eq(belay_last_error(), "");
}
END_TEST

#define THREADS 4
#define ADDS	500

static void *add_many(void *chain)
{
	char text[512];

	for (int i = 0; i < ADDS; i++) {
		cause_add(chain, "write", EPIPE, 1, 2, "from a thread");
		cause_newest(chain, text, sizeof(text));
		if (strcmp(text, "from a thread: write: Broken pipe (32) [rank 1, seq 2]") != 0)
			return chain;
		cause_message(chain, BELAY_LOG_OFF, "key", "never sent");
		(void)cause_text(chain, text, sizeof(text)); /* the read itself is the test */
	}
	return NULL;
}

START_TEST(threads_add_causes_at_once)
{
	struct cause_chain *chain = make(BELAY_LOG_WARN);
	pthread_t threads[THREADS];
	char text[512];
	void *torn;

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many, chain), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &torn);
		ck_assert_ptr_null(torn);
	}
	(void)cause_text(chain, text, sizeof(text)); /* cut: only its head counts */
	ck_assert_ptr_eq(strstr(text, "... 1936 earlier causes\n"), text);
	cause_chain_free(chain);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("cause");
	TCase *c = tcase_create("cause");

	tcase_add_loop_test(c, a_cause_names_call_code_rank_and_seq, 0,
			    (int)(sizeof(forms) / sizeof(forms[0])));
	tcase_add_test(c, only_the_newest_causes_are_kept_and_the_others_counted);
	tcase_add_test(c, text_is_cut_at_the_buffer_and_its_need_is_told);
	tcase_add_test(c, an_empty_chain_and_no_chain_have_empty_texts);
	tcase_add_test(c, a_flush_sends_what_is_new_in_one_line);
	tcase_add_test(c, a_key_speaks_once_and_is_counted);
	tcase_add_loop_test(c, a_level_lets_through_what_is_as_severe, BELAY_LOG_OFF,
			    BELAY_LOG_INFO + 1);
	tcase_add_test(c, long_and_unprintable_text_stays_one_bounded_line);
	tcase_add_test(c, without_a_function_messages_go_to_stderr);
	tcase_add_test(c, a_broken_stderr_does_not_harm_the_application);
	tcase_add_test(c, the_last_error_belongs_to_a_thread);
	tcase_add_test(c, threads_add_causes_at_once);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
