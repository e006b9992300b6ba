/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows NCCL only, with two ranks: prints what each function gives it. Linked with
 * the stub NCCL (stub_nccl.c), for runs under LD_PRELOAD; with a file's name it takes NCCL's
 * functions from that file instead, as serving processes do that are told which NCCL to load. Its
 * buffers are host memory, which the stub takes.
 */
#include "config.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUNCTIONS(F)                                                                               \
	F(AllReduce)                                                                               \
	F(CommCount)                                                                               \
	F(CommDestroy)                                                                             \
	F(CommGetAsyncError)                                                                       \
	F(CommInitRank)                                                                            \
	F(GetErrorString)                                                                          \
	F(GetLastError)                                                                            \
	F(GetUniqueId)                                                                             \
	F(GetVersion)

struct functions {
#define MEMBER(name) __typeof__(nccl##name) *name;
	FUNCTIONS(MEMBER)
#undef MEMBER
	ncclResult_t (*unknown)(ncclComm_t, int); /* that the stub lacks; may be absent */
};

static int take_linked(struct functions *f)
{
#define TAKE(name) f->name = nccl##name;
	FUNCTIONS(TAKE)
#undef TAKE
	return 0;
}

static int take_from(const char *file, struct functions *f)
{
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	void *function;

	if (!handle) {
		printf("dlopen: %s\n", dlerror());
		return -1;
	}
#define TAKE(name)                                                                                 \
	function = dlsym(handle, "nccl" #name);                                                    \
	memcpy(&f->name, &function, sizeof(function));                                             \
	if (!function) {                                                                           \
		printf("no nccl" #name "\n");                                                      \
		return -1;                                                                         \
	}
	FUNCTIONS(TAKE)
#undef TAKE
	function = dlsym(handle, "ncclCommSuspend");
	memcpy(&f->unknown, &function, sizeof(function));
	return 0;
}

static void reduce(const struct functions *f, int rank, ncclComm_t comm)
{
	float values[3] = {1.0f + (float)rank, 2.0f, 4.0f};
	ncclResult_t error = ncclInternalError;
	int count = 0;

	f->CommCount(comm, &count);
	f->AllReduce(values, values, 3, ncclFloat32, ncclSum, comm, NULL);
	f->CommGetAsyncError(comm, &error);
	if (rank == 0)
		printf("count %d\nsum %g %g %g\nasync %s\n", count, (double)values[0],
		       (double)values[1], (double)values[2], f->GetErrorString(error));
}

/* A rank that has left is an error of the other's communicator: rank 1 stays until it may go. */
static void leave_together(int rank, const int *ends)
{
	char byte = 0;
	ssize_t moved = rank == 0 ? write(ends[1], &byte, 1) : read(ends[0], &byte, 1);

	if (moved != 1)
		printf("rank %d: the pipe is broken\n", rank);
}

static int live(const struct functions *f, int rank, const ncclUniqueId *id, const int *ends)
{
	ncclComm_t comm = NULL;
	ncclResult_t result = f->CommInitRank(&comm, 2, *id, rank);

	if (rank == 0)
		printf("init %d\n", (int)result);
	if (result != ncclSuccess)
		return 1;
	reduce(f, rank, comm);
	if (rank == 0 && f->unknown) {
		result = f->unknown(comm, 0);
		printf("unknown %d: %s\n", (int)result, f->GetLastError(NULL));
	}
	leave_together(rank, ends);
	result = f->CommDestroy(comm);
	return result != ncclSuccess;
}

int main(int argc, char **argv)
{
	struct functions f = {0};
	ncclUniqueId id;
	int version = 0, ends[2], status = 1;
	pid_t child;

	if (argc > 1 ? take_from(argv[1], &f) : take_linked(&f))
		return 1;
	(void)f.GetVersion(&version);
	printf("version %d\n", version);
	if (f.GetUniqueId(&id) != ncclSuccess || pipe(ends)) {
		printf("no id: %s\n", f.GetLastError(NULL));
		return 1;
	}
	(void)fflush(stdout);
	child = fork();
	if (child == 0)
		return live(&f, 1, &id, ends);
	return live(&f, 0, &id, ends) | (waitpid(child, &status, 0) != child) | status;
}
