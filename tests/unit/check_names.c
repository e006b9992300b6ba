/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses and names: status.def and belay.h agree; every enum has a name. */
#include <check.h>
#include <string.h>

#include "runtime/belay.h"

static const struct {
	int in_list;
	int in_header;
	const char *name;
} rows[] = {
#define BELAY_STATUS(value, name, class_, text, advice) {value, BELAY_##name, "BELAY_" #name},
#include "runtime/status.def"
#undef BELAY_STATUS
};

START_TEST(status_list_and_header_agree)
{
	ck_assert_int_eq(rows[_i].in_list, rows[_i].in_header);
	ck_assert_str_eq(belay_status_name(rows[_i].in_header), rows[_i].name);
	ck_assert_int_gt((int)strlen(belay_status_text(rows[_i].in_header)), 5);
}
END_TEST

START_TEST(unknown_numbers_have_a_name_too)
{
	ck_assert_str_eq(belay_status_name(12345), "unknown status");
	ck_assert_str_eq(belay_dtype_name((enum belay_dtype)0), "unknown");
	ck_assert_str_eq(belay_path_name((enum belay_path)99), "unknown");
	ck_assert_uint_eq(belay_dtype_bytes((enum belay_dtype) - 1), 0);
}
END_TEST

START_TEST(what_watched_calls_record_has_names_and_sizes)
{
	ck_assert_str_eq(belay_op_name(BELAY_AVG), "avg");
	ck_assert_str_eq(belay_op_name(BELAY_USER_OP), "user");
	ck_assert_str_eq(belay_op_name(BELAY_ALL_GATHER), "allgather");
	ck_assert_str_eq(belay_op_name(BELAY_SCATTER), "scatter");
	ck_assert_str_eq(belay_op_name((enum belay_op)7), "unknown");
	ck_assert_str_eq(belay_op_name((enum belay_op)(BELAY_SCATTER + 1)), "unknown");
	ck_assert_str_eq(belay_dtype_name(BELAY_F8E4M3), "f8e4m3");
	ck_assert_uint_eq(belay_dtype_bytes(BELAY_U32), 4);
	ck_assert_uint_eq(belay_dtype_bytes(BELAY_U64), 8);
	ck_assert_uint_eq(belay_dtype_bytes(BELAY_F8E5M2), 1);
	ck_assert_uint_eq(belay_dtype_bytes((enum belay_dtype)(BELAY_F8E5M2 + 1)), 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("names");
	TCase *c = tcase_create("names");

	tcase_add_loop_test(c, status_list_and_header_agree, 0,
			    (int)(sizeof(rows) / sizeof(rows[0])));
	tcase_add_test(c, unknown_numbers_have_a_name_too);
	tcase_add_test(c, what_watched_calls_record_has_names_and_sizes);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
