/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what a rank reads of its peers once they have met, by a peer that is damaged or
 * means harm: messages on the sockets between watchers, the words of the control segment, the
 * headers in regions. Whatever stands there, this rank stays within its memory.
 *
 * The input is a script: a byte that says what happens next, and its operands. One rank of three is
 * played, without threads; the segment ends where its ranks end, so that an index of a rank that
 * there is not is seen by AddressSanitizer.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/communicator.h"
#include "runtime/outcome/watcher_state.h"
#include "runtime/path/path.h"
#include "tests/fuzz/fuzz_target.h"

#define RANKS	   3u
#define SLOT_BYTES 65536u
#define CHUNK	   32768u /* of rescue.c */
#define STEPS_MAX  200
#define COUNT_MAX  (3 * SLOT_BYTES / 4)

/* The head of a message between watchers, as rescue.c has it. */
struct message {
	uint32_t magic, kind;
	uint64_t word, members, offset, total;
	uint32_t origin, bytes, signature, reserved;
	uint64_t digest;
	char payload[CHUNK];
};

#define HEAD_BYTES offsetof(struct message, payload)

struct script {
	const uint8_t *at;
	size_t left;
};

struct scene {
	struct belay_comm comm;
	struct watcher watcher;
	size_t control_bytes;
	int peer[RANKS]; /* the other ends of the links */
	char *output;	 /* of the call that is stuck; NULL: none */
	char *input;
	bool gave_up; /* the hard deadline is over */
};

static struct scene scene;

static uint64_t take(struct script *script, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes && script->left; i++, script->at++, script->left--)
		value |= (uint64_t)*script->at << 8 * i;
	return value;
}

/* ---- the rank ----------------------------------------------------------------------------------
 */

static void tear_down(void)
{
	(void)trace_close(scene.comm.trace, UINT64_MAX);
	cause_chain_free(scene.comm.causes);
	free(scene.comm.region.base);
}

static void set_up_once(void)
{
	static const _Atomic uint32_t never_forked = 1;
	const struct cause_config quiet = {.log = fuzz_say_nothing, .rank = -1};
	const struct trace_config trace = {.comm_id = "00000000000000000000000000000000",
					   .nranks = RANKS};
	struct belay_comm *comm = &scene.comm;
	struct control_segment whole;
	char *memory = aligned_alloc(LINE, control_segment_bytes(RANKS));

	control_segment_place(memory, RANKS, &whole);
	scene.control_bytes = (size_t)((char *)&whole.rank[RANKS] - memory);
	free(memory);
	comm->nranks = RANKS;
	comm->fork_cookie = &never_forked;
	comm->turn_bytes = SLOT_BYTES;
	comm->tuning.twoshot_from_bytes = SLOT_BYTES / 2;
	comm->settings.late_ns = comm->settings.grace_ns = 1;
	comm->settings.give_up_ns = comm->settings.warmup_give_up_ns = NS_PER_SECOND;
	comm->settings.heartbeat_ns = NS_PER_MS;
	region_layout(RANKS, SLOT_BYTES, SLOT_BYTES, &comm->region.layout);
	comm->region.nranks = RANKS;
	comm->region.base = aligned_alloc(4096, RANKS * comm->region.layout.stride);
	comm->causes = cause_chain_create(&quiet);
	if (!comm->region.base || !comm->causes || trace_open(&trace, &comm->trace))
		abort();
	(void)atexit(tear_down);
	memset(comm->region.base, 0, RANKS * comm->region.layout.stride);
}

static void connect_peers(struct belay_comm *comm)
{
	for (unsigned r = 0; r < RANKS; r++) {
		int ends[2] = {-1, -1};

		if (r != comm->rank &&
		    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends))
			abort();
		comm->members.link[r] = ends[0];
		scene.peer[r] = ends[1];
		comm->members.pidfd[r] = -1;
	}
}

static void begin(struct belay_comm *comm, unsigned rank)
{
	char *memory = aligned_alloc(LINE, scene.control_bytes);

	if (!memory)
		abort();
	memset(memory, 0, scene.control_bytes);
	control_segment_place(memory, RANKS, &comm->control);
	comm->control.device = NULL;
	comm->rank = comm->region.rank = rank;
	comm->own = &comm->control.rank[rank];
	comm->control.head->nranks = RANKS;
	comm->turn = comm->seq = comm->pass = comm->switch_seen = 0;
	comm->failed = comm->verdict_noted = false;
	comm->path = &host_path;
	mailbox_init(&comm->mailbox);
	mailbox_init(&comm->commits);
	(void)pthread_mutex_init(&comm->note_lock, NULL);
	connect_peers(comm);
	scene.gave_up = false;
	memset(&scene.watcher, 0, sizeof(scene.watcher));
	scene.watcher.comm = comm;
	scene.watcher.kick_fd = -1;
	scene.watcher.rescue = rescue_create(comm);
	breaker_init(&scene.watcher.breaker, 3, NS_PER_SECOND, NS_PER_MS);
	if (!scene.watcher.rescue)
		abort();
}

