/* SPDX-License-Identifier: Apache-2.0 */
/* The ring that gathers retained inputs; see rescue.h for states and rules. */
#include "runtime/outcome/rescue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "kernels/host_sum.h"
#include "runtime/clock.h"
#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_gather.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_records.h"
#include "runtime/outcome/verdict.h"
#include "runtime/path/path.h"
#include "runtime/wait.h"

/* Bytes of a rank's input in one message; a multiple of a line, well under the least socket
 * buffer. */
#define CHUNK 32768u

/* How long descriptions that kernels have stored may take to be there: they follow `staged` by
 * microseconds. */
#define DESCRIPTIONS_NS (20 * NS_PER_MS)

enum message_kind { MESSAGE_LOOK = 1, MESSAGE_PART = 2 };

/* What stands before the payload. Both ends are on one host and of one version. */
struct message {
	uint32_t magic;
	uint32_t kind;
	uint64_t word; /* the rescue word that this part belongs to */
	uint64_t members;
	uint64_t offset; /* of the payload in the turn's input */
	uint64_t total;	 /* bytes of the turn's input */
	uint32_t origin; /* whose input it is */
	uint32_t bytes;	 /* of payload */
	uint32_t signature;
	uint32_t reserved;
	uint64_t digest; /* sum of the payload's 64-bit words */
};

#define MESSAGE_MAGIC 0x62656c79u

struct stash {
	bool full;
	struct message head;
	char payload[CHUNK];
};

struct rescue {
	struct belay_comm *comm;
	uint64_t word; /* the attempt this rank is in or was in last; 0: none */
	uint64_t members;
	bool active;
	bool joined;	 /* all descriptions stand, and this rank gives its part */
	bool over;	 /* over NCCL: all ranks are done, and it is only in step */
	bool whole_call; /* the ring path's own way of working, not a rescue */
	bool by_gather;	 /* over NCCL, all at once; else over the ring */
	struct device_gather gather;
	uint64_t patience_ns; /* until when descriptions are waited for */
	bool no_memory;	      /* the last send was refused for want of it: poll() would not wait */
	unsigned next, prev;
	uint64_t turn;
	uint64_t total, offset; /* bytes: of the turn, of the current chunk */
	uint32_t signature;
	size_t element_bytes;
	int dtype, op;
	uint64_t have;	 /* origins whose part of the current chunk is here */
	uint64_t sent;	 /* ... and has been passed on, or need not be */
	uint64_t digest; /* of the output so far */
	uint64_t began_ns;
	uint64_t seq, pass; /* of the call: its description may be gone when the attempt ends */
	char *parts;	    /* nranks * CHUNK */
	char *reduced;	    /* CHUNK: on its way to a device */
	struct stash stash; /* one message that is too early: the next chunk's */
};

struct rescue *rescue_create(struct belay_comm *comm)
{
	struct rescue *rescue = calloc(1, sizeof(*rescue));

	if (!rescue)
		return NULL;
	rescue->comm = comm;
	/* Now, not when something is wrong already (design.md: all that rescue needs is
	 * allocated at creation). */
	rescue->parts = calloc(comm->nranks, CHUNK);
	rescue->reduced = calloc(1, CHUNK);
	if (!rescue->parts || !rescue->reduced) {
		rescue_free(rescue);
		return NULL;
	}
	return rescue;
}

void rescue_free(struct rescue *rescue)
{
	if (!rescue)
		return;
	free(rescue->parts);
	free(rescue->reduced);
	free(rescue);
}

bool rescue_active(const struct rescue *rescue)
{
	return rescue->active;
}

static unsigned lowest(uint64_t mask)
{
	return (unsigned)__builtin_ctzll(mask);
}

/* Who puts a rank's part into the ring: itself, or for a dead rank the lowest member (donation). */
static unsigned injector(const struct rescue *rescue, unsigned origin)
{
	return rescue->members & rank_bit(origin) ? origin : lowest(rescue->members);
}

/* The next member in direction `step`: 1 up, nranks - 1 down. */
static unsigned ring_neighbour(const struct rescue *rescue, unsigned step)
{
	unsigned n = rescue->comm->nranks;
	unsigned r = rescue->comm->rank;

	do
		r = (r + step) % n;
	while (!(rescue->members & rank_bit(r)));
	return r;
}

