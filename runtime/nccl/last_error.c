/* SPDX-License-Identifier: Apache-2.0 */
/* See last_error.h. */
#include "config.h"

#include "runtime/nccl/last_error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static _Thread_local char text[LAST_ERROR_BYTES];
static _Thread_local bool ours;

void last_error_set(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	ours = true;
}

void last_error_is_nccls(void)
{
	ours = false;
}

const char *last_error_get(void)
{
	return ours ? text : NULL;
}
