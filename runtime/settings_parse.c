/* SPDX-License-Identifier: Apache-2.0 */
/* Values of settings: one parser, one printer and one description for each type of settings.def. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/number_text.h"
#include "runtime/settings_parse.h"

#define BREAKER_WINDOW_NS_MAX (86400ull * 1000000000ull)
#define LOG_FILES_MAX	      1000000u
#define PATHS_MAX	      (sizeof(((struct settings *)0)->paths))

/* MS bounds are kept in nanoseconds like the values. */
#define SCALE_MS(bound)	     ((uint64_t)((bound)*1e6 + 0.5))
#define SCALE_SIZE(bound)    ((uint64_t)(bound))
#define SCALE_LEVEL(bound)   ((uint64_t)(bound))
#define SCALE_TEXT(bound)    ((uint64_t)(bound))
#define SCALE_PATHS(bound)   ((uint64_t)(bound))
#define SCALE_WATCH(bound)   ((uint64_t)(bound))
#define SCALE_BREAKER(bound) ((uint64_t)(bound))
#define SCALE_KEEP(bound)    ((uint64_t)(bound))

struct definition {
	const char *name;
	enum setting_type type;
	const char *fallback;
	uint64_t min, max;
	int agree;
	const char *help;
};

static const struct definition definitions[SETTINGS_COUNT] = {
#define BELAY_SETTING(field, name_, type_, default_, min_, max_, agree_, text_)                    \
	[SETTING_##field] = {.name = name_,                                                        \
			     .type = SETTING_TYPE_##type_,                                         \
			     .fallback = default_,                                                 \
			     .min = SCALE_##type_(min_),                                           \
			     .max = SCALE_##type_(max_),                                           \
			     .agree = agree_,                                                      \
			     .help = text_},
#include "runtime/settings.def"
#undef BELAY_SETTING
};

/* Where the value of an MS or SIZE setting is kept. A new one is added here: a test sets each. */
static const size_t number_offsets[SETTINGS_COUNT] = {
	[SETTING_late_ms] = offsetof(struct settings, late_ns),
	[SETTING_grace_ms] = offsetof(struct settings, grace_ns),
	[SETTING_give_up_ms] = offsetof(struct settings, give_up_ns),
	[SETTING_warmup_give_up_ms] = offsetof(struct settings, warmup_give_up_ns),
	[SETTING_start_ms] = offsetof(struct settings, start_ns),
	[SETTING_destroy_ms] = offsetof(struct settings, destroy_ns),
	[SETTING_heartbeat_ms] = offsetof(struct settings, heartbeat_ns),
	[SETTING_probe_ms] = offsetof(struct settings, probe_ns),
	[SETTING_symm_max] = offsetof(struct settings, symm_max_bytes),
	[SETTING_buffer_max] = offsetof(struct settings, buffer_max_bytes),
};

static const char *const level_names[] = {
	[BELAY_LOG_OFF] = "off",
	[BELAY_LOG_ERROR] = "error",
	[BELAY_LOG_WARN] = "warn",
	[BELAY_LOG_INFO] = "info",
};

static const char *const watch_names[] = {
	[WATCH_ALL] = "all",
	[WATCH_ALLREDUCE] = "allreduce",
};

#define LEVELS ((int)(sizeof(level_names) / sizeof(level_names[0])))

const char *setting_name(enum setting_index index)
{
	return definitions[index].name;
}

const char *setting_default(enum setting_index index)
{
	return definitions[index].fallback;
}

const char *setting_help(enum setting_index index)
{
	return definitions[index].help;
}

int setting_must_agree(enum setting_index index)
{
	return definitions[index].agree;
}

static uint64_t number_of(const struct settings *settings, enum setting_index index)
{
	uint64_t value;

	memcpy(&value, (const char *)settings + number_offsets[index], sizeof(value));
	return value;
}

static void set_number(struct settings *settings, enum setting_index index, uint64_t value)
{
	memcpy((char *)settings + number_offsets[index], &value, sizeof(value));
}

static int outside(const struct definition *d, uint64_t value)
{
	return value < d->min || value > d->max;
}

static int parse_ms(enum setting_index index, const char *text, struct settings *settings)
{
	uint64_t ns;

	if (number_parse_ms(text, strlen(text), UINT64_MAX, &ns) ||
	    outside(&definitions[index], ns))
		return -1;
	set_number(settings, index, ns);
	return 0;
}