static size_t chunk_bytes(const struct rescue *rescue)
{
	uint64_t rest = rescue->total - rescue->offset;

	return rest < CHUNK ? (size_t)rest : CHUNK;
}

static char *part(const struct rescue *rescue, unsigned origin)
{
	return rescue->parts + (size_t)origin * CHUNK;
}

/* Sum of 64-bit words: notices a part that was spoiled on the way. */
static uint64_t payload_digest(const char *payload, size_t bytes)
{
	uint64_t sum = 0, word;

	for (; bytes >= 8; bytes -= 8, payload += 8) {
		memcpy(&word, payload, 8);
		sum += word;
	}
	word = 0;
	memcpy(&word, payload, bytes);
	return sum + word;
}

/* A rank's part of the chunk, out of its slot or its device. [PROGRESS] (2) was done when the
 * rescue was begun: all ranks have staged the turn whole. A dead rank's copy is whole for the same
 * reason on the host, where one thread wrote it before it posted; on a device its blocks' words say
 * so (P3). */
static int read_part(struct rescue *rescue, unsigned r)
{
	struct belay_comm *comm = rescue->comm;

	if (comm->device)
		return device_read_retained(comm, r, rescue->turn, rescue->offset,
					    chunk_bytes(rescue), part(rescue, r));
	memcpy(part(rescue, r), region_slot(&comm->region, r, rescue->turn) + rescue->offset,
	       chunk_bytes(rescue));
	return 0;
}

/* Takes the parts that this rank puts in: its own and those it donates. */
static int take_own_parts(struct rescue *rescue)
{
	for (unsigned r = 0; r < rescue->comm->nranks; r++) {
		if (injector(rescue, r) != rescue->comm->rank)
			continue;
		if (read_part(rescue, r))
			return -1;
		rescue->have |= rank_bit(r);
	}
	return 0;
}

/* True when every rank is done with a turn: nobody needs its rescue, and its slots and descriptions
 * may be in use again. What was read of them before this said false was the turn's (invariant
 * 4). */
static bool is_over(const struct belay_comm *comm, uint64_t turn)
{
	struct progress progress;

	/* [PROGRESS] (4): the loads of slots stay before those of the done words. */
	atomic_thread_fence(memory_order_acquire);
	comm_read_progress(comm, &progress);
	return progress_all_done(&progress, turn);
}

static void begin_chunk(struct rescue *rescue, uint64_t offset)
{
	rescue->offset = offset;
	rescue->have = rescue->sent = 0;
	if (take_own_parts(rescue) || is_over(rescue->comm, rescue->turn))
		rescue_cancel(rescue);
}

/* Whose data the beginner of the attempt missed; a label for the trace. */
static int lost_rank(const struct rescue *rescue)
{
	uint64_t parity = (rescue->turn + rescue_attempt(rescue->word)) & 1;
	const struct control_rank *beginner =
		comm_named_rank(rescue->comm, rescue_rank(rescue->word));

	/* Relaxed: stored before the CAS of the word that was read with acquire. */
	return atomic_load_explicit(&beginner->rescue_lost[parity], memory_order_relaxed);
}

static void trace_rescue(const struct rescue *rescue, enum event_kind kind, uint64_t now,
			 int16_t status)
{
	uint64_t gather_ns = rescue->by_gather ? rescue->gather.took_ns : 0;
	struct event_record event = {
		.time_ns = now,
		.seq = rescue->seq,
		.pass = rescue->pass,
		.kind = (uint8_t)kind,
		.status = status,
		.peer = lost_rank(rescue),
		.path = rescue->by_gather ? BELAY_PATH_NCCL : BELAY_PATH_RING,
		.value = kind == EVENT_RESCUE_END ? (int64_t)gather_ns
						  : (int64_t)rescue_attempt(rescue->word),
		.mask = rescue->members,
		.duration_ns = now - rescue->began_ns,
	};

	if (!rescue->whole_call && !rescue->over)
		trace_event(rescue->comm->trace, &event);
}

