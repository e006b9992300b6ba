/* SPDX-License-Identifier: Apache-2.0 */
/* See device_calls.h. */
#include "runtime/cuda/device_calls.h"

#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_records.h"
#include "runtime/cuda/posted_words.h"
#include "runtime/cuda/stuck_kernel.h"
#include "runtime/group/control_view.h"
#include "runtime/path/path.h"

/* Actions in one look; each changes what the next one sees, so a few are all there is to do. */
#define ACTIONS_MAX 8
/* How often posts are looked at: while something is wrong or about to be; while it has been for
 * long; while calls run. */
#define LOOK_SOON_NS  (50 * NS_PER_MS / 1000)
#define LOOK_LATE_NS  (500 * NS_PER_MS / 1000)
#define LOOK_CALLS_NS NS_PER_MS
/* How often CUDA is asked for errors. */
#define ASK_CALLS_NS (2 * NS_PER_MS)
#define ASK_IDLE_NS  (50 * NS_PER_MS)

struct device_calls {
	uint64_t mismatch_told, gave_up_told; /* turns */
	bool hasty;
	uint64_t flight_turn, flight_since_ns; /* the turn that is under way, and since when */
	uint64_t ask_ns;		       /* when to ask for errors next */
};

struct device_calls *device_calls_create(void)
{
	return calloc(1, sizeof(struct device_calls));
}

void device_calls_free(struct device_calls *calls)
{
	free(calls);
}

static struct symm_posts *own_posts(const struct belay_comm *comm)
{
	return &comm->control.device[comm->rank].posts;
}

static struct symm_orders *own_orders(const struct belay_comm *comm)
{
	return &comm->control.device[comm->rank].orders;
}

/* ---- what any thread may ask ----------------------------------------------------------------- */

uint64_t device_done(const struct belay_comm *comm, unsigned rank)
{
	return control_view_done(&comm->control, rank);
}

uint64_t device_staged(const struct belay_comm *comm)
{
	return control_view_staged(&comm->control, comm->rank);
}

void device_fail_from(struct belay_comm *comm, uint64_t turn)
{
	struct symm_orders *orders = own_orders(comm);

	/* Once: there is one verdict. */
	if (!post_load(&orders->fail_from))
		order_store(&orders->fail_from, turn);
}

/* ---- a turn and its call --------------------------------------------------------------------- */

/* The own description of a turn; NULL before the kernel has posted `staged`. The kernel's stores to
 * the host are not ordered (P2): it is told to people, and checked before anything is done by it
 * (rescue.c). */
static const struct control_call *description(const struct belay_comm *comm, uint64_t turn)
{
	uint64_t staged = device_staged(comm);

	return staged == turn || staged == turn + 1 ? &comm->own->call[turn & 1] : NULL;
}

uint64_t device_calls_seq(const struct belay_comm *comm, uint64_t turn)
{
	const struct control_call *call = description(comm, turn);
	const struct control_call *before = &comm->own->call[(turn - 1) & 1];

	if (call)
		return call->seq;
	if (before->seq == 0)
		return comm->first_seq;
	return before->last_turn >= turn ? before->seq : before->seq + 1;
}

/* Blocks post what they miss, and again when that changes. */
static bool is_here(const struct belay_comm *comm, const struct stuck_turn *stuck, unsigned rank)
{
	const struct symm_posts *posts = own_posts(comm);

	if (stuck->phase == WAIT_GATHER || STUCK_TURN(post_load(&posts->stuck)) != stuck->turn)
		return false;
	return !(post_load(&posts->missing) & rank_bit(rank));
}

/* What the watcher asks of a kernel's wait, on whatever path but NCCL's. */
static const struct path kernel_wait = {.is_here = is_here};

/* ---- carrying out ---------------------------------------------------------------------------- */

static void note_warm(struct belay_comm *comm, uint64_t seq)
{
	if (post_load(&own_posts(comm)->pass_ended) || seq - comm->first_seq >= WARMUP_CALLS)
		comm_warm_up_is_over(comm);
}

static void note_late(struct belay_comm *comm, const struct stuck_turn *stuck)
{
	device_records_note(comm, &(struct device_note){.turn = stuck->turn,
							.flags = CALL_LATE,
							.missing = stuck->missing});
}

