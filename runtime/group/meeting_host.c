/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's side once all have joined: hands out memory and sockets, leads barriers, spreads
 * failures. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/group/meeting.h"
#include "runtime/group/shared_memory.h"

/* While this many descriptors are under way for this user, wait and try again. */
#define RETRY_NS UINT64_C(2000000)
/* Asked for; the kernel grants up to net.core.wmem_max. */
#define LINK_BUFFER_BYTES (4 << 20)

/* Takes the answers of a step, if they have content. */
typedef void (*answer_function)(void *context, int rank, const struct handshake_message *answer);

void host_tell_failure(struct rendezvous *m)
{
	struct handshake_message message;

	meeting_compose(m, HANDSHAKE_FAIL, &message);
	message.status = m->failed;
	handshake_set_text(&message, m->fail_text);
	for (int rank = 1; rank < m->nranks; rank++)
		if (m->seat[rank] >= 0)
			(void)packet_send(m->seat[rank], &message, NULL, 0); /* or it sees us go */
}

int host_lost(struct rendezvous *m, int rank)
{
	return meeting_fail_group(m, BELAY_E_START_TIMEOUT,
				  "rank %d (pid %d) died while the communicator was created", rank,
				  m->pid[rank]);
}

int host_hear(struct rendezvous *m, int rank, struct packet *ret_packet)
{
	int status = packet_receive(m->seat[rank], ret_packet);

	if (status == -EAGAIN)
		return 1;
	if (status == -EPIPE)
		return host_lost(m, rank);
	if (status) {
		cause_add(m->causes, "recvmsg", -status, rank, 0, "cannot understand rank %d",
			  rank);
		return meeting_fail_own(m, meeting_status_of_errno(-status));
	}
	if (ret_packet->message.type != HANDSHAKE_FAIL)
		return 0;
	packet_discard(ret_packet);
	return meeting_fail_group(m, meeting_status_from(ret_packet->message.status), "%.700s",
				  ret_packet->message.text);
}

static int stuck(struct rendezvous *m, uint64_t waiting)
{
	char ranks[400];

	meeting_list_missing(~waiting, m->nranks, ranks, sizeof(ranks));
	return meeting_fail_group(
		m, BELAY_E_START_TIMEOUT,
		"of %d ranks these joined but did not go on: %s; waited for %llu ms", m->nranks,
		ranks, meeting_allowed_ms(m));
}

/* Sends to one member, waiting for room until the deadline. */
static int host_send(struct rendezvous *m, int rank, struct handshake_message *message,
		     const int *fds, size_t nfds)
{
	for (;;) {
		int error = packet_send(m->seat[rank], message, fds, nfds);

		if (error == 0)
			return 0;
		if (error == -EPIPE) {
			struct packet packet;
			int status = host_hear(m, rank, &packet); /* it may have left word */

			if (status == 0)
				packet_discard(&packet);
			return status < 0 ? status : host_lost(m, rank);
		}
		if (error != -EAGAIN && error != -ETOOMANYREFS) {
			cause_add(m->causes, "sendmsg", -error, -1, 0, "cannot write to rank %d",
				  rank);
			return meeting_fail_own(m, meeting_status_of_errno(-error));
		}
		if (clock_now_ns() >= m->deadline_ns && error == -EAGAIN)
			return stuck(m, UINT64_C(1) << rank);
		if (clock_now_ns() >= m->deadline_ns) {
			cause_add(
				m->causes, "sendmsg", -error, -1, 0,
				"RLIMIT_NOFILE is too low for the descriptors that are under way");
			return meeting_fail_own(m, BELAY_E_LIMIT);
		}
		packet_pause(RETRY_NS, m->deadline_ns);
	}
}

/* Reads what the poll of a member has shown. Clears its bit in *waiting when it has answered. */
static int take_answer(struct rendezvous *m, int rank, int is_dead, uint64_t *waiting,
		       answer_function take, void *context)
{
	struct packet packet;
	int status = host_hear(m, rank, &packet);

	if (status == 1)
		return is_dead ? host_lost(m, rank) : 0;
	if (status)
		return status;
	packet_discard(&packet); /* members attach nothing from here on */
	if (packet.message.step != m->step || !(*waiting >> rank & 1))
		return meeting_fail_group(m, BELAY_E_SYSTEM,
					  "rank %d (pid %d) is at another step of the meeting",
					  rank, m->pid[rank]);
	*waiting &= ~(UINT64_C(1) << rank);
	if (take)
		take(context, rank, &packet.message);
	return 0;
}

