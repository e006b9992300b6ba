/* SPDX-License-Identifier: Apache-2.0 */
/* What creation on a device works out without one: how the ranks' devices are joined, which device
 * is meant, which faults go into kernels. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cause.h"
#include "runtime/cuda/device_inside.h"
#include "runtime/cuda/device_topology.h"

/* ---- topology -------------------------------------------------------------------------------- */

static struct control_device devices[4];

/* Four ranks, each on the device that `on` names; `nvlink`: bit b of [a] for "a says NVLink to b".
 */
static void place(const char *on, const uint64_t nvlink[4])
{
	memset(devices, 0, sizeof(devices));
	for (int r = 0; r < 4; r++) {
		devices[r].facts.uuid[15] = (uint8_t)on[r];
		devices[r].facts.peer_nvlink = nvlink[r];
		devices[r].facts.compute = 90;
		devices[r].facts.multiprocessors = 132;
	}
}

static const struct {
	const char *what, *on;
	uint64_t nvlink[4];
	enum launch_topology topology;
	uint32_t sharing; /* of rank 1 */
	uint32_t blocks, pair_blocks;
} rows[] = {
	{"one device", "aaaa", {0}, TOPOLOGY_ONE_DEVICE, 4, 31, 15},
	{"all NVLink", "abcd", {15, 15, 15, 15}, TOPOLOGY_NVLINK, 1, 62, 62},
	{"no NVLink", "abcd", {0}, TOPOLOGY_PCIE, 1, 62, 62},
	{"one pair without", "abcd", {15, 15, 7, 11}, TOPOLOGY_PCIE, 1, 62, 62},
	{"only one end says so", "abcd", {15, 15, 15, 0}, TOPOLOGY_PCIE, 1, 62, 62},
	{"two on each", "aabb", {15, 15, 15, 15}, TOPOLOGY_MIXED, 2, 64, 32},
	{"one shared, no NVLink", "abac", {0}, TOPOLOGY_MIXED, 1, 62, 32},
};

START_TEST(the_slowest_pair_makes_the_topology)
{
	place(rows[_i].on, rows[_i].nvlink);
	ck_assert_msg(topology_of(devices, 4) == rows[_i].topology, "%s", rows[_i].what);
	ck_assert_msg(topology_sharing(devices, 4, 1) == rows[_i].sharing, "%s", rows[_i].what);
	ck_assert_msg(topology_blocks_max(devices, 4) == rows[_i].blocks, "%s", rows[_i].what);
	ck_assert_msg(topology_pair_blocks_max(devices, 4) == rows[_i].pair_blocks, "%s",
		      rows[_i].what);
}
END_TEST

static const struct {
	const char *what;
	uint32_t nranks;
	int32_t node[4];
	bool islands;
} node_rows[] = {
	{"two and two", 4, {0, 0, 1, 1}, true},
	{"the other way round", 4, {3, 3, 0, 0}, true},
	{"one node", 4, {0, 0, 0, 0}, false},
	{"in turn", 4, {0, 1, 0, 1}, false},
	{"three and one", 4, {0, 0, 0, 1}, false},
	{"one and three", 4, {0, 1, 1, 1}, false},
	{"not known", 4, {-1, -1, -1, -1}, false},
	{"not known of one half", 4, {0, 0, -1, -1}, false},
	{"three ranks", 3, {0, 0, 1, 1}, false},
	{"one rank on each node", 2, {0, 1, 0, 0}, false},
};

START_TEST(halves_of_the_ranks_on_two_numa_nodes_are_islands)
{
	place("abcd", (const uint64_t[4]){0});
	for (int r = 0; r < 4; r++)
		devices[r].facts.numa_node = node_rows[_i].node[r];
	ck_assert_msg(topology_has_islands(devices, node_rows[_i].nranks) == node_rows[_i].islands,
		      "%s", node_rows[_i].what);
}
END_TEST

static const struct {
	const char *what;
	uint64_t push[4], pull[4];
	bool slow;
} rate_rows[] = {
	{"no probe was made", {0}, {0}, false},
	{"as fast one way as the other", {50, 50, 50, 50}, {50, 50, 50, 50}, false},
	{"three times as long", {30, 30, 10, 30}, {30, 30, 30, 30}, false},
	{"more than three times", {30, 30, 9, 30}, {30, 30, 30, 30}, true},
	{"the slowest of each counts", {9, 90, 90, 90}, {90, 90, 90, 20}, false},
	{"pulls are slower", {50, 50, 50, 50}, {5, 5, 5, 5}, false},
	{"one rank has not pushed", {0, 1, 1, 1}, {50, 50, 50, 50}, false},
	{"one rank has not pulled", {1, 1, 1, 1}, {50, 50, 50, 0}, false},
};

