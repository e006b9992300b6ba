/* SPDX-License-Identifier: Apache-2.0 */
/* belay_setting_get(): where a value came from, and what is said about a bad one. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/belay.h"

/* The index of a setting by its name. */
static int find(const char *name)
{
	struct belay_setting setting = {.size = sizeof(setting)};

	for (int i = 0; i < belay_setting_count(); i++) {
		ck_assert_int_eq(belay_setting_get(i, NULL, &setting), 0);
		if (strcmp(setting.name, name) == 0)
			return i;
	}
	ck_abort_msg("no setting %s", name);
	return -1;
}

START_TEST(tells_value_and_origin)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	struct belay_setting setting = {.size = sizeof(setting)};
	int index = find("BELAY_LATE_MS");

	ck_assert_int_eq(belay_setting_get(index, &config, &setting), 0);
	ck_assert_str_eq(setting.origin, "default");
	ck_assert_str_eq(setting.value, setting.default_value);
	config.late_ms = "7";
	ck_assert_int_eq(belay_setting_get(index, &config, &setting), 0);
	ck_assert_str_eq(setting.origin, "config");
	ck_assert_str_eq(setting.value, "7");
	setenv("BELAY_LATE_MS", "9", 1);
	ck_assert_int_eq(belay_setting_get(index, &config, &setting), 0);
	ck_assert_str_eq(setting.origin, "environment");
	ck_assert_str_eq(setting.value, "9");
}
END_TEST

START_TEST(names_any_bad_setting_and_leaves_the_output_alone)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	struct belay_setting setting = {.size = sizeof(setting), .name = "before"};

	config.grace_ms = "soon";
	ck_assert_int_eq(belay_setting_get(0, &config, &setting), BELAY_E_SETTING);
	ck_assert_str_eq(setting.name, "before");
	ck_assert_ptr_nonnull(strstr(belay_last_error(), "BELAY_GRACE_MS='soon'"));
}
END_TEST

START_TEST(checks_fault_descriptions_too)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	struct belay_setting setting = {.size = sizeof(setting)};

	config.fault = "rank=1,seq=5,kind=explode";
	ck_assert_int_eq(belay_setting_get(0, &config, &setting), BELAY_E_SETTING);
	ck_assert_ptr_nonnull(strstr(belay_last_error(), "explode"));
}
END_TEST

START_TEST(refuses_what_is_no_setting)
{
	struct belay_setting setting = {.size = sizeof(setting)};

	ck_assert_int_eq(belay_setting_get(-1, NULL, &setting), BELAY_E_ARGUMENT);
	ck_assert_int_eq(belay_setting_get(belay_setting_count(), NULL, &setting),
			 BELAY_E_ARGUMENT);
	ck_assert_int_eq(belay_setting_get(0, NULL, NULL), BELAY_E_ARGUMENT);
	setting.size = 3;
	ck_assert_int_eq(belay_setting_get(0, NULL, &setting), BELAY_E_ARGUMENT);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("settings_query");
	TCase *t = tcase_create("settings_query");

	tcase_add_test(t, tells_value_and_origin);
	tcase_add_test(t, names_any_bad_setting_and_leaves_the_output_alone);
	tcase_add_test(t, checks_fault_descriptions_too);
	tcase_add_test(t, refuses_what_is_no_setting);
	suite_add_tcase(s, t);
	return s;
}

#include "check_main.h"
