/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher's thread: what it polls, how it builds a view; see watcher.h. What it does:
 * watcher_actions.c. */
#include "config.h"

#include "runtime/outcome/watcher.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_calls.h"
#include "runtime/outcome/path_switch.h"
#include "runtime/outcome/watcher_state.h"
#include "runtime/path/path.h"
#include "runtime/quiet_thread.h"
#include "runtime/wait.h"

/* A poll that returns this much later than asked means that the whole machine stood still (a
 * debugger, a migrated or suspended virtual machine): nobody can be blamed for that time. */
#define STANDSTILL_NS (500 * NS_PER_MS)
/* Actions in one look; more would be a livelock in the rules, so go back to poll() in between. */
#define ACTIONS_MAX 16
/* A wait that is longer than those of healthy calls. */
#define STUCK_NS NS_PER_MS
/* While kernels are rescued: they and NCCL wake nobody. */
#define RESCUE_POLL_NS (50 * NS_PER_MS / 1000)
/* Sleeps shorter than this cost more than they save. */
#define SLEEP_NS_MIN (20 * NS_PER_MS / 1000)

void watcher_kick(struct watcher *watcher)
{
	uint64_t one = 1;

	/* The counter cannot overflow in the life of the universe; EAGAIN would mean that it is
	 * set. */
	if (watcher)
		(void)!write(watcher->kick_fd, &one, sizeof(one));
}

/* ---- the view -------------------------------------------------------------------------------- */

static void view_words(struct watcher *w, struct outcome_view *view)
{
	const struct belay_comm *comm = w->comm;
	const struct control_head *head = comm->control.head;

	comm_read_progress(comm, &view->progress);
	/* [VERDICT] between (3) and (4). */
	atomic_thread_fence(memory_order_seq_cst);
	view->verdict = atomic_load_explicit(&head->verdict, memory_order_acquire);
	view->rescue = atomic_load_explicit(&head->rescue, memory_order_acquire);
	if (view->rescue) {
		view->rescue_members = watcher_rescue_members(comm, view->rescue);
		view->rescue_broken = rescue_is_broken(comm, view->rescue);
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct control_rank *rank = &comm->control.rank[r];

		if (atomic_load_explicit(&rank->state, memory_order_acquire) == CONTROL_LEFT)
			view->left |= rank_bit(r);
		/* Relaxed: decides only who is named late. */
		if (atomic_load_explicit(&rank->missing, memory_order_relaxed))
			view->waiting |= rank_bit(r);
		if (watcher_stands_still(comm, r, view->now_ns))
			view->stopped |= rank_bit(r);
	}
}

/* A new wait of the calling thread: forget what was noted about the last one. */
static void note_new_wait(struct watcher *w, const struct stuck_turn *stuck)
{
	if (w->wait_turn == stuck->turn && w->wait_phase == stuck->phase)
		return;
	if (w->wait_turn != stuck->turn)
		w->late_told = false;
	w->wait_turn = stuck->turn;
	w->wait_phase = stuck->phase;
	w->stood_still_before_ns = w->stood_still_ns;
	memset(w->lost_since_ns, 0, sizeof(w->lost_since_ns));
}

/* What is missing of what the calling thread said, now. */
static uint64_t still_missing(const struct belay_comm *comm, const struct stuck_turn *stuck)
{
	uint64_t missing = stuck->missing;

	for (uint64_t m = missing; m; m &= m - 1)
		if (stuck->path->is_here(comm, stuck, (unsigned)__builtin_ctzll(m)))
			missing &= ~(m & -m);
	return missing;
}

