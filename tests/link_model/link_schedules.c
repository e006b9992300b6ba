/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduces as messages. See link_schedules.h. */
#include "tests/link_model/link_schedules.h"

#include <stdio.h>
#include <stdlib.h>

#define BYTES_A_US 1e3 /* of 1 GB/s */

#define F32_PER_BF16 2 /* bytes of an unrounded sum for each one of the result */

/* A chunk is worth its own latency from about so many bytes on: 52.5 GB/s for 1.2 us, twice. */
#define CHUNK_BYTES 131072.0
#define CHUNKS_MAX  8

/* Who builds what, for whom. */
struct plan {
	struct flow_net *net;
	const struct link_machine *machine;
	const struct link_software *software;
	int nranks;
	double bytes;
};

/* Messages by sender and receiver; -1: none. */
struct mesh {
	int of[LINK_GPUS_MAX][LINK_GPUS_MAX];
};

const char *link_schedule_name(enum link_schedule schedule)
{
	static const char *const names[LINK_SCHEDULES] = {
		[LINK_RING] = "ring",
		[LINK_ONESHOT_PUSH] = "one-shot push",
		[LINK_ONESHOT_PULL] = "one-shot pull",
		[LINK_TWOSHOT_FLAT] = "two-shot push",
		[LINK_TWOSHOT_STAGED] = "two-shot push, staged",
		[LINK_TWOSHOT_PIPELINED] = "two-shot push, staged, in chunks",
		[LINK_TWOSHOT_PULL] = "two-shot pull",
		[LINK_TWOSHOT_PULL_ALL] = "two-shot pull, results too",
		[LINK_ISLAND] = "islands",
		[LINK_TWOSHOT_MULTICAST] = "two-shot multicast",
	};

	return names[schedule];
}

int link_chunks(double bytes)
{
	int chunks = (int)(bytes / CHUNK_BYTES);

	return chunks < 1 ? 1 : chunks > CHUNKS_MAX ? CHUNKS_MAX : chunks;
}

/* ---- links and paths -------------------------------------------------------------------------
 * In the net stand first the links upwards of all nodes, then those down to them, then each GPU's
 * engine, then each GPU's read window. */

int link_up(int node)
{
	return node;
}

int link_down(const struct link_machine *machine, int node)
{
	return machine->nodes + node;
}

static int engine_of(const struct link_machine *machine, int gpu)
{
	return 2 * machine->nodes + gpu;
}

static int window_of(const struct link_machine *machine, int gpu)
{
	return 2 * machine->nodes + machine->gpus + gpu;
}

static double or_endless(double capacity)
{
	return capacity > 0 ? capacity : 1e30;
}

static void add_links(struct flow_net *net, const struct link_machine *machine,
		      const struct link_software *software)
{
	for (int direction = 0; direction < 2; direction++)
		for (int i = 0; i < machine->nodes; i++)
			flow_add_link(net, or_endless(machine->node[i].gbps * BYTES_A_US));
	for (int i = 0; i < machine->gpus; i++)
		flow_add_link(net, or_endless(software->engine_gbps * BYTES_A_US));
	for (int i = 0; i < machine->gpus; i++)
		flow_add_link(net, or_endless(machine->read_window_bytes));
	for (int i = 0; i < machine->gpus; i++) {
		struct flow_link *link = &net->link[link_down(machine, i)];

		link->collapse_senders = machine->collapse_senders;
		link->collapsed = machine->collapsed_gbps * BYTES_A_US;
	}
}

static int gpu(const struct plan *plan, int rank)
{
	return link_gpu_of(plan->machine, plan->nranks, rank);
}

/* From rank to rank: up, turn, down. Returns the latency of the turn. */
static double use_path(const struct plan *plan, struct flow_message *message)
{
	const struct link_machine *machine = plan->machine;
	int from = gpu(plan, message->from), to = gpu(plan, message->to);
	int turn = link_turn(machine, from, to);

	for (int i = from; i != turn; i = machine->node[i].parent)
		flow_use(message, link_up(i), 1);
	for (int i = to; i != turn; i = machine->node[i].parent)
		flow_use(message, link_down(machine, i), 1);
	return machine->node[turn].turn_us;
}

/* ---- messages -------------------------------------------------------------------------------- */

static double copy_us(const struct plan *plan)
{
	double gbps = plan->software->copy_gbps;

	return gbps > 0 ? plan->bytes / (gbps * BYTES_A_US) : 0;
}

