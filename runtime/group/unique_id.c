/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of an id:
 *     0  magic "belay-id"      8
 *     8  format                1    ID_FORMAT
 *     9  zero                  7
 *    16  secret               16    random
 *    32  name of the meeting  16    random; visible to everyone on the host, so not the secret
 *    48  zero                 72
 *   120  checksum              8    of all before
 */
#include "config.h"

#include "runtime/group/unique_id.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/group/handshake.h"

#define ID_FORMAT   1
#define SECRET_AT   16
#define NAME_AT	    32
#define CHECKSUM_AT 120

static const unsigned char magic[8] = {'b', 'e', 'l', 'a', 'y', '-', 'i', 'd'};

/* As bytes: the ranks need not run the same kind of machine code. */
static void checksum(const unsigned char *bytes, unsigned char ret_checksum[8])
{
	uint64_t hash = handshake_hash(bytes, CHECKSUM_AT, ID_FORMAT);

	for (int i = 0; i < 8; i++)
		ret_checksum[i] = (unsigned char)(hash >> (8 * i));
}

int belay_unique_id_create(struct belay_unique_id *ret_id)
{
	struct belay_unique_id id = {{0}};

	if (!ret_id)
		return BELAY_E_ARGUMENT;
	memcpy(id.bytes, magic, sizeof(magic));
	id.bytes[sizeof(magic)] = ID_FORMAT;
	if (getrandom(id.bytes + SECRET_AT, 32, GRND_NONBLOCK) != 32)
		return BELAY_E_SYSTEM;
	checksum(id.bytes, id.bytes + CHECKSUM_AT);
	*ret_id = id;
	return 0;
}

int unique_id_parse(const struct belay_unique_id *id, char ret_meeting[UNIQUE_ID_MEETING_BYTES],
		    uint8_t ret_secret[16])
{
	unsigned char expected[8];

	checksum(id->bytes, expected);
	if (memcmp(id->bytes, magic, sizeof(magic)) != 0 || id->bytes[8] != ID_FORMAT ||
	    memcmp(id->bytes + CHECKSUM_AT, expected, sizeof(expected)) != 0)
		return BELAY_E_ARGUMENT;
	memcpy(ret_secret, id->bytes + SECRET_AT, 16);
	memcpy(ret_meeting, "id-", 3);
	for (int i = 0; i < 16; i++)
		(void)snprintf(ret_meeting + 3 + 2 * i, 3, "%02x", id->bytes[NAME_AT + i]);
	return 0;
}
