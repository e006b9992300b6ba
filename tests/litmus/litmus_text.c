/* SPDX-License-Identifier: Apache-2.0 */
/* The text of litmus tests. See litmus.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/litmus/litmus.h"

#define LINE_BYTES 512

struct named_bits {
	const char *name;
	unsigned bits;
};

static const struct named_bits orders[] = {
	{"relaxed", LITMUS_ATOMIC},
	{"acquire", LITMUS_ATOMIC | LITMUS_ACQUIRE},
	{"release", LITMUS_ATOMIC | LITMUS_RELEASE},
	{"acq_rel", LITMUS_ATOMIC | LITMUS_ACQUIRE | LITMUS_RELEASE},
	{"seq_cst", LITMUS_ATOMIC | LITMUS_ACQUIRE | LITMUS_RELEASE | LITMUS_SEQ_CST},
	{NULL, 0},
};

static const struct named_bits scopes[] = {
	{"block", LITMUS_BLOCK}, {"gpu", LITMUS_GPU}, {"sys", LITMUS_SYSTEM}, {NULL, 0}};

/* By enum litmus_verb; bits: numbers that follow. */
static const struct named_bits verbs[] = {{"store", 1}, {"read", 1},  {"await", 1}, {"swap", 2},
					  {"cas", 2},	{"fence", 0}, {NULL, 0}};

static const char *const expectations[] = {"never", "never race", "may", "may race", NULL};

/* Where in a file a test is being read. */
struct reader {
	FILE *file;
	unsigned *line;
	struct litmus_test *test;
};

static int complain(const struct reader *in, const char *what, const char *text)
{
	fprintf(stderr, "litmus: line %u: %s '%s'\n", *in->line, what, text);
	return -1;
}

static int index_of(const struct named_bits *table, const char *name)
{
	for (int i = 0; table[i].name; i++)
		if (strcmp(table[i].name, name) == 0)
			return i;
	return -1;
}

/* ---- one operation --------------------------------------------------------------------------- */

static int word_index(struct litmus_test *test, const char *name)
{
	int w = 0;

	while (w < test->nwords && strcmp(test->word[w], name) != 0)
		w++;
	if (w < test->nwords)
		return w;
	if (w == LITMUS_WORDS_MAX || strlen(name) >= sizeof(test->word[w]))
		return -1;
	snprintf(test->word[w], sizeof(test->word[w]), "%s", name);
	test->last[w] = LITMUS_ANY;
	return test->nwords++;
}

static bool parse_value(const char *text, int32_t *ret_value)
{
	char *end = NULL;
	long value = text ? strtol(text, &end, 10) : -1;

	if (text && strcmp(text, "any") == 0)
		value = LITMUS_ANY;
	else if (!text || end == text || *end || value < 0)
		return false;
	*ret_value = (int32_t)value;
	return true;
}

/* "NAME" or "NAME(ENOUGH)" out of a table. */
static bool parse_bits(const struct named_bits *table, char *text, unsigned *ret_bits,
		       unsigned *ret_enough)
{
	char *enough = strchr(text, '('), *end = strchr(text, ')');
	int i, j;

	if (enough && end) {
		*enough++ = '\0';
		*end = '\0';
	}
	i = index_of(table, text);
	j = enough ? index_of(table, enough) : i;
	if (i >= 0 && j >= 0) {
		*ret_bits = table[i].bits;
		*ret_enough = table[j].bits;
		return true;
	}
	if (enough && end) { /* as it was, for the next table */
		enough[-1] = '(';
		*end = ')';
	}
	return false;
}

/* Orders that a verb cannot have are the part of it that it can. */
static unsigned fitting(enum litmus_verb verb, unsigned order)
{
	if (verb == LITMUS_STORE)
		return order & ~(unsigned)LITMUS_ACQUIRE;
	if (verb == LITMUS_READ || verb == LITMUS_AWAIT)
		return order & ~(unsigned)LITMUS_RELEASE;
	return order | LITMUS_ATOMIC;
}

static int parse_order_and_scope(const struct reader *in, struct litmus_operation *o, char **rest)
{
	char *text;

	while ((text = strtok_r(NULL, " \t", rest))) {
		if (parse_bits(orders, text, &o->order, &o->order_enough))
			continue;
		if (!parse_bits(scopes, text, &o->scope, &o->scope_enough))
			return complain(in, "no order or scope", text);
		o->scoped = true;
	}
	o->order = fitting(o->verb, o->order);
	o->order_enough = fitting(o->verb, o->order_enough);
	return 0;
}

static int parse_values(const struct reader *in, struct litmus_operation *o, char **rest)
{
	char *word = strtok_r(NULL, " \t", rest), *first = strtok_r(NULL, " \t", rest);
	char *second = verbs[o->verb].bits == 2 ? strtok_r(NULL, " \t", rest) : first;

	if (!word || !parse_value(first, &o->reads) || !parse_value(second, &o->writes))
		return complain(in, "no word and values", word ? word : "");
	o->word = word_index(in->test, word);
	return o->word < 0 ? complain(in, "one word too many", word) : 0;
}