/* A kernel posts at the soft deadline, unless it is hasty or parked: then it has only begun. */
static void post(struct belay_comm *comm, const struct stuck_action *action, uint64_t now)
{
	bool hasty = comm->device->calls->hasty;
	bool at_once = hasty || action->phase == WAIT_GATHER;
	uint64_t seq = device_calls_seq(comm, action->turn);
	const struct control_call *call = description(comm, action->turn);
	struct stuck_turn stuck = {
		.phase = action->phase,
		.turn = action->turn,
		.seq = seq,
		.pass = call ? call->pass : 0,
		.missing = action->missing,
		.since_ns = at_once ? now : now - comm->settings.late_ns,
		/* The kernel stored it before `stuck`: [POSTS]. */
		.output = (void *)(uintptr_t)post_load(&own_posts(comm)->output),
		/* A gate says nothing when it is passed: the ranks' own words tell. */
		.path = call && call->path == BELAY_PATH_NCCL ? &nccl_path : &kernel_wait,
		.at_once = hasty,
		.no_rescue = call && call->path == BELAY_PATH_NCCL,
	};

	note_warm(comm, seq);
	stuck.give_up_ns = comm_give_up_ns(comm);
	mailbox_post(&comm->mailbox, &stuck);
	if (!at_once)
		note_late(comm, &stuck);
}

static void gave_up(struct belay_comm *comm, uint64_t turn, uint64_t now)
{
	comm->device->calls->gave_up_told = turn;
	cause_add(comm->causes, NULL, 0, (int)comm->rank, device_calls_seq(comm, turn),
		  "a kernel left by its own last deadline: no watcher answered it");
	(void)mailbox_complain(&comm->mailbox, COMPLAINT_GAVE_UP, turn, now);
}

static void act_on_fault(struct belay_comm *comm, uint64_t asked)
{
	fault_act(&comm->faults, (int)comm->rank, device_calls_seq(comm, asked >> 8),
		  (enum fault_point)(asked & 0xff));
	order_store(&own_orders(comm)->fault_done, asked);
}

static void complain_of_mismatch(struct belay_comm *comm, uint64_t turn, uint64_t now)
{
	comm->device->calls->mismatch_told = turn;
	(void)mailbox_complain(&comm->mailbox, COMPLAINT_MISMATCH, turn, now);
}

static void carry_out(struct belay_comm *comm, const struct stuck_action *action, uint64_t now)
{
	struct mailbox *mailbox = &comm->mailbox;
	struct symm_orders *orders = own_orders(comm);

	switch (action->kind) {
	case STUCK_ACT:
		act_on_fault(comm, action->value);
		break;
	case STUCK_FAIL:
		device_fail_from(comm, action->value);
		break;
	case STUCK_COMPLAIN:
		complain_of_mismatch(comm, action->value, now);
		break;
	case STUCK_GAVE_UP:
		gave_up(comm, action->value, now);
		break;
	case STUCK_POST:
		post(comm, action, now);
		break;
	case STUCK_UPDATE:
		mailbox_update(mailbox, action->phase, action->missing);
		break;
	case STUCK_CLEAR:
		mailbox_clear(mailbox);
		break;
	case STUCK_ORDER:
		order_store(&orders->abandon, action->value);
		break;
	case STUCK_ABANDON:
		(void)mailbox_abandon(mailbox); /* asked by this thread, so it is still */
		/* Release: for whoever joins the rescue, see rescue.c. */
		atomic_store_explicit(&comm->own->abandoned, action->value, memory_order_release);
		break;
	case STUCK_RELEASE:
		mailbox_clear(mailbox);
		order_store(&orders->released, action->value);
		break;
	case STUCK_LET_GO:
		order_store(&orders->released, action->value);
		break;
	case STUCK_NOTHING:
		break;
	}
}

/* ---- looking --------------------------------------------------------------------------------- */

static uint64_t failed_turn(const struct belay_comm *comm)
{
	uint64_t word = atomic_load_explicit(&comm->control.head->verdict, memory_order_acquire);

	return verdict_decided(word) ? verdict_turn(word) : 0;
}

