/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of settings, to and from text. Nothing but digits, one point and the named suffixes is a
 * number: no sign, no space, no exponent, and no influence of the locale. Pure.
 */
#ifndef BELAY_RUNTIME_NUMBER_TEXT_H
#define BELAY_RUNTIME_NUMBER_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define NUMBER_TEXT_MAX 32

/* Each returns 0, or -1 when `length` bytes at `text` are not such a number or it does not fit;
 * outputs then stay. */

/* Digits. */
int number_parse(const char *text, size_t length, uint64_t *ret_value);
/* Digits and K, M or G (1024^n). */
int number_parse_size(const char *text, size_t length, uint64_t *ret_bytes);
/* Milliseconds or seconds with up to 6 or 9 decimals, to nanoseconds; above max_ns does not fit. */
int number_parse_ms(const char *text, size_t length, uint64_t max_ns, uint64_t *ret_ns);
int number_parse_s(const char *text, size_t length, uint64_t max_ns, uint64_t *ret_ns);

/* The shortest text that parses to the same value. Buffers hold NUMBER_TEXT_MAX bytes; return
 * the buffer. */
const char *number_format_size(uint64_t bytes, char *buffer);
const char *number_format_ms(uint64_t ns, char *buffer);
const char *number_format_s(uint64_t ns, char *buffer);

#endif /* BELAY_RUNTIME_NUMBER_TEXT_H */
