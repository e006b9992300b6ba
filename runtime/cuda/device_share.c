/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of all ranks in one address space, and the test that what one rank stores there arrives.
 * See device.h. */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/cuda/device_inside.h"
#include "runtime/cuda/device_topology.h"
#include "runtime/cuda/region_exchange.h"

/* What a kernel's verdict never is. */
#define SELFTEST_NO_VERDICT INT32_MIN

/* ---- facts ----------------------------------------------------------------------------------- */

/* What the driver says of this rank's device and a peer's. Nothing is known of a device that this
 * process does not see (CUDA_VISIBLE_DEVICES); its region may be mapped all the same. */
static void look_at_peer(struct device *device, struct control_facts *own,
			 const struct control_facts *peer, unsigned rank)
{
	bool access = false, native = false, nvlink = false;
	int ordinal = gpu_ordinal_of(peer->uuid);

	if (ordinal < 0 || gpu_peer_facts(device->ordinal, ordinal, &access, &native, &nvlink) != 0)
		return;
	own->peer_access |= (uint64_t)access << rank;
	own->peer_native |= (uint64_t)native << rank;
	own->peer_nvlink |= (uint64_t)nvlink << rank;
}

static void look_at_peers(struct belay_comm *comm)
{
	struct control_device *devices = comm->control.device;
	struct device *device = comm->device;

	device->sharing = topology_sharing(devices, comm->nranks, comm->rank);
	for (unsigned r = 0; r < comm->nranks; r++)
		if (r != comm->rank)
			look_at_peer(device, &devices[comm->rank].facts, &devices[r].facts, r);
}

/* ---- mapping --------------------------------------------------------------------------------- */

static void say(const struct gpu_error *error, const char *what, unsigned rank, char *ret_why,
		size_t size)
{
	char text[200];

	device_error_text(error, text, sizeof(text));
	snprintf(ret_why, size, "region of rank %u: %s: %s", rank, what, text);
}

/* Own region, to be told to the peers: its descriptor, or -1 with the reason. */
static int make_own(struct belay_comm *comm, const char *refuse, char *ret_why, size_t size)
{
	struct device *device = comm->device;
	struct gpu_error error = {.call = ""};
	int fd = -1;

	if (refuse)
		snprintf(ret_why, size, "%s", refuse);
	else if (!device->facts.vmm_posix_fd)
		snprintf(ret_why, size, "%s cannot export memory to other processes",
			 device->facts.name);
	else if (device->region_bytes % device->facts.vmm_granularity != 0)
		snprintf(ret_why, size, "memory comes in pieces of %llu bytes, a region has %zu",
			 (unsigned long long)device->facts.vmm_granularity, device->region_bytes);
	else if (gpu_region_create(device->ordinal, device->region_bytes,
				   &device->region[comm->rank], &fd, &error))
		say(&error, "cannot be made", comm->rank, ret_why, size);
	return fd;
}

static int map_one(struct belay_comm *comm, unsigned rank, char *ret_why, size_t size)
{
	struct device *device = comm->device;
	struct gpu_error error = {.call = ""};

	if (gpu_region_map(device->region[rank],
			   (char *)device->space + rank * device->region_bytes,
			   device->region_bytes, device->ordinal, &error)) {
		say(&error, "cannot be mapped", rank, ret_why, size);
		return -1;
	}
	device->mapped |= rank_bit(rank);
	return 0;
}

/* All regions in rank order at one stride. */
static int map_all(struct belay_comm *comm, const int fd[SYMM_RANKS_MAX], char *ret_why,
		   size_t size)
{
	struct device *device = comm->device;
	struct gpu_error error = {.call = ""};

	device->space_bytes = comm->nranks * device->region_bytes;
	if (gpu_space_reserve(device->space_bytes, &device->space, &error)) {
		say(&error, "no address space", comm->rank, ret_why, size);
		return -1;
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (r != comm->rank &&
		    gpu_region_import(fd[r], device->region_bytes, &device->region[r], &error)) {
			say(&error, "cannot be imported", r, ret_why, size);
			return -1;
		}
		if (map_one(comm, r, ret_why, size))
			return -1;
	}
	return 0;
}

static void close_descriptors(int fd[SYMM_RANKS_MAX])
{
	for (unsigned r = 0; r < SYMM_RANKS_MAX; r++)
		if (fd[r] >= 0)
			(void)close(fd[r]);
}

/* A mapping needs no descriptor: all are closed in any case. */
static int share_regions(struct belay_comm *comm, uint64_t deadline_ns, const char *refuse,
			 char *ret_why, size_t size)
{
	char own_why[256] = "", peer_why[256] = "";
	int fd[SYMM_RANKS_MAX];
	struct region_offer offer = {
		.meeting = comm->members.generation,
		.bytes = comm->device->region_bytes,
		.fd = make_own(comm, refuse, own_why, sizeof(own_why)),
	};
	int status;

	for (unsigned r = 0; r < SYMM_RANKS_MAX; r++)
		fd[r] = -1;
	status = region_exchange(comm->members.link, comm->rank, comm->nranks, &offer, deadline_ns,
				 fd, peer_why, sizeof(peer_why));
	if (offer.fd < 0 || status) {
		snprintf(ret_why, size, "%s", offer.fd < 0 ? own_why : peer_why);
		status = -1;
	} else {
		status = map_all(comm, fd, ret_why, size);
	}
	close_descriptors(fd);
	if (offer.fd >= 0)
		(void)close(offer.fd);
	return status;
}

