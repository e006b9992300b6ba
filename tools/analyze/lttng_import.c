/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/analyze/ctf_check.h"
#include "tools/analyze/inputs.h"
#include "tools/analyze/interrupt.h"
#include "tools/analyze/lttng_frame.h"
#include "tools/analyze/lttng_import.h"

/* The reader sends something at least this often when it is not stuck. */
#define SILENCE_MS_MAX 15000
/* No event of belay's is smaller on disk. A reader that gives more is in a loop. */
#define EVENT_BYTES_MIN	    32u
#define CALLS_BETWEEN_LOOKS 4096u
/* Large, so that the two processes seldom wait for each other. */
#define PIPE_BYTES   (1 << 20)
#define INBOX_BYTES  (256u * 1024)
#define FRAMES_BYTES (256u * 1024)

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

/* One trace on its way in. */
struct import {
	struct inputs *inputs;
	const char *folder;  /* as given */
	char copy[PATH_MAX]; /* "" or the folder of a mended copy */
	struct ctf_check check;
	pid_t child;
	int pipe;
	size_t first_file;	   /* of this trace in inputs->files */
	struct lttng_frame source; /* of the last record, */
	struct input_file *file;   /* which went there; NULL: none yet */
	uint64_t calls, events_max, events;
	uint64_t discarded, odd;
	char problem[LTTNG_FRAME_BYTES_MAX];
};

/* The mended copy ------------------------------------------------------------------------------ */

static int needs_copy(const struct ctf_check *check)
{
	const struct ctf_stream *streams = check->streams.items;
	int needed = check->metadata.reason != NULL;

	for (size_t i = 0; i < check->streams.count; i++)
		needed |= streams[i].extent.reason != NULL;
	return needed;
}

