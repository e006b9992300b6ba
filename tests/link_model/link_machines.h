/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines as trees: GPUs at the leaves, switches and host bridges above them. Each GPU, switch and
 * bridge has one link upwards, full duplex. A message goes up to the first node that is above both
 * ends, turns there and goes down; where it turns decides its latency.
 */
#ifndef BELAY_TESTS_LINK_MACHINES_H
#define BELAY_TESTS_LINK_MACHINES_H

#define LINK_GPUS_MAX  8
#define LINK_NODES_MAX 12

struct link_node {
	int parent;	/* -1: the root */
	double gbps;	/* of its link upwards, each direction; the root has none */
	double turn_us; /* latency of what turns here; a GPU: 0 */
};

struct link_machine {
	const char *name;
	int gpus; /* the first nodes */
	int nodes;
	struct link_node node[LINK_NODES_MAX];
	/* Bytes that a GPU has asked for and not got: what bounds reads. 0: links only. */
	double read_window_bytes;
	/* Writes of so many GPUs into one GPU at once leave its link only so fast; 0: never. */
	int collapse_senders;
	double collapsed_gbps;
};

extern const struct link_machine link_nvlink_8_h200, link_nvlink_4_h100, link_pcie_4_root_ports,
	link_pcie_8_one_switch, link_pcie_8_two_switches, link_pcie_8_two_sockets,
	link_pcie_8_collapsing;

/* All of the above; NULL ends the list. */
extern const struct link_machine *const link_machines[];

/* The GPU of a rank: spread over the machine, so that halves of the ranks are halves of it. */
int link_gpu_of(const struct link_machine *machine, int nranks, int rank);

/* The first node above both. */
int link_turn(const struct link_machine *machine, int gpu_a, int gpu_b);

#endif /* BELAY_TESTS_LINK_MACHINES_H */
