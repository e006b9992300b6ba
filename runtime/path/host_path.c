/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host path: allreduce between processes of one machine through mapped regions.
 *
 * One turn, seen from rank r (a call is one turn; a call larger than a slot is several):
 *
 *   stage    copy the input into the own slot: it is what peers read and what a rescue needs
 *   push     store the arrival header (flag of the turn, signature, where the buffers lie)
 *   wait     for every rank's header; compare all signatures before the first output store (M1)
 *   one-shot reduce all slots into the output                                       -> done
 *   two-shot reduce slice r of all slots into the output, the own result area, and straight into
 *            the region buffers of peers; store the result header; take the other slices as their
 *            headers come                                                            -> done
 *
 * Which of the two it is follows from the bytes, the number of ranks, the tuning table and the
 * headers, all of which every rank knows alike. Each line of a slot has one reader where the size
 * matters, and the reader touches it, so that the next write of it is cheap (host_sum.h).
 */
#include "runtime/path/host_path.h"

#include <string.h>

#include "kernels/host_sum.h"
#include "runtime/clock.h"
#include "runtime/wait.h"

/* One turn of a call. */
struct turn {
	struct call *call;
	uint64_t turn;
	uint32_t flag;
	const char *input;
	char *output;
	size_t bytes;
	size_t slice_bytes; /* two-shot: of all slices but the last ones */
	uint64_t digest;
	uint64_t mismatched; /* ranks whose signature differs */
	bool two_shot;
	bool corrupt;			     /* fault injection: spoil what peers get */
	uint64_t in_offset[BELAY_RANKS_MAX]; /* two-shot: where peers' buffers lie, from their
						headers */
	uint64_t out_offset[BELAY_RANKS_MAX];
};

static uint64_t header_word(uint32_t flag, uint32_t low)
{
	return (uint64_t)flag << 32 | low;
}

/* Fault injection: flags that must never be taken for this turn's: a future one, an old one, all
 * ones. */
static uint32_t wrong_flag(const struct turn *t)
{
	switch (t->turn % 3) {
	case 0:
		return region_flag(t->turn + 2);
	case 1:
		return t->turn > 2 ? region_flag(t->turn - 2) : 0;
	default:
		return t->flag == UINT32_MAX ? 0 : UINT32_MAX;
	}
}

/* Issues the header that makes this rank's input known; false when a fault keeps it from
 * leaving. */
static void push(struct belay_comm *comm, struct turn *t)
{
	struct region_header *header = &region_head(&comm->region, comm->rank)->inputs[t->turn & 1];
	uint32_t flag = t->flag;
	bool leaves = true;

	if (faults_armed(&comm->faults)) {
		fault_act(&comm->faults, (int)comm->rank, t->call->seq, FAULT_AT_PUSH);
		switch (host_path_push_fault(comm, t->call)) {
		case FAULT_DROP:
			leaves = false;
			break;
		case FAULT_FLAG:
			flag = wrong_flag(t);
			break;
		case FAULT_CORRUPT:
			t->corrupt = true;
			break;
		default:
			break;
		}
		if (t->corrupt && t->bytes)
			*region_slot(&comm->region, comm->rank, t->turn) ^= 0x20;
	}
	header->in_offset = region_offset_of(&comm->region, t->input, t->bytes);
	header->out_offset = region_offset_of(&comm->region, t->output, t->bytes);
	if (leaves) /* [ARRIVAL] (1) */
		atomic_store_explicit(&header->word, header_word(flag, t->call->signature),
				      memory_order_release);
	atomic_store_explicit(&comm->own->pushed, t->turn, memory_order_release);
	comm->wake_pending = true;
}

/* The struct turn stands behind the wait's user: both live on the calling thread's stack. */
struct turn_wait {
	struct wait wait;
	struct turn *turn;
};

static inline struct turn *turn_of(struct wait *wait)
{
	return ((struct turn_wait *)(void *)wait)->turn;
}

/*
 * Where a rank's buffers lie. An offset that leads out of its region buffers counts as none: a
 * header is memory of a peer, and what it says must not choose what is overwritten here. All ranks
 * read the same header, the owner too, so they agree (S1), and the slots serve instead.
 */
static uint64_t sound_offset(const struct belay_comm *comm, const struct turn *t, uint64_t offset)
{
	const struct region_layout *layout = &comm->region.layout;

	return offset >= layout->buffers_offset && offset % LINE == 0 &&
			       t->bytes <= layout->buffers_bytes &&
			       offset - layout->buffers_offset <= layout->buffers_bytes - t->bytes
		       ? offset
		       : REGION_NO_OFFSET;
}

