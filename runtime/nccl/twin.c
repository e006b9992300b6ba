/* SPDX-License-Identifier: Apache-2.0 */
/* See twin.h. */
#include "config.h"

#include "runtime/nccl/twin.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/nccl/last_error.h"
#include "runtime/nccl/real_nccl.h"
#include "runtime/nccl/say.h"
#include "runtime/quiet_thread.h"

/* Until whoever has a twin is waited for no longer, ms, where settings cannot be read. */
#define DESTROY_MS 10000
#define START_MS   120000
#define GIVE_UP_MS 600000
/* Over the longest deadline, until a call that waits for others of its communicator does no more.
 */
#define PATIENCE_MARGIN_NS UINT64_C(1000000000)
/* For threads that ask NCCL about a communicator which is about to be aborted, ms. */
#define LET_GO_MS 20

/* For the verdict about an error that NCCL has told of: 20 ms. */
#define ERROR_PAUSES 20
#define PAUSE_NS     1000000

static struct {
	pthread_mutex_t lock; /* nothing is called under it */
	pthread_cond_t put;   /* a holder has gone; by CLOCK_MONOTONIC */
	pthread_once_t once;  /* of `put` */
	struct twin *first;   /* newest first */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* ---- the table ------------------------------------------------------------------------------- */

static void init_put(void)
{
	pthread_condattr_t monotonic;

	/* None of them fails on Linux. */
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&table.put, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
}

static int state_of(const struct twin *twin)
{
	/* Acquire: what led to the state is seen. */
	return atomic_load_explicit(&twin->state, memory_order_acquire);
}

static void move(struct twin *twin, enum twin_state to)
{
	atomic_store_explicit(&twin->state, to, memory_order_release);
}

/* The communicator's place in the list, or its end. */
static struct twin **find_locked(ncclComm_t comm)
{
	struct twin **at = &table.first;

	while (*at && (*at)->nccl != comm)
		at = &(*at)->next;
	return at;
}

bool twin_expect(ncclComm_t comm)
{
	struct twin *twin = calloc(1, sizeof(*twin));

	if (!twin)
		return false;
	(void)pthread_once(&table.once, init_put);
	twin->nccl = comm;
	twin->holders = 1;
	atomic_init(&twin->state, TWIN_EXPECTED);
	pthread_mutex_lock(&table.lock);
	twin->next = table.first;
	table.first = twin;
	pthread_mutex_unlock(&table.lock);
	return true;
}

struct twin *twin_get(ncclComm_t comm)
{
	struct twin *twin;

	pthread_mutex_lock(&table.lock);
	twin = *find_locked(comm);
	if (twin)
		twin->holders++;
	pthread_mutex_unlock(&table.lock);
	return twin;
}

struct twin *twin_at(unsigned index)
{
	struct twin *twin;

	pthread_mutex_lock(&table.lock);
	twin = table.first;
	while (twin && (state_of(twin) != TWIN_READY || index-- > 0))
		twin = twin->next;
	if (twin)
		twin->holders++;
	pthread_mutex_unlock(&table.lock);
	return twin;
}

void twin_put(struct twin *twin)
{
	bool last;

	pthread_mutex_lock(&table.lock);
	last = --twin->holders == 0;
	if (twin->ended)
		pthread_cond_broadcast(&table.put);
	pthread_mutex_unlock(&table.lock);
	if (!last)
		return;
	if (twin->belay)
		(void)belay_comm_destroy(twin->belay); /* a timeout is told in the log */
	free(twin);
}

bool twin_has_ended(const struct twin *twin)
{
	bool ended;

	pthread_mutex_lock(&table.lock);
	ended = twin->ended;
	pthread_mutex_unlock(&table.lock);
	return ended;
}

static uint64_t setting_ms(const char *name, uint64_t otherwise)
{
	struct belay_setting setting = {.size = sizeof(setting)};

	for (int i = 0; i < belay_setting_count(); i++)
		if (belay_setting_get(i, NULL, &setting) == 0 && strcmp(setting.name, name) == 0)
			return strtoull(setting.value, NULL, 10);
	return otherwise;
}

static uint64_t longest_deadline_ms(void)
{
	uint64_t ms = setting_ms("BELAY_GIVE_UP_MS", GIVE_UP_MS);
	uint64_t first_ms = setting_ms("BELAY_WARMUP_GIVE_UP_MS", GIVE_UP_MS);

	return first_ms > ms ? first_ms : ms;
}

static struct timespec after_ms(uint64_t ms)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail on Linux */
	until.tv_sec += (time_t)(ms / 1000);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	return until;
}

