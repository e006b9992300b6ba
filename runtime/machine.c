/* SPDX-License-Identifier: Apache-2.0 */
/* What this process finds on this machine, for belay-info and for programs that choose devices. */
#include "config.h"

#include <stdio.h>

#include "runtime/cuda/gpu.h"
#include "runtime/settings.h"
#ifdef HAVE_NCCL
#include "runtime/cuda/nccl_library.h"
#endif

/* The kernels are built for this compute capability and newer ones. */
#define COMPUTE_MAJOR_LEAST 8
#define DEVICES_MAX	    64 /* bits of the masks in struct belay_device */

static _Thread_local char answer[800];

/* ---- devices --------------------------------------------------------------------------------- */

int belay_device_count(void)
{
	const char *why = "";
	int devices = 0;

	if (!gpu_find(&devices, &why))
		return 0;
	return devices < DEVICES_MAX ? devices : DEVICES_MAX;
}

static void describe_uuid(const uint8_t uuid[16], char *text, size_t size)
{
	snprintf(text, size,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 uuid[0], uuid[1], uuid[2], uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8],
		 uuid[9], uuid[10], uuid[11], uuid[12], uuid[13], uuid[14], uuid[15]);
}

static void describe_peers(int ordinal, struct belay_device *device)
{
	int devices = belay_device_count();

	for (int peer = 0; peer < devices; peer++) {
		bool access = false, native = false, nvlink = false;

		if (peer == ordinal ||
		    gpu_peer_facts(ordinal, peer, &access, &native, &nvlink) != 0)
			continue;
		device->peer_access |= (uint64_t)access << peer;
		device->peer_atomics |= (uint64_t)native << peer;
		device->peer_nvlink |= (uint64_t)nvlink << peer;
	}
}

static void describe(const struct gpu_facts *facts, struct belay_device *ret_device)
{
	struct belay_device device = {
		.size = ret_device->size,
		.compute = facts->compute_major * 10 + facts->compute_minor,
		.multiprocessors = facts->multiprocessors,
		.numa_node = facts->numa_node,
		.exports_memory = facts->vmm_posix_fd,
		.driver_version = facts->driver_version,
		.runtime_version = facts->runtime_version,
	};

	snprintf(device.name, sizeof(device.name), "%s", facts->name);
	describe_uuid(facts->uuid, device.uuid, sizeof(device.uuid));
	snprintf(device.pci, sizeof(device.pci), "%04x:%02x:%02x.0", facts->pci_domain & 0xffff,
		 facts->pci_bus & 0xff, facts->pci_device & 0xff);
	describe_peers(facts->ordinal, &device);
	*ret_device = device;
}

int belay_device_get(int ordinal, struct belay_device *ret_device)
{
	struct gpu_facts facts;
	struct gpu_error error;

	if (ordinal < 0 || ordinal >= belay_device_count() || !ret_device ||
	    ret_device->size != sizeof(*ret_device))
		return BELAY_E_ARGUMENT;
	if (gpu_facts(ordinal, &facts, &error))
		return BELAY_E_SYSTEM;
	describe(&facts, ret_device);
	return 0;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static int find_devices(int *ret_devices)
{
	const char *why = "";

	if (gpu_find(ret_devices, &why))
		return 1;
	snprintf(answer, sizeof(answer), "%s", why);
	return 0;
}

/* The first device stands for all. */
static int symm_usable(void)
{
	struct gpu_facts facts;
	struct gpu_error error;
	int devices = 0;

	if (!find_devices(&devices))
		return 0;
	if (gpu_facts(0, &facts, &error)) {
		snprintf(answer, sizeof(answer), "%s: %s (%d)", error.call, error.text, error.code);
		return 0;
	}
	if (facts.compute_major < COMPUTE_MAJOR_LEAST) {
		snprintf(answer, sizeof(answer), "%s has compute capability %d.%d, %d.0 is needed",
			 facts.name, facts.compute_major, facts.compute_minor, COMPUTE_MAJOR_LEAST);
		return 0;
	}
	if (!facts.vmm_posix_fd) {
		snprintf(answer, sizeof(answer), "%s cannot export memory to other processes",
			 facts.name);
		return 0;
	}
	snprintf(answer, sizeof(answer), "memory of %d CUDA device%s, mapped by all ranks", devices,
		 devices == 1 ? "" : "s");
	return 1;
}

#ifdef HAVE_NCCL
static int find_nccl(const struct settings *settings)
{
	struct nccl_library library;
	int version;

	if (nccl_library_find(settings->text[SETTING_nccl_library], &library, answer,
			      sizeof(answer)))
		return 0;
	version = library.version;
	snprintf(answer, sizeof(answer), "NCCL %d.%d.%d, %s", version / 10000, version / 100 % 100,
		 version % 100, library.file);
	return 1;
}
#else
static int find_nccl(const struct settings *settings)
{
	(void)settings;
	snprintf(answer, sizeof(answer), "this belay is built without NCCL");
	return 0;
}
#endif

static int nccl_usable(void)
{
	struct settings settings;
	int devices = 0, usable;

	if (!find_devices(&devices))
		return 0;
	if (settings_load(NULL, &settings, NULL)) {
		snprintf(answer, sizeof(answer), "a setting has a bad value");
		return 0;
	}
	usable = find_nccl(&settings);
	settings_free(&settings);
	return usable;
}

int belay_path_usable(enum belay_path path, const char **ret_why)
{
	if (ret_why)
		*ret_why = answer;
	switch (path) {
	case BELAY_PATH_SYMM:
		return symm_usable();
	case BELAY_PATH_NCCL:
		return nccl_usable();
	case BELAY_PATH_HOST:
	case BELAY_PATH_RING:
		snprintf(answer, sizeof(answer), "%s",
			 path == BELAY_PATH_HOST
				 ? "memory shared by the processes of this host"
				 : "Unix sockets between the processes of this host");
		return 1;
	default:
		snprintf(answer, sizeof(answer), "there is no such path");
		return 0;
	}
}
