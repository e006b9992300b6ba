/* SPDX-License-Identifier: Apache-2.0 */
/* Names, texts and classes of statuses, all from status.def. */
#include "runtime/belay.h"

static const struct {
	int value;
	enum belay_status_class status_class;
	const char *name;
	const char *text;
} statuses[] = {
#define BELAY_STATUS(value_, name_, class_, text_, advice_)                                        \
	{value_, BELAY_CLASS_##class_, "BELAY_" #name_, text_},
#include "runtime/status.def"
#undef BELAY_STATUS
};

#define STATUSES (sizeof(statuses) / sizeof(statuses[0]))

const char *belay_status_name(int status)
{
	for (size_t i = 0; i < STATUSES; i++)
		if (statuses[i].value == status)
			return statuses[i].name;
	return "unknown status";
}

const char *belay_status_text(int status)
{
	for (size_t i = 0; i < STATUSES; i++)
		if (statuses[i].value == status)
			return statuses[i].text;
	return "unknown status";
}

enum belay_status_class belay_status_class(int status)
{
	for (size_t i = 0; i < STATUSES; i++)
		if (statuses[i].value == status)
			return statuses[i].status_class;
	return BELAY_CLASS_LOCAL;
}