struct twin *twin_take_out(ncclComm_t comm)
{
	struct twin **at, *twin;

	pthread_mutex_lock(&table.lock);
	at = find_locked(comm);
	twin = *at;
	if (twin) {
		*at = twin->next;
		twin->ended = true;
	}
	pthread_mutex_unlock(&table.lock);
	return twin;
}

/* Creation has a deadline of its own, and uses NCCL's communicator until then. */
static uint64_t creation_ms(void)
{
	/* The gathers on both sides of a meeting. */
	return 4 * setting_ms("BELAY_START_MS", START_MS) + 1000;
}

/* Of one that has been taken out: until nobody else has it. False: it has been too long. */
static bool wait_for_holders(struct twin *twin, uint64_t ms)
{
	struct timespec until = after_ms(ms);
	int error = 0;

	pthread_mutex_lock(&table.lock);
	while (twin->holders > 1 && error == 0)
		error = pthread_cond_timedwait(&table.put, &table.lock, &until);
	pthread_mutex_unlock(&table.lock);
	return error == 0;
}

void twin_let_go(struct twin *twin)
{
	if (twin)
		(void)wait_for_holders(twin,
				       state_of(twin) == TWIN_CREATING ? creation_ms() : LET_GO_MS);
}

void twin_destroy(struct twin *twin)
{
	uint64_t ms;

	if (!twin)
		return;
	ms = state_of(twin) == TWIN_CREATING ? creation_ms()
					     : setting_ms("BELAY_DESTROY_MS", DESTROY_MS);
	if (!wait_for_holders(twin, ms))
		say(BELAY_LOG_WARN,
		    "a communicator is destroyed while another thread has a call of it open, in a "
		    "group that it does not end");
	twin_put(twin);
}

/* ---- creation -------------------------------------------------------------------------------- */

static void tell_ready(const struct twin *twin, const struct belay_place *place)
{
	struct belay_health health = {.size = sizeof(health)};
	int version = real_nccl()->version;
	char part[80] = "";

	if (belay_comm_health(twin->belay, &health))
		health.path = 0; /* unknown */
	if (twin->watches)
		snprintf(part, sizeof(part), " (%d of this host, which is %d of %d), watched",
			 belay_comm_rank(twin->belay), place->host, place->hosts);
	/* ncclGetVersion()'s code: 22809 is 2.28.9. */
	say(BELAY_LOG_INFO,
	    "libbelay-nccl %s over NCCL %d.%d.%d (%s): communicator %.8s, rank %d of %d%s, path %s",
	    belay_version(), version / 10000, version / 100 % 100, version % 100, real_nccl()->file,
	    belay_comm_id(twin->belay), place->rank, place->nranks, part,
	    belay_path_name(health.path));
}

/* BELAY_WATCH, as creation has found it right and equal on all ranks. */
static bool watches_all(void)
{
	const char *value = getenv("BELAY_WATCH");

	return !value || strcmp(value, "allreduce") != 0;
}

/* READY to be. */
static void take(struct twin *twin, struct belay_comm *belay)
{
	struct belay_place place = {.size = sizeof(place)};

	twin->belay = belay;
	twin->watches = belay_comm_place(belay, &place) == 0 && place.hosts > 1;
	twin->watches_all = watches_all();
	twin->patience_ns = longest_deadline_ms() * 1000000 + PATIENCE_MARGIN_NS;
	tell_ready(twin, &place);
}

static void tell_refused(const struct twin *twin, int status)
{
	const char *why = belay_last_error();

	say(BELAY_LOG_WARN, "a communicator of %d ranks stays with NCCL alone: %s: %s",
	    twin->nranks, belay_status_name(status), why[0] ? why : belay_status_text(status));
}

/* Has NCCL's kernels leave, unless the program has the communicator in hand. */
static void release_kernels(struct twin *twin)
{
	struct release *release = release_prepare(twin->nccl);
	bool goes;

	if (!release)
		return;
	pthread_mutex_lock(&table.lock);
	/* Relaxed: see has_verdict. */
	goes = !twin->ended && !twin->kept &&
	       !atomic_load_explicit(&twin->released, memory_order_relaxed);
	if (goes) {
		twin->release = release;
		atomic_store_explicit(&twin->released, true, memory_order_relaxed);
	}
	pthread_mutex_unlock(&table.lock);
	if (goes)
		release_go(release);
	else
		release_cancel(release);
}

