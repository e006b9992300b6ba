/* SPDX-License-Identifier: Apache-2.0 */
/* belay-info's report for people and for machines. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "tools/info/info_report.h"

#ifdef HAVE_LTTNG_UST
#define WITH_LTTNG 1
#else
#define WITH_LTTNG 0
#endif

#ifdef HAVE_CUDA
#define WITH_CUDA 1
#else
#define WITH_CUDA 0
#endif

#ifdef HAVE_NCCL
#define WITH_NCCL 1
#else
#define WITH_NCCL 0
#endif

static const char *yes_no(int yes)
{
	return yes ? "yes" : "no";
}

static void print_versions(void)
{
	struct utsname kernel;

	printf("versions\n  libbelay   %s\n  belay-info %d.%d.%d\n", belay_version(),
	       BELAY_VERSION_MAJOR, BELAY_VERSION_MINOR, BELAY_VERSION_PATCH);
	printf("  LTTng      %s\n  CUDA       %s\n  NCCL       %s\n", yes_no(WITH_LTTNG),
	       yes_no(WITH_CUDA), yes_no(WITH_NCCL));
	if (uname(&kernel) == 0)
		printf("  kernel     %s %s\n", kernel.release, kernel.machine);
}

static void print_paths(const struct info *info)
{
	printf("\npaths\n");
	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++)
		printf("  %-5s %-4s %s\n", belay_path_name((enum belay_path)path),
		       yes_no(info->path[path].usable), info->path[path].why);
}

/* How a device is joined to another. */
static const char *link_text(const struct belay_device *device, uint32_t peer)
{
	if (!(device->peer_access >> peer & 1))
		return "no access";
	if (device->peer_nvlink >> peer & 1)
		return "NVLink, native atomics";
	return device->peer_atomics >> peer & 1 ? "PCIe, native atomics"
						: "PCIe, no native atomics";
}

static void print_device(const struct info *info, uint32_t ordinal)
{
	const struct belay_device *device = &info->device[ordinal];

	printf("  %" PRIu32 "  %s, compute %d.%d, %d multiprocessors, PCI %s, NUMA node ", ordinal,
	       device->name, device->compute / 10, device->compute % 10, device->multiprocessors,
	       device->pci);
	if (device->numa_node < 0)
		printf("not known");
	else
		printf("%d", device->numa_node);
	printf("%s\n", device->exports_memory ? "" : ", cannot export memory");
	for (uint32_t peer = ordinal + 1; peer < info->ndevices; peer++)
		printf("  %" PRIu32 "  to %" PRIu32 ": %s\n", ordinal, peer,
		       link_text(device, peer));
}

static void print_devices(const struct info *info)
{
	if (info->ndevices)
		printf("\ndevices, CUDA %d.%d driver\n", info->device[0].driver_version / 1000,
		       info->device[0].driver_version % 1000 / 10);
	for (uint32_t ordinal = 0; ordinal < info->ndevices; ordinal++)
		print_device(info, ordinal);
}

static void print_probe(const struct info *info)
{
	printf("\nprobe, %" PRIu32 " ranks\n", info->probe_ranks);
	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++) {
		const struct info_probe *probe = &info->probe[path];
		const char *name = belay_path_name((enum belay_path)path);

		if (!probe->tried)
			printf("  %-5s not tried%s%s\n", name, probe->why[0] ? ": " : "",
			       probe->why);
		else if (probe->works)
			printf("  %-5s works: %" PRIu64 " calls checked, 64 KiB in %.1f us\n", name,
			       probe->calls, probe->p50_us);
		else
			printf("  %-5s FAILS: %s\n", name, probe->why);
	}
}

static void print_settings(void)
{
	struct belay_setting setting = {.size = sizeof(setting)};

	printf("\nsettings\n");
	for (int i = 0; i < belay_setting_count(); i++) {
		if (belay_setting_get(i, NULL, &setting))
			continue; /* info_look() has checked them */
		printf("  %-24s %-22s %-11s %s\n", setting.name,
		       setting.value[0] ? setting.value : "-", setting.origin, setting.text);
	}
}

