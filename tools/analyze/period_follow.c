/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/belay.h"
#include "tools/analyze/period_follow.h"

/* So many calls in a row that are not as expected are no noise. */
#define STREAK_MAX 4u
/* Of PERIOD_ALIKE, where a call that is unlike the one before says as much. */
#define STREAK_ALIKE_MAX 2u
/* So many repetitions in a row with an unlike call, where such were a third at most, are not the
 * same period any more. */
#define DIRTY_MAX 8u
/* Holes up to this are kept in what is collected; after others it begins anew. */
#define HOLE_FILLED_MAX 256u
/* Stands for a call of which nothing is known; no signature has this value. */
#define HOLE UINT64_MAX
/* A rest shorter than this shows nothing new. */
#define SEARCH_AGAIN_MIN 256u
/* A search takes some 0.1 s; a recording that wants more of them has no period worth the name. */
#define SEARCHES_MAX 64u

int period_follow_init(struct period_follower *f, struct arena *arena)
{
	*f = (struct period_follower){.skip_next = PERIOD_LIST_MAX};
	f->work = arena_alloc(arena, sizeof(*f->work));
	f->collected = arena_alloc(arena, PERIOD_LIST_MAX * sizeof(*f->collected));
	f->again = arena_alloc(arena, PERIOD_LIST_MAX * sizeof(*f->again));
	f->sizes = arena_alloc(arena, PERIOD_LIST_MAX * sizeof(*f->sizes));
	f->border = arena_alloc(arena, PERIOD_LIST_MAX * sizeof(*f->border));
	f->stretches = arena_alloc(arena, PERIOD_STRETCHES_MAX * sizeof(*f->stretches));
	if (!f->work || !f->collected || !f->again || !f->sizes || !f->border || !f->stretches)
		return BELAY_E_NO_MEMORY;
	return 0;
}

void period_follow_restart(struct period_follower *f, uint64_t first_bits)
{
	*f = (struct period_follower){.skip_next = PERIOD_LIST_MAX,
				      .first_bits = first_bits,
				      .work = f->work,
				      .collected = f->collected,
				      .again = f->again,
				      .sizes = f->sizes,
				      .border = f->border,
				      .stretches = f->stretches};
}

/* In and out of step --------------------------------------------------------------------------- */

static struct period_stretch *current(struct period_follower *f)
{
	return &f->stretches[f->nstretches - 1];
}

static uint64_t next_pass(const struct period_follower *f)
{
	const struct period_stretch *last;

	if (f->nstretches == 0)
		return 1;
	last = &f->stretches[f->nstretches - 1];
	return last->first_pass + (last->end_seq - last->first_seq + last->calls - 1) / last->calls;
}

/* `first_seq` began a repetition; `place` calls of it have been seen. */
static void fall_in(struct period_follower *f, uint64_t first_seq, size_t place)
{
	if (f->nstretches == PERIOD_STRETCHES_MAX) {
		f->too_many = 1;
		return;
	}
	f->stretches[f->nstretches] = (struct period_stretch){.first_seq = first_seq,
							      .end_seq = UINT64_MAX,
							      .calls = f->period.calls,
							      .first_pass = next_pass(f),
							      .kind = f->period.kind};
	f->nstretches++;
	f->in_step = 1;
	f->place = place % f->period.calls;
	f->run = place;
	f->run_seq = first_seq;
	f->streak = 0;
	f->alike = place;
	f->doubt_unlike = 0;
	f->clean = f->dirty = f->dirty_row = f->unlike_here = 0;
	f->ncollected = 0;
	f->skip = 0;
	f->skip_next = PERIOD_LIST_MAX;
}

/* What is collected shall begin at `seq`, if it begins before. */
static void forget_before(struct period_follower *f, uint64_t seq)
{
	uint64_t n = f->ncollected && f->collected_seq < seq ? seq - f->collected_seq : 0;

	if (n >= f->ncollected) {
		f->ncollected = n ? 0 : f->ncollected;
		return;
	}
	f->ncollected -= n;
	f->collected_seq += n;
	memmove(f->collected, f->collected + n, f->ncollected * sizeof(*f->collected));
}

/* From `seq` on the calls belong to no repetition; `unlike` of those counted are among them. */
static void fall_out(struct period_follower *f, uint64_t seq, uint64_t unlike)
{
	struct period_stretch *stretch = current(f);

	stretch->end_seq = seq;
	stretch->unlike -= unlike;
	f->in_step = 0;
	f->doubt_unlike = 0;
	forget_before(f, seq);
	if (stretch->end_seq <= stretch->first_seq)
		f->nstretches--;
}

/* The sizes come again ---------------------------------------------------------------------------
 */

static void note_unlike(struct period_follower *f, uint64_t seq)
{
	current(f)->unlike++;
	f->unlike_here++;
	f->alike = 0;
	if (f->streak++ == 0)
		f->streak_seq = seq;
	if (f->doubt_unlike++ == 0)
		f->doubt_seq = seq;
}

static void note_alike(struct period_follower *f)
{
	f->streak = 0;
	if (++f->alike >= f->period.calls)
		f->doubt_unlike = 0;
}

