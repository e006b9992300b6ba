/* SPDX-License-Identifier: Apache-2.0 */
/* The points of a story in sentences. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "tools/analyze/story.h"
#include "tools/analyze/words.h"

/* A sentence being put together; what does not fit is cut. */
struct sentence {
	char *text;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *sentence, const char *format,
						      ...)
{
	size_t room = STORY_SENTENCE_BYTES - sentence->used;
	va_list arguments;
	int written;

	va_start(arguments, format);
	written = vsnprintf(sentence->text + sentence->used, room, format, arguments);
	va_end(arguments);
	if (written > 0)
		sentence->used += (size_t)written < room ? (size_t)written : room - 1;
}

static const char *path_name(uint8_t path)
{
	return path ? belay_path_name(path) : "another path";
}

static void say_place(struct sentence *s, uint64_t seq, uint64_t pass)
{
	char place[WORDS_PLACE_BYTES];

	say(s, "%s", words_place(seq, pass, place));
}

static void say_time(struct sentence *s, uint64_t ns)
{
	char time[WORDS_TIME_BYTES];

	say(s, "%s", words_time(ns, time));
}

/* "rank 2", "ranks 0,1" */
static void say_ranks(struct sentence *s, uint64_t ranks)
{
	char text[WORDS_RANKS_BYTES];

	say(s, "rank%s %s", ranks & (ranks - 1) ? "s" : "", words_ranks(ranks, text));
}

/* "in seq 5", "in 7 calls from seq 5 (pass 1) to seq 90 (pass 3)" */
static void say_calls(struct sentence *s, const struct story_point *point)
{
	if (point->count <= 1) {
		say(s, "in ");
		say_place(s, point->seq, point->pass);
		return;
	}
	say(s, "in %" PRIu64 " calls from ", point->count);
	say_place(s, point->seq, point->pass);
	say(s, " to ");
	say_place(s, point->last_seq, point->last_pass);
}

/* The verdict ---------------------------------------------------------------------------------- */

/* What is said of each cause: with the rank at fault, without, and what to look at. */
static const struct {
	const char *rank;
	const char *nobody;
	const char *look;
} verdicts[] = {
	[BELAY_CAUSE_PEER_LOST] = {"Rank %d died", "A rank died",
				   "why its process ended: its last output, its exit status, the "
				   "kernel's log"},
	[BELAY_CAUSE_PEER_STUCK] = {"Rank %d did not come within the hard deadline",
				    "A rank did not come within the hard deadline",
				    "what its process was doing: stopped, waiting or busy with "
				    "something else"},
	[BELAY_CAUSE_MISMATCH] = {"Rank %d called something else than the others",
				  "The ranks called different things",
				  "what its program did before that call; no output was written"},
	[BELAY_CAUSE_GPU_FAULT] = {"The GPU of rank %d failed", "A GPU failed",
				   "that GPU's errors in the kernel's log"},
	[BELAY_CAUSE_NCCL_FAILED] = {"NCCL failed at rank %d", "NCCL failed",
				     "what NCCL logs with NCCL_DEBUG=WARN"},
	[BELAY_CAUSE_ABORTED] = {"The program of rank %d aborted the communicator",
				 "A program aborted the communicator",
				 "why it did; belay did as it was told"},
	[BELAY_CAUSE_INTERNAL] = {"belay itself failed at rank %d", "belay itself failed",
				  "nothing else: report this with the recording"},
};
#define VERDICTS ((int)(sizeof(verdicts) / sizeof(verdicts[0])))

static void say_verdict(struct sentence *s, const struct story_point *point)
{
	int cause = point->cause > 0 && point->cause < VERDICTS && verdicts[point->cause].look
			    ? point->cause
			    : BELAY_CAUSE_INTERNAL;

	if (point->rank >= 0)
		say(s, verdicts[cause].rank, point->rank);
	else
		say(s, "%s", verdicts[cause].nobody);
	say(s, " in ");
	say_place(s, point->seq, point->pass);
	say(s, ", and the communicator ended there");
	if (point->ranks) {
		say(s, ", as ");
		say_ranks(s, point->ranks);
		say(s, " tell%s", point->ranks & (point->ranks - 1) ? "" : "s");
	}
	say(s, ". Look at %s.", verdicts[cause].look);
}