/*
 * A header that was spoiled may hold the flag of a turn to come, and would be taken for data then.
 * Every rank clears its own, once it has been issued, before its part makes the rescue complete,
 * and nobody can be two turns further before that (R5); a donor clears a dead rank's. `staged` read
 * after the word shows that the word is not yet that of turn + 2; the swap, that it still is the
 * one that was read.
 */
static void clear_spoiled_header(const struct rescue *rescue, unsigned origin)
{
	const struct belay_comm *comm = rescue->comm;
	struct region_header *header =
		&region_head(&comm->region, origin)->inputs[rescue->turn & 1];
	uint64_t word = atomic_load_explicit(&header->word, memory_order_acquire);

	if (word >> 32 == region_flag(rescue->turn) ||
	    atomic_load_explicit(&comm->control.rank[origin].staged, memory_order_acquire) >
		    rescue->turn + 1)
		return;
	(void)atomic_compare_exchange_strong_explicit(&header->word, &word, 0, memory_order_acq_rel,
						      memory_order_relaxed);
}

static void clear_spoiled_headers(const struct rescue *rescue)
{
	const struct belay_comm *comm = rescue->comm;

	for (unsigned r = 0; r < comm->nranks && comm->region.base; r++)
		if (injector(rescue, r) == comm->rank)
			clear_spoiled_header(rescue, r);
}

/* A part whose signature is not ours: the ranks called with different arguments, rule M1. */
static void complain(struct rescue *rescue)
{
	(void)mailbox_complain(&rescue->comm->mailbox, COMPLAINT_MISMATCH, rescue->turn,
			       clock_now_ns());
	rescue_cancel(rescue);
}

/* What is known of the descriptions of a turn. */
enum descriptions { DESCRIPTIONS_OPEN, DESCRIPTIONS_AGREE, DESCRIPTIONS_DIFFER };

/* Whether a description is of the turn, and whole. A calling thread stores it before it posts
 * `staged`. A kernel's stores to the host come in any order (P2), so its description must prove
 * itself: by its last turn, and by a signature that is the hash of the rest. */
static bool is_settled(const struct belay_comm *comm, const struct control_call *call,
		       uint64_t turn)
{
	return !comm->device ||
	       (call->last_turn >= turn &&
		call->signature == call_signature(call->count, call->dtype, call->op, call->pass,
						  call->index));
}

/* M1: of every rank, for a dead one's part comes from a donor. All have staged the turn, so all
 * descriptions stand, or will, unless the turn is over. */
static enum descriptions compare_descriptions(const struct rescue *rescue)
{
	const struct belay_comm *comm = rescue->comm;
	uint64_t parity = rescue->turn & 1;
	const struct control_call *own = &comm->own->call[parity];
	bool differ = false;

	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct control_call *call = &comm->control.rank[r].call[parity];

		if (!is_settled(comm, call, rescue->turn))
			return DESCRIPTIONS_OPEN;
		differ |= call->signature != own->signature;
	}
	return differ ? DESCRIPTIONS_DIFFER : DESCRIPTIONS_AGREE;
}

/* Takes over what the own description says. The bytes of a turn are those of its place among the
 * turns of its call. */
static void read_description(struct rescue *rescue)
{
	struct belay_comm *comm = rescue->comm;
	const struct control_call *call = &comm->own->call[rescue->turn & 1];
	uint64_t bytes, begin;

	rescue->whole_call = call->path == BELAY_PATH_RING;
	rescue->dtype = call->dtype;
	rescue->op = call->op;
	rescue->element_bytes = belay_dtype_bytes(call->dtype);
	rescue->signature = call->signature;
	rescue->seq = call->seq;
	rescue->pass = call->pass;
	bytes = call->count * rescue->element_bytes;
	begin = (call_turns(bytes, comm->turn_bytes) - 1 - (call->last_turn - rescue->turn)) *
		comm->turn_bytes;
	rescue->total = bytes - begin < comm->turn_bytes ? bytes - begin : comm->turn_bytes;
}

bool rescue_turn_bytes(const struct belay_comm *comm, uint64_t turn, uint64_t *ret_bytes)
{
	/* Only what read_description() touches. */
	struct rescue rescue = {.comm = (struct belay_comm *)(uintptr_t)comm, .turn = turn};

	if (!is_settled(comm, &comm->own->call[turn & 1], turn))
		return false;
	read_description(&rescue);
	*ret_bytes = rescue.total;
	return true;
}