static int parse_size(enum setting_index index, const char *text, struct settings *settings)
{
	uint64_t bytes;

	if (number_parse_size(text, strlen(text), &bytes) || outside(&definitions[index], bytes))
		return -1;
	set_number(settings, index, bytes);
	return 0;
}

static int parse_level(enum setting_index index, const char *text, struct settings *settings)
{
	(void)index; /* there is one setting of this type */
	for (int i = 0; i < LEVELS; i++) {
		if (strcmp(text, level_names[i]) == 0) {
			settings->log_level = (enum belay_log_level)i;
			return 0;
		}
	}
	return -1;
}

static int parse_watch(enum setting_index index, const char *text, struct settings *settings)
{
	(void)index; /* there is one setting of this type */
	for (uint8_t i = WATCH_ALL; i <= WATCH_ALLREDUCE; i++) {
		if (strcmp(text, watch_names[i]) == 0) {
			settings->watch = i;
			return 0;
		}
	}
	return -1;
}

/* The text itself is the value. */
static int parse_text(enum setting_index index, const char *text, struct settings *settings)
{
	(void)settings;
	return outside(&definitions[index], strlen(text)) ? -1 : 0;
}

/* The path of this name, 0 for none. */
static int path_of_name(const char *name, size_t length)
{
	for (int path = BELAY_PATH_SYMM; path <= BELAY_PATH_RING; path++) {
		const char *known = belay_path_name((enum belay_path)path);

		if (strlen(known) == length && memcmp(known, name, length) == 0)
			return path;
	}
	return 0;
}

static int parse_paths(enum setting_index index, const char *text, struct settings *settings)
{
	size_t length;

	(void)index; /* there is one setting of this type */
	settings->npaths = 0;
	for (;; text += length + 1) {
		length = strcspn(text, ",");
		int path = path_of_name(text, length);

		/* No path twice also keeps the list within its array. */
		if (!path || memchr(settings->paths, path, settings->npaths))
			return -1;
		settings->paths[settings->npaths++] = (uint8_t)path;
		if (!text[length])
			return 0;
	}
}

/* COUNT/SECONDSs */
static int parse_breaker(enum setting_index index, const char *text, struct settings *settings)
{
	size_t length = strlen(text), count_length = strcspn(text, "/");
	uint64_t count, window_ns;

	if (length < count_length + 2 || text[length - 1] != 's')
		return -1;
	if (number_parse(text, count_length, &count) || outside(&definitions[index], count))
		return -1;
	if (number_parse_s(text + count_length + 1, length - count_length - 2,
			   BREAKER_WINDOW_NS_MAX, &window_ns) ||
	    window_ns == 0)
		return -1;
	settings->breaker_rescues = (uint32_t)count;
	settings->breaker_window_ns = window_ns;
	return 0;
}

/* SIZE,COUNT */
static int parse_keep(enum setting_index index, const char *text, struct settings *settings)
{
	size_t size_length = strcspn(text, ",");
	uint64_t bytes, files;

	if (!text[size_length] || number_parse_size(text, size_length, &bytes) ||
	    outside(&definitions[index], bytes))
		return -1;
	text += size_length + 1;
	if (number_parse(text, strlen(text), &files) || files == 0 || files > LOG_FILES_MAX)
		return -1;
	settings->log_file_bytes = bytes;
	settings->log_files = (uint32_t)files;
	return 0;
}

static void print_ms(enum setting_index index, const struct settings *settings, char *buffer,
		     size_t size)
{
	char text[NUMBER_TEXT_MAX];

	snprintf(buffer, size, "%s", number_format_ms(number_of(settings, index), text));
}

static void print_size(enum setting_index index, const struct settings *settings, char *buffer,
		       size_t size)
{
	char text[NUMBER_TEXT_MAX];

	snprintf(buffer, size, "%s", number_format_size(number_of(settings, index), text));
}

static void print_level(enum setting_index index, const struct settings *settings, char *buffer,
			size_t size)
{
	(void)index;
	snprintf(buffer, size, "%s", level_names[settings->log_level]);
}

