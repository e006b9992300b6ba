/* SPDX-License-Identifier: Apache-2.0 */
/* Published and measured figures. See link_published.h. */
#include "tests/link_model/link_published.h"

#define K 1024.0
#define M (1024.0 * K)

/* ---- software --------------------------------------------------------------------------------
 * node_us, exchange_us: where a row below is marked as fitted, by that row. */

/* What the floors were calculated with: 1.3 us a node of a graph, 0.5 us an exchange. */
static const struct link_software floor_ = {
	.name = "calculated", .node_us = 1.3, .exchange_us = 0.5, .wire = 1};

/* ... and with packets of 4 bytes of data and 4 of flag. */
static const struct link_software floor_packets = {
	.name = "calculated", .node_us = 1.3, .exchange_us = 0.5, .wire = 2};

/* NCCL's ring, protocol LL128: 120 of 128 bytes are data. NCCL itself reckons with 1.9 us a step on
 * NVLink (its tuning table, "hwLat"), which is more than was measured. */
static const struct link_software nccl_ll128 = {
	.name = "NCCL LL128", .node_us = 4.5, .exchange_us = 0.57, .wire = 128.0 / 120};

/* ... protocol LL, half of the wire is flags. Through a host bridge its blocks bring no more than
 * 27 GB/s onto the wire. */
static const struct link_software nccl_ll = {
	.name = "NCCL LL", .node_us = 4.5, .exchange_us = 0.57, .wire = 2, .engine_gbps = 27};

/* ... protocol Simple, full wire, with fences and flags of its own; the same blocks. Its node is a
 * compromise of two rows. */
static const struct link_software nccl_simple = {
	.name = "NCCL Simple", .node_us = 14.5, .exchange_us = 0.5, .wire = 1};
static const struct link_software nccl_simple_bridge = {
	.name = "NCCL Simple", .node_us = 14.5, .exchange_us = 0.5, .wire = 1, .engine_gbps = 27};

static const struct link_software nccl_symmetric_4 = {
	.name = "NCCL symmetric", .node_us = 9.8, .exchange_us = 0.5, .wire = 1};

/* PyTorch copies the input first; 2 TB/s is about half of the memory's speed: read and written. */
static const struct link_software torch_2 = {
	.name = "PyTorch", .node_us = 2.7, .exchange_us = 0.5, .wire = 1};
static const struct link_software torch_8 = {
	.name = "PyTorch", .node_us = 5.0, .exchange_us = 0.5, .wire = 1, .copy_gbps = 2000};
static const struct link_software torch_4 = {
	.name = "PyTorch", .node_us = 8.3, .exchange_us = 0.5, .wire = 1, .copy_gbps = 2000};

static const struct link_software mscclpp = {
	.name = "MSCCL++", .node_us = 2.7, .exchange_us = 0.5, .wire = 1};

/* Kernels alone, launched programmatically. */
static const struct link_software trial_packets = {
	.name = "trial", .node_us = 0.9, .exchange_us = 0.5, .wire = 2};
static const struct link_software trial_wire = {
	.name = "trial", .node_us = 0.9, .exchange_us = 0.5, .wire = 1};

const struct link_software link_belay_packets = {
	.name = "belay", .node_us = 1.3, .exchange_us = 0.75, .wire = 2};
const struct link_software link_belay_wire = {
	.name = "belay", .node_us = 1.47, .exchange_us = 0.75, .wire = 1};
const struct link_software link_belay_pull = {
	.name = "belay", .node_us = 1.47, .exchange_us = 0.75, .wire = 1, .fence_us = 1.6};

/* ---- figures ---------------------------------------------------------------------------------
 * What they are compared with is the whole call, so a column of a publication has one software. */

#define NVLINK_8    &link_nvlink_8_h200
#define NVLINK_4    &link_nvlink_4_h100
#define PCIE_4	    &link_pcie_4_root_ports
#define ONE_SWITCH  &link_pcie_8_one_switch
#define TWO_SOCKETS &link_pcie_8_two_sockets

