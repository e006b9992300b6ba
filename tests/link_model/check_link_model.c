/* SPDX-License-Identifier: Apache-2.0 */
/* The link model: its arithmetic, what must hold of every schedule on every machine, the published
 * figures, and the built-in rows that are made from it. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/link_model/link_published.h"
#include "tests/link_model/link_rows.h"

#define K	1024.0
#define NEAR_US 1e-6

/* Everything of the model but what is the links'. */
static const struct link_software nothing = {.name = "nothing", .wire = 1};

static struct flow_net net;

/* ---- the flow model alone -------------------------------------------------------------------- */

static int message_over(double bytes, int first, int second)
{
	struct flow_message message = {.bytes = bytes, .posted = true};

	flow_use(&message, first, 1);
	if (second >= 0)
		flow_use(&message, second, 1);
	return flow_add_message(&net, &message);
}

static void check_us(double got, double wanted)
{
	ck_assert_msg(fabs(got - wanted) < NEAR_US, "%.9f us, not %.9f", got, wanted);
}

START_TEST(a_message_takes_its_delay_its_bytes_and_its_latency)
{
	struct flow_message message = {.bytes = 1000, .delay_us = 2, .latency_us = 3};

	flow_init(&net);
	flow_use(&message, flow_add_link(&net, 100), 1);
	flow_add_message(&net, &message);
	check_us(flow_run(&net), 2 + 10 + 3);
	check_us(net.message[0].left_us, 12);
	ck_assert_double_eq_tol(net.link[0].bytes, 1000, 1e-6);
}
END_TEST

START_TEST(messages_share_a_link_and_the_last_one_has_it_alone)
{
	flow_init(&net);
	flow_add_link(&net, 100);
	message_over(1000, 0, -1);
	message_over(3000, 0, -1);
	flow_run(&net);
	check_us(net.message[0].arrived_us, 20); /* 1000 at 50 */
	check_us(net.message[1].arrived_us, 40); /* 1000 at 50, 2000 at 100 */
}
END_TEST

START_TEST(rates_are_fair_and_nothing_is_left_over)
{
	flow_init(&net);
	flow_add_link(&net, 100);
	flow_add_link(&net, 400);
	message_over(1000, 0, -1);
	message_over(1000, 0, 1);  /* 50, bound by the first link */
	message_over(3500, 1, -1); /* what that leaves of the second: 350 */
	flow_run(&net);
	check_us(net.message[0].arrived_us, 20);
	check_us(net.message[1].arrived_us, 20);
	check_us(net.message[2].arrived_us, 10);
}
END_TEST

START_TEST(a_use_takes_its_weight_of_a_link)
{
	struct flow_message message = {.bytes = 1000};

	flow_init(&net);
	flow_use(&message, flow_add_link(&net, 100), 4);
	flow_add_message(&net, &message);
	check_us(flow_run(&net), 40);
}
END_TEST

START_TEST(a_link_collapses_under_enough_writers_and_recovers)
{
	flow_init(&net);
	flow_add_link(&net, 100);
	net.link[0].collapse_senders = 2;
	net.link[0].collapsed = 10;
	for (int from = 0; from < 2; from++) {
		int message = message_over(100 + 900 * from, 0, -1);

		net.message[message].from = from;
	}
	flow_run(&net);
	check_us(net.message[0].arrived_us, 20);     /* 100 at 5 */
	check_us(net.message[1].arrived_us, 20 + 9); /* then 900 at 100 */
}
END_TEST

START_TEST(a_message_waits_for_others_to_leave_or_to_arrive)
{
	int first, second, third;

	flow_init(&net);
	flow_add_link(&net, 100);
	first = message_over(100, 0, -1);
	net.message[first].latency_us = 5;
	second = message_over(100, 0, -1);
	flow_wait_left(&net, second, first);
	third = message_over(0, 0, -1);
	flow_wait_arrived(&net, third, first);
	flow_run(&net);
	check_us(net.message[second].begin_us, 1);
	check_us(net.message[third].begin_us, 6);
}
END_TEST

START_TEST(messages_that_wait_for_each_other_are_told)
{
	flow_init(&net);
	flow_add_link(&net, 100);
	message_over(100, 0, -1);
	message_over(100, 0, -1);
	message_over(100, 0, -1);
	flow_wait_arrived(&net, 1, 2);
	flow_wait_left(&net, 2, 1);
	ck_assert_double_lt(flow_run(&net), 0);
	ck_assert_int_eq(net.message[0].state, FLOW_ARRIVED);
}
END_TEST