static void next_place(struct period_follower *f)
{
	f->place = (f->place + 1) % f->period.calls;
	if (f->place != 0)
		return;
	if (f->unlike_here == 0) {
		f->clean++;
		f->dirty += f->dirty_row;
		f->dirty_row = 0;
	} else {
		f->dirty_row++;
	}
	f->unlike_here = 0;
}

/* The sizes come, but for some time now not as they came before. */
static int is_worn_out(const struct period_follower *f)
{
	return f->dirty_row >= DIRTY_MAX && f->clean >= DIRTY_MAX && 2 * f->dirty <= f->clean;
}

/* Whether this call ends a whole repetition, wherever it began (Knuth, Morris, Pratt). */
static int ends_repetition(struct period_follower *f, uint64_t signature)
{
	size_t found = f->found;

	while (found && (found == f->period.calls || f->sizes[found] != signature))
		found = f->border[found - 1];
	f->found = f->sizes[found] == signature ? found + 1 : 0;
	return f->found == f->period.calls;
}

static void follow_sizes(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	int whole = ends_repetition(f, signature);
	uint64_t began = seq + 1 - f->period.calls;

	if (f->in_step) {
		if (f->sizes[f->place] == signature)
			note_alike(f);
		else
			note_unlike(f, seq);
		next_place(f);
		if (f->streak >= STREAK_MAX)
			fall_out(f, f->streak_seq, f->streak);
		else if (is_worn_out(f) && f->doubt_unlike)
			fall_out(f, f->doubt_seq, f->doubt_unlike);
		else if (whole && f->place != 0 && f->doubt_unlike)
			fall_out(f, f->doubt_seq < began ? f->doubt_seq : began, f->doubt_unlike);
	}
	if (whole && !f->in_step)
		fall_in(f, began, f->period.calls);
}

/* So many are alike ------------------------------------------------------------------------------
 */

static void begin_run(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	f->last = signature;
	f->run = 0;
	f->run_seq = seq;
	f->streak = 0;
}

/* In step, and not like the run though it has to go on. */
static void follow_odd(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	uint64_t whole = f->run / f->period.calls * f->period.calls;

	note_unlike(f, seq);
	next_place(f);
	f->run++;
	if (f->streak < STREAK_ALIKE_MAX)
		return;
	fall_out(f, f->run_seq + whole, f->streak);
	begin_run(f, f->streak_seq, signature);
	f->run = STREAK_ALIKE_MAX;
}

static void follow_alike(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	if (f->in_step && f->place != 0 && signature != f->last) {
		follow_odd(f, seq, signature);
		return;
	}
	if (signature != f->last || f->run == 0)
		begin_run(f, seq, signature);
	f->run++;
	if (f->in_step) {
		note_alike(f);
		next_place(f);
	} else if (f->run == f->period.calls) {
		fall_in(f, seq + 1 - f->period.calls, f->period.calls);
	}
}

/* Finding it -------------------------------------------------------------------------------------
 */

static void follow(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	if (f->period.kind == PERIOD_SIZES)
		follow_sizes(f, seq, signature);
	else if (f->period.kind == PERIOD_ALIKE)
		follow_alike(f, seq, signature);
}

/* How far before `from` the list is in step already: up to a streak of others. */
static size_t anchor_of(const uint64_t *list, const struct period *period)
{
	size_t streak = 0, calls = period->calls;

	for (size_t i = period->from; i > 0; i--) {
		size_t back = period->from - (i - 1);
		size_t like = period->from + (calls - back % calls) % calls;

		streak = list[i - 1] == list[like] || list[i - 1] == HOLE ? 0 : streak + 1;
		if (streak == STREAK_MAX || (streak && i == 1))
			return i - 1 + streak;
	}
	return 0;
}

/* How many calls of a repetition that begins `shift` after the place `from` are like the old
 * period's first. */
static size_t common_beginning(const struct period_follower *f, const uint64_t *list,
			       const struct period *period, size_t old_calls, size_t shift)
{
	size_t n = 0;

	while (n < period->calls && n < old_calls &&
	       f->sizes[n] == list[period->from + (n + shift) % period->calls])
		n++;
	return n;
}

/* A new period that begins like the old one shall be cut where the old one is. Returns how far
 * after `anchor` that is. */
static size_t align_to_old(const struct period_follower *f, const uint64_t *list,
			   const struct period *period, size_t anchor)
{
	size_t calls = period->calls, best = 0, longest = 0;
	size_t back = (period->from - anchor) % calls;

	for (size_t shift = 0; f->nstretches && shift < calls; shift++) {
		size_t n = common_beginning(f, list, period, f->period.calls,
					    (shift + calls - back) % calls);

		if (n > longest) {
			longest = n;
			best = shift;
		}
	}
	return best;
}

/* The anchor moved on to where the only call stands that is marked as the first of a repetition;
 * or back, past a few calls that are unlike: of the very first one no pause is known. */
