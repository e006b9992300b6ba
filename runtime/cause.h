/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of causes of a communicator and its messages. A cause says what failed, which foreign
 * call, its code, the rank and the seq. Adding one is allowed on any thread, never on the healthy
 * path of a call.
 */
#ifndef BELAY_RUNTIME_CAUSE_H
#define BELAY_RUNTIME_CAUSE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"
#include "runtime/world.h"

struct cause_chain;

struct cause_config {
	belay_log_function log; /* NULL: one line to stderr, "belay: [rank N] level: text" */
	void *log_user;
	enum belay_log_level level;
	int rank;			/* -1: not known */
	const struct comm_world *world; /* in which ranks have other numbers too; or NULL */
};

/* Returns NULL without memory. Keeps the newest 64 causes; older ones are counted ("... 12
 * earlier causes"). */
struct cause_chain *cause_chain_create(const struct cause_config *config);
void cause_chain_free(struct cause_chain *chain);
/* Settings are known only after parsing. */
void cause_chain_set_level(struct cause_chain *chain, enum belay_log_level level);
/* The rank that messages name, when it was not known at first. Before any other thread uses the
 * chain. */
void cause_chain_set_rank(struct cause_chain *chain, int rank);

/* Likewise. `world` must outlive the chain. */
void cause_chain_set_world(struct cause_chain *chain, const struct comm_world *world);

/*
 * Adds a cause: "`text`: `call`: `code text` (`code`)". call may be NULL (no foreign call); code is
 * an errno value unless call is NULL. rank -1 and seq 0 are not printed. NULL chain is allowed and
 * ignored.
 */
void cause_add(struct cause_chain *chain, const char *call, int code, int rank, uint64_t seq,
	       const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Says something to a person: to the log callback, if level is enabled; the same `key` (a string
 * literal) only once, later ones are counted. Does not add a cause. */
void cause_message(struct cause_chain *chain, enum belay_log_level level, const char *key,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* How often a message of this key was due since creation, the first one included. */
uint64_t cause_message_count(struct cause_chain *chain, const char *key);

/* Sends all causes added since the last flush to the log callback at `level`, joined into one
 * line. */
void cause_flush(struct cause_chain *chain, enum belay_log_level level);

/* The chain as text, a line each, newest last, no newline at the end. Returns bytes needed with
 * the 0 byte. */
size_t cause_text(const struct cause_chain *chain, char *buffer, size_t size);

/* The newest cause's text in one line; "" when none. */
void cause_newest(const struct cause_chain *chain, char *buffer, size_t size);

/* Keeps the chain's text as the calling thread's belay_last_error(); NULL clears it. */
void cause_keep_as_last_error(const struct cause_chain *chain);

#endif /* BELAY_RUNTIME_CAUSE_H */
