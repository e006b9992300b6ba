/* SPDX-License-Identifier: Apache-2.0 */
/* The look at a CTF trace's packets finds every cut, takes nothing for a packet that is none, and
 * reads nothing outside of what is there. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analyze/ctf_check.h"

#define PACKET	256u
#define PACKETS 3u
#define SIZE	(PACKET * PACKETS)

static unsigned char bytes[SIZE];

static void put(size_t at, unsigned size, uint64_t value, int big_endian)
{
	for (unsigned i = 0; i < size; i++)
		bytes[at + (big_endian ? size - 1 - i : i)] = (unsigned char)(value >> 8 * i);
}

static void make_metadata(int big_endian)
{
	memset(bytes, ' ', sizeof(bytes));
	for (size_t at = 0; at < SIZE; at += PACKET) {
		put(at, 4, 0x75d11d57, big_endian);
		put(at + 24, 4, 100 * 8, big_endian);
		put(at + 28, 4, PACKET * 8, big_endian);
		bytes[at + 35] = 1;
		bytes[at + 36] = 8;
	}
}

static void make_stream(int big_endian)
{
	memset(bytes, 0, sizeof(bytes));
	for (size_t at = 0; at < SIZE; at += PACKET) {
		put(at, 4, 0xc1fc1fc1, big_endian);
		memset(bytes + at + 4, 'u', CTF_UUID_BYTES);
		put(at + 32, 8, 1000 + at, big_endian);
		put(at + 40, 8, 1000 + at + PACKET, big_endian);
		put(at + 48, 8, 200 * 8, big_endian);
		put(at + 56, 8, PACKET * 8, big_endian);
	}
}

/* Exactly `size` bytes of the heap, so that a sanitizer sees each byte read beyond. */
static void check_cut_metadata(size_t size, struct ctf_extent *ret_extent)
{
	unsigned char uuid[CTF_UUID_BYTES];
	unsigned char *cut = malloc(size + !size);

	ck_assert_ptr_nonnull(cut);
	memcpy(cut, bytes, size);
	(void)ctf_check_metadata(cut, size, ret_extent, uuid);
	free(cut);
}

START_TEST(metadata_cut_anywhere_is_seen_as_cut)
{
	struct ctf_extent extent;

	make_metadata(_i);
	for (size_t size = 0; size <= SIZE; size++) {
		check_cut_metadata(size, &extent);
		ck_assert_uint_eq(extent.bytes, size);
		ck_assert_uint_eq(extent.whole, size / PACKET * PACKET);
		ck_assert_msg((extent.reason == NULL) == (size && size % PACKET == 0), "%zu", size);
	}
}
END_TEST

static uint64_t readable;

static int read_bytes(void *user, uint64_t offset, unsigned char *ret_bytes, size_t size)
{
	(void)user;
	ck_assert_uint_le(offset + size, readable);
	memcpy(ret_bytes, bytes + offset, size);
	return 0;
}

static struct vector packets;

/* Checks the first `size` bytes; whatever they are, what is called whole adds up. */
static void check_stream(uint64_t size, struct ctf_extent *ret_extent)
{
	static const unsigned char uuid[] = "uuuuuuuuuuuuuuuu";
	const struct ctf_packet *list;
	uint64_t end = 0, sum = 0;

	vector_free(&packets);
	readable = size;
	ck_assert_int_eq(ctf_check_stream(read_bytes, NULL, size, uuid, &packets, ret_extent), 0);
	list = packets.items;
	for (size_t i = 0; i < packets.count; i++) {
		ck_assert_uint_ge(list[i].offset, end);
		end = list[i].offset + list[i].bytes;
		sum += list[i].bytes;
	}
	ck_assert_uint_le(end, size);
	ck_assert_uint_eq(ret_extent->whole, sum);
	ck_assert_uint_eq(ret_extent->bytes, size);
	ck_assert_int_eq(ret_extent->reason == NULL, size && sum == size);
	ck_assert_int_eq(ret_extent->reason == NULL, ret_extent->faults == 0);
}

START_TEST(a_stream_cut_anywhere_keeps_its_whole_packets)
{
	struct ctf_extent extent;

	make_stream(_i);
	for (uint64_t size = 0; size <= SIZE; size++) {
		check_stream(size, &extent);
		ck_assert_uint_eq(extent.whole, size / PACKET * PACKET);
		if (size % PACKET)
			ck_assert_uint_eq(extent.fault_at, size / PACKET * PACKET);
	}
}
END_TEST

