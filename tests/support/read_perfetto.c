/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_perfetto FILE: prints a Perfetto trace as a list of JSON objects, one a packet, in the order
 * of the file. Knows the fields that belay writes; any other is an error. Its names are those of
 * perfetto_trace.proto, from which it was written, and not of belay's own writer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { NUMBER, FIXED, TEXT, MESSAGE };

struct field {
	unsigned number;
	enum kind kind;
	int repeated;
	const char *name;
	const struct field *content; /* of a message */
};

/* clang-format off */
static const struct field debug_annotation_name[] = {
	{1, NUMBER, 0, "iid", NULL}, {2, TEXT, 0, "name", NULL}, {0}
};
static const struct field interned_data[] = {
	{3, MESSAGE, 1, "debug_annotation_names", debug_annotation_name}, {0}
};
static const struct field debug_annotation[] = {
	{1, NUMBER, 0, "name_iid", NULL}, {3, NUMBER, 0, "uint_value", NULL}, {6, TEXT, 0, "string_value", NULL}, {0}
};
static const struct field track_descriptor[] = {
	{1, NUMBER, 0, "uuid", NULL}, {2, TEXT, 0, "name", NULL}, {5, NUMBER, 0, "parent_uuid", NULL},
	{11, NUMBER, 0, "child_ordering", NULL}, {12, NUMBER, 0, "sibling_order_rank", NULL}, {0}
};
static const struct field track_event[] = {
	{4, MESSAGE, 1, "debug_annotations", debug_annotation}, {9, NUMBER, 0, "type", NULL},
	{11, NUMBER, 0, "track_uuid", NULL}, {23, TEXT, 0, "name", NULL},
	{47, FIXED, 1, "flow_ids", NULL}, {48, FIXED, 1, "terminating_flow_ids", NULL}, {0}
};
static const struct field trace_packet[] = {
	{8, NUMBER, 0, "timestamp", NULL}, {10, NUMBER, 0, "trusted_packet_sequence_id", NULL},
	{11, MESSAGE, 0, "track_event", track_event}, {12, MESSAGE, 0, "interned_data", interned_data},
	{13, NUMBER, 0, "sequence_flags", NULL}, {60, MESSAGE, 0, "track_descriptor", track_descriptor},
	{87, NUMBER, 0, "first_packet_on_sequence", NULL}, {0}
};
static const struct field trace[] = { {1, MESSAGE, 1, "packet", trace_packet}, {0} };
/* clang-format on */

/* What is left of a message. */
struct bytes {
	const unsigned char *at, *end;
};

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "read_perfetto: %s\n", what);
	exit(1);
}

static uint64_t take_varint(struct bytes *bytes)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (bytes->at == bytes->end)
			fail("a number is cut");
		value |= (uint64_t)(*bytes->at & 0x7f) << shift;
		if (!(*bytes->at++ & 0x80))
			return value;
	}
	fail("a number is too long");
}

static struct bytes take_bytes(struct bytes *bytes, uint64_t count)
{
	struct bytes taken = {bytes->at, bytes->at};

	if (count > (uint64_t)(bytes->end - bytes->at))
		fail("a field is longer than its message");
	taken.end += count;
	bytes->at += count;
	return taken;
}

static uint64_t take_fixed64(struct bytes *bytes)
{
	struct bytes taken = take_bytes(bytes, 8);
	uint64_t value = 0;

	for (unsigned i = 0; i < 8; i++)
		value |= (uint64_t)taken.at[i] << (8 * i);
	return value;
}

static const struct field *find_field(const struct field *fields, uint64_t key)
{
	static const unsigned wire_types[] = {[NUMBER] = 0, [FIXED] = 1, [TEXT] = 2, [MESSAGE] = 2};

	for (; fields->number; fields++) {
		if (fields->number == key >> 3 && wire_types[fields->kind] == (key & 7))
			return fields;
	}
	fail("a field is unknown");
}

static void print_text(struct bytes text)
{
	putchar('"');
	for (; text.at < text.end; text.at++) {
		if (*text.at < 0x20 || *text.at == '"' || *text.at == '\\')
			printf("\\u%04x", *text.at);
		else
			putchar(*text.at);
	}
	putchar('"');
}

static void print_message(const struct field *fields, struct bytes bytes);

/* Ids do not fit into the floating point of JSON's readers: as text. */
static void print_value(const struct field *field, struct bytes *bytes)
{
	if (field->kind == NUMBER && strstr(field->name, "uuid"))
		printf("\"%" PRIu64 "\"", take_varint(bytes));
	else if (field->kind == NUMBER)
		printf("%" PRIu64, take_varint(bytes));
	else if (field->kind == FIXED)
		printf("\"%" PRIu64 "\"", take_fixed64(bytes));
	else if (field->kind == TEXT)
		print_text(take_bytes(bytes, take_varint(bytes)));
	else
		print_message(field->content, take_bytes(bytes, take_varint(bytes)));
}

/* Repeated fields as a list: all that follow one another, as belay writes them. */
static void print_message(const struct field *fields, struct bytes bytes)
{
	const struct field *last = NULL;

	putchar('{');
	while (bytes.at < bytes.end) {
		const struct field *field = find_field(fields, take_varint(&bytes));

		if (field == last && field->repeated) {
			putchar(',');
		} else {
			printf("%s%s\"%s\":%s", last && last->repeated ? "]" : "", last ? "," : "",
			       field->name, field->repeated ? "[" : "");
		}
		print_value(field, &bytes);
		last = field;
	}
	printf("%s}", last && last->repeated ? "]" : "");
}

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
	unsigned char *buffer;
	struct bytes bytes;
	long size;

	if (!file || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
		fail("usage: read_perfetto FILE");
	rewind(file);
	buffer = malloc((size_t)size + 1);
	if (!buffer || fread(buffer, 1, (size_t)size, file) != (size_t)size)
		fail("cannot read the file");
	bytes = (struct bytes){buffer, buffer + size};
	while (bytes.at < bytes.end) {
		const struct field *field = find_field(trace, take_varint(&bytes));

		print_message(field->content, take_bytes(&bytes, take_varint(&bytes)));
		putchar('\n');
	}
	free(buffer);
	(void)fclose(file);
	return 0;
}
