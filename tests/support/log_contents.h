/* SPDX-License-Identifier: Apache-2.0 */
/* Whole call logs in memory, and records to fill them with. */
#ifndef BELAY_TESTS_SUPPORT_LOG_CONTENTS_H
#define BELAY_TESTS_SUPPORT_LOG_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/call_log_reader.h"

/* What one or several files hold. Starts zeroed; free with log_contents_free(). */
struct log_contents {
	struct call_log_info info; /* of the last file */
	unsigned char *calls;	   /* calls_count rows of stride bytes */
	size_t calls_count;
	size_t stride;
	struct event_record *events;
	size_t events_count;
	uint64_t lost;
	int closed; /* of the last file */
	struct call_log_damage damage[64];
	size_t damage_count;
};

/* Adds a file. Returns the status of opening it, or of reading. */
int log_contents_read(struct log_contents *contents, const char *path, const char **ret_reason);
/* The same with the log at *offset of a file that holds several; *offset becomes that of the next;
 * 0: there is none. */
int log_contents_read_one(struct log_contents *contents, const char *path, uint64_t *offset,
			  const char **ret_reason);
/* Adds all files of a rank in the order of their numbers. Returns how many there were. */
int log_contents_read_rank(struct log_contents *contents, const char *dir, const char *comm_id,
			   uint32_t rank);
void log_contents_free(struct log_contents *contents);

static inline const struct call_record *log_contents_call(const struct log_contents *contents,
							  size_t i)
{
	return (const struct call_record *)(contents->calls + i * contents->stride);
}

/* Random numbers that are the same everywhere. */
uint64_t test_random(uint64_t *state);

enum record_style { RECORD_ORDINARY, RECORD_WILD, RECORD_EXTREME, RECORD_STYLES };

/* Fills a record, reserved bytes excepted: as calls are, with any bits, or with the ends of all
 * ranges. */
void fill_call(struct call_record *record, uint32_t nranks, uint64_t seq, enum record_style style,
	       uint64_t *state);
void fill_event(struct event_record *event, uint64_t number, enum record_style style,
		uint64_t *state);

/* Makes a folder below TMPDIR that remove_folder() removes with all that is in it. */
void make_folder(char *path, size_t size);
void remove_folder(const char *path);

#endif /* BELAY_TESTS_SUPPORT_LOG_CONTENTS_H */
