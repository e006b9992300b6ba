/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the settings: for each, the environment over the config over the default. The environment
 * is only read. Which values are right is settings_parse.c's to say.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/settings.h"
#include "runtime/settings_parse.h"

/* No belay.h will ever have a larger one: a larger size was not initialised. */
#define CONFIG_SIZE_MAX	  4096
#define PREFIX		  "BELAY_"
#define SWITCH		  "BELAY_DISABLE" /* libbelay-nccl's, read before there is a communicator */
#define TESTS_PREFIX	  "BELAY_TESTS_" /* of belay's own test suite */
#define NAME_MAX_BYTES	  64
#define UNKNOWN_NAMED_MAX 8
#define NEAR_MAX	  4 /* edits from which on a name no longer resembles another */

/* Where each setting's text stands in struct belay_config. */
static const size_t config_offsets[SETTINGS_COUNT] = {
#define BELAY_SETTING(field, name, type, default_, min, max, agree, text)                          \
	[SETTING_##field] = offsetof(struct belay_config, field),
#include "runtime/settings.def"
#undef BELAY_SETTING
};

const char *setting_origin_name(enum setting_origin origin)
{
	static const char *const names[] = {"default", "config", "environment"};

	return names[origin];
}

static int any_byte_set(const char *bytes, size_t from, size_t to)
{
	while (from < to)
		if (bytes[from++])
			return 1;
	return 0;
}

int settings_read_config(const struct belay_config *config, struct belay_config *ret_config,
			 struct cause_chain *causes)
{
	struct belay_config full = BELAY_CONFIG_INIT;
	size_t size;

	if (!config) {
		*ret_config = full;
		return 0;
	}
	size = config->size;
	if (size < sizeof(config->size) || size > CONFIG_SIZE_MAX) {
		cause_add(causes, NULL, 0, -1, 0,
			  "belay_config.size is %zu: expected sizeof(struct belay_config), as "
			  "BELAY_CONFIG_INIT sets it",
			  size);
		return BELAY_E_ARGUMENT;
	}
	if (any_byte_set((const char *)config, sizeof(full), size)) {
		cause_add(causes, NULL, 0, -1, 0,
			  "belay_config has a field set that libbelay %s does not know: expected a "
			  "size of at most %zu "
			  "or zeros behind it",
			  belay_version(), sizeof(full));
		return BELAY_E_ARGUMENT;
	}
	memcpy(&full, config, size < sizeof(full) ? size : sizeof(full));
	full.size = sizeof(full);
	*ret_config = full;
	return 0;
}

/* The effective text of a setting. The environment's stays valid only until the application changes
 * it. */
static const char *effective_text(enum setting_index index, const struct belay_config *config,
				  enum setting_origin *ret_origin)
{
	const char *environment = getenv(setting_name(index));
	const char *given;

	memcpy(&given, (const char *)config + config_offsets[index], sizeof(given));
	if (environment) {
		*ret_origin = SETTING_ENVIRONMENT;
		return environment;
	}
	*ret_origin = given ? SETTING_CONFIG : SETTING_DEFAULT;
	return given ? given : setting_default(index);
}

static int refuse(enum setting_index index, const char *text, enum setting_origin origin,
		  struct cause_chain *causes)
{
	static const char *const from[] = {"the default", "from the config",
					   "from the environment"};
	char expected[160];
	int too_long = strlen(text) > 80;

	cause_add(causes, NULL, 0, -1, 0, "%s='%.*s%s' (%s): expected %s", setting_name(index),
		  too_long ? 80 : (int)strlen(text), text, too_long ? "..." : "", from[origin],
		  setting_expected(index, expected, sizeof(expected)));
	return BELAY_E_SETTING;
}

static int load_one(enum setting_index index, const struct belay_config *config,
		    struct settings *settings, struct cause_chain *causes)
{
	const char *text = effective_text(index, config, &settings->origin[index]);

	settings->text[index] = strdup(text);
	if (!settings->text[index]) {
		cause_add(causes, NULL, 0, -1, 0, "out of memory for the settings");
		return BELAY_E_NO_MEMORY;
	}
	if (setting_parse(index, settings->text[index], settings))
		return refuse(index, settings->text[index], settings->origin[index], causes);
	return 0;
}

/* Edits (a letter more, less or other) between two names, both at most NAME_MAX_BYTES long. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t row[NAME_MAX_BYTES + 1];

	for (size_t j = 0; j <= b_length; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			best = row[j] + 1 < best ? row[j] + 1 : best;
			row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
		}
	}
	return row[b_length];
}

/* The setting whose name resembles this one most; NULL when none does. 0 edits: it is that one. */
static const char *nearest_name(const char *name, size_t length, size_t *ret_edits)
{
	const char *nearest = NULL;

	*ret_edits = NEAR_MAX;
	for (int i = 0; i < SETTINGS_COUNT; i++) {
		const char *known = setting_name((enum setting_index)i);
		size_t edits = length > NAME_MAX_BYTES
				       ? NEAR_MAX
				       : edit_distance(name, length, known, strlen(known));

		if (edits < *ret_edits) {
			*ret_edits = edits;
			nearest = known;
		}
	}
	return nearest;
}

/* Says that an entry "NAME=VALUE" of the environment is no setting. Returns 1 when it did. */
static int warn_unless_known(const char *entry, struct cause_chain *causes)
{
	size_t length = strcspn(entry, "=");
	size_t edits;
	const char *nearest;

	if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0 ||
	    strncmp(entry, TESTS_PREFIX, strlen(TESTS_PREFIX)) == 0)
		return 0;
	if (length == strlen(SWITCH) && strncmp(entry, SWITCH, length) == 0)
		return 0;
	nearest = nearest_name(entry, length, &edits);
	if (edits == 0)
		return 0;
	cause_message(causes, BELAY_LOG_WARN, NULL,
		      "%.*s in the environment is no setting of libbelay %s%s%s%s",
		      length > NAME_MAX_BYTES ? NAME_MAX_BYTES : (int)length, entry,
		      belay_version(), nearest ? " (is " : "", nearest ? nearest : "",
		      nearest ? " meant?)" : "");
	return 1;
}

