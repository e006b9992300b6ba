/* SPDX-License-Identifier: Apache-2.0 */
/* See stuck_kernel.h. */
#include "runtime/cuda/stuck_kernel.h"

static struct stuck_action act(enum stuck_action_kind kind, uint64_t value)
{
	return (struct stuck_action){.kind = kind, .value = value};
}

/* A kernel that has seen another signature waits for nothing but a verdict. */
static enum wait_phase phase_of(const struct stuck_view *view)
{
	if (view->mismatch && view->mismatch >> 8 == STUCK_TURN(view->stuck))
		return WAIT_VERDICT;
	return STUCK_PHASE(view->stuck);
}

/* Things of any state, before the mailbox. */
static struct stuck_action on_word(const struct stuck_view *view)
{
	if (view->fault_asked && view->fault_asked != view->fault_done)
		return act(STUCK_ACT, view->fault_asked);
	if (view->failed && !view->fail_from)
		return act(STUCK_FAIL, view->failed);
	if (view->mismatch >> 8 > view->mismatch_told)
		return act(STUCK_COMPLAIN, view->mismatch >> 8);
	if (view->gave_up > view->gave_up_told)
		return act(STUCK_GAVE_UP, view->gave_up);
	return act(STUCK_NOTHING, 0);
}

static struct stuck_action with_wait(const struct stuck_view *view, enum stuck_action_kind kind)
{
	return (struct stuck_action){
		.kind = kind,
		.phase = phase_of(view),
		.turn = STUCK_TURN(view->stuck),
		.missing = view->missing,
	};
}

static struct stuck_action on_idle(const struct stuck_view *view)
{
	uint64_t turn = STUCK_TURN(view->stuck), released = view->released >> 1;

	if (view->failed) {
		/* A block may hold on for the outcome; nobody was told of it, so nobody writes. */
		if (view->abandon > view->done && view->abandon > released)
			return act(STUCK_LET_GO, view->abandon << 1);
		return act(STUCK_NOTHING, 0);
	}
	/* A released turn is over, though its holder may not have posted that yet. */
	if (turn > view->done && turn > released)
		return with_wait(view, STUCK_POST);
	return act(STUCK_NOTHING, 0);
}

static bool is_over(const struct stuck_view *view)
{
	return view->done >= view->turn || STUCK_TURN(view->stuck) > view->turn || view->failed;
}

static struct stuck_action on_stuck(const struct stuck_view *view)
{
	if (is_over(view))
		return act(STUCK_CLEAR, 0);
	if (view->phase != phase_of(view) || view->told_missing != view->missing)
		return with_wait(view, STUCK_UPDATE);
	return act(STUCK_NOTHING, 0);
}

static struct stuck_action on_asked(const struct stuck_view *view)
{
	struct stuck_action action = on_stuck(view);

	if (action.kind != STUCK_NOTHING || view->output_turn != view->turn)
		return action;
	if (view->abandon != view->turn)
		return act(STUCK_ORDER, view->turn);
	if (view->grid == GRID_ABANDONED)
		return act(STUCK_ABANDON, view->turn);
	return action;
}

struct stuck_action stuck_decide(const struct stuck_view *view)
{
	struct stuck_action action = on_word(view);

	if (action.kind != STUCK_NOTHING)
		return action;
	switch (view->state) {
	case MAILBOX_IDLE:
		return on_idle(view);
	case MAILBOX_STUCK:
		return on_stuck(view);
	case MAILBOX_ASKED:
		return on_asked(view);
	case MAILBOX_RELEASED:
		if (view->queued)
			break;
		return act(STUCK_RELEASE, view->turn << 1 | (view->outcome == 0));
	case MAILBOX_ABANDONED: /* the rescue's, or a verdict's, see watcher_meet_verdict() */
		break;
	}
	return action;
}
