/* SPDX-License-Identifier: Apache-2.0 */
/* What a process finds on this machine, with GPUs that are played on the CPU. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/belay.h"
#include "tests/support/cpu_gpu.h"

/* The played driver looks at its environment once; each test is a process of its own. */
static void have(const char *devices, const char *link)
{
	ck_assert_int_eq(setenv("BELAY_TEST_GPU_DEVICES", devices, 1), 0);
	ck_assert_int_eq(setenv("BELAY_TEST_GPU_LINK", link, 1), 0);
}

static const struct {
	const char *link;
	uint64_t access, atomics, nvlink; /* of device 1 to 0 and 2 */
} links[] = {
	{"nvlink", 5, 5, 5},
	{"pcie", 5, 0, 0},
	{"none", 0, 0, 0},
};

START_TEST(a_device_says_how_it_is_joined_to_the_others)
{
	struct belay_device device = {.size = sizeof(device)};

	have("0,1,2", links[_i].link);
	ck_assert_int_eq(belay_device_count(), 3);
	ck_assert_int_eq(belay_device_get(1, &device), 0);
	ck_assert_uint_eq(device.peer_access, links[_i].access);
	ck_assert_uint_eq(device.peer_atomics, links[_i].atomics);
	ck_assert_uint_eq(device.peer_nvlink, links[_i].nvlink);
	ck_assert_uint_gt(strlen(device.name), 0);
	ck_assert_uint_eq(strlen(device.uuid), 40);
	ck_assert_int_eq(strncmp(device.uuid, "GPU-", 4), 0);
	ck_assert_uint_eq(strlen(device.pci), 12);
	ck_assert_int_eq(device.exports_memory, 1);
}
END_TEST

START_TEST(a_device_that_is_not_there_leaves_the_answer_untouched)
{
	struct belay_device device = {.size = sizeof(device), .compute = 77};

	have("0,1", "pcie");
	ck_assert_int_eq(belay_device_get(-1, &device), BELAY_E_ARGUMENT);
	ck_assert_int_eq(belay_device_get(2, &device), BELAY_E_ARGUMENT);
	ck_assert_int_eq(belay_device_get(0, NULL), BELAY_E_ARGUMENT);
	cpu_gpu_fail("gpu_facts", 1, CPU_GPU_BAD_DEVICE, false);
	ck_assert_int_eq(belay_device_get(0, &device), BELAY_E_SYSTEM);
	device.size--;
	ck_assert_int_eq(belay_device_get(0, &device), BELAY_E_ARGUMENT);
	ck_assert_int_eq(device.compute, 77);
}
END_TEST

START_TEST(without_a_device_its_paths_say_what_is_missing)
{
	const char *why = NULL;

	have("", "none");
	ck_assert_int_eq(belay_device_count(), 0);
	ck_assert_int_eq(belay_path_usable(BELAY_PATH_SYMM, &why), 0);
	ck_assert_uint_gt(strlen(why), 0);
	ck_assert_int_eq(belay_path_usable(BELAY_PATH_NCCL, &why), 0);
	ck_assert_uint_gt(strlen(why), 0);
	ck_assert_int_eq(belay_path_usable(BELAY_PATH_HOST, &why), 1);
	ck_assert_int_eq(belay_path_usable(BELAY_PATH_RING, NULL), 1);
	ck_assert_int_eq(belay_path_usable((enum belay_path)77, &why), 0);
}
END_TEST

START_TEST(devices_whose_memory_cannot_be_shared_have_no_symm_path)
{
	const char *why = NULL;

	have("0", "none");
	ck_assert_int_eq(setenv("BELAY_TEST_GPU_FD", _i == 0 ? "1" : "0", 1), 0);
	ck_assert_int_eq(belay_path_usable(BELAY_PATH_SYMM, &why), _i == 0);
	ck_assert_msg(strstr(why, _i == 0 ? "1 CUDA device," : "cannot export memory"), "%s", why);
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("machine");
	TCase *tests = tcase_create("machine");

	tcase_add_loop_test(tests, a_device_says_how_it_is_joined_to_the_others, 0, 3);
	tcase_add_test(tests, a_device_that_is_not_there_leaves_the_answer_untouched);
	tcase_add_test(tests, without_a_device_its_paths_say_what_is_missing);
	tcase_add_loop_test(tests, devices_whose_memory_cannot_be_shared_have_no_symm_path, 0, 2);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "check_main.h"
