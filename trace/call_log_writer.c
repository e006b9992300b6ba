/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/call_log_writer.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "trace/call_log_encoder.h"
#include "trace/call_log_file.h"
#include "trace/call_log_salvage.h"

#define FLUSH_NS    1000000000u /* records wait no longer than this for their block */
#define STACK_BYTES (512u * 1024)
#define CAUSES_MAX  16

/*
 * What the thread and others share: `doorbell`, `stopping`, `salvage`, `done`, and, under `guard`,
 * `abandoned`. The thread holds guard whenever it touches the rings or calls the message function,
 * and never while it touches the disk: so who sets `abandoned` under guard knows that both are
 * left alone from then on, however long a write hangs.
 *
 * Ordering contract [LOG_DONE], also in docs/memory-model.md: the thread's (1) store-release of
 * `done` pairs with the stopper's (2) load-acquire; the stopper then sees all that the thread did.
 * The same for `stopping` with (3) and (4).
 */
struct call_log_writer {
	pthread_mutex_t guard;
	int abandoned;
	_Atomic uint32_t doorbell; /* counts; a futex */
	_Atomic uint32_t stopping;
	_Atomic uint32_t done;	  /* a futex */
	_Atomic uint64_t salvage; /* mask of ranks asked for */
	pthread_t thread;

	/* The thread's own. */
	struct trace_area *area;
	void *rings; /* all ranks'; NULL: none to salvage */
	uint32_t rank;
	uint32_t nranks;
	char *dir;
	char comm_id[33];
	struct call_log_encoder *encoder;
	struct call_log_file file;
	void (*message)(void *user, const char *text);
	void *message_user;
	int causes[CAUSES_MAX]; /* errno values told; 0: free */
	int told_overrun;
};

