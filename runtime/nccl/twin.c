/* SPDX-License-Identifier: Apache-2.0 */
/* See twin.h. */
#include "config.h"

#include "runtime/nccl/twin.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl/last_error.h"
#include "runtime/nccl/real_nccl.h"
#include "runtime/nccl/say.h"

static struct {
	pthread_mutex_t lock; /* nothing is called under it */
	pthread_cond_t put;   /* a holder has gone */
	struct twin *first;   /* newest first */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .put = PTHREAD_COND_INITIALIZER};

/* ---- the table ------------------------------------------------------------------------------- */

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
	pthread_mutex_lock(&table.lock);
	twin->holders--;
	if (twin->ended)
		pthread_cond_broadcast(&table.put);
	pthread_mutex_unlock(&table.lock);
}

/* Takes it out of the table and waits until nobody else has it. NULL: it was not there. */
static struct twin *take_out(ncclComm_t comm)
{
	struct twin **at, *twin;

	pthread_mutex_lock(&table.lock);
	at = find_locked(comm);
	twin = *at;
	if (twin) {
		*at = twin->next;
		twin->ended = true;
		while (twin->holders > 1)
			pthread_cond_wait(&table.put, &table.lock);
	}
	pthread_mutex_unlock(&table.lock);
	return twin;
}

/* ---- creation -------------------------------------------------------------------------------- */

static void tell_ready(const struct twin *twin)
{
	struct belay_health health = {.size = sizeof(health)};

	if (belay_comm_health(twin->belay, &health))
		health.path = 0; /* unknown */
	say(BELAY_LOG_INFO,
	    "libbelay-nccl %s over NCCL %d (%s): communicator %.8s, rank %d of %d, path %s",
	    belay_version(), real_nccl()->version, real_nccl()->file, belay_comm_id(twin->belay),
	    belay_comm_rank(twin->belay), twin->nranks, belay_path_name(health.path));
}

static void tell_refused(const struct twin *twin, int status)
{
	const char *why = belay_last_error();

	say(BELAY_LOG_WARN, "a communicator of %d ranks stays with NCCL alone: %s: %s",
	    twin->nranks, belay_status_name(status), why[0] ? why : belay_status_text(status));
}

/* CREATING: makes it. The ranks agree: belay_comm_create_from_nccl() fails on all, or on none. */
static void make(struct twin *twin)
{
	struct belay_comm *belay = NULL;
	ncclResult_t result = real_nccl()->CommCount(twin->nccl, &twin->nranks);
	int status = 0;

	if (result != ncclSuccess)
		say(BELAY_LOG_WARN, "a communicator stays with NCCL alone: ncclCommCount: %s (%d)",
		    real_nccl()->GetErrorString(result), (int)result);
	else if (twin->nranks > 1)
		status = belay_comm_create_from_nccl(&belay, twin->nccl, NULL);
	twin->belay = belay;
	if (belay)
		tell_ready(twin);
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

/* With all signals blocked. 0, or an errno value. */
static int start(pthread_t *thread, struct twin *twin)
{
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(thread, NULL, make_and_put, twin);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error;
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
			error = threads && started ? start(&threads[i], twin) : ENOMEM;
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
	error = start(&thread, held);
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

/* A call of this rank is under way, as far as the host knows. */
static bool is_busy(const struct twin *twin)
{
	struct belay_health health = {.size = sizeof(health)};

	return belay_comm_health(twin->belay, &health) == 0 &&
	       (health.in_call || health.done_seq != health.seq);
}

void twin_abort(ncclComm_t comm)
{
	struct twin *twin = twin_get(comm);

	if (!twin)
		return;
	if (state_of(twin) == TWIN_READY && is_busy(twin) && belay_comm_abort(twin->belay))
		say(BELAY_LOG_WARN, "a forked child cannot abort its parent's communicator");
	twin_put(twin);
}

void twin_end(ncclComm_t comm)
{
	struct twin *twin = take_out(comm);

	if (!twin)
		return;
	if (twin->belay)
		(void)belay_comm_destroy(twin->belay); /* a timeout is told in the log */
	free(twin);
}
