/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in CUDA graphs. For sizes there are two graphs of the same calls: in the one each call has
 * its input put in place before and its result compared behind it; it is the warm-up, and is
 * replayed once more at the end. The other holds the calls alone and is timed: two replays in a
 * row, of which the second counts, so that it does not contain how far apart the ranks launch. The
 * inputs are fresh for each such pair, and the results that stand in the buffers behind it are
 * compared.
 *
 * A pass in a graph holds its marks too, and is replayed once, as a program would.
 */
#include "config.h"

#include <inttypes.h>

#include "tools/bench/bench_device_run.h"

/* Enqueues the calls of a graph, numbered from first_seq. */
static int enqueue_checked(struct bench_run *run, uint64_t first_seq)
{
	struct device_run *device = run->device;
	int status = 0;

	for (uint64_t i = 0; i < device->step->per_sample && status == 0; i++) {
		uint32_t slot = (uint32_t)(i % device->nslots);

		status = device_run_put_input(run, first_seq + i, slot);
		if (status == 0)
			status = device_run_call(run, first_seq + i, slot);
		if (status)
			break;
		device_run_note(run, first_seq + i, slot, 0);
		status = device_run_compare(run, (uint32_t)i);
	}
	device->ncalls = 0; /* nothing is issued by a capture */
	return status;
}

/* How long this rank computes before a call of a graph, counted from 0. */
static uint64_t gap_before(const struct bench_run *run, uint64_t call)
{
	const struct bench_step *step = run->device->step;

	return step->gap_ns + (call % run->job->nranks == run->rank ? step->skew_ns : 0);
}

static int enqueue_alone(struct bench_run *run, uint64_t first_seq)
{
	struct device_run *device = run->device;
	const struct bench_step *step = device->step;
	int status = 0;

	for (uint64_t i = 0; i < step->per_sample && status == 0; i++) {
		/* A neighbour on the stream even for the ranks that do not compute. */
		if ((step->gap_ns || step->skew_ns) &&
		    bench_device_delay(gap_before(run, i), device->stream))
			return device_run_broken(run);
		status = device_run_call(run, first_seq + i, (uint32_t)(i % device->nslots));
	}
	return status;
}

static int enqueue_pass(struct bench_run *run, uint64_t first_seq)
{
	int status = belay_pass_begin(run->comm, run->device->stream);

	if (status == 0) {
		status = enqueue_alone(run, first_seq);
		if (status)
			return status;
		status = belay_pass_end(run->comm, run->device->stream);
	}
	if (status)
		return bench_run_failed(run, status, "marks of a pass in a graph: %s",
					belay_status_text(status));
	return 0;
}

static int capture(struct bench_run *run, int (*enqueue)(struct bench_run *, uint64_t),
		   struct bench_graph **ret_graph)
{
	struct device_run *device = run->device;
	struct bench_graph *graph = NULL;
	int status, ended;

	if (bench_device_capture(device->stream))
		return device_run_broken(run);
	status = enqueue(run, run->seq);
	ended = bench_device_captured(device->stream, &graph);
	if (status == 0 && ended)
		status = device_run_broken(run);
	if (status) {
		bench_graph_free(graph);
		return status;
	}
	*ret_graph = graph;
	return device_run_wait(run);
}

static int launch(struct bench_run *run, struct bench_graph *graph)
{
	if (bench_graph_launch(graph, run->device->stream))
		return device_run_broken(run);
	run->seq += run->device->step->per_sample;
	return 0;
}

/* Ranks launch at about the same time, so that none is late. */
static int come_together(struct bench_run *run)
{
	int status = device_run_wait(run);

	if (status == 0 && bench_barrier_wait(&run->job->barrier, run->job->nranks))
		status = bench_run_failed(run, BELAY_E_STATE, "another rank ended early");
	return status;
}

/* One replay of the graph in which every call is checked. Its data is that of the capture, of calls
 * from data_seq on; the numbers of its calls are new. */
static int replay_checked(struct bench_run *run, struct bench_graph *graph, uint64_t data_seq)
{
	struct device_run *device = run->device;
	uint64_t first_seq = run->seq;
	int status = come_together(run);

	if (status == 0)
		status = launch(run, graph);
	if (status)
		return status;
	for (uint32_t i = 0; i < device->step->per_sample; i++) {
		device_run_note(run, data_seq + i, i % device->nslots, 0);
		device->call[i].seq = first_seq + i;
	}
	return device_run_settle(run);
}

/* The data of a slot is that of a call with another number: of its last one in the replays to come.
 */
static uint64_t data_of_slot(uint64_t first_seq, uint32_t slot)
{
	return first_seq + slot;
}

static int refresh(struct bench_run *run, uint64_t first_seq)
{
	int status = 0;

	for (uint32_t slot = 0; slot < run->device->nslots && status == 0; slot++)
		status = device_run_put_input(run, data_of_slot(first_seq, slot), slot);
	return status;
}

