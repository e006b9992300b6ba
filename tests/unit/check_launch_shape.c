/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithm and grid of a turn: the table's rows, and every bound that a row gives way to. */
#include <check.h>
#include <string.h>

#include "runtime/belay.h"
#include "runtime/cuda/launch_shape.h"

#define KB(n) (UINT64_C(1024) * (n))

/* Room for everything that the tables ask for. */
static const struct symm_layout roomy = {
	.packets_bytes = KB(256),
	.wire_bytes = KB(4096),
	.slice_bytes = KB(2048),
	.symm_bytes = KB(2048),
};

static const struct launch_table two_rows = {
	.nrows = 2,
	.row = {{KB(16), SYMM_ONESHOT_PACKETS, SYMM_ONESHOT_PACKETS, 8, 256},
		{UINT64_MAX, SYMM_TWOSHOT_WIRE, SYMM_TWOSHOT_PULL, 64, 512}},
	.blocks_max = SYMM_BLOCKS_MAX,
};

static const struct {
	const char *rule;
	uint64_t bytes;
	uint8_t dtype;
	uint8_t algorithm;
	uint16_t blocks, threads;
} rows[] = {
	{"nothing takes one block", 0, BELAY_BF16, SYMM_ONESHOT_PACKETS, 1, 256},
	{"no more blocks than packets", KB(2), BELAY_BF16, SYMM_ONESHOT_PACKETS, 1, 256},
	{"a packet more is a block more", KB(2) + 1, BELAY_BF16, SYMM_ONESHOT_PACKETS, 2, 256},
	{"the row's last byte", KB(16), BELAY_BF16, SYMM_ONESHOT_PACKETS, 8, 256},
	{"one byte over", KB(16) + 1, BELAY_BF16, SYMM_TWOSHOT_WIRE, 3, 512},
	{"another type", KB(16) + 1, BELAY_I32, SYMM_TWOSHOT_PULL, 3, 512},
	{"the row's blocks", KB(1024), BELAY_F32, SYMM_TWOSHOT_WIRE, 64, 512},
};

START_TEST(a_turn_takes_the_row_of_its_size)
{
	struct launch_shape shape =
		launch_shape_of(&two_rows, &roomy, 2, rows[_i].bytes, rows[_i].dtype);

	ck_assert_msg(shape.algorithm == rows[_i].algorithm && shape.blocks == rows[_i].blocks &&
			      shape.threads == rows[_i].threads,
		      "%s: algorithm %u, %u blocks, %u threads", rows[_i].rule, shape.algorithm,
		      shape.blocks, shape.threads);
}
END_TEST

static uint8_t algorithm_in(const struct symm_layout *layout, uint8_t wanted, uint64_t bytes,
			    uint8_t dtype)
{
	struct launch_table table = {
		.nrows = 1,
		.row = {{UINT64_MAX, wanted, wanted, 8, 256}},
		.blocks_max = SYMM_BLOCKS_MAX,
	};

	return launch_shape_of(&table, layout, 4, bytes, dtype).algorithm;
}

START_TEST(an_algorithm_without_room_gives_way)
{
	const struct symm_layout tight = {
		.packets_bytes = 256, .wire_bytes = 512, .slice_bytes = 256};

	ck_assert_uint_eq(algorithm_in(&tight, SYMM_ONESHOT_PACKETS, 256, BELAY_F16),
			  SYMM_ONESHOT_PACKETS);
	ck_assert_uint_eq(algorithm_in(&tight, SYMM_ONESHOT_PACKETS, 257, BELAY_F16),
			  SYMM_ONESHOT_WIRE);
	ck_assert_uint_eq(algorithm_in(&tight, SYMM_ONESHOT_PACKETS, 257, BELAY_F64),
			  SYMM_TWOSHOT_PULL);
	ck_assert_uint_eq(algorithm_in(&tight, SYMM_ONESHOT_WIRE, 513, BELAY_F32),
			  SYMM_TWOSHOT_WIRE);
	/* Four slices of 256 bytes; a packet more makes one of 272. */
	ck_assert_uint_eq(algorithm_in(&tight, SYMM_TWOSHOT_WIRE, 1024, BELAY_BF16),
			  SYMM_TWOSHOT_WIRE);
	ck_assert_uint_eq(algorithm_in(&tight, SYMM_TWOSHOT_WIRE, 1025, BELAY_BF16),
			  SYMM_TWOSHOT_PULL);
	ck_assert_uint_eq(algorithm_in(&tight, SYMM_TWOSHOT_WIRE, 200, BELAY_U8),
			  SYMM_ONESHOT_PACKETS);
}
END_TEST