/* A source of records: an area and the file that they go to. */
struct drain {
	struct trace_area *area;
	struct call_log_file *file;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Waits while *word is `seen`, at the longest until deadline_ns. May return early. */
static void futex_wait_until(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	struct timespec deadline = {
		.tv_sec = (time_t)(deadline_ns / 1000000000u),
		.tv_nsec = (long)(deadline_ns % 1000000000u),
	};

	(void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, &deadline, NULL,
		      FUTEX_BITSET_MATCH_ANY); /* the caller looks again, whatever ended it */
}

static void futex_wake_all(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Takes guard; false, and guard free, when the writer was abandoned. */
static int enter(struct call_log_writer *writer)
{
	pthread_mutex_lock(&writer->guard);
	if (!writer->abandoned)
		return 1;
	pthread_mutex_unlock(&writer->guard);
	return 0;
}

static void leave(struct call_log_writer *writer)
{
	pthread_mutex_unlock(&writer->guard);
}

/* Messages -------------------------------------------------------------------------------- */

static int told_before(struct call_log_writer *writer, int cause)
{
	for (int i = 0; i < CAUSES_MAX; i++) {
		if (writer->causes[i] == cause)
			return 1;
		if (!writer->causes[i]) {
			writer->causes[i] = cause;
			return 0;
		}
	}
	return 1;
}

static void tell(struct call_log_writer *writer, const char *text)
{
	if (!writer->message || !enter(writer))
		return;
	writer->message(writer->message_user, text);
	leave(writer);
}

static void tell_failure(struct call_log_writer *writer, const struct call_log_file *file)
{
	char reason[128] = "";
	char text[512];

	if (told_before(writer, file->failed_errno))
		return;
	writer->told_overrun = 1; /* it would only be a consequence */
	(void)snprintf(text, sizeof(text),
		       "call log %s/%s/%s: %s: %s; calls go on, call records are lost until it can "
		       "be written",
		       writer->dir, writer->comm_id, file->name, file->failed_step,
		       strerror_r(file->failed_errno, reason, sizeof(reason)));
	tell(writer, text);
}

static void tell_overrun(struct call_log_writer *writer)
{
	/* Relaxed: a count that orders no data. */
	if (writer->told_overrun ||
	    !atomic_load_explicit(&writer->area->calls.lost, memory_order_relaxed))
		return;
	writer->told_overrun = 1;
	tell(writer,
	     "the call log cannot be written as fast as calls are made; call records are lost");
}

/* From the rings to the file -------------------------------------------------------------- */

/* How many calls were lost before the record `index`, and up to which index that number holds. */
static uint64_t lost_before(const struct trace_area *area, uint64_t index, uint64_t *ret_until)
{
	uint64_t head = atomic_load_explicit(&area->gap_head, memory_order_acquire);
	/* Relaxed: the consumer's own word. */
	uint64_t at = atomic_load_explicit(&area->gap_tail, memory_order_relaxed);
	uint64_t lost = 0;

	*ret_until = UINT64_MAX;
	for (; at < head; at++) {
		const struct trace_gap *gap = &area->gaps[at % TRACE_GAPS];

		if (gap->index > index) {
			*ret_until = gap->index;
			break;
		}
		lost = gap->lost;
	}
	return lost;
}

/* Frees the notes of gaps that no later record needs: all but the one in force at `written`. */
static void release_gaps(struct trace_area *area, uint64_t written)
{
	uint64_t head = atomic_load_explicit(&area->gap_head, memory_order_acquire);
	/* Relaxed: the consumer's own word. */
	uint64_t tail = atomic_load_explicit(&area->gap_tail, memory_order_relaxed);

	while (tail + 1 < head && area->gaps[(tail + 1) % TRACE_GAPS].index <= written)
		tail++;
	/* Release: the producer reuses the note only after it was read. */
	atomic_store_explicit(&area->gap_tail, tail, memory_order_release);
}

/* Where the run stands in the file: what is written, and what was lost before or, when all is
 * written, at all. */
static void totals_of(struct trace_area *area, struct call_log_totals *totals)
{
	/* Acquire, and before the heads: then every loss counted here came before the heads read
	 * below. */
	uint64_t calls_lost = atomic_load_explicit(&area->calls.lost, memory_order_acquire);
	uint64_t events_lost = atomic_load_explicit(&area->events.lost, memory_order_acquire);
	/* (2) of [TRACE_RING]. */
	uint64_t calls_head = atomic_load_explicit(&area->calls.head, memory_order_acquire);
	uint64_t events_head = atomic_load_explicit(&area->events.head, memory_order_acquire);
	uint64_t until, noted;

	totals->calls = trace_ring_first(area, &area->calls, area->call_capacity, calls_head);
	totals->events = trace_ring_first(area, &area->events, area->event_capacity, events_head);
	noted = lost_before(area, totals->calls, &until);
	totals->calls_lost = totals->calls == calls_head && calls_lost > noted ? calls_lost : noted;
	totals->events_lost = events_lost;
}

/* Encodes the next block of calls. Sets the index after its last record. 0 when there is none. */
static int encode_calls(struct call_log_writer *writer, struct trace_area *area,
			struct call_log_block *block, uint64_t *ret_next)
{
	/* (2) of [TRACE_RING]. */
	uint64_t head = atomic_load_explicit(&area->calls.head, memory_order_acquire);
	uint64_t first = trace_ring_first(area, &area->calls, area->call_capacity, head);
	uint64_t until;
	uint64_t lost = lost_before(area, first, &until);
	uint64_t next = head < until ? head : until;
	struct column_rows rows = {
		.rows = trace_area_call(area, 0),
		.stride = area->call_stride,
		.first = (size_t)first,
		.mask = area->call_capacity - 1,
		.nranks = area->nranks,
	};

	if (first == head)
		return 0;
	if (next - first > CALL_LOG_BLOCK_RECORDS)
		next = first + CALL_LOG_BLOCK_RECORDS;
	rows.count = (size_t)(next - first);
	*ret_next = next;
	return !call_log_encode(writer->encoder, CALL_LOG_BLOCK_CALLS, &rows, first, lost, block);
}

static int encode_events(struct call_log_writer *writer, struct trace_area *area,
			 struct call_log_block *block, uint64_t *ret_next)
{
	/* Relaxed: a count; that it stands a little before or after these events does no harm. */
	uint64_t lost = atomic_load_explicit(&area->events.lost, memory_order_relaxed);
	/* (2) of [TRACE_RING]. */
	uint64_t head = atomic_load_explicit(&area->events.head, memory_order_acquire);
	uint64_t first = trace_ring_first(area, &area->events, area->event_capacity, head);
	struct column_rows rows = {
		.rows = trace_area_event(area, 0),
		.stride = sizeof(struct event_record),
		.first = (size_t)first,
		.mask = area->event_capacity - 1,
		.count = (size_t)(head - first),
		.nranks = area->nranks,
	};

	if (first == head)
		return 0;
	*ret_next = head;
	return !call_log_encode(writer->encoder, CALL_LOG_BLOCK_EVENTS, &rows, first, lost, block);
}

/* Says that the file holds all records of a ring below `next`. */
static void mark_written(struct drain *drain, struct trace_ring *ring, uint64_t next)
{
	struct trace_area *area = drain->area;

	if (ring == &area->calls)
		release_gaps(area, next);
	/* (3) of [TRACE_RING]. */
	atomic_store_explicit(&ring->written, next, memory_order_release);
}

/* Says where the file stands, for a survivor. Relaxed: read only after this process is dead. */
static void mark_file(struct drain *drain)
{
	uint64_t word = (uint64_t)drain->file->number << 40 | drain->file->bytes;

	if (drain->file->config.salvaged_by < 0)
		atomic_store_explicit(&drain->area->file, word, memory_order_relaxed);
}

typedef int (*encode_function)(struct call_log_writer *, struct trace_area *,
			       struct call_log_block *, uint64_t *);

enum drained { DRAINED_ALL, DRAINED_ONE, DRAINED_NOT };

/* Moves one block from a ring to the file. Guard is held except around the disk. */
static enum drained drain_block(struct call_log_writer *writer, struct drain *drain,
				struct trace_ring *ring, encode_function encode)
{
	struct call_log_totals totals;
	struct call_log_block block;
	uint64_t next;
	int status;

	if (!enter(writer))
		return DRAINED_NOT;
	totals_of(drain->area, &totals);
	if (!encode(writer, drain->area, &block, &next)) {
		leave(writer);
		return DRAINED_ALL;
	}
	leave(writer);

	status = call_log_file_prepare(drain->file, block.size, &totals);
	if (!status && enter(writer)) {
		mark_file(drain);
		leave(writer);
	}
	if (!status)
		status = call_log_file_append(drain->file, block.bytes, block.size);
	if (status) {
		tell_failure(writer, drain->file);
		return DRAINED_NOT;
	}

	/* A survivor that finds `written` behind the file, or the file's end behind `written`, puts
	 * it right. */
	if (!enter(writer))
		return DRAINED_NOT;
	mark_written(drain, ring, next);
	mark_file(drain);
	leave(writer);
	return DRAINED_ONE;
}

/* Writes all that stands in an area's rings. False when the disk does not take it. */
static int drain_area(struct call_log_writer *writer, struct drain *drain)
{
	enum drained events, calls;

	do {
		events = drain_block(writer, drain, &drain->area->events, encode_events);
	} while (events == DRAINED_ONE);
	if (events == DRAINED_NOT)
		return 0;
	do {
		calls = drain_block(writer, drain, &drain->area->calls, encode_calls);
	} while (calls == DRAINED_ONE);
	return calls == DRAINED_ALL;
}

/* A dead rank's rest --------------------------------------------------------------------- */

/* Learns what the dead rank's own file holds beyond what its rings say. False when abandoned. */
static int reconcile(struct call_log_writer *writer, struct trace_area *area)
{
	struct call_log_position position;

	if (!enter(writer))
		return 0;
	/* Acquire: whatever the dead rank's writer did before. No one else writes these words
	 * now. */
	position.file = atomic_load_explicit(&area->file, memory_order_acquire);
	position.calls = atomic_load_explicit(&area->calls.written, memory_order_acquire);
	position.events = atomic_load_explicit(&area->events.written, memory_order_acquire);
	position.rank = area->rank;
	leave(writer);

	call_log_salvage_position(writer->dir, writer->comm_id, &position);

	if (!enter(writer))
		return 0;
	/* Relaxed: from here on only this thread uses the dead rank's rings. */
	atomic_store_explicit(&area->calls.written, position.calls, memory_order_relaxed);
	atomic_store_explicit(&area->events.written, position.events, memory_order_relaxed);
	leave(writer);
	return 1;
}

/* Writes what a dead rank left. False when it must be tried again. */
static int salvage_rank(struct call_log_writer *writer, uint32_t rank)
{
	struct trace_area *area = trace_area_of(writer->rings, rank, writer->nranks);
	struct call_log_file_config config = writer->file.config;
	struct call_log_totals totals;
	struct call_log_file file;
	struct drain drain = {area, &file};
	int written;

	if (!reconcile(writer, area))
		return 1;
	config.rank = rank;
	config.salvaged_by = (int32_t)writer->rank;
	if (!enter(writer))
		return 1;
	config.run_id = area->run_id;
	leave(writer);
	call_log_file_init(&file, &config);
	written = drain_area(writer, &drain);
	if (!enter(writer)) {
		call_log_file_close(&file);
		return 1;
	}
	totals_of(area, &totals);
	leave(writer);
	/* A file even when nothing was left: its end says that nothing is missing. */
	if (written && call_log_file_prepare(&file, 0, &totals)) {
		tell_failure(writer, &file);
		written = 0;
	}
	call_log_file_finish(&file, &totals);
	return written;
}

/* Whether a rank can be salvaged at all: it joined, and what it left makes sense. */
static int salvageable(struct call_log_writer *writer, uint32_t rank)
{
	int sound;

	if (!writer->rings || rank == writer->rank || !enter(writer))
		return 0;
	sound = trace_area_sound(trace_area_of(writer->rings, rank, writer->nranks), rank,
				 writer->nranks);
	leave(writer);
	return sound;
}

static void salvage_all(struct call_log_writer *writer)
{
	/* Acquire: pairs with the request's release; the dead rank is dead. */
	uint64_t asked = atomic_exchange_explicit(&writer->salvage, 0, memory_order_acquire);

	for (uint32_t rank = 0; rank < writer->nranks; rank++) {
		if (!(asked >> rank & 1) || !salvageable(writer, rank))
			continue;
		/* Relaxed: this thread asks itself. */
		if (!salvage_rank(writer, rank))
			(void)atomic_fetch_or_explicit(&writer->salvage, (uint64_t)1 << rank,
						       memory_order_relaxed);
	}
}

/* The thread and its life ----------------------------------------------------------------- */

static void writer_free(struct call_log_writer *writer)
{
	call_log_file_close(&writer->file);
	call_log_encoder_free(writer->encoder);
	pthread_mutex_destroy(&writer->guard);
	free(writer->dir);
	free(writer);
}

/* The last things: what is left, and an end that says how much never came. */
static void finish(struct call_log_writer *writer, struct drain *drain)
{
	struct call_log_totals totals;
	uint64_t head;

	salvage_all(writer);
	/* A second try: the first may just have found out that the folder was removed. */
	if (!drain_area(writer, drain))
		(void)drain_area(writer, drain);
	if (!enter(writer))
		return;
	totals_of(drain->area, &totals);
	/* Relaxed: the producer has ended. What still stands there is lost with the rings. */
	head = atomic_load_explicit(&drain->area->calls.head, memory_order_relaxed);
	totals.calls_lost = atomic_load_explicit(&drain->area->calls.lost, memory_order_relaxed) +
			    (head - totals.calls);
	leave(writer);
	/* A log without a call has a file too, which tells of a rank that made none. */
	if (writer->file.fd < 0 && call_log_file_prepare(&writer->file, 0, &totals))
		tell_failure(writer, &writer->file);
	call_log_file_finish(&writer->file, &totals);
}

static void *writer_main(void *argument)
{
	struct call_log_writer *writer = argument;
	struct drain drain = {writer->area, &writer->file};
	int abandoned;

	for (;;) {
		/* Acquire: (4) of [LOG_DONE]; and the doorbell first, so that a ring during the
		 * work is not missed. */
		uint32_t seen = atomic_load_explicit(&writer->doorbell, memory_order_acquire);

		if (atomic_load_explicit(&writer->stopping, memory_order_acquire))
			break;
		(void)drain_area(writer, &drain); /* what was not written is tried again */
		salvage_all(writer);
		tell_overrun(writer);
		futex_wait_until(&writer->doorbell, seen, now_ns() + FLUSH_NS);
	}
	finish(writer, &drain);
	tell_overrun(writer);

	pthread_mutex_lock(&writer->guard);
	abandoned = writer->abandoned;
	/* (1) of [LOG_DONE]. Under guard: the stopper decides under it whether to wait any
	 * longer. */
	atomic_store_explicit(&writer->done, 1, memory_order_release);
	futex_wake_all(&writer->done);
	pthread_mutex_unlock(&writer->guard);
	if (abandoned)
		writer_free(writer);
	return NULL;
}

/* Starts the thread with every signal blocked: SIGXFSZ and the like then end in an errno. */
static int start_thread(struct call_log_writer *writer)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	if (pthread_attr_init(&attributes))
		return BELAY_E_NO_MEMORY;
	(void)pthread_attr_setstacksize(&attributes, STACK_BYTES); /* else the default */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&writer->thread, &attributes, writer_main, writer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error)
		return BELAY_E_SYSTEM;
	(void)pthread_setname_np(writer->thread, "belay-log");
	return 0;
}