/* clang-format off */
const struct link_published link_published[] = {
	{ "8x H200, NCCL symmetric", NVLINK_8, 8, LINK_ONESHOT_PUSH, &floor_packets, 8, 2.3, LINK_CHECKED, 0 },
	{ "8x H200, NCCL", NVLINK_8, 8, LINK_RING, &nccl_ll128, 32 * K, 19.7, LINK_FITTED, "step" },
	{ "8x H200, NCCL", NVLINK_8, 8, LINK_RING, &nccl_ll128, 128 * K, 20.3, LINK_CHECKED, 0 },
	{ "8x H200, NCCL", NVLINK_8, 8, LINK_RING, &nccl_ll128, 512 * K, 20.8, LINK_CHECKED, 0 },
	{ "8x H200, NCCL", NVLINK_8, 8, LINK_RING, &nccl_simple, 2 * M, 40.0, LINK_CHECKED, 0 },
	{ "8x H200, PyTorch multimem", NVLINK_8, 8, LINK_TWOSHOT_MULTICAST, &torch_8, 32 * K, 8.7, LINK_FITTED, "node" },
	{ "8x H200, PyTorch multimem", NVLINK_8, 8, LINK_TWOSHOT_MULTICAST, &torch_8, 128 * K, 9.6, LINK_CHECKED, 0 },
	{ "8x H200, PyTorch multimem", NVLINK_8, 8, LINK_TWOSHOT_MULTICAST, &torch_8, 512 * K, 11.3, LINK_CHECKED, 0 },
	{ "8x H200, PyTorch multimem", NVLINK_8, 8, LINK_TWOSHOT_MULTICAST, &torch_8, 2 * M, 18.2, LINK_CHECKED, 0 },
	{ "8x H100, MSCCL++", NVLINK_8, 8, LINK_TWOSHOT_MULTICAST, &mscclpp, 64 * K, 6.6, LINK_FITTED, "node" },
	{ "8x H100, MSCCL++", NVLINK_8, 8, LINK_TWOSHOT_MULTICAST, &mscclpp, 256 * K, 7.4, LINK_CHECKED, 0 },
	{ "8x H100, MSCCL++", NVLINK_8, 8, LINK_TWOSHOT_MULTICAST, &mscclpp, 512 * K, 8.3, LINK_CHECKED, 0 },
	{ "8x H100, MSCCL++", NVLINK_8, 8, LINK_TWOSHOT_MULTICAST, &mscclpp, 1 * M, 10.3, LINK_CHECKED, 0 },
	{ "4x H100, vLLM one-stage", NVLINK_4, 4, LINK_ONESHOT_PULL, &floor_, 512 * K, 10, LINK_CHECKED, 0 },
	{ "4x H100, vLLM one-stage", NVLINK_4, 4, LINK_ONESHOT_PULL, &floor_, 1 * M, 14, LINK_CHECKED, 0 },
	{ "4x H100, vLLM one-stage", NVLINK_4, 4, LINK_ONESHOT_PULL, &floor_, 2 * M, 23, LINK_CHECKED, 0 },
	{ "4x H100, NCCL", NVLINK_4, 4, LINK_RING, &nccl_simple, 512 * K, 21, LINK_CHECKED, 0 },
	{ "4x H100, NCCL", NVLINK_4, 4, LINK_RING, &nccl_simple, 1 * M, 23, LINK_FITTED, "node" },
	{ "4x H100, NCCL", NVLINK_4, 4, LINK_RING, &nccl_simple, 2 * M, 28, LINK_CHECKED, 0 },
	{ "4x H100, NCCL symmetric", NVLINK_4, 4, LINK_TWOSHOT_MULTICAST, &nccl_symmetric_4, 512 * K, 17, LINK_CHECKED, 0 },
	{ "4x H100, NCCL symmetric", NVLINK_4, 4, LINK_TWOSHOT_MULTICAST, &nccl_symmetric_4, 1 * M, 19, LINK_FITTED, "node" },
	{ "4x H100, NCCL symmetric", NVLINK_4, 4, LINK_TWOSHOT_MULTICAST, &nccl_symmetric_4, 2 * M, 21, LINK_CHECKED, 0 },
	{ "4x H100, PyTorch multimem", NVLINK_4, 4, LINK_TWOSHOT_MULTICAST, &torch_4, 512 * K, 15, LINK_CHECKED, 0 },
	{ "4x H100, PyTorch multimem", NVLINK_4, 4, LINK_TWOSHOT_MULTICAST, &torch_4, 1 * M, 18, LINK_FITTED, "node" },
	{ "4x H100, PyTorch multimem", NVLINK_4, 4, LINK_TWOSHOT_MULTICAST, &torch_4, 2 * M, 23, LINK_CHECKED, 0 },
	{ "4x RTX PRO 6000, one-shot", PCIE_4, 4, LINK_ONESHOT_PULL, &floor_, 64 * K, 11.8, LINK_CHECKED, 0 },
	{ "4x RTX PRO 6000, one-shot", PCIE_4, 4, LINK_ONESHOT_PULL, &floor_, 128 * K, 17.6, LINK_CHECKED, 0 },
	{ "4x RTX PRO 6000, one-shot", PCIE_4, 4, LINK_ONESHOT_PULL, &floor_, 256 * K, 28.7, LINK_CHECKED, 0 },
	{ "4x RTX PRO 6000, one-shot", PCIE_4, 4, LINK_ONESHOT_PULL, &floor_, 512 * K, 51, LINK_FITTED, "read window" },
	{ "4x RTX PRO 6000, one-shot", PCIE_4, 4, LINK_ONESHOT_PULL, &floor_, 1 * M, 95.6, LINK_CHECKED, 0 },
	{ "4x RTX PRO 6000, NCCL", PCIE_4, 4, LINK_RING, &nccl_ll, 64 * K, 71, LINK_BEYOND,
	  "three times what the same publication has for twice the bytes" },
	{ "4x RTX PRO 6000, NCCL", PCIE_4, 4, LINK_RING, &nccl_ll, 128 * K, 24.7, LINK_CHECKED, 0 },
	{ "4x RTX PRO 6000, NCCL", PCIE_4, 4, LINK_RING, &nccl_ll, 256 * K, 40.9, LINK_FITTED, "27 GB/s" },
	{ "4x RTX PRO 6000, NCCL", PCIE_4, 4, LINK_RING, &nccl_ll, 512 * K, 71.7, LINK_CHECKED, 0 },
	{ "4x RTX PRO 6000, NCCL", PCIE_4, 4, LINK_RING, &nccl_simple_bridge, 1 * M, 85.2, LINK_CHECKED, 0 },
	{ "8x PCIe 5.0 on switches, NCCL", ONE_SWITCH, 8, LINK_RING, &nccl_ll128, 64 * K, 24, LINK_CHECKED, 0 },
	{ "8x PCIe 5.0 on switches, NCCL", ONE_SWITCH, 8, LINK_RING, &nccl_ll128, 256 * K, 28, LINK_CHECKED, 0 },
	{ "8x PCIe 5.0 on two sockets, NCCL", TWO_SOCKETS, 8, LINK_RING, &nccl_ll, 256 * K, 56, LINK_CHECKED, 0 },
	{ "2x H200, NCCL", NVLINK_8, 2, LINK_RING, &nccl_ll128, 16 * K, 6.7, LINK_FITTED, "node" },
	{ "2x H200, NCCL", NVLINK_8, 2, LINK_RING, &nccl_simple, 2 * M, 26, LINK_FITTED, "node" },
	{ "2x H200, NCCL tuned", NVLINK_8, 2, LINK_ONESHOT_PUSH, &floor_packets, 16 * K, 2.7, LINK_CHECKED, 0 },
	{ "2x H200, NCCL tuned", NVLINK_8, 2, LINK_ONESHOT_PULL, &floor_, 2 * M, 11.1, LINK_CHECKED, 0 },
	{ "2x H200, PyTorch one-shot", NVLINK_8, 2, LINK_ONESHOT_PULL, &torch_2, 16 * K, 6.3, LINK_FITTED, "node" },
	{ "2x H200, PyTorch one-shot", NVLINK_8, 2, LINK_ONESHOT_PULL, &torch_2, 2 * M, 12.7, LINK_CHECKED, 0 },
	{ "2x H200, trial", NVLINK_8, 2, LINK_ONESHOT_PUSH, &trial_packets, 16 * K, 1.95, LINK_FITTED, "node" },
	{ "2x H200, trial", NVLINK_8, 2, LINK_ONESHOT_PUSH, &trial_wire, 2 * M, 8.8, LINK_CHECKED, 0 },
	{ 0 },
};