static uint8_t island_row_becomes(const struct symm_layout *layout, bool islands, uint32_t nranks,
				  uint64_t bytes, uint8_t dtype)
{
	struct launch_table table = {
		.nrows = 1,
		.row = {{UINT64_MAX, SYMM_ISLAND, SYMM_TWOSHOT_PULL, 8, 256}},
		.blocks_max = SYMM_BLOCKS_MAX,
		.islands = islands,
	};

	return launch_shape_of(&table, layout, nranks, bytes, dtype).algorithm;
}

START_TEST(islands_are_of_an_even_number_of_ranks_from_four_on_and_two_shot_elsewhere)
{
	for (uint32_t nranks = 1; nranks <= SYMM_RANKS_MAX; nranks++) {
		bool halves = nranks >= 4 && nranks % 2 == 0;

		ck_assert_uint_eq(island_row_becomes(&roomy, true, nranks, KB(256), BELAY_BF16),
				  halves ? SYMM_ISLAND : SYMM_TWOSHOT_WIRE);
		ck_assert_uint_eq(island_row_becomes(&roomy, false, nranks, KB(256), BELAY_BF16),
				  SYMM_TWOSHOT_WIRE);
	}
	ck_assert_uint_eq(island_row_becomes(&roomy, true, 4, KB(256), BELAY_F64),
			  SYMM_TWOSHOT_PULL);
	/* Sums and results lie in the wire's slots: here 8 slices in 4 * 256 KB. */
	ck_assert_uint_eq(island_row_becomes(&(struct symm_layout){.wire_bytes = KB(256),
								   .slice_bytes = KB(128)},
					     true, 4, KB(512), BELAY_F32),
			  SYMM_ISLAND);
	ck_assert_uint_eq(island_row_becomes(&(struct symm_layout){.wire_bytes = KB(256) - 4,
								   .slice_bytes = KB(128)},
					     true, 4, KB(512), BELAY_F32),
			  SYMM_TWOSHOT_WIRE);
}
END_TEST

START_TEST(no_grid_is_larger_than_what_fits_beside_the_others)
{
	struct launch_table table = two_rows;

	table.blocks_max = 5;
	ck_assert_uint_eq(launch_shape_of(&table, &roomy, 2, KB(1024), BELAY_F32).blocks, 5);
	table.blocks_max = 0;
	ck_assert_uint_eq(launch_shape_of(&table, &roomy, 2, KB(1024), BELAY_F32).blocks, 1);
	table.blocks_max = 1000;
	table.row[1].blocks = 1000;
	ck_assert_uint_eq(launch_shape_of(&table, &roomy, 2, KB(2048), BELAY_F32).blocks,
			  SYMM_BLOCKS_MAX);
}
END_TEST

START_TEST(threads_are_whole_warps_up_to_512)
{
	struct launch_table table = two_rows;

	table.row[0].threads = 100;
	ck_assert_uint_eq(launch_shape_of(&table, &roomy, 2, 1, BELAY_F32).threads, 96);
	table.row[0].threads = 0;
	ck_assert_uint_eq(launch_shape_of(&table, &roomy, 2, 1, BELAY_F32).threads, 32);
	table.row[0].threads = 1024;
	ck_assert_uint_eq(launch_shape_of(&table, &roomy, 2, 1, BELAY_F32).threads, 512);
}
END_TEST

