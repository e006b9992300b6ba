/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/analyze/inputs.h"
#include "tools/analyze/interrupt.h"
#include "tools/analyze/lttng_import.h"

#define FOLDERS_DEEP_MAX 32
#define LOGS_IN_FILE_MAX 4096u

static struct input_file *file_at(const struct inputs *inputs, size_t i)
{
	return ((struct input_file **)inputs->files.items)[i];
}

int inputs_add_damage(struct inputs *inputs, const char *file, const char *reason, uint64_t kept,
		      int64_t lost)
{
	struct input_damage *damage = vector_add(&inputs->damages, sizeof(*damage));

	if (!damage)
		return BELAY_E_NO_MEMORY;
	damage->file = arena_text(&inputs->arena, file);
	damage->reason = arena_text(&inputs->arena, reason);
	damage->records_kept = kept;
	damage->records_lost = lost;
	if (!damage->file || !damage->reason) {
		inputs->damages.count--;
		return BELAY_E_NO_MEMORY;
	}
	return 0;
}

static struct input_file *new_file(struct inputs *inputs, const char *path)
{
	struct input_file *file = arena_alloc(&inputs->arena, sizeof(*file));
	struct input_file **slot;

	if (!file)
		return NULL;
	file->path = arena_text(&inputs->arena, path);
	slot = file->path ? vector_add(&inputs->files, sizeof(struct input_file *)) : NULL;
	if (!slot)
		return NULL;
	file->salvaged_by = -1;
	*slot = file;
	return file;
}

struct input_file *inputs_add_spool(struct inputs *inputs, const char *path, const char *comm_id,
				    uint32_t rank, uint32_t nranks, struct spool *spool)
{
	struct input_file *file = new_file(inputs, path);

	if (!file)
		return NULL;
	file->spool = spool;
	file->rank = rank;
	file->nranks = nranks;
	file->closed = 1;
	(void)snprintf(file->comm_id, sizeof(file->comm_id), "%s", comm_id);
	return file;
}

/* Reading a part ------------------------------------------------------------------------- */

static int part_open(void *self)
{
	struct input_file *file = self;
	const char *reason = "";
	int status;

	file->records_kept = 0;
	file->done_bytes = 0;
	if (file->spool) {
		(void)spool_rewind(file->spool); /* a spool that cannot be read gives no batch */
		file->all_bytes = spool_bytes(file->spool);
		return 0;
	}
	file->damage_lost = 0;
	file->writer_lost = 0;
	file->reason[0] = '\0';
	status = call_log_reader_open(file->path, file->offset, &file->reader, &reason);
	if (status == 0 && file->end)
		call_log_reader_limit(file->reader, file->end);
	if (status == 0 || status == BELAY_E_NO_MEMORY)
		return status;
	/* It was readable when the command began. */
	(void)snprintf(file->reason, sizeof(file->reason), "%s",
		       status == BELAY_E_SYSTEM ? strerror(errno) : reason);
	file->damage_lost = -1;
	return 0;
}

static void keep_damage(struct input_file *file)
{
	const struct call_log_damage *list;
	size_t n = call_log_reader_damage(file->reader, &list);
	size_t used;

	file->writer_lost = call_log_reader_records_lost(file->reader);
	file->closed = call_log_reader_closed(file->reader);
	for (size_t i = 0; i < n; i++) {
		if (list[i].records_lost < 0)
			file->damage_lost = -1;
		else if (file->damage_lost >= 0)
			file->damage_lost += list[i].records_lost;
	}
	if (n == 0)
		return;
	used = (size_t)snprintf(file->reason, sizeof(file->reason),
				"%s (%" PRIu64 " bytes at %" PRIu64 ")", list[0].reason,
				list[0].bytes, list[0].offset);
	if (n > 1 && used < sizeof(file->reason))
		(void)snprintf(file->reason + used, sizeof(file->reason) - used,
			       ", and %zu more places", n - 1);
}

