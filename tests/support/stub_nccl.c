/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NCCL for tests, a shared library that belay loads in NCCL's place. It moves data between the
 * rank processes of one machine over shared memory, for device memory that is host memory
 * (cpu_gpu.h): on the streams of the program that loads it if that exports cpu_gpu_enqueue(), else
 * at once. Or, where STUB_NCCL_REAL names a real NCCL, it passes all calls on to that. And it goes
 * wrong as STUB_NCCL says, a list separated by commas, where FN is a function's name without
 * "nccl":
 *
 *   hang=FN, hang=FN:K        the calls from the K-th on (1: the first) do not return; once the
 *                             communicator is aborted they fail
 *   error=FN, error=FN:K      they fail with ncclUnhandledCudaError
 *   async-error=K             after K data calls ncclCommGetAsyncError says ncclRemoteError
 *   duplicate                 ncclCommInitRankConfig fails as it does for two ranks on one GPU
 *   abort-hangs               ncclCommAbort does not return, and wakes nobody
 *   version=N                 ncclGetVersion says N
 *
 * The environment is read at each call. A communicator is never freed: calls may come late.
 */
#include "config.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/host_sum.h"
#include "runtime/belay.h"
#include "tests/support/cpu_gpu_inside.h"

#define RANKS_MAX   16
#define CHUNK_BYTES ((size_t)256 << 10)

/* What a rank says of the exchange of one chunk after the other. */
struct seat {
	_Alignas(64) _Atomic uint64_t posted; /* round whose data stands in the seat */
	_Atomic uint64_t taken;		      /* round that it has read from all seats */
	_Atomic uint32_t joined, gone;
	_Alignas(64) char data[CHUNK_BYTES];
};

/* Shared by the ranks of a communicator: a memfd of rank 0's process, found under /proc. */
struct room {
	struct seat seat[RANKS_MAX];
};

struct ncclComm {
	struct room *room;
	int rank, nranks, device;
	bool blocking;
	_Atomic int pending; /* not blocking: says once more that it is in progress */
	_Atomic int data_calls;
	const void *sent; /* by ncclSend(); for ncclRecv() */
	uint64_t round;	  /* of the last chunk begun; by whoever carries the operations out */
	struct ncclComm *next;
};

/* In a unique id. */
struct id {
	char magic[8];
	int pid, fd;
};

static const char magic[8] = "stubnccl";
static _Atomic(struct ncclComm *) all; /* so that a leak checker finds them */
/* Communicators that have been aborted, of a real NCCL too: calls that hang with them end. */
static _Atomic(struct ncclComm *) aborted[64];
static char last_words[128];

/* ---- faults ------------------------------------------------------------------------------------
 */

/* The number behind "KEY" in STUB_NCCL, whose end must be a separator; `absent` without. */
static long find(const char *key, long absent)
{
	const char *text = getenv("STUB_NCCL");
	size_t length = strlen(key);

	for (; text; text = strchr(text, ',')) {
		text += *text == ',';
		if (strncmp(text, key, length) != 0 || !strchr("=:,", text[length]))
			continue;
		return text[length] == '\0' || text[length] == ','
			       ? 1
			       : strtol(text + length + 1, NULL, 10);
	}
	return absent;
}

static bool is_due(const char *fault, const char *function, int call)
{
	char key[80];
	long from;

	snprintf(key, sizeof(key), "%s=%s", fault, function);
	from = find(key, 0);
	return from && call >= from;
}

static void nap(void)
{
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 50000}, NULL);
}

static bool is_aborted(const struct ncclComm *comm)
{
	for (size_t i = 0; comm && i < sizeof(aborted) / sizeof(aborted[0]); i++)
		if (atomic_load_explicit(&aborted[i], memory_order_acquire) == comm)
			return true;
	return false;
}

/* A new communicator may have an old one's address: `from` becomes `to` in the list, once. */
static void note_aborted(struct ncclComm *from, struct ncclComm *to)
{
	for (size_t i = 0; i < sizeof(aborted) / sizeof(aborted[0]); i++) {
		struct ncclComm *expected = from;

		if (atomic_compare_exchange_strong_explicit(
			    &aborted[i], &expected, to, memory_order_acq_rel, memory_order_relaxed))
			return;
	}
}

