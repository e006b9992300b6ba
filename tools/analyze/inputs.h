/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operands of the command line stand for: call logs, folders of them and LTTng traces,
 * sorted into communicators and ranks. What cannot be read is kept with its reason.
 */
#ifndef BELAY_TOOLS_ANALYZE_INPUTS_H
#define BELAY_TOOLS_ANALYZE_INPUTS_H

#include <sys/types.h>

#include "runtime/belay.h"
#include "tools/analyze/containers.h"
#include "tools/analyze/progress.h"
#include "tools/analyze/rank_stream.h"
#include "tools/analyze/spool.h"

#define INPUT_REASON_BYTES 256

/* One part of a rank's records. */
struct input_file {
	const char *path;
	struct spool *spool; /* NULL: a call log at path */
	uint64_t offset;     /* of the log in its file, */
	uint64_t end;	     /* and where the next one begins there; 0: nowhere */
	char comm_id[33];
	uint32_t rank, nranks;
	uint32_t number;    /* of a call log */
	int salvaged_by;    /* -1: written by the rank itself */
	uint64_t first_seq; /* 0: no calls */
	uint64_t first_ns;  /* start of the first call, or the time of creation */
	dev_t device;
	ino_t inode;
	/* While it is read. */
	struct call_log_reader *reader;
	uint64_t done_bytes, all_bytes;
	/* Complete once it has been read to the end. */
	uint64_t records_kept;
	int64_t damage_lost;  /* records in damaged stretches; -1: unknown */
	uint64_t writer_lost; /* that the writer counted itself */
	int closed;
	char reason[INPUT_REASON_BYTES]; /* "": no damage */
};

/* What could not be read at all or only in part. */
struct input_damage {
	const char *file;
	const char *reason;
	uint64_t records_kept;
	int64_t records_lost; /* -1: unknown */
};

/* One communicator: files[first .. first + count - 1], sorted by rank and first_seq. */
struct input_comm {
	const char *id;
	uint32_t nranks;
	size_t first, count;
	uint64_t first_ns;
};

struct inputs {
	struct arena arena;
	struct progress *progress; /* the caller's */
	struct vector files;	   /* struct input_file *, so that they do not move */
	struct vector comms;	   /* struct input_comm, after inputs_sort() */
	struct vector damages;	   /* struct input_damage, of what was not opened */
};

/*
 * Looks at one operand. What is wrong with it becomes a damage. Returns 0, BELAY_E_NO_MEMORY, or
 * BELAY_E_ABORTED when a signal asks for an end. inputs->progress must be set before. ret_found:
 * how many files or traces there were, damaged ones included.
 */
int inputs_add(struct inputs *inputs, const char *path, size_t *ret_found);

/* For sources other than files: takes the spool over. Returns NULL without memory. */
struct input_file *inputs_add_spool(struct inputs *inputs, const char *path, const char *comm_id,
				    uint32_t rank, uint32_t nranks, struct spool *spool);
int inputs_add_damage(struct inputs *inputs, const char *file, const char *reason, uint64_t kept,
		      int64_t lost);

/* After the last operand: sorts into communicators, the one that began first in front. */
int inputs_sort(struct inputs *inputs);

/* The damage met while reading, after it, is added to `damages`. */
int inputs_collect_damage(struct inputs *inputs);

/* 1 if path is a file that was given, in whatever spelling, readable or not, or lies in a trace
 * that was given. */
int inputs_contain(const struct inputs *inputs, const char *path);

extern const struct record_part_ops input_file_ops; /* self: struct input_file */

void inputs_free(struct inputs *inputs);

#endif /* BELAY_TOOLS_ANALYZE_INPUTS_H */
