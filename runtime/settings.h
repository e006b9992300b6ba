/* SPDX-License-Identifier: Apache-2.0 */
/* The effective settings of a communicator: defaults, then the config, then the environment. */
#ifndef BELAY_RUNTIME_SETTINGS_H
#define BELAY_RUNTIME_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"

#define SETTINGS_TEXT_MAX 4096

enum setting_origin { SETTING_DEFAULT = 0, SETTING_CONFIG = 1, SETTING_ENVIRONMENT = 2 };

/* How a setting's text is read; see settings.def. */
enum setting_type {
	SETTING_TYPE_MS,
	SETTING_TYPE_SIZE,
	SETTING_TYPE_LEVEL,
	SETTING_TYPE_TEXT,
	SETTING_TYPE_PATHS,
	SETTING_TYPE_WATCH,
	SETTING_TYPE_BREAKER,
	SETTING_TYPE_KEEP
};

/* Index of each setting, in the order of settings.def. */
enum setting_index {
#define BELAY_SETTING(field, name, type, default_, min, max, agree, text) SETTING_##field,
#include "runtime/settings.def"
#undef BELAY_SETTING
	SETTINGS_COUNT
};

/* BELAY_WATCH. */
enum watch_kinds { WATCH_ALL = 0, WATCH_ALLREDUCE = 1 };

struct settings {
	/* Parsed values. MS settings are kept in nanoseconds. */
	uint64_t late_ns, grace_ns, give_up_ns, warmup_give_up_ns, start_ns, destroy_ns,
		heartbeat_ns, probe_ns;
	uint64_t symm_max_bytes, buffer_max_bytes;
	uint64_t log_file_bytes;  /* BELAY_LOG_KEEP, first part */
	uint32_t log_files;	  /* second part */
	uint32_t breaker_rescues; /* BELAY_BREAKER */
	uint64_t breaker_window_ns;
	enum belay_log_level log_level;
	uint8_t paths[4]; /* enum belay_path in order of preference */
	uint32_t npaths;
	uint8_t watch; /* enum watch_kinds */
	/* The text of each as given, effective; never NULL; owned. Those without a parsed value
	 * above (job, log_dir, tune, fault) are used from here. */
	char *text[SETTINGS_COUNT];
	enum setting_origin origin[SETTINGS_COUNT];
};

struct cause_chain;

/*
 * A full struct belay_config from one that a program compiled with an older or newer belay.h may
 * have made. Fields that an older program does not know count as not given. Fields that this
 * library does not know must be zero: what a newer program asks for is refused rather than left
 * out. NULL: nothing given. Returns 0 or BELAY_E_ARGUMENT (size is not one that BELAY_CONFIG_INIT
 * can have made, or an unknown field is set). The texts stay the caller's.
 */
int settings_read_config(const struct belay_config *config, struct belay_config *ret_config,
			 struct cause_chain *causes);

/* Loads and checks all settings. Unknown BELAY_* variables are reported once as a warning through
 * `causes` (status 0). Returns 0, BELAY_E_SETTING (the chain names the setting, its value, where it
 * came from and what was expected), BELAY_E_ARGUMENT (settings_read_config()) or
 * BELAY_E_NO_MEMORY; on failure ret_settings holds nothing to free. */
int settings_load(const struct belay_config *config, struct settings *ret_settings,
		  struct cause_chain *causes);
/* Allowed on zeroed settings and twice. */
void settings_free(struct settings *settings);

/* Name ("BELAY_LATE_MS"), default and text of a setting; for belay-info and the docs. */
const char *setting_name(enum setting_index index);
const char *setting_default(enum setting_index index);
const char *setting_help(enum setting_index index);
/* What a right value looks like, in words: "milliseconds from 1 to 60000, ...". Returns buffer. */
const char *setting_expected(enum setting_index index, char *buffer, size_t size);
/* "default", "config" or "environment". */
const char *setting_origin_name(enum setting_origin origin);

/* The settings that must agree as "NAME=value\n" lines, canonical (10 and 10.0 give the same).
 * Returns 0 or BELAY_E_LIMIT when it does not fit. */
int settings_agree_text(const struct settings *settings, char *buffer, size_t size);

/* Compares two such texts. 1: equal. 0: ret_difference holds the first difference as "NAME: A
 * against B", cut at size. The texts may come from a stranger. */
int settings_agree_compare(const char *a, const char *b, char *ret_difference, size_t size);

#endif /* BELAY_RUNTIME_SETTINGS_H */