/* Counts a call; true: it is not carried out and returns *ret_result. */
static bool goes_wrong(const char *function, _Atomic int *calls, const struct ncclComm *comm,
		       ncclResult_t *ret_result)
{
	int call = atomic_fetch_add_explicit(calls, 1, memory_order_relaxed) + 1;

	if (is_due("hang", function, call)) {
		while (!is_aborted(comm))
			nap();
		*ret_result = ncclInternalError;
		return true;
	}
	if (!is_due("error", function, call))
		return false;
	snprintf(last_words, sizeof(last_words), "stub: call %d of nccl%s fails", call, function);
	*ret_result = ncclUnhandledCudaError;
	return true;
}

/* At the head of each function. */
#define GO_WRONG(function, comm)                                                                   \
	do {                                                                                       \
		static _Atomic int calls;                                                          \
		ncclResult_t wrong;                                                                \
                                                                                                   \
		if (goes_wrong(function, &calls, comm, &wrong))                                    \
			return wrong;                                                              \
	} while (0)

/* ---- the real one ------------------------------------------------------------------------------
 */

static void *real(const char *function)
{
	const char *file = getenv("STUB_NCCL_REAL");
	void *handle = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;

	return handle ? dlsym(handle, function) : NULL;
}

/* Passes a call on, if there is a real NCCL. */
#define PASS_ON(function, ...)                                                                     \
	do {                                                                                       \
		__typeof__(&(function)) pass = (__typeof__(&(function)))real(#function);           \
                                                                                                   \
		if (pass)                                                                          \
			return pass(__VA_ARGS__);                                                  \
	} while (0)

static bool has_real(void)
{
	return getenv("STUB_NCCL_REAL") != NULL;
}

/* ---- meeting -----------------------------------------------------------------------------------
 */

static struct room *enter_room(const struct id *id)
{
	char path[64];
	struct room *room = MAP_FAILED;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", id->pid, id->fd);
	fd = memcmp(id->magic, magic, sizeof(magic)) ? -1 : open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		room = mmap(NULL, sizeof(*room), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		(void)close(fd);
	return room == MAP_FAILED ? NULL : room;
}

static bool all_joined(const struct ncclComm *comm)
{
	for (int r = 0; r < comm->nranks; r++)
		if (!atomic_load_explicit(&comm->room->seat[r].joined, memory_order_acquire))
			return false;
	return true;
}

static bool peer_gone(const struct ncclComm *comm)
{
	for (int r = 0; r < comm->nranks; r++)
		if (atomic_load_explicit(&comm->room->seat[r].gone, memory_order_acquire))
			return true;
	return false;
}

static int current_device(void)
{
	int (*current)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gpu_current");

	return current ? current() : 0;
}

static ncclResult_t new_comm(ncclComm_t *ret_comm, int nranks, const struct id *id, int rank,
			     bool blocking)
{
	struct ncclComm *comm = calloc(1, sizeof(*comm));

	if (!comm || rank < 0 || rank >= nranks || nranks > RANKS_MAX)
		return ncclInvalidArgument;
	comm->room = enter_room(id);
	if (!comm->room)
		return ncclSystemError;
	comm->rank = rank;
	comm->nranks = nranks;
	comm->device = current_device();
	comm->blocking = blocking;
	comm->next = atomic_exchange_explicit(&all, comm, memory_order_acq_rel);
	*ret_comm = comm;
	atomic_store_explicit(&comm->room->seat[rank].joined, 1, memory_order_release);
	if (!blocking)
		return ncclInProgress;
	while (!all_joined(comm))
		nap();
	return ncclSuccess;
}

/* ---- data --------------------------------------------------------------------------------------
 */

enum kind {
	ALL_REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	BROADCAST,
	REDUCE,
	ALL_TO_ALL,
	GATHER,
	SCATTER,
	RECEIVE
};

/* One operation on a communicator; carried out in steps. */
struct operation {
	struct ncclComm *comm;
	const char *send; /* NULL: this rank has nothing to give */
	char *recv;	  /* NULL: it gets nothing */
	size_t bytes;	  /* that each rank gives */
	enum kind kind;
	ncclDataType_t dtype;
	ncclRedOp_t op;
	int root;
};

struct progress {
	size_t done;	/* bytes */
	uint64_t round; /* of the chunk that is under way; 0: none */
	bool posted;
};

static size_t bytes_of(ncclDataType_t type)
{
	switch (type) {
	case ncclFloat64:
	case ncclInt64:
	case ncclUint64:
		return 8;
	case ncclFloat32:
	case ncclInt32:
	case ncclUint32:
		return 4;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	default:
		return 1;
	}
}

static bool all_at(const struct ncclComm *comm, uint64_t round, bool taken)
{
	for (int r = 0; r < comm->nranks; r++) {
		const struct seat *seat = &comm->room->seat[r];

		if (atomic_load_explicit(taken ? &seat->taken : &seat->posted,
					 memory_order_acquire) < round)
			return false;
	}
	return true;
}

static int dtype_of(ncclDataType_t type)
{
	switch (type) {
	case ncclFloat32:
		return BELAY_F32;
	case ncclFloat64:
		return BELAY_F64;
	case ncclFloat16:
		return BELAY_F16;
	case ncclBfloat16:
		return BELAY_BF16;
	case ncclInt32:
	case ncclUint32:
		return BELAY_I32;
	case ncclInt64:
	case ncclUint64:
		return BELAY_I64;
	case ncclUint8:
		return BELAY_U8;
	case ncclInt8:
		return BELAY_I8;
	default:
		return 0;
	}
}

static int op_of(ncclRedOp_t op)
{
	switch (op) {
	case ncclSum:
		return BELAY_SUM;
	case ncclMax:
		return BELAY_MAX;
	case ncclMin:
		return BELAY_MIN;
	case ncclProd:
		return BELAY_PROD;
	default:
		return 0;
	}
}

/* belay's sum has no averages and no unsigned words. */
static void reduce_chunk(const struct operation *o, const void **sources, void *to, size_t bytes)
{
	bool average = o->op == ncclAvg, is_max = o->op == ncclMax;
	float *floats = to;
	uint32_t *words = to;

	if (o->dtype != ncclUint32 || o->op == ncclSum || o->op == ncclProd)
		(void)host_sum(&(struct host_sum_job){
			.sources = sources,
			.nsources = (unsigned)o->comm->nranks,
			.destinations = &to,
			.ndestinations = 1,
			.count = bytes / bytes_of(o->dtype),
			.dtype = dtype_of(o->dtype),
			.op = average ? BELAY_SUM : op_of(o->op),
		});
	for (size_t i = 0; average && i < bytes / sizeof(*floats); i++)
		floats[i] /= (float)o->comm->nranks;
	if (o->dtype != ncclUint32 || o->op == ncclSum || o->op == ncclProd)
		return;
	memcpy(to, sources[0], bytes);
	for (int r = 1; r < o->comm->nranks; r++)
		for (size_t i = 0; i < bytes / sizeof(*words); i++) {
			uint32_t word = ((const uint32_t *)sources[r])[i];

			if (is_max ? word > words[i] : word < words[i])
				words[i] = word;
		}
}

/* Of a chunk at `at` in what a rank gives, the part that is of slice `slice`: to its place in that
 * slice at `to`. */
static void take_slice(const struct operation *o, const char *chunk, size_t at, size_t bytes,
		       int slice, char *to)
{
	size_t length = o->bytes / (size_t)o->comm->nranks, begin = (size_t)slice * length;
	size_t first = at > begin ? at : begin;
	size_t last = at + bytes < begin + length ? at + bytes : begin + length;

	if (first < last)
		memcpy(to + (first - begin), chunk + (first - at), last - first);
}

static void take_chunk(const struct operation *o, size_t at, size_t bytes)
{
	static _Thread_local _Alignas(64) char reduced[CHUNK_BYTES];
	size_t slice = o->bytes / (size_t)o->comm->nranks;
	const void *sources[RANKS_MAX];

	for (int r = 0; r < o->comm->nranks; r++)
		sources[r] = o->comm->room->seat[r].data;
	switch (o->kind) {
	case ALL_REDUCE:
	case REDUCE:
		if (o->kind == ALL_REDUCE || o->root == o->comm->rank)
			reduce_chunk(o, sources, o->recv + at, bytes);
		break;
	case REDUCE_SCATTER:
		reduce_chunk(o, sources, reduced, bytes);
		take_slice(o, reduced, at, bytes, o->comm->rank, o->recv);
		break;
	case BROADCAST:
	case RECEIVE:
		memcpy(o->recv + at, sources[o->root], bytes);
		break;
	case SCATTER:
		take_slice(o, sources[o->root], at, bytes, o->comm->rank, o->recv);
		break;
	case ALL_TO_ALL:
		for (int r = 0; r < o->comm->nranks; r++)
			take_slice(o, sources[r], at, bytes, o->comm->rank,
				   o->recv + (size_t)r * slice);
		break;
	case ALL_GATHER:
	case GATHER:
		for (int r = 0; o->recv && r < o->comm->nranks; r++)
			memcpy(o->recv + (size_t)r * o->bytes + at, sources[r], bytes);
		break;
	}
}

/* As CPU streams want it: see cpu_gpu_inside.h. Waits for ever for a peer that does not come, as
 * NCCL's kernels do, until the own communicator is aborted. */
static enum cpu_gpu_step step(const void *arguments, void *run)
{
	const struct operation *o = arguments;
	struct progress *p = run;
	struct ncclComm *comm = o->comm;
	struct seat *own = &comm->room->seat[comm->rank];
	size_t bytes = o->bytes - p->done < CHUNK_BYTES ? o->bytes - p->done : CHUNK_BYTES;

	if (is_aborted(comm) || p->done == o->bytes)
		return CPU_GPU_ENDED;
	if (!p->round)
		p->round = ++comm->round;
	if (!p->posted) {
		if (!all_at(comm, p->round - 1, true))
			return CPU_GPU_WAITING;
		if (o->send)
			memcpy(own->data, o->send + p->done, bytes);
		atomic_store_explicit(&own->posted, p->round, memory_order_release);
		p->posted = true;
	}
	if (!all_at(comm, p->round, false))
		return CPU_GPU_WAITING;
	take_chunk(o, p->done, bytes);
	atomic_store_explicit(&own->taken, p->round, memory_order_release);
	p->done += bytes;
	p->round = 0;
	p->posted = false;
	return CPU_GPU_BUSY;
}

static ncclResult_t carry_out(const struct operation *o, cudaStream_t stream)
{
	static const struct cpu_gpu_kernel kernel = {
		.name = "nccl",
		.argument_bytes = sizeof(struct operation),
		.run_bytes = sizeof(struct progress),
		.step = step,
	};
	int (*enqueue)(struct CUstream_st *, const struct cpu_gpu_kernel *, const void *) =
		(int (*)(struct CUstream_st *, const struct cpu_gpu_kernel *, const void *))dlsym(
			RTLD_DEFAULT, "cpu_gpu_enqueue");
	struct progress progress = {0};

	atomic_fetch_add_explicit(&o->comm->data_calls, 1, memory_order_relaxed);
	if (enqueue && enqueue(stream, &kernel, o))
		return ncclUnhandledCudaError;
	while (!enqueue && step(o, &progress) != CPU_GPU_ENDED)
		nap();
	if (o->comm->blocking)
		return ncclSuccess;
	atomic_store_explicit(&o->comm->pending, 1, memory_order_relaxed);
	return ncclInProgress;
}

/* ---- the functions -----------------------------------------------------------------------------
 */

ncclResult_t ncclGetVersion(int *version)
{
	GO_WRONG("GetVersion", NULL);
	if (find("version", 0) == 0)
		PASS_ON(ncclGetVersion, version);
	*version = (int)find("version", NCCL_VERSION_CODE);
	return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
	struct id id = {.pid = getpid()};

	GO_WRONG("GetUniqueId", NULL);
	PASS_ON(ncclGetUniqueId, uniqueId);
	id.fd = memfd_create("stub-nccl", MFD_CLOEXEC);
	if (id.fd < 0 || ftruncate(id.fd, sizeof(struct room)))
		return ncclSystemError;
	memcpy(id.magic, magic, sizeof(magic));
	memset(uniqueId, 0, sizeof(*uniqueId));
	memcpy(uniqueId->internal, &id, sizeof(id));
	return ncclSuccess;
}

static ncclResult_t init(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, bool blocking)
{
	struct id id;

	memcpy(&id, commId.internal, sizeof(id));
	return new_comm(comm, nranks, &id, rank, blocking);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
	GO_WRONG("CommInitRank", NULL);
	PASS_ON(ncclCommInitRank, comm, nranks, commId, rank);
	return init(comm, nranks, commId, rank, true);
}

static ncclResult_t real_init(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
			      ncclConfig_t *config)
{
	PASS_ON(ncclCommInitRankConfig, comm, nranks, commId, rank, config);
	return ncclSystemError;
}

/* What communicators were asked for, the last that blocks and the last that does not; for tests
 * that look it up. */
ncclConfig_t stub_nccl_config[2];

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
				    ncclConfig_t *config)
{
	GO_WRONG("CommInitRankConfig", NULL);
	stub_nccl_config[config->blocking != 0] = *config;
	if (find("duplicate", 0)) {
		snprintf(last_words, sizeof(last_words),
			 "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000");
		return ncclInvalidUsage;
	}
	if (has_real()) {
		ncclResult_t result = real_init(comm, nranks, commId, rank, config);

		note_aborted(*comm, NULL);
		return result;
	}
	return init(comm, nranks, commId, rank, config->blocking != 0);
}

/* NCCL frees pinned memory, which waits for every kernel in the process. Only where the program has
 * a GPU that is played. */
static void free_as_nccl(void)
{
	void (*free_pinned)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "cpu_gpu_wait_to_free");

	if (free_pinned)
		free_pinned();
}

