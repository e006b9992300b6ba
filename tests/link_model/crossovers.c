/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what the link model says, as the tables of docs/path-choice.md:
 *
 *   crossovers figures   published figures and floors beside the model's
 *   crossovers best      the best algorithm by size, on each machine
 *   crossovers islands   islands against two-shot, by what passes between the halves
 *   crossovers ports     from which size two-shot is faster than one-shot, by what a port carries
 *   crossovers rows      the rows of a tuning file that follow
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/link_model/link_published.h"
#include "tests/link_model/link_rows.h"

#define K 1024.0
#define M (1024.0 * K)

/* What is so little worse than the best is as good, and the simpler one stands first. */
#define AS_GOOD 1.005

static const double sizes[] = {14 * K,	32 * K, 64 * K, 112 * K, 256 * K,
			       512 * K, 1 * M,	2 * M,	4 * M,	 8 * M};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void print_size(double bytes)
{
	if (bytes >= M)
		printf("%g MB", bytes / M);
	else if (bytes >= K)
		printf("%g KB", bytes / K);
	else
		printf("%g B", bytes);
}

/* ---- figures --------------------------------------------------------------------------------- */

static bool same_group(const struct link_published *a, const struct link_published *b)
{
	return b->setting && strcmp(a->setting, b->setting) == 0 && a->nranks == b->nranks;
}

/* The rows of one setting, on one line. */
static const struct link_published *print_group(const struct link_published *first)
{
	const struct link_published *end = first;

	while (same_group(first, end))
		end++;
	printf("| %s | %d |", first->setting, first->nranks);
	for (const struct link_published *row = first; row < end; row++) {
		printf("%s ", row == first ? "" : ",");
		print_size(row->bytes);
	}
	printf(" |");
	for (const struct link_published *row = first; row < end; row++)
		printf("%s %g", row == first ? "" : ",", row->us);
	printf(" |");
	for (const struct link_published *row = first; row < end; row++)
		printf("%s %.3g", row == first ? "" : ",", link_simulated_us(row));
	printf(" |");
	for (const struct link_published *row = first; row < end; row++)
		printf("%s %.2f%s", row == first ? "" : ",", link_simulated_us(row) / row->us,
		       row->role == LINK_FITTED	  ? " f"
		       : row->role == LINK_BEYOND ? " x"
						  : "");
	printf(" |\n");
	return end;
}

static void print_figures(void)
{
	static const struct link_published *const tables[] = {link_published, link_own_kernels,
							      link_floors};

	printf("| setting | N | sizes | us | model | ratio |\n| --- | --- | --- | --- | --- | --- "
	       "|\n");
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct link_published *row = tables[i]; row->setting;)
			row = print_group(row);
}

/* ---- the best algorithm ---------------------------------------------------------------------- */

/* Simple ones first. */
static const struct candidate {
	const char *name;
	enum link_schedule schedule;
	const struct link_software *software;
	int nranks_min;
} candidates[] = {
	{"packets", LINK_ONESHOT_PUSH, &link_belay_packets, 2},
	{"wire", LINK_ONESHOT_PUSH, &link_belay_wire, 2},
	{"two-shot", LINK_TWOSHOT_FLAT, &link_belay_wire, 2},
	{"pull", LINK_TWOSHOT_PULL, &link_belay_pull, 2},
	{"staged", LINK_TWOSHOT_STAGED, &link_belay_wire, 2},
	{"chunks", LINK_TWOSHOT_PIPELINED, &link_belay_wire, 2},
	{"pull all", LINK_TWOSHOT_PULL_ALL, &link_belay_pull, 2},
	{"islands", LINK_ISLAND, &link_belay_wire, 4},
};
#define CANDIDATES (sizeof(candidates) / sizeof(candidates[0]))

static void print_best(const struct link_machine *machine, int nranks, double bytes)
{
	double us[CANDIDATES], least = 0;
	size_t best = 0;

	for (size_t i = 0; i < CANDIDATES; i++) {
		if (nranks < candidates[i].nranks_min)
			continue;
		us[i] = link_time_us(machine, nranks, candidates[i].schedule,
				     candidates[i].software, bytes);
		if (i == 0 || us[i] < least)
			least = us[i];
	}
	while (us[best] > least * AS_GOOD)
		best++;
	printf(" %s %.3g |", candidates[best].name, us[best]);
}

/* Two and four GPUs of one switch are so on each machine. */
static const struct {
	const struct link_machine *machine;
	int nranks_min;
} places[] = {
	{&link_nvlink_8_h200, 2},	{&link_pcie_4_root_ports, 2},  {&link_pcie_8_one_switch, 8},
	{&link_pcie_8_two_switches, 2}, {&link_pcie_8_two_sockets, 2}, {&link_pcie_8_collapsing, 4},
};

