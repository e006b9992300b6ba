/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the packets of a CTF trace before libbabeltrace2 does, which loops, aborts or gives up
 * the whole trace on what is found here: metadata cut inside a packet, torn or foreign packets,
 * empty streams.
 */
#ifndef BELAY_TOOLS_ANALYZE_CTF_CHECK_H
#define BELAY_TOOLS_ANALYZE_CTF_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "tools/analyze/containers.h"

/* How much of a file is whole packets from its beginning. */
struct ctf_extent {
	uint64_t bytes;
	uint64_t whole;	    /* equal to bytes: nothing wrong */
	const char *reason; /* static; NULL: nothing wrong */
};

struct ctf_stream {
	const char *name; /* in the folder */
	struct ctf_extent extent;
};

struct ctf_check {
	struct ctf_extent metadata; /* whole 0: the trace cannot be read */
	struct vector streams;	    /* struct ctf_stream */
	uint64_t bytes;		    /* of the streams' whole packets */
};

/* Returns 0, BELAY_E_NO_MEMORY, or BELAY_E_SYSTEM (the folder cannot be read; errno tells). Texts
 * are the arena's; free ret_check->streams with vector_free(). */
int ctf_check_folder(const char *folder, struct arena *arena, struct ctf_check *ret_check);

/* The two checks on bytes alone; pure. A stream is walked by `read`, which fills `size` bytes from
 * `offset` and returns 0, or -1. */
void ctf_check_metadata(const unsigned char *bytes, size_t size, struct ctf_extent *ret_extent);
typedef int ctf_read_function(void *user, uint64_t offset, unsigned char *ret_bytes, size_t size);
void ctf_check_stream(ctf_read_function *read, void *user, uint64_t size,
		      struct ctf_extent *ret_extent);

/* 1 if the metadata says that LTTng wrote the trace: only then is the layout of packet headers
 * known. */
int ctf_is_lttng(const unsigned char *metadata, size_t size);

#endif /* BELAY_TOOLS_ANALYZE_CTF_CHECK_H */
