/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: precedence, every bad value, older and newer configs, what must agree. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/settings.h"

extern char **environ;

static struct cause_chain *causes;
static char heard[4096]; /* all messages, a line each */

static void hear(void *user, enum belay_log_level level, const char *message)
{
	size_t used = strlen(heard);

	(void)user;
	(void)level;
	snprintf(heard + used, sizeof(heard) - used, "%s\n", message);
}

static void set_up(void)
{
	struct cause_config config = {.log = hear, .level = BELAY_LOG_WARN, .rank = -1};

	for (int i = 0; i < SETTINGS_COUNT; i++)
		unsetenv(setting_name((enum setting_index)i));
	causes = cause_chain_create(&config);
	heard[0] = '\0';
}

static void tear_down(void)
{
	cause_chain_free(causes);
}

/* The text field of a setting in a config. */
static const char **config_text(struct belay_config *config, enum setting_index index)
{
	switch (index) {
#define BELAY_SETTING(field, name, type, default_, min, max, agree, text)                          \
	case SETTING_##field:                                                                      \
		return &config->field;
#include "runtime/settings.def"
#undef BELAY_SETTING
	case SETTINGS_COUNT:
		break;
	}
	return NULL;
}

START_TEST(every_default_is_a_right_value)
{
	struct settings s;

	ck_assert_int_eq(settings_load(NULL, &s, causes), 0);
	ck_assert_uint_eq(s.late_ns, 10000000);
	ck_assert_uint_eq(s.grace_ns, 2000000);
	ck_assert_uint_eq(s.give_up_ns, 30000000000);
	ck_assert_uint_eq(s.warmup_give_up_ns, 600000000000);
	ck_assert_uint_eq(s.start_ns, 120000000000);
	ck_assert_uint_eq(s.destroy_ns, 10000000000);
	ck_assert_uint_eq(s.heartbeat_ns, 100000000);
	ck_assert_uint_eq(s.probe_ns, 1000000000);
	ck_assert_uint_eq(s.symm_max_bytes, 2u << 20);
	ck_assert_uint_eq(s.buffer_max_bytes, 64u << 20);
	ck_assert_uint_eq(s.log_file_bytes, 256u << 20);
	ck_assert_uint_eq(s.log_files, 16);
	ck_assert_uint_eq(s.breaker_rescues, 3);
	ck_assert_uint_eq(s.breaker_window_ns, 10000000000);
	ck_assert_int_eq(s.log_level, BELAY_LOG_WARN);
	ck_assert_uint_eq(s.npaths, 4);
	ck_assert_mem_eq(s.paths, ((uint8_t[]){1, 2, 3, 4}), 4);
	for (int i = 0; i < SETTINGS_COUNT; i++) {
		ck_assert_str_eq(s.text[i], setting_default((enum setting_index)i));
		ck_assert_int_eq(s.origin[i], SETTING_DEFAULT);
	}
	ck_assert_str_eq(heard, "");
	settings_free(&s);
	settings_free(&s);
}
END_TEST

/* Settings with a value of their own, and what it is in struct settings: none may share a field. */
static const struct {
	enum setting_index index;
	const char *text;
	size_t offset;
	uint64_t value;
} numbers[] = {
	{SETTING_late_ms, "1.5", offsetof(struct settings, late_ns), 1500000},
	{SETTING_grace_ms, "0", offsetof(struct settings, grace_ns), 0},
	{SETTING_give_up_ms, "86400000", offsetof(struct settings, give_up_ns), 86400000000000},
	{SETTING_warmup_give_up_ms, "1", offsetof(struct settings, warmup_give_up_ns), 1000000},
	{SETTING_start_ms, "2", offsetof(struct settings, start_ns), 2000000},
	{SETTING_destroy_ms, "3", offsetof(struct settings, destroy_ns), 3000000},
	{SETTING_heartbeat_ms, "4", offsetof(struct settings, heartbeat_ns), 4000000},
	{SETTING_probe_ms, "5", offsetof(struct settings, probe_ns), 5000000},
	{SETTING_symm_max, "4096", offsetof(struct settings, symm_max_bytes), 4096},
	{SETTING_buffer_max, "16G", offsetof(struct settings, buffer_max_bytes),
	 UINT64_C(16) << 30},
};