/* Belay's, of a twin that may not be READY yet. */
static void meet_verdict(void *user)
{
	struct twin *twin = user;

	atomic_store_explicit(&twin->has_verdict, true, memory_order_relaxed);
	/* See twin_goes_to_nccl(). */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&twin->on_nccl, memory_order_relaxed))
		release_kernels(twin);
}

/* CREATING: makes it. The ranks agree: belay_comm_create_from_nccl() fails on all, or on none. */
static void make(struct twin *twin)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	struct belay_comm *belay = NULL;
	ncclResult_t result = real_nccl()->CommCount(twin->nccl, &twin->nranks);
	int status = 0;

	if (result != ncclSuccess)
		say(BELAY_LOG_WARN, "a communicator stays with NCCL alone: ncclCommCount: %s (%d)",
		    real_nccl()->GetErrorString(result), (int)result);
	config.hosts = BELAY_HOSTS_OWN;
	config.verdict = meet_verdict;
	config.verdict_user = twin;
	if (result == ncclSuccess && twin->nranks > 1)
		status = belay_comm_create_from_nccl(&belay, twin->nccl, &config);
	if (belay)
		take(twin, belay);
	else if (status)
		tell_refused(twin, status);
	move(twin, belay ? TWIN_READY : TWIN_NONE);
}

/* True for whoever is to make it. */
static bool begin(struct twin *twin)
{
	int expected = TWIN_EXPECTED;

	/* Relaxed: claims it; nothing is read. */
	return atomic_compare_exchange_strong_explicit(&twin->state, &expected, TWIN_CREATING,
						       memory_order_relaxed, memory_order_relaxed);
}

static void *make_and_put(void *argument)
{
	make(argument);
	twin_put(argument);
	return NULL;
}

/* One that cannot have a thread stays without a twin on this rank, and so on all: the others'
 * creation ends at BELAY_START_MS. */
static void give_up(struct twin *twin, int error)
{
	say(BELAY_LOG_WARN, "a communicator stays with NCCL alone: pthread_create: %s (%d)",
	    strerror(error), error);
	move(twin, TWIN_NONE);
	twin_put(twin);
}

void twin_create(const ncclComm_t *comms, int ncomms)
{
	pthread_t *threads = ncomms > 1 ? calloc((size_t)ncomms, sizeof(*threads)) : NULL;
	bool *started = ncomms > 1 ? calloc((size_t)ncomms, sizeof(*started)) : NULL;

	for (int i = 0; i < ncomms; i++) {
		struct twin *twin = twin_get(comms[i]);
		int error;

		if (!twin)
			continue;
		if (!begin(twin)) {
			twin_put(twin);
		} else if (ncomms == 1) {
			(void)make_and_put(twin);
		} else {
			error = threads && started ? quiet_thread_start(&threads[i], make_and_put, twin) : ENOMEM;
			if (error)
				give_up(twin, error);
			else
				started[i] = true;
		}
	}
	for (int i = 0; started && i < ncomms; i++)
		if (started[i])
			(void)pthread_join(threads[i], NULL);
	free(threads);
	free(started);
}

bool twin_poll(struct twin *twin)
{
	struct twin *held;
	pthread_t thread;
	int error;

	if (!begin(twin))
		return state_of(twin) >= TWIN_READY;
	held = twin_get(twin->nccl); /* the thread's */
	if (!held)
		return true; /* it is being destroyed */
	error = quiet_thread_start(&thread, make_and_put, held);
	if (error)
		give_up(held, error);
	else
		(void)pthread_detach(thread);
	return error != 0;
}

/* ---- verdicts and the end -------------------------------------------------------------------- */

ncclResult_t twin_verdict(const struct twin *twin)
{
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	char causes[LAST_ERROR_BYTES - sizeof(verdict.text) - 64] = "";

	if (state_of(twin) != TWIN_READY || belay_comm_verdict(twin->belay, &verdict))
		return ncclSuccess;
	if (belay_comm_causes(twin->belay, causes, sizeof(causes), NULL))
		causes[0] = '\0';
	last_error_set("belay: communicator %.8s: %s\n%s", belay_comm_id(twin->belay), verdict.text,
		       causes);
	if (verdict.cause == BELAY_CAUSE_GPU_FAULT && verdict.rank == belay_comm_rank(twin->belay))
		return ncclUnhandledCudaError;
	return ncclRemoteError;
}

bool twin_is_busy(const struct twin *twin)
{
	struct belay_health health = {.size = sizeof(health)};

	return belay_comm_health(twin->belay, &health) == 0 &&
	       (health.in_call || health.done_seq != health.seq);
}

