/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, regions and pinned memory of the GPU played on the CPU. See cpu_gpu.h. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/cpu_gpu_inside.h"

/* What some range of addresses is. Registered host memory and mapped regions are ranges too. */
enum range_use { RANGE_MEMORY, RANGE_MAPPED, RANGE_REGISTERED, RANGE_SPACE };

struct range {
	struct range *next;
	char *begin;
	size_t bytes;
	enum range_use use;
	enum gpu_pointer kind;
	int ordinal;
};

struct gpu_region {
	int fd;
	size_t bytes;
};

static struct {
	pthread_mutex_t lock;
	struct range *ranges; /* newest first: a region mapped into a space comes before it */
	unsigned regions;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- ranges --------------------------------------------------------------------------------- */

static bool range_add(char *begin, size_t bytes, enum range_use use, enum gpu_pointer kind,
		      int ordinal)
{
	struct range *range = malloc(sizeof(*range));

	if (!range)
		return false;
	*range = (struct range){
		.begin = begin, .bytes = bytes, .use = use, .kind = kind, .ordinal = ordinal};
	pthread_mutex_lock(&memory.lock);
	range->next = memory.ranges;
	memory.ranges = range;
	pthread_mutex_unlock(&memory.lock);
	return true;
}

/* Takes the range of that use that begins there out. Its bytes; 0: there is none. */
static size_t range_take(const char *begin, enum range_use use)
{
	struct range **at, *found;
	size_t bytes = 0;

	pthread_mutex_lock(&memory.lock);
	for (at = &memory.ranges; *at; at = &(*at)->next)
		if ((*at)->begin == begin && (*at)->use == use)
			break;
	found = *at;
	if (found) {
		bytes = found->bytes;
		*at = found->next;
	}
	pthread_mutex_unlock(&memory.lock);
	free(found);
	return bytes;
}

enum gpu_pointer gpu_pointer_kind(const void *pointer, int ordinal)
{
	enum gpu_pointer kind = GPU_POINTER_UNKNOWN;
	const char *at = pointer;

	(void)cpu_gpu_enter("gpu_pointer_kind");
	pthread_mutex_lock(&memory.lock);
	for (const struct range *range = memory.ranges; range; range = range->next) {
		if (range->use == RANGE_SPACE || at < range->begin ||
		    at >= range->begin + range->bytes)
			continue;
		kind = range->kind;
		if (kind == GPU_POINTER_DEVICE && range->ordinal != ordinal)
			kind = GPU_POINTER_OTHER_DEVICE;
		break;
	}
	pthread_mutex_unlock(&memory.lock);
	return kind;
}

void cpu_gpu_count_memory(struct cpu_gpu_objects *ret_objects)
{
	unsigned by_use[4] = {0};

	pthread_mutex_lock(&memory.lock);
	for (const struct range *range = memory.ranges; range; range = range->next)
		by_use[range->use]++;
	ret_objects->regions = memory.regions;
	pthread_mutex_unlock(&memory.lock);
	ret_objects->allocations = by_use[RANGE_MEMORY];
	ret_objects->mappings = by_use[RANGE_MAPPED];
	ret_objects->registrations = by_use[RANGE_REGISTERED];
	ret_objects->spaces = by_use[RANGE_SPACE];
}

/* ---- allocations ---------------------------------------------------------------------------- */

static size_t whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return bytes ? (bytes + page - 1) / page * page : page;
}

static void *allocate(enum gpu_pointer kind, int ordinal, size_t bytes)
{
	void *begin = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (begin == MAP_FAILED)
		return NULL;
	if (range_add(begin, whole_pages(bytes), RANGE_MEMORY, kind, ordinal))
		return begin;
	(void)munmap(begin, whole_pages(bytes));
	return NULL;
}

static void release(void *begin)
{
	size_t bytes = range_take(begin, RANGE_MEMORY);

	if (bytes)
		(void)munmap(begin, bytes);
}

/* OTHER_DEVICE is a matter of who asks. */
void *cpu_gpu_memory(enum gpu_pointer kind, int ordinal, size_t bytes)
{
	return allocate(kind == GPU_POINTER_OTHER_DEVICE ? GPU_POINTER_DEVICE : kind, ordinal,
			bytes);
}

