/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creation from an NCCL communicator that the program has: it tells who the ranks are, and carries
 * the new communicator's id to them, in one gather of greetings. Every rank sends one, a rank that
 * cannot go on too: nobody is left in a gather that one does not join. Nothing of it is kept.
 *
 * All calls of NCCL's are made by a thread that may be lost; see foreign_thread.h.
 */
#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/clock.h"
#include "runtime/cuda/foreign_thread.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/nccl_library.h"
#include "runtime/settings.h"

/* A thread that is asked to leave its loops gets this long before it is left behind. */
#define LEAVE_NS (100 * NS_PER_MS)
/* A rank with bad settings does not wait long for the others to hear of it. */
#define TELL_NS	     (2 * NS_PER_SECOND)
#define PAUSE_NS     (50 * UINT64_C(1000))
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define NETWORK_FILE "/proc/self/ns/net"
#define GREETING     UINT64_C(0x31636e79616c6562) /* "belaync1" */

/* What ranks tell each other. */
struct greeting {
	uint64_t magic;
	int32_t status; /* not 0: this rank cannot go on */
	uint32_t user;
	uint64_t network;	   /* namespace in which ranks can meet */
	char boot_id[40];	   /* of the host */
	struct belay_unique_id id; /* rank 0's is used */
};

/* Of the thread that calls NCCL and of whoever waits for it; the last one frees. */
struct errand {
	_Atomic unsigned holders;
	_Atomic bool over;	  /* nobody waits any more; relaxed: it only ends loops */
	_Atomic(const char *) at; /* the call that it is in; relaxed: for people */
	ncclComm_t nccl;
	struct nccl_library library;
	struct greeting own;
	/* Written by the thread; read by the other once the thread is idle. */
	int rank, nranks, device;
	struct greeting *all; /* pinned; nranks of them */
	void *memory;	      /* on the device: the own greeting, then all */
	bool pending;	      /* NCCL may still read and write `memory` */
	struct CUstream_st *stream;
	int status;
	char why[400];
};

/* ---- the thread's side -------------------------------------------------------------------------
 */

static void drop(void *errand)
{
	struct errand *e = errand;
	struct gpu_error error;
	int before;

	/* Acquire and release: the last one sees what the other did. */
	if (atomic_fetch_sub_explicit(&e->holders, 1, memory_order_acq_rel) != 1)
		return;
	/* What NCCL may come back to is not freed: it would be a fault of the program's context. */
	if (e->stream && !e->pending && gpu_use(e->device, &before, &error) == 0) {
		gpu_free(e->memory);
		gpu_host_free(e->all);
		gpu_stream_free(e->stream);
		gpu_restore(before);
	}
	free(e);
}

static void at(struct errand *e, const char *call)
{
	atomic_store_explicit(&e->at, call, memory_order_relaxed);
}

static int judge(struct errand *e, ncclResult_t result, const char *call)
{
	if (result == ncclSuccess)
		return 0;
	nccl_library_explain(&e->library, call, result, e->why, sizeof(e->why));
	return BELAY_E_SYSTEM;
}

static int judge_gpu(struct errand *e, int failed, const struct gpu_error *error)
{
	if (!failed)
		return 0;
	snprintf(e->why, sizeof(e->why), "%s: %s (%d)", error->call, error->text, error->code);
	return BELAY_E_SYSTEM;
}

static int ask_who(struct errand *e)
{
	int status;

	at(e, "ncclCommUserRank");
	status = judge(e, e->library.comm_rank(e->nccl, &e->rank), "ncclCommUserRank");
	at(e, "ncclCommCount");
	if (status == 0)
		status = judge(e, e->library.comm_count(e->nccl, &e->nranks), "ncclCommCount");
	at(e, "ncclCommCuDevice");
	if (status == 0)
		status = judge(e, e->library.comm_device(e->nccl, &e->device), "ncclCommCuDevice");
	if (status == 0 && (e->nranks < 1 || e->nranks > BELAY_RANKS_MAX)) {
		snprintf(e->why, sizeof(e->why),
			 "the NCCL communicator has %d ranks: expected 1 to %d", e->nranks,
			 BELAY_RANKS_MAX);
		status = BELAY_E_UNSUPPORTED;
	}
	return status;
}

static int get_memory(struct errand *e)
{
	size_t bytes = (size_t)e->nranks * sizeof(struct greeting);
	struct gpu_error error;
	void *all = NULL;
	int before; /* not restored: the thread is ours */

	at(e, "CUDA");
	if (gpu_use(e->device, &before, &error) || gpu_stream_create(&e->stream, &error) ||
	    gpu_host_alloc(bytes, &all, &error))
		return judge_gpu(e, 1, &error);
	e->all = all;
	return judge_gpu(e, gpu_alloc(bytes + sizeof(struct greeting), &e->memory, &error), &error);
}