/* How the beginner of the attempt wants its parts to travel: 0 over the ring, else 1 + the bytes of
 * a part, over NCCL. */
static uint64_t gather_word(const struct belay_comm *comm, uint64_t word)
{
	uint64_t parity = (rescue_turn(word) + rescue_attempt(word)) & 1;

	/* Acquire: written before the word was swapped in, which has been read already. */
	return atomic_load_explicit(
		&comm_named_rank(comm, rescue_rank(word))->rescue_gather[parity],
		memory_order_acquire);
}

bool rescue_is_broken(const struct belay_comm *comm, uint64_t word)
{
	return gather_word(comm, word) &&
	       atomic_load_explicit(&comm->control.head->nccl.broken, memory_order_acquire);
}

static void give_to_gather(struct rescue *rescue)
{
	struct belay_comm *comm = rescue->comm;
	const struct gather_tag tag = {
		.word = rescue->word,
		.bytes = gather_word(comm, rescue->word) - 1,
		.rank = comm->rank,
	};

	device_gather_begin(comm, &rescue->gather, rescue->turn, &tag, rescue->over);
}

static void take_stash(struct rescue *rescue);

/* A message may have come before this rank had joined. */
static void begin_ring(struct rescue *rescue)
{
	begin_chunk(rescue, 0);
	if (rescue->active)
		take_stash(rescue);
}

/* Whether the own part may leave the device. A block that is done says so without a fence, and
 * counts as staged by that (P2): whether its input stands whole, only the word in the region tells
 * (P3). A call that is the ring's own posts its steps behind a fence. */
static bool device_is_ready(const struct rescue *rescue)
{
	struct belay_comm *comm = rescue->comm;

	return (rescue->whole_call || device_input_is_whole(comm, comm->rank, rescue->turn)) &&
	       device_prepare_rescue(comm, rescue->turn) == 0;
}

/* All descriptions stand: gives the own part. Whatever this rank does for R5 comes before that. */
static void begin(struct rescue *rescue)
{
	struct belay_comm *comm = rescue->comm;

	/* A device that is too busy now is asked again at the next look: nobody else can give this
	 * part, and nobody would begin another attempt. */
	if (comm->device && !rescue->over && !device_is_ready(rescue))
		return;
	rescue->joined = true;
	if (!comm->device)
		clear_spoiled_headers(rescue);
	rescue->began_ns = clock_now_ns();
	trace_rescue(rescue, EVENT_RESCUE_BEGIN, rescue->began_ns, 0);
	if (faults_armed(&comm->faults))
		fault_act(&comm->faults, (int)comm->rank, rescue->seq, FAULT_AT_RESCUE);
	if (rescue->by_gather)
		give_to_gather(rescue);
	else
		begin_ring(rescue);
	/* The calling thread may be asleep, not yet past its own soft deadline. */
	wait_ring_bell(comm->own);
}

enum hold { HOLD, GO_ON, GO_ON_WITH_OUTPUT };

static bool is_done_here(const struct belay_comm *comm, uint64_t turn)
{
	if (comm->device)
		return device_done(comm, comm->rank) >= turn;
	/* Relaxed: own process's word; only whether the calling thread is through matters. */
	return atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= turn;
}

/* R2: output is written only once the calling thread has abandoned the turn to us. */
static enum hold hold(struct rescue *rescue, struct stuck_turn *ret_stuck)
{
	struct belay_comm *comm = rescue->comm;

	if (is_done_here(comm, rescue->turn))
		return GO_ON;
	if (mailbox_ask(&comm->mailbox, rescue->turn, clock_now_ns()) != MAILBOX_ABANDONED) {
		wait_ring_bell(comm->own);
		return HOLD;
	}
	(void)mailbox_read(&comm->mailbox, ret_stuck);
	return GO_ON_WITH_OUTPUT;
}

/*
 * On a device nobody gives a part before some rank has abandoned the turn. From then on the turn is
 * open until that rank is released, for which every member's part is needed: so every member has
 * marked the turn as one that leaves something in the slots (mode.dirty) before any can be two
 * turns further. Where data that was taken for lost comes after all, nobody abandons the turn and
 * nobody marks it. Ranks that were not of one mind would take turn + 2 in different ways.
 */