static inline void note_offsets(const struct belay_comm *comm, struct turn *t, unsigned rank,
				const struct region_header *header)
{
	t->in_offset[rank] = sound_offset(comm, t, header->in_offset);
	t->out_offset[rank] = sound_offset(comm, t, header->out_offset);
}

static bool input_arrived(struct belay_comm *comm, struct wait *wait, unsigned rank)
{
	struct turn *t = turn_of(wait);
	struct region_header *header = &region_head(&comm->region, rank)->inputs[t->turn & 1];
	/* [ARRIVAL] (2): exactly this turn's flag, nothing greater or smaller (R5). */
	uint64_t word = atomic_load_explicit(&header->word, memory_order_acquire);

	if ((uint32_t)(word >> 32) != t->flag)
		return false;
	if ((uint32_t)word != t->call->signature)
		t->mismatched |= rank_bit(rank);
	note_offsets(comm, t, rank, header);
	return true;
}

/* Where slice `rank` of the turn begins, and its length. */
static size_t slice_begin(const struct turn *t, unsigned rank)
{
	size_t begin = t->slice_bytes * rank;

	return begin < t->bytes ? begin : t->bytes;
}

static size_t slice_length(const struct turn *t, unsigned rank)
{
	size_t begin = slice_begin(t, rank);
	size_t rest = t->bytes - begin;

	return rest < t->slice_bytes ? rest : t->slice_bytes;
}

/* A slice has come: peers without a region buffer fetch it from the owner's result area. */
static bool result_arrived(struct belay_comm *comm, struct wait *wait, unsigned rank)
{
	struct turn *t = turn_of(wait);
	struct region_header *header = &region_head(&comm->region, rank)->results[t->turn & 1];
	uint64_t word =
		atomic_load_explicit(&header->word, memory_order_acquire); /* [RESULT] (2) */
	size_t begin = slice_begin(t, rank), length = slice_length(t, rank);

	if ((uint32_t)(word >> 32) != t->flag)
		return false;
	if (t->out_offset[comm->rank] != REGION_NO_OFFSET)
		t->digest += header->digest;
	else
		t->digest += host_sum_copy(t->output + begin,
					   region_result(&comm->region, rank, t->turn), length,
					   comm->nranks == 2);
	return true;
}

/* Fills in place, field by field: in a small call this is a good part of the time. */
static inline void begin_wait(struct belay_comm *comm, struct turn *t, enum wait_phase phase,
			      struct turn_wait *w)
{
	struct call *call = t->call;
	struct stuck_turn *stuck = &w->wait.stuck;

	stuck->phase = phase;
	stuck->turn = t->turn;
	stuck->seq = call->seq;
	stuck->pass = call->pass;
	stuck->missing = comm_others(comm);
	stuck->output = t->output;
	stuck->count = t->bytes / call->element_bytes;
	stuck->dtype = call->dtype;
	stuck->op = call->op;
	/* Peers may read or write the own buffers as soon as they have the header, whatever this
	 * rank has. */
	stuck->region = t->in_offset[comm->rank] != REGION_NO_OFFSET ||
			t->out_offset[comm->rank] != REGION_NO_OFFSET;
	w->wait.arrival_ns = NULL;
	w->wait.start_ns = call->record->start_ns;
	w->wait.late = false;
	w->turn = t;
}

/* After a rescue: the watcher has written the output; the call goes on as if nothing had been. */
static int take_rescue(struct belay_comm *comm, struct turn *t, const struct wait *wait)
{
	struct call_record *record = t->call->record;

	t->digest = wait->digest;
	record->flags |= CALL_RESCUED;
	record->rescue_path = BELAY_PATH_RING;
	record->rescue_ns += wait->rescue_ns;
	count_add(&comm->count.own_rescues, 1);
	return 1;
}

/* Waits in one phase: 0 all is here; 1 rescued, the output is complete; negative: the verdict's
 * status. */
static int wait_in_phase(struct belay_comm *comm, struct turn *t, struct turn_wait *w)
{
	enum wait_outcome outcome = wait_for_ranks(comm, &w->wait);

	if (__builtin_expect(w->wait.late, 0))
		path_note_wait(comm, t->call, &w->wait);
	switch (outcome) {
	case WAIT_DONE:
		return 0;
	case WAIT_RESCUED:
		return take_rescue(comm, t, &w->wait);
	case WAIT_FAILED:
		break;
	}
	return comm_fail(comm);
}

