/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a meeting, as bytes: encode, decode, verify. Pure: no I/O, no clock, no memory
 * of its own. Every message has one layout, a fixed head and a text, so that one decoder faces
 * whatever a stranger sends.
 *
 * The first 48 bytes (magic to secret) keep their place in every later protocol: by them ranks of
 * different versions can tell each other so.
 */
#ifndef BELAY_RUNTIME_GROUP_HANDSHAKE_H
#define BELAY_RUNTIME_GROUP_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"

#define HANDSHAKE_PROTOCOL   1u
#define HANDSHAKE_HEAD_BYTES 128
#define HANDSHAKE_TEXT_MAX   8192
#define HANDSHAKE_BYTES_MAX  (HANDSHAKE_HEAD_BYTES + HANDSHAKE_TEXT_MAX)

/* Who sends it; the fields it uses besides rank, nranks, pid, secret; attached descriptors. */
enum handshake_type {
	HANDSHAKE_HELLO = 1,  /* member: sizes, text = settings that must agree; its own pidfd */
	HANDSHAKE_SEATED = 2, /* rank 0: mask of ranks that are here; rank 0's pidfd */
	HANDSHAKE_JOINED = 3, /* rank 0: mask of ranks that are here now */
	HANDSHAKE_SHARE = 4,  /* rank 0: comm_id, generation, sizes, step, mask bit 0 = there is a
			       * region, text = why not; control, region, pidfds by rank */
	HANDSHAKE_LINKS = 5, /* rank 0: step, mask of peers; a socket for each, lowest rank first */
	HANDSHAKE_READY = 6, /* member: step is finished here */
	HANDSHAKE_GO = 7,    /* rank 0: step is finished everywhere */
	HANDSHAKE_VOTE = 8,  /* member: step, mask of usable paths, text = why not the others */
	HANDSHAKE_ANSWER = 9, /* rank 0: step, mask usable on all, text = all reasons */
	HANDSHAKE_FAIL = 10   /* either: status, text; the creation is over */
};

struct handshake_message {
	uint32_t protocol;
	uint32_t library; /* BELAY_VERSION of the sender */
	uint32_t type;	  /* enum handshake_type */
	int32_t rank;	  /* the sender's; not yet checked against anything by the decoder */
	int32_t nranks;
	uint8_t secret[16];
	uint64_t pid; /* the sender's, in its own namespace */
	uint8_t comm_id[16];
	uint64_t generation;
	uint64_t control_bytes;
	uint64_t region_bytes;
	uint64_t mask;
	uint32_t step;
	int32_t status;
	uint32_t ndescriptors; /* how many are attached to the packet */
	uint32_t text_bytes;
	char text[HANDSHAKE_TEXT_MAX + 1]; /* always ended by a 0 byte, holds no other */
};

enum handshake_result {
	HANDSHAKE_OK = 0,
	HANDSHAKE_GARBAGE = 1,	     /* not a message, or a damaged one */
	HANDSHAKE_OTHER_PROTOCOL = 2 /* only its first 48 bytes are decoded */
};

/* What the first message of a connection makes of its sender. */
enum handshake_sender {
	HANDSHAKE_MEMBER = 0,	/* belongs here */
	HANDSHAKE_STRANGER = 1, /* does not know the secret: no business of the meeting */
	HANDSHAKE_MISFIT = 2	/* knows the secret, but does not fit: the meeting must fail */
};

/* Empties all but protocol and library. */
void handshake_init(struct handshake_message *message, enum handshake_type type);

/* Sets the text, cut at HANDSHAKE_TEXT_MAX. */
void handshake_set_text(struct handshake_message *message, const char *text);

/* Writes at most HANDSHAKE_BYTES_MAX bytes; returns how many. */
size_t handshake_encode(const struct handshake_message *message, uint8_t *buffer);

/* ret_message is untouched for garbage. */
enum handshake_result handshake_decode(const uint8_t *bytes, size_t nbytes,
				       struct handshake_message *ret_message);

/*
 * Compares the first message of a connection with rank 0's own HELLO. `result` is what the decoder
 * said of it. For a misfit ret_text says what differs, with both values and both ranks.
 */
enum handshake_sender handshake_verify(const struct handshake_message *own,
				       const struct handshake_message *message,
				       enum handshake_result result, char *ret_text, size_t size);

/* 1 if equal; takes the same time wherever they differ. */
int handshake_secret_equal(const uint8_t a[16], const uint8_t b[16]);

/* 64-bit FNV-1a with a final mix, from `seed`; for checksums and names, not against forgery. */
uint64_t handshake_hash(const void *bytes, size_t nbytes, uint64_t seed);

#endif /* BELAY_RUNTIME_GROUP_HANDSHAKE_H */