/* ---- every schedule on every machine --------------------------------------------------------- */

typedef void check_function(const struct link_machine *machine, int nranks,
			    enum link_schedule schedule, double bytes);

static bool can_run(const struct link_machine *machine, int nranks, enum link_schedule schedule)
{
	if (schedule == LINK_ISLAND)
		return nranks >= 4;
	/* What a switch sums it has to see. */
	return schedule != LINK_TWOSHOT_MULTICAST || machine->nodes == machine->gpus + 1;
}

static void for_all(check_function *check)
{
	static const double sizes[] = {8, 14 * K, 256 * K, 2048 * K};

	for (const struct link_machine *const *m = link_machines; *m; m++)
		for (int n = 2; n <= (*m)->gpus; n *= 2)
			for (int s = 0; s < LINK_SCHEDULES; s++)
				for (int i = 0; i < 4 && can_run(*m, n, (enum link_schedule)s); i++)
					check(*m, n, (enum link_schedule)s, sizes[i]);
}

static const char *case_name(const struct link_machine *machine, int nranks,
			     enum link_schedule schedule, double bytes)
{
	static char name[200];

	snprintf(name, sizeof(name), "%s, %d ranks, %s, %.0f bytes", machine->name, nranks,
		 link_schedule_name(schedule), bytes);
	return name;
}

/* What a rank sends and gets, in inputs of S bytes. */
static void amounts(int nranks, int rank, enum link_schedule schedule, double *ret_out,
		    double *ret_in)
{
	double n = nranks, half = n / 2;
	bool lower = rank < nranks / 2;

	switch (schedule) {
	case LINK_ONESHOT_PUSH:
	case LINK_ONESHOT_PULL:
		*ret_out = *ret_in = n - 1;
		break;
	case LINK_ISLAND: /* inputs and results within the half; two for a sum across, one back */
		*ret_out = (2 * (half - 1) + (lower ? 2 : 1)) / half;
		*ret_in = (2 * (half - 1) + (lower ? 1 : 2)) / half;
		break;
	case LINK_TWOSHOT_MULTICAST: /* each slice from each rank and to each, summed and once */
		*ret_out = *ret_in = 1 + 1 / n;
		break;
	default:
		*ret_out = *ret_in = 2 * (n - 1) / n;
		break;
	}
}

static void check_amounts(const struct link_machine *machine, int nranks,
			  enum link_schedule schedule, double bytes)
{
	link_build(&net, machine, nranks, schedule, &nothing, bytes);
	flow_run(&net);
	for (int r = 0; r < nranks; r++) {
		int gpu = link_gpu_of(machine, nranks, r);
		double out, in;

		amounts(nranks, r, schedule, &out, &in);
		out -= net.link[link_up(gpu)].bytes / bytes;
		in -= net.link[link_down(machine, gpu)].bytes / bytes;
		if (fabs(out) > 1e-6 || fabs(in) > 1e-6)
			ck_abort_msg("%s: rank %d is off by %g out, %g in",
				     case_name(machine, nranks, schedule, bytes), r, out, in);
	}
}

START_TEST(every_rank_sends_and_gets_what_its_algorithm_must_move)
{
	for_all(check_amounts);
}
END_TEST

/* Across, from the lower half up to the upper one and back, in inputs of S bytes: eight ranks. */
static const struct {
	enum link_schedule schedule;
	double up, back;
} across[] = {
	{LINK_RING, 14.0 / 8, 14.0 / 8},
	{LINK_ONESHOT_PUSH, 16, 16},
	{LINK_ONESHOT_PULL, 16, 16},
	{LINK_TWOSHOT_FLAT, 4, 4},
	{LINK_TWOSHOT_STAGED, 4, 4},
	{LINK_TWOSHOT_PIPELINED, 4, 4},
	{LINK_TWOSHOT_PULL, 4, 4},
	{LINK_TWOSHOT_PULL_ALL, 4, 4},
	{LINK_ISLAND, 2, 1},
};