static size_t align_to_first(const struct period_follower *f, const uint64_t *list,
			     const struct period *period, size_t anchor)
{
	size_t calls = period->calls, marked = 0, at = 0, aligned;

	for (size_t i = 0; i < calls; i++) {
		if (list[period->from + i] != HOLE && list[period->from + i] & f->first_bits) {
			marked++;
			at = period->from + i;
		}
	}
	if (marked != 1)
		return anchor;
	aligned = anchor + (at % calls + calls - anchor % calls) % calls;
	return aligned >= calls && aligned - calls + STREAK_MAX > anchor ? aligned - calls
									 : aligned;
}

/* Takes the sizes of one repetition, as cut at `anchor`. */
static void take_sizes(struct period_follower *f, const uint64_t *list, size_t anchor)
{
	size_t calls = f->period.calls, from = f->period.from, length = 0;
	size_t ahead = (anchor + calls - from % calls) % calls;

	for (size_t i = 0; i < calls; i++)
		f->sizes[i] = list[from + (i + ahead) % calls];
	f->border[0] = 0;
	for (size_t i = 1; i < calls; i++) {
		while (length && f->sizes[i] != f->sizes[length])
			length = f->border[length - 1];
		if (f->sizes[i] == f->sizes[length])
			length++;
		f->border[i] = length;
	}
	f->found = 0;
}

static void collect(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	if (f->ncollected == 0)
		f->collected_seq = seq;
	if (f->ncollected < PERIOD_LIST_MAX)
		f->collected[f->ncollected++] = signature;
}

/* Calls of whose sizes nothing is known. */
static void skip_places(struct period_follower *f, uint64_t calls)
{
	f->found = 0;
	if (f->in_step)
		f->place = (size_t)((f->place + calls) % f->period.calls);
	if (f->in_step && f->period.kind == PERIOD_ALIKE)
		f->run += calls;
	else
		f->run = 0;
}

/* Keeps the call for a search, if there may be one. */
static void keep(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	if (f->in_step && !f->doubt_unlike)
		f->ncollected = 0;
	else
		collect(f, seq, signature);
}

/* Goes through the collected calls once more, now that there is a period. */
static void go_again(struct period_follower *f, size_t anchor)
{
	uint64_t *list = f->collected;
	uint64_t seq = f->collected_seq;
	size_t n = f->ncollected;

	f->collected = f->again;
	f->again = list;
	f->ncollected = 0;
	f->run = 0;
	for (size_t i = 0; i < n; i++) {
		if (i == anchor && !f->in_step)
			fall_in(f, seq + i, 0);
		if (list[i] == HOLE) {
			skip_places(f, 1);
			keep(f, seq + i, list[i]);
			continue;
		}
		follow(f, seq + i, list[i]);
		keep(f, seq + i, list[i]);
	}
}

/* Returns 1 if the collected calls have shown a period. */
static int search(struct period_follower *f)
{
	struct period period;
	size_t anchor;

	if (f->searches++ >= SEARCHES_MAX)
		return 0;
	period_search(f->collected, f->ncollected, f->work, &period);
	if (period.kind == PERIOD_NONE)
		return 0;
	anchor = period.from;
	if (period.kind == PERIOD_SIZES) {
		anchor = anchor_of(f->collected, &period);
		if (f->first_bits)
			anchor = align_to_first(f, f->collected, &period, anchor);
		else if (f->period.kind == PERIOD_SIZES)
			anchor += align_to_old(f, f->collected, &period, anchor);
	}
	f->period = period;
	if (period.kind == PERIOD_SIZES)
		take_sizes(f, f->collected, anchor);
	go_again(f, anchor);
	return 1;
}

/* Out of step: collects, searches when enough is there; after each search in vain less often. */
static void seek(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	if (f->skip) {
		f->skip--;
		return;
	}
	collect(f, seq, signature);
	if (f->ncollected < PERIOD_LIST_MAX || f->too_many || search(f))
		return;
	f->ncollected = 0;
	f->skip = f->skip_next;
	if (f->skip_next < UINT64_MAX / 2)
		f->skip_next *= 2;
}

static void pass_hole(struct period_follower *f, uint64_t hole)
{
	if (hole > HOLE_FILLED_MAX && !f->in_step && f->ncollected >= SEARCH_AGAIN_MIN)
		(void)search(f);
	skip_places(f, hole);
	if (hole > HOLE_FILLED_MAX)
		f->ncollected = 0;
	for (uint64_t i = 0; f->ncollected && i < hole; i++)
		collect(f, f->next_seq + i, HOLE);
}

void period_follow_call(struct period_follower *f, uint64_t seq, uint64_t signature)
{
	if (f->calls == 0)
		f->first_seq = seq;
	else if (seq > f->next_seq)
		pass_hole(f, seq - f->next_seq);
	f->next_seq = seq + 1;
	f->calls++;
	follow(f, seq, signature);
	if (f->in_step)
		keep(f, seq, signature);
	else
		seek(f, seq, signature);
}

void period_follow_finish(struct period_follower *f)
{
	while (!f->in_step && !f->too_many &&
	       (f->nstretches == 0 || f->ncollected >= SEARCH_AGAIN_MIN) && search(f))
		;
}
