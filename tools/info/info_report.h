/* SPDX-License-Identifier: Apache-2.0 */
/* What belay-info says of this machine: paths, settings, versions, and how a probe went. */
#ifndef BELAY_TOOLS_INFO_REPORT_H
#define BELAY_TOOLS_INFO_REPORT_H

#include <jansson.h>

#include "runtime/belay.h"
#include "tools/command_line.h"

#define INFO_PATHS   (BELAY_PATH_RING + 1)
#define INFO_DEVICES 64

struct info_path {
	int usable;
	char why[512];
};

/* What was tried between rank processes. */
struct info_probe {
	int tried;
	int works;
	uint64_t calls; /* checked on every rank */
	double p50_us;	/* of 64 KiB */
	char why[1024]; /* it does not work; or was not tried */
};

struct info {
	struct info_path path[INFO_PATHS];
	uint32_t ndevices;
	struct belay_device device[INFO_DEVICES];
	uint32_t probe_ranks; /* 0: no probe */
	struct info_probe probe[INFO_PATHS];
};

/* Looks at what this process can do, without other processes. Returns 0, or 1: a setting is bad,
 * and it was said. */
int info_look(struct info *ret_info);

/*
 * Starts that many ranks for each path that may work, lets them test their memory and make a few
 * checked calls. Returns 0 if all that was tried works, 1 if not, or minus the number of a signal.
 */
int info_probe(uint32_t nranks, struct info *info);

/* Prints to stdout. Returns 0, or -1 without memory. */
int info_print(const struct info *info, enum command_format format);

#endif /* BELAY_TOOLS_INFO_REPORT_H */
