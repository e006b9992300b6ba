/* SPDX-License-Identifier: Apache-2.0 */
/* choose_path(): preference and what all ranks can use. */
#include <check.h>

#include "runtime/path/choose_path.h"

#define CAN(path) (1u << BELAY_PATH_##path)

/* clang-format off */
static const struct {
	const char *rule;
	uint8_t preference[4];
	uint32_t count, usable;
	int status;
	enum belay_path path;
} rows[] = {
	{ "the first when all are usable", { BELAY_PATH_SYMM, BELAY_PATH_NCCL, BELAY_PATH_HOST, BELAY_PATH_RING }, 4,
	  CAN(SYMM) | CAN(NCCL) | CAN(HOST) | CAN(RING), 0, BELAY_PATH_SYMM },
	{ "the next when the first is not", { BELAY_PATH_SYMM, BELAY_PATH_NCCL, BELAY_PATH_HOST, BELAY_PATH_RING }, 4,
	  CAN(HOST) | CAN(RING), 0, BELAY_PATH_HOST },
	{ "the last", { BELAY_PATH_SYMM, BELAY_PATH_NCCL, BELAY_PATH_HOST, BELAY_PATH_RING }, 4, CAN(RING), 0,
	  BELAY_PATH_RING },
	{ "the preference decides, not the number", { BELAY_PATH_RING, BELAY_PATH_HOST }, 2, CAN(HOST) | CAN(RING), 0,
	  BELAY_PATH_RING },
	{ "what is not allowed is not taken", { BELAY_PATH_HOST, BELAY_PATH_RING }, 1, CAN(RING), BELAY_E_NO_PATH, 0 },
	{ "nothing is usable", { BELAY_PATH_HOST, BELAY_PATH_RING }, 2, 0, BELAY_E_NO_PATH, 0 },
	{ "nothing is allowed", { 0 }, 0, CAN(HOST), BELAY_E_NO_PATH, 0 },
};
/* clang-format on */

START_TEST(the_choice_follows_the_rule)
{
	enum belay_path path = 0;
	int status = choose_path(rows[_i].preference, rows[_i].count, rows[_i].usable, &path);

	ck_assert_msg(status == rows[_i].status, "%s: %s", rows[_i].rule,
		      belay_status_name(status));
	/* The row of a refused choice holds 0: the output must be untouched. */
	ck_assert_msg(path == rows[_i].path, "%s: path %d", rows[_i].rule, (int)path);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("choose_path");
	TCase *c = tcase_create("choose_path");

	tcase_add_loop_test(c, the_choice_follows_the_rule, 0,
			    (int)(sizeof(rows) / sizeof(rows[0])));
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
