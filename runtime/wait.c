/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting of the calling thread; see wait.h for the contract of sleeping. */
#include "runtime/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/outcome/verdict.h"
#include "runtime/outcome/watcher.h"

/* The longest sleep. Wakes are not lost, so this only bounds what a bug or a foreign stop could
 * do. */
#define SLEEP_NS_MAX (100 * NS_PER_MS)
/* The same where kernels are waited for: they ring no bell. */
#define DEVICE_SLEEP_NS_MAX (50 * NS_PER_MS / 1000)

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static struct mailbox *mailbox_of(struct belay_comm *comm)
{
	return comm->device ? &comm->commits : &comm->mailbox;
}

void wait_ring_bell(struct control_rank *rank)
{
	/* Release: the woken thread sees what made us ring. */
	atomic_fetch_add_explicit(&rank->bell, 1, memory_order_release);
	/* Nobody asleep is not an error. */
	(void)syscall(SYS_futex, &rank->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void wait_wake_sleepers(struct belay_comm *comm)
{
	uint64_t sleepers;

	comm->wake_pending = false;
	atomic_thread_fence(memory_order_seq_cst); /* [SLEEP] between (3) and (4) */
	/* Relaxed: ordered by the fence. */
	if (atomic_load_explicit(&comm->own->sleepers, memory_order_relaxed) == 0)
		return;
	sleepers = atomic_exchange_explicit(&comm->own->sleepers, 0, memory_order_acq_rel);
	for (; sleepers; sleepers &= sleepers - 1)
		wait_ring_bell(comm_named_rank(comm, (unsigned)__builtin_ctzll(sleepers)));
}

/* One stamp for all that a look has found, taken behind it: no arrival is recorded earlier than the
 * peer's own staging, however long the look took. */
static void note_arrivals(struct wait *wait, uint64_t arrived)
{
	uint64_t now = clock_stamp_ns();

	for (; arrived; arrived &= arrived - 1)
		wait->arrival_ns[__builtin_ctzll(arrived)] =
			now > wait->start_ns ? now - wait->start_ns : 0;
}

/* Takes what has arrived out of `missing`; true when nothing is left. */
static bool poll(struct belay_comm *comm, struct wait *wait)
{
	uint64_t arrived = 0;

	for (uint64_t m = wait->stuck.missing; m; m &= m - 1) {
		unsigned r = (unsigned)__builtin_ctzll(m);

		if (wait->arrived(comm, wait, r))
			arrived |= rank_bit(r);
	}
	if (arrived && wait->arrival_ns)
		note_arrivals(wait, arrived);
	wait->stuck.missing &= ~arrived;
	return wait->stuck.missing == 0;
}

static void futex_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec timeout = {.tv_sec = (time_t)(ns / NS_PER_SECOND),
				   .tv_nsec = (long)(ns % NS_PER_SECOND)};

	/* Every way it can end (woken, changed, timeout, signal) means: look again. */
	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

/* Sleeps until a pending rank posts, a bell rings or `ns` are over; [SLEEP] from the sleeper's
 * side. */
static void sleep_for(struct belay_comm *comm, struct wait *wait, uint64_t ns)
{
	uint64_t longest = comm->device ? DEVICE_SLEEP_NS_MAX : SLEEP_NS_MAX;
	unsigned first = (unsigned)__builtin_ctzll(wait->stuck.missing);
	/* Acquire: pairs with the release of the ringer. */
	uint32_t bell = atomic_load_explicit(&comm->own->bell, memory_order_acquire);

	atomic_fetch_or_explicit(&comm->control.rank[first].sleepers, rank_bit(comm->rank),
				 memory_order_acq_rel); /* (1) */
	atomic_thread_fence(memory_order_seq_cst);
	if (poll(comm, wait)) /* (2) */
		return;
	if (comm_decided(comm))
		return;
	futex_sleep(&comm->own->bell, bell, ns < longest ? ns : longest);
}

/* The turn is the watcher's now: waits for its word. Bounded by the hard deadline, which the
 * watcher keeps. */
static enum wait_outcome wait_for_release(struct belay_comm *comm, struct wait *wait)
{
	uint64_t asked_ns = 0;
	int outcome = -1;

	/* R4: this rank pushes nothing more for the turn. */
	atomic_store_explicit(&comm->own->results, wait->stuck.turn, memory_order_release);
	watcher_kick(comm->watcher);
	for (;;) {
		uint32_t bell = atomic_load_explicit(&comm->own->bell, memory_order_acquire);

		if (mailbox_released(mailbox_of(comm), &outcome, &wait->digest, &asked_ns))
			break;
		futex_sleep(&comm->own->bell, bell, SLEEP_NS_MAX);
	}
	mailbox_clear(mailbox_of(comm));
	wait->rescue_ns = clock_now_ns() - asked_ns;
	return outcome == 0 ? WAIT_RESCUED : WAIT_FAILED;
}

/* True when the watcher should be told now: past the soft deadline; a missing rank is dead; another
 * rank has begun the rescue of this turn; or the watchers do the whole call. */
static bool should_tell(const struct belay_comm *comm, const struct wait *wait, uint64_t now)
{
	const struct control_head *head = comm->control.head;
	uint64_t dead = atomic_load_explicit(&head->dead, memory_order_acquire);
	uint64_t rescue = atomic_load_explicit(&head->rescue, memory_order_acquire);

	return now - wait->stuck.since_ns >= comm->settings.late_ns ||
	       wait->stuck.phase == WAIT_GATHER || dead & wait->stuck.missing ||
	       (rescue_turn(rescue) == wait->stuck.turn && wait->stuck.phase != WAIT_COMMIT);
}

static void tell(struct belay_comm *comm, struct wait *wait)
{
	wait->stuck.give_up_ns = comm_give_up_ns(comm);
	wait->stuck.path = comm->path;
	wait->stuck.at_once = wait->stuck.no_rescue = false; /* kernels' */
	mailbox_post(mailbox_of(comm), &wait->stuck);
	watcher_kick(comm->watcher);
}

/* One look at everything but the clock: -1 to go on waiting. */
static int look(struct belay_comm *comm, struct wait *wait, bool told)
{
	uint64_t before = wait->stuck.missing;

	if (poll(comm, wait))
		return WAIT_DONE;
	if (comm_decided(comm))
		return WAIT_FAILED;
	if (told && before != wait->stuck.missing)
		mailbox_update_missing(mailbox_of(comm), wait->stuck.missing);
	if (told && mailbox_asked(mailbox_of(comm)) && mailbox_abandon(mailbox_of(comm)))
		return (int)wait_for_release(comm, wait);
	return -1;
}

/* Keeps how long the rank that the watcher named has cost at most. */
static void note_worst(struct belay_comm *comm, const struct wait *wait)
{
	uint64_t waited = clock_now_ns() - wait->stuck.since_ns;
	/* Relaxed here: numbers to be shown; this thread is the only writer of late_worst_ns. */
	uint64_t named = atomic_load_explicit(&comm->late_named, memory_order_relaxed);
	_Atomic uint64_t *worst = &comm->count.late_worst_ns[named % BELAY_RANKS_MAX];

	if (named >> 8 == wait->stuck.turn &&
	    waited > atomic_load_explicit(worst, memory_order_relaxed))
		atomic_store_explicit(worst, waited, memory_order_relaxed);
}

static int wait_slowly(struct belay_comm *comm, struct wait *wait)
{
	bool told = false;
	int outcome;

	wait->stuck.since_ns = clock_now_ns();
	for (;;) {
		/* The clock before the look: what a look after it still misses was missing at
		 * that time. */
		uint64_t now = clock_now_ns();
		uint64_t waited = now - wait->stuck.since_ns;

		outcome = look(comm, wait, told);
		if (outcome >= 0)
			break;
		if (!wait->late && waited >= comm->settings.late_ns) {
			wait->late = true;
			wait->late_for = wait->stuck.missing;
		}
		if (!told && should_tell(comm, wait, now)) {
			told = true;
			tell(comm, wait);
		} else if (waited < comm->yield_ns) {
			(void)sched_yield(); /* cannot fail on Linux */
		} else {
			sleep_for(comm, wait,
				  told ? SLEEP_NS_MAX : comm->settings.late_ns - waited);
		}
	}
	if (told && outcome != WAIT_RESCUED)
		mailbox_clear(mailbox_of(comm));
	if (wait->late)
		note_worst(comm, wait);
	return outcome;
}

enum wait_outcome wait_for_ranks(struct belay_comm *comm, struct wait *wait)
{
	if (poll(comm, wait))
		return WAIT_DONE;
	for (uint32_t i = 0; i < comm->spin_polls && wait->stuck.phase != WAIT_GATHER; i++) {
		pause_cpu();
		if (poll(comm, wait))
			return WAIT_DONE;
	}
	wait_end_of_call(comm); /* [SLEEP]: before the first yield */
	return (enum wait_outcome)wait_slowly(comm, wait);
}