/* A group of this thread: what it frees at its end. */
static _Thread_local int depth, nfreed;
static _Thread_local struct ncclComm *freed[16];

/* How many communicators have been freed; for tests that look it up. */
_Atomic int stub_nccl_freed;

static void free_comm(struct ncclComm *comm)
{
	(void)atomic_fetch_add_explicit(&stub_nccl_freed, 1, memory_order_relaxed);
	atomic_store_explicit(&comm->room->seat[comm->rank].gone, 1, memory_order_release);
	free_as_nccl();
}

/* In a group the communicator is told to end at once, and freed at the group's end, as by NCCL. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	GO_WRONG("CommAbort", NULL);
	while (find("abort-hangs", 0))
		nap();
	note_aborted(NULL, comm);
	PASS_ON(ncclCommAbort, comm);
	if (depth && nfreed < (int)(sizeof(freed) / sizeof(freed[0])))
		freed[nfreed++] = comm;
	else
		free_comm(comm);
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	GO_WRONG("CommDestroy", NULL);
	note_aborted(NULL, comm);
	PASS_ON(ncclCommDestroy, comm);
	free_comm(comm);
	return ncclSuccess;
}

/* nccl.h declares them without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* What stands between them begins at once here: nothing but an abort needs the group. */
ncclResult_t ncclGroupStart(void)
{
	GO_WRONG("GroupStart", NULL);
	PASS_ON(ncclGroupStart);
	depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	GO_WRONG("GroupEnd", NULL);
	PASS_ON(ncclGroupEnd);
	if (--depth == 0)
		while (nfreed)
			free_comm(freed[--nfreed]);
	return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
	GO_WRONG("CommGetAsyncError", comm);
	PASS_ON(ncclCommGetAsyncError, comm, asyncError);
	*asyncError = ncclSuccess;
	if (!all_joined(comm) || atomic_exchange_explicit(&comm->pending, 0, memory_order_relaxed))
		*asyncError = ncclInProgress;
	else if (peer_gone(comm) || atomic_load_explicit(&comm->data_calls, memory_order_relaxed) >
					    find("async-error", INT32_MAX))
		*asyncError = ncclRemoteError;
	return ncclSuccess;
}

