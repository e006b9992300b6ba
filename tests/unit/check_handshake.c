/* SPDX-License-Identifier: Apache-2.0 */
/* The codec of the meeting's messages, and who is taken for what. */
#include "config.h"

#include <check.h>
#include <string.h>

#include "runtime/group/handshake.h"

static void compose(struct handshake_message *ret_message)
{
	handshake_init(ret_message, HANDSHAKE_HELLO);
	ret_message->rank = 3;
	ret_message->nranks = 8;
	ret_message->pid = 123456;
	ret_message->generation = UINT64_C(0x0123456789abcdef);
	ret_message->control_bytes = 65536;
	ret_message->region_bytes = UINT64_C(1) << 40;
	ret_message->mask = UINT64_MAX - 5;
	ret_message->step = 9;
	ret_message->status = -301;
	ret_message->ndescriptors = 1;
	memset(ret_message->secret, 0x11, 16);
	memset(ret_message->comm_id, 0x22, 16);
	handshake_set_text(ret_message, "BELAY_LATE_MS=10\nBELAY_PATHS=host,ring\n");
}

START_TEST(a_message_comes_back_as_it_was)
{
	struct handshake_message in, out;
	uint8_t bytes[HANDSHAKE_BYTES_MAX];
	size_t n;

	compose(&in);
	n = handshake_encode(&in, bytes);
	memset(&out, 0, sizeof(out)); /* padding too: it is compared below */
	ck_assert_int_eq(handshake_decode(bytes, n, &out), HANDSHAKE_OK);
	ck_assert_str_eq(out.text, in.text);
	/* Fields and text agree; past the text nothing is promised. */
	ck_assert_mem_eq(&out, &in, offsetof(struct handshake_message, text));
}
END_TEST

START_TEST(the_layout_is_the_same_on_every_machine)
{
	static const uint8_t head[48] = {'b',  'e',  'l',  'a',	 'y',  0,    0xf5, 0x0a, 1,    0,
					 0,    0,    100,  0,	 0,    0,    1,	   0,	 0,    0,
					 3,    0,    0,	   0,	 8,    0,    0,	   0,	 39,   0,
					 0,    0,    0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
					 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11};
	struct handshake_message message;
	uint8_t bytes[HANDSHAKE_BYTES_MAX];

	compose(&message);
	ck_assert_uint_eq(handshake_encode(&message, bytes), 128 + 39);
	ck_assert_mem_eq(bytes, head, sizeof(head));
	ck_assert_uint_eq(bytes[72], 0xef);
	ck_assert_uint_eq(bytes[79], 0x01);
}
END_TEST

START_TEST(a_text_that_is_too_long_is_cut)
{
	static char text[HANDSHAKE_TEXT_MAX + 100];
	static uint8_t bytes[HANDSHAKE_BYTES_MAX];
	struct handshake_message message;

	memset(text, 'x', sizeof(text) - 1);
	compose(&message);
	handshake_set_text(&message, text);
	ck_assert_uint_eq(message.text_bytes, HANDSHAKE_TEXT_MAX);
	ck_assert_uint_eq(handshake_encode(&message, bytes), HANDSHAKE_BYTES_MAX);
	ck_assert_int_eq(handshake_decode(bytes, HANDSHAKE_BYTES_MAX, &message), HANDSHAKE_OK);
	ck_assert_uint_eq(strlen(message.text), HANDSHAKE_TEXT_MAX);
}
END_TEST

START_TEST(every_truncation_and_extension_is_garbage_and_leaves_the_output)
{
	struct handshake_message in, out, before;
	uint8_t bytes[HANDSHAKE_BYTES_MAX + 1] = {0};
	size_t n;

	compose(&in);
	n = handshake_encode(&in, bytes);
	memset(&out, 0xee, sizeof(out));
	before = out;
	for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
		if (cut == n)
			continue;
		ck_assert_int_eq(handshake_decode(bytes, cut, &out), HANDSHAKE_GARBAGE);
		ck_assert_mem_eq(&out, &before, sizeof(out));
	}
}
END_TEST