static void forget_call(void)
{
	free(scene.output);
	free(scene.input);
	scene.output = scene.input = NULL;
}

static void end(struct belay_comm *comm)
{
	forget_call();
	rescue_free(scene.watcher.rescue);
	mailbox_destroy(&comm->mailbox);
	mailbox_destroy(&comm->commits);
	(void)pthread_mutex_destroy(&comm->note_lock);
	for (unsigned r = 0; r < RANKS; r++) {
		if (comm->members.link[r] >= 0)
			close(comm->members.link[r]);
		if (scene.peer[r] >= 0)
			close(scene.peer[r]);
	}
	free(comm->control.head);
}

/* ---- the calling thread ------------------------------------------------------------------------
 */

/* A call with buffers of just its size. */
static void compose_call(struct script *script, struct call *call)
{
	struct belay_comm *comm = &scene.comm;

	call->dtype = (int)take(script, 1) % 3 == 0 ? BELAY_F32 : BELAY_BF16;
	call->op = BELAY_SUM;
	call->element_bytes = belay_dtype_bytes((enum belay_dtype)call->dtype);
	call->count = take(script, 2) % COUNT_MAX;
	call->seq = ++comm->seq;
	call->signature = call_signature(call->count, call->dtype, call->op, call->pass, 0);
	scene.input = calloc(call->count + 1, call->element_bytes);
	scene.output = malloc(call->count * call->element_bytes + 1);
	if (!scene.input || !scene.output)
		abort();
	call->send = scene.input;
	call->recv = scene.output;
}

/* Stages a turn and waits in it; past its soft deadline. */
static void get_stuck(struct script *script)
{
	struct belay_comm *comm = &scene.comm;
	struct call call = {0};
	struct stuck_turn stuck = {.phase = WAIT_INPUTS, .path = comm->path};
	size_t bytes;

	if (scene.output)
		return;
	compose_call(script, &call);
	bytes = call.count * call.element_bytes;
	if (bytes > SLOT_BYTES)
		call.count = (bytes = SLOT_BYTES) / call.element_bytes;
	stuck.turn = call.last_turn = ++comm->turn;
	path_stage(comm, &call, comm->turn, call.send, bytes);
	atomic_store_explicit(&comm->own->pushed, comm->turn, memory_order_release);
	stuck.seq = call.seq;
	stuck.missing = comm_others(comm);
	stuck.since_ns = 1;
	stuck.output = scene.output;
	stuck.count = call.count;
	stuck.dtype = call.dtype;
	stuck.op = call.op;
	mailbox_post(&comm->mailbox, &stuck);
}

/* The calling thread looks: abandons when it is asked to, goes on when it is released. */
static void look_into_mailbox(void)
{
	struct belay_comm *comm = &scene.comm;
	uint64_t digest, asked_ns;
	int outcome;

	if (mailbox_asked(&comm->mailbox))
		(void)mailbox_abandon(&comm->mailbox);
	if (!mailbox_released(&comm->mailbox, &outcome, &digest, &asked_ns))
		return;
	mailbox_clear(&comm->mailbox);
	path_done(comm, comm->turn);
	forget_call();
}

/* The header of a peer that has sent what the turn needs, but for where its buffers lie. */
static void send_header(struct script *script, unsigned rank, uint64_t turn, uint32_t signature)
{
	struct region_head *head = region_head(&scene.comm.region, rank);
	uint64_t flag = (uint64_t)region_flag(turn) << 32;

	head->inputs[turn & 1].in_offset = take(script, 1) & 1 ? REGION_NO_OFFSET : take(script, 8);
	head->inputs[turn & 1].out_offset =
		take(script, 1) & 1 ? REGION_NO_OFFSET : take(script, 8);
	head->inputs[turn & 1].word = flag | signature;
	head->results[turn & 1].word = flag;
}

/* A whole call of one turn over the host path, for which everything is here. */
static void call_at_once(struct script *script)
{
	struct belay_comm *comm = &scene.comm;
	struct call call = {.record = trace_call_slot(comm->trace)};

	if (scene.output)
		return;
	compose_call(script, &call);
	if (call.count * call.element_bytes > SLOT_BYTES)
		call.count = SLOT_BYTES / call.element_bytes;
	call.signature = call_signature(call.count, call.dtype, call.op, 0, 0);
	for (unsigned r = 0; r < RANKS; r++)
		if (r != comm->rank)
			send_header(script, r, comm->turn + 1, call.signature);
	(void)host_path.allreduce(comm, &call);
	forget_call();
}