/* A write of so many bytes of data. */
static int push(const struct plan *plan, int from, int to, double data)
{
	struct flow_message message = {
		.from = from,
		.to = to,
		.posted = true,
		.bytes = data * plan->software->wire,
	};

	message.latency_us = use_path(plan, &message) + plan->software->exchange_us;
	flow_use(&message, engine_of(plan->machine, gpu(plan, from)), 1);
	return flow_add_message(plan->net, &message);
}

/* A flag alone. What it vouches for is fenced first; `first`: and copied, where that is done. */
static int flag(const struct plan *plan, int from, int to, bool first)
{
	int message = push(plan, from, to, 0);

	plan->net->message[message].delay_us =
		plan->software->fence_us + (first ? copy_us(plan) : 0);
	return message;
}

/* The reader asks, the owner's memory answers. What is under way both ways fills the window. */
static int pull(const struct plan *plan, int reader, int owner, double data)
{
	struct flow_message message = {.from = owner, .to = reader, .bytes = data};
	double turn_us = use_path(plan, &message);

	message.delay_us = turn_us;
	message.latency_us = turn_us + plan->software->exchange_us;
	flow_use(&message, window_of(plan->machine, gpu(plan, reader)), 2 * turn_us);
	return flow_add_message(plan->net, &message);
}

static struct mesh no_messages(void)
{
	struct mesh mesh;

	for (int a = 0; a < LINK_GPUS_MAX; a++)
		for (int b = 0; b < LINK_GPUS_MAX; b++)
			mesh.of[a][b] = -1;
	return mesh;
}

/* A message waits for all that have gone to a rank. */
static void wait_for_all_to(const struct plan *plan, int waiter, const struct mesh *mesh, int rank)
{
	for (int q = 0; q < plan->nranks; q++)
		if (mesh->of[q][rank] >= 0)
			flow_wait_arrived(plan->net, waiter, mesh->of[q][rank]);
}

/* A message waits until all that a rank has sent are on the wire: it is issued behind them. */
static void wait_for_all_from(const struct plan *plan, int waiter, const struct mesh *mesh,
			      int rank)
{
	for (int q = 0; q < plan->nranks; q++)
		if (mesh->of[rank][q] >= 0)
			flow_wait_left(plan->net, waiter, mesh->of[rank][q]);
}

/* Everybody to everybody at once. */
static struct mesh push_all(const struct plan *plan, double data)
{
	struct mesh mesh = no_messages();

	for (int r = 0; r < plan->nranks; r++)
		for (int q = 0; q < plan->nranks; q++)
			if (q != r)
				mesh.of[r][q] = push(plan, r, q, data);
	return mesh;
}

static struct mesh flag_all(const struct plan *plan, bool first)
{
	struct mesh mesh = no_messages();

	for (int r = 0; r < plan->nranks; r++)
		for (int q = 0; q < plan->nranks; q++)
			if (q != r)
				mesh.of[r][q] = flag(plan, r, q, first);
	return mesh;
}

/* Everybody from everybody, each behind the owner's flag. */
static struct mesh pull_all(const struct plan *plan, double data, const struct mesh *flags)
{
	struct mesh mesh = no_messages();

	for (int r = 0; r < plan->nranks; r++) {
		for (int q = 0; q < plan->nranks; q++) {
			if (q == r)
				continue;
			mesh.of[q][r] = pull(plan, r, q, data);
			flow_wait_arrived(plan->net, mesh.of[q][r], flags->of[q][r]);
		}
	}
	return mesh;
}

/* Those of a mesh wait for all that the others have brought their senders. */
static void behind(const struct plan *plan, const struct mesh *later, const struct mesh *earlier)
{
	for (int r = 0; r < plan->nranks; r++)
		for (int q = 0; q < plan->nranks; q++)
			if (later->of[r][q] >= 0)
				wait_for_all_to(plan, later->of[r][q], earlier, r);
}

/* ---- schedules ------------------------------------------------------------------------------- */

static void build_ring(const struct plan *plan)
{
	int n = plan->nranks, before[LINK_GPUS_MAX], now[LINK_GPUS_MAX];

	for (int step = 0; step < 2 * (n - 1); step++) {
		for (int r = 0; r < n; r++) {
			now[r] = push(plan, r, (r + 1) % n, plan->bytes / n);
			if (step == 0)
				continue;
			flow_wait_arrived(plan->net, now[r], before[(r + n - 1) % n]);
			flow_wait_left(plan->net, now[r], before[r]);
		}
		for (int r = 0; r < n; r++)
			before[r] = now[r];
	}
}