static const struct {
	const char *rule;
	size_t at;
	unsigned size;
	uint64_t value;
	const char *reason;
} lies[] = {
	{"no magic number", PACKET, 4, 0, "bytes in a stream that are no packet"},
	{"larger than the file", PACKET + 56, 8, 1ull << 60, "a torn packet in a stream"},
	{"no size at all", PACKET + 56, 8, 0, "a torn packet in a stream"},
	{"not whole bytes", PACKET + 56, 8, PACKET * 8 + 1, "a torn packet in a stream"},
	{"more content than packet", PACKET + 48, 8, PACKET * 8 + 8, "a torn packet in a stream"},
	{"no room for its own head", PACKET + 48, 8, 8, "a torn packet in a stream"},
	{"another trace's id", PACKET + 4, 8, 0, "a packet of another trace"},
	{"ends before it begins", PACKET + 40, 8, 1000, "a torn packet in a stream"},
	{"begins before the one before", PACKET + 32, 8, 999, "a packet of an earlier time"},
	{"ends after the next begins", PACKET + 40, 8, 1ull << 60,
	 "a packet whose end is later than the next one's begin"},
	{"swallows half of the next", PACKET + 56, 8, (PACKET + PACKET / 2) * 8,
	 "a torn packet in a stream"},
};

START_TEST(a_packet_that_lies_costs_itself)
{
	const struct ctf_packet *list;
	struct ctf_extent extent;

	make_stream(0);
	put(lies[_i].at, lies[_i].size, lies[_i].value, 0);
	check_stream(SIZE, &extent);
	ck_assert_msg(extent.whole == 2 * PACKET, "%s: %llu", lies[_i].rule,
		      (unsigned long long)extent.whole);
	ck_assert_str_eq(extent.reason, lies[_i].reason);
	ck_assert_uint_eq(extent.fault_at, PACKET);
	ck_assert_uint_eq(extent.faults, 1);
	list = packets.items;
	ck_assert_uint_eq(list[1].offset, 2 * PACKET);
}
END_TEST

START_TEST(packets_behind_a_torn_one_are_found_at_any_place)
{
	struct ctf_extent extent;

	/* The second packet lacks some of its end, or all but some of its beginning. */
	for (size_t gone = 1; gone < PACKET; gone++) {
		make_stream(_i);
		memmove(bytes + 2 * PACKET - gone, bytes + 2 * PACKET, PACKET);
		check_stream(SIZE - gone, &extent);
		ck_assert_uint_eq(extent.whole, 2 * PACKET);
		ck_assert_uint_eq(extent.fault_at, PACKET);
	}
}
END_TEST

START_TEST(a_file_twice_in_one_counts_once)
{
	struct ctf_extent extent;

	make_stream(0);
	memcpy(bytes + PACKET, bytes, PACKET);
	memcpy(bytes + 2 * PACKET, bytes, PACKET);
	put(32 + 2 * PACKET, 8, 999, 0);
	put(32 + PACKET, 8, 999, 0);
	check_stream(SIZE, &extent);
	ck_assert_uint_eq(extent.whole, PACKET);
	ck_assert_uint_eq(extent.faults, 2);
}
END_TEST

START_TEST(metadata_of_two_traces_is_that_of_the_first)
{
	struct ctf_extent extent;
	unsigned char uuid[CTF_UUID_BYTES];

	make_metadata(0);
	memset(bytes + 4, 'u', CTF_UUID_BYTES);
	ck_assert_int_eq(ctf_check_metadata(bytes, SIZE, &extent, uuid), 1);
	ck_assert_mem_eq(uuid, "uuuuuuuuuuuuuuuu", CTF_UUID_BYTES);
	ck_assert_uint_eq(extent.whole, PACKET);
	ck_assert_ptr_nonnull(extent.reason);
}
END_TEST

START_TEST(metadata_of_another_kind_is_refused)
{
	struct ctf_extent extent;
	unsigned char uuid[CTF_UUID_BYTES];

	make_metadata(0);
	bytes[35] = 2;
	ck_assert_int_eq(ctf_check_metadata(bytes, SIZE, &extent, uuid), 0);
	ck_assert_uint_eq(extent.whole, 0);
	memset(bytes, 'x', sizeof(bytes));
	ck_assert_int_eq(ctf_check_metadata(bytes, SIZE, &extent, uuid), 0);
	ck_assert_uint_eq(extent.whole, 0);
	memcpy(bytes, "/* CTF 1.8 */", 13);
	ck_assert_int_eq(ctf_check_metadata(bytes, SIZE, &extent, uuid), 0);
	ck_assert_uint_eq(extent.whole, SIZE);
	ck_assert_ptr_null(extent.reason);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("ctf");
	TCase *c = tcase_create("ctf");

	tcase_add_loop_test(c, metadata_cut_anywhere_is_seen_as_cut, 0, 2);
	tcase_add_loop_test(c, a_stream_cut_anywhere_keeps_its_whole_packets, 0, 2);
	tcase_add_loop_test(c, a_packet_that_lies_costs_itself, 0,
			    (int)(sizeof(lies) / sizeof(lies[0])));
	tcase_add_loop_test(c, packets_behind_a_torn_one_are_found_at_any_place, 0, 2);
	tcase_add_test(c, a_file_twice_in_one_counts_once);
	tcase_add_test(c, metadata_of_two_traces_is_that_of_the_first);
	tcase_add_test(c, metadata_of_another_kind_is_refused);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
