/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of a message; all numbers little-endian, whatever the machine:
 *
 *     0 magic       8   |  48 pid         8   | 104 step          4
 *     8 protocol    4   |  56 comm_id    16   | 108 status        4
 *    12 library     4   |  72 generation  8   | 112 ndescriptors  4
 *    16 type        4   |  80 control     8   | 116 zero          4
 *    20 rank        4   |  88 region      8   | 120 checksum      8, of all other bytes
 *    24 nranks      4   |  96 mask        8   | 128 text
 *    28 text_bytes  4   |
 *    32 secret     16   |
 */
#include "config.h"

#include "runtime/group/handshake.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/settings.h"

static const uint8_t magic[8] = {'b', 'e', 'l', 'a', 'y', 0x00, 0xf5, 0x0a};

#define PREFIX_BYTES 48
#define CHECKSUM_AT  120

static void put32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static void put64(uint8_t *at, uint64_t value)
{
	put32(at, (uint32_t)value);
	put32(at + 4, (uint32_t)(value >> 32));
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

static uint64_t get64(const uint8_t *at)
{
	return get32(at) | (uint64_t)get32(at + 4) << 32;
}

uint64_t handshake_hash(const void *bytes, size_t nbytes, uint64_t seed)
{
	const uint8_t *at = bytes;
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;

	for (size_t i = 0; i < nbytes; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
	return hash ^ (hash >> 31);
}

static uint64_t checksum(const uint8_t *bytes, size_t nbytes)
{
	uint64_t head = handshake_hash(bytes, CHECKSUM_AT, 0);

	return handshake_hash(bytes + HANDSHAKE_HEAD_BYTES, nbytes - HANDSHAKE_HEAD_BYTES, head);
}

int handshake_secret_equal(const uint8_t a[16], const uint8_t b[16])
{
	unsigned int difference = 0;

	for (int i = 0; i < 16; i++)
		difference |= (unsigned int)(a[i] ^ b[i]);
	return difference == 0;
}

void handshake_init(struct handshake_message *message, enum handshake_type type)
{
	memset(message, 0, offsetof(struct handshake_message, text));
	message->text[0] = '\0';
	message->protocol = HANDSHAKE_PROTOCOL;
	message->library = BELAY_VERSION;
	message->type = type;
}

void handshake_set_text(struct handshake_message *message, const char *text)
{
	size_t bytes = strnlen(text, HANDSHAKE_TEXT_MAX);

	memcpy(message->text, text, bytes);
	message->text[bytes] = '\0';
	message->text_bytes = (uint32_t)bytes;
}

size_t handshake_encode(const struct handshake_message *message, uint8_t *buffer)
{
	size_t nbytes = HANDSHAKE_HEAD_BYTES + message->text_bytes;

	memcpy(buffer, magic, sizeof(magic));
	put32(buffer + 8, message->protocol);
	put32(buffer + 12, message->library);
	put32(buffer + 16, message->type);
	put32(buffer + 20, (uint32_t)message->rank);
	put32(buffer + 24, (uint32_t)message->nranks);
	put32(buffer + 28, message->text_bytes);
	memcpy(buffer + 32, message->secret, 16);
	put64(buffer + 48, message->pid);
	memcpy(buffer + 56, message->comm_id, 16);
	put64(buffer + 72, message->generation);
	put64(buffer + 80, message->control_bytes);
	put64(buffer + 88, message->region_bytes);
	put64(buffer + 96, message->mask);
	put32(buffer + 104, message->step);
	put32(buffer + 108, (uint32_t)message->status);
	put32(buffer + 112, message->ndescriptors);
	put32(buffer + 116, 0);
	memcpy(buffer + HANDSHAKE_HEAD_BYTES, message->text, message->text_bytes);
	put64(buffer + CHECKSUM_AT, checksum(buffer, nbytes));
	return nbytes;
}

static void decode_prefix(const uint8_t *bytes, struct handshake_message *ret_message)
{
	ret_message->protocol = get32(bytes + 8);
	ret_message->library = get32(bytes + 12);
	ret_message->type = get32(bytes + 16);
	ret_message->rank = (int32_t)get32(bytes + 20);
	ret_message->nranks = (int32_t)get32(bytes + 24);
	ret_message->text_bytes = get32(bytes + 28);
	memcpy(ret_message->secret, bytes + 32, 16);
}

static void decode_rest(const uint8_t *bytes, struct handshake_message *ret_message)
{
	ret_message->pid = get64(bytes + 48);
	memcpy(ret_message->comm_id, bytes + 56, 16);
	ret_message->generation = get64(bytes + 72);
	ret_message->control_bytes = get64(bytes + 80);
	ret_message->region_bytes = get64(bytes + 88);
	ret_message->mask = get64(bytes + 96);
	ret_message->step = get32(bytes + 104);
	ret_message->status = (int32_t)get32(bytes + 108);
	ret_message->ndescriptors = get32(bytes + 112);
	memcpy(ret_message->text, bytes + HANDSHAKE_HEAD_BYTES, ret_message->text_bytes);
	ret_message->text[ret_message->text_bytes] = '\0';
}

/* Whether bytes are a whole message of this protocol. */
static int is_sound(const uint8_t *bytes, size_t nbytes)
{
	uint32_t type = get32(bytes + 16);

	if (nbytes < HANDSHAKE_HEAD_BYTES || nbytes > HANDSHAKE_BYTES_MAX)
		return 0;
	if (get32(bytes + 28) != nbytes - HANDSHAKE_HEAD_BYTES)
		return 0;
	if (type < HANDSHAKE_HELLO || type > HANDSHAKE_FAIL || get32(bytes + 116) != 0)
		return 0;
	if (memchr(bytes + HANDSHAKE_HEAD_BYTES, '\0', nbytes - HANDSHAKE_HEAD_BYTES))
		return 0;
	return get64(bytes + CHECKSUM_AT) == checksum(bytes, nbytes);
}

enum handshake_result handshake_decode(const uint8_t *bytes, size_t nbytes,
				       struct handshake_message *ret_message)
{
	if (nbytes < PREFIX_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
		return HANDSHAKE_GARBAGE;
	if (get32(bytes + 8) != HANDSHAKE_PROTOCOL) {
		handshake_init(ret_message, HANDSHAKE_HELLO);
		decode_prefix(bytes, ret_message);
		ret_message->text_bytes = 0; /* its text is not ours to read */
		return HANDSHAKE_OTHER_PROTOCOL;
	}
	if (!is_sound(bytes, nbytes))
		return HANDSHAKE_GARBAGE;
	decode_prefix(bytes, ret_message);
	decode_rest(bytes, ret_message);
	return HANDSHAKE_OK;
}

static void version_text(uint32_t version, char *ret_text, size_t size)
{
	(void)snprintf(ret_text, size, "%" PRIu32 ".%" PRIu32 ".%" PRIu32, version / 10000,
		       version / 100 % 100, version % 100);
}

/* The versions; 1 if they are equal. */
static int versions_fit(const struct handshake_message *own,
			const struct handshake_message *message, char *ret_text, size_t size)
{
	char a[40], b[40];

	if (own->protocol == message->protocol && own->library == message->library)
		return 1;
	version_text(own->library, a, sizeof(a));
	version_text(message->library, b, sizeof(b));
	(void)snprintf(ret_text, size,
		       "belay is version %s (handshake %" PRIu32 ") on rank %d and version %s "
		       "(handshake %" PRIu32 ") on rank %d",
		       a, own->protocol, own->rank, b, message->protocol, message->rank);
	return 0;
}

static int world_fits(const struct handshake_message *own, const struct handshake_message *message,
		      char *ret_text, size_t size)
{
	if (own->nranks != message->nranks) {
		(void)snprintf(ret_text, size,
			       "the world has %d ranks on rank %d and %d on rank %d", own->nranks,
			       own->rank, message->nranks, message->rank);
		return 0;
	}
	if (message->rank < 0 || message->rank >= own->nranks) {
		(void)snprintf(ret_text, size,
			       "rank %d (pid %" PRIu64 ") joined a world of %d ranks, 0 to %d",
			       message->rank, message->pid, own->nranks, own->nranks - 1);
		return 0;
	}
	return 1;
}

static int settings_fit(const struct handshake_message *own,
			const struct handshake_message *message, char *ret_text, size_t size)
{
	char difference[512] = "";

	if (!settings_agree_compare(own->text, message->text, difference, sizeof(difference))) {
		(void)snprintf(ret_text, size, "settings differ between rank %d and rank %d: %s",
			       own->rank, message->rank, difference);
		return 0;
	}
	if (own->control_bytes != message->control_bytes ||
	    own->region_bytes != message->region_bytes) {
		(void)snprintf(ret_text, size,
			       "shared memory is %" PRIu64 " + %" PRIu64
			       " bytes on rank %d and %" PRIu64 " + %" PRIu64 " on rank %d",
			       own->control_bytes, own->region_bytes, own->rank,
			       message->control_bytes, message->region_bytes, message->rank);
		return 0;
	}
	return 1;
}

enum handshake_sender handshake_verify(const struct handshake_message *own,
				       const struct handshake_message *message,
				       enum handshake_result result, char *ret_text, size_t size)
{
	if (result == HANDSHAKE_GARBAGE || !handshake_secret_equal(own->secret, message->secret))
		return HANDSHAKE_STRANGER;
	if (!versions_fit(own, message, ret_text, size) ||
	    !world_fits(own, message, ret_text, size))
		return HANDSHAKE_MISFIT;
	/* A member whose own start failed says so instead of HELLO, and has no settings to
	 * compare. */
	if (message->type == HANDSHAKE_FAIL)
		return HANDSHAKE_MEMBER;
	if (message->type != HANDSHAKE_HELLO)
		return HANDSHAKE_STRANGER;
	return settings_fit(own, message, ret_text, size) ? HANDSHAKE_MEMBER : HANDSHAKE_MISFIT;
}
