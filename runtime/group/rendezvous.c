/* SPDX-License-Identifier: Apache-2.0 */
/* The meeting as the communicator sees it: begin, barriers, agreement, end. See meeting.h. */
#include "config.h"

#include "runtime/group/rendezvous.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/group/meeting.h"

static void members_init(struct group_members *members)
{
	memset(members, 0, sizeof(*members));
	members->control_fd = -1;
	members->region_fd = -1;
	for (int rank = 0; rank < BELAY_RANKS_MAX; rank++) {
		members->pidfd[rank] = -1;
		members->link[rank] = -1;
	}
}

static void members_close(struct group_members *members)
{
	packet_close(&members->control_fd);
	packet_close(&members->region_fd);
	for (int rank = 0; rank < BELAY_RANKS_MAX; rank++) {
		packet_close(&members->pidfd[rank]);
		packet_close(&members->link[rank]);
	}
}

static void meeting_free(struct rendezvous *m)
{
	for (int rank = 0; rank < BELAY_RANKS_MAX; rank++)
		packet_close(&m->seat[rank]);
	free(m);
}

static int check_spec(const struct rendezvous_spec *spec, struct cause_chain *causes)
{
	if (spec->nranks >= 1 && spec->nranks <= BELAY_RANKS_MAX && spec->rank >= 0 &&
	    spec->rank < spec->nranks && spec->meeting && spec->agree_text)
		return 0;
	cause_add(causes, NULL, 0, -1, 0,
		  "rank %d of %d: expected 1 to %d ranks and a rank below their number", spec->rank,
		  spec->nranks, BELAY_RANKS_MAX);
	return BELAY_E_ARGUMENT;
}

/* Every rank passes on a pidfd of its own: made here it is right in every PID namespace. */
static int open_own_pidfd(struct rendezvous *m)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0) {
		int error = errno;

		cause_add(m->causes, "pidfd_open", error, -1, 0,
			  "cannot watch over this process (Linux 5.3 or newer is needed)");
		return meeting_status_of_errno(error);
	}
	m->shared.pidfd[m->rank] = fd;
	return 0;
}

/* Descriptors that this rank holds at its worst moment; see host_share() and member_begin(). */
static unsigned int descriptors_needed(int rank, int nranks)
{
	unsigned int n = (unsigned int)nranks;
	unsigned int kept = 2 + n + (n - 1); /* memory, pidfds, links */

	if (n == 1)
		return kept;
	return rank == 0 ? kept + (n - 1) + 2 * (n - 1) /* seats, both ends of a round's links */
			 : kept + 2;			/* seat, rank 0's pidfd once more */
}

static int prepare(struct rendezvous *m)
{
	int status = meeting_check_descriptors(descriptors_needed(m->rank, m->nranks), m->causes);

	return status ? status : open_own_pidfd(m);
}

static struct rendezvous *meeting_new(const struct rendezvous_spec *spec,
				      struct cause_chain *causes)
{
	struct rendezvous *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->causes = causes;
	m->spec = *spec;
	m->faults = spec->faults;
	m->meeting = spec->meeting;
	m->rank = spec->rank;
	m->nranks = spec->nranks;
	m->begin_ns = clock_now_ns();
	m->deadline_ns = spec->deadline_ns;
	m->joined = UINT64_C(1) << spec->rank;
	m->pid[spec->rank] = (int)getpid();
	members_init(&m->shared);
	for (int rank = 0; rank < BELAY_RANKS_MAX; rank++)
		m->seat[rank] = -1;
	meeting_compose(m, HANDSHAKE_HELLO, &m->hello);
	m->hello.control_bytes = spec->control_bytes;
	m->hello.region_bytes = spec->region_bytes;
	handshake_set_text(&m->hello, spec->agree_text);
	return m;
}

int rendezvous_begin(const struct rendezvous_spec *spec, struct rendezvous **ret_meeting,
		     struct group_members *ret_members, struct cause_chain *causes)
{
	struct rendezvous *m;
	int status = check_spec(spec, causes);

	if (status)
		return status;
	m = meeting_new(spec, causes);
	if (!m)
		return BELAY_E_NO_MEMORY;
	meeting_fault(m);
	m->unfit = spec->unfit ? spec->unfit : prepare(m);
	status = m->rank == 0 ? host_begin(m) : member_begin(m);
	if (status) {
		members_close(&m->shared);
		meeting_free(m);
		return status;
	}
	m->meeting = NULL; /* the caller's texts are not looked at any more */
	m->spec.meeting = m->spec.agree_text = NULL;
	*ret_members = m->shared;
	*ret_meeting = m;
	return 0;
}

int rendezvous_barrier(struct rendezvous *m)
{
	if (m->failed)
		return m->failed;
	meeting_fault(m);
	m->step++;
	return m->rank == 0 ? host_barrier(m) : member_barrier(m);
}

int rendezvous_agree(struct rendezvous *m, uint32_t usable, const char *reason,
		     uint32_t *ret_usable, char *ret_reasons, size_t size)
{
	if (m->failed)
		return m->failed;
	meeting_fault(m);
	m->step++;
	return m->rank == 0 ? host_agree(m, usable, reason, ret_usable, ret_reasons, size)
			    : member_agree(m, usable, reason, ret_usable, ret_reasons, size);
}

int rendezvous_end(struct rendezvous *m, int status)
{
	if (status == 0)
		status = rendezvous_barrier(m);
	else if (!m->failed)
		(void)meeting_fail_own(m, status); /* it returns what it is given */
	meeting_free(m);
	return status;
}