START_TEST(what_goes_between_the_halves_is_what_it_must_be)
{
	const struct link_machine *machine = &link_pcie_8_two_sockets;

	link_build(&net, machine, 8, across[_i].schedule, &nothing, 256 * K);
	flow_run(&net);
	ck_assert_double_eq_tol(net.link[link_up(8)].bytes / (256 * K), across[_i].up, 1e-6);
	ck_assert_double_eq_tol(net.link[link_down(machine, 9)].bytes / (256 * K), across[_i].up,
				1e-6);
	ck_assert_double_eq_tol(net.link[link_up(9)].bytes / (256 * K), across[_i].back, 1e-6);
}
END_TEST

static double bottleneck(const struct flow_message *message)
{
	double least = INFINITY;

	for (int u = 0; u < message->nuses; u++)
		least = fmin(least,
			     net.link[message->use[u].link].capacity / message->use[u].weight);
	return least;
}

/* No message begins before what it waits for, or is faster than its narrowest link and latency. */
static void check_causality(const struct link_machine *machine, int nranks,
			    enum link_schedule schedule, double bytes)
{
	const char *name = case_name(machine, nranks, schedule, bytes);

	link_build(&net, machine, nranks, schedule, &link_belay_pull, bytes);
	if (flow_run(&net) < 0)
		ck_abort_msg("%s: messages wait for each other", name);
	for (int i = 0; i < net.nmessages; i++) {
		const struct flow_message *m = &net.message[i];
		double fastest = m->delay_us + m->bytes / bottleneck(m);

		if (m->left_us < m->begin_us + fastest - NEAR_US)
			ck_abort_msg("%s: message %d is too fast", name, i);
		if (m->arrived_us < m->left_us + m->latency_us - NEAR_US)
			ck_abort_msg("%s: message %d arrives too early", name, i);
		for (int w = m->first_wait; w >= 0; w = net.wait[w].next) {
			double happened = net.wait[w].left ? m->left_us : m->arrived_us;

			if (net.message[net.wait[w].waiter].begin_us < happened - NEAR_US)
				ck_abort_msg("%s: message %d was not waited for", name, i);
		}
	}
}

START_TEST(nothing_happens_before_its_cause)
{
	for_all(check_causality);
}
END_TEST

/* Whoever flows moves, and no link carries more than it can. */
static void check_capacity(const struct link_machine *machine, int nranks,
			   enum link_schedule schedule, double bytes)
{
	const char *name = case_name(machine, nranks, schedule, bytes);
	double us;

	link_build(&net, machine, nranks, schedule, &nothing, bytes);
	us = flow_run(&net);
	/* 2.7 GB/s among eight writers of up to two messages each is the worst that there is. */
	if (net.least_rate < 2.7e3 / 16)
		ck_abort_msg("%s: a message had only %g bytes/us", name, net.least_rate);
	for (int i = 0; i < 2 * machine->nodes; i++)
		if (net.link[i].bytes > net.link[i].capacity * us + 1)
			ck_abort_msg("%s: link %d has carried too much", name, i);
}

START_TEST(nobody_starves_and_no_link_carries_more_than_it_can)
{
	for_all(check_capacity);
}
END_TEST

static double done_us(int rank)
{
	double last = 0;

	for (int i = 0; i < net.nmessages; i++)
		if (net.message[i].to == rank)
			last = fmax(last, net.message[i].arrived_us);
	return last;
}

/* Where all ranks are placed alike, and do alike. */
static void check_symmetry(const struct link_machine *machine, int nranks,
			   enum link_schedule schedule, double bytes)
{
	if (machine->nodes > machine->gpus + 1 || schedule == LINK_ISLAND)
		return;
	link_build(&net, machine, nranks, schedule, &link_belay_wire, bytes);
	flow_run(&net);
	for (int r = 1; r < nranks; r++)
		if (fabs(done_us(r) - done_us(0)) > NEAR_US)
			ck_abort_msg("%s: rank %d ends at %g, rank 0 at %g",
				     case_name(machine, nranks, schedule, bytes), r, done_us(r),
				     done_us(0));
}

START_TEST(ranks_that_do_alike_end_alike)
{
	for_all(check_symmetry);
}
END_TEST

static void check_repeats(const struct link_machine *machine, int nranks,
			  enum link_schedule schedule, double bytes)
{
	double us = link_time_us(machine, nranks, schedule, &link_belay_wire, bytes);
	double larger = link_time_us(machine, nranks, schedule, &link_belay_wire, 1.5 * bytes);