static int part_next(void *self, struct call_log_batch *ret_batch)
{
	struct input_file *file = self;
	int status = 0;

	*ret_batch = (struct call_log_batch){.kind = CALL_LOG_END};
	if (interrupt_requested())
		return BELAY_E_ABORTED;
	if (file->spool) {
		spool_next(file->spool, ret_batch);
		file->done_bytes += ret_batch->count * ret_batch->stride;
	} else if (file->reader) {
		status = call_log_reader_next(file->reader, ret_batch);
		call_log_reader_progress(file->reader, &file->done_bytes, &file->all_bytes);
	}
	if (status != 0)
		return status;
	if (ret_batch->kind == CALL_LOG_CALLS)
		file->records_kept += ret_batch->count;
	else if (ret_batch->kind == CALL_LOG_END && file->reader)
		keep_damage(file);
	return 0;
}

static void part_close(void *self)
{
	struct input_file *file = self;

	call_log_reader_close(file->reader);
	file->reader = NULL;
}

const struct record_part_ops input_file_ops = {part_open, part_next, part_close};

/* Looking at a file ------------------------------------------------------------------------ */

/* Reads up to the first call, to know where the file belongs in its rank's sequence. */
static int peek(struct input_file *file)
{
	struct call_log_batch batch;
	int status = part_open(file);

	do {
		batch.kind = CALL_LOG_END;
		if (status == 0)
			status = part_next(file, &batch);
	} while (batch.kind == CALL_LOG_EVENTS ||
		 (batch.kind == CALL_LOG_CALLS && batch.count == 0));
	if (status == 0 && batch.kind == CALL_LOG_CALLS) {
		const struct call_record *first = batch.rows;

		file->first_seq = first->seq;
		file->first_ns = first->start_ns;
	}
	part_close(file);
	return status;
}

static int known_already(const struct inputs *inputs, const struct stat *about)
{
	for (size_t i = 0; i < inputs->files.count; i++) {
		const struct input_file *file = file_at(inputs, i);

		if (!file->spool && file->inode == about->st_ino && file->device == about->st_dev)
			return 1;
	}
	return 0;
}

static void take_info(struct input_file *file, const struct call_log_info *info)
{
	memcpy(file->comm_id, info->comm_id, sizeof(file->comm_id));
	file->comm_id[sizeof(file->comm_id) - 1] = '\0';
	file->rank = info->rank;
	file->nranks = info->nranks;
	file->number = info->file_number;
	file->salvaged_by = info->salvaged_by;
	file->first_ns = info->created_monotonic_ns;
}

/* Adds the log that is open, which ends where the next one begins. */
static int add_opened(struct inputs *inputs, const char *path, const struct stat *about,
		      struct call_log_reader *reader, struct input_file **ret_file)
{
	struct input_file *file = new_file(inputs, path);
	uint64_t done;

	if (!file)
		return BELAY_E_NO_MEMORY;
	file->device = about->st_dev;
	file->inode = about->st_ino;
	file->end = call_log_reader_following(reader);
	if (file->end)
		call_log_reader_limit(reader, file->end);
	call_log_reader_progress(reader, &done, &file->all_bytes);
	take_info(file, call_log_reader_info(reader));
	*ret_file = file;
	return 0;
}

/* Adds the log that begins at *offset, and goes on to the next in the same file; 0: there is none.
 */
static int add_log_at(struct inputs *inputs, const char *path, const struct stat *about,
		      uint64_t *offset)
{
	struct call_log_reader *reader = NULL;
	struct input_file *file = NULL;
	const char *reason = "";
	int status = call_log_reader_open(path, *offset, &reader, &reason);

	if (status == BELAY_E_NO_MEMORY)
		return status;
	if (status != 0) {
		*offset = 0;
		return inputs_add_damage(
			inputs, path, status == BELAY_E_SYSTEM ? strerror(errno) : reason, 0, -1);
	}
	status = add_opened(inputs, path, about, reader, &file);
	call_log_reader_close(reader);
	if (status != 0)
		return status;
	file->offset = *offset;
	*offset = file->end;
	return peek(file);
}

