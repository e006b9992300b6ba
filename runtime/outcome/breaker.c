/* SPDX-License-Identifier: Apache-2.0 */
/* See breaker.h. */
#include "runtime/outcome/breaker.h"

#include <assert.h>
#include <string.h>

static const uint8_t allowed[] = {
	[BELAY_BREAKER_CLOSED] = 1u << BELAY_BREAKER_OPEN,
	[BELAY_BREAKER_OPEN] = 1u << BELAY_BREAKER_HALF_OPEN,
	[BELAY_BREAKER_HALF_OPEN] = 1u << BELAY_BREAKER_CLOSED | 1u << BELAY_BREAKER_OPEN,
};

static void move(struct breaker *breaker, enum belay_breaker_state to, uint64_t now_ns)
{
	assert(allowed[breaker->state] & 1u << to);
	breaker->state = to;
	breaker->since_ns = now_ns;
}

void breaker_init(struct breaker *breaker, uint32_t rescues, uint64_t window_ns,
		  uint64_t first_backoff_ns)
{
	memset(breaker, 0, sizeof(*breaker));
	breaker->rescues = rescues < BREAKER_RESCUES_MAX ? rescues : BREAKER_RESCUES_MAX;
	breaker->window_ns = window_ns;
	breaker->first_backoff_ns = first_backoff_ns;
}

static uint64_t backoff_ns(const struct breaker *breaker)
{
	return breaker->first_backoff_ns << breaker->doublings;
}

static void trip(struct breaker *breaker, uint64_t now_ns)
{
	move(breaker, BELAY_BREAKER_OPEN, now_ns);
	breaker->next_probe_ns = now_ns + backoff_ns(breaker);
	if (breaker->doublings < BREAKER_DOUBLINGS_MAX)
		breaker->doublings++;
}

bool breaker_rescued(struct breaker *breaker, uint64_t now_ns)
{
	uint64_t *slot = &breaker->when_ns[breaker->count % breaker->rescues];
	uint64_t oldest;

	if (breaker->state != BELAY_BREAKER_CLOSED)
		return false;
	*slot = now_ns;
	breaker->count++;
	if (breaker->count < breaker->rescues)
		return false;
	oldest = breaker->when_ns[breaker->count % breaker->rescues];
	if (now_ns - oldest > breaker->window_ns)
		return false;
	/* A long healthy time forgives the earlier openings. */
	if (breaker->doublings && now_ns - breaker->since_ns > 10 * backoff_ns(breaker))
		breaker->doublings = 0;
	breaker->count = 0;
	trip(breaker, now_ns);
	return true;
}

bool breaker_probe_due(struct breaker *breaker, uint64_t now_ns)
{
	if (breaker->state != BELAY_BREAKER_OPEN || now_ns < breaker->next_probe_ns)
		return false;
	move(breaker, BELAY_BREAKER_HALF_OPEN, now_ns);
	return true;
}

void breaker_probe_ended(struct breaker *breaker, bool all_saw_it, uint64_t now_ns)
{
	if (all_saw_it)
		move(breaker, BELAY_BREAKER_CLOSED, now_ns);
	else
		trip(breaker, now_ns);
}
