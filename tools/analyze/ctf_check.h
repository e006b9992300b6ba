/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the packets of a CTF trace before libbabeltrace2 does, which loops, aborts or gives up
 * the whole trace on what is found here: metadata cut inside a packet, torn or foreign packets,
 * empty streams. Behind what is no packet, packets are looked for again.
 */
#ifndef BELAY_TOOLS_ANALYZE_CTF_CHECK_H
#define BELAY_TOOLS_ANALYZE_CTF_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "tools/analyze/containers.h"

#define CTF_UUID_BYTES 16

struct ctf_packet {
	uint64_t offset, bytes;
};

/* How much of a file is whole packets. */
struct ctf_extent {
	uint64_t bytes;
	uint64_t whole;	    /* equal to bytes: nothing wrong */
	uint64_t fault_at;  /* where the first stretch that is none begins */
	uint64_t faults;    /* stretches */
	const char *reason; /* of the first; static; NULL: nothing wrong */
};

struct ctf_stream {
	const char *name; /* in the folder */
	struct ctf_extent extent;
	struct vector packets; /* struct ctf_packet; empty: not looked at, or none is whole */
};

struct ctf_check {
	struct ctf_extent metadata; /* whole 0: the trace cannot be read; else its beginning */
	struct vector streams;	    /* struct ctf_stream */
	uint64_t bytes;		    /* of the streams' whole packets */
};

/* Returns 0, BELAY_E_NO_MEMORY, or BELAY_E_SYSTEM (the folder cannot be read; errno tells). Texts
 * are the arena's; ctf_check_free() frees the rest. */
int ctf_check_folder(const char *folder, struct arena *arena, struct ctf_check *ret_check);
void ctf_check_free(struct ctf_check *check);

/* The two checks on bytes alone; pure. Returns 1 and the trace's id when the metadata states it. */
int ctf_check_metadata(const unsigned char *bytes, size_t size, struct ctf_extent *ret_extent,
		       unsigned char *ret_uuid);

/* A stream is walked by `read`, which fills `size` bytes from `offset` and returns 0, or -1. `uuid`
 * NULL: packets of any trace. Adds the whole packets to `packets`. Returns 0 or
 * BELAY_E_NO_MEMORY. */
typedef int ctf_read_function(void *user, uint64_t offset, unsigned char *ret_bytes, size_t size);
int ctf_check_stream(ctf_read_function *read, void *user, uint64_t size, const unsigned char *uuid,
		     struct vector *packets, struct ctf_extent *ret_extent);

/* Notes a stretch that is no whole packet. */
void ctf_extent_fault(struct ctf_extent *extent, uint64_t offset, const char *reason);

/* 1 if the metadata says that LTTng wrote the trace: only then is the layout of packet headers
 * known. */
int ctf_is_lttng(const unsigned char *metadata, size_t size);

#endif /* BELAY_TOOLS_ANALYZE_CTF_CHECK_H */