	if (us != link_time_us(machine, nranks, schedule, &link_belay_wire, bytes))
		ck_abort_msg("%s: not the same twice", case_name(machine, nranks, schedule, bytes));
	/* More chunks may save a part of a latency. */
	if (larger < us - 2)
		ck_abort_msg("%s: half as much again is faster",
			     case_name(machine, nranks, schedule, bytes));
}

START_TEST(a_run_repeats_and_more_bytes_take_longer)
{
	for_all(check_repeats);
}
END_TEST

/* On paper: two latencies and 2 (N-1)/N S over the port; half as much in one-shot. */
START_TEST(the_arithmetic_is_that_of_paper)
{
	const struct link_machine *machine = &link_pcie_8_one_switch;
	double slice_us = 1024 * K / 8 / 52.5e3;

	check_us(link_time_us(machine, 8, LINK_ONESHOT_PUSH, &nothing, 1024 * K),
		 7 * 8 * slice_us + 0.70);
	check_us(link_time_us(machine, 8, LINK_TWOSHOT_FLAT, &nothing, 1024 * K),
		 2 * (7 * slice_us + 0.70));
	check_us(link_time_us(machine, 8, LINK_TWOSHOT_STAGED, &nothing, 1024 * K),
		 2 * (7 * slice_us + 0.70));
	check_us(link_time_us(machine, 8, LINK_RING, &nothing, 1024 * K), 14 * (slice_us + 0.70));
	/* Across sockets: half of what each of four sends, twice, at 24 GB/s a GPU. */
	check_us(link_time_us(&link_pcie_8_two_sockets, 8, LINK_TWOSHOT_FLAT, &nothing, 1024 * K),
		 2 * (4 * 1024 * K / 8 / 24e3 + 1.07));
}
END_TEST

/* Almost no bytes: one way below a switch, across sockets, or over NVLink, so many times. */
static const struct {
	enum link_schedule schedule;
	const struct link_machine *machine;
	double us;
} latencies[] = {
	{LINK_RING, &link_pcie_8_one_switch, 14 * 0.70},
	{LINK_ONESHOT_PUSH, &link_pcie_8_one_switch, 0.70},
	{LINK_ONESHOT_PULL, &link_pcie_8_one_switch, 0.70 + 2 * 0.70 + 0.70},
	{LINK_TWOSHOT_FLAT, &link_pcie_8_two_sockets, 2 * 1.07},
	{LINK_TWOSHOT_STAGED, &link_pcie_8_two_sockets, 2 * 1.07},
	{LINK_TWOSHOT_PIPELINED, &link_pcie_8_two_sockets, 2 * 1.07},
	{LINK_TWOSHOT_PULL, &link_pcie_8_one_switch, 0.70 + 2 * 0.70 + 0.70},
	{LINK_TWOSHOT_PULL_ALL, &link_pcie_8_one_switch, 2 * (0.70 + 2 * 0.70)},
	/* Within, across, back across, within. */
	{LINK_ISLAND, &link_pcie_8_two_sockets, 0.70 + 1.07 + 1.07 + 0.70},
	{LINK_TWOSHOT_MULTICAST, &link_nvlink_8_h200, 0.5 + 2 * 0.5 + 0.5},
};

START_TEST(a_small_call_takes_the_latencies_of_its_steps)
{
	ck_assert_double_eq_tol(
		link_time_us(latencies[_i].machine, 8, latencies[_i].schedule, &nothing, 8),
		latencies[_i].us, 0.002);
}
END_TEST

/* ---- figures --------------------------------------------------------------------------------- */

static void check_figures(const struct link_published *rows)
{
	for (const struct link_published *row = rows; row->setting; row++) {
		double ratio = link_simulated_us(row) / row->us;
		bool within = fabs(ratio - 1) <= LINK_TOLERANCE;

		ck_assert_msg(within || row->role == LINK_BEYOND, "%s, %.0f bytes: %.2f of %g us",
			      row->setting, row->bytes, ratio, row->us);
		ck_assert_msg(row->role != LINK_BEYOND || (!within && row->note),
			      "%s, %.0f bytes: within after all, or no reason is given",
			      row->setting, row->bytes);
	}
}

START_TEST(published_figures_are_reproduced_within_20_percent)
{
	check_figures(link_published);
}
END_TEST