/* The number of the last call of a graph that works on a slot, from 0. */
static uint64_t last_call_of(const struct device_run *device, uint32_t slot)
{
	uint64_t calls = device->step->per_sample;

	return slot + (calls - 1 - slot) / device->nslots * device->nslots;
}

/* Has the results in all slots compared. They are told of under the seqs of the replay's calls. */
static int check_slots(struct bench_run *run, uint64_t data_seq, uint64_t first_seq)
{
	struct device_run *device = run->device;
	int status = 0;

	for (uint32_t slot = 0; slot < device->nslots && status == 0; slot++) {
		device_run_note(run, data_of_slot(data_seq, slot), slot, 0);
		device->call[slot].seq = first_seq + last_call_of(device, slot);
		device->call[slot].held = NULL; /* an earlier call of the replay's */
		status = device_run_compare(run, slot);
	}
	return status;
}

static int replay_between_events(struct bench_run *run, struct bench_graph *graph)
{
	struct device_run *device = run->device;
	int status;

	if (bench_event_record(device->begin[0], device->stream))
		return device_run_broken(run);
	status = launch(run, graph);
	if (status)
		return status;
	return bench_event_record(device->end[0], device->stream) ? device_run_broken(run) : 0;
}

/* Computing is no part of a size's calls: to each the last rank comes after gap and skew. */
static uint64_t without_gaps(const struct bench_step *step, uint64_t ns)
{
	uint64_t gaps_ns = step->per_sample * (step->gap_ns + step->skew_ns);

	if (step->in_passes)
		return ns;
	return ns > gaps_ns ? ns - gaps_ns : 0;
}

static int keep_replay(struct bench_run *run)
{
	struct device_run *device = run->device;
	uint64_t ns;

	if (bench_event_elapsed(device->begin[0], device->end[0], &ns))
		return device_run_broken(run);
	bench_run_keep(run, without_gaps(device->step, ns));
	return 0;
}

static int replay_timed(struct bench_run *run, struct bench_graph *graph)
{
	uint64_t data_seq = run->seq, first_seq;
	int status = refresh(run, data_seq);

	if (status == 0)
		status = come_together(run);
	/* In place a second replay would work on the results of the first. */
	if (status == 0 && !run->job->in_place)
		status = launch(run, graph);
	first_seq = run->seq;
	if (status == 0)
		status = replay_between_events(run, graph);
	if (status == 0)
		status = check_slots(run, data_seq, first_seq);
	if (status)
		return status;
	status = device_run_settle(run);
	return status ? status : keep_replay(run);
}

static int replay_all(struct bench_run *run, struct bench_graph *checked, uint64_t data_seq,
		      struct bench_graph *timed)
{
	const struct bench_step *step = run->device->step;
	int status = 0;

	for (uint64_t i = 0; i < step->warmup && status == 0; i++)
		status = replay_checked(run, checked, data_seq);
	for (uint64_t i = 0; i < step->calls && status == 0; i++)
		status = replay_timed(run, timed);
	return status ? status : replay_checked(run, checked, data_seq);
}

int device_run_graph(struct bench_run *run)
{
	struct bench_graph *checked = NULL, *timed = NULL;
	uint64_t data_seq = run->seq;
	int status = capture(run, enqueue_checked, &checked);

	if (status == 0)
		status = capture(run, enqueue_alone, &timed);
	if (status == 0)
		status = replay_all(run, checked, data_seq, timed);
	bench_graph_free(timed);
	bench_graph_free(checked);
	return status;
}

/* The end mark is the graph's: it has been passed once the stream is empty. */
static int commit(struct bench_run *run, uint64_t number)
{
	int status = device_run_wait(run);

	if (status)
		return status;
	status = belay_pass_wait(run->comm, NULL);
	if (status)
		return bench_run_failed(run, status, "commit of pass %" PRIu64 ": %s", number + 1,
					belay_status_text(status));
	return 0;
}

static int replay_pass(struct bench_run *run, struct bench_graph *graph, uint64_t number)
{
	uint64_t first_seq = run->seq;
	uint64_t start_ns, pass_ns;
	int status = refresh(run, first_seq);
	int settled;

	if (status == 0)
		status = device_run_wait(run);
	start_ns = bench_now_ns();
	if (status == 0)
		status = replay_between_events(run, graph);
	if (status)
		return status;
	status = commit(run, number);
	pass_ns = bench_now_ns() - start_ns;
	settled = check_slots(run, first_seq, first_seq);
	if (settled == 0)
		settled = device_run_settle(run);
	if (status == 0)
		status = settled;
	if (status == 0)
		status = keep_replay(run);
	if (status == 0)
		bench_run_keep_pass(run, number, pass_ns);
	return status;
}

int device_run_graph_passes(struct bench_run *run)
{
	const struct bench_step *step = run->device->step;
	struct bench_graph *graph = NULL;
	int status = capture(run, enqueue_pass, &graph);

	for (uint64_t i = 0; i < step->passes && status == 0; i++)
		status = replay_pass(run, graph, step->first_pass + i);
	bench_graph_free(graph);
	return status;
}