void cpu_gpu_memory_free(void *begin)
{
	release(begin);
}

/* 0, or -1 where the call is to fail or breaks a capture. */
static int enter_unsafe(const char *function, struct gpu_error *ret_error)
{
	int code;

	if (cpu_gpu_enter_error(function, ret_error))
		return -1;
	code = cpu_gpu_unsafe(function);
	return code ? cpu_gpu_error(function, code, ret_error) : 0;
}

int gpu_alloc(size_t bytes, void **ret_memory, struct gpu_error *ret_error)
{
	void *begin;

	if (enter_unsafe("gpu_alloc", ret_error))
		return -1;
	begin = allocate(GPU_POINTER_DEVICE, gpu_current(), bytes);
	if (!begin)
		return cpu_gpu_error("gpu_alloc", CPU_GPU_NO_MEMORY, ret_error);
	*ret_memory = begin;
	return 0;
}

void gpu_free(void *begin)
{
	(void)cpu_gpu_enter("gpu_free");
	(void)cpu_gpu_unsafe("gpu_free");
	cpu_gpu_wait_to_free();
	release(begin);
}

int gpu_host_alloc(size_t bytes, void **ret_memory, struct gpu_error *ret_error)
{
	void *begin;

	if (enter_unsafe("gpu_host_alloc", ret_error))
		return -1;
	begin = allocate(GPU_POINTER_HOST, -1, bytes);
	if (!begin)
		return cpu_gpu_error("gpu_host_alloc", CPU_GPU_NO_MEMORY, ret_error);
	*ret_memory = begin;
	return 0;
}

void gpu_host_free(void *begin)
{
	(void)cpu_gpu_enter("gpu_host_free");
	(void)cpu_gpu_unsafe("gpu_host_free");
	cpu_gpu_wait_to_free();
	release(begin);
}

int gpu_host_register(void *begin, size_t bytes, void **ret_device, struct gpu_error *ret_error)
{
	if (enter_unsafe("gpu_host_register", ret_error))
		return -1;
	if ((uintptr_t)begin % whole_pages(1) || bytes % whole_pages(1))
		return cpu_gpu_error("gpu_host_register", CPU_GPU_INVALID, ret_error);
	if (!range_add(begin, bytes, RANGE_REGISTERED, GPU_POINTER_HOST, -1))
		return cpu_gpu_error("gpu_host_register", CPU_GPU_NO_MEMORY, ret_error);
	*ret_device = begin;
	return 0;
}

void gpu_host_unregister(void *begin)
{
	(void)cpu_gpu_enter("gpu_host_unregister");
	(void)cpu_gpu_unsafe("gpu_host_unregister");
	(void)range_take(begin, RANGE_REGISTERED);
}

/* ---- regions -------------------------------------------------------------------------------- */

/* Takes the descriptor over. */
static struct gpu_region *region_of(int fd, size_t bytes)
{
	struct gpu_region *region = malloc(sizeof(*region));

	if (!region || fd < 0) {
		if (fd >= 0)
			(void)close(fd);
		free(region);
		return NULL;
	}
	*region = (struct gpu_region){.fd = fd, .bytes = bytes};
	pthread_mutex_lock(&memory.lock);
	memory.regions++;
	pthread_mutex_unlock(&memory.lock);
	return region;
}

int gpu_region_create(int ordinal, size_t bytes, struct gpu_region **ret_region, int *ret_fd,
		      struct gpu_error *ret_error)
{
	struct gpu_region *region;
	struct gpu_facts facts;
	int fd, exported;