START_TEST(each_number_goes_to_its_own_field)
{
	struct settings s, before;
	uint64_t value;

	ck_assert_int_eq(settings_load(NULL, &before, causes), 0);
	setenv(setting_name(numbers[_i].index), numbers[_i].text, 1);
	ck_assert_int_eq(settings_load(NULL, &s, causes), 0);
	memcpy(&value, (char *)&s + numbers[_i].offset, sizeof(value));
	ck_assert_uint_eq(value, numbers[_i].value);
	/* Nothing else has changed: put the old value back and compare all numbers. */
	memcpy((char *)&s + numbers[_i].offset, (char *)&before + numbers[_i].offset,
	       sizeof(value));
	ck_assert_mem_eq(&s, &before, offsetof(struct settings, npaths));
	settings_free(&s);
	settings_free(&before);
}
END_TEST

START_TEST(the_environment_wins_over_the_config_over_the_default)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	struct settings s;

	config.late_ms = "20";
	config.grace_ms = "30";
	setenv("BELAY_LATE_MS", "40", 1);
	ck_assert_int_eq(settings_load(&config, &s, causes), 0);
	ck_assert_uint_eq(s.late_ns, 40000000);
	ck_assert_int_eq(s.origin[SETTING_late_ms], SETTING_ENVIRONMENT);
	ck_assert_str_eq(s.text[SETTING_late_ms], "40");
	ck_assert_uint_eq(s.grace_ns, 30000000);
	ck_assert_int_eq(s.origin[SETTING_grace_ms], SETTING_CONFIG);
	ck_assert_int_eq(s.origin[SETTING_give_up_ms], SETTING_DEFAULT);
	ck_assert_str_eq(getenv("BELAY_LATE_MS"), "40");
	settings_free(&s);
}
END_TEST

START_TEST(every_setting_is_read_from_its_config_field)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	enum setting_index index = (enum setting_index)_i;
	char text[64];
	struct settings s;

	snprintf(text, sizeof(text), "%s", setting_default(index));
	*config_text(&config, index) = text;
	ck_assert_int_eq(settings_load(&config, &s, causes), 0);
	for (int i = 0; i < SETTINGS_COUNT; i++)
		ck_assert_int_eq(s.origin[i], i == _i ? SETTING_CONFIG : SETTING_DEFAULT);
	settings_free(&s);
}
END_TEST

static const struct {
	enum setting_index index;
	const char *text;
	int right;
} values[] = {
	{SETTING_late_ms, "0.01", 1},
	{SETTING_late_ms, "0.009999", 0},
	{SETTING_late_ms, "3600000", 1},
	{SETTING_late_ms, "3600000.000001", 0},
	{SETTING_late_ms, "5sec", 0},
	{SETTING_late_ms, "", 0},
	{SETTING_late_ms, "-1", 0},
	{SETTING_late_ms, "1e400", 0},
	{SETTING_late_ms, "10 ", 0},
	{SETTING_give_up_ms, "18446744073709551615", 0},
	{SETTING_give_up_ms, "99999999999999999999999999", 0},
	{SETTING_symm_max, "4095", 0},
	{SETTING_symm_max, "4K", 1},
	{SETTING_symm_max, "1G", 1},
	{SETTING_symm_max, "1048577K", 0},
	{SETTING_symm_max, "2MB", 0},
	{SETTING_symm_max, "17592186044416M", 0},
	{SETTING_log_level, "off", 1},
	{SETTING_log_level, "info", 1},
	{SETTING_log_level, "debug", 0},
	{SETTING_log_level, "2", 0},
	{SETTING_log_level, "", 0},
	{SETTING_paths, "host", 1},
	{SETTING_paths, "ring,host,nccl,symm", 1},
	{SETTING_paths, "", 0},
	{SETTING_paths, "host,", 0},
	{SETTING_paths, ",host", 0},
	{SETTING_paths, "host,,ring", 0},
	{SETTING_paths, "host, ring", 0},
	{SETTING_paths, "host,host", 0},
	{SETTING_paths, "symm,nccl,host,ring,symm", 0},
	{SETTING_paths, "hosts", 0},
	{SETTING_paths, "shm", 0},
	{SETTING_breaker, "1/0.5s", 1},
	{SETTING_breaker, "1000/86400s", 1},
	{SETTING_breaker, "0/10s", 0},
	{SETTING_breaker, "1001/10s", 0},
	{SETTING_breaker, "3/0s", 0},
	{SETTING_breaker, "3/86401s", 0},
	{SETTING_breaker, "3/10", 0},
	{SETTING_breaker, "3/s", 0},
	{SETTING_breaker, "/10s", 0},
	{SETTING_breaker, "3", 0},
	{SETTING_breaker, "s", 0},
	{SETTING_breaker, "", 0},
	{SETTING_breaker, "3/10s/", 0},
	{SETTING_log_keep, "64K,1", 1},
	{SETTING_log_keep, "1024G,1000000", 1},
	{SETTING_log_keep, "65535,1", 0},
	{SETTING_log_keep, "64K,0", 0},
	{SETTING_log_keep, "64K,1000001", 0},
	{SETTING_log_keep, "64K", 0},
	{SETTING_log_keep, "64K,", 0},
	{SETTING_log_keep, ",16", 0},
	{SETTING_log_keep, "64K,16,", 0},
	{SETTING_job, "", 1},
	{SETTING_job, "any text = at all", 1},
};