void twin_tell_error(const struct twin *twin, ncclResult_t error)
{
	if (state_of(twin) != TWIN_READY || twin_verdict(twin) != ncclSuccess)
		return;
	if (belay_watch_error(twin->belay, (int)error))
		return;
	for (int i = 0; i < ERROR_PAUSES && twin_is_busy(twin); i++) {
		if (twin_verdict(twin) != ncclSuccess)
			return;
		(void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
}

/* Either the call behind this sees the verdict, or meet_verdict() sees this. */
void twin_goes_to_nccl(struct twin *twin)
{
	/* Relaxed: set once; the fence orders it. */
	if (atomic_load_explicit(&twin->on_nccl, memory_order_relaxed))
		return;
	atomic_store_explicit(&twin->on_nccl, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

ncclResult_t twin_refuses(const struct twin *twin)
{
	/* Relaxed: a call that comes at the same time may be before it. */
	if (!atomic_load_explicit(&twin->has_verdict, memory_order_relaxed))
		return ncclSuccess;
	if (!atomic_load_explicit(&twin->released, memory_order_relaxed) &&
	    (!atomic_load_explicit(&twin->on_nccl, memory_order_relaxed) || release_is_forbidden()))
		return ncclSuccess;
	return twin_verdict(twin);
}

ncclResult_t twin_comm_refuses(ncclComm_t comm)
{
	struct twin *twin = twin_get(comm);
	ncclResult_t verdict;

	if (!twin)
		return ncclSuccess;
	twin_goes_to_nccl(twin);
	verdict = twin_refuses(twin);
	twin_put(twin);
	return verdict;
}

struct twin *twin_keep(ncclComm_t comm)
{
	struct twin *twin = twin_get(comm);
	struct release *begun;

	if (!twin)
		return NULL;
	pthread_mutex_lock(&table.lock);
	twin->kept++;
	begun = twin->release;
	if (begun)
		release_hold(begun);
	pthread_mutex_unlock(&table.lock);
	if (begun)
		release_await_and_drop(begun);
	return twin;
}

void twin_unkeep(struct twin *twin, bool for_good)
{
	bool due;

	if (!twin)
		return;
	pthread_mutex_lock(&table.lock);
	twin->kept -= !for_good;
	due = !twin->kept;
	pthread_mutex_unlock(&table.lock);
	/* Relaxed: as in twin_refuses(). */
	if (due && atomic_load_explicit(&twin->has_verdict, memory_order_relaxed) &&
	    atomic_load_explicit(&twin->on_nccl, memory_order_relaxed))
		release_kernels(twin);
	twin_put(twin);
}

void twin_abandon_release(struct twin *twin)
{
	struct release *release;

	if (!twin)
		return;
	pthread_mutex_lock(&table.lock);
	release = twin->release;
	twin->release = NULL;
	pthread_mutex_unlock(&table.lock);
	if (release)
		release_abandon(release);
}

bool twin_is_released(ncclComm_t comm)
{
	const struct twin *twin;
	bool released;

	pthread_mutex_lock(&table.lock);
	twin = *find_locked(comm);
	/* Relaxed: set under the lock. */
	released = twin && atomic_load_explicit(&twin->released, memory_order_relaxed);
	pthread_mutex_unlock(&table.lock);
	return released;
}

struct release *twin_take_release(struct twin *twin)
{
	struct release *release = NULL;

	if (!twin)
		return NULL;
	/* Nobody else looks at it once `ended` stands. */
	release = twin->release;
	twin->release = NULL;
	return release;
}

bool twin_is_lost(const struct twin *twin)
{
	uint64_t ms = setting_ms("BELAY_DESTROY_MS", DESTROY_MS);

	if (!twin || state_of(twin) != TWIN_READY ||
	    !atomic_load_explicit(&twin->on_nccl, memory_order_relaxed))
		return false;
	/* Relaxed: it is asked again. */
	while (ms-- && twin_is_busy(twin) &&
	       !atomic_load_explicit(&twin->has_verdict, memory_order_relaxed))
		(void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	return twin_refuses(twin) != ncclSuccess;
}

void twin_abort(ncclComm_t comm)
{
	struct twin *twin = twin_get(comm);

	if (!twin)
		return;
	if (state_of(twin) == TWIN_READY && twin_is_busy(twin) && belay_comm_abort(twin->belay))
		say(BELAY_LOG_WARN, "a forked child cannot abort its parent's communicator");
	twin_put(twin);
}
