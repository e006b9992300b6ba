/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks meet: unique ids, and the environment as launchers set it. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cause.h"
#include "runtime/group/environment_id.h"
#include "runtime/group/unique_id.h"

START_TEST(ids_differ_and_give_meeting_and_secret)
{
	struct belay_unique_id a, b;
	char place_a[UNIQUE_ID_MEETING_BYTES], place_b[UNIQUE_ID_MEETING_BYTES];
	uint8_t secret_a[16], secret_b[16];

	ck_assert_int_eq(belay_unique_id_create(&a), 0);
	ck_assert_int_eq(belay_unique_id_create(&b), 0);
	ck_assert_int_eq(unique_id_parse(&a, place_a, secret_a), 0);
	ck_assert_int_eq(unique_id_parse(&b, place_b, secret_b), 0);
	ck_assert_str_ne(place_a, place_b);
	ck_assert_mem_ne(secret_a, secret_b, 16);
	ck_assert_uint_eq(strlen(place_a), UNIQUE_ID_MEETING_BYTES - 1);
	ck_assert_int_eq(unique_id_parse(&a, place_b, secret_b), 0);
	ck_assert_str_eq(place_a, place_b);
	ck_assert_mem_eq(secret_a, secret_b, 16);
	ck_assert_int_eq(belay_unique_id_create(NULL), BELAY_E_ARGUMENT);
}
END_TEST

