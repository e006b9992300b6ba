/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/group/control_view.h"

#include <stdio.h>

#include "runtime/communicator.h"
#include "runtime/cuda/block_words.h"
#include "runtime/cuda/posted_words.h"
#include "runtime/outcome/verdict.h"

/* Relaxed: a number to be shown, by itself. */
static uint64_t shown(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/* Since a rank's watcher wrote the word. Of a rank that has not come yet, which can be seen of a
 * creation that hangs: since rank 0 came, which has described the segment by then. */
static uint64_t age(uint64_t now_ns, const _Atomic uint64_t *word, const _Atomic uint64_t *begun)
{
	uint64_t then_ns = shown(word);

	if (!then_ns)
		then_ns = shown(begun);
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Where kernels count, the words of the calling thread stand still: seqs come from the newest
 * turn's description, which may be torn by the next one's. */
static void view_kernels(const struct control_segment *segment, unsigned rank,
			 struct belay_rank_health *health)
{
	const struct control_rank *one = &segment->rank[rank];
	uint64_t staged = control_view_staged(segment, rank);
	uint64_t done = control_view_done(segment, rank);
	const struct control_call *call = &one->call[(staged > done ? staged : done) & 1];

	if (call->seq < health->seq)
		return; /* no turn yet */
	health->seq = call->seq;
	health->done_seq = done >= call->last_turn ? call->seq : call->seq - 1;
	health->in_call = staged > done;
}

uint64_t control_view_done(const struct control_segment *segment, unsigned rank)
{
	/* [PROGRESS] (2). */
	uint64_t done = atomic_load_explicit(&segment->rank[rank].done, memory_order_acquire);
	uint64_t by_blocks;

	if (!segment->head->for_device || !segment->device)
		return done;
	by_blocks = block_words_done(segment->device[rank].posts.block);
	return by_blocks > done ? by_blocks : done;
}

/* P1: what the rank's step word says and what its kernels' blocks say together. */
static uint64_t reached(const struct control_segment *segment, unsigned rank,
			const _Atomic uint64_t *word, enum symm_block_state step)
{
	/* [PROGRESS] (2). */
	uint64_t turn = atomic_load_explicit(word, memory_order_acquire), by_blocks;

	if (!segment->head->for_device || !segment->device)
		return turn;
	by_blocks = block_words_reached(segment->device[rank].posts.block, step);
	return by_blocks > turn ? by_blocks : turn;
}

uint64_t control_view_staged(const struct control_segment *segment, unsigned rank)
{
	return reached(segment, rank, &segment->rank[rank].staged, SYMM_BLOCK_STAGED);
}

uint64_t control_view_pushed(const struct control_segment *segment, unsigned rank)
{
	return reached(segment, rank, &segment->rank[rank].pushed, SYMM_BLOCK_PUSHED);
}

uint64_t control_view_results(const struct control_segment *segment, unsigned rank)
{
	return reached(segment, rank, &segment->rank[rank].results, SYMM_BLOCK_RESULTS);
}

uint64_t control_view_pass(const struct control_segment *segment, unsigned rank)
{
	if (!segment->head->for_device || !segment->device)
		return shown(&segment->rank[rank].pass);
	return post_load(&segment->device[rank].posts.pass_begun);
}

void control_view_rank(const struct control_segment *segment, unsigned rank, uint64_t now_ns,
		       struct belay_rank_health *ret_health)
{
	const struct control_rank *one = &segment->rank[rank];
	const _Atomic uint64_t *begun = &segment->rank[0].progress_ns;

	ret_health->seq = shown(&one->seq);
	ret_health->done_seq = shown(&one->done_seq);
	ret_health->age_ns = age(now_ns, &one->progress_ns, begun);
	ret_health->heartbeat_age_ns = age(now_ns, &one->heartbeat_ns, begun);
	/* Relaxed: as in shown(). */
	ret_health->pid = atomic_load_explicit(&one->pid, memory_order_relaxed);
	ret_health->dead = (int)(shown(&segment->head->dead) >> rank & 1);
	ret_health->left = atomic_load_explicit(&one->state, memory_order_relaxed) == CONTROL_LEFT;
	ret_health->in_call = (int)shown(&one->in_call);
	ret_health->world_rank =
		segment->head->world.nranks ? segment->head->world.rank[rank] : (int)rank;
	if (segment->head->for_device && segment->device)
		view_kernels(segment, rank, ret_health);
}

enum belay_path control_view_path(const struct control_segment *segment)
{
	uint64_t word = shown(&segment->head->path_switch);

	return word ? (enum belay_path)(word & 0xff) : (enum belay_path)segment->head->first_path;
}

int control_view_verdict(const struct control_segment *segment, struct belay_verdict *ret_verdict)
{
	/* Acquire: the proposer's cause line was written before the word (V1), and stays. */
	uint64_t word = atomic_load_explicit(&segment->head->verdict, memory_order_acquire);
	unsigned proposer = verdict_proposer(word);
	const struct control_cause *cause;

	/* The range is checked for a segment of another process, which is not trusted. */
	if (!verdict_decided(word) || proposer >= segment->nranks)
		return 0;
	cause = &segment->rank[proposer].cause;
	ret_verdict->seq = cause->seq;
	ret_verdict->pass = cause->pass;
	ret_verdict->cause = (enum belay_cause)cause->cause;
	ret_verdict->status = comm_cause_status(ret_verdict->cause);
	ret_verdict->rank = cause->culprit;
	ret_verdict->proposer = (int)proposer;
	snprintf(ret_verdict->text, sizeof(ret_verdict->text), "%.*s", CONTROL_TEXT_BYTES,
		 cause->text);
	return 1;
}