START_TEST(pushes_that_take_more_than_three_times_as_long_are_slow)
{
	place("abcd", (const uint64_t[4]){0});
	for (int r = 0; r < 4; r++) {
		devices[r].facts.push_rate = rate_rows[_i].push[r];
		devices[r].facts.pull_rate = rate_rows[_i].pull[r];
	}
	ck_assert_msg(topology_pushes_slowly(devices, 4) == rate_rows[_i].slow, "%s",
		      rate_rows[_i].what);
}
END_TEST

START_TEST(links_are_probed_over_pcie_or_when_a_rank_asks)
{
	place("abcd", (const uint64_t[4]){0});
	ck_assert(topology_asks_probe(devices, 4));
	ck_assert(!topology_asks_probe(devices, 1));
	place("abcd", (const uint64_t[4]){15, 15, 15, 15});
	ck_assert(!topology_asks_probe(devices, 4));
	devices[2].facts.asks_probe = 1;
	ck_assert(topology_asks_probe(devices, 4));
}
END_TEST

START_TEST(a_rank_alone_is_on_one_device)
{
	place("abcd", (const uint64_t[4]){0});
	ck_assert_int_eq(topology_of(devices, 1), TOPOLOGY_ONE_DEVICE);
	ck_assert_uint_eq(topology_pair_blocks_max(devices, 1), 62);
}
END_TEST

START_TEST(an_older_device_keeps_all_from_programmatic_launch)
{
	place("abcd", (const uint64_t[4]){0});
	devices[3].facts.compute = 89;
	ck_assert_uint_eq(topology_pair_blocks_max(devices, 4), 0);
	ck_assert_uint_eq(topology_blocks_max(devices, 4), 62);
}
END_TEST

START_TEST(the_smallest_bound_counts_for_all)
{
	place("abcd", (const uint64_t[4]){0});
	ck_assert_uint_eq(topology_blocks_max(devices, 4), 62);
	devices[2].facts.multiprocessors = 20;
	ck_assert_uint_eq(topology_blocks_max(devices, 4), 9);
	ck_assert_uint_eq(topology_pair_blocks_max(devices, 4), 9);
	devices[2].facts.multiprocessors = 1;
	ck_assert_uint_eq(topology_blocks_max(devices, 4), 1);
	ck_assert_uint_eq(topology_pair_blocks_max(devices, 4), 0);
	devices[0].facts.multiprocessors = 10000;
	ck_assert_uint_eq(topology_blocks_max(devices, 1), SYMM_BLOCKS_MAX);
}
END_TEST

/* ---- which device ---------------------------------------------------------------------------- */

static struct cause_chain *causes;

static int ask(const char *text, int *ordinal)
{
	struct settings settings = {.origin[SETTING_device] = SETTING_ENVIRONMENT};
	char copy[64];
	struct cause_config config = {.level = BELAY_LOG_OFF};

	snprintf(copy, sizeof(copy), "%s", text);
	settings.text[SETTING_device] = copy;
	cause_chain_free(causes);
	causes = cause_chain_create(&config);
	return device_wanted(&settings, ordinal, causes);
}

START_TEST(host_and_auto_without_a_context_mean_host)
{
	int ordinal = 77;

	ck_assert_int_eq(ask("host", &ordinal), 0);
	ck_assert_int_eq(ordinal, -1);
	ordinal = 77;
	/* No test program has a context of its own accord. */
	ck_assert_int_eq(ask("auto", &ordinal), 0);
	ck_assert_int_eq(ordinal, -1);
}
END_TEST

static const char *const bad[] = {"", "gpu", "-1", "0x1", "1 ", "Host"};

START_TEST(what_is_no_device_is_a_bad_setting)
{
	int ordinal = 77;
	char text[256];

	ck_assert_int_eq(ask(bad[_i], &ordinal), BELAY_E_SETTING);
	ck_assert_int_eq(ordinal, 77);
	cause_newest(causes, text, sizeof(text));
	ck_assert_msg(strstr(text, "BELAY_DEVICE") && strstr(text, "environment"), "%s", text);
}
END_TEST