static int wait_for_inputs(struct belay_comm *comm, struct turn *t)
{
	struct turn_wait w;
	int status;

	begin_wait(comm, t, WAIT_INPUTS, &w);
	w.wait.arrived = input_arrived;
	w.wait.arrival_ns = t->call->record->arrival_ns;
	status = wait_in_phase(comm, t, &w);
	if (status == 0 && t->mismatched)
		status = path_mismatch(comm, t->call, t->turn);
	return status;
}

static int wait_for_results(struct belay_comm *comm, struct turn *t)
{
	struct turn_wait w;

	begin_wait(comm, t, WAIT_RESULTS, &w);
	w.wait.arrived = result_arrived;
	return wait_in_phase(comm, t, &w);
}

static void one_shot(struct belay_comm *comm, struct turn *t)
{
	const void *sources[BELAY_RANKS_MAX];
	void *destinations[1] = {t->output};
	struct host_sum_job job = {
		.sources = sources,
		.nsources = comm->nranks,
		.destinations = destinations,
		.ndestinations = 1,
		.count = t->bytes / t->call->element_bytes,
		.dtype = t->call->dtype,
		.op = t->call->op,
		/* With two ranks each slot has one reader. */
		.touch = comm->nranks == 2 ? comm_others(comm) : 0,
	};

	for (unsigned r = 0; r < comm->nranks; r++)
		sources[r] = region_slot(&comm->region, r, t->turn);
	sources[comm->rank] = t->input;
	t->digest += host_sum(&job);
}

/* Where the own slice comes from and goes to. */
struct slice_ends {
	const void *sources[BELAY_RANKS_MAX];
	void *destinations[BELAY_RANKS_MAX + 1];
	unsigned ndestinations;
	uint64_t slots;	      /* sources that are slots of others: lines that this rank touches */
	bool someone_fetches; /* a peer takes the result from the own result area */
};

/* A peer's region buffer is read in place and overwritten with the result; its line comes over by
 * that store, so it needs no touch (which cost a third of the reduction at 256K). */
static void find_slice_ends(struct belay_comm *comm, const struct turn *t, struct slice_ends *ends)
{
	size_t begin = slice_begin(t, comm->rank);

	ends->ndestinations = 0;
	ends->slots = 0;
	ends->someone_fetches = false;
	for (unsigned r = 0; r < comm->nranks; r++) {
		char *stride = region_stride(&comm->region, r);

		if (r == comm->rank) {
			ends->sources[r] = t->input + begin;
			continue;
		}
		if (t->in_offset[r] != REGION_NO_OFFSET) {
			ends->sources[r] = stride + t->in_offset[r] + begin;
		} else {
			ends->sources[r] = region_slot(&comm->region, r, t->turn) + begin;
			ends->slots |= rank_bit(r);
		}
		if (t->out_offset[r] != REGION_NO_OFFSET)
			ends->destinations[ends->ndestinations++] =
				stride + t->out_offset[r] + begin;
		else
			ends->someone_fetches = true;
	}
	ends->destinations[ends->ndestinations++] = t->output + begin;
	if (ends->someone_fetches)
		ends->destinations[ends->ndestinations++] =
			region_result(&comm->region, comm->rank, t->turn);
}

/* Reduces the own slice from all inputs and pushes it to wherever it is wanted. */
static void reduce_slice(struct belay_comm *comm, struct turn *t)
{
	size_t length = slice_length(t, comm->rank);
	struct region_header *header =
		&region_head(&comm->region, comm->rank)->results[t->turn & 1];
	struct slice_ends ends;

	find_slice_ends(comm, t, &ends);
	header->digest = host_sum(&(struct host_sum_job){
		.sources = ends.sources,
		.nsources = comm->nranks,
		.destinations = ends.destinations,
		.ndestinations = ends.ndestinations,
		.count = length / t->call->element_bytes,
		.dtype = t->call->dtype,
		.op = t->call->op,
		/* Ranks that share a core share its cache: there a touch only makes clean lines
		 * dirty. */
		.touch = comm->crowded ? 0 : ends.slots,
	});
	t->digest += header->digest;
	if (t->corrupt && ends.someone_fetches && length)
		*region_result(&comm->region, comm->rank, t->turn) ^= 0x20;
	/* [RESULT] (1) */
	atomic_store_explicit(&header->word, header_word(t->flag, 0), memory_order_release);
	atomic_store_explicit(&comm->own->results, t->turn, memory_order_release);
	comm->wake_pending = true;
}

