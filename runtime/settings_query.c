/* SPDX-License-Identifier: Apache-2.0 */
/* The public view of the settings, for belay-info and for programs that show their
 * configuration. */
#include <stdio.h>
#include <string.h>

#include "runtime/cause.h"
#include "runtime/cuda/device.h"
#include "runtime/fault_injection.h"
#include "runtime/settings.h"
#include "runtime/tuning.h"

int belay_setting_count(void)
{
	return SETTINGS_COUNT;
}

/* A question is no occasion for messages on stderr; what is wrong is kept as the last error. */
static void say_nothing(void *user, enum belay_log_level level, const char *message)
{
	(void)user;
	(void)level;
	(void)message;
}

/* What creation makes of a setting's text later on. Whether the device is there it asks CUDA, which
 * takes time and memory: that is left to it. */
static int check_contents(const struct settings *settings, struct cause_chain *causes)
{
	struct faults faults;
	struct tuning tuning = {0};
	int status = faults_parse(settings->text[SETTING_fault], &faults, causes);

	if (status == 0)
		status = device_check_setting(settings, causes);
	if (status == 0) /* the whole file is checked, whatever the number of ranks */
		status = tuning_load(settings->text[SETTING_tune], 2, &tuning, causes);
	return status;
}

static int load_all(const struct belay_config *config, struct settings *ret_settings,
		    struct cause_chain *causes)
{
	struct settings settings;
	int status = settings_load(config, &settings, causes);

	if (status)
		return status;
	status = check_contents(&settings, causes);
	if (status)
		settings_free(&settings);
	else
		*ret_settings = settings;
	return status;
}

static void describe(enum setting_index index, const struct settings *settings,
		     struct belay_setting *ret_setting)
{
	struct belay_setting setting = {.size = ret_setting->size};

	setting.name = setting_name(index);
	setting.default_value = setting_default(index);
	setting.text = setting_help(index);
	setting.origin = setting_origin_name(settings->origin[index]);
	snprintf(setting.value, sizeof(setting.value), "%s", settings->text[index]);
	*ret_setting = setting;
}

int belay_setting_get(int index, const struct belay_config *config,
		      struct belay_setting *ret_setting)
{
	struct cause_config heard = {.log = say_nothing, .level = BELAY_LOG_WARN, .rank = -1};
	struct cause_chain *causes;
	struct settings settings;
	int status;

	if (index < 0 || index >= SETTINGS_COUNT || !ret_setting ||
	    ret_setting->size != sizeof(*ret_setting))
		return BELAY_E_ARGUMENT;
	if (config && config->log) {
		heard.log = config->log;
		heard.log_user = config->log_user;
	}
	causes = cause_chain_create(&heard);
	if (!causes)
		return BELAY_E_NO_MEMORY;
	status = load_all(config, &settings, causes);
	if (status) {
		cause_keep_as_last_error(causes);
		goto out;
	}
	describe((enum setting_index)index, &settings, ret_setting);
	settings_free(&settings);
out:
	cause_chain_free(causes);
	return status;
}