/* A refused value is named with its setting, where it came from and what was expected. */
static void assert_refused(enum setting_index index, const char *value, const char *origin)
{
	char text[600], expected[160], start[200];

	cause_newest(causes, text, sizeof(text));
	snprintf(start, sizeof(start), "%s='%s' (from the %s): expected %s", setting_name(index),
		 value, origin, setting_expected(index, expected, sizeof(expected)));
	ck_assert_str_eq(text, start);
}

START_TEST(every_bad_value_is_named)
{
	enum setting_index index = values[_i].index;
	struct belay_config config = BELAY_CONFIG_INIT;
	struct settings s, untouched;
	int status = values[_i].right ? 0 : BELAY_E_SETTING;

	memset(&s, 0x5a, sizeof(s));
	untouched = s;
	setenv(setting_name(index), values[_i].text, 1);
	ck_assert_msg(settings_load(NULL, &s, causes) == status, "%s='%s'", setting_name(index),
		      values[_i].text);
	if (values[_i].right) {
		settings_free(&s);
		return;
	}
	assert_refused(index, values[_i].text, "environment");
	ck_assert_mem_eq(&s, &untouched, sizeof(s));

	unsetenv(setting_name(index));
	*config_text(&config, index) = values[_i].text;
	ck_assert_int_eq(settings_load(&config, &s, causes), BELAY_E_SETTING);
	assert_refused(index, values[_i].text, "config");
}
END_TEST

START_TEST(a_text_has_a_longest_length)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	char job[202];
	struct settings s;

	memset(job, 'j', sizeof(job));
	job[201] = '\0';
	config.job = job;
	ck_assert_int_eq(settings_load(&config, &s, causes), BELAY_E_SETTING);
	job[200] = '\0';
	ck_assert_int_eq(settings_load(&config, &s, causes), 0);
	ck_assert_str_eq(s.text[SETTING_job], job);
	settings_free(&s);
}
END_TEST

START_TEST(a_long_bad_value_is_cut_in_the_message)
{
	char value[4000], text[600];
	struct settings s;

	memset(value, 'x', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	setenv("BELAY_LATE_MS", value, 1);
	ck_assert_int_eq(settings_load(NULL, &s, causes), BELAY_E_SETTING);
	cause_newest(causes, text, sizeof(text));
	ck_assert_ptr_nonnull(
		strstr(text, "xxx...' (from the environment): expected milliseconds"));
}
END_TEST

START_TEST(fields_that_an_older_program_does_not_know_are_not_given)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	struct settings s;

	config.late_ms = "20";
	config.grace_ms = "beyond the older program's struct";
	config.size = offsetof(struct belay_config, grace_ms);
	ck_assert_int_eq(settings_load(&config, &s, causes), 0);
	ck_assert_uint_eq(s.late_ns, 20000000);
	ck_assert_int_eq(s.origin[SETTING_grace_ms], SETTING_DEFAULT);
	settings_free(&s);

	/* A size in the middle of a field: that field is not given either. */
	config.size = offsetof(struct belay_config, late_ms) + 1;
	config.late_ms = NULL;
	ck_assert_int_eq(settings_load(&config, &s, causes), 0);
	settings_free(&s);
}
END_TEST

