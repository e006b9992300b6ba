/* SPDX-License-Identifier: Apache-2.0 */
/* The look at a CTF trace's packets finds every cut, and reads nothing outside of what is there. */
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
		put(at + 48, 8, 200 * 8, big_endian);
		put(at + 56, 8, PACKET * 8, big_endian);
	}
}

/* Exactly `size` bytes of the heap, so that a sanitizer sees each byte read beyond. */
static void check_cut_metadata(size_t size, struct ctf_extent *ret_extent)
{
	unsigned char *cut = malloc(size + !size);

	ck_assert_ptr_nonnull(cut);
	memcpy(cut, bytes, size);
	ctf_check_metadata(cut, size, ret_extent);
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

START_TEST(a_stream_cut_anywhere_keeps_its_whole_packets)
{
	struct ctf_extent extent;

	make_stream(_i);
	for (readable = 0; readable <= SIZE; readable++) {
		ctf_check_stream(read_bytes, NULL, readable, &extent);
		ck_assert_uint_eq(extent.whole, readable / PACKET * PACKET);
		ck_assert_int_eq(extent.reason == NULL, readable && readable % PACKET == 0);
	}
}
END_TEST

static const struct {
	const char *rule;
	size_t at;
	unsigned size;
	uint64_t value;
} lies[] = {
	{"no magic number", PACKET, 4, 0},
	{"larger than the file", PACKET + 56, 8, 1ull << 60},
	{"no size at all", PACKET + 56, 8, 0},
	{"not whole bytes", PACKET + 56, 8, PACKET * 8 + 1},
	{"more content than packet", PACKET + 48, 8, PACKET * 8 + 8},
	{"no room for its own head", PACKET + 48, 8, 8},
};

START_TEST(a_packet_that_lies_ends_the_stream_before_it)
{
	struct ctf_extent extent;

	make_stream(0);
	put(lies[_i].at, lies[_i].size, lies[_i].value, 0);
	readable = SIZE;
	ctf_check_stream(read_bytes, NULL, SIZE, &extent);
	ck_assert_msg(extent.whole == PACKET, "%s", lies[_i].rule);
	ck_assert_ptr_nonnull(extent.reason);
}
END_TEST

START_TEST(metadata_of_another_kind_is_refused)
{
	struct ctf_extent extent;

	make_metadata(0);
	bytes[35] = 2;
	ctf_check_metadata(bytes, SIZE, &extent);
	ck_assert_uint_eq(extent.whole, 0);
	memset(bytes, 'x', sizeof(bytes));
	ctf_check_metadata(bytes, SIZE, &extent);
	ck_assert_uint_eq(extent.whole, 0);
	memcpy(bytes, "/* CTF 1.8 */", 13);
	ctf_check_metadata(bytes, SIZE, &extent);
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
	tcase_add_loop_test(c, a_packet_that_lies_ends_the_stream_before_it, 0,
			    (int)(sizeof(lies) / sizeof(lies[0])));
	tcase_add_test(c, metadata_of_another_kind_is_refused);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