	if (enter_unsafe("gpu_region_create", ret_error) || gpu_facts(ordinal, &facts, ret_error))
		return -1;
	if (!facts.vmm_posix_fd || bytes % facts.vmm_granularity)
		return cpu_gpu_error("gpu_region_create",
				     facts.vmm_posix_fd ? CPU_GPU_INVALID : CPU_GPU_NOT_SUPPORTED,
				     ret_error);
	fd = memfd_create("cpu-gpu-region", MFD_CLOEXEC);
	exported = fd < 0 || ftruncate(fd, (off_t)bytes) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	region = region_of(fd, bytes);
	if (!region || exported < 0) {
		gpu_region_free(region);
		return cpu_gpu_error("gpu_region_create", CPU_GPU_NO_MEMORY, ret_error);
	}
	*ret_region = region;
	*ret_fd = exported;
	return 0;
}

int gpu_region_import(int fd, size_t bytes, struct gpu_region **ret_region,
		      struct gpu_error *ret_error)
{
	struct gpu_region *region;
	off_t end = lseek(fd, 0, SEEK_END);

	if (enter_unsafe("gpu_region_import", ret_error))
		return -1;
	if (end < 0 || (size_t)end != bytes)
		return cpu_gpu_error("gpu_region_import", CPU_GPU_INVALID, ret_error);
	region = region_of(fcntl(fd, F_DUPFD_CLOEXEC, 0), bytes);
	if (!region)
		return cpu_gpu_error("gpu_region_import", CPU_GPU_NO_MEMORY, ret_error);
	*ret_region = region;
	return 0;
}

void gpu_region_free(struct gpu_region *region)
{
	(void)cpu_gpu_enter("gpu_region_free");
	if (!region)
		return;
	(void)close(region->fd);
	free(region);
	pthread_mutex_lock(&memory.lock);
	memory.regions--;
	pthread_mutex_unlock(&memory.lock);
}

int gpu_space_reserve(size_t bytes, void **ret_space, struct gpu_error *ret_error)
{
	void *space;

	if (enter_unsafe("gpu_space_reserve", ret_error))
		return -1;
	space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		return cpu_gpu_error("gpu_space_reserve", CPU_GPU_NO_MEMORY, ret_error);
	if (!range_add(space, bytes, RANGE_SPACE, GPU_POINTER_UNKNOWN, -1)) {
		(void)munmap(space, bytes);
		return cpu_gpu_error("gpu_space_reserve", CPU_GPU_NO_MEMORY, ret_error);
	}
	*ret_space = space;
	return 0;
}

/* Only into a space; nothing of the process is ever mapped over. */
static bool inside_a_space(const char *place, size_t bytes)
{
	bool inside = false;

	pthread_mutex_lock(&memory.lock);
	for (const struct range *range = memory.ranges; range; range = range->next)
		inside |= range->use == RANGE_SPACE && place >= range->begin &&
			  place + bytes <= range->begin + range->bytes;
	pthread_mutex_unlock(&memory.lock);
	return inside;
}

/* Makes the place what the space was; it fails only where the space is gone too. */
static void clear_place(void *place, size_t bytes)
{
	(void)mmap(place, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		   -1, 0);
}

int gpu_region_map(struct gpu_region *region, void *place, size_t bytes, int ordinal,
		   struct gpu_error *ret_error)
{
	if (enter_unsafe("gpu_region_map", ret_error))
		return -1;
	if (bytes != region->bytes || !inside_a_space(place, bytes))
		return cpu_gpu_error("gpu_region_map", CPU_GPU_INVALID, ret_error);
	if (mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, region->fd, 0) ==
	    MAP_FAILED)
		return cpu_gpu_error("gpu_region_map", CPU_GPU_NO_MEMORY, ret_error);
	if (!range_add(place, bytes, RANGE_MAPPED, GPU_POINTER_DEVICE, ordinal)) {
		clear_place(place, bytes);
		return cpu_gpu_error("gpu_region_map", CPU_GPU_NO_MEMORY, ret_error);
	}
	return 0;
}

void gpu_region_unmap(void *place, size_t bytes)
{
	(void)cpu_gpu_enter("gpu_region_unmap");
	if (range_take(place, RANGE_MAPPED))
		clear_place(place, bytes);
}

void gpu_space_free(void *space, size_t bytes)
{
	(void)cpu_gpu_enter("gpu_space_free");
	if (space && range_take(space, RANGE_SPACE))
		(void)munmap(space, bytes);
}