static void say_digests(struct sentence *s, const struct story_point *point)
{
	if (point->few_ranks) {
		say(s, "The two ranks' outputs differ ");
		say_calls(s, point);
		say(s, ", and which is right cannot be told. Look at the memory of both.");
		return;
	}
	say(s, "The output of ");
	say_ranks(s, point->ranks);
	say(s, " is not that of the others ");
	say_calls(s, point);
	say(s,
	    ": data was damaged after it was sent, and all ranks were told success. Look at %s "
	    "memory and GPU, and at what was made of these results.",
	    point->rank >= 0 ? "its" : "their");
}

/* Rescues and paths -------------------------------------------------------------------------------
 */

/* What was missing is not always known: then who was stuck is. */
static void say_lost_writes(struct sentence *s, const struct story_point *point)
{
	if (point->ranks) {
		say(s, "The data of ");
		say_ranks(s, point->ranks);
		say(s, " was sent and did not arrive");
		if (point->others) {
			say(s, " at ");
			say_ranks(s, point->others);
		}
		say(s, " ");
	} else {
		say(s, point->count > 1 ? "Calls were stuck " : "A call was stuck ");
	}
	say_calls(s, point);
	if (point->every)
		say(s, ", every %" PRIu64 " calls", point->every);
	say(s, ". belay finished %s over %s, within ", point->count > 1 ? "each" : "the call",
	    path_name(point->path));
	say_time(s, point->ns);
	if (point->other_ns) {
		say(s, " after a wait of %s", point->count > 1 ? "up to " : "");
		say_time(s, point->other_ns);
	}
	say(s, ", with the right result. Look at the links and GPUs between these ranks.");
}

static void say_change(struct sentence *s, const struct story_point *point)
{
	say(s, "from seq %" PRIu64 " on calls took %s in place of %s", point->from_seq,
	    path_name(point->path), path_name(point->other_path));
	if (point->until_seq)
		say(s, ", until seq %" PRIu64, point->until_seq);
	say(s, "; %" PRIu64 " calls in all", point->of);
	if (point->goes_on)
		say(s, ", the last ones too");
	else
		say(s, ", and the recording ends on %s", path_name(point->last_path));
}

static void say_breaker(struct sentence *s, const struct story_point *point)
{
	say(s, "So many rescues opened the breaker %s seq %" PRIu64,
	    point->count > 1 ? "several times, first in" : "in", point->seq);
	if (point->from_seq) {
		say(s, ": ");
		say_change(s, point);
	} else {
		say(s, ": until it closes, calls stay on their path and are rescued without delay");
	}
	say(s, ". Results stay right; calls are slower until the first path works again.");
}

static void say_path_change(struct sentence *s, const struct story_point *point)
{
	say(s, "The path changed though no breaker is recorded: ");
	say_change(s, point);
	say(s, ". Look at what trace-analyze faults tells around it.");
}

static void say_path_refused(struct sentence *s, const struct story_point *point)
{
	say(s, "From the start on calls took %s in place of %s", path_name(point->path),
	    path_name(point->other_path));
	if (point->text)
		say(s, ": %.320s", point->text);
	say(s, ". Look at belay-info --probe.");
}

/* Who was waited for
 * ------------------------------------------------------------------------------- */

static void say_late(struct sentence *s, const struct story_point *point)
{
	char ranks[WORDS_RANKS_BYTES];

	say(s, "Rank%s %s %s late ", point->rank >= 0 ? "" : "s", words_ranks(point->ranks, ranks),
	    point->rank >= 0 ? "was" : "were");
	say_calls(s, point);
	say(s, ", past the soft deadline, by up to ");
	say_time(s, point->ns);
	if (point->rank < 0)
		say(s, ", rank %d most often, in %" PRIu64, point->most_rank, point->most_count);
	say(s, ". The others waited and nothing broke. Look at what %s.",
	    point->rank >= 0 ? "it did before these calls"
			     : "they share: CPUs, clock rates, other work");
}

static void say_straggler(struct sentence *s, const struct story_point *point)
{
	say(s, "Rank %d kept being the last to arrive", point->rank);
	if (point->seq) {
		say(s, " since ");
		say_place(s, point->seq, point->pass);
	}
	if (!point->goes_on) {
		say(s, " until ");
		say_place(s, point->last_seq, point->last_pass);
	}
	say(s, ": in %.0f %% of the calls, ", 100.0 * (double)point->count / (double)point->of);
	say_time(s, point->ns);
	say(s, " behind the others in the median, where a call takes ");
	say_time(s, point->other_ns);
	say(s, ". Look at what it does between calls: its clock rate, its CPU, its share of the "
	       "work.");
}

