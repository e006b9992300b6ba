/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in a struct belay_unique_id. */
#ifndef BELAY_RUNTIME_GROUP_UNIQUE_ID_H
#define BELAY_RUNTIME_GROUP_UNIQUE_ID_H

#include <stdint.h>

#include "runtime/belay.h"

#define UNIQUE_ID_MEETING_BYTES 36 /* "id-", 32 hexadecimal digits and a 0 byte */

/* Takes an id apart: where to meet and the secret by which members know each other. Returns 0 or
 * BELAY_E_ARGUMENT (not an id of this format); then the outputs are untouched. */
int unique_id_parse(const struct belay_unique_id *id, char ret_meeting[UNIQUE_ID_MEETING_BYTES],
		    uint8_t ret_secret[16]);

#endif /* BELAY_RUNTIME_GROUP_UNIQUE_ID_H */