static void build_view(struct belay_comm *comm, struct stuck_view *view)
{
	const struct symm_posts *posts = own_posts(comm);
	const struct symm_orders *orders = own_orders(comm);
	const struct device_calls *calls = comm->device->calls;
	struct stuck_turn stuck;

	*view = (struct stuck_view){
		.state = mailbox_read(&comm->mailbox, &stuck),
		.stuck = post_load(&posts->stuck),
		.missing = post_load(&posts->missing),
		.output_turn = post_load(&posts->output_turn),
		.mismatch = post_load(&posts->mismatch),
		.gave_up = post_load(&posts->gave_up),
		.fault_asked = post_load(&posts->fault_asked),
		.abandon = orders->abandon, /* this thread's own */
		.fail_from = post_load(&orders->fail_from),
		.released = orders->released,
		.fault_done = orders->fault_done,
		.mismatch_told = calls->mismatch_told,
		.gave_up_told = calls->gave_up_told,
		.failed = failed_turn(comm),
	};
	view->turn = stuck.turn;
	view->phase = stuck.phase;
	view->told_missing = stuck.missing;
	view->outcome = mailbox_outcome(&comm->mailbox);
	view->grid = block_words_grid(posts->block, stuck.turn);
	view->done = device_done(comm, comm->rank);
	/* R3. */
	view->queued = view->state == MAILBOX_RELEASED && !device_is_quiet(comm);
}

/* The turn that is under way; 0: none, as far as has been posted. */
static uint64_t turn_in_flight(const struct belay_comm *comm)
{
	uint64_t staged = device_staged(comm);
	uint64_t stuck = STUCK_TURN(post_load(&own_posts(comm)->stuck));
	uint64_t turn = staged > stuck ? staged : stuck;

	return turn > device_done(comm, comm->rank) ? turn : 0;
}

static void follow_flight(struct belay_comm *comm, uint64_t now)
{
	struct device_calls *calls = comm->device->calls;
	uint64_t turn = turn_in_flight(comm);

	if (turn != calls->flight_turn)
		calls->flight_since_ns = now;
	calls->flight_turn = turn;
}

/* ---- errors that nobody posts ---------------------------------------------------------------- */

static void ask_for_errors(struct belay_comm *comm, uint64_t now)
{
	struct device_calls *calls = comm->device->calls;
	struct gpu_error error = {0};

	if (now < calls->ask_ns)
		return;
	calls->ask_ns = now + (calls->flight_turn ? ASK_CALLS_NS : ASK_IDLE_NS);
	/* A lost context says so to any question. */
	if (gpu_stream_done(comm->device->stream, &error) < 0 && error.sticky)
		device_fault(comm, &error, "a kernel has failed");
}

/* ---- one look -------------------------------------------------------------------------------- */

static uint64_t next_look_ns(const struct belay_comm *comm, enum mailbox_state state, uint64_t now)
{
	const struct device_calls *calls = comm->device->calls;
	uint64_t late = comm->settings.late_ns, idle = late / 4, age;

	if (idle > comm->settings.heartbeat_ns)
		idle = comm->settings.heartbeat_ns;
	if (state > MAILBOX_STUCK)
		return now + LOOK_SOON_NS;
	if (!calls->flight_turn)
		return now + (idle > LOOK_CALLS_NS ? idle : LOOK_CALLS_NS);
	age = now - calls->flight_since_ns;
	if (calls->hasty || (age >= late / 2 && age < 4 * late))
		return now + LOOK_SOON_NS;
	if (age >= 4 * late)
		return now + LOOK_LATE_NS;
	return now + (late / 2 - age < LOOK_CALLS_NS ? late / 2 - age : LOOK_CALLS_NS);
}

uint64_t device_calls_watch(struct belay_comm *comm, uint64_t now_ns)
{
	struct stuck_view view = {0};

	for (int i = 0; i < ACTIONS_MAX; i++) {
		struct stuck_action action;

		build_view(comm, &view);
		action = stuck_decide(&view);
		if (action.kind == STUCK_NOTHING)
			break;
		carry_out(comm, &action, now_ns);
	}
	follow_flight(comm, now_ns);
	ask_for_errors(comm, now_ns);
	return next_look_ns(comm, view.state, now_ns);
}

void device_calls_set_hasty(struct belay_comm *comm, bool hasty)
{
	struct device_calls *calls = comm->device->calls;

	if (calls->hasty != hasty && device_write_hasty(comm, hasty) == 0)
		calls->hasty = hasty;
}
