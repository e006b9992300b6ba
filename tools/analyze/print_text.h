/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands print alike for people. */
#ifndef BELAY_TOOLS_ANALYZE_PRINT_TEXT_H
#define BELAY_TOOLS_ANALYZE_PRINT_TEXT_H

#include "tools/analyze/command.h"
#include "tools/analyze/story.h"

/* "communicator ID: N ranks", bold where there is colour. */
void text_heading(const struct output *output);

/* Switches to bold or red and back, where colour is wanted. */
void text_bold(const struct output *output);
void text_red(const struct output *output);
void text_plain(const struct output *output);

/* A time in microseconds, from the first call or absolute, into a column of `width`. */
void text_time(const struct output *output, uint64_t time_ns, int width);

/* A line for each rank whose clock is not the others', after `label`; nothing while all agree. */
void text_clocks(const struct output *output, const char *label);

/* Where passes are what repeats: what does, how sure that is, where it broke. Each line begins with
 * `indent`. */
void text_period(const struct output *output, const char *indent);

/* What happened, in sentences: nothing where nothing is to be told. Only of faults, if so. */
void text_story(const struct output *output, const struct story *story, int only_faults);

/* The end of every text: what could not be read. */
void text_damages(struct output *output, const struct inputs *inputs);
/* The same on stderr, of what is not for people. */
void text_damages_aside(struct output *output, const struct inputs *inputs);

#endif /* BELAY_TOOLS_ANALYZE_PRINT_TEXT_H */
