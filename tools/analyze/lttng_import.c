/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/stat.h>

#include "tools/analyze/inputs.h"
#include "tools/analyze/lttng_import.h"

int lttng_is_trace(const char *folder)
{
	char path[4096];
	struct stat about;

	if ((size_t)snprintf(path, sizeof(path), "%s/metadata", folder) >= sizeof(path))
		return 0;
	return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

int lttng_import(struct inputs *inputs, const char *folder)
{
	return inputs_add_damage(inputs, folder, "this trace-analyze was built without LTTng reading", 0, -1);
}
