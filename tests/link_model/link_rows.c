/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the launch table. See link_rows.h. */
#include "tests/link_model/link_rows.h"

#include <stddef.h>

#include "tests/link_model/link_published.h"

#define MACHINES_MAX 3
#define BYTES_FIRST  1024.0
#define BYTES_LAST   (8192 * 1024.0)

/* A row that is so little worse than the best one is not worth another row. */
#define WORTH_A_ROW 1.02

/*
 * What keeps a link busy: as many bytes as it carries in the time of an exchange, 52.5 GB/s for
 * 0.70 us on the link and 0.5 us of software. A worker has one store of 16 bytes on its way. The
 * model knows nothing of blocks; 256 workers is what is best for most sizes elsewhere.
 */
#define WORKERS ((int)(52.5e3 * (0.70 + 0.5) / 16))
#define THREADS 256
#define BLOCKS	((WORKERS + THREADS - 1) / THREADS)

/* The machines that ranks on PCIe may be on: nothing tells them apart but whether their halves are
 * on two NUMA nodes, as on the last two of eight. */
static int machines_of(int nranks, const struct link_machine *ret[MACHINES_MAX])
{
	int n = 0;

	ret[n++] = nranks == 8 ? &link_pcie_8_one_switch : &link_pcie_4_root_ports;
	ret[n++] = &link_pcie_8_two_switches;
	ret[n++] = &link_pcie_8_two_sockets;
	return n;
}

static bool makes_islands(const struct link_machine *machine, int nranks)
{
	return nranks >= 4 && machine->nodes > machine->gpus + 1;
}

double link_algorithm_us(const struct link_machine *machine, int nranks,
			 enum symm_algorithm algorithm, bool other, double bytes)
{
	const struct link_software *software = &link_belay_wire;
	enum link_schedule schedule = LINK_TWOSHOT_FLAT;

	if (algorithm == SYMM_ONESHOT_PACKETS || algorithm == SYMM_ONESHOT_WIRE)
		schedule = LINK_ONESHOT_PUSH;
	if (algorithm == SYMM_ONESHOT_PACKETS)
		software = &link_belay_packets;
	if (algorithm == SYMM_TWOSHOT_PULL) {
		schedule = other ? LINK_TWOSHOT_PULL_ALL : LINK_TWOSHOT_PULL;
		software = &link_belay_pull;
	}
	if (algorithm == SYMM_ISLAND && makes_islands(machine, nranks))
		schedule = LINK_ISLAND;
	return link_time_us(machine, nranks, schedule, software, bytes);
}

/* ---- one choice ------------------------------------------------------------------------------ */

/* A column of the table. */
struct column {
	bool other;
	int n;
	enum symm_algorithm algorithm[SYMM_ALGORITHMS];
};

static const struct column floats = {
	.n = 5,
	.algorithm = {SYMM_ONESHOT_PACKETS, SYMM_ONESHOT_WIRE, SYMM_TWOSHOT_WIRE, SYMM_TWOSHOT_PULL,
		      SYMM_ISLAND},
};

static const struct column others = {
	.other = true,
	.n = 2,
	.algorithm = {SYMM_ONESHOT_PACKETS, SYMM_TWOSHOT_PULL},
};

/* For each algorithm of a column: how many times as long as the best one it takes, on the machine
 * where that is worst. */
static void regrets(int nranks, const struct column *column, double bytes, double *ret_regret)
{
	const struct link_machine *machines[MACHINES_MAX];
	int nmachines = machines_of(nranks, machines);

	for (int i = 0; i < column->n; i++)
		ret_regret[i] = 0;
	for (int m = 0; m < nmachines; m++) {
		double us[SYMM_ALGORITHMS], best = 0;

		for (int i = 0; i < column->n; i++) {
			us[i] = link_algorithm_us(machines[m], nranks, column->algorithm[i],
						  column->other, bytes);
			best = i == 0 || us[i] < best ? us[i] : best;
		}
		for (int i = 0; i < column->n; i++)
			if (us[i] / best > ret_regret[i])
				ret_regret[i] = us[i] / best;
	}
}

/* Whether a region has slots for it; two-shot slots take every turn. */
static bool has_room(int nranks, enum symm_algorithm algorithm, double bytes)
{
	struct symm_layout layout;

	symm_layout_make((uint32_t)nranks, (uint64_t)BYTES_LAST, &layout);
	if (algorithm == SYMM_ONESHOT_PACKETS)
		return bytes <= (double)layout.packets_bytes;
	if (algorithm == SYMM_ONESHOT_WIRE)
		return bytes <= (double)layout.wire_bytes;
	return true;
}

/* The index in its column: of what has been good so far, while it is; else of the best. */
static int choose(int nranks, const struct column *column, double bytes, int before)
{
	double regret[SYMM_ALGORITHMS];
	int best = column->n - 1;

	regrets(nranks, column, bytes, regret);
	for (int i = column->n - 1; i >= 0; i--)
		if (regret[i] <= regret[best] && has_room(nranks, column->algorithm[i], bytes))
			best = i;
	if (before >= 0 && regret[before] <= regret[best] * WORTH_A_ROW &&
	    has_room(nranks, column->algorithm[before], bytes))
		return before;
	return best;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The sizes that are looked at: powers of two, and half as much again. */
static double next_size(double bytes)
{
	double power = BYTES_FIRST;

	while (2 * power <= bytes)
		power *= 2;
	return bytes < 1.5 * power ? 1.5 * power : 2 * power;
}

/* A turn of so many bytes goes by the row before, or begins one. */
static int extend(struct launch_row *rows, int n, double bytes, enum symm_algorithm algorithm,
		  enum symm_algorithm other)
{
	if (n == 0 || rows[n - 1].algorithm != algorithm || rows[n - 1].algorithm_other != other)
		rows[n++] = (struct launch_row){
			.algorithm = (uint8_t)algorithm,
			.algorithm_other = (uint8_t)other,
			.blocks = BLOCKS,
			.threads = THREADS,
		};
	rows[n - 1].up_to_bytes = (uint64_t)bytes;
	return n;
}

int link_rows(int nranks, struct launch_row ret_rows[LAUNCH_ROWS_MAX])
{
	int n = 0, algorithm = -1, other = -1;

	for (double bytes = BYTES_FIRST; bytes <= BYTES_LAST; bytes = next_size(bytes)) {
		algorithm = choose(nranks, &floats, bytes, algorithm);
		other = choose(nranks, &others, bytes, other);
		n = extend(ret_rows, n, bytes, floats.algorithm[algorithm],
			   others.algorithm[other]);
	}
	ret_rows[n - 1].up_to_bytes = UINT64_MAX;
	return n;
}
