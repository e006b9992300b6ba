/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of causes and the messages of a communicator. The only file of the library that writes
 * to stderr. Everything is bounded: the chain keeps the newest causes, a line has an end, a key
 * speaks once.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cause.h"

#define CAUSES_KEPT 64
#define CAUSE_BYTES 512
#define KEYS_MAX    64
#define LINE_BYTES  4096 /* PIPE_BUF: a write(2) of this many bytes is not torn */

/* A message's key and how often it came. */
struct said {
	const char *key;
	uint64_t count;
};

struct cause_chain {
	pthread_mutex_t lock; /* guards all below; never held while the log function runs */
	struct cause_config config;
	uint64_t added;	  /* causes ever added; the newest is text[(added - 1) % CAUSES_KEPT] */
	uint64_t flushed; /* of these, already sent by cause_flush() */
	char text[CAUSES_KEPT][CAUSE_BYTES];
	struct said said[KEYS_MAX];
};

/* Text that grows in a buffer of fixed size; `used` goes on counting past the end. */
struct line {
	char *buffer;
	size_t size;
	size_t used;
};

static _Thread_local char last_error[2 * LINE_BYTES];

static void line_add_v(struct line *line, const char *format, va_list arguments)
{
	size_t left = line->used < line->size ? line->size - line->used : 0;
	int added = vsnprintf(left ? line->buffer + line->used : NULL, left, format, arguments);

	if (added > 0)
		line->used += (size_t)added;
}

__attribute__((format(printf, 2, 3))) static void line_add(struct line *line, const char *format,
							   ...)
{
	va_list arguments;

	va_start(arguments, format);
	line_add_v(line, format, arguments);
	va_end(arguments);
}

/* Text from outside, such as a setting's value, must not forge lines or move the cursor. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* Ends a cut line in dots. */
static void mark_cut(struct line *line)
{
	if (line->used >= line->size && line->size >= sizeof("..."))
		strcpy(line->buffer + line->size - sizeof("..."), "...");
}

struct cause_chain *cause_chain_create(const struct cause_config *config)
{
	struct cause_chain *chain = calloc(1, sizeof(*chain));

	if (!chain)
		return NULL;
	pthread_mutex_init(&chain->lock, NULL);
	chain->config = *config;
	return chain;
}

void cause_chain_free(struct cause_chain *chain)
{
	if (!chain)
		return;
	pthread_mutex_destroy(&chain->lock);
	free(chain);
}

void cause_chain_set_level(struct cause_chain *chain, enum belay_log_level level)
{
	if (!chain)
		return;
	pthread_mutex_lock(&chain->lock);
	chain->config.level = level;
	pthread_mutex_unlock(&chain->lock);
}

void cause_chain_set_rank(struct cause_chain *chain, int rank)
{
	if (chain)
		chain->config.rank = rank;
}

void cause_chain_set_world(struct cause_chain *chain, const struct comm_world *world)
{
	if (chain)
		chain->config.world = world;
}

static void add_foreign(struct line *line, const char *call, int code)
{
	char buffer[128];

	if (call && code)
		line_add(line, ": %s: %s (%d)", call, strerror_r(code, buffer, sizeof(buffer)),
			 code);
	else if (call)
		line_add(line, ": %s", call);
	else if (code)
		line_add(line, " (%d)", code);
}

static void add_place(struct line *line, const struct comm_world *world, int rank, uint64_t seq)
{
	struct rank_words words = world_rank_words(world, rank);

	if (rank >= 0 && seq)
		line_add(line, " [rank %s, seq %llu]", words.text, (unsigned long long)seq);
	else if (rank >= 0)
		line_add(line, " [rank %s]", words.text);
	else if (seq)
		line_add(line, " [seq %llu]", (unsigned long long)seq);
}

void cause_add(struct cause_chain *chain, const char *call, int code, int rank, uint64_t seq,
	       const char *format, ...)
{
	char text[CAUSE_BYTES] = "";
	struct line line = {text, sizeof(text), 0};
	va_list arguments;

	if (!chain)
		return;

	va_start(arguments, format);
	line_add_v(&line, format, arguments);
	va_end(arguments);
	add_foreign(&line, call, code);
	add_place(&line, chain->config.world, rank, seq);
	mark_cut(&line);
	make_printable(text);

	pthread_mutex_lock(&chain->lock);
	memcpy(chain->text[chain->added++ % CAUSES_KEPT], text, sizeof(text));
	pthread_mutex_unlock(&chain->lock);
}

static const char *level_name(enum belay_log_level level)
{
	static const char *const names[] = {"off", "error", "warn", "info"};

	return names[level];
}

/*
 * Writes to stderr without ever being killed for it: the application's stderr may be a pipe whose
 * reader is gone. SIGPIPE goes to the thread that writes, so it can be held back and taken here,
 * unseen by the application, unless one was pending before.
 */