void device_unshare(struct device *device)
{
	for (unsigned r = 0; r < SYMM_RANKS_MAX; r++) {
		if (device->mapped >> r & 1)
			gpu_region_unmap((char *)device->space + r * device->region_bytes,
					 device->region_bytes);
		if (device->region[r])
			gpu_region_free(device->region[r]);
		device->region[r] = NULL;
	}
	if (device->space)
		gpu_space_free(device->space, device->space_bytes);
	device->space = NULL;
	device->mapped = 0;
	device->shared = false;
}

/* ---- own memory ------------------------------------------------------------------------------ */

/* Kernels find a rank's region by its number; of private memory there is only the own one, and no
 * kernel looks at another's then. */
static int take_private(struct belay_comm *comm, struct gpu_error *ret_error)
{
	struct device *device = comm->device;

	if (gpu_alloc(device->region_bytes, &device->private_, ret_error))
		return -1;
	device->symm.region =
		(char *)((uintptr_t)device->private_ - comm->rank * device->region_bytes);
	return 0;
}

static int init_memory(struct belay_comm *comm, struct gpu_error *ret_error)
{
	struct device *device = comm->device;
	int code = symm_launch_init(&device->symm, comm->turn, comm->seq, device->stream);

	if (code) {
		gpu_launch_error(code, "symm_launch_init", ret_error);
		return -1;
	}
	return device_settle(device, ret_error);
}

/* Failures here are not of sharing but of the device: device_start() ends the creation for them. */
static int make_ready(struct belay_comm *comm)
{
	struct device *device = comm->device;
	struct gpu_error error = {.call = ""};

	look_at_peers(comm);
	if ((!device->shared && take_private(comm, &error)) || init_memory(comm, &error))
		return device_cause(comm, "preparing device memory", &error);
	device->ready = true;
	return 0;
}

static int share(struct belay_comm *comm, uint64_t deadline_ns, const char *refuse, char *ret_why,
		 size_t size)
{
	struct device *device = comm->device;
	int status = share_regions(comm, deadline_ns, refuse, ret_why, size);

	if (status == 0) {
		device->shared = true;
		device->symm.region = device->space;
	} else {
		device_unshare(device);
	}
	return status;
}

int device_share(struct belay_comm *comm, uint64_t deadline_ns, const char *refuse, char *ret_why,
		 size_t size)
{
	struct device *device = comm->device;
	struct gpu_error error = {.call = ""};
	struct device_visit visit;
	bool visits = device_visit_begin(device->ordinal, &visit, &error) == 0;
	int status = 0;

	/* Even a rank that cannot use its device any more tells its peers. */
	if (!visits) {
		(void)device_cause(comm, "using the device", &error);
		refuse = "the device cannot be used any more";
	}
	if (!comm_only_watches(comm))
		status = share(comm, deadline_ns, refuse, ret_why, size);
	if (visits) {
		(void)make_ready(comm); /* device_start() asks `ready` */
		device_visit_end(&visit);
	}
	return status;
}

/* ---- self-test ------------------------------------------------------------------------------- */

/* One kernel of the self-test, and its end. */
static int run_selftest(struct belay_comm *comm, int (*launch)(struct belay_comm *, uint64_t, bool),
			uint64_t nonce, bool spoil, char *ret_why, size_t size)
{
	struct device *device = comm->device;
	struct gpu_error error = {.call = ""};
	struct device_visit visit;
	char text[200];
	int status = device_visit_begin(device->ordinal, &visit, &error), code;

	if (status == 0) {
		code = launch(comm, nonce, spoil);
		if (code)
			gpu_launch_error(code, "launch", &error);
		status = code ? -1 : device_settle(device, &error);
		device_visit_end(&visit);
	}
	if (status) {
		device_error_text(&error, text, sizeof(text));
		snprintf(ret_why, size, "self-test: %s", text);
	}
	return status;
}

static int launch_write(struct belay_comm *comm, uint64_t nonce, bool spoil)
{
	return symm_launch_selftest_write(&comm->device->symm, nonce, spoil, comm->device->stream);
}

static int launch_verify(struct belay_comm *comm, uint64_t nonce, bool spoil)
{
	struct device *device = comm->device;

	(void)spoil;
	device->answers->selftest = SELFTEST_NO_VERDICT;
	return symm_launch_selftest_verify(&device->symm, nonce, &device->answers->selftest,
					   device->stream);
}

int device_selftest_write(struct belay_comm *comm, uint64_t nonce, bool spoil, char *ret_why,
			  size_t size)
{
	return run_selftest(comm, launch_write, nonce, spoil, ret_why, size);
}

int device_selftest_verify(struct belay_comm *comm, uint64_t nonce, char *ret_why, size_t size)
{
	int32_t wrong;

	if (run_selftest(comm, launch_verify, nonce, false, ret_why, size))
		return -1;
	/* The kernel wrote it, and its stream has been seen done: a call that the compiler cannot
	 * see through, so that this is read after it. */
	wrong = comm->device->answers->selftest;
	if (wrong == -1)
		return 0;
	snprintf(ret_why, size, "self-test: what rank %d stored is not here", (int)wrong);
	return -1;
}
