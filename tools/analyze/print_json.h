/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of every JSON document: {"comms":[...],"damaged":[...]}, and values that several
 * commands print. */
#ifndef BELAY_TOOLS_ANALYZE_PRINT_JSON_H
#define BELAY_TOOLS_ANALYZE_PRINT_JSON_H

#include <jansson.h>

#include "tools/analyze/command.h"

void json_document_begin(struct output *output);
void json_document_end(struct output *output, const struct inputs *inputs);

/* A communicator of which a list of rows is printed: {"id":...,"nranks":N,"LIST":[ ... ]}. */
int json_rows_begin(struct output *output, const char *list);
/* Prints one row and takes the reference; NULL (no memory) gives BELAY_E_NO_MEMORY. */
int json_row(struct output *output, json_t *row);
int json_rows_end(struct output *output);

/* Prints a communicator whole and takes the reference. */
int json_comm(struct output *output, json_t *comm);

/* Values; NULL without memory, which json_pack() passes on. */
json_t *json_ranks(uint64_t mask);
json_t *json_us(uint64_t ns);
json_t *json_us_or_null(uint64_t ns); /* of 0 ns null */
json_t *json_rank_or_null(int rank);
json_t *json_number(uint64_t value);
json_t *json_clocks(const struct clocks *clocks); /* a list: the ranks whose clocks differ */
json_t *json_text(const char *text);		  /* bytes that are no UTF-8 become '?' */
json_t *json_path_or_null(uint8_t path);
/* What repeats, where passes are by that; else null. */
json_t *json_period(const struct pass_rule *rule);
/* Microseconds from the first call, or of CLOCK_MONOTONIC with --absolute. */
json_t *json_time_us(const struct output *output, uint64_t time_ns);

#endif /* BELAY_TOOLS_ANALYZE_PRINT_JSON_H */
