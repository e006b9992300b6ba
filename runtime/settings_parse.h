/* SPDX-License-Identifier: Apache-2.0 */
/* Values of settings: text to value, value to canonical text, and what a right value looks like.
 * Pure. */
#ifndef BELAY_RUNTIME_SETTINGS_PARSE_H
#define BELAY_RUNTIME_SETTINGS_PARSE_H

#include "runtime/settings.h"

/* Reads `text` as the value of a setting into its fields. Returns 0, or -1 when it is no such
 * value: the fields are then in part overwritten. */
int setting_parse(enum setting_index index, const char *text, struct settings *settings);

/* The value in the one form that all ranks print alike; TEXT settings: as given. Returns buffer. */
const char *setting_canonical(enum setting_index index, const struct settings *settings,
			      char *buffer, size_t size);

/* Whether the ranks must have the same value. */
int setting_must_agree(enum setting_index index);

#endif /* BELAY_RUNTIME_SETTINGS_PARSE_H */