/* Waits until all members of mask have answered this step; looks out for the death of any. */
static int collect(struct rendezvous *m, uint64_t mask, answer_function take, void *context)
{
	struct pollfd poll[2 * BELAY_RANKS_MAX]; /* seats, then pidfds */
	uint64_t waiting = mask & ~UINT64_C(1);
	int status = 0;

	for (int i = 0; i < BELAY_RANKS_MAX; i++) {
		poll[i] = (struct pollfd){.fd = m->seat[i], .events = POLLIN};
		poll[BELAY_RANKS_MAX + i] = (struct pollfd){
			.fd = m->seat[i] >= 0 ? m->shared.pidfd[i] : -1, .events = POLLIN};
	}
	while (waiting && !status) {
		int ready = packet_poll(poll, 2 * BELAY_RANKS_MAX, m->deadline_ns);

		if (ready == 0)
			return stuck(m, waiting);
		if (ready < 0) {
			cause_add(m->causes, "ppoll", -ready, -1, 0, "cannot wait for the ranks");
			return meeting_fail_own(m, BELAY_E_SYSTEM);
		}
		for (int i = 1; i < m->nranks && !status; i++) {
			int is_dead = poll[BELAY_RANKS_MAX + i].revents != 0;

			if (poll[i].revents || is_dead)
				status = take_answer(m, i, is_dead, &waiting, take, context);
		}
	}
	return status;
}

static int send_all(struct rendezvous *m, struct handshake_message *message)
{
	int status = 0;

	for (int rank = 1; rank < m->nranks && !status; rank++)
		status = host_send(m, rank, message, NULL, 0);
	return status;
}

/* The step is finished everywhere. */
static int release(struct rendezvous *m)
{
	struct handshake_message message;

	meeting_compose(m, HANDSHAKE_GO, &message);
	return send_all(m, &message);
}

int host_barrier(struct rendezvous *m)
{
	int status = collect(m, meeting_all(m), NULL, NULL);

	return status ? status : release(m);
}

/* The votes of an agreement, gathered in rank order. */
struct votes {
	uint32_t usable;
	char reasons[BELAY_RANKS_MAX][504];
};

static void take_vote(void *context, int rank, const struct handshake_message *answer)
{
	struct votes *votes = context;

	votes->usable &= (uint32_t)answer->mask;
	(void)snprintf(votes->reasons[rank], sizeof(votes->reasons[rank]), "%.500s", answer->text);
}

/* Writes "rank N: line" for each line of each rank's reasons; what does not fit is cut. */
static void join_reasons(struct votes *votes, int nranks, char *ret_text, size_t size)
{
	size_t used = 0;

	*ret_text = '\0';
	for (int rank = 0; rank < nranks; rank++) {
		char *rest = votes->reasons[rank], *line;

		while ((line = strsep(&rest, "\n")) != NULL) {
			if (!*line || used >= size)
				continue;
			used += (size_t)snprintf(ret_text + used, size - used, "rank %d: %s\n",
						 rank, line);
		}
	}
}

int host_agree(struct rendezvous *m, uint32_t usable, const char *reason, uint32_t *ret_usable,
	       char *ret_reasons, size_t size)
{
	struct handshake_message answer;
	struct votes *votes = calloc(1, sizeof(*votes));
	char reasons[HANDSHAKE_TEXT_MAX + 1];
	int status;

	if (!votes)
		return meeting_fail_own(m, BELAY_E_NO_MEMORY);
	votes->usable = usable;
	(void)snprintf(votes->reasons[0], sizeof(votes->reasons[0]), "%.500s",
		       reason ? reason : "");
	status = collect(m, meeting_all(m), take_vote, votes);
	if (status)
		goto out;
	join_reasons(votes, m->nranks, reasons, sizeof(reasons));
	meeting_compose(m, HANDSHAKE_ANSWER, &answer);
	answer.mask = votes->usable;
	handshake_set_text(&answer, reasons);
	status = send_all(m, &answer);
	if (status)
		goto out;
	*ret_usable = votes->usable;
	if (size > 0)
		(void)snprintf(ret_reasons, size, "%s", answer.text);
out:
	free(votes);
	return status;
}

static int draw(struct rendezvous *m, void *ret_bytes, size_t nbytes)
{
	if (getrandom(ret_bytes, nbytes, GRND_NONBLOCK) == (ssize_t)nbytes)
		return 0;
	cause_add(m->causes, "getrandom", errno, -1, 0, "the kernel has no random numbers yet");
	return meeting_fail_own(m, BELAY_E_SYSTEM);
}