/* A file is one log, unless somebody has written several into one. */
static int add_log(struct inputs *inputs, const char *path, const struct stat *about)
{
	uint64_t offset = 0;
	size_t n = 0;
	int status;

	if (known_already(inputs, about))
		return 0;
	do
		status = add_log_at(inputs, path, about, &offset);
	while (status == 0 && offset && ++n < LOGS_IN_FILE_MAX);
	if (status == 0 && offset)
		status = inputs_add_damage(
			inputs, path, "too many logs in one file: the rest is left out", 0, -1);
	return status;
}

/* Folders ------------------------------------------------------------------------------------ */

static int add_below(struct inputs *inputs, const char *path, int depth, size_t *found);

static int has_suffix(const char *name, const char *suffix)
{
	size_t length = strlen(name), end = strlen(suffix);

	return length > end && strcmp(name + length - end, suffix) == 0;
}

static int not_dots(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int add_entry(struct inputs *inputs, const char *path, const char *name, int depth,
		     size_t *found)
{
	struct stat about;

	if (lstat(path, &about) != 0)
		return inputs_add_damage(inputs, path, strerror(errno), 0, -1);
	if (S_ISDIR(about.st_mode))
		return add_below(inputs, path, depth + 1, found);
	if (!has_suffix(name, ".belay"))
		return 0;
	(*found)++;
	/* A log may be a link; what it leads to is what is read. */
	if (stat(path, &about) != 0)
		return inputs_add_damage(inputs, path, strerror(errno), 0, -1);
	if (!S_ISREG(about.st_mode))
		return inputs_add_damage(inputs, path, "not a regular file", 0, -1);
	return add_log(inputs, path, &about);
}

static int add_entries(struct inputs *inputs, const char *folder, struct dirent **entries, int n,
		       int depth, size_t *found)
{
	int status = 0;

	for (int i = 0; status == 0 && i < n; i++) {
		char *path = NULL;

		if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0)
			return BELAY_E_NO_MEMORY;
		status = add_entry(inputs, path, entries[i]->d_name, depth, found);
		free(path);
	}
	return status;
}

static int add_below(struct inputs *inputs, const char *path, int depth, size_t *found)
{
	struct dirent **entries = NULL;
	int status, n;

	if (lttng_is_trace(path)) {
		(*found)++;
		return lttng_import(inputs, path);
	}
	if (depth > FOLDERS_DEEP_MAX)
		return inputs_add_damage(inputs, path, "too many folders in one another", 0, -1);
	n = scandir(path, &entries, not_dots, alphasort);
	if (n < 0)
		return errno == ENOMEM ? BELAY_E_NO_MEMORY
				       : inputs_add_damage(inputs, path, strerror(errno), 0, -1);
	status = add_entries(inputs, path, entries, n, depth, found);
	for (int i = 0; i < n; i++)
		free(entries[i]);
	free(entries);
	return status;
}

int inputs_add(struct inputs *inputs, const char *path, size_t *ret_found)
{
	struct stat about;
	size_t found = 0;
	int status;

	if (stat(path, &about) != 0) {
		status = inputs_add_damage(inputs, path, strerror(errno), 0, -1);
	} else if (S_ISDIR(about.st_mode)) {
		status = add_below(inputs, path, 0, &found);
		if (status == 0 && found == 0)
			status = inputs_add_damage(inputs, path,
						   "no call log and no LTTng trace in it", 0, -1);
	} else if (S_ISREG(about.st_mode)) {
		found = 1;
		status = add_log(inputs, path, &about);
	} else {
		status = inputs_add_damage(inputs, path, "neither a file nor a folder", 0, -1);
	}
	*ret_found = found;
	return status;
}

/* Sorting -------------------------------------------------------------------------------------- */

