/* SPDX-License-Identifier: Apache-2.0 */
/* See say.h. */
#include "config.h"

#include "runtime/nccl/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What BELAY_LOG lets through; anything but its four words is told by the communicator's creation.
 */
static enum belay_log_level threshold(void)
{
	const char *text = getenv("BELAY_LOG");

	if (!text || !*text || strcmp(text, "warn") == 0)
		return BELAY_LOG_WARN;
	if (strcmp(text, "info") == 0)
		return BELAY_LOG_INFO;
	return strcmp(text, "off") == 0 ? BELAY_LOG_OFF : BELAY_LOG_ERROR;
}

void say(enum belay_log_level level, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	if (level > threshold())
		return;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "belay: %s: %s\n", level == BELAY_LOG_INFO ? "info" : "warn", text);
}