/* Makes what all will share. Without a region the ranks can still meet: other paths need none. */
static int make_shared(struct rendezvous *m)
{
	struct group_members *shared = &m->shared;
	const struct rendezvous_spec *spec = &m->spec;
	int status = draw(m, shared->comm_id, sizeof(shared->comm_id));

	if (!status)
		status = draw(m, &shared->generation, sizeof(shared->generation));
	if (status)
		return status;
	shared->generation |= shared->generation == 0;
	status = shared_memory_create("belay-control", spec->control_bytes, 0, spec->control_bytes,
				      &shared->control_fd, m->causes);
	if (status)
		return meeting_fail_own(m, status);
	if (shared_memory_create("belay-region", spec->region_bytes, spec->region_stride,
				 spec->region_reserved, &shared->region_fd, m->causes) != 0)
		cause_newest(m->causes, shared->region_error, sizeof(shared->region_error));
	return 0;
}

static int share(struct rendezvous *m)
{
	struct handshake_message message;
	int fds[PACKET_DESCRIPTORS_MAX];
	size_t nfds = 0;
	int status = 0;

	m->step++;
	meeting_compose(m, HANDSHAKE_SHARE, &message);
	memcpy(message.comm_id, m->shared.comm_id, sizeof(message.comm_id));
	message.generation = m->shared.generation;
	message.mask = m->shared.region_fd >= 0;
	handshake_set_text(&message, m->shared.region_error);
	fds[nfds++] = m->shared.control_fd;
	if (m->shared.region_fd >= 0)
		fds[nfds++] = m->shared.region_fd;
	for (int rank = 0; rank < m->nranks; rank++)
		fds[nfds++] = m->shared.pidfd[rank];
	/* One after the other: all at once could be more than may be under way. */
	for (int rank = 1; rank < m->nranks && !status; rank++) {
		status = host_send(m, rank, &message, fds, nfds);
		if (!status)
			status = collect(m, UINT64_C(1) << rank, NULL, NULL);
	}
	return status;
}

static int open_link(struct rendezvous *m, int ret_ends[2])
{
	int bytes = LINK_BUFFER_BYTES;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_ends) != 0) {
		int error = errno;

		cause_add(m->causes, "socketpair", error, -1, 0, "cannot connect the ranks");
		return meeting_fail_own(m, meeting_status_of_errno(error));
	}
	for (int i = 0; i < 2; i++) {
		/* As much as is allowed; the default will do otherwise. */
		(void)setsockopt(ret_ends[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
		(void)setsockopt(ret_ends[i], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	}
	return 0;
}

/* Sends a member sockets that lead to the ranks of mask. */
static int send_links(struct rendezvous *m, int rank, uint64_t mask, const int *fds, size_t nfds)
{
	struct handshake_message message;

	meeting_compose(m, HANDSHAKE_LINKS, &message);
	message.mask = mask;
	return host_send(m, rank, &message, fds, nfds);
}

/*
 * Connects `rank` with every higher rank. A round has at most 2 * (nranks - 1) descriptors under
 * way, and none when it ends: the kernel counts them for each user.
 */
static int link_upwards(struct rendezvous *m, int rank)
{
	uint64_t above = meeting_all(m) & ~((UINT64_C(2) << rank) - 1);
	int near[BELAY_RANKS_MAX], ends[2];
	size_t n = 0;
	int status = 0;

	m->step++;
	for (int peer = rank + 1; peer < m->nranks && !status; peer++) {
		status = open_link(m, ends);
		if (status)
			break;
		near[n++] = ends[0];
		status = send_links(m, peer, UINT64_C(1) << rank, &ends[1], 1);
		packet_close(&ends[1]);
	}
	if (rank != 0) {
		if (!status)
			status = send_links(m, rank, above, near, n);
		for (size_t i = 0; i < n; i++)
			packet_close(&near[i]);
	} else {
		memcpy(&m->shared.link[1], near, n * sizeof(*near)); /* rank 0's own ends */
	}
	if (!status)
		status = collect(m, above | UINT64_C(1) << rank, NULL, NULL);
	return status;
}

int host_begin(struct rendezvous *m)
{
	int status = m->nranks > 1 ? lobby_gather(m) : m->unfit;

	if (status)
		return status;
	meeting_fault(m);
	status = make_shared(m);
	if (!status)
		status = share(m);
	if (status)
		return status;
	meeting_fault(m);
	for (int rank = 0; rank < m->nranks - 1 && !status; rank++)
		status = link_upwards(m, rank);
	if (status)
		return status;
	meeting_fault(m);
	m->step++;
	return release(m);
}
