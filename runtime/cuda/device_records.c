/* SPDX-License-Identifier: Apache-2.0 */
/* Draining the device's ring of records; see device_records.h. */
#include "runtime/cuda/device_records.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_clock.h"

/* Records of one copy: at 2 us a call, one millisecond. When there are more, the next copy comes
 * soon: calls that follow one another without a pause leave half a million records a second. */
#define BATCH 512u
/* Notes kept for turns not drained yet; more than two turns are never in play. */
#define NOTES 16u
/* Places not read near the end of the ring: kernels may be writing there. */
#define RING_MARGIN   4u
#define DRAIN_BUSY_NS (2 * NS_PER_MS)
#define DRAIN_FULL_NS (NS_PER_MS / 5)
#define DRAIN_IDLE_NS (20 * NS_PER_MS)

/* Turns behind the newest that are done for good: the kernel of the turn after, which adds up the
 * digest, has ended when that of the turn after it is done. */
#define UNSETTLED 2u

struct batch {
	struct symm_record record[BATCH];
	uint64_t digest[BATCH];
	struct symm_parts parts; /* of the newest turn */
};

/* The turn that has no result. Its record stands behind those of the turns before it: readers take
 * what goes back in number for lost. */
struct failed_turn {
	uint64_t turn; /* 0: none, or told */
	int status;
	uint64_t met_ns;
	struct control_call call;
};

struct device_records {
	struct CUstream_st *stream;
	struct batch *batch; /* pinned */
	uint64_t next;	     /* first turn not handed on */
	uint64_t copying;    /* turns of the copy under way, from `next` on; 0: none */
	uint64_t newest; /* the turn done at the copy's beginning, if it is in the copy; else 0 */
	uint64_t done_seen, done_since_ns;
	bool finishing; /* nothing comes any more */
	bool failed;	/* a copy failed for good */
	/* Of a call of several turns, while its last one is not there. */
	uint64_t first_start, digest_before, missing_before;
	struct device_note note[NOTES];
	struct failed_turn failed_turn;
};

/* ---- one record ------------------------------------------------------------------------------ */

static void add_note(struct device_records *records, uint64_t turn, struct call_record *record)
{
	const struct device_note *note = &records->note[turn % NOTES];

	if (note->turn != turn)
		return;
	record->flags |= note->flags;
	record->missing |= note->missing;
	record->rescue_path = note->rescue_path;
	record->rescue_ns = note->rescue_ns;
	if (note->digest_known)
		record->digest = note->digest;
}

static void copy_arrivals(const struct belay_comm *comm, const struct symm_record *from,
			  struct call_record *to)
{
	for (unsigned r = 0; r < comm->nranks; r++)
		to->arrival_ns[r] =
			from->arrival[r] == UINT32_MAX ? CALL_ARRIVAL_NONE : from->arrival[r];
	to->arrival_ns[comm->rank] = to->staged_ns;
}

/* A call of several turns has one record: it begins with the first and ends with the last. True for
 * a turn that is not the last one. */
static bool is_part(struct device_records *records, const struct symm_record *from, uint64_t digest)
{
	if (records->first_start == 0)
		records->first_start = from->start;
	if (from->turn == from->last_turn)
		return false;
	records->digest_before += digest;
	records->missing_before |= from->missing;
	return true;
}

static void hand_on(struct belay_comm *comm, const struct symm_record *from, uint64_t digest)
{
	struct device_records *records = comm->device->records;
	struct call_record *to;

	if (is_part(records, from, digest))
		return;
	to = trace_call_slot(comm->trace);

	to->seq = from->seq;
	to->pass = from->pass;
	to->count = from->count;
	to->start_ns = device_clock_ns(comm->device->clock, records->first_start);
	to->duration_ns = from->start - records->first_start + from->duration;
	to->missing = from->missing | records->missing_before;
	to->digest = digest + records->digest_before;
	to->rescue_ns = 0;
	to->index = from->index;
	to->enqueue_ns = 0;
	to->staged_ns = from->staged;
	to->status = 0;
	to->flags = (uint16_t)(from->flags | CALL_DIGEST);
	to->op = from->op;
	to->dtype = from->dtype;
	to->path = from->path;
	to->algorithm = from->algorithm;
	to->rescue_path = 0;
	memset(to->reserved, 0, sizeof(to->reserved));
	copy_arrivals(comm, from, to);
	add_note(records, from->turn, to);
	records->first_start = records->digest_before = records->missing_before = 0;
	/* NCCL's own output is never looked at. */
	if (to->path == BELAY_PATH_NCCL)
		to->flags &= (uint16_t)~CALL_DIGEST;
	device_count_record(comm, to);
	trace_call_commit(comm->trace);
}