/* ---- the peers ---------------------------------------------------------------------------------
 */

static unsigned other_rank(struct script *script)
{
	unsigned rank = (unsigned)take(script, 1) % RANKS;

	return rank == scene.comm.rank ? (rank + 1) % RANKS : rank;
}

/* Eight bytes anywhere in the segment. */
static void spoil_segment(struct script *script)
{
	size_t at = take(script, 2) % (scene.control_bytes / 8) * 8;
	uint64_t value = take(script, 8);

	memcpy((char *)scene.comm.control.head + at, &value, sizeof(value));
}

/* A peer comes as far as this rank, in the same call or in another one. */
static void stage_peer(struct script *script)
{
	struct belay_comm *comm = &scene.comm;
	struct control_rank *peer = &comm->control.rank[other_rank(script)];
	uint64_t step = take(script, 1), parity = comm->turn & 1;

	peer->call[parity] = comm->own->call[parity];
	peer->call[parity].signature ^= (uint32_t)(step >> 7);
	atomic_store_explicit(&peer->staged, comm->turn, memory_order_release);
	if (step & 1)
		atomic_store_explicit(&peer->pushed, comm->turn, memory_order_release);
	if (step & 2)
		atomic_store_explicit(&peer->done, comm->turn, memory_order_release);
	if (step & 4)
		atomic_store_explicit(&peer->heir_asked, 1, memory_order_release);
	if (step & 8)
		atomic_store_explicit(&peer->state, CONTROL_LEFT, memory_order_release);
}

static void spoil_words(struct script *script)
{
	struct control_head *head = scene.comm.control.head;
	uint64_t value = take(script, 8);

	switch (take(script, 1) % 5) {
	case 0:
		atomic_store_explicit(&head->verdict, value, memory_order_release);
		break;
	case 1:
		atomic_store_explicit(&head->rescue, value, memory_order_release);
		break;
	case 2:
		atomic_store_explicit(&head->dead, value, memory_order_release);
		break;
	case 3:
		atomic_store_explicit(&head->path_switch, value, memory_order_release);
		break;
	default:
		atomic_store_explicit(&head->heir_of, (uint32_t)value, memory_order_release);
		break;
	}
}

/* A peer begins the rescue of the turn. */
static void begin_rescue(struct script *script)
{
	struct belay_comm *comm = &scene.comm;
	unsigned rank = other_rank(script), attempt = (unsigned)take(script, 1) & 0xf;
	uint64_t word = rescue_pack(comm->turn, attempt, rank);

	atomic_store_explicit(&comm->control.rank[rank].rescue_members[(comm->turn + attempt) & 1],
			      take(script, 1), memory_order_relaxed);
	atomic_store_explicit(&comm->control.head->rescue, word, memory_order_release);
}

static uint64_t payload_digest(const struct message *message)
{
	uint64_t sum = 0, word;

	for (size_t i = 0; i < message->bytes; i += 8) {
		word = 0;
		memcpy(&word, message->payload + i,
		       message->bytes - i < 8 ? message->bytes - i : 8);
		sum += word;
	}
	return sum;
}

/* A part as it should be, but for what the script says. */
static void send_part(struct script *script)
{
	static struct message message;
	struct belay_comm *comm = &scene.comm;
	const struct control_call *call = &comm->own->call[comm->turn & 1];
	unsigned from = other_rank(script);
	uint64_t spoil;

	message.magic = 0x62656c79u;
	message.kind = 2;
	message.word = atomic_load_explicit(&comm->control.head->rescue, memory_order_acquire);
	message.members = take(script, 1);
	message.offset = take(script, 1) % 4 * CHUNK;
	message.total = call->count * belay_dtype_bytes((enum belay_dtype)call->dtype);
	message.origin = (uint32_t)take(script, 1);
	message.bytes = message.total - message.offset < CHUNK
				? (uint32_t)(message.total - message.offset)
				: CHUNK;
	message.signature = call->signature;
	spoil = take(script, 1);
	if (spoil & 1)
		message.bytes = (uint32_t)take(script, 4);
	if (spoil & 2)
		message.total = take(script, 8);
	if (spoil & 4)
		message.signature = (uint32_t)take(script, 4);
	if (spoil & 8)
		message.offset = take(script, 8);
	if (message.bytes <= CHUNK)
		message.digest = payload_digest(&message);
	if (scene.peer[from] >= 0)
		(void)send(scene.peer[from], &message,
			   HEAD_BYTES + (message.bytes <= CHUNK ? message.bytes : CHUNK),
			   MSG_NOSIGNAL);
}