START_TEST(own_kernels_are_reproduced_within_20_percent)
{
	check_figures(link_own_kernels);
}
END_TEST

START_TEST(floors_are_reproduced_within_20_percent)
{
	check_figures(link_floors);
}
END_TEST

START_TEST(twice_as_many_figures_are_checked_as_were_fitted)
{
	int count[LINK_BEYOND + 1] = {0};

	for (const struct link_published *row = link_published; row->setting; row++)
		count[row->role]++;
	ck_assert_int_gt(count[LINK_CHECKED], 2 * count[LINK_FITTED]);
	ck_assert_int_eq(count[LINK_BEYOND], 1);
}
END_TEST

/* ---- what docs/path-choice.md says of orders and islands ---------------------------------------
 */

static double with_belay(const struct link_machine *machine, enum link_schedule schedule)
{
	bool pulls = schedule == LINK_TWOSHOT_PULL || schedule == LINK_TWOSHOT_PULL_ALL;

	return link_time_us(machine, 8, schedule, pulls ? &link_belay_pull : &link_belay_wire,
			    2048 * K);
}

START_TEST(staged_order_pays_only_where_a_switch_collapses)
{
	const struct link_machine *collapsing = &link_pcie_8_collapsing;

	ck_assert_double_eq_tol(with_belay(&link_pcie_8_one_switch, LINK_TWOSHOT_STAGED),
				with_belay(&link_pcie_8_one_switch, LINK_TWOSHOT_FLAT), 1e-6);
	ck_assert_double_gt(with_belay(&link_pcie_8_two_sockets, LINK_TWOSHOT_STAGED),
			    1.1 * with_belay(&link_pcie_8_two_sockets, LINK_TWOSHOT_FLAT));
	ck_assert_double_lt(10 * with_belay(collapsing, LINK_TWOSHOT_STAGED),
			    with_belay(collapsing, LINK_TWOSHOT_FLAT));
}
END_TEST

START_TEST(pulling_helps_a_switch_that_collapses_only_if_results_are_pulled_too)
{
	const struct link_machine *collapsing = &link_pcie_8_collapsing;

	ck_assert_double_gt(with_belay(collapsing, LINK_TWOSHOT_PULL),
			    5 * with_belay(collapsing, LINK_TWOSHOT_PULL_ALL));
}
END_TEST

START_TEST(islands_pay_where_little_passes_between_the_halves)
{
	ck_assert_double_lt(1.3 * with_belay(&link_pcie_8_two_switches, LINK_ISLAND),
			    with_belay(&link_pcie_8_two_switches, LINK_TWOSHOT_FLAT));
	ck_assert_double_gt(with_belay(&link_pcie_8_two_sockets, LINK_ISLAND),
			    with_belay(&link_pcie_8_two_sockets, LINK_TWOSHOT_FLAT));
}
END_TEST

/* ---- what follows ---------------------------------------------------------------------------- */

START_TEST(the_built_in_rows_of_pcie_are_the_models)
{
	int nranks = 2 << _i;
	struct launch_row rows[LAUNCH_ROWS_MAX];
	struct launch_table table;
	int nrows = link_rows(nranks, rows);

	launch_table_builtin((uint32_t)nranks, TOPOLOGY_PCIE, &table);
	ck_assert_uint_eq(table.nrows, (uint32_t)nrows);
	for (int i = 0; i < nrows; i++)
		ck_assert_msg(rows[i].up_to_bytes == table.row[i].up_to_bytes &&
				      rows[i].algorithm == table.row[i].algorithm &&
				      rows[i].algorithm_other == table.row[i].algorithm_other &&
				      rows[i].blocks == table.row[i].blocks &&
				      rows[i].threads == table.row[i].threads,
			      "%d ranks, row %d: crossovers rows has another one", nranks, i);
}
END_TEST

/* Rows that were guessed before there was a model; those of two ranks are measured, and know how
 * many packets a thread of each kernel waits for. */