static bool is_abandoned(const struct rescue *rescue)
{
	const struct belay_comm *comm = rescue->comm;

	for (unsigned r = 0; r < comm->nranks; r++)
		if (atomic_load_explicit(&comm->control.rank[r].abandoned, memory_order_acquire) ==
		    rescue->turn)
			return true;
	return false;
}

/* Of host memory. A header that is spoiled is cleared before the own part is given, and so must
 * have been issued by then (R5). The calling thread is about to: it has staged the turn. */
static bool has_pushed(const struct rescue *rescue)
{
	/* Acquire: the header stands before the word. */
	return atomic_load_explicit(&rescue->comm->own->pushed, memory_order_acquire) >=
	       rescue->turn;
}

/* Whether parts may be given; if not yet, asks the own kernel to leave, should it be stuck. */
static bool may_begin(struct rescue *rescue)
{
	struct stuck_turn stuck;

	if (rescue->whole_call)
		return true;
	if (!rescue->comm->device)
		return has_pushed(rescue);
	if (is_abandoned(rescue))
		return true;
	(void)hold(rescue, &stuck);
	return false;
}

/* Begins once the descriptions allow it. Over NCCL also when all are done with the turn, if others
 * may have begun: one of those is dead then, and whoever has begun waits in the gather. */
static void try_to_begin(struct rescue *rescue)
{
	enum descriptions found = compare_descriptions(rescue);

	rescue->over = is_over(rescue->comm, rescue->turn);
	if (rescue->over && !(rescue->by_gather && is_abandoned(rescue))) {
		rescue_cancel(rescue);
	} else if (rescue->comm->device && device_is_held(rescue->comm)) {
		/* Later. The own kernel is not asked to leave, either: it may end by itself. */
		rescue->patience_ns = clock_now_ns() + DESCRIPTIONS_NS;
	} else if (rescue->over) {
		begin(rescue);
	} else if (found == DESCRIPTIONS_AGREE) {
		read_description(rescue);
		if (may_begin(rescue))
			begin(rescue);
	} else if (found == DESCRIPTIONS_DIFFER || clock_now_ns() >= rescue->patience_ns) {
		complain(rescue);
	}
}

static void join(struct rescue *rescue, uint64_t word, uint64_t members)
{
	struct belay_comm *comm = rescue->comm;

	rescue->members = members;
	rescue->turn = rescue_turn(word);
	rescue->by_gather = comm->device && gather_word(comm, word);
	rescue->active = true;
	rescue->joined = false;
	rescue->digest = 0;
	rescue->offset = rescue->have = rescue->sent = 0;
	rescue->stash.full = false;
	rescue->next = ring_neighbour(rescue, 1);
	rescue->prev = ring_neighbour(rescue, comm->nranks - 1);
	rescue->patience_ns = clock_now_ns() + DESCRIPTIONS_NS;
	try_to_begin(rescue);
}

void rescue_cancel(struct rescue *rescue)
{
	if (rescue->active && rescue->joined)
		trace_rescue(rescue, EVENT_RESCUE_END, clock_now_ns(), BELAY_E_TIMEOUT);
	if (rescue->active && rescue->by_gather)
		device_gather_cancel(rescue->comm, &rescue->gather);
	rescue->active = false;
}

/* NCCL does not need the links. */
void rescue_lose_link(struct rescue *rescue, unsigned peer)
{
	if (rescue->active && !rescue->by_gather && rescue->members & rank_bit(peer))
		rescue_cancel(rescue);
}

/* A gather that is running is brought to its end before the one of a later turn: all ranks' gathers
 * come in the same order. Its own deadline bounds that. */
static bool is_in_step(const struct rescue *rescue, uint64_t word)
{
	return rescue->active && rescue->by_gather && rescue->gather.state == GATHER_GATHERING &&
	       rescue_turn(word) > rescue->turn && gather_word(rescue->comm, word);
}

