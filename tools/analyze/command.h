/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command of trace-analyze is made of: it is told the recording in the order of seq,
 * communicator by communicator, and prints. The summary of the communicator is kept by the driver,
 * for every command.
 */
#ifndef BELAY_TOOLS_ANALYZE_COMMAND_H
#define BELAY_TOOLS_ANALYZE_COMMAND_H

#include <stdio.h>

#include "tools/analyze/call_filter.h"
#include "tools/analyze/clocks.h"
#include "tools/analyze/inputs.h"
#include "tools/analyze/summary.h"
#include "tools/analyze/timeline.h"
#include "tools/analyze/what_if.h"
#include "tools/command_line.h"

enum export_format { EXPORT_CSV = 1, EXPORT_JSON, EXPORT_PERFETTO };

/* Where and how a command prints, and its place in it. */
struct output {
	FILE *file;
	enum command_format format;
	enum export_format to;
	int absolute;
	int colour;
	int without_story; /* `summary` leaves out what happened in short */
	struct call_filter filter;
	int filtered; /* the command is told of no other calls; else it looks at the filter itself
		       */
	const struct command_ops *ops;
	size_t comms; /* in the whole document */
	size_t comms_done;
	size_t comms_brief; /* told in one line */
	uint64_t base_ns;   /* start of the communicator's first call; times are told from it */
	int has_base;
	uint64_t rows;		       /* printed for this communicator */
	const struct summary *summary; /* of this communicator, so far */
	const struct clocks *clocks;   /* likewise */
	struct arena *arena;	       /* lives as long as the communicator's turn */
	struct timeline timeline;
	void *state;			  /* the command's own, from begin to close */
	struct what_if_question question; /* set by the options */
};

/* All may be NULL. They return 0 or a status; what was not written is found at the end. */
struct command_ops {
	const char *name;
	int (*comm_begin)(struct output *output);
	int (*event)(struct output *output, uint32_t rank, const struct event_record *event);
	int (*row)(struct output *output, const struct call_row *row,
		   const struct row_facts *facts);
	int (*late)(struct output *output, const struct late_call *call);
	int (*pass)(struct output *output, const struct pass_facts *pass);
	int (*comm_end)(struct output *output);
	/* What stands before, between and after the communicators. */
	void (*begin)(struct output *output);
	void (*end)(struct output *output, const struct inputs *inputs);
	/* Always the last, also when memory or the disk did not suffice: frees `state`. */
	void (*close)(struct output *output);
};

extern const struct command_ops command_summary_text, command_summary_json;
extern const struct command_ops command_passes_text, command_passes_json;
extern const struct command_ops command_stragglers_text, command_stragglers_json;
extern const struct command_ops command_faults_text, command_faults_json;
extern const struct command_ops command_calls_text, command_calls_json;
extern const struct command_ops command_report;
extern const struct command_ops command_what_if_text, command_what_if_json;
extern const struct command_ops command_export_csv, command_export_json, command_export_perfetto;

#endif /* BELAY_TOOLS_ANALYZE_COMMAND_H */