static json_t *versions_json(void)
{
	struct utsname kernel;
	int known = uname(&kernel) == 0;

	return json_pack("{s:s, s:b, s:b, s:b, s:s?}", "belay_info", PACKAGE_VERSION, "lttng",
			 WITH_LTTNG, "cuda", WITH_CUDA, "nccl", WITH_NCCL, "kernel",
			 known ? kernel.release : NULL);
}

static json_t *paths_json(const struct info *info)
{
	json_t *paths = json_object();

	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++)
		(void)json_object_set_new(paths, belay_path_name((enum belay_path)path),
					  json_pack("{s:b, s:s}", "usable", info->path[path].usable,
						    "why", info->path[path].why));
	return paths;
}

static json_t *link_json(const struct belay_device *device, uint32_t peer)
{
	return json_pack("{s:I, s:b, s:b, s:b}", "device", (json_int_t)peer, "access",
			 (int)(device->peer_access >> peer & 1), "native_atomics",
			 (int)(device->peer_atomics >> peer & 1), "nvlink",
			 (int)(device->peer_nvlink >> peer & 1));
}

static json_t *device_json(const struct info *info, uint32_t ordinal)
{
	const struct belay_device *device = &info->device[ordinal];
	json_t *peers = json_array();

	for (uint32_t peer = 0; peer < info->ndevices; peer++)
		if (peer != ordinal)
			(void)json_array_append_new(peers, link_json(device, peer));
	return json_pack(
		"{s:I, s:s, s:s, s:s, s:o, s:i, s:i, s:b, s:i, s:o}", "device", (json_int_t)ordinal,
		"name", device->name, "uuid", device->uuid, "pci", device->pci, "numa_node",
		device->numa_node < 0 ? json_null() : json_integer(device->numa_node), "compute",
		device->compute, "multiprocessors", device->multiprocessors, "exports_memory",
		device->exports_memory, "driver_version", device->driver_version, "peers", peers);
}

static json_t *devices_json(const struct info *info)
{
	json_t *devices = json_array();

	for (uint32_t ordinal = 0; ordinal < info->ndevices; ordinal++)
		(void)json_array_append_new(devices, device_json(info, ordinal));
	return devices;
}

static json_t *probe_json(const struct info *info)
{
	json_t *paths = json_object();

	if (!info->probe_ranks) {
		json_decref(paths);
		return json_null();
	}
	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++) {
		const struct info_probe *probe = &info->probe[path];

		if (probe->tried)
			(void)json_object_set_new(paths, belay_path_name((enum belay_path)path),
						  json_pack("{s:b, s:I, s:f, s:s}", "works",
							    probe->works, "calls",
							    (json_int_t)probe->calls, "p50_us",
							    probe->p50_us, "why", probe->why));
	}
	return json_pack("{s:I, s:o}", "ranks", (json_int_t)info->probe_ranks, "paths", paths);
}

static json_t *settings_json(void)
{
	struct belay_setting setting = {.size = sizeof(setting)};
	json_t *settings = json_array();

	for (int i = 0; i < belay_setting_count(); i++) {
		if (belay_setting_get(i, NULL, &setting))
			continue; /* info_look() has checked them */
		(void)json_array_append_new(settings,
					    json_pack("{s:s, s:s, s:s, s:s, s:s}", "name",
						      setting.name, "value", setting.value, "from",
						      setting.origin, "default",
						      setting.default_value, "text", setting.text));
	}
	return settings;
}

static int print_json(const struct info *info)
{
	json_t *document =
		json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "version", belay_version(), "paths",
			  paths_json(info), "devices", devices_json(info), "settings",
			  settings_json(), "versions", versions_json(), "probe", probe_json(info));

	if (!document)
		return -1;
	/* What stdio could not write, command_finish() tells. */
	(void)json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(document);
	return 0;
}

int info_print(const struct info *info, enum command_format format)
{
	if (format == COMMAND_JSON)
		return print_json(info);
	print_versions();
	print_paths(info);
	print_devices(info);
	if (info->probe_ranks)
		print_probe(info);
	print_settings();
	return 0;
}
