/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/html_text.h"

/* Bytes of the well-formed UTF-8 character at `text`; 0: there is none. */
static unsigned utf8_length(const unsigned char *text)
{
	/* The first continuation byte is limited where shorter forms, surrogates or more than
	 * U+10FFFF would be possible. */
	unsigned char low = 0x80, high = 0xbf;
	unsigned length;

	if (text[0] < 0x80)
		return 1;
	if (text[0] >= 0xc2 && text[0] <= 0xdf)
		length = 2;
	else if (text[0] >= 0xe0 && text[0] <= 0xef)
		length = 3;
	else if (text[0] >= 0xf0 && text[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (text[0] == 0xe0)
		low = 0xa0;
	else if (text[0] == 0xed)
		high = 0x9f;
	else if (text[0] == 0xf0)
		low = 0x90;
	else if (text[0] == 0xf4)
		high = 0x8f;
	/* The terminating 0 is no continuation byte: nothing behind it is read. */
	if (text[1] < low || text[1] > high)
		return 0;
	for (unsigned i = 2; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

static int is_control(unsigned char c)
{
	return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

/* `escape` prints the one-byte character if it must not stand as it is, and tells. */
static void print_text(FILE *file, const char *text, int (*escape)(FILE *, char))
{
	const unsigned char *c = (const unsigned char *)text;

	while (*c) {
		unsigned length = utf8_length(c);

		if (length == 0 || is_control(*c)) {
			fputc('?', file);
			c++;
			continue;
		}
		if (length > 1 || !escape(file, (char)*c))
			(void)fwrite(c, 1, length, file);
		c += length;
	}
}

static int escape_html(FILE *file, char c)
{
	switch (c) {
	case '&':
		return fputs("&amp;", file) >= 0;
	case '<':
		return fputs("&lt;", file) >= 0;
	case '>':
		return fputs("&gt;", file) >= 0;
	case '"':
		return fputs("&quot;", file) >= 0;
	case '\'':
		return fputs("&#39;", file) >= 0;
	default:
		return 0;
	}
}

/* `<` as well: "</script" would end the element. */
static int escape_json(FILE *file, char c)
{
	if (c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' && c != '\n' && c != '\t')
		return 0;
	return fprintf(file, "\\u%04x", (unsigned)c) > 0;
}

void html_text(FILE *file, const char *text)
{
	print_text(file, text, escape_html);
}

void html_json_text(FILE *file, const char *text)
{
	print_text(file, text, escape_json);
}