static void check_rows(const struct launch_table *table, uint32_t nranks, int topology)
{
	uint64_t before = 0;

	ck_assert_msg(table->nrows > 0, "no rows: %u ranks, topology %d", nranks, topology);
	for (uint32_t i = 0; i < table->nrows; i++) {
		const struct launch_row *row = &table->row[i];

		ck_assert_uint_gt(row->up_to_bytes, before);
		before = row->up_to_bytes;
		ck_assert_uint_lt(row->algorithm, SYMM_ALGORITHMS);
		ck_assert(row->algorithm_other == SYMM_ONESHOT_PACKETS ||
			  row->algorithm_other == SYMM_TWOSHOT_PULL);
		ck_assert(row->blocks >= 1 && row->blocks <= SYMM_BLOCKS_MAX);
		ck_assert(row->threads % 32 == 0 && row->threads >= 32 && row->threads <= 512);
	}
	ck_assert_uint_eq(before, UINT64_MAX);
}

START_TEST(every_built_in_table_is_sound)
{
	for (int topology = 0; topology < LAUNCH_TOPOLOGIES; topology++) {
		for (uint32_t nranks = 1; nranks <= SYMM_RANKS_MAX; nranks++) {
			struct launch_table table;

			launch_table_builtin(nranks, (enum launch_topology)topology, &table);
			check_rows(&table, nranks, topology);
		}
	}
}
END_TEST

static bool is_staged(bool pcie, uint8_t algorithm, uint32_t nranks, uint64_t bytes)
{
	struct launch_table table = {
		.nrows = 1,
		.row = {{UINT64_MAX, algorithm, SYMM_TWOSHOT_PULL, 4, 256}},
		.blocks_max = SYMM_BLOCKS_MAX,
		.islands = true,
		.staged = pcie,
	};

	return launch_shape_of(&table, &roomy, nranks, bytes, BELAY_BF16).staged;
}

START_TEST(peers_are_served_in_order_where_a_worker_has_several_packets_for_one)
{
	/* 1024 workers: packets of 8 bytes of data, of 16, slices, and slices of halves. */
	ck_assert(!is_staged(true, SYMM_ONESHOT_PACKETS, 4, KB(8)));
	ck_assert(is_staged(true, SYMM_ONESHOT_PACKETS, 4, KB(8) + 1));
	ck_assert(!is_staged(true, SYMM_ONESHOT_WIRE, 4, KB(16)));
	ck_assert(is_staged(true, SYMM_ONESHOT_WIRE, 4, KB(16) + 1));
	ck_assert(!is_staged(true, SYMM_TWOSHOT_WIRE, 8, KB(128)));
	ck_assert(is_staged(true, SYMM_TWOSHOT_WIRE, 8, KB(128) + 1));
	ck_assert(!is_staged(true, SYMM_ISLAND, 8, KB(64)));
	ck_assert(is_staged(true, SYMM_ISLAND, 8, KB(64) + 1));
	ck_assert(!is_staged(true, SYMM_TWOSHOT_PULL, 8, KB(2048)));
	ck_assert(!is_staged(false, SYMM_TWOSHOT_WIRE, 8, KB(2048)));
	for (int t = 0; t < LAUNCH_TOPOLOGIES; t++) {
		struct launch_table table;

		launch_table_builtin(8, (enum launch_topology)t, &table);
		ck_assert_int_eq(table.staged, t == TOPOLOGY_PCIE);
		ck_assert(!table.islands);
	}
}
END_TEST

START_TEST(where_pushes_collapse_all_but_packets_is_pulled)
{
	for (uint8_t wanted = 0; wanted < SYMM_ALGORITHMS; wanted++) {
		struct launch_table table = {
			.nrows = 1,
			.row = {{UINT64_MAX, wanted, SYMM_ONESHOT_PACKETS, 8, 256}},
			.blocks_max = SYMM_BLOCKS_MAX,
			.islands = true,
			.pulls = true,
		};
		bool packets = wanted == SYMM_ONESHOT_PACKETS;

		ck_assert_uint_eq(launch_shape_of(&table, &roomy, 4, KB(64), BELAY_BF16).algorithm,
				  packets ? SYMM_ONESHOT_PACKETS : SYMM_TWOSHOT_PULL);
		ck_assert_uint_eq(launch_shape_of(&table, &roomy, 4, KB(64), BELAY_I32).algorithm,
				  SYMM_ONESHOT_PACKETS);
	}
}
END_TEST