START_TEST(a_device_that_is_not_there_is_named)
{
	int ordinal = 77, status = ask("63", &ordinal);
	char text[256];

	/* Without a driver it is unsupported, with one the number is wrong. */
	ck_assert(status == BELAY_E_UNSUPPORTED || status == BELAY_E_SETTING);
	ck_assert_int_eq(ordinal, 77);
	cause_newest(causes, text, sizeof(text));
	ck_assert_msg(strstr(text, "BELAY_DEVICE='63'"), "%s", text);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

static const struct {
	const char *text;
	uint32_t kind, at; /* kind 0: none */
} fault_rows[] = {
	{"rank=1,seq=5,kind=drop", SYMM_FAULT_DROP, SYMM_AT_PUSH},
	{"rank=1,seq=5,kind=corrupt", SYMM_FAULT_CORRUPT, SYMM_AT_PUSH},
	{"rank=1,seq=5,kind=flag", SYMM_FAULT_FLAG, SYMM_AT_STAGE},
	{"rank=1,seq=5,kind=count", SYMM_FAULT_SIGN, SYMM_AT_STAGE},
	{"rank=1,seq=5,kind=swap", SYMM_FAULT_SIGN, SYMM_AT_STAGE},
	{"rank=1,seq=5,kind=delay:3,at=reduce", SYMM_FAULT_DELAY, SYMM_AT_REDUCE},
	{"rank=1,seq=5,kind=kill,at=wait", SYMM_FAULT_ASK, SYMM_AT_WAIT},
	{"rank=1,seq=5,kind=stop:9", SYMM_FAULT_ASK, SYMM_AT_STAGE},
	{"rank=*,seq=5,kind=cuda-sticky", SYMM_FAULT_STICKY, SYMM_AT_STAGE},
	{"rank=0,seq=5,kind=drop", 0, 0},
	{"rank=1,seq=5,kind=skip", 0, 0},
	{"rank=1,seq=5,kind=kill,at=rescue", 0, 0},
	{"rank=1,seq=0,kind=map-fail,at=handshake", 0, 0},
};

START_TEST(kernels_get_the_faults_that_are_theirs)
{
	struct symm_fault list[SYMM_FAULTS_MAX];
	struct faults faults;
	uint32_t picked;

	ck_assert_int_eq(faults_parse(fault_rows[_i].text, &faults, NULL), 0);
	picked = device_faults_pick(&faults, 1, list);
	ck_assert_msg(picked == (fault_rows[_i].kind != 0), "%s", fault_rows[_i].text);
	if (!picked)
		return;
	ck_assert_msg(list[0].kind == fault_rows[_i].kind, "%s", fault_rows[_i].text);
	ck_assert_msg(list[0].first == 5 && list[0].last == 5, "%s", fault_rows[_i].text);
	ck_assert_msg(list[0].at == fault_rows[_i].at, "%s: at %u", fault_rows[_i].text,
		      list[0].at);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static Suite *suite(void)
{
	Suite *suite = suite_create("device_creation");
	TCase *topology = tcase_create("topology");
	TCase *wanted = tcase_create("wanted");
	TCase *faults = tcase_create("faults");

	tcase_add_loop_test(topology, the_slowest_pair_makes_the_topology, 0, COUNT(rows));
	tcase_add_loop_test(topology, halves_of_the_ranks_on_two_numa_nodes_are_islands, 0,
			    COUNT(node_rows));
	tcase_add_loop_test(topology, pushes_that_take_more_than_three_times_as_long_are_slow, 0,
			    COUNT(rate_rows));
	tcase_add_test(topology, links_are_probed_over_pcie_or_when_a_rank_asks);
	tcase_add_test(topology, a_rank_alone_is_on_one_device);
	tcase_add_test(topology, an_older_device_keeps_all_from_programmatic_launch);
	tcase_add_test(topology, the_smallest_bound_counts_for_all);
	tcase_add_test(wanted, host_and_auto_without_a_context_mean_host);
	tcase_add_loop_test(wanted, what_is_no_device_is_a_bad_setting, 0, COUNT(bad));
	tcase_add_test(wanted, a_device_that_is_not_there_is_named);
	tcase_add_loop_test(faults, kernels_get_the_faults_that_are_theirs, 0, COUNT(fault_rows));
	suite_add_tcase(suite, topology);
	suite_add_tcase(suite, wanted);
	suite_add_tcase(suite, faults);
	return suite;
}

#include "check_main.h"
