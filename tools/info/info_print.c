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

static void print_versions(void)
{
	struct utsname kernel;

	printf("versions\n  libbelay   %s\n  belay-info %d.%d.%d\n", belay_version(),
	       BELAY_VERSION_MAJOR, BELAY_VERSION_MINOR, BELAY_VERSION_PATCH);
	printf("  LTTng      %s\n  CUDA       no\n  NCCL       no\n", WITH_LTTNG ? "yes" : "no");
	if (uname(&kernel) == 0)
		printf("  kernel     %s %s\n", kernel.release, kernel.machine);
}

static void print_paths(const struct info *info)
{
	printf("\npaths\n");
	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++)
		printf("  %-5s %-4s %s\n", belay_path_name((enum belay_path)path),
		       info->path[path].usable ? "yes" : "no", info->path[path].why);
}

static void print_probe(const struct info *info)
{
	printf("\nprobe, %" PRIu32 " ranks\n", info->probe_ranks);
	for (int path = BELAY_PATH_SYMM; path < INFO_PATHS; path++) {
		const struct info_probe *probe = &info->probe[path];
		const char *name = belay_path_name((enum belay_path)path);

		if (!probe->tried)
			printf("  %-5s not tried\n", name);
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
			 WITH_LTTNG, "cuda", 0, "nccl", 0, "kernel", known ? kernel.release : NULL);
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
	json_t *document = json_pack("{s:s, s:o, s:o, s:o, s:o}", "version", belay_version(),
				     "paths", paths_json(info), "settings", settings_json(),
				     "versions", versions_json(), "probe", probe_json(info));

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
	if (info->probe_ranks)
		print_probe(info);
	print_settings();
	return 0;
}