START_TEST(what_a_newer_program_asks_for_is_refused_and_zeros_are_not)
{
	struct {
		struct belay_config config;
		const char *later;
	} newer = {.config = {.size = sizeof(newer), .late_ms = "20"}};
	struct settings s;

	ck_assert_int_eq(settings_load(&newer.config, &s, causes), 0);
	ck_assert_uint_eq(s.late_ns, 20000000);
	settings_free(&s);
	newer.later = "on";
	ck_assert_int_eq(settings_load(&newer.config, &s, causes), BELAY_E_ARGUMENT);
}
END_TEST

START_TEST(a_config_without_its_initialiser_is_refused)
{
	struct belay_config config = {.late_ms = "20"};
	struct belay_config full = {.first_seq = 77};
	char text[300];

	ck_assert_int_eq(settings_read_config(&config, &full, causes), BELAY_E_ARGUMENT);
	ck_assert_uint_eq(full.first_seq, 77);
	cause_newest(causes, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "belay_config.size is 0: expected"));
	config.size = SIZE_MAX;
	ck_assert_int_eq(settings_read_config(&config, &full, causes), BELAY_E_ARGUMENT);
	ck_assert_int_eq(settings_read_config(NULL, &full, causes), 0);
	ck_assert_uint_eq(full.size, sizeof(full));
	ck_assert_uint_eq(full.first_seq, 0);
}
END_TEST

START_TEST(unknown_variables_are_reported_with_the_nearest_name)
{
	struct settings s;

	setenv("BELAY_LATEMS", "1", 1);
	setenv("BELAY_XYZZY", "1", 1);
	setenv("BELAY_TESTS_SOMETHING", "1", 1);
	setenv("BELAYED", "1", 1);
	ck_assert_int_eq(settings_load(NULL, &s, causes), 0);
	settings_free(&s);
	ck_assert_ptr_nonnull(
		strstr(heard, "BELAY_LATEMS in the environment is no setting of libbelay"));
	ck_assert_ptr_nonnull(strstr(heard, "(is BELAY_LATE_MS meant?)\n"));
	ck_assert_ptr_nonnull(strstr(heard, "BELAY_XYZZY in the environment is no setting"));
	ck_assert_ptr_null(strstr(heard, "BELAY_TESTS_SOMETHING"));
	ck_assert_ptr_null(strstr(heard, "BELAYED"));
	ck_assert_ptr_null(strchr(strchr(strchr(heard, '\n') + 1, '\n') + 1, '\n'));
}
END_TEST

START_TEST(the_level_is_known_before_the_first_warning)
{
	struct settings s;

	setenv("BELAY_LATEMS", "1", 1);
	setenv("BELAY_LOG", "error", 1);
	ck_assert_int_eq(settings_load(NULL, &s, causes), 0);
	settings_free(&s);
	ck_assert_str_eq(heard, "");
}
END_TEST

START_TEST(equal_values_agree_however_they_are_written)
{
	struct settings a, b;
	char x[2048], y[2048], difference[128] = "#";

	setenv("BELAY_LATE_MS", "10.0", 1);
	setenv("BELAY_SYMM_MAX", "2048K", 1);
	setenv("BELAY_BREAKER", "03/10.0s", 1);
	setenv("BELAY_LOG_DIR", "/somewhere/else", 1); /* need not agree */
	ck_assert_int_eq(settings_load(NULL, &a, causes), 0);
	clearenv();
	ck_assert_int_eq(settings_load(NULL, &b, causes), 0);
	ck_assert_int_eq(settings_agree_text(&a, x, sizeof(x)), 0);
	ck_assert_int_eq(settings_agree_text(&b, y, sizeof(y)), 0);
	ck_assert_str_eq(x, y);
	ck_assert_int_eq(settings_agree_compare(x, y, difference, sizeof(difference)), 1);
	ck_assert_str_eq(difference, "#");
	settings_free(&a);
	settings_free(&b);
}
END_TEST