static void build_oneshot_push(const struct plan *plan)
{
	push_all(plan, plan->bytes);
}

static void build_oneshot_pull(const struct plan *plan)
{
	struct mesh staged = flag_all(plan, true);
	struct mesh inputs = pull_all(plan, plan->bytes, &staged);
	struct mesh read = flag_all(plan, false);

	behind(plan, &read, &inputs);
}

static void build_twoshot_flat(const struct plan *plan)
{
	struct mesh inputs = push_all(plan, plan->bytes / plan->nranks);
	struct mesh results = push_all(plan, plan->bytes / plan->nranks);

	behind(plan, &results, &inputs);
	for (int r = 0; r < plan->nranks; r++)
		for (int q = 0; q < plan->nranks; q++)
			if (q != r)
				wait_for_all_from(plan, results.of[r][q], &inputs, r);
}

static void build_twoshot_pull(const struct plan *plan)
{
	struct mesh staged = flag_all(plan, true);
	struct mesh inputs = pull_all(plan, plan->bytes / plan->nranks, &staged);
	struct mesh results = push_all(plan, plan->bytes / plan->nranks);

	behind(plan, &results, &inputs);
}

static void build_twoshot_pull_all(const struct plan *plan)
{
	struct mesh staged = flag_all(plan, true);
	struct mesh inputs = pull_all(plan, plan->bytes / plan->nranks, &staged);
	struct mesh summed = flag_all(plan, false);

	behind(plan, &summed, &inputs);
	pull_all(plan, plan->bytes / plan->nranks, &summed);
}

/* A rank's stream: each message is issued when the one before has left. */
struct stream {
	int last; /* -1: none yet */
};

static void follow(const struct plan *plan, struct stream *stream, int message)
{
	if (stream->last >= 0)
		flow_wait_left(plan->net, message, stream->last);
	stream->last = message;
}

static void begin_streams(struct stream *streams)
{
	for (int r = 0; r < LINK_GPUS_MAX; r++)
		streams[r].last = -1;
}

/* One to each of the ranks base .. base + n - 1, in the order (r + k) mod n. */
static struct mesh push_staged(const struct plan *plan, int base, int n, double data,
			       struct stream *streams)
{
	struct mesh mesh = no_messages();

	for (int r = 0; r < n; r++) {
		for (int k = 1; k < n; k++) {
			int from = base + r, to = base + (r + k) % n;

			mesh.of[from][to] = push(plan, from, to, data);
			follow(plan, &streams[from], mesh.of[from][to]);
		}
	}
	return mesh;
}

static void build_twoshot_staged(const struct plan *plan, int chunks)
{
	struct stream inputs_out[LINK_GPUS_MAX], results_out[LINK_GPUS_MAX];
	double slice = plan->bytes / plan->nranks / chunks;

	begin_streams(inputs_out);
	begin_streams(results_out);
	for (int chunk = 0; chunk < chunks; chunk++) {
		struct mesh inputs = push_staged(plan, 0, plan->nranks, slice, inputs_out);
		struct mesh results = push_staged(plan, 0, plan->nranks, slice, results_out);

		behind(plan, &results, &inputs);
	}
}

/* What goes across for a chunk: unrounded sums up, results down. Owner i of the lower half is rank
 * i, the upper one rank half + i. */
static void build_island_chunk(const struct plan *plan, double slice, struct stream *inputs_out,
			       struct stream *sums_out, struct stream *results_out)
{
	int half = plan->nranks / 2;
	struct mesh lower = push_staged(plan, 0, half, slice, inputs_out);
	struct mesh upper = push_staged(plan, half, half, slice, inputs_out);
	int back[LINK_GPUS_MAX];
	struct mesh results;

	for (int i = 0; i < half; i++) {
		int sum = push(plan, i, half + i, slice * F32_PER_BF16);

		wait_for_all_to(plan, sum, &lower, i);
		follow(plan, &sums_out[i], sum);
		back[i] = push(plan, half + i, i, slice);
		wait_for_all_to(plan, back[i], &upper, half + i);
		flow_wait_arrived(plan->net, back[i], sum);
		/* First across, where more has to follow. */
		follow(plan, &results_out[half + i], back[i]);
	}
	results = push_staged(plan, half, half, slice, results_out);
	for (int i = 0; i < half; i++)
		for (int q = half; q < plan->nranks; q++)
			if (q != half + i)
				flow_wait_left(plan->net, results.of[half + i][q], back[i]);
	results = push_staged(plan, 0, half, slice, results_out);
	for (int i = 0; i < half; i++)
		for (int q = 0; q < half; q++)
			if (q != i)
				flow_wait_arrived(plan->net, results.of[i][q], back[i]);
}