static void say_in_turn(struct sentence *s, const struct story_point *point)
{
	char ranks[WORDS_RANKS_BYTES];

	say(s,
	    "Ranks %s were in turn the last to arrive: in %" PRIu64 " of %" PRIu64
	    " passes one of them was last in most calls, but not the same, by ",
	    words_ranks(point->ranks, ranks), point->count, point->of);
	say_time(s, point->ns);
	say(s, " or more in the median, where a call takes ");
	say_time(s, point->other_ns);
	say(s, ". Look at work that moves from rank to rank.");
}

static void say_unseen(struct sentence *s, uint64_t ranks)
{
	say(s, ", most of that in the calls; for whom is not known, since records of ");
	say_ranks(s, ranks);
	say(s, " are missing there. Look at trace-analyze passes.");
}

static void say_slow_passes(struct sentence *s, const struct story_point *point)
{
	say(s,
	    "%" PRIu64 " of %" PRIu64 " passes %s slow without any fault: pass %" PRIu64 " took ",
	    point->count, point->of, point->count == 1 ? "was" : "were", point->pass);
	say_time(s, point->ns);
	say(s, " where ");
	say_time(s, point->other_ns);
	say(s, " is the median");
	if (point->rank >= 0)
		say(s, ", and %s for rank %d. Look at what that rank did then.",
		    point->count == 1 ? "it waited" : "the slow ones waited", point->rank);
	else if (point->in_calls && point->others)
		say_unseen(s, point->others);
	else if (point->in_calls)
		say(s, ", most of that in the calls, but for no one rank. Look at trace-analyze "
		       "passes.");
	else
		say(s, "; most of that went by between calls, not in them. Look at the program.");
}

/* The data ----------------------------------------------------------------------------------------
 */

static void say_clocks(struct sentence *s, const struct story_point *point)
{
	if (point->ranks) {
		say(s, "The clock%s of ", point->rank >= 0 ? "" : "s");
		say_ranks(s, point->ranks);
		say(s, " %s not that of the others: times were aligned by who can have seen whom",
		    point->rank >= 0 ? "is" : "are");
	} else {
		say(s, "The ranks' clocks differ");
	}
	if (point->count)
		say(s,
		    "; in %" PRIu64 " calls they contradict each other, and who was last there "
		    "is not known",
		    point->count);
	say(s, ".");
}

static void say_no_data(struct sentence *s, const struct story_point *point)
{
	say(s, "There is no data of ");
	say_ranks(s, point->ranks);
	say(s, ": what %s is known only as far as the others saw it. Look for the log.",
	    point->rank >= 0 ? "it did" : "they did");
}

static void say_lost_records(struct sentence *s, const struct story_point *point)
{
	say(s, "%" PRIu64 " records of ", point->count);
	say_ranks(s, point->ranks);
	say(s, " were made and are not here: what happened in them is known only as far as other "
	       "ranks saw it.");
}

const char *story_words(const struct story_point *point, char buffer[STORY_SENTENCE_BYTES])
{
	static void (*const sayers[])(struct sentence *, const struct story_point *) = {
		[STORY_VERDICT] = say_verdict,
		[STORY_DIGEST] = say_digests,
		[STORY_LOST_WRITES] = say_lost_writes,
		[STORY_BREAKER] = say_breaker,
		[STORY_PATH_REFUSED] = say_path_refused,
		[STORY_PATH_CHANGE] = say_path_change,
		[STORY_LATE] = say_late,
		[STORY_LATE_ALL] = say_late,
		[STORY_STRAGGLER] = say_straggler,
		[STORY_STRAGGLERS_IN_TURN] = say_in_turn,
		[STORY_SLOW_PASSES] = say_slow_passes,
		[STORY_CLOCKS] = say_clocks,
		[STORY_NO_DATA] = say_no_data,
		[STORY_LOST_RECORDS] = say_lost_records,
	};
	struct sentence sentence = {buffer, 0};

	buffer[0] = '\0';
	if (point->what == STORY_VERDICTS_DIFFER)
		say(&sentence,
		    "The ranks tell different verdicts: that is a bug in belay, to be reported.");
	else
		sayers[point->what](&sentence, point);
	return buffer;
}