START_TEST(only_grids_that_fit_twice_let_the_next_one_come_early)
{
	struct launch_table table = two_rows;

	table.row[1].blocks = 8;
	ck_assert(!launch_shape_of(&table, &roomy, 2, KB(1024), BELAY_F32).programmatic);
	table.pair_blocks_max = 7;
	ck_assert(!launch_shape_of(&table, &roomy, 2, KB(1024), BELAY_F32).programmatic);
	table.pair_blocks_max = 8;
	ck_assert(launch_shape_of(&table, &roomy, 2, KB(1024), BELAY_F32).programmatic);
	/* What counts is the grid that is launched. */
	table.pair_blocks_max = 1;
	ck_assert(launch_shape_of(&table, &roomy, 2, 1, BELAY_F32).programmatic);
	table.blocks_max = 1;
	ck_assert(launch_shape_of(&table, &roomy, 2, KB(1024), BELAY_F32).programmatic);
}
END_TEST

START_TEST(all_ranks_calls_fit_on_the_device_together)
{
	/* 132 multiprocessors: 8 stay empty on one's own, two for each rank on a shared one. */
	ck_assert_uint_eq(launch_blocks_max(132, 1, 1), 124);
	ck_assert_uint_eq(launch_blocks_max(132, 1, 2), 62);
	ck_assert_uint_eq(launch_blocks_max(132, 2, 1), 64);
	ck_assert_uint_eq(launch_blocks_max(132, 8, 1), 14);
	ck_assert_uint_eq(launch_blocks_max(132, 16, 2), 3);
	ck_assert_uint_eq(launch_blocks_max(132, 8, 2), 7);
	ck_assert_uint_eq(launch_blocks_max(1, 16, 2), 0);
	ck_assert_uint_eq(launch_blocks_max(0, 0, 0), 1);
	ck_assert_uint_eq(launch_blocks_max(10000, 1, 1), SYMM_BLOCKS_MAX);
}
END_TEST

START_TEST(names_are_those_of_the_tuning_file)
{
	ck_assert_str_eq(launch_algorithm_name(SYMM_TWOSHOT_PULL), "twoshot-pull");
	ck_assert_str_eq(launch_algorithm_name(SYMM_ISLAND), "island");
	ck_assert_str_eq(launch_algorithm_name(SYMM_ALGORITHMS), "unknown");
	ck_assert_str_eq(launch_topology_name(TOPOLOGY_ONE_DEVICE), "one_device");
	ck_assert_str_eq(launch_topology_name((enum launch_topology)LAUNCH_TOPOLOGIES), "unknown");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("launch_shape");
	TCase *c = tcase_create("launch_shape");

	tcase_add_loop_test(c, a_turn_takes_the_row_of_its_size, 0,
			    (int)(sizeof(rows) / sizeof(rows[0])));
	tcase_add_test(c, an_algorithm_without_room_gives_way);
	tcase_add_test(c,
		       islands_are_of_an_even_number_of_ranks_from_four_on_and_two_shot_elsewhere);
	tcase_add_test(c, no_grid_is_larger_than_what_fits_beside_the_others);
	tcase_add_test(c, threads_are_whole_warps_up_to_512);
	tcase_add_test(c, every_built_in_table_is_sound);
	tcase_add_test(c, peers_are_served_in_order_where_a_worker_has_several_packets_for_one);
	tcase_add_test(c, where_pushes_collapse_all_but_packets_is_pulled);
	tcase_add_test(c, only_grids_that_fit_twice_let_the_next_one_come_early);
	tcase_add_test(c, all_ranks_calls_fit_on_the_device_together);
	tcase_add_test(c, names_are_those_of_the_tuning_file);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
