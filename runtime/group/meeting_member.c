/* SPDX-License-Identifier: Apache-2.0 */
/* The side of all ranks but 0: seeks rank 0, takes what it hands out, answers its steps. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/group/meeting.h"

#define RETRY_FIRST_NS UINT64_C(1000000)
#define RETRY_MOST_NS  UINT64_C(20000000)
/* A rank that finds the name taken waits this long for a word from who has it. */
#define ANSWER_NS UINT64_C(2000000000)
/*
 * Rank 0 knows better than a member why it takes so long. So a seated member waits a little past
 * the deadline for rank 0's word on it.
 */
#define PATIENCE_NS UINT64_C(50000000)

void member_tell_failure(struct rendezvous *m)
{
	struct handshake_message message;

	if (m->seat[0] < 0)
		return;
	meeting_compose(m, HANDSHAKE_FAIL, &message);
	message.status = m->failed;
	handshake_set_text(&message, m->fail_text);
	(void)packet_send(m->seat[0], &message, NULL, 0); /* or rank 0 sees us go */
}

static uint64_t patience_end(const struct rendezvous *m)
{
	uint64_t part_ns = (m->deadline_ns - m->begin_ns) / 20;

	return m->deadline_ns + (part_ns < PATIENCE_NS ? part_ns : PATIENCE_NS);
}

/* The host's word that the creation is over; it has told the others. */
static int take_failure(struct rendezvous *m, const struct handshake_message *message)
{
	m->failed = meeting_status_from(message->status);
	cause_add(m->causes, NULL, 0, -1, 0, "%s", message->text);
	return m->failed;
}

static int host_is_gone(struct rendezvous *m)
{
	return meeting_fail_group(m, BELAY_E_START_TIMEOUT,
				  "rank 0 (pid %d) died while the communicator was created",
				  m->pid[0]);
}

static int host_is_late(struct rendezvous *m)
{
	char missing[400];

	meeting_list_missing(m->joined, m->nranks, missing, sizeof(missing));
	if (*missing)
		return meeting_fail_group(m, BELAY_E_START_TIMEOUT,
					  "of %d ranks these did not join: %s; waited for %llu ms",
					  m->nranks, missing, meeting_allowed_ms(m));
	return meeting_fail_group(m, BELAY_E_START_TIMEOUT,
				  "rank 0 (pid %d) did not go on within %llu ms", m->pid[0],
				  meeting_allowed_ms(m));
}

/* Waits until the host's socket can be read. 0, or the failure. */
static int wait_for_host(struct rendezvous *m)
{
	struct pollfd poll[2] = {{.fd = m->seat[0], .events = POLLIN},
				 {.fd = m->shared.pidfd[0], .events = POLLIN}};
	int ready = packet_poll(poll, 2, patience_end(m));

	if (ready == 0)
		return host_is_late(m);
	if (ready < 0) {
		cause_add(m->causes, "ppoll", -ready, -1, 0, "cannot wait for rank 0");
		return meeting_fail_own(m, BELAY_E_SYSTEM);
	}
	/* Only the pidfd: dead, though its socket lives on in a child, and it has left no word. */
	if (!poll[0].revents)
		return host_is_gone(m);
	return 0;
}

static int receive_failed(struct rendezvous *m, int error)
{
	if (error == -EPIPE)
		return host_is_gone(m);
	cause_add(m->causes, "recvmsg", -error, -1, 0,
		  error == -EMFILE ? "RLIMIT_NOFILE leaves no room for the descriptors from rank 0"
				   : "cannot understand rank 0");
	return meeting_fail_own(m, meeting_status_of_errno(-error));
}

/* The next message of the host, waiting for it. Takes failures and news of who joined by itself. */
static int listen_to_host(struct rendezvous *m, struct packet *ret_packet)
{
	for (;;) {
		int status = packet_receive(m->seat[0], ret_packet);
		bool got = status == 0;
		uint32_t type = got ? ret_packet->message.type : 0;

		if (status == -EAGAIN)
			status = wait_for_host(m);
		else if (!got)
			status = receive_failed(m, status);
		else if (type == HANDSHAKE_JOINED)
			m->joined = ret_packet->message.mask;
		else if (type == HANDSHAKE_FAIL)
			status = take_failure(m, &ret_packet->message);
		else
			return 0;
		if (got)
			packet_discard(ret_packet); /* no descriptor belongs to these */
		if (status)
			return status;
	}
}

static int out_of_turn(struct rendezvous *m)
{
	return meeting_fail_group(m, BELAY_E_SYSTEM,
				  "rank 0 (pid %d) spoke out of turn in the meeting to rank %d",
				  m->pid[0], m->rank);
}

