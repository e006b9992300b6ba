/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/call_log_format.h"

#include <string.h>

#define FILE_MAGIC  0x676f6c79616c6562ull /* "belaylog" */
#define BLOCK_MAGIC 0x6b6c6262u		  /* "bblk" */

/*
 * Header and head begin alike, in every version: the skippable frame's magic and size, then the
 * CRC of all that follows it, then a magic. Offsets:
 */
#define AT_SIZE	 4
#define AT_CRC	 8
#define AT_MAGIC 12

uint32_t call_log_crc32c(const unsigned char *data, size_t size)
{
	/* Four bits at a time: 64 bytes of table, and only heads are summed. */
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	uint32_t crc = ~0u;

	for (size_t i = 0; i < size; i++) {
		crc ^= data[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

static unsigned char *put(unsigned char *out, uint64_t value, size_t bytes)
{
	call_log_put(out, value, bytes);
	return out + bytes;
}

static uint64_t take(const unsigned char **in, size_t bytes)
{
	uint64_t value = call_log_get(*in, bytes);

	*in += bytes;
	return value;
}

static void seal(unsigned char *out, size_t bytes)
{
	call_log_put(out, CALL_LOG_SKIPPABLE_MAGIC, 4);
	call_log_put(out + AT_SIZE, bytes - 8, 4);
	call_log_put(out + AT_CRC, call_log_crc32c(out + AT_MAGIC, bytes - AT_MAGIC), 4);
}

void call_log_header_pack(const struct call_log_header *header, unsigned char *out)
{
	unsigned char *at = out + AT_MAGIC;

	memset(out, 0, CALL_LOG_HEADER_BYTES);
	at = put(at, FILE_MAGIC, 8);
	at = put(at, header->version_major, 2);
	at = put(at, header->version_minor, 2);
	at = put(at, header->rank, 4);
	at = put(at, header->nranks, 4);
	at = put(at, header->file_number, 4);
	at = put(at, (uint32_t)header->salvaged_by, 4);
	at = put(at, header->tick_ns, 4);
	at = put(at, header->run_id, 8);
	memcpy(at, header->comm_id, sizeof(header->comm_id));
	at += sizeof(header->comm_id);
	at = put(at, header->created_monotonic_ns, 8);
	at = put(at, header->created_realtime_ns, 8);
	at = put(at, header->first_call, 8);
	at = put(at, header->first_event, 8);
	at = put(at, header->calls_lost, 8);
	seal(out, CALL_LOG_HEADER_BYTES);
}

void call_log_head_pack(const struct call_log_head *head, unsigned char *out)
{
	unsigned char *at = out + AT_MAGIC;

	at = put(at, BLOCK_MAGIC, 4);
	at = put(at, head->kind, 1);
	at = put(at, head->flags, 1);
	at = put(at, head->count, 2);
	at = put(at, head->failures, 2);
	at = put(at, 0, 2);
	at = put(at, head->frame_bytes, 4);
	at = put(at, head->raw_bytes, 4);
	at = put(at, head->first_index, 8);
	at = put(at, head->lost_total, 8);
	at = put(at, head->first_seq, 8);
	at = put(at, head->first_ns, 8);
	(void)put(at, head->last_ns, 8);
	seal(out, CALL_LOG_HEAD_BYTES);
}

/* Checks what header and head have in common. */
static enum call_log_parse parse_envelope(const unsigned char *in, size_t size, size_t least,
					  size_t most, uint64_t magic, size_t magic_bytes,
					  size_t *ret_bytes)
{
	size_t bytes;

	if (size < AT_MAGIC + magic_bytes)
		return CALL_LOG_SHORT;
	bytes = (size_t)call_log_get(in + AT_SIZE, 4) + 8;
	if (call_log_get(in, 4) != CALL_LOG_SKIPPABLE_MAGIC || bytes < least || bytes > most ||
	    call_log_get(in + AT_MAGIC, magic_bytes) != magic)
		return CALL_LOG_BAD;
	if (size < bytes)
		return CALL_LOG_SHORT;
	if (call_log_get(in + AT_CRC, 4) != call_log_crc32c(in + AT_MAGIC, bytes - AT_MAGIC))
		return CALL_LOG_BAD;
	*ret_bytes = bytes;
	return CALL_LOG_PARSED;
}

enum call_log_parse call_log_header_unpack(const unsigned char *in, size_t size,
					   struct call_log_header *ret_header, size_t *ret_bytes)
{
	const unsigned char *at = in + AT_MAGIC + 8;
	enum call_log_parse parse;

	/* A later major version may have a shorter header; the version stands in all. */
	parse = parse_envelope(in, size, AT_MAGIC + 8 + 4, CALL_LOG_HEADER_BYTES_MAX, FILE_MAGIC, 8,
			       ret_bytes);
	if (parse != CALL_LOG_PARSED)
		return parse;
	if (call_log_get(at, 2) != CALL_LOG_MAJOR)
		return CALL_LOG_FUTURE;
	if (*ret_bytes < CALL_LOG_HEADER_BYTES)
		return CALL_LOG_BAD;

	ret_header->version_major = (uint16_t)take(&at, 2);
	ret_header->version_minor = (uint16_t)take(&at, 2);
	ret_header->rank = (uint32_t)take(&at, 4);
	ret_header->nranks = (uint32_t)take(&at, 4);
	ret_header->file_number = (uint32_t)take(&at, 4);
	ret_header->salvaged_by = (int32_t)take(&at, 4);
	ret_header->tick_ns = (uint32_t)take(&at, 4);
	ret_header->run_id = take(&at, 8);
	memcpy(ret_header->comm_id, at, sizeof(ret_header->comm_id));
	at += sizeof(ret_header->comm_id);
	ret_header->created_monotonic_ns = take(&at, 8);
	ret_header->created_realtime_ns = take(&at, 8);
	ret_header->first_call = take(&at, 8);
	ret_header->first_event = take(&at, 8);
	ret_header->calls_lost = take(&at, 8);
	return CALL_LOG_PARSED;
}

enum call_log_parse call_log_head_unpack(const unsigned char *in, size_t size,
					 struct call_log_head *ret_head, size_t *ret_bytes)
{
	const unsigned char *at = in + AT_MAGIC + 4;
	enum call_log_parse parse;

	parse = parse_envelope(in, size, CALL_LOG_HEAD_BYTES, CALL_LOG_HEAD_BYTES_MAX, BLOCK_MAGIC,
			       4, ret_bytes);
	if (parse != CALL_LOG_PARSED)
		return parse;
	ret_head->kind = (uint8_t)take(&at, 1);
	ret_head->flags = (uint8_t)take(&at, 1);
	ret_head->count = (uint16_t)take(&at, 2);
	ret_head->failures = (uint16_t)take(&at, 2);
	(void)take(&at, 2); /* reserved */
	ret_head->frame_bytes = (uint32_t)take(&at, 4);
	ret_head->raw_bytes = (uint32_t)take(&at, 4);
	ret_head->first_index = take(&at, 8);
	ret_head->lost_total = take(&at, 8);
	ret_head->first_seq = take(&at, 8);
	ret_head->first_ns = take(&at, 8);
	ret_head->last_ns = take(&at, 8);
	return CALL_LOG_PARSED;
}