static void write_stderr(const char *text, size_t bytes)
{
	static const struct timespec at_once = {0, 0};
	sigset_t pipe_signal, mask, pending;
	int was_pending;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	pthread_sigmask(SIG_BLOCK, &pipe_signal, &mask);
	if (write(STDERR_FILENO, text, bytes) < 0 && errno == EPIPE && !was_pending)
		(void)sigtimedwait(&pipe_signal, NULL,
				   &at_once); /* none there: SIGPIPE is ignored */
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* Hands one line to the application or to stderr. errno is the caller's and stays. */
static void send_line(const struct cause_config *config, enum belay_log_level level,
		      const char *text)
{
	char buffer[LINE_BYTES];
	struct line line = {buffer, sizeof(buffer) - 1, 0};
	int error = errno;

	if (config->log) {
		config->log(config->log_user, level, text);
	} else {
		line_add(&line, "belay: ");
		if (config->rank >= 0)
			line_add(&line, "[rank %s] ",
				 world_rank_words(config->world, config->rank).text);
		line_add(&line, "%s: %s", level_name(level), text);
		mark_cut(&line);
		size_t length = strlen(buffer);
		buffer[length] = '\n';
		write_stderr(buffer, length + 1);
	}
	errno = error;
}

/* The entry of `key`, made when it is new; NULL when the table is full. */
static struct said *find_said_locked(struct cause_chain *chain, const char *key)
{
	for (size_t i = 0; i < KEYS_MAX; i++) {
		struct said *said = &chain->said[i];

		if (!said->key)
			said->key = key;
		if (strcmp(said->key, key) == 0)
			return said;
	}
	return NULL;
}

/* True when this message is to be sent; counts it. A message below the level does not use up its
 * key. */
static int may_speak_locked(struct cause_chain *chain, enum belay_log_level level, const char *key)
{
	struct said *said;

	if (level == BELAY_LOG_OFF || level > chain->config.level)
		return 0;
	said = key ? find_said_locked(chain, key) : NULL;
	return !said || said->count++ == 0;
}

void cause_message(struct cause_chain *chain, enum belay_log_level level, const char *key,
		   const char *format, ...)
{
	char text[LINE_BYTES] = "";
	struct line line = {text, sizeof(text), 0};
	struct cause_config config;
	va_list arguments;
	int speak;

	if (!chain)
		return;

	pthread_mutex_lock(&chain->lock);
	config = chain->config;
	speak = may_speak_locked(chain, level, key);
	pthread_mutex_unlock(&chain->lock);
	if (!speak)
		return;

	va_start(arguments, format);
	line_add_v(&line, format, arguments);
	va_end(arguments);
	mark_cut(&line);
	make_printable(text);
	send_line(&config, level, text);
}

uint64_t cause_message_count(struct cause_chain *chain, const char *key)
{
	uint64_t count = 0;

	pthread_mutex_lock(&chain->lock);
	for (size_t i = 0; i < KEYS_MAX && chain->said[i].key; i++)
		if (strcmp(chain->said[i].key, key) == 0)
			count = chain->said[i].count;
	pthread_mutex_unlock(&chain->lock);
	return count;
}

static uint64_t oldest_kept_locked(const struct cause_chain *chain)
{
	return chain->added > CAUSES_KEPT ? chain->added - CAUSES_KEPT : 0;
}

/* The causes from number `from` on, with a word on those that are gone. */
static void join_locked(const struct cause_chain *chain, uint64_t from, const char *separator,
			struct line *line)
{
	uint64_t oldest = oldest_kept_locked(chain);
	const char *between = "";

	if (from < oldest) {
		line_add(line, "... %llu earlier causes", (unsigned long long)(oldest - from));
		between = separator;
		from = oldest;
	}
	for (uint64_t i = from; i < chain->added; i++) {
		line_add(line, "%s%s", between, chain->text[i % CAUSES_KEPT]);
		between = separator;
	}
}

void cause_flush(struct cause_chain *chain, enum belay_log_level level)
{
	char text[LINE_BYTES] = "";
	struct line line = {text, sizeof(text), 0};
	struct cause_config config;

	if (!chain)
		return;

	pthread_mutex_lock(&chain->lock);
	config = chain->config;
	join_locked(chain, chain->flushed, "; ", &line);
	chain->flushed = chain->added;
	pthread_mutex_unlock(&chain->lock);

	mark_cut(&line);
	if (line.used && level != BELAY_LOG_OFF && level <= config.level)
		send_line(&config, level, text);
}

/* The chain is logically const: only its lock moves. */
static pthread_mutex_t *lock_of(const struct cause_chain *chain)
{
	return &((struct cause_chain *)chain)->lock;
}

size_t cause_text(const struct cause_chain *chain, char *buffer, size_t size)
{
	struct line line = {buffer, size, 0};

	if (size)
		buffer[0] = '\0';
	if (!chain)
		return 1;
	pthread_mutex_lock(lock_of(chain));
	join_locked(chain, 0, "\n", &line);
	pthread_mutex_unlock(lock_of(chain));
	return line.used + 1;
}

void cause_newest(const struct cause_chain *chain, char *buffer, size_t size)
{
	struct line line = {buffer, size, 0};

	if (size)
		buffer[0] = '\0';
	if (!chain)
		return;
	pthread_mutex_lock(lock_of(chain));
	if (chain->added)
		line_add(&line, "%s", chain->text[(chain->added - 1) % CAUSES_KEPT]);
	pthread_mutex_unlock(lock_of(chain));
}

void cause_keep_as_last_error(const struct cause_chain *chain)
{
	(void)cause_text(chain, last_error, sizeof(last_error)); /* a longer text is cut */
}

const char *belay_last_error(void)
{
	return last_error;
}
