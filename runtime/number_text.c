/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of settings, to and from text. strtod() would follow the application's locale. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/number_text.h"

/* Appends a decimal digit. -1: not a digit, or the value does not fit. */
static int push_digit(uint64_t *value, char digit)
{
	if (digit < '0' || digit > '9')
		return -1;
	if (__builtin_mul_overflow(*value, 10u, value))
		return -1;
	return __builtin_add_overflow(*value, (uint64_t)(digit - '0'), value) ? -1 : 0;
}

int number_parse(const char *text, size_t length, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (length == 0)
		return -1;
	for (size_t i = 0; i < length; i++)
		if (push_digit(&value, text[i]))
			return -1;
	*ret_value = value;
	return 0;
}

static unsigned suffix_shift(char suffix)
{
	return suffix == 'K' ? 10 : suffix == 'M' ? 20 : suffix == 'G' ? 30 : 0;
}

int number_parse_size(const char *text, size_t length, uint64_t *ret_bytes)
{
	unsigned shift = length ? suffix_shift(text[length - 1]) : 0;
	uint64_t value;

	if (number_parse(text, shift ? length - 1 : length, &value) || value > UINT64_MAX >> shift)
		return -1;
	*ret_bytes = value << shift;
	return 0;
}

/* A number with up to `decimals` digits after the point, as an integer of the smallest unit. */
static int parse_fixed(const char *text, size_t length, unsigned decimals, uint64_t *ret_value)
{
	const char *point = length ? memchr(text, '.', length) : NULL;
	size_t whole = point ? (size_t)(point - text) : length;
	size_t fraction = point ? length - whole - 1 : 0;
	uint64_t value;

	if (number_parse(text, whole, &value) || fraction > decimals || (point && !fraction))
		return -1;
	for (size_t i = 0; i < decimals; i++)
		if (push_digit(&value, i < fraction ? point[1 + i] : '0'))
			return -1;
	*ret_value = value;
	return 0;
}

static int parse_time(const char *text, size_t length, unsigned decimals, uint64_t max_ns,
		      uint64_t *ret_ns)
{
	uint64_t ns;

	if (parse_fixed(text, length, decimals, &ns) || ns > max_ns)
		return -1;
	*ret_ns = ns;
	return 0;
}

int number_parse_ms(const char *text, size_t length, uint64_t max_ns, uint64_t *ret_ns)
{
	return parse_time(text, length, 6, max_ns, ret_ns);
}

int number_parse_s(const char *text, size_t length, uint64_t max_ns, uint64_t *ret_ns)
{
	return parse_time(text, length, 9, max_ns, ret_ns);
}

const char *number_format_size(uint64_t bytes, char *buffer)
{
	static const char suffixes[] = "GMK";

	for (unsigned i = 0; i < 3; i++) {
		unsigned shift = suffix_shift(suffixes[i]);

		if (bytes && bytes % (UINT64_C(1) << shift) == 0) {
			snprintf(buffer, NUMBER_TEXT_MAX, "%" PRIu64 "%c", bytes >> shift,
				 suffixes[i]);
			return buffer;
		}
	}
	snprintf(buffer, NUMBER_TEXT_MAX, "%" PRIu64, bytes);
	return buffer;
}

static const char *format_fixed(uint64_t value, unsigned decimals, uint64_t unit, char *buffer)
{
	int length = snprintf(buffer, NUMBER_TEXT_MAX, "%" PRIu64 ".%0*" PRIu64, value / unit,
			      (int)decimals, value % unit);

	while (length > 0 && buffer[length - 1] == '0')
		buffer[--length] = '\0';
	if (length > 0 && buffer[length - 1] == '.')
		buffer[length - 1] = '\0';
	return buffer;
}

const char *number_format_ms(uint64_t ns, char *buffer)
{
	return format_fixed(ns, 6, 1000000, buffer);
}

const char *number_format_s(uint64_t ns, char *buffer)
{
	return format_fixed(ns, 9, 1000000000, buffer);
}