static void print_text(enum setting_index index, const struct settings *settings, char *buffer,
		       size_t size)
{
	snprintf(buffer, size, "%s", settings->text[index]);
}

static void print_paths(enum setting_index index, const struct settings *settings, char *buffer,
			size_t size)
{
	size_t used = 0;

	(void)index;
	for (uint32_t i = 0; i < settings->npaths && used < size; i++)
		used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? "," : "",
					 belay_path_name((enum belay_path)settings->paths[i]));
}

static void print_watch(enum setting_index index, const struct settings *settings, char *buffer,
			size_t size)
{
	(void)index;
	snprintf(buffer, size, "%s", watch_names[settings->watch]);
}

static void print_breaker(enum setting_index index, const struct settings *settings, char *buffer,
			  size_t size)
{
	char window[NUMBER_TEXT_MAX];

	(void)index;
	snprintf(buffer, size, "%" PRIu32 "/%ss", settings->breaker_rescues,
		 number_format_s(settings->breaker_window_ns, window));
}

static void print_keep(enum setting_index index, const struct settings *settings, char *buffer,
		       size_t size)
{
	char bytes[NUMBER_TEXT_MAX];

	(void)index;
	snprintf(buffer, size, "%s,%" PRIu32, number_format_size(settings->log_file_bytes, bytes),
		 settings->log_files);
}

static const struct {
	int (*parse)(enum setting_index index, const char *text, struct settings *settings);
	void (*print)(enum setting_index index, const struct settings *settings, char *buffer,
		      size_t size);
} types[] = {
	[SETTING_TYPE_MS] = {parse_ms, print_ms},
	[SETTING_TYPE_SIZE] = {parse_size, print_size},
	[SETTING_TYPE_LEVEL] = {parse_level, print_level},
	[SETTING_TYPE_TEXT] = {parse_text, print_text},
	[SETTING_TYPE_PATHS] = {parse_paths, print_paths},
	[SETTING_TYPE_WATCH] = {parse_watch, print_watch},
	[SETTING_TYPE_BREAKER] = {parse_breaker, print_breaker},
	[SETTING_TYPE_KEEP] = {parse_keep, print_keep},
};

int setting_parse(enum setting_index index, const char *text, struct settings *settings)
{
	return types[definitions[index].type].parse(index, text, settings);
}

const char *setting_canonical(enum setting_index index, const struct settings *settings,
			      char *buffer, size_t size)
{
	types[definitions[index].type].print(index, settings, buffer, size);
	return buffer;
}

const char *setting_expected(enum setting_index index, char *buffer, size_t size)
{
	const struct definition *d = &definitions[index];
	char min[NUMBER_TEXT_MAX], max[NUMBER_TEXT_MAX];

	switch (d->type) {
	case SETTING_TYPE_MS:
		snprintf(buffer, size, "milliseconds from %s to %s, such as 10 or 0.5",
			 number_format_ms(d->min, min), number_format_ms(d->max, max));
		break;
	case SETTING_TYPE_SIZE:
		snprintf(buffer, size, "a size from %s to %s: bytes, or with K, M or G",
			 number_format_size(d->min, min), number_format_size(d->max, max));
		break;
	case SETTING_TYPE_LEVEL:
		snprintf(buffer, size, "off, error, warn or info");
		break;
	case SETTING_TYPE_TEXT:
		snprintf(buffer, size, "at most %" PRIu64 " bytes", d->max);
		break;
	case SETTING_TYPE_PATHS:
		snprintf(buffer, size,
			 "a list of symm, nccl, host and ring, each at most once, such as "
			 "host,ring");
		break;
	case SETTING_TYPE_WATCH:
		snprintf(buffer, size, "all or allreduce");
		break;
	case SETTING_TYPE_BREAKER:
		snprintf(buffer, size,
			 "COUNT/SECONDSs, such as 3/10s: a count from %" PRIu64 " to %" PRIu64
			 " and more than 0 to 86400 seconds",
			 d->min, d->max);
		break;
	case SETTING_TYPE_KEEP:
		snprintf(buffer, size,
			 "SIZE,COUNT, such as 256M,16: a size from %s to %s and 1 to %u files",
			 number_format_size(d->min, min), number_format_size(d->max, max),
			 LOG_FILES_MAX);
		break;
	}
	return buffer;
}