START_TEST(an_id_with_any_bit_changed_is_refused)
{
	struct belay_unique_id id;
	char place[UNIQUE_ID_MEETING_BYTES] = "untouched";
	uint8_t secret[16];

	ck_assert_int_eq(belay_unique_id_create(&id), 0);
	for (size_t bit = 0; bit < 8 * sizeof(id); bit++) {
		id.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		ck_assert_int_eq(unique_id_parse(&id, place, secret), BELAY_E_ARGUMENT);
		id.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	ck_assert_str_eq(place, "untouched");
}
END_TEST

static const char *const variables[] = {"RANK",
					"WORLD_SIZE",
					"LOCAL_RANK",
					"LOCAL_WORLD_SIZE",
					"GROUP_WORLD_SIZE",
					"MASTER_ADDR",
					"MASTER_PORT",
					"TORCHELASTIC_RUN_ID",
					"TORCHELASTIC_RESTART_COUNT"};

/* Values in the order of the names above; NULL: not set. */
/* clang-format off */
static const struct {
	const char *rule;
	const char *value[9];
	const char *job;
	int status;
	const char *expected; /* the meeting, or a part of the cause */
} rows[] = {
	{ "as torchrun sets it", { "3", "4", "3", "4", "1", "127.0.0.1", "29500", "none", "0" }, "", 0,
	  "run none at 127.0.0.1 port 29500 try 0" },
	{ "a job's own id", { "3", "4", "3", "4", "1", "host", "1", "run7", "2" }, "", 0,
	  "run run7 at host port 1 try 2" },
	{ "BELAY_JOB comes first", { "3", "4", "3", "4", "1", "host", "1", "run7", "2" }, "mine", 0,
	  "job mine try 2" },
	{ "least that is enough", { "3", "4", NULL, NULL, NULL, "h", "1" }, "", 0, "run - at h port 1 try 0" },
	{ "a run id alone", { "3", "4", NULL, NULL, NULL, NULL, NULL, "r" }, "", 0, "run r at - port - try 0" },
	{ "no name at all", { "3", "4" }, "", BELAY_E_SETTING,
	  "expected BELAY_JOB, TORCHELASTIC_RUN_ID, or MASTER_ADDR and MASTER_PORT" },
	{ "torchrun's none is no name", { "3", "4", NULL, NULL, NULL, NULL, NULL, "none" }, "", BELAY_E_SETTING,
	  "the job has no name" },
	{ "an address without a port", { "3", "4", NULL, NULL, NULL, "h" }, "", BELAY_E_SETTING,
	  "the job has no name" },
	{ "no rank", { NULL, "4" }, "j", BELAY_E_SETTING, "RANK is not set in the environment" },
	{ "no world size", { "3" }, "j", BELAY_E_SETTING, "WORLD_SIZE is not set in the environment" },
	{ "an empty rank is none", { "", "4" }, "j", BELAY_E_SETTING, "RANK is not set" },
	{ "rank equal to the world size", { "4", "4" }, "j", BELAY_E_SETTING,
	  "RANK is '4' in the environment: expected a number from 0 to 3" },
	{ "negative rank", { "-1", "4" }, "j", BELAY_E_SETTING, "RANK is '-1'" },
	{ "a sign", { "+1", "4" }, "j", BELAY_E_SETTING, "RANK is '+1'" },
	{ "a blank", { " 1", "4" }, "j", BELAY_E_SETTING, "RANK is ' 1'" },
	{ "no number", { "1x", "4" }, "j", BELAY_E_SETTING, "RANK is '1x'" },
	{ "a number too long", { "1", "18446744073709551620" }, "j", BELAY_E_SETTING, "WORLD_SIZE is '1844" },
	{ "no ranks", { "0", "0" }, "j", BELAY_E_SETTING, "WORLD_SIZE is '0' in the environment: expected a number from 1 to 64" },
	{ "the most ranks", { "63", "64" }, "j", 0, "job j try 0" },
	{ "one more", { "63", "65" }, "j", BELAY_E_SETTING, "WORLD_SIZE is '65' in the environment: expected a number from 1 to 64" },
	{ "fewer ranks here than in all", { "3", "8", "3", "4" }, "j", BELAY_E_UNSUPPORTED,
	  "world of 8 ranks spans several hosts: LOCAL_WORLD_SIZE is 4" },
	{ "two hosts", { "3", "4", NULL, NULL, "2" }, "j", BELAY_E_UNSUPPORTED, "GROUP_WORLD_SIZE is 2" },
	{ "many hosts", { "3", "128", "3", "8", "16" }, "j", BELAY_E_UNSUPPORTED, "128 ranks spans several hosts" },
	{ "more ranks here than in all", { "3", "4", "3", "8" }, "j", BELAY_E_SETTING,
	  "LOCAL_WORLD_SIZE is '8' in the environment: expected a number from 1 to 4" },
	{ "local rank outside", { "3", "4", "4", "4" }, "j", BELAY_E_SETTING, "LOCAL_RANK is '4'" },
	{ "port outside", { "3", "4", NULL, NULL, NULL, "h", "65536" }, "j", BELAY_E_SETTING, "MASTER_PORT is '65536'" },
	{ "bad count of restarts", { "3", "4", NULL, NULL, NULL, NULL, NULL, NULL, "x" }, "j", BELAY_E_SETTING,
	  "TORCHELASTIC_RESTART_COUNT is 'x'" },
};
/* clang-format on */

START_TEST(the_environment_is_read_as_launchers_set_it)
{
	struct cause_config config = {.level = BELAY_LOG_OFF, .rank = -1};
	struct cause_chain *causes = cause_chain_create(&config);
	struct environment_id id = {.rank = -7, .nranks = -7};
	char text[512];
	int status;

	for (int i = 0; i < 9; i++) {
		unsetenv(variables[i]);
		if (rows[_i].value[i])
			setenv(variables[i], rows[_i].value[i], 1);
	}
	status = environment_id_read(rows[_i].job, &id, causes);
	cause_newest(causes, text, sizeof(text));
	ck_assert_msg(status == rows[_i].status, "%s: %s: %s", rows[_i].rule,
		      belay_status_name(status), text);
	if (status) {
		ck_assert_msg(strstr(text, rows[_i].expected) != NULL, "%s: %s", rows[_i].rule,
			      text);
		ck_assert_int_eq(id.rank, -7);
		ck_assert_int_eq(id.nranks, -7);
	} else {
		ck_assert_msg(strcmp(id.meeting, rows[_i].expected) == 0, "%s: %s", rows[_i].rule,
			      id.meeting);
		ck_assert_int_eq(id.rank, atoi(rows[_i].value[0]));
		ck_assert_int_eq(id.nranks, atoi(rows[_i].value[1]));
	}
	cause_chain_free(causes);
}
END_TEST

START_TEST(a_name_that_is_too_long_is_refused_and_not_cut)
{
	struct cause_config config = {.level = BELAY_LOG_OFF, .rank = -1};
	struct cause_chain *causes = cause_chain_create(&config);
	struct environment_id id;
	char job[2000];

	for (int i = 0; i < 9; i++)
		unsetenv(variables[i]);
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "1", 1);
	memset(job, 'j', sizeof(job) - 1);
	job[sizeof(job) - 1] = '\0';
	ck_assert_int_eq(environment_id_read(job, &id, causes), BELAY_E_SETTING);
	cause_chain_free(causes);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("meeting_place");
	TCase *c = tcase_create("unique id");

	tcase_add_test(c, ids_differ_and_give_meeting_and_secret);
	tcase_add_test(c, an_id_with_any_bit_changed_is_refused);
	suite_add_tcase(s, c);
	c = tcase_create("environment");
	tcase_add_loop_test(c, the_environment_is_read_as_launchers_set_it, 0,
			    (int)(sizeof(rows) / sizeof(rows[0])));
	tcase_add_test(c, a_name_that_is_too_long_is_refused_and_not_cut);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