static void init_file(struct call_log_writer *writer, const struct trace_config *config)
{
	const struct call_log_file_config file = {
		.dir = writer->dir,
		.comm_id = writer->comm_id,
		.rank = config->rank,
		.nranks = config->nranks,
		.salvaged_by = -1,
		.tick_ns = 1,
		.run_id = writer->area->run_id,
		.bytes_max = config->file_bytes_max,
		.files_keep = config->files_keep,
	};

	call_log_file_init(&writer->file, &file);
}

int call_log_writer_start(const struct trace_config *config, struct trace_area *area,
			  struct call_log_writer **ret_writer)
{
	uint32_t capacity = area->call_capacity > area->event_capacity ? area->call_capacity
								       : area->event_capacity;
	size_t records_max = capacity < CALL_LOG_BLOCK_RECORDS ? capacity : CALL_LOG_BLOCK_RECORDS;
	struct call_log_writer *writer = calloc(1, sizeof(*writer));
	int status = BELAY_E_NO_MEMORY;

	if (!writer)
		return status;
	pthread_mutex_init(&writer->guard, NULL);
	writer->area = area;
	writer->rings = config->rings;
	writer->rank = config->rank;
	writer->nranks = config->nranks;
	writer->message = config->message;
	writer->message_user = config->message_user;
	(void)snprintf(writer->comm_id, sizeof(writer->comm_id), "%s", config->comm_id);
	writer->dir = strdup(config->log_dir);
	init_file(writer, config);
	if (!writer->dir)
		goto out;
	status = call_log_encoder_create(config->nranks, records_max, &writer->encoder);
	if (status)
		goto out;
	status = start_thread(writer);
	if (status)
		goto out;