static void view_wait(struct watcher *w, struct outcome_view *view)
{
	struct stuck_turn stuck;
	enum mailbox_state state = comm_read_wait(w->comm, &stuck);
	uint64_t sent;

	if (state == MAILBOX_IDLE) {
		/* Relaxed: only shown. */
		atomic_store_explicit(&w->comm->own->missing, 0, memory_order_relaxed);
		return;
	}
	note_new_wait(w, &stuck);
	view->phase = stuck.phase;
	view->turn = stuck.turn;
	/* What comes after the calling thread has abandoned the turn does not help it: it still
	 * wants the rescue, and a new attempt when a member dies. */
	view->missing = state < MAILBOX_ABANDONED ? still_missing(w->comm, &stuck) : stuck.missing;
	view->since_ns = stuck.since_ns + (w->stood_still_ns - w->stood_still_before_ns);
	view->give_up_ns = stuck.give_up_ns;
	view->late_told = w->late_told;
	view->at_once = stuck.at_once;
	view->no_rescue = stuck.no_rescue;
	sent = liveness_sent(view);
	for (; sent; sent &= sent - 1) {
		unsigned r = (unsigned)__builtin_ctzll(sent);

		if (!w->lost_since_ns[r])
			w->lost_since_ns[r] = view->now_ns;
	}
	memcpy(view->lost_since_ns, w->lost_since_ns, sizeof(view->lost_since_ns));
	atomic_store_explicit(&w->comm->own->missing, view->missing, memory_order_relaxed);
}

static void view_complaint(struct watcher *w, struct outcome_view *view)
{
	struct mailbox *mailbox = &w->comm->mailbox;

	pthread_mutex_lock(&mailbox->lock);
	view->complaint = mailbox->complaint;
	view->complaint_turn = mailbox->complaint_turn;
	view->complaint_since_ns = mailbox->complaint_since_ns;
	pthread_mutex_unlock(&mailbox->lock);
	/* Acquire: what the aborting thread did before is visible to us. */
	if (atomic_load_explicit(&w->comm->abort_asked, memory_order_acquire))
		view->complaint = COMPLAINT_ABORT;
}

static void build_view(struct watcher *w, struct outcome_view *view)
{
	const struct settings *settings = &w->comm->settings;

	memset(view, 0, sizeof(*view));
	view->self = w->comm->rank;
	view->now_ns = clock_now_ns();
	view->late_ns = settings->late_ns;
	view->grace_ns = settings->grace_ns;
	view_words(w, view);
	view_wait(w, view);
	view_complaint(w, view);
}

/* ---- one look -------------------------------------------------------------------------------- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What is due without an action. */
static uint64_t look_around(struct watcher *w, const struct outcome_view *view)
{
	struct belay_comm *comm = w->comm;
	uint64_t now = view->now_ns, again = path_switch_watch(w, now);
	bool in_rescue = rescue_active(w->rescue);
	bool stuck = view->phase != WAIT_NOTHING && now > view->since_ns + STUCK_NS;

	if (in_rescue)
		again = sooner(again, now + (comm->device ? RESCUE_POLL_NS : NS_PER_MS));
	return comm->device ? sooner(again, device_watch(comm, now, in_rescue, stuck)) : again;
}

/* Looks and acts until there is nothing to do; returns when to look again at the latest. */
static uint64_t look(struct watcher *w)
{
	struct outcome_view view;

	/* What kernels have posted since; what comes of it is ordered in look_around(). */
	if (w->comm->device)
		(void)device_calls_watch(w->comm, clock_now_ns());
	for (int i = 0; i < ACTIONS_MAX; i++) {
		struct outcome_action action;

		if (w->comm->device)
			watcher_look_for_deaths(w);
		build_view(w, &view);
		if (verdict_decided(view.verdict)) {
			watcher_meet_verdict(w);
			return w->comm->device ? device_watch(w->comm, view.now_ns, false, false)
					       : UINT64_MAX;
		}
		rescue_follow(w->rescue, view.rescue, view.rescue_members);
		action = outcome_decide(&view);
		if (action.kind == OUTCOME_NOTHING)
			break;
		watcher_act(w, &view, &action);
	}
	return sooner(look_around(w, &view), outcome_next_ns(&view));
}

static void heartbeat(struct watcher *w, uint64_t now)
{
	struct control_rank *own = w->comm->own;
	/* Relaxed here and below: labels for people (L4), they order nothing. */
	uint64_t done = w->comm->device ? device_done(w->comm, w->comm->rank)
					: atomic_load_explicit(&own->done, memory_order_relaxed);

	if (done != w->done_seen) {
		w->done_seen = done;
		atomic_store_explicit(&own->progress_ns, now, memory_order_relaxed);
	}
	atomic_store_explicit(&own->heartbeat_ns, now, memory_order_relaxed);
	clock_calibrate();
	/* Soon again at first: a calibration needs two points. */
	w->next_heartbeat_ns = now + (w->beats++ ? w->comm->settings.heartbeat_ns : 20 * NS_PER_MS);
}