static void warn_of_unknown(struct cause_chain *causes)
{
	int warned = 0;

	for (char **entry = environ; entry && *entry && warned < UNKNOWN_NAMED_MAX; entry++)
		warned += warn_unless_known(*entry, causes);
}

int settings_load(const struct belay_config *config, struct settings *ret_settings,
		  struct cause_chain *causes)
{
	struct settings settings = {0};
	struct belay_config full;
	int status;

	status = settings_read_config(config, &full, causes);
	for (int i = 0; i < SETTINGS_COUNT && status == 0; i++)
		status = load_one((enum setting_index)i, &full, &settings, causes);
	if (status) {
		settings_free(&settings);
		return status;
	}
	/* Only now is it known whether warnings are wanted. */
	cause_chain_set_level(causes, settings.log_level);
	warn_of_unknown(causes);
	*ret_settings = settings;
	return 0;
}

void settings_free(struct settings *settings)
{
	for (int i = 0; i < SETTINGS_COUNT; i++) {
		free(settings->text[i]);
		settings->text[i] = NULL;
	}
}

int settings_agree_text(const struct settings *settings, char *buffer, size_t size)
{
	char value[SETTINGS_TEXT_MAX];
	size_t used = 0;

	for (int i = 0; i < SETTINGS_COUNT; i++) {
		enum setting_index index = (enum setting_index)i;

		if (!setting_must_agree(index))
			continue;
		used += (size_t)snprintf(buffer + used, size - used, "%s=%s\n", setting_name(index),
					 setting_canonical(index, settings, value, sizeof(value)));
		if (used >= size)
			return BELAY_E_LIMIT;
	}
	return 0;
}

/* One "NAME=value" line of a text from outside. */
struct agree_line {
	const char *name, *value;
	int name_length, value_length;
};

/* Takes the first line off `text`. */
static struct agree_line next_line(const char **text)
{
	size_t length = strcspn(*text, "\n");
	const char *equals = memchr(*text, '=', length);
	size_t name_length = equals ? (size_t)(equals - *text) : length;
	size_t value_at = name_length + (equals ? 1 : 0);
	struct agree_line line = {*text, *text + value_at, (int)name_length,
				  (int)(length - value_at)};

	*text += length + ((*text)[length] ? 1 : 0);
	return line;
}

static int same_part(const char *a, int a_length, const char *b, int b_length)
{
	return a_length == b_length && memcmp(a, b, (size_t)a_length) == 0;
}

int settings_agree_compare(const char *a, const char *b, char *ret_difference, size_t size)
{
	while (*a || *b) {
		struct agree_line x = next_line(&a), y = next_line(&b);
		int same_name = same_part(x.name, x.name_length, y.name, y.name_length);

		if (same_name && same_part(x.value, x.value_length, y.value, y.value_length))
			continue;
		if (same_name)
			snprintf(ret_difference, size, "%.*s: %.*s against %.*s", x.name_length,
				 x.name, x.value_length, x.value, y.value_length, y.value);
		else
			snprintf(ret_difference, size, "list of settings: '%.*s' against '%.*s'",
				 x.name_length, x.name, y.name_length, y.name);
		return 0;
	}
	return 1;
}
