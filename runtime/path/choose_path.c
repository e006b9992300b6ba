/* SPDX-License-Identifier: Apache-2.0 */
/* See choose_path.h. */
#include "runtime/path/choose_path.h"

int choose_path(const uint8_t *preference, uint32_t count, uint32_t usable,
		enum belay_path *ret_path)
{
	for (uint32_t i = 0; i < count; i++) {
		if (usable >> preference[i] & 1) {
			*ret_path = (enum belay_path)preference[i];
			return 0;
		}
	}
	return BELAY_E_NO_PATH;
}