static int join_path(char *ret_path, const char *folder, const char *name)
{
	if ((size_t)snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

static int copy_bytes(FILE *from, FILE *to, uint64_t bytes)
{
	char block[65536];

	while (bytes && !interrupt_requested()) {
		size_t n = bytes < sizeof(block) ? (size_t)bytes : sizeof(block);

		if (fread(block, 1, n, from) != n || fwrite(block, 1, n, to) != n)
			return -1;
		bytes -= n;
	}
	return 0;
}

/* Copies the whole packets of a file; a file without fault is only linked. */
static int copy_file(const struct import *import, const char *name, const struct ctf_extent *extent)
{
	char from_path[PATH_MAX], to_path[PATH_MAX], whole_path[PATH_MAX];
	FILE *from = NULL, *to = NULL;
	int failed = join_path(from_path, import->folder, name) != 0 ||
		     join_path(to_path, import->copy, name) != 0;

	if (failed || !extent->whole)
		return failed ? -1 : 0;
	if (!extent->reason)
		return realpath(from_path, whole_path) ? symlink(whole_path, to_path) : -1;
	from = fopen(from_path, "rbe");
	to = from ? fopen(to_path, "wbe") : NULL;
	failed = !to || copy_bytes(from, to, extent->whole) != 0;
	if (from)
		fclose(from);
	if (to && fclose(to) != 0)
		failed = 1;
	return failed ? -1 : 0;
}

static void remove_copy(struct import *import)
{
	const struct ctf_stream *streams = import->check.streams.items;
	char path[PATH_MAX];

	if (!import->copy[0])
		return;
	/* What was not made cannot be removed: that is no error. */
	for (size_t i = 0; i < import->check.streams.count; i++) {
		if (join_path(path, import->copy, streams[i].name) == 0)
			(void)unlink(path);
	}
	if (join_path(path, import->copy, "metadata") == 0)
		(void)unlink(path);
	(void)rmdir(import->copy);
	import->copy[0] = '\0';
}

static int make_copy(struct import *import)
{
	const struct ctf_stream *streams = import->check.streams.items;
	const char *temporary = getenv("TMPDIR");
	int failed;

	if (!temporary || !*temporary)
		temporary = "/tmp";
	if (join_path(import->copy, temporary, "trace-analyze-XXXXXX") != 0 ||
	    !mkdtemp(import->copy)) {
		import->copy[0] = '\0';
		return -1;
	}
	failed = copy_file(import, "metadata", &import->check.metadata) != 0;
	for (size_t i = 0; !failed && i < import->check.streams.count; i++)
		failed = copy_file(import, streams[i].name, &streams[i].extent) != 0;
	return failed ? -1 : 0;
}

/* The reading process -------------------------------------------------------------------------- */

static void be_the_child(const struct import *import, int out)
{
	static char buffer[FRAMES_BYTES];
	struct rlimit no_core = {0, 0};
	FILE *frames = fdopen(out, "wb");
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setrlimit(RLIMIT_CORE, &no_core); /* a crash here is expected and harmless */
	/* The library may print what it thinks of the trace; the parent tells it in its own
	 * words. */
	if (null >= 0)
		(void)dup2(null, STDERR_FILENO);
	if (frames)
		(void)setvbuf(frames, buffer, _IOFBF, sizeof(buffer));
	if (frames)
		lttng_read_trace(import->copy[0] ? import->copy : import->folder, frames);
	_exit(0);
}

static int start_child(struct import *import)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	(void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* a small one is only slower */
	fflush(NULL);
	import->child = fork();
	if (import->child == 0) {
		close(ends[0]);
		be_the_child(import, ends[1]);
	}
	close(ends[1]);
	if (import->child < 0) {
		close(ends[0]);
		return -1;
	}
	import->pipe = ends[0];
	return 0;
}

static void end_child(struct import *import)
{
	int status = 0;

	(void)kill(import->child, SIGKILL); /* it has ended, or is not wanted any more */
	while (waitpid(import->child, &status, 0) < 0 && errno == EINTR)
		;
	if (!import->problem[0] && WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		(void)snprintf(import->problem, sizeof(import->problem),
			       "libbabeltrace2 crashed (signal %d)", WTERMSIG(status));
	close(import->pipe);
}

/* Receiving ------------------------------------------------------------------------------------ */

/* What has come through the pipe and has not been taken. */
struct inbox {
	size_t from, until;
	unsigned char bytes[INBOX_BYTES];
};

/* Waits for more. Returns 1; 0 at the end of the pipe; -1 when the reader is stuck, or a signal
 * asks for an end. */
static int refill(const struct import *import, struct inbox *inbox)
{
	struct pollfd ready = {.fd = import->pipe, .events = POLLIN};
	ssize_t got;
	int n;

	memmove(inbox->bytes, inbox->bytes + inbox->from, inbox->until - inbox->from);
	inbox->until -= inbox->from;
	inbox->from = 0;
	do
		n = poll(&ready, 1, SILENCE_MS_MAX);
	while (n < 0 && errno == EINTR && !interrupt_requested());
	if (n <= 0)
		return -1;
	do
		got = read(import->pipe, inbox->bytes + inbox->until, INBOX_BYTES - inbox->until);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return 0;
	inbox->until += (size_t)got;
	return 1;
}

/* The next `size` bytes, at most LTTNG_FRAME_BYTES_MAX, where they lie. Returns as refill(). */
static int receive(const struct import *import, struct inbox *inbox, size_t size,
		   const void **ret_bytes)
{
	int result = 1;

	while (result > 0 && inbox->until - inbox->from < size)
		result = refill(import, inbox);
	if (result > 0) {
		*ret_bytes = inbox->bytes + inbox->from;
		inbox->from += size;
	}
	return result;
}

static int same_source(const struct lttng_frame *a, const struct lttng_frame *b)
{
	return a->rank == b->rank && a->nranks == b->nranks && a->comm_high == b->comm_high &&
	       a->comm_low == b->comm_low;
}

/* Looks for the frame's communicator and rank among the files of this trace; makes what is missing.
 */
static int find_file(struct import *import, const struct lttng_frame *frame)
{
	struct input_file **files = import->inputs->files.items;
	struct spool *spool = NULL;
	char comm_id[33];
	int status;

	(void)snprintf(comm_id, sizeof(comm_id), "%016" PRIx64 "%016" PRIx64, frame->comm_high,
		       frame->comm_low);
	for (size_t i = import->first_file; i < import->inputs->files.count; i++) {
		import->file = files[i];
		if (files[i]->rank == frame->rank && files[i]->nranks == frame->nranks &&
		    strcmp(files[i]->comm_id, comm_id) == 0)
			return 0;
	}
	import->file = NULL;
	status = spool_create(frame->nranks, &spool);
	if (status != 0)
		return status;
	import->file = inputs_add_spool(import->inputs, import->folder, comm_id, frame->rank,
					frame->nranks, spool);
	if (!import->file)
		spool_free(spool);
	return import->file ? 0 : BELAY_E_NO_MEMORY;
}

/* The file of the frame's communicator and rank: mostly the one of the last time. */
static int file_for(struct import *import, const struct lttng_frame *frame,
		    struct input_file **ret_file)
{
	int status = 0;

	if (!import->file || !same_source(frame, &import->source)) {
		status = find_file(import, frame);
		import->source = *frame;
	}
	if (status == 0)
		*ret_file = import->file;
	return status;
}

/* The sender may have gone mad over a bad trace: nothing of a frame is trusted. */
static int is_sane(const struct lttng_frame *frame)
{
	if (frame->bytes > LTTNG_FRAME_BYTES_MAX)
		return 0;
	if (frame->kind != LTTNG_FRAME_CALL && frame->kind != LTTNG_FRAME_EVENT)
		return 1;
	if (frame->nranks > BELAY_RANKS_MAX || frame->rank >= frame->nranks)
		return 0;
	return frame->bytes == (frame->kind == LTTNG_FRAME_CALL ? call_record_stride(frame->nranks)
								: sizeof(struct event_record));
}

static int keep_call(struct import *import, const struct lttng_frame *frame, const void *payload)
{
	const struct call_record *record = payload;
	struct input_file *file = NULL;
	int status = file_for(import, frame, &file);

	if (status != 0)
		return status;
	if (import->events++ >= import->events_max) {
		(void)snprintf(import->problem, sizeof(import->problem),
			       "libbabeltrace2 gives more events than the files can hold");
		return 1;
	}
	if (!file->first_seq) {
		file->first_seq = record->seq;
		file->first_ns = record->start_ns;
	}
	import->calls++;
	if (import->calls % CALLS_BETWEEN_LOOKS == 0)
		progress_count(import->inputs->progress, "LTTng traces", import->calls,
			       "calls read");
	return spool_add_call(file->spool, record);
}

static int keep_event(struct import *import, const struct lttng_frame *frame, const void *payload)
{
	const struct event_record *record = payload;
	struct input_file *file = NULL;
	int status = file_for(import, frame, &file);

	if (status != 0)
		return status;
	if (!file->first_ns)
		file->first_ns = record->time_ns;
	return spool_add_event(file->spool, record);
}

/* The library's words, without the path: it may be that of the copy. */
static void keep_problem(struct import *import, const char *text, uint32_t bytes)
{
	const char *path = memmem(text, bytes, " for `", 6);

	(void)snprintf(import->problem, sizeof(import->problem), "libbabeltrace2: %.*s",
		       (int)(path ? path - text : (ptrdiff_t)bytes), text);
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
	case LTTNG_FRAME_PROBLEM:
		keep_problem(import, payload, frame->bytes);
		return 1;
	case LTTNG_FRAME_END:
		return 1;
	default:
		return 0;
	}
}

/* The next frame and its payload, both aligned for any member. Returns as refill(). */
static int receive_frame(const struct import *import, struct inbox *inbox,
			 struct lttng_frame *ret_frame, void *ret_payload)
{
	const void *bytes;
	int result = receive(import, inbox, sizeof(*ret_frame), &bytes);

	if (result <= 0)
		return result;
	memcpy(ret_frame, bytes, sizeof(*ret_frame));
	if (!is_sane(ret_frame))
		return 0;
	result = receive(import, inbox, ret_frame->bytes, &bytes);
	if (result > 0)
		memcpy(ret_payload, bytes, ret_frame->bytes);
	return result;
}

static int receive_all(struct import *import, struct inbox *inbox)
{
	_Alignas(8) unsigned char payload[LTTNG_FRAME_BYTES_MAX];
	struct lttng_frame frame;
	int status = 0;

	while (status == 0) {
		int got = receive_frame(import, inbox, &frame, payload);

		if (interrupt_requested())
			return BELAY_E_ABORTED;
		if (got > 0) {
			status = take_frame(import, &frame, payload);
			continue;
		}
		(void)snprintf(import->problem, sizeof(import->problem), "%s",
			       got < 0 ? "libbabeltrace2 is stuck in it"
				       : "libbabeltrace2 ended in the middle of it");
		break;
	}
	return status > 0 ? 0 : status;
}

/* Telling what is wrong ------------------------------------------------------------------------ */

static int tell_extent(struct import *import, const char *name, const struct ctf_extent *extent)
{
	char path[PATH_MAX], reason[INPUT_REASON_BYTES];

	if (!extent->reason)
		return 0;
	if (join_path(path, import->folder, name) != 0)
		return 0;
	if (extent->bytes)
		(void)snprintf(reason, sizeof(reason),
			       "%s (%" PRIu64 " of %" PRIu64 " bytes left out)", extent->reason,
			       extent->bytes - extent->whole, extent->bytes);
	else
		(void)snprintf(reason, sizeof(reason), "%s", extent->reason);
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
	return status;
}

/* Reads what the check has left. */
static int read_trace(struct import *import)
{
	struct inbox *inbox;
	int status = 0;

	if (needs_copy(&import->check) && make_copy(import) != 0) {
		(void)snprintf(import->problem, sizeof(import->problem),
			       "no copy of what is whole can be made: %s", strerror(errno));
		goto out;
	}
	if (start_child(import) != 0) {
		(void)snprintf(import->problem, sizeof(import->problem),
			       "no process to read it: %s", strerror(errno));
		goto out;
	}
	inbox = calloc(1, sizeof(*inbox));
	status = inbox ? receive_all(import, inbox) : BELAY_E_NO_MEMORY;
	free(inbox);
	if (status == BELAY_E_SYSTEM) {
		(void)snprintf(import->problem, sizeof(import->problem),
			       "no room for its records in TMPDIR: %s", strerror(errno));
		status = 0;
	}
	end_child(import);
out:
	remove_copy(import);
	return status;
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
	if (import.check.metadata.whole && import.check.bytes)
		status = read_trace(&import);
	if (status == 0)
		status = tell(&import);
	vector_free(&import.check.streams);
	return status;
}

#endif /* HAVE_BABELTRACE */