START_TEST(the_built_in_rows_of_nvlink_are_within_15_percent_of_the_models_best)
{
	const struct link_machine *machine = &link_nvlink_8_h200;
	int nranks = 2 << _i;
	struct launch_table table;

	launch_table_builtin((uint32_t)nranks, TOPOLOGY_NVLINK, &table);
	for (double bytes = 1 * K; bytes <= 8192 * K; bytes *= 1.5) {
		double best = INFINITY, chosen;
		uint32_t row = 0;

		for (int a = 0; a <= SYMM_TWOSHOT_PULL; a++)
			best = fmin(best, link_algorithm_us(machine, nranks, (enum symm_algorithm)a,
							    false, bytes));
		while (bytes > (double)table.row[row].up_to_bytes)
			row++;
		chosen = link_algorithm_us(machine, nranks,
					   (enum symm_algorithm)table.row[row].algorithm, false,
					   bytes);
		ck_assert_msg(chosen <= 1.15 * best, "%d ranks, %.0f bytes: %.2f of the best",
			      nranks, bytes, chosen / best);
	}
}
END_TEST

/* Numbers in between take the rows of the next one. */
START_TEST(other_numbers_of_ranks_take_the_rows_of_a_larger_one)
{
	static const uint32_t as[][2] = {{3, 4}, {5, 8}, {6, 8}, {7, 8}, {12, 8}};

	for (size_t i = 0; i < sizeof(as) / sizeof(as[0]); i++) {
		struct launch_table one, other;

		launch_table_builtin(as[i][0], TOPOLOGY_PCIE, &one);
		launch_table_builtin(as[i][1], TOPOLOGY_PCIE, &other);
		ck_assert_uint_eq(one.nrows, other.nrows);
		ck_assert_mem_eq(one.row, other.row, one.nrows * sizeof(one.row[0]));
	}
}
END_TEST

static TCase *add_case(Suite *all, const char *name)
{
	TCase *c = tcase_create(name);

	suite_add_tcase(all, c);
	return c;
}

static Suite *suite(void)
{
	Suite *all = suite_create("link_model");
	TCase *flow = add_case(all, "flow"), *schedules = add_case(all, "schedules");
	TCase *figures = add_case(all, "figures"), *rows = add_case(all, "rows");

	tcase_add_test(flow, a_message_takes_its_delay_its_bytes_and_its_latency);
	tcase_add_test(flow, messages_share_a_link_and_the_last_one_has_it_alone);
	tcase_add_test(flow, rates_are_fair_and_nothing_is_left_over);
	tcase_add_test(flow, a_use_takes_its_weight_of_a_link);
	tcase_add_test(flow, a_link_collapses_under_enough_writers_and_recovers);
	tcase_add_test(flow, a_message_waits_for_others_to_leave_or_to_arrive);
	tcase_add_test(flow, messages_that_wait_for_each_other_are_told);

	tcase_add_test(schedules, every_rank_sends_and_gets_what_its_algorithm_must_move);
	tcase_add_loop_test(schedules, what_goes_between_the_halves_is_what_it_must_be, 0,
			    (int)(sizeof(across) / sizeof(across[0])));
	tcase_add_test(schedules, nothing_happens_before_its_cause);
	tcase_add_test(schedules, nobody_starves_and_no_link_carries_more_than_it_can);
	tcase_add_test(schedules, ranks_that_do_alike_end_alike);
	tcase_add_test(schedules, a_run_repeats_and_more_bytes_take_longer);
	tcase_add_test(schedules, the_arithmetic_is_that_of_paper);
	tcase_add_loop_test(schedules, a_small_call_takes_the_latencies_of_its_steps, 0,
			    (int)(sizeof(latencies) / sizeof(latencies[0])));

	tcase_add_test(figures, published_figures_are_reproduced_within_20_percent);
	tcase_add_test(figures, own_kernels_are_reproduced_within_20_percent);
	tcase_add_test(figures, floors_are_reproduced_within_20_percent);
	tcase_add_test(figures, twice_as_many_figures_are_checked_as_were_fitted);

	tcase_add_test(figures, staged_order_pays_only_where_a_switch_collapses);
	tcase_add_test(figures,
		       pulling_helps_a_switch_that_collapses_only_if_results_are_pulled_too);
	tcase_add_test(figures, islands_pay_where_little_passes_between_the_halves);

	tcase_add_loop_test(rows, the_built_in_rows_of_pcie_are_the_models, 0, 3);
	tcase_add_loop_test(
		rows, the_built_in_rows_of_nvlink_are_within_15_percent_of_the_models_best, 1, 3);
	tcase_add_test(rows, other_numbers_of_ranks_take_the_rows_of_a_larger_one);
	return all;
}

#include "tests/unit/check_main.h"