/* Fault injection: a watcher that does not run for a while. */
static void starve(struct watcher *w)
{
	uint64_t ns = 0, seq = atomic_load_explicit(&w->comm->own->seq, memory_order_relaxed);

	if (!faults_armed(&w->comm->faults) || seq == w->starved_seq)
		return;
	if (!fault_take(&w->comm->faults, (int)w->comm->rank, seq, FAULT_AT_STAGE,
			FAULT_BIT(FAULT_STARVE), &ns))
		return;
	w->starved_seq = seq;
	clock_nanosleep(CLOCK_MONOTONIC, 0,
			&(struct timespec){.tv_sec = (time_t)(ns / NS_PER_SECOND),
					   .tv_nsec = (long)(ns % NS_PER_SECOND)},
			NULL);
}

/* ---- polling --------------------------------------------------------------------------------- */

/* What is polled: the kick, then pidfds, then links of as many ranks as there are. No more: poll()
 * refuses an array longer than RLIMIT_NOFILE. */
enum { SLOT_KICK = 0, SLOT_PIDFD = 1, SLOTS_MAX = 1 + 2 * BELAY_RANKS_MAX };

static unsigned slot_link(const struct belay_comm *comm)
{
	return SLOT_PIDFD + comm->nranks;
}

static unsigned slot_count(const struct belay_comm *comm)
{
	return SLOT_PIDFD + 2 * comm->nranks;
}

static void fill_slots(const struct watcher *w, struct pollfd *slots)
{
	const struct belay_comm *comm = w->comm;

	slots[SLOT_KICK] = (struct pollfd){.fd = w->kick_fd, .events = POLLIN};
	for (unsigned r = 0; r < comm->nranks; r++) {
		bool peer = r != comm->rank;
		short events = 0;

		slots[SLOT_PIDFD + r] = (struct pollfd){
			.fd = peer && !(w->gone & rank_bit(r)) ? comm->members.pidfd[r] : -1,
			.events = POLLIN,
		};
		if (peer && rescue_wants_read(w->rescue, r))
			events |= POLLIN;
		if (peer && rescue_wants_write(w->rescue, r))
			events |= POLLOUT;
		slots[slot_link(comm) + r] = (struct pollfd){
			.fd = events && !(w->broken & rank_bit(r)) ? comm->members.link[r] : -1,
			.events = events,
		};
	}
}

static void handle_slots(struct watcher *w, const struct pollfd *slots)
{
	uint64_t count;

	if (slots[SLOT_KICK].revents)
		(void)!read(w->kick_fd, &count, sizeof(count));
	for (unsigned r = 0; r < w->comm->nranks; r++) {
		if (slots[slot_link(w->comm) + r].revents & (POLLIN | POLLHUP | POLLERR) &&
		    !rescue_read(w->rescue, r)) {
			/* Only its pidfd says that a rank is dead (L2). */
			w->broken |= rank_bit(r);
			rescue_lose_link(w->rescue, r);
		}
		if (slots[SLOT_PIDFD + r].revents) {
			w->gone |= rank_bit(r);
			watcher_note_exit(w, r);
		}
	}
}

/* Whole milliseconds, but where kernels are waited for. */
static uint64_t timeout_ns(const struct watcher *w, uint64_t now, uint64_t until)
{
	uint64_t ns = until > now ? until - now : 0;

	if (ns > NS_PER_SECOND)
		ns = NS_PER_SECOND;
	if (!w->comm->device)
		return (ns + NS_PER_MS - 1) / NS_PER_MS * NS_PER_MS;
	return ns && ns < SLEEP_NS_MIN ? SLEEP_NS_MIN : ns;
}

