/* SPDX-License-Identifier: Apache-2.0 */
/* Packets byte by byte, as protobuf's encoding and perfetto_trace.proto have them. */
#include <check.h>
#include <string.h>

#include "tools/analyze/perfetto_packet.h"

static struct perfetto_packet packet;

static void setup(void)
{
	memset(&packet, 0xee, sizeof(packet));
}

static void check_bytes(const unsigned char *bytes, size_t count)
{
	ck_assert_int_eq(packet.too_long, 0);
	ck_assert_uint_eq(packet.used, count);
	ck_assert_mem_eq(packet.bytes, bytes, count);
}

START_TEST(a_track_is_a_descriptor)
{
	static const unsigned char bytes[] = {
		0x0a, 0x96, 0x00,		       /* packet of 22 bytes */
		0x50, 0x01,			       /* trusted_packet_sequence_id 1 */
		0xe2, 0x03, 0x90, 0x00,		       /* track_descriptor of 16 bytes */
		0x08, 0xac, 0x02,		       /* uuid 300 */
		0x28, 0x07,			       /* parent_uuid 7 */
		0x12, 0x05, 'r',  'a',	'n', 'k', '0', /* name */
		0x58, 0x03,			       /* child_ordering EXPLICIT */
		0x60, 0x02,			       /* sibling_order_rank 2 */
	};

	perfetto_track(&packet, 300, 7, "rank0", 2);
	perfetto_end(&packet);
	check_bytes(bytes, sizeof(bytes));
}
END_TEST

START_TEST(a_slice_begins_with_its_notes_and_arrows)
{
	static const unsigned char bytes[] = {
		0x0a, 0xb9, 0x00,      /* packet of 57 bytes */
		0x50, 0x01,	       /* trusted_packet_sequence_id 1 */
		0x40, 0xe8, 0x07,      /* timestamp 1000 */
		0x68, 0x02,	       /* SEQ_NEEDS_INCREMENTAL_STATE */
		0x5a, 0xaf, 0x00,      /* track_event of 47 bytes */
		0x48, 0x01,	       /* TYPE_SLICE_BEGIN */
		0x58, 0x09,	       /* track_uuid 9 */
		0xba, 0x01, 0x01, 'x', /* name */
		0xf9, 0x02, 0x02, 0,	0,    0,    0,	  0,	0,   0, /* flow_ids 2 */
		0x81, 0x03, 0x01, 0,	0,    0,    0,	  0,	0,   1, /* terminating_flow_ids */
		0x22, 0x85, 0x00, 0x08, 0x01, 0x18, 0xac, 0x02, /* debug_annotation: seq 300 */
		0x22, 0x88, 0x00, 0x08, 0x05, 0x32, 0x04, 's',	'y', 'm', 'm', /* path "symm" */
	};

	perfetto_slice_begin(&packet, 9, 1000, "x");
	perfetto_arrow_begin(&packet, 2);
	perfetto_arrow_end(&packet, 0x0100000000000001u);
	perfetto_number(&packet, PERFETTO_SEQ, 300);
	perfetto_text(&packet, PERFETTO_PATH, "symm");
	perfetto_end(&packet);
	check_bytes(bytes, sizeof(bytes));
}
END_TEST

START_TEST(a_slice_ends_without_a_name)
{
	static const unsigned char bytes[] = {
		0x0a, 0x8d, 0x00,	/* packet of 13 bytes */
		0x50, 0x01,		/* trusted_packet_sequence_id 1 */
		0x40, 0x05,		/* timestamp 5 */
		0x68, 0x02,		/* SEQ_NEEDS_INCREMENTAL_STATE */
		0x5a, 0x84, 0x00,	/* track_event of 4 bytes */
		0x48, 0x02, 0x58, 0x09, /* TYPE_SLICE_END, track_uuid 9 */
	};

	perfetto_slice_end(&packet, 9, 5);
	perfetto_end(&packet);
	check_bytes(bytes, sizeof(bytes));
}
END_TEST

START_TEST(the_largest_numbers_take_ten_bytes)
{
	static const unsigned char all[] = {0x40, 0xff, 0xff, 0xff, 0xff, 0xff,
					    0xff, 0xff, 0xff, 0xff, 0x01};

	perfetto_instant(&packet, 1, UINT64_MAX, "");
	perfetto_end(&packet);
	ck_assert_mem_eq(&packet.bytes[5], all, sizeof(all));
}
END_TEST

START_TEST(what_does_not_fit_is_left_out_and_told)
{
	size_t used;

	perfetto_instant(&packet, 1, 1, "x");
	for (uint64_t i = 0; !packet.too_long; i++) {
		ck_assert_uint_lt(i, PERFETTO_PACKET_BYTES);
		used = packet.used;
		perfetto_arrow_begin(&packet, i);
	}
	ck_assert_uint_eq(packet.used, used);
	perfetto_text(&packet, PERFETTO_WHAT, "a text that does not fit either");
	ck_assert_uint_le(packet.used, sizeof(packet.bytes));
	perfetto_end(&packet);
	/* The next packet is begun anew. */
	perfetto_slice_end(&packet, 1, 1);
	ck_assert_int_eq(packet.too_long, 0);
}
END_TEST

START_TEST(the_preamble_names_every_note)
{
	unsigned names = 0;

	perfetto_preamble(&packet);
	perfetto_end(&packet);
	ck_assert_int_eq(packet.too_long, 0);
	for (size_t i = 3; i + 5 < packet.used; i++)
		names += packet.bytes[i] == 0x1a && packet.bytes[i + 3] == 0x08 &&
			 packet.bytes[i + 4] == names + 1 && packet.bytes[i + 5] == 0x12;
	ck_assert_uint_eq(names, PERFETTO_NOTES_END - 1);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("perfetto_packet");
	TCase *c = tcase_create("perfetto_packet");

	tcase_add_checked_fixture(c, setup, NULL);
	tcase_add_test(c, a_track_is_a_descriptor);
	tcase_add_test(c, a_slice_begins_with_its_notes_and_arrows);
	tcase_add_test(c, a_slice_ends_without_a_name);
	tcase_add_test(c, the_largest_numbers_take_ten_bytes);
	tcase_add_test(c, what_does_not_fit_is_left_out_and_told);
	tcase_add_test(c, the_preamble_names_every_note);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
