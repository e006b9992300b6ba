/* SPDX-License-Identifier: Apache-2.0 */
/* The memory model: which executions can be, and which of them race. See litmus.h. */
#include "tests/litmus/litmus.h"

/* A relation between events: bit b of row[a] when a is related to b. */
struct relation {
	uint32_t row[LITMUS_EVENTS_MAX];
};

/* The relations of the model, by their names there. */
struct model {
	const struct litmus_test *test;
	const struct litmus_execution *execution;
	int n;
	uint32_t fences, sequential; /* sets: seq_cst fences; all seq_cst events */
	struct relation sb;	     /* sequenced before; first values are before everything */
	struct relation same_word;
	struct relation rf, mo, rb; /* reads from; modification order; read before a store */
	struct relation eco;	    /* the closure of these three */
	struct relation hb;	    /* happens before */
};

#define BIT(i) (UINT32_C(1) << (i))

static void add(struct relation *r, int a, int b)
{
	r->row[a] |= BIT(b);
}

static bool has(const struct relation *r, int a, int b)
{
	return r->row[a] & BIT(b);
}

static struct relation unite(const struct relation *a, const struct relation *b)
{
	struct relation result;

	for (int i = 0; i < LITMUS_EVENTS_MAX; i++)
		result.row[i] = a->row[i] | b->row[i];
	return result;
}

static struct relation minus(const struct relation *a, const struct relation *b)
{
	struct relation result;

	for (int i = 0; i < LITMUS_EVENTS_MAX; i++)
		result.row[i] = a->row[i] & ~b->row[i];
	return result;
}

/* a;b: first one step of a, then one of b. */
static struct relation compose(const struct relation *a, const struct relation *b)
{
	struct relation result = {{0}};

	for (int i = 0; i < LITMUS_EVENTS_MAX; i++)
		for (uint32_t middle = a->row[i]; middle; middle &= middle - 1)
			result.row[i] |= b->row[__builtin_ctz(middle)];
	return result;
}

/* [from];r;[to]. */
static struct relation between(uint32_t from, const struct relation *r, uint32_t to)
{
	struct relation result;

	for (int i = 0; i < LITMUS_EVENTS_MAX; i++)
		result.row[i] = from & BIT(i) ? r->row[i] & to : 0;
	return result;
}

static struct relation with_identity(const struct relation *r)
{
	struct relation result = *r;

	for (int i = 0; i < LITMUS_EVENTS_MAX; i++)
		add(&result, i, i);
	return result;
}

static void close_transitively(struct relation *r)
{
	for (int k = 0; k < LITMUS_EVENTS_MAX; k++)
		for (int i = 0; i < LITMUS_EVENTS_MAX; i++)
			if (has(r, i, k))
				r->row[i] |= r->row[k];
}

static bool is_irreflexive(const struct relation *r)
{
	for (int i = 0; i < LITMUS_EVENTS_MAX; i++)
		if (has(r, i, i))
			return false;
	return true;
}

static bool is_acyclic(struct relation r)
{
	close_transitively(&r);
	return is_irreflexive(&r);
}

/* ---- events ---------------------------------------------------------------------------------- */

static const struct litmus_operation *event(const struct model *m, int i)
{
	return &m->execution->event[i];
}

static bool reads(const struct litmus_operation *o)
{
	return o->thread >= 0 && o->verb != LITMUS_STORE && o->verb != LITMUS_FENCE;
}

static bool writes(const struct litmus_operation *o)
{
	return o->verb == LITMUS_STORE || o->verb == LITMUS_SWAP || o->verb == LITMUS_CAS;
}

static bool branches(const struct litmus_operation *o)
{
	return o->verb == LITMUS_AWAIT || o->verb == LITMUS_CAS;
}

/* Whether the scope of `o` holds the thread. The scopes of the host are the system. */
static bool reaches(const struct model *m, const struct litmus_operation *o, int thread)
{
	const struct litmus_thread *own, *other;

	if (o->thread < 0 || thread < 0 || o->thread == thread || o->scope == LITMUS_SYSTEM)
		return true;
	own = &m->test->thread[o->thread];
	other = &m->test->thread[thread];
	return own->gpu == other->gpu && (o->scope == LITMUS_GPU || own->block == other->block);
}

static bool is_inclusive(const struct model *m, int a, int b)
{
	return reaches(m, event(m, a), event(m, b)->thread) &&
	       reaches(m, event(m, b), event(m, a)->thread);
}

/* ---- relations ------------------------------------------------------------------------------- */

static void build_order_of_threads(struct model *m)
{
	for (int a = 0; a < m->n; a++)
		for (int b = 0; b < m->n; b++) {
			int thread = event(m, a)->thread;

			if (event(m, b)->thread >= 0 &&
			    (thread < 0 || (thread == event(m, b)->thread && a < b)))
				add(&m->sb, a, b);
			if (event(m, a)->word >= 0 && event(m, a)->word == event(m, b)->word)
				add(&m->same_word, a, b);
		}
}

static void build_communication(struct model *m)
{
	for (int b = 0; b < m->n; b++) {
		if (reads(event(m, b)))
			add(&m->rf, m->execution->from[b], b);
		for (int a = 0; a < m->n; a++)
			if (m->execution->before[b] & BIT(a))
				add(&m->mo, a, b);
	}
	for (int r = 0; r < m->n; r++)
		if (reads(event(m, r)))
			m->rb.row[r] = m->mo.row[m->execution->from[r]] & ~BIT(r);
	m->eco = unite(&m->rf, &m->mo);
	m->eco = unite(&m->eco, &m->rb);
	close_transitively(&m->eco);
}