static bool is_whole(const struct symm_record *record, uint64_t turn)
{
	return record->turn == turn && record->turn_again == turn;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void give_up(struct belay_comm *comm, const struct gpu_error *error)
{
	comm->device->records->failed = true;
	comm->device->records->copying = 0;
	device_fault(comm, error, "copying call records");
}

/* Turns that newer ones have overwritten. */
static void skip_lost(struct belay_comm *comm, uint64_t done)
{
	struct device_records *records = comm->device->records;
	uint64_t lost;

	if (done - records->next < SYMM_RING_RECORDS - RING_MARGIN)
		return;
	lost = done - records->next - SYMM_RING_RECORDS / 2;
	trace_call_lost(comm->trace, lost);
	records->next += lost;
}

static uint64_t own_done(const struct belay_comm *comm)
{
	return device_done(comm, comm->rank);
}

static int copy(const struct device_records *records, const struct symm_state *state,
		uint64_t count, struct gpu_error *ret_error)
{
	struct batch *batch = records->batch;
	uint64_t place = records->next % SYMM_RING_RECORDS;

	if (gpu_copy(batch->record, &state->ring[place], count * sizeof(state->ring[0]),
		     records->stream, ret_error) ||
	    gpu_copy(batch->digest, &state->digest[place], count * sizeof(state->digest[0]),
		     records->stream, ret_error))
		return -1;
	return records->newest ? gpu_copy(&batch->parts, &state->parts[records->newest & 1],
					  sizeof(batch->parts), records->stream, ret_error)
			       : 0;
}

/* Of the turns from `next` up to `last`. */
static void begin_copy(struct belay_comm *comm, uint64_t last, uint64_t done)
{
	struct device_records *records = comm->device->records;
	uint64_t count = last - records->next + 1;
	uint64_t to_end = SYMM_RING_RECORDS - records->next % SYMM_RING_RECORDS;
	struct gpu_error error;

	if (count > BATCH)
		count = BATCH;
	if (count > to_end)
		count = to_end;
	records->newest = records->next + count - 1 == done ? done : 0;
	if (copy(records, comm->device->symm.state, count, &error))
		give_up(comm, &error);
	else
		records->copying = count;
}

/* The newest turn's kernel has left parts, unless it is of a kind that leaves none. */
static uint64_t digest_of(const struct device_records *records, uint64_t turn, uint64_t added)
{
	const struct symm_parts *parts = &records->batch->parts;
	uint64_t sum = 0;

	if (turn != records->newest || parts->turn != turn)
		return added;
	for (uint32_t b = 0; b < parts->blocks && b < SYMM_BLOCKS_MAX; b++)
		for (uint32_t w = 0; w < parts->warps && w < SYMM_WARPS_MAX; w++)
			sum += parts->digest[b][w];
	return sum;
}

/* Hands on what the copy brought. What is not whole was copied too early, and only the newest can
 * be; or it was overwritten while it was copied, as the newest's parts can be once a later turn is
 * done. */
static void end_copy(struct belay_comm *comm)
{
	struct device_records *records = comm->device->records;
	uint64_t turn = records->next, end = turn + records->copying;

	if (records->newest && own_done(comm) != records->newest)
		end--;
	for (; turn < end; turn++) {
		const struct symm_record *record = &records->batch->record[turn - records->next];
		uint64_t added = records->batch->digest[turn - records->next];

		if (is_whole(record, turn))
			hand_on(comm, record, digest_of(records, turn, added));
		else if (record->turn > turn)
			trace_call_lost(comm->trace, 1);
		else
			break;
	}
	records->next = turn;
	records->copying = 0;
}

/* The last turn whose record can be had now; below `next` when there is none. */
static uint64_t last_settled(struct device_records *records, uint64_t done, uint64_t now_ns)
{
	if (done != records->done_seen) {
		records->done_seen = done;
		records->done_since_ns = now_ns;
	}
	if (records->finishing || now_ns - records->done_since_ns >= DRAIN_IDLE_NS)
		return done;
	return done > UNSETTLED ? done - UNSETTLED : 0;
}

static void tell_failed_turn(struct belay_comm *comm)
{
	struct failed_turn *failed = &comm->device->records->failed_turn;
	struct call_record *record;

	if (!failed->turn)
		return;
	record = trace_call_slot(comm->trace);
	memset(record, 0, sizeof(*record));
	record->seq = failed->call.seq;
	record->pass = failed->call.pass;
	record->count = failed->call.count;
	record->index = failed->call.index;
	record->start_ns = failed->met_ns;
	record->status = (int16_t)failed->status;
	record->op = failed->call.op;
	record->dtype = failed->call.dtype;
	record->path = failed->call.path;
	for (unsigned r = 0; r < comm->nranks; r++)
		record->arrival_ns[r] = CALL_ARRIVAL_NONE;
	add_note(comm->device->records, failed->turn, record);
	trace_call_commit(comm->trace);
	failed->turn = 0;
}

uint64_t device_records_drain(struct belay_comm *comm, uint64_t now_ns)
{
	struct device_records *records = comm->device->records;
	struct gpu_error error;
	uint64_t done, last;
	int state;

	if (records->failed)
		return UINT64_MAX;
	if (records->copying) {
		state = gpu_stream_done(records->stream, &error);
		if (state < 0)
			give_up(comm, &error);
		if (state == 0)
			return now_ns + DRAIN_BUSY_NS / 4;
		if (state > 0)
			end_copy(comm);
	}
	if (records->next >= records->failed_turn.turn)
		tell_failed_turn(comm);
	done = own_done(comm);
	last = last_settled(records, done, now_ns);
	if (records->failed || last < records->next)
		return now_ns + DRAIN_IDLE_NS;
	skip_lost(comm, done);
	begin_copy(comm, last, done);
	return now_ns + (records->copying == BATCH ? DRAIN_FULL_NS : DRAIN_BUSY_NS);
}

void device_records_finish(struct belay_comm *comm, uint64_t deadline_ns)
{
	struct device_records *records = comm->device ? comm->device->records : NULL;

	if (!records || !comm->trace)
		return;
	records->finishing = true;
	while (!records->failed && (records->copying || own_done(comm) >= records->next) &&
	       clock_now_ns() < deadline_ns) {
		(void)device_records_drain(comm, clock_now_ns());
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = NS_PER_MS / 20},
				NULL);
	}
	tell_failed_turn(comm);
}