/* docs/path-choice.md, two ranks of one process on two H200. */
const struct link_published link_own_kernels[] = {
	{ "oneshot-packets", NVLINK_8, 2, LINK_ONESHOT_PUSH, &link_belay_packets, 14336, 2.63, LINK_FITTED, "node" },
	{ "oneshot-packets", NVLINK_8, 2, LINK_ONESHOT_PUSH, &link_belay_packets, 64 * K, 2.95, LINK_CHECKED, 0 },
	{ "oneshot-packets", NVLINK_8, 2, LINK_ONESHOT_PUSH, &link_belay_packets, 256 * K, 4.14, LINK_CHECKED, 0 },
	{ "oneshot-packets", NVLINK_8, 2, LINK_ONESHOT_PUSH, &link_belay_packets, 512 * K, 5.96, LINK_CHECKED, 0 },
	{ "oneshot-wire", NVLINK_8, 2, LINK_ONESHOT_PUSH, &link_belay_wire, 14336, 2.76, LINK_FITTED, "node" },
	{ "oneshot-wire", NVLINK_8, 2, LINK_ONESHOT_PUSH, &link_belay_wire, 256 * K, 3.62, LINK_CHECKED, 0 },
	{ "oneshot-wire", NVLINK_8, 2, LINK_ONESHOT_PUSH, &link_belay_wire, 1 * M, 6.04, LINK_CHECKED, 0 },
	{ "oneshot-wire", NVLINK_8, 2, LINK_ONESHOT_PUSH, &link_belay_wire, 2 * M, 10.4, LINK_CHECKED, 0 },
	{ "twoshot-wire", NVLINK_8, 2, LINK_TWOSHOT_FLAT, &link_belay_wire, 14336, 4.01, LINK_FITTED, "exchange" },
	{ "twoshot-wire", NVLINK_8, 2, LINK_TWOSHOT_FLAT, &link_belay_wire, 256 * K, 4.52, LINK_CHECKED, 0 },
	{ "twoshot-wire", NVLINK_8, 2, LINK_TWOSHOT_FLAT, &link_belay_wire, 1 * M, 6.27, LINK_CHECKED, 0 },
	{ "twoshot-wire", NVLINK_8, 2, LINK_TWOSHOT_FLAT, &link_belay_wire, 2 * M, 13.5, LINK_BEYOND,
	  "slots no longer stay in the L2" },
	{ "twoshot-pull", NVLINK_8, 2, LINK_TWOSHOT_PULL, &link_belay_pull, 14336, 7.30, LINK_FITTED, "fence" },
	{ "twoshot-pull", NVLINK_8, 2, LINK_TWOSHOT_PULL, &link_belay_pull, 256 * K, 7.98, LINK_CHECKED, 0 },
	{ "twoshot-pull", NVLINK_8, 2, LINK_TWOSHOT_PULL, &link_belay_pull, 1 * M, 10.4, LINK_CHECKED, 0 },
	{ "twoshot-pull", NVLINK_8, 2, LINK_TWOSHOT_PULL, &link_belay_pull, 2 * M, 25.2, LINK_BEYOND,
	  "slots no longer stay in the L2" },
	{ 0 },
};