START_TEST(every_flipped_bit_is_seen)
{
	struct handshake_message message;
	uint8_t bytes[HANDSHAKE_BYTES_MAX];
	size_t n;

	compose(&message);
	n = handshake_encode(&message, bytes);
	for (size_t bit = 0; bit < 8 * n; bit++) {
		/* Bytes 8 to 11 are the protocol's number: another protocol is no garbage. */
		enum handshake_result expected =
			bit / 32 == 2 ? HANDSHAKE_OTHER_PROTOCOL : HANDSHAKE_GARBAGE;

		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_msg(handshake_decode(bytes, n, &message) == expected, "bit %zu", bit);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_int_eq(handshake_decode(bytes, n, &message), HANDSHAKE_OK);
}
END_TEST

START_TEST(a_zero_byte_in_the_text_is_garbage)
{
	struct handshake_message message;
	uint8_t bytes[HANDSHAKE_BYTES_MAX];
	size_t n;

	compose(&message);
	message.text[4] = '\0'; /* text_bytes says more */
	n = handshake_encode(&message, bytes);
	ck_assert_int_eq(handshake_decode(bytes, n, &message), HANDSHAKE_GARBAGE);
}
END_TEST

START_TEST(an_unknown_type_is_garbage)
{
	static const uint32_t types[] = {0, 11, UINT32_MAX};
	struct handshake_message message;
	uint8_t bytes[HANDSHAKE_BYTES_MAX];

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		compose(&message);
		message.type = types[i];
		ck_assert_int_eq(
			handshake_decode(bytes, handshake_encode(&message, bytes), &message),
			HANDSHAKE_GARBAGE);
	}
}
END_TEST

START_TEST(of_another_protocol_only_the_first_48_bytes_are_read)
{
	struct handshake_message message;
	uint8_t bytes[HANDSHAKE_BYTES_MAX];

	compose(&message);
	message.protocol = 7;
	(void)handshake_encode(&message, bytes);
	memset(bytes + 48, 0xff, sizeof(bytes) - 48);
	ck_assert_int_eq(handshake_decode(bytes, 47, &message), HANDSHAKE_GARBAGE);
	ck_assert_int_eq(handshake_decode(bytes, 48, &message), HANDSHAKE_OTHER_PROTOCOL);
	ck_assert_uint_eq(message.protocol, 7);
	ck_assert_int_eq(message.rank, 3);
	ck_assert_uint_eq(message.pid, 0);
	ck_assert_uint_eq(message.text_bytes, 0);
	ck_assert_str_eq(message.text, "");
}
END_TEST

/* Changes one thing of a fitting HELLO; what the sender is then taken for. */
enum change {
	NOTHING,
	SECRET,
	LIBRARY,
	NRANKS,
	RANK_NEGATIVE,
	RANK_HIGH,
	SETTINGS,
	CONTROL,
	REGION,
	TYPE_READY,
	TYPE_FAIL,
	SECRET_AND_SETTINGS
};

static const struct {
	enum change change;
	enum handshake_sender sender;
	const char *text;
} rows[] = {
	{NOTHING, HANDSHAKE_MEMBER, ""},
	{SECRET, HANDSHAKE_STRANGER, ""},
	{SECRET_AND_SETTINGS, HANDSHAKE_STRANGER, ""},
	{LIBRARY, HANDSHAKE_MISFIT,
	 "version 0.1.0 (handshake 1) on rank 0 and version 1.2.3 (handshake 1) on rank 3"},
	{NRANKS, HANDSHAKE_MISFIT, "8 ranks on rank 0 and 4 on rank 3"},
	{RANK_NEGATIVE, HANDSHAKE_MISFIT, "rank -1 (pid 123456) joined a world of 8 ranks, 0 to 7"},
	{RANK_HIGH, HANDSHAKE_MISFIT, "rank 8 (pid 123456) joined a world of 8 ranks, 0 to 7"},
	{SETTINGS, HANDSHAKE_MISFIT, "between rank 0 and rank 3: BELAY_LATE_MS: 10 against 20"},
	{CONTROL, HANDSHAKE_MISFIT,
	 "65536 + 1099511627776 bytes on rank 0 and 1 + 1099511627776 on rank 3"},
	{REGION, HANDSHAKE_MISFIT, "65536 + 1099511627776 bytes on rank 0 and 65536 + 2 on rank 3"},
	{TYPE_READY, HANDSHAKE_STRANGER, ""},
	{TYPE_FAIL, HANDSHAKE_MEMBER, ""},
};