static void build_island(const struct plan *plan)
{
	struct stream inputs_out[LINK_GPUS_MAX], sums_out[LINK_GPUS_MAX],
		results_out[LINK_GPUS_MAX];
	int chunks = link_chunks(plan->bytes);

	begin_streams(inputs_out);
	begin_streams(sums_out);
	begin_streams(results_out);
	for (int chunk = 0; chunk < chunks; chunk++)
		build_island_chunk(plan, plan->bytes / (plan->nranks / 2) / chunks, inputs_out,
				   sums_out, results_out);
}

/* ---- in the switch --------------------------------------------------------------------------- */

/* A slice, summed from all ranks: each sends it, the owner gets it once. */
static int pull_summed(const struct plan *plan, int owner, double data)
{
	double turn_us = plan->machine->node[plan->machine->gpus].turn_us;
	struct flow_message message = {
		.from = owner,
		.to = owner,
		.bytes = data,
		.delay_us = turn_us,
		.latency_us = turn_us + plan->software->exchange_us,
	};

	for (int r = 0; r < plan->nranks; r++)
		flow_use(&message, link_up(gpu(plan, r)), 1);
	flow_use(&message, link_down(plan->machine, gpu(plan, owner)), 1);
	return flow_add_message(plan->net, &message);
}

/* A slice, sent once and got by all. */
static int push_to_all(const struct plan *plan, int owner, double data)
{
	struct flow_message message = {
		.from = owner,
		.to = owner,
		.posted = true,
		.bytes = data,
		.latency_us = plan->machine->node[plan->machine->gpus].turn_us +
			      plan->software->exchange_us,
	};

	flow_use(&message, link_up(gpu(plan, owner)), 1);
	for (int r = 0; r < plan->nranks; r++)
		flow_use(&message, link_down(plan->machine, gpu(plan, r)), 1);
	return flow_add_message(plan->net, &message);
}

static void build_twoshot_multicast(const struct plan *plan)
{
	struct mesh staged = flag_all(plan, true);
	struct mesh done = flag_all(plan, false);

	for (int r = 0; r < plan->nranks; r++) {
		int sum = pull_summed(plan, r, plan->bytes / plan->nranks);
		int result = push_to_all(plan, r, plan->bytes / plan->nranks);

		wait_for_all_to(plan, sum, &staged, r);
		flow_wait_arrived(plan->net, result, sum);
		for (int q = 0; q < plan->nranks; q++)
			if (q != r)
				flow_wait_left(plan->net, done.of[r][q], result);
	}
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void build_schedule(const struct plan *plan, enum link_schedule schedule)
{
	switch (schedule) {
	case LINK_RING:
		build_ring(plan);
		break;
	case LINK_ONESHOT_PUSH:
		build_oneshot_push(plan);
		break;
	case LINK_ONESHOT_PULL:
		build_oneshot_pull(plan);
		break;
	case LINK_TWOSHOT_FLAT:
		build_twoshot_flat(plan);
		break;
	case LINK_TWOSHOT_STAGED:
		build_twoshot_staged(plan, 1);
		break;
	case LINK_TWOSHOT_PIPELINED:
		build_twoshot_staged(plan, link_chunks(plan->bytes));
		break;
	case LINK_TWOSHOT_PULL:
		build_twoshot_pull(plan);
		break;
	case LINK_TWOSHOT_PULL_ALL:
		build_twoshot_pull_all(plan);
		break;
	case LINK_ISLAND:
		build_island(plan);
		break;
	default:
		build_twoshot_multicast(plan);
		break;
	}
}

void link_build(struct flow_net *net, const struct link_machine *machine, int nranks,
		enum link_schedule schedule, const struct link_software *software, double bytes)
{
	struct plan plan = {
		.net = net,
		.machine = machine,
		.software = software,
		.nranks = nranks,
		.bytes = bytes,
	};

	flow_init(net);
	add_links(net, machine, software);
	build_schedule(&plan, schedule);
}

double link_time_us(const struct link_machine *machine, int nranks, enum link_schedule schedule,
		    const struct link_software *software, double bytes)
{
	static struct flow_net net;
	double us;

	link_build(&net, machine, nranks, schedule, software, bytes);
	us = flow_run(&net);
	if (us < 0) {
		fprintf(stderr, "%s: messages wait for each other\n", link_schedule_name(schedule));
		exit(99);
	}
	return software->node_us + us;
}