#define FLOOR(setting, machine, n, schedule, bytes, us) \
	{ setting, machine, n, schedule, &floor_, bytes, us, LINK_CHECKED, 0 }
#define ONE LINK_ONESHOT_PUSH
#define TWO LINK_TWOSHOT_FLAT

const struct link_published link_floors[] = {
	FLOOR("H200, NVLink", NVLINK_8, 2, ONE, 64 * K, 2.5),
	FLOOR("H200, NVLink", NVLINK_8, 2, ONE, 256 * K, 3.0),
	FLOOR("H200, NVLink", NVLINK_8, 2, ONE, 1 * M, 5.1),
	FLOOR("H200, NVLink", NVLINK_8, 2, ONE, 2 * M, 8.0),
	FLOOR("H200, NVLink", NVLINK_8, 4, ONE, 64 * K, 2.8),
	FLOOR("H200, NVLink", NVLINK_8, 4, ONE, 256 * K, 4.4),
	FLOOR("H200, NVLink", NVLINK_8, 4, TWO, 1 * M, 7.6),
	FLOOR("H200, NVLink", NVLINK_8, 4, TWO, 2 * M, 11.8),
	FLOOR("H200, NVLink", NVLINK_8, 8, ONE, 64 * K, 3.5),
	FLOOR("H200, NVLink", NVLINK_8, 8, TWO, 256 * K, 4.5),
	FLOOR("H200, NVLink", NVLINK_8, 8, TWO, 1 * M, 8.3),
	FLOOR("H200, NVLink", NVLINK_8, 8, TWO, 2 * M, 13.2),
	FLOOR("PCIe 5.0", PCIE_4, 2, ONE, 64 * K, 3.7),
	FLOOR("PCIe 5.0", PCIE_4, 2, ONE, 256 * K, 7.3),
	FLOOR("PCIe 5.0", PCIE_4, 2, ONE, 1 * M, 21.6),
	FLOOR("PCIe 5.0", PCIE_4, 2, ONE, 2 * M, 40.6),
	FLOOR("PCIe 5.0", PCIE_4, 4, TWO, 64 * K, 5.6),
	FLOOR("PCIe 5.0", PCIE_4, 4, TWO, 256 * K, 11.2),
	FLOOR("PCIe 5.0", PCIE_4, 4, TWO, 1 * M, 33.8),
	FLOOR("PCIe 5.0", PCIE_4, 4, TWO, 2 * M, 63.8),
	FLOOR("PCIe 5.0", ONE_SWITCH, 8, TWO, 64 * K, 7.2),
	FLOOR("PCIe 5.0", ONE_SWITCH, 8, TWO, 256 * K, 14.0),
	FLOOR("PCIe 5.0", ONE_SWITCH, 8, TWO, 1 * M, 40.4),
	FLOOR("PCIe 5.0", ONE_SWITCH, 8, TWO, 2 * M, 75.4),
	{ 0 },
};
/* clang-format on */

const char *link_role_name(enum link_role role)
{
	static const char *const names[] = {"fitted", "checked", "beyond"};

	return names[role];
}

double link_simulated_us(const struct link_published *row)
{
	return link_time_us(row->machine, row->nranks, row->schedule, row->software, row->bytes);
}