void rescue_follow(struct rescue *rescue, uint64_t word, uint64_t members)
{
	struct belay_comm *comm = rescue->comm;

	if (word != rescue->word && word != 0 && !is_in_step(rescue, word)) {
		rescue_cancel(rescue);
		rescue->word = word;
		if (members & rank_bit(comm->rank))
			join(rescue, word, members);
	}
	if (rescue->active)
		rescue_pump(rescue);
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool pass_on(struct rescue *rescue, unsigned origin)
{
	struct message head = {
		.magic = MESSAGE_MAGIC,
		.kind = MESSAGE_PART,
		.word = rescue->word,
		.members = rescue->members,
		.offset = rescue->offset,
		.total = rescue->total,
		.origin = origin,
		.bytes = (uint32_t)chunk_bytes(rescue),
		.signature = rescue->signature,
		.digest = payload_digest(part(rescue, origin), chunk_bytes(rescue)),
	};
	struct iovec pieces[2] = {
		{.iov_base = &head, .iov_len = sizeof(head)},
		{.iov_base = part(rescue, origin), .iov_len = chunk_bytes(rescue)},
	};
	struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
	ssize_t sent;

	do
		sent = sendmsg(rescue->comm->members.link[rescue->next], &message,
			       MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	rescue->no_memory = sent < 0 && (errno == ENOBUFS || errno == ENOMEM);
	if (sent < 0 && !rescue->no_memory && errno != EAGAIN && errno != EWOULDBLOCK) {
		/* The neighbour is gone; its pidfd will say so, and a new attempt goes round it. */
		rescue_cancel(rescue);
		return false;
	}
	return sent >= 0;
}

/* Parts that are here and still have to be passed on. */
static uint64_t unsent(const struct rescue *rescue)
{
	return rescue->have & ~rescue->sent;
}

static void send_parts(struct rescue *rescue)
{
	for (unsigned r = 0; r < rescue->comm->nranks && rescue->active; r++) {
		if (!(unsent(rescue) & rank_bit(r)))
			continue;
		/* The last one on the way round keeps it. */
		if (rescue->next == injector(rescue, r) || pass_on(rescue, r))
			rescue->sent |= rank_bit(r);
		else
			return;
	}
}

/* ---- receiving ------------------------------------------------------------------------------- */

static bool is_current(const struct rescue *rescue, const struct message *head)
{
	return rescue->active && head->word == rescue->word;
}

static void accept_part(struct rescue *rescue, const struct message *head, const char *payload)
{
	if (head->origin >= rescue->comm->nranks || head->members != rescue->members)
		return;
	if (head->signature != rescue->signature || head->total != rescue->total) {
		complain(rescue);
		return;
	}
	if (head->bytes != chunk_bytes(rescue) ||
	    payload_digest(payload, head->bytes) != head->digest)
		return;
	memcpy(part(rescue, head->origin), payload, head->bytes);
	rescue->have |= rank_bit(head->origin);
}

/* A part may be of this chunk, too early by one, or of an attempt that is over. */
static void take_part(struct rescue *rescue, const struct message *head, const char *payload)
{
	struct control_head *control = rescue->comm->control.head;

	if (!is_current(rescue, head)) {
		/* Acquire: the beginner stored its members before it swapped the word. */
		uint64_t word = atomic_load_explicit(&control->rescue, memory_order_acquire);

		if (word != head->word || word == rescue->word)
			return;
		rescue_follow(rescue, word, head->members);
		if (!is_current(rescue, head))
			return;
	}
	if (rescue->joined && head->offset == rescue->offset) {
		accept_part(rescue, head, payload);
	} else if ((head->offset > rescue->offset || !rescue->joined) && !rescue->stash.full) {
		rescue->stash.full = true;
		rescue->stash.head = *head;
		memcpy(rescue->stash.payload, payload, head->bytes);
	}
}

static void take_stash(struct rescue *rescue)
{
	if (rescue->stash.full && rescue->stash.head.offset == rescue->offset) {
		rescue->stash.full = false;
		accept_part(rescue, &rescue->stash.head, rescue->stash.payload);
	}
}

/* Without memory the link counts as writable all the same; then the next look tries again. */
bool rescue_wants_write(const struct rescue *rescue, unsigned peer)
{
	return rescue->active && !rescue->by_gather && peer == rescue->next && unsent(rescue) &&
	       !rescue->no_memory;
}

/* What comes too early stays where it is. */
bool rescue_wants_read(const struct rescue *rescue, unsigned peer)
{
	return !(rescue->active && peer == rescue->prev && (rescue->stash.full || !rescue->joined));
}

bool rescue_read(struct rescue *rescue, unsigned peer)
{
	struct message head;
	char payload[CHUNK];
	struct iovec pieces[2] = {
		{.iov_base = &head, .iov_len = sizeof(head)},
		{.iov_base = payload, .iov_len = sizeof(payload)},
	};

	while (rescue_wants_read(rescue, peer)) {
		struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
		ssize_t got = recvmsg(rescue->comm->members.link[peer], &message, MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		if (got == 0)
			return false;
		if ((size_t)got < sizeof(head) || head.magic != MESSAGE_MAGIC)
			continue;
		if (head.kind == MESSAGE_PART && (size_t)got == sizeof(head) + head.bytes)
			take_part(rescue, &head, payload);
	}
	return true;
}

/* ---- output ---------------------------------------------------------------------------------- */

static int reduce_chunk(struct rescue *rescue, const struct stuck_turn *stuck)
{
	struct belay_comm *comm = rescue->comm;
	const void *sources[BELAY_RANKS_MAX];
	void *destinations[1] = {comm->device ? rescue->reduced
					      : (char *)stuck->output + rescue->offset};

	for (unsigned r = 0; r < comm->nranks; r++)
		sources[r] = part(rescue, r);
	rescue->digest += host_sum(&(struct host_sum_job){
		.sources = sources,
		.nsources = comm->nranks,
		.destinations = destinations,
		.ndestinations = 1,
		.count = chunk_bytes(rescue) / rescue->element_bytes,
		.dtype = rescue->dtype,
		.op = rescue->op,
	});
	if (!comm->device)
		return 0;
	return device_write_output(comm, stuck->output, rescue->offset, rescue->reduced,
				   chunk_bytes(rescue));
}

/* R4: with region buffers, only when no live peer reads them or pushes into them any more. In place
 * the output is the input that peers reduce from, so this comes before the first chunk. */
static bool pushes_are_over(const struct rescue *rescue, const struct stuck_turn *stuck)
{
	const struct belay_comm *comm = rescue->comm;
	uint64_t dead = atomic_load_explicit(&comm->control.head->dead, memory_order_acquire);

	for (unsigned r = 0; stuck->region && r < comm->nranks; r++) {
		const struct control_rank *rank = &comm->control.rank[r];

		/* A one-shot turn posts no results: being done says the same. */
		if (!(dead & rank_bit(r)) &&
		    atomic_load_explicit(&rank->results, memory_order_acquire) < rescue->turn &&
		    atomic_load_explicit(&rank->done, memory_order_acquire) < rescue->turn)
			return false;
	}
	return true;
}

/* Raises the word to `number`. False: it stood there already, or above. */
static bool raise_word(_Atomic uint64_t *word, uint64_t number)
{
	uint64_t last = atomic_load_explicit(word, memory_order_acquire);

	while (last < number)
		if (atomic_compare_exchange_weak_explicit(word, &last, number, memory_order_acq_rel,
							  memory_order_acquire))
			return true;
	return false;
}

/* S4: each rescued turn is counted once, by whoever raises the word; and so is its seq. */
static void count_rescue(const struct rescue *rescue)
{
	struct control_head *head = rescue->comm->control.head;

	/* Relaxed: numbers to be shown. */
	if (raise_word(&head->rescued_last, rescue->turn))
		atomic_fetch_add_explicit(&head->rescued_count, 1, memory_order_relaxed);
	if (raise_word(&head->rescued_seq_last, rescue->seq))
		atomic_fetch_add_explicit(&head->rescued_seqs, 1, memory_order_relaxed);
}

/* What the kernel's own record cannot say. */
static void note_record(const struct rescue *rescue, uint64_t now)
{
	struct device_note note = {
		.turn = rescue->turn,
		.digest_known = true,
		.digest = rescue->digest,
	};

	if (!rescue->comm->device)
		return;
	if (!rescue->whole_call) {
		note.flags = CALL_RESCUED;
		note.rescue_path = rescue->by_gather ? BELAY_PATH_NCCL : BELAY_PATH_RING;
		note.rescue_ns = now - rescue->began_ns;
	}
	device_records_note(rescue->comm, &note);
}

static void finish(struct rescue *rescue, bool output)
{
	struct belay_comm *comm = rescue->comm;

	rescue->active = false;
	if (output && !rescue->whole_call)
		count_rescue(rescue);
	trace_rescue(rescue, EVENT_RESCUE_END, clock_now_ns(), 0);
	if (!output)
		return;
	note_record(rescue, clock_now_ns());
	mailbox_release(&comm->mailbox, rescue->turn, 0, rescue->digest);
	wait_ring_bell(comm->own);
}

/* Whether what the segment says of the turn is what the calling thread said: its words are memory
 * of peers too, and only the calling thread's own may choose how much of its output is written.
 * Kernels' descriptions prove themselves, see is_settled(). */
static bool fits_output(const struct rescue *rescue, const struct stuck_turn *stuck)
{
	return rescue->comm->device || (rescue->dtype == stuck->dtype && rescue->op == stuck->op &&
					rescue->total == stuck->count * rescue->element_bytes);
}

/* The chunk is complete and passed on: write it, and go to the next or finish. True when
 * something moved. */
static bool end_chunk(struct rescue *rescue)
{
	struct stuck_turn stuck = {0};
	enum hold held = hold(rescue, &stuck);
	bool last = rescue->offset + chunk_bytes(rescue) >= rescue->total;

	if (held == HOLD)
		return false;
	if (held == GO_ON_WITH_OUTPUT) {
		if (!pushes_are_over(rescue, &stuck))
			return false;
		if (!fits_output(rescue, &stuck)) {
			complain(rescue);
			return false;
		}
		if (reduce_chunk(rescue, &stuck)) {
			rescue_cancel(rescue);
			return false;
		}
	}
	if (last) {
		finish(rescue, held == GO_ON_WITH_OUTPUT);
		return false;
	}
	begin_chunk(rescue, rescue->offset + CHUNK);
	take_stash(rescue);
	return true;
}

/* NCCL cannot be used for rescues any more, by nobody: whoever is stuck begins a new attempt, over
 * the ring. */
static void lose_gather(struct rescue *rescue)
{
	/* Release: what led to it is seen. */
	atomic_store_explicit(&rescue->comm->control.head->nccl.broken, 1, memory_order_release);
	rescue_cancel(rescue);
	rescue_tell_peers(rescue->comm);
}

/* Over NCCL: asks for the output while the parts are on their way, so that the kernel has left when
 * they are there. */
static void pump_gather(struct rescue *rescue)
{
	struct belay_comm *comm = rescue->comm;
	struct stuck_turn stuck = {0};
	enum hold held = rescue->over ? GO_ON : hold(rescue, &stuck);
	enum gather_state state = device_gather_look(comm, &rescue->gather, clock_now_ns());

	if (state == GATHER_FAILED ||
	    (state == GATHER_GATHERING && rescue_is_broken(comm, rescue->word))) {
		lose_gather(rescue);
		return;
	}
	if (state != GATHER_READY || held == HOLD)
		return;
	if (held == GO_ON_WITH_OUTPUT &&
	    device_gather_write(comm, &rescue->gather, rescue->total / rescue->element_bytes,
				rescue->dtype, rescue->op, stuck.output, &rescue->digest))
		lose_gather(rescue);
	else
		finish(rescue, held == GO_ON_WITH_OUTPUT);
}

void rescue_pump(struct rescue *rescue)
{
	bool moved = true;

	if (rescue->active && !rescue->joined)
		try_to_begin(rescue);
	if (!rescue->active || !rescue->joined)
		return;
	if (rescue->by_gather) {
		pump_gather(rescue);
		return;
	}
	while (rescue->active && moved) {
		send_parts(rescue);
		moved = rescue->active && rescue->have == ranks_below(rescue->comm->nranks) &&
			!unsent(rescue) && end_chunk(rescue);
	}
}

void rescue_tell_peers(struct belay_comm *comm)
{
	struct message head = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_LOOK};

	for (unsigned r = 0; r < comm->nranks; r++)
		/* A full or broken link: the peer has enough to wake it, or is gone. */
		if (comm->members.link[r] >= 0)
			(void)send(comm->members.link[r], &head, sizeof(head),
				   MSG_NOSIGNAL | MSG_DONTWAIT);
}
