/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/analyze/inputs.h"
#include "tools/analyze/lttng_copy.h"
#include "tools/analyze/lttng_import.h"
#include "tools/analyze/lttng_probe.h"
#include "tools/analyze/lttng_process.h"

/* No event of belay's is smaller on disk. A reader that gives more is in a loop. */
#define EVENT_BYTES_MIN	    32u
#define CALLS_BETWEEN_LOOKS 4096u

int lttng_is_trace(const char *folder)
{
	char path[PATH_MAX];
	struct stat about;

	if ((size_t)snprintf(path, sizeof(path), "%s/metadata", folder) >= sizeof(path))
		return 0;
	return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

#ifndef HAVE_BABELTRACE

int lttng_import(struct inputs *inputs, const char *folder)
{
	return inputs_add_damage(
		inputs, folder,
		"an LTTng trace, and this trace-analyze was built without libbabeltrace2", 0, -1);
}

#else

/* A rank of a communicator in the trace. LTTng has no checksums: its newest call is held back, for
 * the next one may show that its number is wrong. */
struct source {
	struct lttng_frame key;
	struct input_file *file;
	uint64_t kept_seq; /* of the call before the one that is held */
	int holds;
	union {
		struct call_record record;
		unsigned char room[LTTNG_FRAME_BYTES_MAX];
	} held;
};

/* One trace on its way in. */
struct import {
	struct inputs *inputs;
	const char *folder; /* as given */
	struct ctf_check check;
	size_t first_file;     /* of this trace in inputs->files */
	struct vector sources; /* struct source */
	size_t last_source;
	uint64_t calls, events_max, events;
	uint64_t discarded, odd, misnumbered;
	int opened; /* the trace as such can be read */
	char problem[LTTNG_FRAME_BYTES_MAX];
};

/* Receiving ------------------------------------------------------------------------------------ */

static int same_source(const struct lttng_frame *a, const struct lttng_frame *b)
{
	return a->rank == b->rank && a->nranks == b->nranks && a->comm_high == b->comm_high &&
	       a->comm_low == b->comm_low;
}

static int add_source(struct import *import, const struct lttng_frame *frame)
{
	struct source *source = vector_add(&import->sources, sizeof(*source));
	struct spool *spool = NULL;
	char comm_id[33];
	int status = source ? spool_create(frame->nranks, &spool) : BELAY_E_NO_MEMORY;

	if (status == 0) {
		(void)snprintf(comm_id, sizeof(comm_id), "%016" PRIx64 "%016" PRIx64,
			       frame->comm_high, frame->comm_low);
		source->key = *frame;
		source->file = inputs_add_spool(import->inputs, import->folder, comm_id,
						frame->rank, frame->nranks, spool);
		status = source->file ? 0 : BELAY_E_NO_MEMORY;
	}
	if (status != 0) {
		import->sources.count -= source != NULL;
		spool_free(spool);
	}
	return status;
}

/* The frame's communicator and rank: mostly those of the last time. */
static int source_of(struct import *import, const struct lttng_frame *frame,
		     struct source **ret_source)
{
	struct source *sources = import->sources.items;
	size_t n = import->sources.count, i = import->last_source;
	int status = 0;

	if (i >= n || !same_source(frame, &sources[i].key)) {
		for (i = 0; i < n && !same_source(frame, &sources[i].key); i++)
			;
		if (i == n)
			status = add_source(import, frame);
	}
	if (status == 0) {
		import->last_source = i;
		*ret_source = (struct source *)import->sources.items + i;
	}
	return status;
}

static int release(struct source *source)
{
	if (!source->holds)
		return 0;
	source->holds = 0;
	source->kept_seq = source->held.record.seq;
	if (!source->file->first_seq) {
		source->file->first_seq = source->held.record.seq;
		source->file->first_ns = source->held.record.start_ns;
	}
	return spool_add_call(source->file->spool, &source->held.record);
}

/* At the end of the trace. */
static int release_all(struct import *import)
{
	struct source *sources = import->sources.items;
	int status = 0;

	for (size_t i = 0; status == 0 && i < import->sources.count; i++)
		status = release(&sources[i]);
	return status;
}

/* Returns 1 when there are too many. */
static int count_record(struct import *import)
{
	if (import->events++ < import->events_max)
		return 0;
	(void)snprintf(import->problem, sizeof(import->problem),
		       "libbabeltrace2 gives more events than the files can hold");
	return 1;
}

static int keep_call(struct import *import, const struct lttng_frame *frame, const void *payload)
{
	const struct call_record *record = payload;
	struct source *source = NULL;
	int status = source_of(import, frame, &source);

	if (status == 0)
		status = count_record(import);
	if (status != 0)
		return status;
	import->calls++;
	if (import->calls % CALLS_BETWEEN_LOOKS == 0)
		progress_count(import->inputs->progress, "LTTng traces", import->calls,
			       "calls read");
	/* The one that was held is ahead of the one behind it, which goes on well from before. */
	if (source->holds && record->seq < source->held.record.seq &&
	    record->seq > source->kept_seq) {
		import->misnumbered++;
		source->holds = 0;
	}
	status = release(source);
	memcpy(source->held.room, payload, frame->bytes);
	source->holds = 1;
	return status;
}

static int keep_event(struct import *import, const struct lttng_frame *frame, const void *payload)
{
	const struct event_record *record = payload;
	struct source *source = NULL;
	int status = source_of(import, frame, &source);

	if (status == 0)
		status = count_record(import);
	if (status != 0)
		return status;
	if (!source->file->first_ns)
		source->file->first_ns = record->time_ns;
	return spool_add_event(source->file->spool, record);
}

/* Where the library's words turn to addresses in its memory, or to a path, which may be that of the
 * copy. */
static size_t length_of_words(const char *text, size_t bytes)
{
	const char *path = memmem(text, bytes, " for `", 6);
	const char *address = memmem(text, bytes, "-addr=", 6);
	const char *end = path ? path : text + strnlen(text, bytes);

	while (address && address > text && *address != ':' && *address != ',')
		address--;
	return (size_t)((address && address < end ? address : end) - text);
}

static void keep_problem(struct import *import, const char *text, uint32_t bytes)
{
	(void)snprintf(import->problem, sizeof(import->problem), "libbabeltrace2: %.*s",
		       (int)length_of_words(text, bytes), text);
}

/* Returns 0 to go on, 1 at the end, or a negative status. */
static int take_frame(struct import *import, const struct lttng_frame *frame, const void *payload)
{
	uint64_t count;

	switch (frame->kind) {
	case LTTNG_FRAME_CALL:
		return keep_call(import, frame, payload);
	case LTTNG_FRAME_EVENT:
		return keep_event(import, frame, payload);
	case LTTNG_FRAME_DISCARDED:
		memcpy(&count, payload, sizeof(count));
		import->discarded += count;
		return 0;
	case LTTNG_FRAME_ODD:
		import->odd++;
		return 0;
	case LTTNG_FRAME_OPENED:
		import->opened = 1;
		return 0;
	case LTTNG_FRAME_PROBLEM:
		keep_problem(import, payload, frame->bytes);
		return 1;
	case LTTNG_FRAME_END:
		return 1;
	default:
		return 0;
	}
}

static int receive_all(struct import *import, struct lttng_process *process)
{
	_Alignas(8) unsigned char payload[LTTNG_FRAME_BYTES_MAX];
	struct lttng_frame frame;
	enum lttng_receipt receipt;
	int status = 0;

	do {
		receipt = lttng_process_receive(process, &frame, payload);
		if (receipt == LTTNG_RECEIVED)
			status = take_frame(import, &frame, payload);
	} while (status == 0 && receipt == LTTNG_RECEIVED);
	if (receipt == LTTNG_ABORTED)
		return BELAY_E_ABORTED;
	if (receipt != LTTNG_RECEIVED)
		(void)snprintf(import->problem, sizeof(import->problem), "%s",
			       receipt == LTTNG_STUCK ? "libbabeltrace2 is stuck in it"
						      : "libbabeltrace2 ended in the middle of it");
	return status < 0 ? status : release_all(import);
}

/* Telling what is wrong ------------------------------------------------------------------------ */

static void describe(const struct ctf_extent *extent, char *ret_reason)
{
	int used = snprintf(ret_reason, INPUT_REASON_BYTES, "%s", extent->reason);

	if (!extent->bytes)
		return;
	used += snprintf(ret_reason + used, INPUT_REASON_BYTES - (size_t)used,
			 " (%" PRIu64 " of %" PRIu64 " bytes left out, at %" PRIu64,
			 extent->bytes - extent->whole, extent->bytes, extent->fault_at);
	if (extent->faults > 1)
		used += snprintf(ret_reason + used, INPUT_REASON_BYTES - (size_t)used,
				 " and %" PRIu64 " more places", extent->faults - 1);
	(void)snprintf(ret_reason + used, INPUT_REASON_BYTES - (size_t)used, ")");
}

static int tell_extent(struct import *import, const char *name, const struct ctf_extent *extent)
{
	char path[PATH_MAX], reason[INPUT_REASON_BYTES];

	if (!extent->reason)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%s", import->folder, name); /* it was opened so */
	describe(extent, reason);
	return inputs_add_damage(import->inputs, path, reason, extent->whole ? import->calls : 0,
				 -1);
}

static int tell_check(struct import *import)
{
	const struct ctf_stream *streams = import->check.streams.items;
	int status = tell_extent(import, "metadata", &import->check.metadata);

	for (size_t i = 0; status == 0 && i < import->check.streams.count; i++)
		status = tell_extent(import, streams[i].name, &streams[i].extent);
	return status;
}

/* With a process's own buffers the loss is that of its one rank; else nobody knows whose. */
static int tell_discarded(struct import *import)
{
	struct input_file **files = import->inputs->files.items;
	char reason[INPUT_REASON_BYTES];

	if (!import->discarded)
		return 0;
	if (import->inputs->files.count - import->first_file == 1) {
		files[import->first_file]->writer_lost = import->discarded;
		return 0;
	}
	(void)snprintf(reason, sizeof(reason), "LTTng had no room for %" PRIu64 " events",
		       import->discarded);
	return inputs_add_damage(import->inputs, import->folder, reason, import->calls,
				 (int64_t)import->discarded);
}

static int tell(struct import *import)
{
	char reason[INPUT_REASON_BYTES];
	int status = tell_check(import);

	if (status == 0)
		status = tell_discarded(import);
	if (status == 0 && import->problem[0]) {
		(void)snprintf(reason, sizeof(reason), "%.*s", INPUT_REASON_BYTES - 1,
			       import->problem);
		status = inputs_add_damage(import->inputs, import->folder, reason, import->calls,
					   -1);
	}
	if (status == 0 && import->odd) {
		(void)snprintf(reason, sizeof(reason),
			       "%" PRIu64 " events of belay's lack a field that they must have",
			       import->odd);
		status = inputs_add_damage(import->inputs, import->folder, reason, import->calls,
					   (int64_t)import->odd);
	}
	if (status == 0 && import->misnumbered) {
		(void)snprintf(reason, sizeof(reason),
			       "%" PRIu64 " calls have a number that cannot be theirs",
			       import->misnumbered);
		status = inputs_add_damage(import->inputs, import->folder, reason, import->calls,
					   (int64_t)import->misnumbered);
	}
	return status;
}

/* Reading -------------------------------------------------------------------------------------- */

static int needs_copy(const struct ctf_check *check)
{
	const struct ctf_stream *streams = check->streams.items;
	int needed = check->metadata.reason != NULL;

	for (size_t i = 0; i < check->streams.count; i++)
		needed |= streams[i].extent.reason != NULL;
	return needed;
}

static void note_problem(struct import *import, const char *what)
{
	(void)snprintf(import->problem, sizeof(import->problem), "%s: %s", what, strerror(errno));
}

/* Has a process read the trace at `folder`. */
static int read_folder(struct import *import, const char *folder)
{
	struct lttng_process process;
	int signal;
	int status = lttng_process_start(&process, folder, import->check.bytes, LTTNG_READ_RECORDS);

	if (status == BELAY_E_SYSTEM) {
		note_problem(import, "no process to read it");
		return 0;
	}
	if (status != 0)
		return status;
	status = receive_all(import, &process);
	if (status == BELAY_E_SYSTEM) {
		note_problem(import, "no room for its records in TMPDIR");
		status = 0;
	}
	signal = lttng_process_end(&process);
	if (signal)
		(void)snprintf(import->problem, sizeof(import->problem),
			       "libbabeltrace2 crashed (signal %d)", signal);
	return status;
}

/* Reads what the check has left. */
static int read_whole(struct import *import)
{
	struct lttng_copy copy = {.folder = ""};
	int status = 0;

	if (!import->check.metadata.whole || !import->check.bytes)
		return 0;
	if (!needs_copy(&import->check)) {
		status = read_folder(import, import->folder);
	} else if (lttng_copy_make(&copy, import->folder, &import->check) == 0) {
		status = read_folder(import, copy.folder);
	} else if (errno == EINTR) {
		status = BELAY_E_ABORTED;
	} else {
		note_problem(import, "no copy of what is whole can be made");
	}
	lttng_copy_remove(&copy);
	return status;
}

/* Forgets what has been read, for another beginning. */
static void forget(struct import *import)
{
	struct vector *files = &import->inputs->files;

	while (files->count > import->first_file)
		spool_free(((struct input_file **)files->items)[--files->count]->spool);
	import->sources.count = 0;
	import->calls = import->events = import->discarded = 0;
	import->odd = import->misnumbered = 0;
	import->opened = 0;
	import->problem[0] = '\0';
}

/* Where libbabeltrace2 has stopped in the middle, the packets at fault are looked for and left out:
 * what stands behind them is worth a second reading. */
static int read_trace(struct import *import)
{
	int status = read_whole(import);
	size_t bad = 0;

	if (status != 0 || !import->problem[0] || !import->opened)
		return status;
	status = lttng_probe(import->folder, &import->check, &bad);
	if (status == BELAY_E_SYSTEM)
		return 0; /* what came the first time is better than nothing */
	if (status != 0 || bad == 0)
		return status;
	forget(import);
	return read_whole(import);
}

int lttng_import(struct inputs *inputs, const char *folder)
{
	struct import import = {.inputs = inputs, .folder = folder};
	int status = ctf_check_folder(folder, &inputs->arena, &import.check);

	if (status == BELAY_E_SYSTEM)
		return inputs_add_damage(inputs, folder, strerror(errno), 0, -1);
	if (status != 0)
		return status;
	import.first_file = inputs->files.count;
	import.events_max = import.check.bytes / EVENT_BYTES_MIN + 1;
	status = read_trace(&import);
	if (status == 0)
		status = tell(&import);
	ctf_check_free(&import.check);
	vector_free(&import.sources);
	return status;
}

#endif /* HAVE_BABELTRACE */
