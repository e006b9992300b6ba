/* SPDX-License-Identifier: Apache-2.0 */
/* See mailbox.h. */
#include "runtime/outcome/mailbox.h"

#include <assert.h>
#include <string.h>

static const uint8_t allowed[] = {
	[MAILBOX_IDLE] = 1u << MAILBOX_STUCK,
	[MAILBOX_STUCK] = 1u << MAILBOX_IDLE | 1u << MAILBOX_ASKED,
	[MAILBOX_ASKED] = 1u << MAILBOX_IDLE | 1u << MAILBOX_ABANDONED,
	[MAILBOX_ABANDONED] = 1u << MAILBOX_RELEASED,
	[MAILBOX_RELEASED] = 1u << MAILBOX_IDLE,
};

static void move_locked(struct mailbox *mailbox, enum mailbox_state to)
{
	assert(allowed[mailbox->state] & 1u << to);
	mailbox->state = to;
}

void mailbox_init(struct mailbox *mailbox)
{
	memset(mailbox, 0, sizeof(*mailbox));
	/* Default attributes: cannot fail on Linux. */
	(void)pthread_mutex_init(&mailbox->lock, NULL);
}

void mailbox_destroy(struct mailbox *mailbox)
{
	(void)pthread_mutex_destroy(&mailbox->lock);
}

void mailbox_post(struct mailbox *mailbox, const struct stuck_turn *stuck)
{
	pthread_mutex_lock(&mailbox->lock);
	mailbox->stuck = *stuck;
	move_locked(mailbox, MAILBOX_STUCK);
	pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_update_missing(struct mailbox *mailbox, uint64_t missing)
{
	pthread_mutex_lock(&mailbox->lock);
	mailbox->stuck.missing = missing;
	pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_update(struct mailbox *mailbox, enum wait_phase phase, uint64_t missing)
{
	pthread_mutex_lock(&mailbox->lock);
	mailbox->stuck.phase = phase;
	mailbox->stuck.missing = missing;
	pthread_mutex_unlock(&mailbox->lock);
}

bool mailbox_asked(struct mailbox *mailbox)
{
	bool asked;

	pthread_mutex_lock(&mailbox->lock);
	asked = mailbox->state == MAILBOX_ASKED;
	pthread_mutex_unlock(&mailbox->lock);
	return asked;
}

bool mailbox_abandon(struct mailbox *mailbox)
{
	bool abandoned = false;

	pthread_mutex_lock(&mailbox->lock);
	if (mailbox->state == MAILBOX_ASKED) {
		move_locked(mailbox, MAILBOX_ABANDONED);
		abandoned = true;
	}
	pthread_mutex_unlock(&mailbox->lock);
	return abandoned;
}

bool mailbox_released(struct mailbox *mailbox, int *ret_outcome, uint64_t *ret_digest,
		      uint64_t *ret_asked_ns)
{
	bool released;

	pthread_mutex_lock(&mailbox->lock);
	released = mailbox->state == MAILBOX_RELEASED;
	if (released) {
		*ret_outcome = mailbox->outcome;
		*ret_digest = mailbox->digest;
		*ret_asked_ns = mailbox->asked_ns;
	}
	pthread_mutex_unlock(&mailbox->lock);
	return released;
}

void mailbox_clear(struct mailbox *mailbox)
{
	pthread_mutex_lock(&mailbox->lock);
	if (mailbox->state != MAILBOX_IDLE)
		move_locked(mailbox, MAILBOX_IDLE);
	pthread_mutex_unlock(&mailbox->lock);
}

bool mailbox_complain(struct mailbox *mailbox, enum complaint complaint, uint64_t turn,
		      uint64_t now_ns)
{
	bool taken;

	pthread_mutex_lock(&mailbox->lock);
	/* A mismatch may have to wait; what is worse does not. */
	taken = mailbox->complaint < complaint && mailbox->complaint <= COMPLAINT_MISMATCH;
	if (taken) {
		mailbox->complaint = complaint;
		mailbox->complaint_turn = turn;
		mailbox->complaint_since_ns = now_ns;
	}
	pthread_mutex_unlock(&mailbox->lock);
	return taken;
}

int mailbox_outcome(struct mailbox *mailbox)
{
	int outcome;

	pthread_mutex_lock(&mailbox->lock);
	outcome = mailbox->outcome;
	pthread_mutex_unlock(&mailbox->lock);
	return outcome;
}

enum mailbox_state mailbox_read(struct mailbox *mailbox, struct stuck_turn *ret_stuck)
{
	enum mailbox_state state;

	pthread_mutex_lock(&mailbox->lock);
	state = mailbox->state;
	*ret_stuck = mailbox->stuck;
	pthread_mutex_unlock(&mailbox->lock);
	return state;
}

enum mailbox_state mailbox_ask(struct mailbox *mailbox, uint64_t turn, uint64_t now_ns)
{
	enum mailbox_state state = MAILBOX_IDLE;

	pthread_mutex_lock(&mailbox->lock);
	if (mailbox->state != MAILBOX_IDLE && mailbox->stuck.turn == turn &&
	    mailbox->stuck.phase != WAIT_COMMIT && mailbox->stuck.phase != WAIT_VERDICT) {
		if (mailbox->state == MAILBOX_STUCK) {
			move_locked(mailbox, MAILBOX_ASKED);
			mailbox->asked_ns = now_ns;
		}
		state = mailbox->state;
	}
	pthread_mutex_unlock(&mailbox->lock);
	return state;
}

void mailbox_release(struct mailbox *mailbox, uint64_t turn, int outcome, uint64_t digest)
{
	pthread_mutex_lock(&mailbox->lock);
	if (mailbox->state == MAILBOX_ABANDONED && mailbox->stuck.turn == turn) {
		mailbox->outcome = outcome;
		mailbox->digest = digest;
		move_locked(mailbox, MAILBOX_RELEASED);
	}
	pthread_mutex_unlock(&mailbox->lock);
}
