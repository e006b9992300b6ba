/* SPDX-License-Identifier: Apache-2.0 */
/* The devices, what is current, and calls that fail on demand. See cpu_gpu.h. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/symm_kernels.h"
#include "tests/support/cpu_gpu_inside.h"

#define DEVICES_MAX	64
#define DEVICES		"0,1,2,3,4,5,6,7"
#define FUNCTIONS_MAX	64
#define GRANULARITY	65536
#define TICKS_OF_ORIGIN UINT64_C(123456789012345)
/* The GPU's clock runs faster than the host's by one part in this: 20 ppm. */
#define TICKS_FAST 50000

/* ---- the machine ---------------------------------------------------------------------------- */

static struct {
	pthread_once_t once;
	int count;
	int machine[DEVICES_MAX]; /* by ordinal: number in the machine */
	bool nvlink, peers, fd;
	uint64_t seed, stall_ns;
} gpus = {.once = PTHREAD_ONCE_INIT};

static void look_at_environment(void)
{
	const char *devices = getenv("BELAY_TEST_GPU_DEVICES");
	const char *link = getenv("BELAY_TEST_GPU_LINK"), *fd = getenv("BELAY_TEST_GPU_FD");
	const char *seed = getenv("BELAY_TEST_SEED"), *stall = getenv("BELAY_TEST_GPU_STALL_US");
	const char *at = devices ? devices : DEVICES;
	char *end;

	while (*at && gpus.count < DEVICES_MAX) {
		gpus.machine[gpus.count++] = (int)strtol(at, &end, 10);
		at = *end == ',' ? end + 1 : "";
	}
	gpus.nvlink = !link || strcmp(link, "nvlink") == 0;
	gpus.peers = !link || strcmp(link, "none") != 0;
	gpus.fd = !fd || strcmp(fd, "0") != 0;
	gpus.seed = seed ? strtoull(seed, NULL, 10) : 1;
	gpus.stall_ns = stall ? 1000 * strtoull(stall, NULL, 10) : 0;
}

static void look(void)
{
	(void)pthread_once(&gpus.once, look_at_environment);
}

uint64_t cpu_gpu_seed(void)
{
	look();
	return gpus.seed;
}

uint64_t cpu_gpu_stall_ns(void)
{
	look();
	return gpus.stall_ns;
}

uint64_t cpu_gpu_ticks(void)
{
	struct timespec now;
	uint64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return ns + ns / TICKS_FAST + TICKS_OF_ORIGIN;
}

/* ---- calls that are counted and may fail ---------------------------------------------------- */

struct function {
	char name[48];
	uint64_t calls;
	unsigned until; /* calls until the failure; 0: none */
	bool always, sticky;
	int code;
};

static struct {
	pthread_mutex_t lock;
	struct function list[FUNCTIONS_MAX];
} functions = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int lost_code; /* atomic; 0: healthy */

static struct function *function_locked(const char *name)
{
	for (int i = 0; i < FUNCTIONS_MAX; i++) {
		struct function *function = &functions.list[i];

		if (!function->name[0])
			(void)snprintf(function->name, sizeof(function->name), "%s", name);
		if (strcmp(function->name, name) == 0)
			return function;
	}
	abort(); /* more functions than there are in both headers */
}

/* The code that this call is to fail with, or 0. */
static int count_locked(struct function *function)
{
	function->calls++;
	if (function->until == 0 || --function->until > 0)
		return 0;
	if (function->always)
		function->until = 1;
	if (function->sticky)
		cpu_gpu_lose_context(function->code);
	return function->code;
}

static _Atomic int holders;

void cpu_gpu_hold(bool held)
{
	atomic_fetch_add(&holders, held ? 1 : -1);
}