static void build_sets(struct model *m)
{
	for (int i = 0; i < m->n; i++) {
		if (!(event(m, i)->order & LITMUS_SEQ_CST))
			continue;
		m->sequential |= BIT(i);
		if (event(m, i)->verb == LITMUS_FENCE)
			m->fences |= BIT(i);
	}
}

/* Events that `side` makes part of a pattern around the access `at`: the access itself, and the
 * fences before it (release) or behind it (acquire). */
static uint32_t pattern(const struct model *m, int at, unsigned side)
{
	uint32_t events = event(m, at)->order & side ? BIT(at) : 0;

	for (int f = 0; f < m->n; f++)
		if (event(m, f)->verb == LITMUS_FENCE && event(m, f)->order & side &&
		    (side == LITMUS_RELEASE ? has(&m->sb, f, at) : has(&m->sb, at, f)))
			events |= BIT(f);
	return events;
}

static void synchronise(struct model *m, int store, int read)
{
	uint32_t acquires = pattern(m, read, LITMUS_ACQUIRE);

	for (uint32_t r = pattern(m, store, LITMUS_RELEASE); r; r &= r - 1)
		for (uint32_t a = acquires; a; a &= a - 1)
			if (is_inclusive(m, __builtin_ctz(r), __builtin_ctz(a)))
				add(&m->hb, __builtin_ctz(r), __builtin_ctz(a));
}

static bool is_atomic(const struct model *m, int i)
{
	return event(m, i)->order & LITMUS_ATOMIC;
}

/* From a read back along its release sequence: a store and the read-modify-writes behind it. */
static void synchronise_read(struct model *m, int read)
{
	int at = read;

	do {
		int store = m->execution->from[at];

		if (!is_atomic(m, at) || !is_atomic(m, store) || !is_inclusive(m, store, at))
			return;
		synchronise(m, store, read);
		at = store;
	} while (reads(event(m, at)));
}

static void build_happens_before(struct model *m)
{
	m->hb = m->sb;
	for (int r = 0; r < m->n; r++)
		if (reads(event(m, r)))
			synchronise_read(m, r);
	close_transitively(&m->hb);
}

/* ---- axioms ---------------------------------------------------------------------------------- */

static bool is_coherent(const struct model *m)
{
	struct relation cycle = compose(&m->hb, &m->eco);

	return is_irreflexive(&m->hb) && is_irreflexive(&cycle);
}

/* A store behind a branch on what was read waits for the read: nothing comes from nowhere. */
static bool has_causes(const struct model *m)
{
	struct relation causes = m->rf;

	for (int r = 0; r < m->n; r++)
		for (int s = 0; s < m->n; s++)
			if (reads(event(m, r)) && branches(event(m, r)) && writes(event(m, s)) &&
			    has(&m->sb, r, s))
				add(&causes, r, s);
	return is_acyclic(causes);
}

/* psc_base of RC11. */
static struct relation sequential_base(const struct model *m)
{
	struct relation other_word = minus(&m->sb, &m->same_word);
	struct relation hb_there = minus(&m->hb, &m->same_word);
	struct relation order = minus(&m->hb, &hb_there), around, into, out;
	uint32_t all = UINT32_MAX;

	around = compose(&other_word, &m->hb);
	around = compose(&around, &other_word);
	order = unite(&order, &around);
	order = unite(&order, &m->sb);
	order = unite(&order, &m->mo);
	order = unite(&order, &m->rb);

	into = with_identity(&m->hb);
	out = between(all, &into, m->fences);
	into = between(m->fences, &into, all);
	for (int i = 0; i < m->n; i++)
		if (m->sequential & BIT(i)) {
			add(&into, i, i);
			add(&out, i, i);
		}
	order = compose(&into, &order);
	return compose(&order, &out);
}

/* psc_F of RC11. */
static struct relation sequential_fences(const struct model *m)
{
	struct relation order = compose(&m->hb, &m->eco);

	order = compose(&order, &m->hb);
	order = unite(&order, &m->hb);
	return between(m->fences, &order, m->fences);
}

static bool is_sequential(const struct model *m)
{
	struct relation base, fences;

	if (!m->sequential)
		return true;
	base = sequential_base(m);
	fences = sequential_fences(m);
	base = unite(&base, &fences);
	for (int a = 0; a < m->n; a++)
		for (int b = 0; b < m->n; b++)
			if (has(&base, a, b) && !is_inclusive(m, a, b))
				base.row[a] &= ~BIT(b);
	return is_acyclic(base);
}

/* Two accesses of one word, a store among them, that nothing orders, and that are not both atomic
 * for each other. */
static bool races(const struct model *m)
{
	for (int a = 0; a < m->n; a++)
		for (int b = 0; b < a; b++)
			if (has(&m->same_word, a, b) && event(m, a)->thread >= 0 &&
			    event(m, b)->thread >= 0 &&
			    event(m, a)->thread != event(m, b)->thread &&
			    (writes(event(m, a)) || writes(event(m, b))) && !has(&m->hb, a, b) &&
			    !has(&m->hb, b, a) &&
			    (!is_atomic(m, a) || !is_atomic(m, b) || !is_inclusive(m, a, b)))
				return true;
	return false;
}

/* That a read-modify-write reads from the store right before it is the search's doing. */
unsigned litmus_judge(const struct litmus_test *test, const struct litmus_execution *execution)
{
	struct model m = {.test = test, .execution = execution, .n = execution->nevents};

	build_order_of_threads(&m);
	build_communication(&m);
	build_sets(&m);
	build_happens_before(&m);
	if (!is_coherent(&m) || !has_causes(&m) || !is_sequential(&m))
		return 0;
	return LITMUS_REACHED | (races(&m) ? LITMUS_RACED : 0);
}
