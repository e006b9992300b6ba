/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict word and the rescue word of a communicator. Pure: words in, words out; who reads,
 * compares and swaps is watcher.c (and the cluster fixture).
 *
 *             cause                    all ranks are done
 *   NONE ----------------> PROPOSED ------------------------> WITHDRAWN
 *                           ^    |                                |
 *                           |    | some rank is not done          |
 *                           |    +------------------> DECIDED     |
 *                           +-------------------------------------+
 *                               cause, for a later turn
 *
 *   From        Event                              To          [function]
 *   NONE        a cause, first open turn t         PROPOSED t  [verdict_propose]
 *   WITHDRAWN s a cause, first open turn t > s     PROPOSED t  [verdict_propose]
 *   PROPOSED t  done words re-read, all have t     WITHDRAWN t [verdict_settle]
 *   PROPOSED t  done words re-read, one lacks t    DECIDED t   [verdict_settle]
 *
 * NONE       nothing has failed; passes commit
 * PROPOSED   somebody wants turn t to fail; nobody reports it; whoever meets it settles it first
 *            (V3)
 * DECIDED    turn t has failed, the same on every rank, for ever; calls return it
 * WITHDRAWN  all ranks were done with t after all; t stays in the word, so that an old proposal for
 *            it can never come back (V1)
 */
#ifndef BELAY_RUNTIME_OUTCOME_VERDICT_H
#define BELAY_RUNTIME_OUTCOME_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

/* Sets of ranks are 64-bit masks: bit r for rank r. */
static inline uint64_t rank_bit(unsigned rank)
{
	return UINT64_C(1) << rank;
}

static inline uint64_t ranks_below(unsigned nranks)
{
	return nranks >= 64 ? UINT64_MAX : rank_bit(nranks) - 1;
}

enum verdict_state {
	VERDICT_NONE = 0,
	VERDICT_PROPOSED = 1,
	VERDICT_DECIDED = 2,
	VERDICT_WITHDRAWN = 3
};

/* Turns fit 54 bits: 500 years at a million turns a second. */
#define VERDICT_TURN_MAX ((UINT64_C(1) << 54) - 1)

static inline uint64_t verdict_pack(enum verdict_state state, uint64_t turn, unsigned proposer)
{
	return (uint64_t)state << 62 | (turn & VERDICT_TURN_MAX) << 8 | (proposer & 0xff);
}

static inline enum verdict_state verdict_state(uint64_t word)
{
	return (enum verdict_state)(word >> 62);
}

static inline uint64_t verdict_turn(uint64_t word)
{
	return word >> 8 & VERDICT_TURN_MAX;
}

static inline unsigned verdict_proposer(uint64_t word)
{
	return (unsigned)(word & 0xff);
}

static inline bool verdict_decided(uint64_t word)
{
	return verdict_state(word) == VERDICT_DECIDED;
}

/* The progress of all ranks as read at some time; in any order, each word by itself. */
struct progress {
	unsigned nranks;
	uint64_t dead; /* mask; read before the words, so that a dead rank's words are final */
	bool donation; /* a dead rank's retained input can be read (L3) */
	uint64_t staged[64]; /* of a dead rank: what it is agreed to have left whole */
	uint64_t pushed[64];
	uint64_t results[64];
	uint64_t done[64];
};

/* The turn a rank counts as done with: a dead rank's staged turn counts, for its input is
 * donated (L3). */
uint64_t progress_done(const struct progress *progress, unsigned rank);

/* The turn a rank counts as having staged: max(staged, done) (P1). */
uint64_t progress_staged(const struct progress *progress, unsigned rank);

/* The first turn that not all ranks are done with: 1 + min over ranks (V2). */
uint64_t progress_first_open(const struct progress *progress);

/* True when all ranks count as done with turn. */
bool progress_all_done(const struct progress *progress, uint64_t turn);

/* True when every rank has staged turn, so that it can be rescued (R1). */
bool progress_all_staged(const struct progress *progress, uint64_t turn);

/* The lowest dead rank whose input of turn nobody can have from it: not staged, or not to be read
 * by others. -1: none. A turn that is open and lacks a dead rank's input can never be finished. */
int progress_dead_lacks(const struct progress *progress, uint64_t turn);

/* Rule V1: may `turn` be proposed over `word`? Then *ret_word is the new word. */
bool verdict_propose(uint64_t word, uint64_t turn, unsigned proposer, uint64_t *ret_word);

/* Rule V3: what becomes of a PROPOSED word, given progress read after it (behind a seq_cst
 * fence). */
uint64_t verdict_settle(uint64_t word, const struct progress *progress);

enum commit_state { COMMIT_WAIT, COMMIT_SETTLE, COMMIT_DONE, COMMIT_FAILED };

/* Rules C1 and C2: may a pass whose last turn is `turn` be committed? `word` was read after
 * `progress`, behind a seq_cst fence. COMMIT_SETTLE: a proposal up to `turn` stands, settle it
 * and ask again. */
enum commit_state verdict_commit(uint64_t word, const struct progress *progress, uint64_t turn);

/* The rescue word: (turn, attempt, who began it). 0: no rescue so far.
 *
 * Ordering contract [RESCUE]
 *
 *   watcher that begins an attempt         any watcher
 *   relaxed stores: rescue_members, _lost,
 *   _gather, by (turn + attempt) parity
 *   (1) CAS of the word, seq_cst     --->  (2) load-acquire of the word
 *                                          loads of the beginner's words of that parity
 *
 * If (2) reads what (1) wrote, the words are of this attempt or, when its turn is over, perhaps of
 * a later one: whoever joins looks at the done words after them.
 */
static inline uint64_t rescue_pack(uint64_t turn, unsigned attempt, unsigned rank)
{
	return (turn & VERDICT_TURN_MAX) << 10 | (uint64_t)(attempt & 0xf) << 6 | (rank & 0x3f);
}

static inline uint64_t rescue_turn(uint64_t word)
{
	return word >> 10;
}

static inline unsigned rescue_attempt(uint64_t word)
{
	return (unsigned)(word >> 6 & 0xf);
}

static inline unsigned rescue_rank(uint64_t word)
{
	return (unsigned)(word & 0x3f);
}

/* Attempts for one turn: each follows a death, or the one failure of NCCL, so with up to 16 ranks
 * on devices there are enough; 15 is the most the word holds. */
#define RESCUE_ATTEMPTS_MAX 15

#endif /* BELAY_RUNTIME_OUTCOME_VERDICT_H */