/* ---- what kernels cannot know ---------------------------------------------------------------- */

void device_records_note(struct belay_comm *comm, const struct device_note *note)
{
	struct device_note *kept = &comm->device->records->note[note->turn % NOTES];

	if (kept->turn != note->turn) {
		*kept = *note;
		return;
	}
	kept->flags |= note->flags;
	kept->missing |= note->missing;
	if (note->rescue_path)
		kept->rescue_path = note->rescue_path;
	if (note->rescue_ns)
		kept->rescue_ns = note->rescue_ns;
	if (note->digest_known) {
		kept->digest_known = true;
		kept->digest = note->digest;
	}
}

void device_records_fail(struct belay_comm *comm, uint64_t turn, int status)
{
	/* Whether the description is of this turn. */
	if (device_staged(comm) < turn || own_done(comm) >= turn)
		return;
	comm->device->records->failed_turn = (struct failed_turn){
		.turn = turn,
		.status = status,
		.met_ns = clock_now_ns(),
		.call = comm->own->call[turn & 1],
	};
}

/* ---- life ------------------------------------------------------------------------------------ */

struct device_records *device_records_create(struct belay_comm *comm)
{
	struct device_records *records = calloc(1, sizeof(*records));
	struct gpu_error error = {0};

	if (!records)
		return NULL;
	records->next = comm->turn + 1;
	if (gpu_stream_create(&records->stream, &error) ||
	    gpu_host_alloc(sizeof(*records->batch), (void **)&records->batch, &error)) {
		cause_add(comm->causes, NULL, 0, (int)comm->rank, 0,
			  "nothing to copy call records with: %s: %s (%d)", error.call, error.text,
			  error.code);
		device_records_free(records);
		return NULL;
	}
	return records;
}

/* False: a copy to the pinned memory may still be under way. Not where the context is lost. */
static bool copies_ended(const struct device_records *records)
{
	struct gpu_error error;

	return gpu_stream_wait(records->stream, clock_now_ns() + NS_PER_SECOND, &error) != 0;
}

void device_records_free(struct device_records *records)
{
	if (!records)
		return;
	/* Else it is left as it is. */
	if (records->batch && copies_ended(records))
		gpu_host_free(records->batch);
	if (records->stream)
		gpu_stream_free(records->stream);
	free(records);
}
