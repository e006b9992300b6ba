/* SPDX-License-Identifier: Apache-2.0 */
/* All executions of a test, and the tests that are like it but for one order. See litmus.h. */
#include <string.h>

#include "tests/litmus/litmus.h"

struct search {
	const struct litmus_test *test;
	struct litmus_execution execution;
	unsigned shown, wanted;
	struct litmus_execution *ret_first; /* NULL: found, or not asked for */
};

static bool reads(const struct litmus_operation *o)
{
	return o->verb != LITMUS_STORE && o->verb != LITMUS_FENCE;
}

static bool writes(const struct litmus_operation *o)
{
	return o->verb == LITMUS_STORE || o->verb == LITMUS_SWAP || o->verb == LITMUS_CAS;
}

static void judge(struct search *s)
{
	unsigned shown = litmus_judge(s->test, &s->execution);

	s->shown |= shown;
	if (s->ret_first && (shown & s->wanted) == s->wanted) {
		*s->ret_first = s->execution;
		s->ret_first = NULL;
	}
}

static void order_word(struct search *s, int word, uint32_t ordered, int newest);

static void order_words(struct search *s, int word)
{
	if (word == s->test->nwords) {
		judge(s);
		return;
	}
	/* The first value of a word stands behind the operations, and is the word's oldest. */
	order_word(s, word, UINT32_C(1) << (s->test->noperations + word),
		   s->test->noperations + word);
}

/* `ordered`: stores of the word that have their place, `newest` the last of them. */
static void order_word(struct search *s, int word, uint32_t ordered, int newest)
{
	struct litmus_execution *e = &s->execution;
	bool complete = true;

	for (int i = 0; i < s->test->noperations; i++) {
		const struct litmus_operation *o = &e->event[i];

		if (o->word != word || !writes(o) || ordered >> i & 1)
			continue;
		complete = false;
		/* Atomicity: nothing comes between what it reads and what it writes. */
		if (reads(o) && e->from[i] != newest)
			continue;
		e->before[i] = ordered;
		order_word(s, word, ordered | UINT32_C(1) << i, i);
	}
	if (complete &&
	    (s->test->last[word] == LITMUS_ANY || s->test->last[word] == e->event[newest].writes))
		order_words(s, word + 1);
}

static bool can_read(const struct litmus_operation *reader, const struct litmus_operation *store)
{
	return reader != store && store->word == reader->word && writes(store) &&
	       (reader->reads == LITMUS_ANY || reader->reads == store->writes);
}

static void choose_sources(struct search *s, int from)
{
	struct litmus_execution *e = &s->execution;
	int reader = from;

	while (reader < s->test->noperations && !reads(&e->event[reader]))
		reader++;
	if (reader == s->test->noperations) {
		order_words(s, 0);
		return;
	}
	for (int store = 0; store < e->nevents; store++)
		if (can_read(&e->event[reader], &e->event[store])) {
			e->from[reader] = store;
			choose_sources(s, reader + 1);
		}
}

static void place_events(const struct litmus_test *test, struct litmus_execution *e)
{
	memcpy(e->event, test->operation, sizeof(test->operation));
	for (int word = 0; word < test->nwords; word++)
		e->event[test->noperations + word] = (struct litmus_operation){
			.verb = LITMUS_STORE,
			.thread = -1,
			.word = word,
			.order = LITMUS_ATOMIC,
			.scope = LITMUS_SYSTEM,
		};
	e->nevents = test->noperations + test->nwords;
}

unsigned litmus_explore(const struct litmus_test *test, unsigned wanted,
			struct litmus_execution *ret_first)
{
	struct search s = {.test = test, .wanted = wanted, .ret_first = ret_first};

	place_events(test, &s.execution);
	choose_sources(&s, 0);
	return s.shown;
}

bool litmus_holds(const struct litmus_test *test, unsigned shown)
{
	switch (test->expectation) {
	case LITMUS_NEVER:
		return shown == 0;
	case LITMUS_NEVER_RACE:
		return shown == LITMUS_REACHED;
	case LITMUS_MAY:
		return shown & LITMUS_REACHED;
	case LITMUS_MAY_RACE:
		return shown & LITMUS_RACED;
	}
	return false;
}

unsigned litmus_broken(const struct litmus_test *test)
{
	if (test->expectation == LITMUS_NEVER)
		return LITMUS_REACHED;
	return test->expectation == LITMUS_NEVER_RACE ? LITMUS_RACED : 0;
}

void litmus_weaken_to_enough(const struct litmus_test *test, struct litmus_test *ret_test)
{
	*ret_test = *test;
	for (int i = 0; i < ret_test->noperations; i++) {
		ret_test->operation[i].order = ret_test->operation[i].order_enough;
		ret_test->operation[i].scope = ret_test->operation[i].scope_enough;
	}
}

/* The n-th way to weaken one operation; false: it has no more. */
static bool weaken(struct litmus_operation *o, unsigned *n)
{
	static const unsigned parts[] = {LITMUS_SEQ_CST, LITMUS_ACQUIRE, LITMUS_RELEASE};
	bool is_fence = o->verb == LITMUS_FENCE;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		/* Sequential consistency is both others and more: it goes first, and alone. */
		if (!(o->order & parts[i]) || (i > 0 && o->order & LITMUS_SEQ_CST))
			continue;
		if ((*n)-- == 0) {
			o->order &= ~parts[i];
			return true;
		}
	}
	if (!o->scoped || o->scope == LITMUS_BLOCK || (is_fence && o->order == LITMUS_ATOMIC))
		return false;
	if ((*n)-- != 0)
		return false;
	o->scope--;
	return true;
}

bool litmus_weaken_one(const struct litmus_test *test, unsigned n, struct litmus_test *ret_test,
		       char ret_text[LITMUS_TEXT_BYTES])
{
	*ret_test = *test;
	for (int i = 0; i < ret_test->noperations; i++)
		if (weaken(&ret_test->operation[i], &n)) {
			litmus_describe(ret_test, &ret_test->operation[i], ret_text);
			return true;
		}
	return false;
}

void litmus_tell(const struct litmus_test *test, const struct litmus_execution *execution,
		 FILE *out)
{
	char text[LITMUS_TEXT_BYTES], source[LITMUS_TEXT_BYTES];

	fprintf(out, "# %s: %s\n", test->contract, test->name);
	for (int i = 0; i < test->noperations; i++) {
		const struct litmus_operation *o = &execution->event[i];

		litmus_describe(test, o, text);
		if (reads(o)) {
			litmus_describe(test, &execution->event[execution->from[i]], source);
			fprintf(out, "#   %-40s <- %s\n", text, source);
		} else {
			fprintf(out, "#   %s\n", text);
		}
	}
}
