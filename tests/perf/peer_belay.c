/* SPDX-License-Identifier: Apache-2.0 */
/*
 * belay as one of the peers of the side-by-side harness (docs/performance.md): the harness times an
 * in-place sum through these eight functions, the same code for every peer. REGION=1 takes the
 * buffer from the region. Not part of the build: it needs the harness, which is not part of belay.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/belay.h"

enum { DT_F32 = 0, DT_BF16 = 1 };

const char *peer_name(void);
int peer_self_launch(void);
void peer_init(int *rank, int *size, const char *id);
void *peer_alloc(size_t bytes);
int peer_supports(int dt, int size, size_t bytes);
void peer_prepare(void *buf, size_t n, int dt);
int peer_allreduce(void *buf, size_t n, int dt);
void peer_fini(void);

static struct belay_comm *comm;

static int wants_region(void)
{
	return getenv("REGION") != NULL;
}

const char *peer_name(void)
{
	return wants_region() ? "belay-region" : "belay";
}

int peer_self_launch(void)
{
	return 1;
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

void peer_init(int *rank, int *size, const char *id)
{
	setenv("BELAY_JOB", id, 1);
	set_number("RANK", *rank);
	set_number("WORLD_SIZE", *size);
	if (belay_comm_create_from_env(&comm, NULL)) {
		fprintf(stderr, "%s\n", belay_last_error());
		_exit(4);
	}
}

void *peer_alloc(size_t bytes)
{
	void *buffer = NULL;

	if (!wants_region())
		return aligned_alloc(4096, bytes);
	if (belay_buffer_alloc(comm, bytes, &buffer)) {
		fprintf(stderr, "no region buffer of %zu bytes\n", bytes);
		_exit(5);
	}
	return buffer;
}

int peer_supports(int dt, int size, size_t bytes)
{
	(void)dt;
	(void)size;
	(void)bytes;
	return 1;
}

void peer_prepare(void *buf, size_t n, int dt)
{
	(void)buf;
	(void)n;
	(void)dt;
}

int peer_allreduce(void *buf, size_t n, int dt)
{
	return belay_allreduce(buf, buf, n, dt == DT_F32 ? BELAY_F32 : BELAY_BF16, BELAY_SUM, comm,
			       NULL);
}

void peer_fini(void)
{
	(void)belay_comm_destroy(comm); /* the harness is over */
}