static void poll_once(struct watcher *w)
{
	struct pollfd slots[SLOTS_MAX];
	uint64_t before = clock_now_ns(), after, wanted;
	uint64_t ns = timeout_ns(w, before, sooner(w->next_heartbeat_ns, w->next_look_ns));
	const struct timespec timeout = {.tv_sec = (time_t)(ns / NS_PER_SECOND),
					 .tv_nsec = (long)(ns % NS_PER_SECOND)};
	int ready;

	fill_slots(w, slots);
	ready = ppoll(slots, slot_count(w->comm), &timeout, NULL);
	if (ready < 0 && errno != EINTR)
		/* No memory, or a limit lowered meanwhile: go on by the clock instead of
		 * spinning. */
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = NS_PER_MS},
				      NULL);
	after = clock_now_ns();
	wanted = before + ns;
	if (after > wanted + STANDSTILL_NS)
		w->stood_still_ns += after - wanted;
	if (ready > 0)
		handle_slots(w, slots);
	if (after >= w->next_heartbeat_ns)
		heartbeat(w, after);
}

/* For as long as the thread lives: its device is current, and nothing that it asks of CUDA breaks a
 * capture of the application's. */
static void take_device(const struct watcher *w)
{
	struct gpu_error error;
	int before;

	if (!w->comm->device)
		return;
	gpu_thread_is_background();
	/* 50 us of slack in each sleep would double it; cannot fail. */
	(void)prctl(PR_SET_TIMERSLACK, 1000UL);
	if (gpu_use(w->comm->device->ordinal, &before, &error))
		device_fault(w->comm, &error, "taking the device for the watcher");
}

static void *run(void *argument)
{
	struct watcher *w = argument;

	take_device(w);
	life_line_hold(&w->comm->own->life);
	heartbeat(w, clock_now_ns());
	/* Acquire: pairs with watcher_stop(). */
	while (!atomic_load_explicit(&w->stop, memory_order_acquire)) {
		starve(w);
		w->next_look_ns = look(w);
		poll_once(w);
	}
	/* The calling thread may have met a verdict and left before this one saw it: it is to be
	 * told and traced. */
	if (comm_decided(w->comm))
		watcher_meet_verdict(w);
	if (w->comm->device)
		(void)device_calls_watch(w->comm, clock_now_ns());
	life_line_let_go(&w->comm->own->life);
	return NULL;
}

/* ---- start and end --------------------------------------------------------------------------- */

static int start_thread(struct watcher *w)
{
	int error = quiet_thread_start(&w->thread, run, w);

	if (error) {
		cause_add(w->comm->causes, "pthread_create", error, (int)w->comm->rank, 0,
			  "cannot start the watcher");
		return BELAY_E_LIMIT;
	}
	(void)pthread_setname_np(w->thread, "belay-watcher");
	return 0;
}

int watcher_start(struct belay_comm *comm, struct watcher **ret_watcher)
{
	struct watcher *w = calloc(1, sizeof(*w));
	int status = BELAY_E_NO_MEMORY;

	if (!w)
		return status;
	w->comm = comm;
	breaker_init(&w->breaker, comm->settings.breaker_rescues, comm->settings.breaker_window_ns,
		     comm->settings.probe_ns);
	w->rescue = rescue_create(comm);
	w->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->rescue)
		goto out;
	if (w->kick_fd < 0) {
		cause_add(comm->causes, "eventfd", errno, (int)comm->rank, 0,
			  "cannot make the watcher's descriptor");
		status = errno == EMFILE || errno == ENFILE ? BELAY_E_LIMIT : BELAY_E_SYSTEM;
		goto out;
	}
	status = start_thread(w);
	if (status)
		goto out;
	*ret_watcher = w;
	w = NULL; /* the caller's now */
out:
	if (w) {
		if (w->kick_fd >= 0)
			(void)close(w->kick_fd);
		rescue_free(w->rescue);
		free(w);
	}
	return status;
}

void watcher_stop(struct watcher *watcher)
{
	if (!watcher)
		return;
	atomic_store_explicit(&watcher->stop, true, memory_order_release);
	watcher_kick(watcher);
	(void)pthread_join(watcher->thread, NULL);
	(void)close(watcher->kick_fd);
	rescue_free(watcher->rescue);
	free(watcher);
}
