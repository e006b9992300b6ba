/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/log_scenario.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define FIELD(name) { #name, offsetof(struct log_scenario, name) }
static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	FIELD(seed), FIELD(ranks), FIELD(passes), FIELD(calls), FIELD(count), FIELD(dtype), FIELD(path),
	FIELD(marks), FIELD(first_seq), FIELD(digests), FIELD(pattern), FIELD(noise),
	FIELD(break_pass), FIELD(break_calls), FIELD(break_period),
	FIELD(jitter_ns), FIELD(enqueue_ns), FIELD(hiccups), FIELD(late_ns),
	FIELD(straggler), FIELD(straggler_ns), FIELD(straggler_from), FIELD(straggler_to), FIELD(rotate),
	FIELD(slow_pass), FIELD(slow_every), FIELD(slow_rank), FIELD(slow_ns),
	FIELD(rescue_seq), FIELD(rescue_every), FIELD(rescue_stuck), FIELD(rescue_lost), FIELD(rescue_ns),
	FIELD(breaker), FIELD(breaker_calls), FIELD(switch_seq), FIELD(switch_path), FIELD(switch_back),
	FIELD(mismatch_seq), FIELD(mismatch_rank), FIELD(kill_seq), FIELD(kill_rank), FIELD(salvage),
	FIELD(stuck_seq), FIELD(stuck_rank), FIELD(give_up_ns), FIELD(digest_seq), FIELD(digest_rank),
	FIELD(clock_rank), FIELD(clock_offset_ns), FIELD(clock_drift_ppb),
	FIELD(clocks_offset_ns), FIELD(clocks_drift_ppb),
	FIELD(missing), FIELD(partial_rank), FIELD(partial_first), FIELD(partial_last), FIELD(open_rank),
	FIELD(lost_rank), FIELD(lost_seq), FIELD(lost_count),
	FIELD(block), FIELD(tick_ns), FIELD(file_bytes), FIELD(keep),
};

const struct log_cause log_causes[] = {
	{ "healthy", "", "nothing went wrong; no rank stands out" },
	{ "straggler", "straggler=5 straggler_ns=60000",
	  "rank 5 is the last to arrive in nearly every call, by 60 us, from the first call on" },
	{ "straggler-since", "passes=40 straggler=5 straggler_ns=60000 straggler_from=2441",
	  "rank 5 is the last to arrive by 60 us since seq 2441, the first call of pass 21" },
	{ "rotating", "passes=80 straggler=0 straggler_ns=60000 rotate=122",
	  "in every pass another rank is the last by 60 us, all in turn: pass P waits for rank (P - 1) mod 8" },
	{ "slow-pass", "passes=2000 slow_pass=700 slow_every=1000 slow_rank=3 slow_ns=400000",
	  "the passes 700 and 1700 are slow, by 49 ms; both wait for rank 3" },
	{ "late", "straggler=6 straggler_ns=14000000 straggler_from=500 straggler_to=509",
	  "rank 6 misses the soft deadline in the ten calls from seq 500, by 14 ms" },
	{ "lost-writes", "passes=400 rescue_seq=10000 rescue_every=10000 rescue_stuck=2 rescue_lost=3",
	  "each 10000 calls the data of rank 3 is lost on its way to rank 2, which is rescued over the ring and so is late for the next call" },
	{ "breaker", "passes=37 rescue_seq=1000 rescue_every=200 rescue_stuck=-1 rescue_lost=3 breaker=3 breaker_calls=3000",
	  "the data of rank 3 is lost in seq 1000, 1200, 1400; the breaker opens, from seq 1402 on all take the ring, from 4402 on symm again" },
	{ "path-change", "passes=40 switch_seq=2000 switch_path=4 switch_back=4000",
	  "the calls from seq 2000 to 3999 take the ring" },
	{ "peer-death", "block=100 kill_seq=700 kill_rank=2 salvage=0",
	  "rank 2 dies before it has staged seq 700; its last 99 records are lost" },
	{ "peer-death-saved", "kill_seq=700 kill_rank=2",
	  "rank 2 dies before it has staged seq 700; rank 0 saves its records" },
	{ "stuck-peer", "stuck_seq=700 stuck_rank=2",
	  "rank 2 does not come to seq 700 within the hard deadline of 30 s" },
	{ "mismatch", "mismatch_seq=300 mismatch_rank=2",
	  "in seq 300 rank 2 calls with twice the count of the others" },
	{ "digest", "digests=1 digest_seq=77 digest_rank=3",
	  "in seq 77 the output of rank 3 is not that of the others" },
	{ "clocks", "passes=40 clocks_offset_ns=11000000000 clocks_drift_ppb=20000",
	  "the ranks' clocks are off by up to 11 s and drift by up to 20 us a second; nothing else is wrong" },
	{ "clocks-straggler", "passes=40 clocks_offset_ns=200000 clocks_drift_ppb=20000 straggler=5 straggler_ns=60000",
	  "rank 5 is the last by 60 us; the ranks' clocks are off by up to 200 us and drift" },
	{ "missing-rank", "missing=0x4",
	  "rank 2 has left no file; nothing else is wrong" },
	{ "lost-records", "lost_rank=1 lost_seq=200 lost_count=17",
	  "the writer of rank 1 has dropped the records of seq 200 to 216" },
	{ "no-marks", "passes=60 marks=0 pattern=1",
	  "no marks; the counts repeat every 122 calls" },
	{ "no-marks-noise", "passes=200 marks=0 pattern=1 noise=1000",
	  "no marks; the counts repeat every 122 calls, save in one call of a thousand" },
	{ "no-marks-break", "passes=60 marks=0 pattern=1 break_pass=31 break_calls=7",
	  "no marks; the counts repeat every 122 calls up to seq 3660; 7 others follow, then it goes on" },
	{ "no-marks-tokens", "passes=200 marks=0 pattern=2",
	  "no marks; each pass has 122 calls of one count, another in each" },
	{ "no-marks-alike", "passes=60 marks=0",
	  "no marks, and all calls are alike; a pause of 3 ms comes before each 122 of them" },
	{ "no-period", "passes=60 marks=0 pattern=3",
	  "no marks, and nothing repeats" },
	{ NULL, NULL, NULL },
};
/* clang-format on */

/* One word of `length` bytes. */
static int set_field(struct log_scenario *scenario, const char *word, size_t length)
{
	const char *equals = memchr(word, '=', length);
	char *end;

	for (size_t i = 0; equals && i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (strlen(fields[i].name) != (size_t)(equals - word) ||
		    strncmp(fields[i].name, word, (size_t)(equals - word)))
			continue;
		*(int64_t *)((char *)scenario + fields[i].offset) = strtoll(equals + 1, &end, 0);
		if (end == word + length && end > equals + 1)
			return 0;
	}
	fprintf(stderr, "log scenario: '%.*s' is not NAME=NUMBER of a known name\n", (int)length,
		word);
	return -1;
}

int log_scenario_set(struct log_scenario *scenario, const char *words)
{
	while (*words) {
		size_t length = strcspn(words, " ");

		if (length && set_field(scenario, words, length))
			return -1;
		words += length;
		words += strspn(words, " ");
	}
	return 0;
}

const struct log_cause *log_cause_find(const char *name)
{
	for (const struct log_cause *cause = log_causes; cause->name; cause++) {
		if (!strcmp(cause->name, name))
			return cause;
	}
	return NULL;
}
