/* SPDX-License-Identifier: Apache-2.0 */
/* Machines of the link model: one constant, one source. See link_machines.h. */
#include "tests/link_model/link_machines.h"

#include <stddef.h>

/*
 * NVLink of H100 and H200, 18 links: 370 GB/s a direction is what one-shot allreduces of 64 KB to
 * 2 MB come to on two H200 (measured there alone: stores 362, both ways at once 355 each, loads
 * 362). A flag takes 0.61 us from one multiprocessor to another one of the peer; of that 0.1 is
 * counted as software (link_schedules.h) and 0.5 as the link's.
 */
#define NVLINK_GBPS 370
#define NVLINK_US   0.5

/*
 * PCIe 5.0, 16 lanes: 63 GB/s of symbols; 50 to 55 of data are published for writes between GPUs.
 * One way 0.70 us below one switch and 1.07 us across switches or sockets (published, PCIe 5.0).
 */
#define PCIE_GBPS      52.5
#define PCIE_SWITCH_US 0.70
#define PCIE_ACROSS_US 1.07

/* Between two sockets: 24 GB/s for each of four GPUs when all write across at once (published). */
#define SOCKET_GBPS (4 * 24)

/*
 * Reads over PCIe are bound by how much a GPU may have asked for. Fitted on one published row, four
 * GPUs that read each other's 512 KB in 51 us: 35.3 GB/s, with 2 x 0.70 us there and back.
 */
#define PCIE_READ_WINDOW (35.3e3 * 2 * PCIE_SWITCH_US)

/* Published of one kind of switch: 2.7 GB/s instead of 51 once many write; from how many on is not
 * known, three is a guess. */
#define COLLAPSE_SENDERS 3
#define COLLAPSED_GBPS	 2.7

/* clang-format off */
#define NVLINK_GPU(parent)	{ parent, NVLINK_GBPS, 0 }
#define PCIE_GPU(parent)	{ parent, PCIE_GBPS, 0 }
#define ROOT(turn_us)		{ -1, 0, turn_us }

const struct link_machine link_nvlink_8_h200 = {
	.name = "8x H200, NVLink", .gpus = 8, .nodes = 9,
	.node = { NVLINK_GPU(8), NVLINK_GPU(8), NVLINK_GPU(8), NVLINK_GPU(8),
		  NVLINK_GPU(8), NVLINK_GPU(8), NVLINK_GPU(8), NVLINK_GPU(8), ROOT(NVLINK_US) },
};

const struct link_machine link_nvlink_4_h100 = {
	.name = "4x H100, NVLink", .gpus = 4, .nodes = 5,
	.node = { NVLINK_GPU(4), NVLINK_GPU(4), NVLINK_GPU(4), NVLINK_GPU(4), ROOT(NVLINK_US) },
};

/* RTX PRO 6000. Whether a switch or one host bridge's root ports join them makes no difference to
 * the model. */
const struct link_machine link_pcie_4_root_ports = {
	.name = "4x PCIe 5.0, one switch or host bridge", .gpus = 4, .nodes = 5,
	.node = { PCIE_GPU(4), PCIE_GPU(4), PCIE_GPU(4), PCIE_GPU(4), ROOT(PCIE_SWITCH_US) },
	.read_window_bytes = PCIE_READ_WINDOW,
};

#define EIGHT_ON_ONE_SWITCH \
	.gpus = 8, .nodes = 9, \
	.node = { PCIE_GPU(8), PCIE_GPU(8), PCIE_GPU(8), PCIE_GPU(8), \
		  PCIE_GPU(8), PCIE_GPU(8), PCIE_GPU(8), PCIE_GPU(8), ROOT(PCIE_SWITCH_US) }, \
	.read_window_bytes = PCIE_READ_WINDOW

/* 144 lanes serve eight GPUs and the host. */
const struct link_machine link_pcie_8_one_switch = {
	.name = "8x PCIe 5.0, one switch", EIGHT_ON_ONE_SWITCH,
};

const struct link_machine link_pcie_8_collapsing = {
	.name = "8x PCIe 5.0, one switch that collapses", EIGHT_ON_ONE_SWITCH,
	.collapse_senders = COLLAPSE_SENDERS, .collapsed_gbps = COLLAPSED_GBPS,
};

/* Two switches of four GPUs, each with 16 lanes up: to one host bridge, or each to its own socket's;
 * the links between the sockets carry more than that. */
const struct link_machine link_pcie_8_two_switches = {
	.name = "8x PCIe 5.0, two switches", .gpus = 8, .nodes = 11,
	.node = { PCIE_GPU(8), PCIE_GPU(8), PCIE_GPU(8), PCIE_GPU(8),
		  PCIE_GPU(9), PCIE_GPU(9), PCIE_GPU(9), PCIE_GPU(9),
		  { 10, PCIE_GBPS, PCIE_SWITCH_US }, { 10, PCIE_GBPS, PCIE_SWITCH_US },
		  ROOT(PCIE_ACROSS_US) },
	.read_window_bytes = PCIE_READ_WINDOW,
};

/* Four GPUs on the root ports of each socket. */
const struct link_machine link_pcie_8_two_sockets = {
	.name = "8x PCIe 5.0, two sockets", .gpus = 8, .nodes = 11,
	.node = { PCIE_GPU(8), PCIE_GPU(8), PCIE_GPU(8), PCIE_GPU(8),
		  PCIE_GPU(9), PCIE_GPU(9), PCIE_GPU(9), PCIE_GPU(9),
		  { 10, SOCKET_GBPS, PCIE_SWITCH_US }, { 10, SOCKET_GBPS, PCIE_SWITCH_US },
		  ROOT(PCIE_ACROSS_US) },
	.read_window_bytes = PCIE_READ_WINDOW,
};
/* clang-format on */

const struct link_machine *const link_machines[] = {
	&link_nvlink_8_h200,	   &link_nvlink_4_h100,
	&link_pcie_4_root_ports,   &link_pcie_8_one_switch,
	&link_pcie_8_two_switches, &link_pcie_8_two_sockets,
	&link_pcie_8_collapsing,   NULL,
};

int link_gpu_of(const struct link_machine *machine, int nranks, int rank)
{
	return rank * machine->gpus / nranks;
}

static int is_above(const struct link_machine *machine, int node, int gpu)
{
	while (gpu >= 0 && gpu != node)
		gpu = machine->node[gpu].parent;
	return gpu == node;
}

int link_turn(const struct link_machine *machine, int gpu_a, int gpu_b)
{
	int node = machine->node[gpu_a].parent;

	while (!is_above(machine, node, gpu_b))
		node = machine->node[node].parent;
	return node;
}