START_TEST(a_difference_names_the_setting_and_both_values)
{
	struct settings a, b;
	char x[2048], y[2048], difference[128];

	ck_assert_int_eq(settings_load(NULL, &a, causes), 0);
	setenv("BELAY_PATHS", "host,ring", 1);
	ck_assert_int_eq(settings_load(NULL, &b, causes), 0);
	ck_assert_int_eq(settings_agree_text(&a, x, sizeof(x)), 0);
	ck_assert_int_eq(settings_agree_text(&b, y, sizeof(y)), 0);
	ck_assert_int_eq(settings_agree_compare(x, y, difference, sizeof(difference)), 0);
	ck_assert_str_eq(difference, "BELAY_PATHS: symm,nccl,host,ring against host,ring");
	settings_free(&a);
	settings_free(&b);
}
END_TEST

START_TEST(texts_of_a_stranger_are_compared_safely)
{
	char difference[16];

	ck_assert_int_eq(settings_agree_compare("", "", difference, sizeof(difference)), 1);
	ck_assert_int_eq(settings_agree_compare("A=1\n", "", difference, sizeof(difference)), 0);
	ck_assert_int_eq(settings_agree_compare("A=1\n", "A=1", difference, sizeof(difference)), 1);
	ck_assert_int_eq(settings_agree_compare("A", "A=", difference, sizeof(difference)), 1);
	ck_assert_int_eq(
		settings_agree_compare("\n\n\n", "A=1\nB=2\n", difference, sizeof(difference)), 0);
	ck_assert_int_eq(
		settings_agree_compare("A=111111111111111", "A=2", difference, sizeof(difference)),
		0);
	ck_assert_str_eq(difference, "A: 111111111111");
}
END_TEST

START_TEST(a_small_buffer_for_the_agreement_is_told)
{
	struct settings s;
	char text[2048];
	size_t need;

	ck_assert_int_eq(settings_load(NULL, &s, causes), 0);
	ck_assert_int_eq(settings_agree_text(&s, text, sizeof(text)), 0);
	need = strlen(text) + 1;
	ck_assert_int_eq(settings_agree_text(&s, text, need), 0);
	ck_assert_int_eq(settings_agree_text(&s, text, need - 1), BELAY_E_LIMIT);
	settings_free(&s);
}
END_TEST

#define ROWS(table) (int)(sizeof(table) / sizeof((table)[0]))

static Suite *suite(void)
{
	Suite *s = suite_create("settings");
	TCase *c = tcase_create("settings");

	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_add_test(c, every_default_is_a_right_value);
	tcase_add_loop_test(c, each_number_goes_to_its_own_field, 0, ROWS(numbers));
	tcase_add_test(c, the_environment_wins_over_the_config_over_the_default);
	tcase_add_loop_test(c, every_setting_is_read_from_its_config_field, 0, SETTINGS_COUNT);
	tcase_add_loop_test(c, every_bad_value_is_named, 0, ROWS(values));
	tcase_add_test(c, a_text_has_a_longest_length);
	tcase_add_test(c, a_long_bad_value_is_cut_in_the_message);
	tcase_add_test(c, fields_that_an_older_program_does_not_know_are_not_given);
	tcase_add_test(c, what_a_newer_program_asks_for_is_refused_and_zeros_are_not);
	tcase_add_test(c, a_config_without_its_initialiser_is_refused);
	tcase_add_test(c, unknown_variables_are_reported_with_the_nearest_name);
	tcase_add_test(c, the_level_is_known_before_the_first_warning);
	tcase_add_test(c, equal_values_agree_however_they_are_written);
	tcase_add_test(c, a_difference_names_the_setting_and_both_values);
	tcase_add_test(c, texts_of_a_stranger_are_compared_safely);
	tcase_add_test(c, a_small_buffer_for_the_agreement_is_told);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