static int answer(struct rendezvous *m, struct handshake_message *message)
{
	for (;;) {
		int error = packet_send(m->seat[0], message, NULL, 0);

		if (error == 0)
			return 0;
		if (error == -EPIPE) {
			struct packet packet;
			int status = listen_to_host(m, &packet); /* it may have left word */

			if (status == 0)
				packet_discard(&packet);
			return status ? status : host_is_gone(m);
		}
		if (error != -EAGAIN) {
			cause_add(m->causes, "sendmsg", -error, -1, 0, "cannot write to rank 0");
			return meeting_fail_own(m, meeting_status_of_errno(-error));
		}
		if (clock_now_ns() >= m->deadline_ns)
			return host_is_late(m);
		packet_pause(RETRY_FIRST_NS, m->deadline_ns);
	}
}

static int say_ready(struct rendezvous *m)
{
	struct handshake_message message;

	meeting_compose(m, HANDSHAKE_READY, &message);
	return answer(m, &message);
}

static void say_why(int error, char *ret_why, size_t size)
{
	char buffer[128];

	if (error == ECONNREFUSED)
		(void)snprintf(ret_why, size, "nobody has opened the meeting");
	/* A queue that is full says less than what was found out when it was not. */
	else if (error != EAGAIN || !*ret_why)
		(void)snprintf(ret_why, size, "cannot connect: %s",
			       strerror_r(error, buffer, sizeof(buffer)));
}

/* A connection to whoever has the meeting's name, if it is of the same user; -1 and why. */
static int connect_to(struct rendezvous *m, char *ret_why, size_t size)
{
	struct sockaddr_un address;
	socklen_t length = meeting_address(m->meeting, &address);
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t peer_bytes = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, length) != 0) {
		say_why(errno, ret_why, size);
		packet_close(&fd);
		return -1;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) != 0 ||
	    peer.uid != geteuid()) {
		(void)snprintf(ret_why, size, "its name is held by user %ld (pid %ld)",
			       (long)peer.uid, (long)peer.pid);
		packet_close(&fd);
		return -1;
	}
	m->pid[0] = (int)peer.pid;
	return fd;
}

/* Waits for the answer to a HELLO: a packet (0), nothing (1), or a failure of this rank's own. */
static int first_word(struct rendezvous *m, struct packet *ret_packet, char *ret_why, size_t size)
{
	struct pollfd poll = {.fd = m->seat[0], .events = POLLIN};
	uint64_t end_ns = clock_now_ns() + ANSWER_NS;
	int status;

	if (m->rank != 0 || end_ns > m->deadline_ns)
		end_ns = m->deadline_ns;
	if (packet_poll(&poll, 1, end_ns) <= 0) {
		(void)snprintf(ret_why, size, "pid %d took the connection but does not answer",
			       m->pid[0]);
		return 1;
	}
	status = packet_receive(m->seat[0], ret_packet);
	if (status == 0)
		return 0;
	if (status == -EMFILE)
		return receive_failed(m, status);
	(void)snprintf(ret_why, size, "pid %d closed the connection without an answer", m->pid[0]);
	return 1;
}

static int other_protocol(struct rendezvous *m, const struct handshake_message *message)
{
	char why[600] = "";

	(void)handshake_verify(&m->hello, message, HANDSHAKE_OTHER_PROTOCOL, why, sizeof(why));
	return meeting_fail_group(m, BELAY_E_REFUSED, "%s",
				  *why ? why : "rank 0 speaks another protocol");
}

/* The host's answer. 0: seated; 1: it is not our host after all; else failed. */
static int be_seated(struct rendezvous *m, struct packet *packet)
{
	const struct handshake_message *message = &packet->message;

	if (packet->result == HANDSHAKE_OTHER_PROTOCOL)
		return other_protocol(m, message);
	if (message->type == HANDSHAKE_FAIL)
		return take_failure(m, message);
	if (message->type != HANDSHAKE_SEATED || packet->nfds != 1 ||
	    !handshake_secret_equal(message->secret, m->spec.secret))
		return 1;
	m->shared.pidfd[0] = packet->fds[0];
	packet->nfds = 0; /* handed over */
	m->pid[0] = (int)message->pid;
	m->joined = message->mask;
	return 0;
}

int member_try(struct rendezvous *m, char *ret_why, size_t size)
{
	struct packet packet;
	int status = 1;

	m->seat[0] = connect_to(m, ret_why, size);
	if (m->seat[0] < 0)
		return 1;
	if (m->unfit) {
		status = meeting_fail_own(m, m->unfit);
		goto out;
	}
	if (packet_send(m->seat[0], &m->hello, &m->shared.pidfd[m->rank], 1) != 0)
		goto out;
	status = first_word(m, &packet, ret_why, size);
	if (status)
		goto out;
	status = be_seated(m, &packet);
	packet_discard(&packet);
out:
	if (status)
		packet_close(&m->seat[0]);
	return status;
}

static int nobody_there(struct rendezvous *m, const char *why)
{
	if (m->unfit)
		return m->unfit;
	return meeting_fail_group(
		m, BELAY_E_START_TIMEOUT,
		"of %d ranks these did not join: 0; rank %d waited for %llu ms at "
		"'%.200s': %s",
		m->nranks, m->rank, meeting_allowed_ms(m), m->meeting, why);
}