static int by_comm_rank_seq(const void *a, const void *b)
{
	const struct input_file *x = *(struct input_file *const *)a;
	const struct input_file *y = *(struct input_file *const *)b;
	int order = strcmp(x->comm_id, y->comm_id);

	if (order)
		return order;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->first_seq != y->first_seq)
		return x->first_seq < y->first_seq ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static int by_first_ns(const void *a, const void *b)
{
	const struct input_comm *x = a, *y = b;

	if (x->first_ns != y->first_ns)
		return x->first_ns < y->first_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* Takes out, as damaged, what cannot be a rank of its communicator. The first file decides its
 * size. */
static int drop_strangers(struct inputs *inputs)
{
	const struct input_file *leader = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < inputs->files.count; i++) {
		struct input_file *file = file_at(inputs, i);
		char reason[96];
		int status;

		if (!leader || strcmp(leader->comm_id, file->comm_id) != 0)
			leader = file;
		if (file->nranks == leader->nranks && file->rank < file->nranks &&
		    file->nranks <= BELAY_RANKS_MAX) {
			((struct input_file **)inputs->files.items)[kept++] = file;
			continue;
		}
		(void)snprintf(reason, sizeof(reason),
			       "says rank %" PRIu32 " of %" PRIu32
			       " where its communicator has %" PRIu32,
			       file->rank, file->nranks, leader->nranks);
		spool_free(file->spool);
		status = inputs_add_damage(inputs, file->path, reason, 0, -1);
		if (status != 0)
			return status;
	}
	inputs->files.count = kept;
	return 0;
}

static int group(struct inputs *inputs)
{
	struct input_comm *comm = NULL;

	for (size_t i = 0; i < inputs->files.count; i++) {
		const struct input_file *file = file_at(inputs, i);

		if (!comm || strcmp(comm->id, file->comm_id) != 0) {
			comm = vector_add(&inputs->comms, sizeof(*comm));
			if (!comm)
				return BELAY_E_NO_MEMORY;
			*comm = (struct input_comm){file->comm_id, file->nranks, i, 0,
						    file->first_ns};
		}
		comm->count++;
		if (file->first_ns < comm->first_ns)
			comm->first_ns = file->first_ns;
	}
	return 0;
}

int inputs_sort(struct inputs *inputs)
{
	int status;

	sort_items(inputs->files.items, inputs->files.count, sizeof(struct input_file *),
		   by_comm_rank_seq);
	status = drop_strangers(inputs);
	if (status == 0)
		status = group(inputs);
	if (status == 0)
		sort_items(inputs->comms.items, inputs->comms.count, sizeof(struct input_comm),
			   by_first_ns);
	return status;
}

int inputs_collect_damage(struct inputs *inputs)
{
	int status = 0;

	for (size_t i = 0; status == 0 && i < inputs->files.count; i++) {
		const struct input_file *file = file_at(inputs, i);

		if (file->reason[0])
			status = inputs_add_damage(inputs, file->path, file->reason,
						   file->records_kept, file->damage_lost);
	}
	return status;
}

static int is_same_file(const char *path, const struct stat *about)
{
	struct stat other;

	return stat(path, &other) == 0 && other.st_ino == about->st_ino &&
	       other.st_dev == about->st_dev;
}

/* 1 if the path leads into the folder. */
static int is_below(const char *path, const char *folder)
{
	char *whole = realpath(path, NULL), *top = realpath(folder, NULL);
	size_t length = top ? strlen(top) : 0;
	int below = whole && top && strncmp(whole, top, length) == 0 && whole[length] == '/';

	free(whole);
	free(top);
	return below;
}

int inputs_contain(const struct inputs *inputs, const char *path)
{
	const struct input_damage *damages = inputs->damages.items;
	struct stat about;

	if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
		return 0;
	if (known_already(inputs, &about))
		return 1;
	for (size_t i = 0; i < inputs->files.count; i++) {
		const struct input_file *file = file_at(inputs, i);

		if (file->spool && is_below(path, file->path))
			return 1;
	}
	for (size_t i = 0; i < inputs->damages.count; i++) {
		if (is_same_file(damages[i].file, &about) || is_below(path, damages[i].file))
			return 1;
	}
	return 0;
}

void inputs_free(struct inputs *inputs)
{
	for (size_t i = 0; i < inputs->files.count; i++) {
		part_close(file_at(inputs, i));
		spool_free(file_at(inputs, i)->spool);
	}
	vector_free(&inputs->files);
	vector_free(&inputs->comms);
	vector_free(&inputs->damages);
	arena_free(&inputs->arena);
}