static void apply(enum change change, struct handshake_message *message)
{
	if (change == SECRET || change == SECRET_AND_SETTINGS)
		message->secret[15] ^= 0x80;
	if (change == SETTINGS || change == SECRET_AND_SETTINGS)
		handshake_set_text(message, "BELAY_LATE_MS=20\nBELAY_PATHS=host,ring\n");
	if (change == LIBRARY)
		message->library = 10203;
	if (change == NRANKS)
		message->nranks = 4;
	if (change == RANK_NEGATIVE || change == RANK_HIGH)
		message->rank = change == RANK_HIGH ? 8 : -1;
	if (change == CONTROL)
		message->control_bytes = 1;
	if (change == REGION)
		message->region_bytes = 2;
	if (change == TYPE_READY)
		message->type = HANDSHAKE_READY;
	if (change == TYPE_FAIL) {
		message->type = HANDSHAKE_FAIL;
		handshake_set_text(message, "it cannot");
	}
}

START_TEST(a_sender_is_taken_for_what_it_is)
{
	struct handshake_message own, message;
	char text[600] = "";

	compose(&own);
	own.rank = 0;
	compose(&message);
	apply(rows[_i].change, &message);
	ck_assert_int_eq(handshake_verify(&own, &message, HANDSHAKE_OK, text, sizeof(text)),
			 rows[_i].sender);
	if (*rows[_i].text)
		ck_assert_msg(strstr(text, rows[_i].text) != NULL, "%s", text);
	else
		ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(another_protocol_is_a_misfit_only_with_the_secret)
{
	struct handshake_message own, message;
	char text[600] = "";

	compose(&own);
	compose(&message);
	message.protocol = 2;
	ck_assert_int_eq(
		handshake_verify(&own, &message, HANDSHAKE_OTHER_PROTOCOL, text, sizeof(text)),
		HANDSHAKE_MISFIT);
	message.secret[0] ^= 1;
	ck_assert_int_eq(
		handshake_verify(&own, &message, HANDSHAKE_OTHER_PROTOCOL, text, sizeof(text)),
		HANDSHAKE_STRANGER);
	ck_assert_int_eq(handshake_verify(&own, &own, HANDSHAKE_GARBAGE, text, sizeof(text)),
			 HANDSHAKE_STRANGER);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("handshake");
	TCase *c = tcase_create("codec");

	tcase_add_test(c, a_message_comes_back_as_it_was);
	tcase_add_test(c, the_layout_is_the_same_on_every_machine);
	tcase_add_test(c, a_text_that_is_too_long_is_cut);
	tcase_add_test(c, every_truncation_and_extension_is_garbage_and_leaves_the_output);
	tcase_add_test(c, every_flipped_bit_is_seen);
	tcase_add_test(c, a_zero_byte_in_the_text_is_garbage);
	tcase_add_test(c, an_unknown_type_is_garbage);
	tcase_add_test(c, of_another_protocol_only_the_first_48_bytes_are_read);
	tcase_add_loop_test(c, a_sender_is_taken_for_what_it_is, 0,
			    (int)(sizeof(rows) / sizeof(rows[0])));
	tcase_add_test(c, another_protocol_is_a_misfit_only_with_the_secret);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