static void print_best_table(void)
{
	printf("| machine | N |");
	for (size_t i = 0; i < SIZES; i++) {
		printf(" ");
		print_size(sizes[i]);
		printf(" |");
	}
	printf("\n| --- | --- |");
	for (size_t i = 0; i < SIZES; i++)
		printf(" --- |");
	printf("\n");
	for (size_t place = 0; place < sizeof(places) / sizeof(places[0]); place++) {
		const struct link_machine *machine = places[place].machine;

		for (int n = places[place].nranks_min; n <= machine->gpus; n *= 2) {
			printf("| %s | %d |", machine->name, n);
			for (size_t i = 0; i < SIZES; i++)
				print_best(machine, n, sizes[i]);
			printf("\n");
		}
	}
}

/* ---- islands --------------------------------------------------------------------------------- */

/* GB/s that each GPU has across, all at once. */
static const double across_gbps[] = {6, 13.1, 18, 24, 36, 52.5};

static void print_islands(void)
{
	static const double shown[] = {64 * K, 256 * K, 384 * K, 512 * K, 1 * M, 8 * M};

	printf("| GB/s a GPU |");
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		printf(" ");
		print_size(shown[i]);
		printf(" |");
	}
	printf("\n| --- | --- | --- | --- | --- | --- | --- |\n");
	for (size_t g = 0; g < sizeof(across_gbps) / sizeof(across_gbps[0]); g++) {
		struct link_machine machine = link_pcie_8_two_sockets;

		machine.node[8].gbps = machine.node[9].gbps = 4 * across_gbps[g];
		printf("| %g |", across_gbps[g]);
		for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
			printf(" %.2f |",
			       link_algorithm_us(&machine, 8, SYMM_ISLAND, false, shown[i]) /
				       link_algorithm_us(&machine, 8, SYMM_TWOSHOT_WIRE, false,
							 shown[i]));
		printf("\n");
	}
}

/* ---- ports ----------------------------------------------------------------------------------- */

static double twoshot_from(const struct link_machine *machine, int nranks)
{
	double bytes = 1 * K;

	while (link_algorithm_us(machine, nranks, SYMM_TWOSHOT_WIRE, false, bytes) >
	       link_algorithm_us(machine, nranks, SYMM_ONESHOT_WIRE, false, bytes))
		bytes += 1 * K;
	return bytes;
}

static void print_ports(void)
{
	/* What NCCL gets through a host bridge, what reads get, what writes get below a switch. */
	static const double gbps[] = {27, 35.3, 52.5};

	printf("| GB/s a GPU | N = 4 | N = 8 |\n| --- | --- | --- |\n");
	for (size_t g = 0; g < sizeof(gbps) / sizeof(gbps[0]); g++) {
		struct link_machine machine = link_pcie_8_one_switch;

		for (int i = 0; i < machine.gpus; i++)
			machine.node[i].gbps = gbps[g];
		printf("| %g |", gbps[g]);
		for (int n = 4; n <= 8; n *= 2) {
			printf(" ");
			print_size(twoshot_from(&machine, n));
			printf(" |");
		}
		printf("\n");
	}
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void print_rows(void)
{
	for (int n = 2; n <= 8; n *= 2) {
		struct launch_row rows[LAUNCH_ROWS_MAX];
		int nrows = link_rows(n, rows);

		for (int i = 0; i < nrows; i++) {
			const struct launch_row *row = &rows[i];
			bool last = row->up_to_bytes == UINT64_MAX;

			printf("ranks=%d topology=pcie up_to=%" PRIu64 "K algorithm=%s other=%s "
			       "blocks=%u threads=%u\n",
			       n, last ? 8192 : row->up_to_bytes / 1024,
			       launch_algorithm_name((enum symm_algorithm)row->algorithm),
			       launch_algorithm_name((enum symm_algorithm)row->algorithm_other),
			       row->blocks, row->threads);
		}
	}
}

static const struct {
	const char *name;
	void (*print)(void);
} parts[] = {
	{"figures", print_figures}, {"best", print_best_table}, {"islands", print_islands},
	{"ports", print_ports},	    {"rows", print_rows},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(argv[1], parts[i].name) == 0) {
			parts[i].print();
			return fflush(stdout) ? 1 : 0;
		}
	}
	fprintf(stderr, "usage: crossovers figures|best|islands|ports|rows\n");
	return 2;
}