/* What the driver lets wait while it frees. Questions it answers. */
static void wait_while_held(const char *name)
{
	if (strncmp(name, "symm_launch", 11) != 0 && strcmp(name, "gpu_copy") != 0 &&
	    strcmp(name, "gpu_fill") != 0 && strcmp(name, "gpu_alloc") != 0)
		return;
	while (atomic_load(&holders))
		(void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

int cpu_gpu_enter(const char *name)
{
	int code;

	wait_while_held(name);
	pthread_mutex_lock(&functions.lock);
	code = count_locked(function_locked(name));
	pthread_mutex_unlock(&functions.lock);
	return code ? code : cpu_gpu_lost();
}

int cpu_gpu_enter_error(const char *name, struct gpu_error *ret_error)
{
	int code = cpu_gpu_enter(name);

	return code ? cpu_gpu_error(name, code, ret_error) : 0;
}

void cpu_gpu_fail(const char *name, unsigned nth, int code, bool sticky)
{
	struct function *function;

	pthread_mutex_lock(&functions.lock);
	function = function_locked(name);
	function->until = nth ? nth : 1;
	function->always = nth == 0;
	function->sticky = sticky;
	function->code = code;
	pthread_mutex_unlock(&functions.lock);
}

void cpu_gpu_fail_nothing(void)
{
	pthread_mutex_lock(&functions.lock);
	for (int i = 0; i < FUNCTIONS_MAX; i++)
		functions.list[i].until = 0;
	pthread_mutex_unlock(&functions.lock);
}

uint64_t cpu_gpu_calls(const char *name)
{
	uint64_t calls;

	pthread_mutex_lock(&functions.lock);
	calls = function_locked(name)->calls;
	pthread_mutex_unlock(&functions.lock);
	return calls;
}

void cpu_gpu_lose_context(int code)
{
	__atomic_store_n(&lost_code, code, __ATOMIC_RELEASE);
}

int cpu_gpu_lost(void)
{
	return __atomic_load_n(&lost_code, __ATOMIC_ACQUIRE);
}

static const char *text_of(int code)
{
	switch (code) {
	case CPU_GPU_NO_MEMORY:
		return "out of memory";
	case CPU_GPU_NO_DEVICE:
		return "no device";
	case CPU_GPU_BAD_DEVICE:
		return "invalid device ordinal";
	case CPU_GPU_ILLEGAL_ADDRESS:
		return "an illegal memory access was encountered";
	case CPU_GPU_LAUNCH_FAILURE:
		return "unspecified launch failure";
	case CPU_GPU_NOT_SUPPORTED:
		return "operation not supported";
	case CPU_GPU_CAPTURE_UNSUPPORTED:
		return "operation not permitted when stream is capturing";
	case CPU_GPU_CAPTURE_INVALIDATED:
		return "operation failed due to a previous error during capture";
	case CPU_GPU_CAPTURE_IMPLICIT:
		return "operation would make the legacy stream depend on a capturing stream";
	default:
		return "failed as the test wants it";
	}
}

int cpu_gpu_error(const char *name, int code, struct gpu_error *ret_error)
{
	if (!ret_error)
		return -1;
	*ret_error = (struct gpu_error){.call = name, .code = code, .sticky = cpu_gpu_lost() != 0};
	(void)snprintf(ret_error->text, sizeof(ret_error->text), "%s", text_of(code));
	return -1;
}

void gpu_launch_error(int code, const char *what, struct gpu_error *ret_error)
{
	(void)cpu_gpu_error(what, code, ret_error);
}

/* ---- gpu.h: finding ------------------------------------------------------------------------- */

static _Thread_local int current = -1;

bool gpu_find(int *ret_devices, const char **ret_why)
{
	look();
	if (cpu_gpu_enter("gpu_find") || gpus.count == 0) {
		*ret_why = "the GPU played on the CPU has no device";
		return false;
	}
	*ret_devices = gpus.count;
	return true;
}

int gpu_current(void)
{
	return current;
}

void cpu_gpu_set_current(int ordinal)
{
	look();
	current = ordinal < gpus.count ? ordinal : -1;
}

static void uuid_of(int machine, uint8_t ret_uuid[16])
{
	memset(ret_uuid, 0xc9, 16);
	ret_uuid[15] = (uint8_t)machine;
}

int gpu_facts(int ordinal, struct gpu_facts *ret_facts, struct gpu_error *ret_error)
{
	struct gpu_facts facts = {
		.name = "GPU played on the CPU",
		.ordinal = ordinal,
		.multiprocessors = 16,
		.compute_major = 9,
		.numa_node = -1,
		.vmm_granularity = GRANULARITY,
		.driver_version = 13000,
		.runtime_version = 13000,
	};

	look();
	if (cpu_gpu_enter_error("gpu_facts", ret_error))
		return -1;
	if (ordinal < 0 || ordinal >= gpus.count)
		return cpu_gpu_error("gpu_facts", CPU_GPU_BAD_DEVICE, ret_error);
	uuid_of(gpus.machine[ordinal], facts.uuid);
	facts.pci_bus = (uint32_t)gpus.machine[ordinal];
	facts.vmm_posix_fd = gpus.fd;
	*ret_facts = facts;
	return 0;
}

int gpu_use(int ordinal, int *ret_before, struct gpu_error *ret_error)
{
	look();
	if (cpu_gpu_enter_error("gpu_use", ret_error))
		return -1;
	if (ordinal < 0 || ordinal >= gpus.count)
		return cpu_gpu_error("gpu_use", CPU_GPU_BAD_DEVICE, ret_error);
	*ret_before = current;
	current = ordinal;
	return 0;
}

void gpu_restore(int before)
{
	current = before;
}

int gpu_peer_facts(int ordinal, int peer_ordinal, bool *ret_access, bool *ret_native,
		   bool *ret_nvlink)
{
	bool same;

	look();
	if (ordinal < 0 || peer_ordinal < 0 || ordinal >= gpus.count || peer_ordinal >= gpus.count)
		return -1;
	same = gpus.machine[ordinal] == gpus.machine[peer_ordinal];
	*ret_access = same || gpus.peers;
	*ret_native = same || gpus.nvlink;
	*ret_nvlink = !same && gpus.nvlink;
	return 0;
}

int gpu_ordinal_of(const uint8_t uuid[16])
{
	uint8_t own[16];

	look();
	for (int i = 0; i < gpus.count; i++) {
		uuid_of(gpus.machine[i], own);
		if (memcmp(own, uuid, sizeof(own)) == 0)
			return i;
	}
	return -1;
}

/* ---- symm_kernels.h: loading ---------------------------------------------------------------- */

int symm_kernels_load(const char **ret_what)
{
	int code = cpu_gpu_enter("symm_kernels_load");

	if (code)
		*ret_what = "symm_call";
	return code;
}

void cpu_gpu_count(struct cpu_gpu_objects *ret_objects)
{
	*ret_objects = (struct cpu_gpu_objects){.streams = cpu_gpu_count_streams()};
	cpu_gpu_count_memory(ret_objects);
}