	*ret_writer = writer;
	writer = NULL; /* the caller's and the thread's now */
out:
	if (writer)
		writer_free(writer);
	return status;
}

void call_log_writer_wake(struct call_log_writer *writer)
{
	/* Release: the thread that sees the ring sees what it was rung for. */
	(void)atomic_fetch_add_explicit(&writer->doorbell, 1, memory_order_release);
	futex_wake_all(&writer->doorbell);
}

void call_log_writer_salvage(struct call_log_writer *writer, uint32_t rank)
{
	/* Release: see salvage_all(). */
	(void)atomic_fetch_or_explicit(&writer->salvage, (uint64_t)1 << rank, memory_order_release);
	call_log_writer_wake(writer);
}

/* Waits for the thread's end until the deadline. False, and the thread is on its own, when it
 * passes. */
static int wait_or_abandon(struct call_log_writer *writer, uint64_t deadline_ns)
{
	int done;

	/* (2) of [LOG_DONE]. */
	while (!atomic_load_explicit(&writer->done, memory_order_acquire) && now_ns() < deadline_ns)
		futex_wait_until(&writer->done, 0, deadline_ns);
	pthread_mutex_lock(&writer->guard);
	/* Relaxed: under guard. */
	done = (int)atomic_load_explicit(&writer->done, memory_order_relaxed);
	writer->abandoned = !done;
	if (!done)
		pthread_detach(writer->thread);
	pthread_mutex_unlock(&writer->guard);
	return done;
}

int call_log_writer_stop(struct call_log_writer *writer, uint64_t deadline_ns)
{
	/* Release: (3) of [LOG_DONE]. */
	atomic_store_explicit(&writer->stopping, 1, memory_order_release);
	call_log_writer_wake(writer);
	if (!wait_or_abandon(writer, deadline_ns))
		return BELAY_E_TIMEOUT;
	pthread_join(writer->thread, NULL);
	writer_free(writer);
	return 0;
}