static int two_shot(struct belay_comm *comm, struct turn *t)
{
	size_t lines = (t->bytes + 63) / 64;

	/* A rank that was stopped until the others had their verdict pushes nothing into what is
	 * theirs again. */
	if (comm_decided(comm))
		return comm_fail(comm);
	t->slice_bytes = (lines + comm->nranks - 1) / comm->nranks * 64;
	reduce_slice(comm, t);
	return wait_for_results(comm, t);
}

/* S1: from agreed data only. With two ranks, two-shot pays when results go straight into region
 * buffers. */
static bool choose_two_shot(const struct belay_comm *comm, const struct turn *t)
{
	bool all_regions = true;

	if (comm->nranks == 1 || t->bytes == 0)
		return false;
	for (unsigned r = 0; r < comm->nranks; r++)
		all_regions &=
			t->in_offset[r] != REGION_NO_OFFSET && t->out_offset[r] != REGION_NO_OFFSET;
	if (all_regions)
		return t->bytes >= HOST_TWO_SHOT_REGION_BYTES;
	return t->bytes >= comm->tuning.twoshot_from_bytes;
}

static void stage(struct belay_comm *comm, struct turn *t)
{
	struct call_record *record = t->call->record;
	uint64_t now;

	path_stage(comm, t->call, t->turn, t->input, t->bytes);
	now = clock_stamp_ns();
	if (record->staged_ns == 0)
		record->staged_ns = now > record->start_ns ? (uint32_t)(now - record->start_ns) : 1;
}

static int carry_out_turn(struct belay_comm *comm, struct turn *t)
{
	struct region_header *own;
	int status;

	stage(comm, t);
	push(comm, t);
	own = &region_head(&comm->region, comm->rank)->inputs[t->turn & 1];
	note_offsets(comm, t, comm->rank, own);
	if (faults_armed(&comm->faults))
		fault_act(&comm->faults, (int)comm->rank, t->call->seq, FAULT_AT_WAIT);
	status = wait_for_inputs(comm, t);
	if (status == 0) {
		if (faults_armed(&comm->faults))
			fault_act(&comm->faults, (int)comm->rank, t->call->seq, FAULT_AT_REDUCE);
		t->two_shot = choose_two_shot(comm, t);
		if (t->two_shot)
			status = two_shot(comm, t);
		else
			one_shot(comm, t);
	}
	if (status < 0)
		return status;
	path_done(comm, t->turn);
	return 0;
}

static int host_allreduce(struct belay_comm *comm, struct call *call)
{
	size_t slot = comm->turn_bytes, bytes = call->count * call->element_bytes;
	uint64_t turns = call_turns(bytes, slot);
	struct turn t;
	int status = 0;

	call->last_turn = comm->turn + turns;
	if (turns > 1)
		call->record->flags |= CALL_CHUNKED;
	call->record->digest = 0;
	for (uint64_t i = 0; i < turns && status == 0; i++) {
		size_t begin = i * slot;

		t.call = call;
		t.turn = ++comm->turn;
		t.flag = region_flag(t.turn);
		t.input = (const char *)call->send + begin;
		t.output = (char *)call->recv + begin;
		t.bytes = bytes - begin < slot ? bytes - begin : slot;
		t.digest = t.mismatched = 0;
		t.two_shot = t.corrupt = false;
		status = carry_out_turn(comm, &t);
		call->record->digest += t.digest;
	}
	if (status == 0) {
		call->record->flags |= CALL_DIGEST;
		call->record->algorithm =
			t.two_shot ? BELAY_ALGORITHM_TWOSHOT : BELAY_ALGORITHM_ONESHOT;
	}
	return status;
}

static bool host_is_here(const struct belay_comm *comm, const struct stuck_turn *stuck,
			 unsigned rank)
{
	const struct region_head *head = region_head(&comm->region, rank);
	const struct region_header *header;

	if (stuck->phase == WAIT_INPUTS)
		header = &head->inputs[stuck->turn & 1];
	else if (stuck->phase == WAIT_RESULTS)
		header = &head->results[stuck->turn & 1];
	else
		return false;
	/* Relaxed: only whether it is there; the calling thread will acquire it. */
	return atomic_load_explicit(&header->word, memory_order_relaxed) >> 32 ==
	       region_flag(stuck->turn);
}

static int host_usable(const struct settings *settings, const char **ret_reason)
{
	(void)settings;
	*ret_reason = "shared memory of this host";
	return 1;
}

const struct path host_path = {
	.id = BELAY_PATH_HOST,
	.usable = host_usable,
	.allreduce = host_allreduce,
	.is_here = host_is_here,
};