static void nap(void)
{
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static bool is_over(const struct errand *e)
{
	return atomic_load_explicit(&e->over, memory_order_relaxed);
}

/* A communicator of the program's may work by itself; see nccl_member_settle(). */
static ncclResult_t settle(struct errand *e, ncclResult_t result)
{
	while (result == ncclInProgress && !is_over(e)) {
		ncclResult_t asked = e->library.comm_async_error(e->nccl, &result);

		if (asked != ncclSuccess)
			result = asked;
		if (result == ncclInProgress)
			nap();
	}
	return result;
}

static int finish(struct errand *e)
{
	struct gpu_error error;
	int done = 0;

	while (done == 0 && !is_over(e)) {
		ncclResult_t result = ncclSuccess, asked;

		done = gpu_stream_done(e->stream, &error);
		if (done)
			break;
		asked = e->library.comm_async_error(e->nccl, &result);
		if (asked != ncclSuccess || (result != ncclSuccess && result != ncclInProgress))
			return judge(e, asked != ncclSuccess ? asked : result, "ncclAllGather");
		nap();
	}
	e->pending = done == 0;
	return judge_gpu(e, done < 0, &error);
}

static int exchange(struct errand *e)
{
	size_t bytes = sizeof(struct greeting);
	char *own = e->memory, *all = own + bytes;
	struct gpu_error error;
	ncclResult_t result;
	int status;

	e->all[0] = e->own;
	status = judge_gpu(e, gpu_copy(own, e->all, bytes, e->stream, &error), &error);
	if (status)
		return status;
	at(e, "ncclAllGather");
	e->pending = true;
	result = e->library.all_gather(own, all, bytes, ncclUint8, e->nccl, e->stream);
	status = judge(e, settle(e, result), "ncclAllGather");
	if (status == 0)
		status = finish(e); /* before the copy: it writes where the greeting stood */
	if (status == 0)
		status = judge_gpu(
			e, gpu_copy(e->all, all, bytes * (size_t)e->nranks, e->stream, &error),
			&error);
	return status ? status : finish(e);
}

static void run(void *errand)
{
	struct errand *e = errand;

	e->status = ask_who(e);
	if (e->status == 0)
		e->status = get_memory(e);
	if (e->status == 0)
		e->status = exchange(e);
}

/* ---- the caller's side -------------------------------------------------------------------------
 */

static void read_boot_id(char *ret_id, size_t size)
{
	FILE *file = fopen(BOOT_ID_FILE, "re");

	/* Unknown is the same everywhere; then the ranks do not meet, and that is told. */
	if (!file || !fgets(ret_id, (int)size, file))
		ret_id[0] = '\0';
	if (file)
		(void)fclose(file);
	ret_id[strcspn(ret_id, "\n")] = '\0';
}

static void greet(struct greeting *ret_greeting, int status)
{
	struct stat network;

	memset(ret_greeting, 0, sizeof(*ret_greeting));
	ret_greeting->magic = GREETING;
	ret_greeting->user = (uint32_t)geteuid();
	if (stat(NETWORK_FILE, &network) == 0)
		ret_greeting->network = network.st_ino;
	read_boot_id(ret_greeting->boot_id, sizeof(ret_greeting->boot_id));
	if (status == 0)
		status = belay_unique_id_create(&ret_greeting->id);
	ret_greeting->status = status;
}

/* 0 when that rank and this one can meet. */
static int compare(const struct errand *e, int rank, struct cause_chain *causes)
{
	const struct greeting *own = &e->own, *other = &e->all[rank];
	const char *what = NULL;

	if (other->magic != GREETING) {
		cause_add(causes, NULL, 0, e->rank, 0,
			  "rank %d took part with something else than this function", rank);
		return BELAY_E_REFUSED;
	}
	if (memcmp(other->boot_id, own->boot_id, sizeof(own->boot_id)) != 0)
		what = "on another host";
	else if (other->network != own->network)
		what = "in another network namespace";
	else if (other->user != own->user)
		what = "another user's";
	if (what) {
		cause_add(causes, NULL, 0, e->rank, 0,
			  "rank %d of the NCCL communicator is %s; belay connects the ranks of one "
			  "user on one host",
			  rank, what);
		return BELAY_E_UNSUPPORTED;
	}
	if (other->status == 0)
		return 0;
	cause_add(causes, NULL, 0, e->rank, 0, "rank %d cannot join: %s", rank,
		  belay_status_text(other->status));
	return BELAY_E_REFUSED;
}

static int compare_all(const struct errand *e, struct cause_chain *causes)
{
	int status = e->own.status; /* its cause is told already */

	for (int r = 0; r < e->nranks && status == 0; r++)
		status = compare(e, r, causes);
	return status;
}

/* Has the thread exchange greetings by the deadline. */
static int exchange_greetings(struct errand *e, uint64_t patience_ns, struct cause_chain *causes)
{
	struct foreign_thread *thread = NULL;
	int error, status;
	bool came_back;

	atomic_fetch_add_explicit(&e->holders, 1, memory_order_relaxed); /* the thread's */
	error = foreign_thread_start("belay-nccl-id", e, drop, &thread);
	if (error) {
		drop(e);
		cause_add(causes, "pthread_create", error, -1, 0, "cannot start a thread for NCCL");
		return BELAY_E_LIMIT;
	}
	(void)foreign_thread_post(thread, run); /* idle: never refused */
	came_back = foreign_thread_wait(thread, clock_now_ns() + patience_ns);
	status = came_back ? e->status : BELAY_E_START_TIMEOUT;
	if (!came_back)
		cause_add(causes, NULL, 0, -1, 0,
			  "%s on the NCCL communicator given did not end within %" PRIu64 " ms",
			  atomic_load_explicit(&e->at, memory_order_relaxed),
			  patience_ns / NS_PER_MS);
	else if (status)
		cause_add(causes, NULL, 0, -1, 0, "%s", e->why);
	atomic_store_explicit(&e->over, true, memory_order_relaxed);
	(void)foreign_thread_end(thread, clock_now_ns() + LEAVE_NS);
	return status;
}

static struct errand *new_errand(struct ncclComm *nccl, const char *library, int status,
				 struct cause_chain *causes)
{
	struct errand *e = calloc(1, sizeof(*e));
	char why[400];

	if (!e)
		return NULL;
	atomic_init(&e->holders, 1);
	atomic_init(&e->at, "NCCL");
	e->nccl = nccl;
	greet(&e->own, status);
	if (nccl_library_in_process(library, &e->library, why, sizeof(why)) == 0)
		return e;
	cause_add(causes, NULL, 0, -1, 0, "%s", why);
	drop(e);
	return NULL;
}

/* The rank's settings, and its config in full. */
static int read_settings(const struct belay_config *config, struct belay_config *ret_config,
			 struct settings *ret_settings, struct cause_chain *causes)
{
	int status = settings_read_config(config, ret_config, causes);

	if (status == 0)
		status = settings_load(config, ret_settings, causes);
	if (status == 0)
		cause_chain_set_level(causes, ret_settings->log_level);
	return status;
}

static void tell(struct cause_chain *causes, int status)
{
	cause_add(causes, NULL, 0, -1, 0, "creation failed: %s (%s)", belay_status_text(status),
		  belay_status_name(status));
	cause_keep_as_last_error(causes);
	cause_flush(causes, BELAY_LOG_ERROR);
}

/* What the greetings have told. */
struct place {
	struct belay_unique_id id;
	int rank, nranks, device;
};

/* Which of several NCCLs; of settings that are bad no more than the config is known. */
static const char *library_of(const struct settings *settings, const struct belay_config *config)
{
	if (settings->text[SETTING_nccl_library])
		return settings->text[SETTING_nccl_library];
	return config->nccl_library ? config->nccl_library : "";
}

/* A rank whose settings are bad (so told already) goes to tell the others. */
static int find_place(struct ncclComm *nccl, const struct settings *settings, const char *library,
		      int bad, struct place *ret_place, struct cause_chain *causes)
{
	uint64_t patience_ns = bad ? TELL_NS : settings->start_ns;
	struct errand *e = new_errand(nccl, library, bad, causes);
	int status = BELAY_E_UNSUPPORTED;

	if (e)
		status = exchange_greetings(e, patience_ns, causes);
	if (status == 0)
		status = compare_all(e, causes);
	if (status == 0)
		*ret_place = (struct place){e->all[0].id, e->rank, e->nranks, e->device};
	if (e)
		drop(e);
	return bad ? bad : status;
}

/* The config with the device that NCCL's communicator is on. */
static int create(struct belay_comm **ret_comm, const struct place *place,
		  struct belay_config *config)
{
	char device[16];

	snprintf(device, sizeof(device), "%d", place->device);
	if (!config->device)
		config->device = device;
	return belay_comm_create(ret_comm, &place->id, place->rank, place->nranks, config);
}

int belay_comm_create_from_nccl(struct belay_comm **ret_comm, struct ncclComm *nccl,
				const struct belay_config *config)
{
	struct belay_config full = BELAY_CONFIG_INIT;
	struct cause_config told = {.level = BELAY_LOG_WARN, .rank = -1};
	struct settings settings = {0};
	struct cause_chain *causes;
	struct place place;
	int status;

	if (!ret_comm || !nccl)
		return BELAY_E_ARGUMENT;
	if (config) {
		told.log = config->log;
		told.log_user = config->log_user;
	}
	causes = cause_chain_create(&told);
	if (!causes)
		return BELAY_E_NO_MEMORY;
	status = read_settings(config, &full, &settings, causes);
	status = find_place(nccl, &settings, library_of(&settings, &full), status, &place, causes);
	if (status)
		tell(causes, status);
	settings_free(&settings);
	cause_chain_free(causes);
	return status ? status : create(ret_comm, &place, &full);
}