/* NCCL asks itself by a function that a library before it may define. */
static bool is_ready(ncclComm_t comm)
{
	ncclResult_t error = ncclSuccess;

	return ncclCommGetAsyncError(comm, &error) == ncclSuccess && error != ncclInProgress;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	GO_WRONG("CommCount", NULL);
	PASS_ON(ncclCommCount, comm, count);
	if (!is_ready(comm))
		return ncclInvalidArgument;
	*count = comm->nranks;
	return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	GO_WRONG("CommCuDevice", NULL);
	PASS_ON(ncclCommCuDevice, comm, device);
	if (!is_ready(comm))
		return ncclInvalidArgument;
	*device = comm->device;
	return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	GO_WRONG("CommUserRank", NULL);
	PASS_ON(ncclCommUserRank, comm, rank);
	if (!is_ready(comm))
		return ncclInvalidArgument;
	*rank = comm->rank;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		"no error",
		"unhandled cuda error",
		"unhandled system error",
		"internal error",
		"invalid argument",
		"invalid usage",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
	};

	return (unsigned)result < sizeof(texts) / sizeof(texts[0]) ? texts[result] : "unknown";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	if (!last_words[0])
		PASS_ON(ncclGetLastError, comm);
	return last_words;
}

/* In a macro: the arguments of the function come twice. */
#define DATA_CALL(function, o, ...)                                                                \
	do {                                                                                       \
		GO_WRONG(#function, comm);                                                         \
		PASS_ON(nccl##function, __VA_ARGS__);                                              \
		(o)->comm = comm;                                                                  \
		(o)->dtype = datatype;                                                             \
		return carry_out(o, stream);                                                       \
	} while (0)

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
			   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
	struct operation o = {.kind = ALL_GATHER, .send = sendbuff, .recv = recvbuff};

	o.bytes = sendcount * bytes_of(datatype);
	DATA_CALL(AllGather, &o, sendbuff, recvbuff, sendcount, datatype, comm, stream);
}

/* Whether there is such a reduction here. */
static bool reduces(ncclDataType_t datatype, ncclRedOp_t op)
{
	if (op == ncclAvg)
		return datatype == ncclFloat32;
	return op_of(op) && dtype_of(datatype) && datatype != ncclUint64;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
			   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
			   cudaStream_t stream)
{
	struct operation o = {.kind = ALL_REDUCE, .send = sendbuff, .recv = recvbuff, .op = op};

	if (!has_real() && !reduces(datatype, op))
		return ncclInvalidArgument;
	o.bytes = count * bytes_of(datatype);
	DATA_CALL(AllReduce, &o, sendbuff, recvbuff, count, datatype, op, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
			       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
			       cudaStream_t stream)
{
	struct operation o = {.kind = REDUCE_SCATTER, .send = sendbuff, .recv = recvbuff, .op = op};

	if (!has_real() && !reduces(datatype, op))
		return ncclInvalidArgument;
	o.bytes = recvcount * bytes_of(datatype) * (size_t)comm->nranks;
	DATA_CALL(ReduceScatter, &o, sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
}

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct operation o = {
		.kind = REDUCE, .send = sendbuff, .recv = recvbuff, .op = op, .root = root};

	if (!has_real() && !reduces(datatype, op))
		return ncclInvalidArgument;
	o.bytes = count * bytes_of(datatype);
	DATA_CALL(Reduce, &o, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
			   ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct operation o = {.kind = BROADCAST, .recv = recvbuff, .root = root};

	o.send = comm->rank == root ? sendbuff : NULL;
	o.bytes = count * bytes_of(datatype);
	DATA_CALL(Broadcast, &o, sendbuff, recvbuff, count, datatype, root, comm, stream);
}

/* As in NCCL by the other function's name, which a library before it may define. */
ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
		       cudaStream_t stream)
{
	return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

/* Declared by newer headers only. */
ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
			  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
			 ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
			  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
	struct operation o = {.kind = ALL_TO_ALL, .send = sendbuff, .recv = recvbuff};

	o.bytes = count * bytes_of(datatype) * (size_t)comm->nranks;
	DATA_CALL(AlltoAll, &o, sendbuff, recvbuff, count, datatype, comm, stream);
}

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			int root, ncclComm_t comm, cudaStream_t stream)
{
	struct operation o = {.kind = GATHER, .send = sendbuff, .root = root};

	o.recv = comm->rank == root ? recvbuff : NULL;
	o.bytes = count * bytes_of(datatype);
	DATA_CALL(Gather, &o, sendbuff, recvbuff, count, datatype, root, comm, stream);
}

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
			 ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct operation o = {.kind = SCATTER, .recv = recvbuff, .root = root};

	o.send = comm->rank == root ? sendbuff : NULL;
	o.bytes = count * bytes_of(datatype) * (size_t)comm->nranks;
	DATA_CALL(Scatter, &o, sendbuff, recvbuff, count, datatype, root, comm, stream);
}

/* All ranks send to a peer, then receive as much from one, and begin both with the second. */
ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	GO_WRONG("Send", comm);
	PASS_ON(ncclSend, sendbuff, count, datatype, peer, comm, stream);
	comm->sent = sendbuff;
	return ncclSuccess;
}

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	struct operation o = {.kind = RECEIVE, .recv = recvbuff, .root = peer};

	o.send = has_real() ? NULL : comm->sent;
	o.bytes = count * bytes_of(datatype);
	DATA_CALL(Recv, &o, recvbuff, count, datatype, peer, comm, stream);
}
