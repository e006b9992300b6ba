/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuning: measures the algorithms against each other for one number of ranks, and writes which to
 * take where into a file that the library reads through BELAY_TUNE:
 *
 *   # comment
 *   ranks=N twoshot_from=BYTES
 *   ranks=N topology=HOW up_to=BYTES algorithm=NAME other=NAME blocks=B threads=T
 */
#ifndef BELAY_TOOLS_BENCH_TUNE_H
#define BELAY_TOOLS_BENCH_TUNE_H

#include "tools/bench/bench_options.h"

/* Measures, prints what was found and writes options->tune. Returns the exit status, or minus a
 * signal's number. */
int bench_tune(const struct bench_options *options);
/* The same on GPUs, where the rows are of the other kind (docs/path-choice.md). */
int bench_tune_device(const struct bench_options *options);

/*
 * Writes options->tune anew, so that a reader finds the old file or the new one, whole: what
 * `write` writes, and the earlier file's lines that do not begin with `replaced`. Returns 0 or the
 * exit status.
 */
int bench_tune_write(const struct bench_options *options, const char *replaced,
		     void (*write)(FILE *output, const void *user), const void *user);

/*
 * From which size on two-shot wins: the first of the sorted sizes so that it costs least in sum to
 * take one-shot below and two-shot from there on; UINT64_MAX: never. Times are relative to the
 * better one, so that each size counts alike.
 */
uint64_t bench_tune_choose(const uint64_t *sizes, const double *oneshot_us,
			   const double *twoshot_us, size_t n);

#endif /* BELAY_TOOLS_BENCH_TUNE_H */
