/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of belay-bench. */
#ifndef BELAY_TOOLS_BENCH_OPTIONS_H
#define BELAY_TOOLS_BENCH_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "tools/bench/bench_job.h"
#include "tools/bench/bench_script.h"
#include "tools/bench/bench_workload.h"
#include "tools/command_line.h"

#define BENCH_SIZES_MAX	      256
#define BENCH_SIZE_MAX	      (UINT64_C(1) << 36)
#define BENCH_PIN_AUTO	      2 /* value of `pin`: for several ranks on the host */
#define BENCH_SHAPES_MAX      16
#define BENCH_BUFFERS_MAX     4096
#define BENCH_GRAPH_CALLS_MAX 10000
/* The largest belay_config.first_seq. */
#define BENCH_SEQ_MAX ((UINT64_C(1) << 53) - 1)

enum bench_backend { BENCH_AUTO = 0, BENCH_HOST = 1, BENCH_CUDA = 2 };

/* A name of --algorithm: what it stands for on either backend. */
struct bench_algorithm {
	const char *name;
	enum belay_algorithm host;  /* 0: not on the host */
	const char *device, *other; /* as a tuning file calls them; other: for types that the full
				       wire cannot carry */
};

struct bench_options {
	enum bench_backend backend;
	uint32_t nranks;
	uint64_t sizes[BENCH_SIZES_MAX]; /* bytes */
	uint32_t nsizes;
	enum belay_dtype dtype;
	enum belay_op op;
	uint64_t iterations, warmup;
	int graph, in_place, region_buffers, pin, host_time;
	uint64_t calls_per_graph; /* of a size; a workload's graph has those of its pass */
	uint32_t buffers;	  /* pairs that calls on a device go through in turn */
	uint64_t gap_ns, skew_ns; /* computing before each call of a size; one rank in turn: more */
	uint32_t devices;	  /* that the ranks are on; 0: host backend. Not an option */
	const struct bench_algorithm *algorithm; /* NULL: the library chooses */
	/* With it the first of each; a tuning on GPUs tries all. */
	uint32_t blocks[BENCH_SHAPES_MAX], threads[BENCH_SHAPES_MAX], nblocks, nthreads;
	const char *tune;	    /* file to write; NULL: none */
	const char *workload_name;  /* NULL: sizes are swept */
	struct workload workload;   /* owned */
	const char *script_name;    /* NULL: none */
	struct bench_script script; /* owned */
	uint64_t first_seq;	    /* 0: not given */
	enum command_format format;
	int help, version;
};

/*
 * Reads the command line. Options that are settings of the library (--paths, --fault, --log-dir)
 * are checked and go into the environment, for the ranks. Returns 0; or COMMAND_USAGE, and what is
 * wrong has been said. bench_options_free() after either.
 */
int bench_options_parse(int argc, char **argv, struct bench_options *ret_options);
void bench_options_free(struct bench_options *options);

/* The steps that the options ask for; the caller's to free. Returns 0, or -1 without memory. */
int bench_options_steps(const struct bench_options *options, struct bench_step **ret_steps,
			uint32_t *ret_nsteps);

extern const char bench_help[];

/* The names of --algorithm; the first BENCH_DEVICE_ALGORITHMS are what a tuning on GPUs compares.
 */
#define BENCH_DEVICE_ALGORITHMS 4
#define BENCH_ALGORITHMS	7
extern const struct bench_algorithm bench_algorithms[BENCH_ALGORITHMS];

#endif /* BELAY_TOOLS_BENCH_OPTIONS_H */