static int join(struct rendezvous *m)
{
	char why[160] = "";
	uint64_t pause_ns = RETRY_FIRST_NS;

	meeting_fault(m);
	for (;;) {
		int status = member_try(m, why, sizeof(why));

		if (status != 1)
			return status;
		if (clock_now_ns() >= m->deadline_ns)
			return nobody_there(m, why);
		packet_pause(pause_ns, m->deadline_ns);
		pause_ns = pause_ns * 2 < RETRY_MOST_NS ? pause_ns * 2 : RETRY_MOST_NS;
	}
}

/* Takes memory and pidfds out of a SHARE; 0 if it is not one. */
static int take_share(struct rendezvous *m, struct packet *packet)
{
	const struct handshake_message *message = &packet->message;
	struct group_members *shared = &m->shared;
	size_t has_region = message->mask & 1, at = 0;

	if (shared->control_fd >= 0 || packet->nfds != 1 + has_region + (size_t)m->nranks)
		return 0;
	memcpy(shared->comm_id, message->comm_id, sizeof(shared->comm_id));
	shared->generation = message->generation;
	(void)snprintf(shared->region_error, sizeof(shared->region_error), "%.159s", message->text);
	shared->control_fd = packet->fds[at++];
	if (has_region)
		shared->region_fd = packet->fds[at++];
	for (int rank = 0; rank < m->nranks; rank++) {
		packet_close(&shared->pidfd[rank]); /* rank 0's and the own one are here again */
		shared->pidfd[rank] = packet->fds[at++];
	}
	packet->nfds = 0; /* handed over */
	return 1;
}

/* Takes the sockets out of LINKS; 0 if they are not what was to come. */
static int take_links(struct rendezvous *m, struct packet *packet)
{
	uint64_t mask = packet->message.mask;
	size_t at = 0;

	if (mask & ~meeting_all(m) || packet->nfds != (size_t)__builtin_popcountll(mask))
		return 0;
	for (int rank = 0; rank < m->nranks; rank++) {
		if (!(mask >> rank & 1))
			continue;
		if (rank == m->rank || m->shared.link[rank] >= 0)
			return 0;
		m->shared.link[rank] = packet->fds[at];
		packet->fds[at++] = -1; /* handed over */
	}
	return 1;
}

/* What the host hands out. Returns 0, or the failure. */
static int take_delivery(struct rendezvous *m, struct packet *packet)
{
	int fits = 0;

	if (packet->message.type == HANDSHAKE_SHARE)
		fits = take_share(m, packet);
	else if (packet->message.type == HANDSHAKE_LINKS)
		fits = take_links(m, packet);
	if (!fits)
		return out_of_turn(m);
	m->step = packet->message.step;
	if (packet->message.type == HANDSHAKE_SHARE)
		meeting_fault(m);
	return say_ready(m);
}

/* Whether everything that the host has to give is here. */
static int is_complete(const struct rendezvous *m)
{
	if (m->shared.control_fd < 0)
		return 0;
	for (int rank = 0; rank < m->nranks; rank++)
		if (rank != m->rank && m->shared.link[rank] < 0)
			return 0;
	return 1;
}

int member_begin(struct rendezvous *m)
{
	struct packet packet;
	int status = join(m);

	if (status)
		return status;
	meeting_fault(m);
	for (;;) {
		status = listen_to_host(m, &packet);
		if (status)
			return status;
		if (packet.message.type == HANDSHAKE_GO)
			break;
		status = take_delivery(m, &packet);
		packet_discard(&packet);
		if (status)
			return status;
	}
	packet_discard(&packet);
	m->step = packet.message.step;
	meeting_fault(m);
	return is_complete(m) ? 0 : out_of_turn(m);
}

/* Waits for the host's end of this step. */
static int await(struct rendezvous *m, enum handshake_type type, struct packet *ret_packet)
{
	int status = listen_to_host(m, ret_packet);

	if (status)
		return status;
	packet_discard(ret_packet); /* nothing is attached to these */
	if (ret_packet->message.type != type || ret_packet->message.step != m->step)
		return out_of_turn(m);
	return 0;
}

int member_barrier(struct rendezvous *m)
{
	struct packet packet;
	int status = say_ready(m);

	return status ? status : await(m, HANDSHAKE_GO, &packet);
}

int member_agree(struct rendezvous *m, uint32_t usable, const char *reason, uint32_t *ret_usable,
		 char *ret_reasons, size_t size)
{
	struct handshake_message vote;
	struct packet packet;
	int status;

	meeting_compose(m, HANDSHAKE_VOTE, &vote);
	vote.mask = usable;
	handshake_set_text(&vote, reason ? reason : "");
	status = answer(m, &vote);
	if (!status)
		status = await(m, HANDSHAKE_ANSWER, &packet);
	if (status)
		return status;
	*ret_usable = (uint32_t)packet.message.mask;
	if (size > 0)
		(void)snprintf(ret_reasons, size, "%s", packet.message.text);
	return 0;
}