static int parse_operation(const struct reader *in, int thread, char *text)
{
	struct litmus_test *test = in->test;
	struct litmus_operation *o = &test->operation[test->noperations];
	char *rest, *verb = strtok_r(text, " \t", &rest);
	int index;

	if (!verb)
		return 0; /* the thread has nothing in this line */
	index = index_of(verbs, verb);
	if (index < 0 || test->noperations == LITMUS_OPERATIONS_MAX)
		return complain(in, "no verb, or too many operations", verb);
	*o = (struct litmus_operation){.verb = (enum litmus_verb)index,
				       .thread = thread,
				       .word = -1,
				       .scope = LITMUS_SYSTEM,
				       .scope_enough = LITMUS_SYSTEM};
	test->noperations++;
	if (o->verb != LITMUS_FENCE && parse_values(in, o, &rest))
		return -1;
	return parse_order_and_scope(in, o, &rest);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The next part of a line up to a bar; NULL: no more. */
static char *next_column(char **rest)
{
	char *column = *rest, *bar;

	if (!column)
		return NULL;
	bar = strchr(column, '|');
	if (bar)
		*bar++ = '\0';
	*rest = bar;
	return column;
}

static int parse_operations(const struct reader *in, char *text)
{
	char *column;

	for (int thread = 0; (column = next_column(&text)); thread++) {
		if (thread == in->test->nthreads)
			return complain(in, "more columns than threads", column);
		if (parse_operation(in, thread, column))
			return -1;
	}
	return 0;
}

static int parse_threads(const struct reader *in, char *text)
{
	char *column;

	while ((column = next_column(&text))) {
		struct litmus_thread *thread = &in->test->thread[in->test->nthreads];

		if (in->test->nthreads == LITMUS_THREADS_MAX)
			return complain(in, "one thread too many", column);
		thread->gpu = thread->block = -1;
		if (sscanf(column, " %23s @%d.%d", thread->name, &thread->gpu, &thread->block) < 1)
			return complain(in, "no thread", column);
		in->test->nthreads++;
	}
	return 0;
}

static int parse_last(const struct reader *in, char *text)
{
	char *rest, *word = strtok_r(text, " \t", &rest);
	int w = word ? word_index(in->test, word) : -1;

	if (w < 0 || !parse_value(strtok_r(NULL, " \t", &rest), &in->test->last[w]))
		return complain(in, "no word and value", text);
	return 0;
}

/* 1 when the line is an expectation, which ends a test. */
static int parse_expectation(const struct reader *in, const char *text)
{
	for (int i = 0; expectations[i]; i++)
		if (strcmp(text, expectations[i]) == 0) {
			in->test->expectation = (enum litmus_expectation)i;
			return 1;
		}
	return complain(in, "not understood:", text);
}

static int copy(const struct reader *in, const char *text, char *ret_copy, size_t size)
{
	size_t length = strlen(text);

	if (length >= size)
		return complain(in, "too long:", text);
	memcpy(ret_copy, text, length + 1);
	return 0;
}

static int parse_line(const struct reader *in, char *text)
{
	struct litmus_test *test = in->test;

	if (strncmp(text, "test ", 5) == 0)
		return copy(in, text + 5, test->name, sizeof(test->name));
	if (strncmp(text, "contract ", 9) == 0)
		return copy(in, text + 9, test->contract, sizeof(test->contract));
	if (strncmp(text, "last ", 5) == 0)
		return parse_last(in, text + 5);
	if (text[0] != ' ')
		return parse_expectation(in, text);
	return test->nthreads ? parse_operations(in, text) : parse_threads(in, text);
}

int litmus_read(FILE *file, struct litmus_test *ret_test, unsigned *line)
{
	struct litmus_test test = {0};
	struct reader in = {file, line, &test};
	char text[LINE_BYTES];
	int status = 0;

	while (status == 0 && fgets(text, sizeof(text), file)) {
		++*line;
		text[strcspn(text, "\n")] = '\0';
		if (text[0] != '#' && text[0] != '\0')
			status = parse_line(&in, text);
	}
	if (status == 0 && test.name[0])
		return complain(&in, "the test has no end:", test.name);
	if (status == 1 && (!test.name[0] || !test.contract[0] || !test.noperations))
		return complain(&in, "the test lacks a line:", test.name);
	if (status == 1)
		*ret_test = test;
	return status;
}

/* ---- the other way --------------------------------------------------------------------------- */

static const char *order_name(const struct litmus_operation *o)
{
	for (int i = 0; orders[i].name; i++)
		if (fitting(o->verb, orders[i].bits) == o->order)
			return orders[i].name;
	return "plain";
}

static void describe_values(const struct litmus_operation *o, char *ret_text, size_t size)
{
	int32_t value = o->verb == LITMUS_STORE ? o->writes : o->reads;

	if (o->verb == LITMUS_SWAP || o->verb == LITMUS_CAS)
		snprintf(ret_text, size, " %d %d", o->reads, o->writes);
	else if (value == LITMUS_ANY)
		snprintf(ret_text, size, " any");
	else if (o->verb != LITMUS_FENCE)
		snprintf(ret_text, size, " %d", value);
}

void litmus_describe(const struct litmus_test *test, const struct litmus_operation *operation,
		     char ret_text[LITMUS_TEXT_BYTES])
{
	const struct litmus_operation *o = operation;
	char values[32] = "";

	describe_values(o, values, sizeof(values));
	snprintf(ret_text, LITMUS_TEXT_BYTES, "%s: %s%s%s%s %s%s%s",
		 o->thread < 0 ? "before" : test->thread[o->thread].name, verbs[o->verb].name,
		 o->word < 0 ? "" : " ", o->word < 0 ? "" : test->word[o->word], values,
		 order_name(o), o->scoped ? " " : "", o->scoped ? scopes[o->scope].name : "");
}