static void send_raw(struct script *script)
{
	unsigned from = other_rank(script);
	size_t bytes = take(script, 1);

	if (bytes > script->left)
		bytes = script->left;
	if (scene.peer[from] >= 0)
		(void)send(scene.peer[from], script->at, bytes, MSG_NOSIGNAL);
	script->at += bytes;
	script->left -= bytes;
}

static void hang_up(struct script *script)
{
	unsigned rank = other_rank(script);

	if (scene.peer[rank] >= 0)
		close(scene.peer[rank]);
	scene.peer[rank] = -1;
	if (take(script, 1) & 1)
		watcher_note_exit(&scene.watcher, rank);
}

/* ---- the watcher -------------------------------------------------------------------------------
 */

static void build_view(struct outcome_view *view)
{
	struct belay_comm *comm = &scene.comm;
	struct stuck_turn stuck;

	*view = (struct outcome_view){.self = comm->rank, .now_ns = clock_now_ns()};
	view->late_ns = view->grace_ns = 1;
	comm_read_progress(comm, &view->progress);
	view->verdict = atomic_load_explicit(&comm->control.head->verdict, memory_order_acquire);
	view->rescue = atomic_load_explicit(&comm->control.head->rescue, memory_order_acquire);
	if (view->rescue)
		view->rescue_members = watcher_rescue_members(comm, view->rescue);
	if (comm_read_wait(comm, &stuck) == MAILBOX_IDLE)
		return;
	view->phase = stuck.phase;
	view->turn = stuck.turn;
	view->missing = stuck.missing;
	view->since_ns = stuck.since_ns;
	view->give_up_ns = scene.gave_up ? 1 : UINT64_MAX;
	for (unsigned r = 0; r < RANKS; r++)
		view->lost_since_ns[r] = 1;
}

/* One look of the watcher, as in watcher.c. */
static void look(void)
{
	struct watcher *w = &scene.watcher;
	struct outcome_view view;
	struct outcome_action action;

	for (unsigned r = 0; r < RANKS; r++)
		if (r != w->comm->rank && rescue_wants_read(w->rescue, r) &&
		    !rescue_read(w->rescue, r))
			rescue_lose_link(w->rescue, r);
	build_view(&view);
	if (verdict_decided(view.verdict)) {
		watcher_meet_verdict(w);
		return;
	}
	rescue_follow(w->rescue, view.rescue, view.rescue_members);
	action = outcome_decide(&view);
	watcher_act(w, &view, &action);
	(void)outcome_next_ns(&view);
}

/* What a program may ask at any time. */
static void ask(void)
{
	struct belay_comm *comm = &scene.comm;
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct belay_health health = {.size = sizeof(health)};
	struct belay_rank_health rank = {.size = sizeof(rank)};
	struct belay_unique_id id;
	uint64_t mask;

	comm_settle(comm);
	if (comm_decided(comm))
		(void)comm_fail(comm);
	if (belay_comm_verdict(comm, &verdict) == 0 && (unsigned)verdict.proposer >= RANKS)
		abort();
	if (belay_comm_health(comm, &health))
		abort();
	for (int r = 0; r < (int)RANKS; r++)
		if (belay_comm_rank_health(comm, r, &rank))
			abort();
	if (belay_comm_survivors(comm, 0, &mask, &id) == 0 && !(mask >> comm->rank & 1))
		abort();
}

static void step(struct script *script)
{
	switch (take(script, 1) % 13) {
	case 0:
		spoil_segment(script);
		break;
	case 1:
		spoil_words(script);
		break;
	case 2:
		get_stuck(script);
		break;
	case 3:
		stage_peer(script);
		break;
	case 4:
		begin_rescue(script);
		break;
	case 5:
		send_part(script);
		break;
	case 6:
		send_raw(script);
		break;
	case 7:
		hang_up(script);
		break;
	case 8:
		look_into_mailbox();
		break;
	case 9:
		ask();
		break;
	case 10:
		call_at_once(script);
		break;
	case 12:
		scene.gave_up = true;
		break;
	default:
		look();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script script = {data, size};

	if (!scene.comm.nranks)
		set_up_once();
	begin(&scene.comm, (unsigned)take(&script, 1) % RANKS);
	for (int i = 0; i < STEPS_MAX && script.left; i++)
		step(&script);
	end(&scene.comm);
	return 0;
}
