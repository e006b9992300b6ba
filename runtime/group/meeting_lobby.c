/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0's door: everybody may knock, only members are seated. A stranger costs one of a few places
 * for at most a second, and less if others knock: the longest waiting one makes room. Who is pushed
 * out so and is a member after all tries again by itself.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/group/meeting.h"

#define PLACES		 16
#define PLACE_NS	 UINT64_C(1000000000)
#define BACKLOG		 128
#define ACCEPTED_AT_ONCE 32
#define RETRY_NS	 UINT64_C(20000000)
/* How long a failed meeting stays to tell those who are not here yet. */
#define LATE_NS UINT64_C(1000000000)

struct place {
	int fd; /* -1: free */
	uint64_t since_ns;
};

struct lobby {
	struct rendezvous *m;
	int listener;
	uint64_t told; /* after a failure: mask of ranks that know of it */
	struct place place[PLACES];
};

/* What lobby_turn() polls; places and seats that are empty stand there as -1, which poll()
 * skips. */
struct lobby_poll {
	struct pollfd listener;
	struct pollfd place[PLACES];
	struct pollfd seat[BELAY_RANKS_MAX];
	struct pollfd life[BELAY_RANKS_MAX];
};

static void lobby_close(struct lobby *lobby)
{
	/* A forked child may keep the listener open: at least nobody shall knock at it in vain. */
	if (lobby->listener >= 0)
		(void)shutdown(lobby->listener, SHUT_RDWR);
	packet_close(&lobby->listener);
	for (int i = 0; i < PLACES; i++)
		packet_close(&lobby->place[i].fd);
}

/* The socket bound to the meeting's name and listening; -1 and an errno value. */
static int listen_at(const char *meeting, int *ret_error)
{
	struct sockaddr_un address;
	socklen_t length = meeting_address(meeting, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, length) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	*ret_error = errno;
	packet_close(&fd);
	return -1;
}

/*
 * The name may still be taken by a process that is being killed: then wait. If a live meeting of
 * our own has it, rank 0 is there twice: knock as everybody does, and be refused, with all of them.
 */
static int lobby_open(struct lobby *lobby)
{
	struct rendezvous *m = lobby->m;
	char why[160] = "";
	int error, status;

	for (;;) {
		lobby->listener = listen_at(m->meeting, &error);
		if (lobby->listener >= 0)
			return 0;
		if (error != EADDRINUSE) {
			cause_add(m->causes, "bind", error, -1, 0, "cannot open the meeting '%s'",
				  m->meeting);
			return meeting_status_of_errno(error);
		}
		status = member_try(m, why, sizeof(why));
		if (status != 1)
			return status ? status : BELAY_E_REFUSED; /* nobody seats a second rank 0 */
		if (clock_now_ns() >= m->deadline_ns)
			break;
		packet_pause(RETRY_NS, m->deadline_ns);
	}
	cause_add(m->causes, NULL, 0, -1, 0,
		  "the name of the meeting '%s' has been taken for %llu ms: %s", m->meeting,
		  meeting_allowed_ms(m), why);
	return BELAY_E_START_TIMEOUT;
}

static void send_failure(struct rendezvous *m, int fd, int status, const char *text)
{
	struct handshake_message message;

	meeting_compose(m, HANDSHAKE_FAIL, &message);
	message.status = status;
	handshake_set_text(&message, text);
	(void)packet_send(fd, &message, NULL, 0); /* who does not hear it sees the socket close */
}

static void tell_joined(struct rendezvous *m, int newcomer)
{
	struct handshake_message message;

	meeting_compose(m, HANDSHAKE_JOINED, &message);
	message.mask = m->joined;
	for (int rank = 1; rank < m->nranks; rank++)
		if (rank != newcomer && m->seat[rank] >= 0)
			/* One that is lost costs only a name in a message. */
			(void)packet_send(m->seat[rank], &message, NULL, 0);
}

/* Gives the sender of `hello` its seat; takes fd and the pidfd. */
static void seat(struct rendezvous *m, int fd, struct packet *hello)
{
	int rank = hello->message.rank;
	struct handshake_message message;

	m->seat[rank] = fd;
	m->pid[rank] = (int)hello->message.pid;
	m->shared.pidfd[rank] = hello->fds[0];
	hello->nfds = 0; /* handed over */
	m->joined |= UINT64_C(1) << rank;
	meeting_compose(m, HANDSHAKE_SEATED, &message);
	message.mask = m->joined;
	/* A lost one is seen when the seat is read. */
	(void)packet_send(fd, &message, &m->shared.pidfd[0], 1);
	tell_joined(m, rank);
}

/* The meeting has failed before: say so to a member, once; it may come back for a later meeting. */
static void turn_away(struct lobby *lobby, int fd, const struct packet *packet)
{
	struct rendezvous *m = lobby->m;
	int rank = packet->message.rank;
	uint64_t bit = rank >= 0 && rank < m->nranks ? UINT64_C(1) << rank : 0;

	if (!(lobby->told & bit))
		send_failure(m, fd, m->failed, m->fail_text);
	lobby->told |= bit;
}

/* A member whose first message has been verified. 1: fd is seated; 0: done with fd, go on; else
 * failed. */
static int receive_member(struct rendezvous *m, int fd, struct packet *packet)
{
	const struct handshake_message *message = &packet->message;

	if (message->type == HANDSHAKE_FAIL)
		return meeting_fail_group(m, meeting_status_from(message->status), "%.700s",
					  message->text);
	if (m->joined >> message->rank & 1) {
		int status = meeting_fail_group(
			m, BELAY_E_REFUSED, "rank %d is taken twice: by pid %d and by pid %d",
			message->rank, m->pid[message->rank], (int)message->pid);

		send_failure(m, fd, status, m->fail_text);
		return status;
	}
	if (packet->nfds != 1)
		return 0;
	seat(m, fd, packet);
	return 1;
}

/* Judges the first message of a connection. Returns as receive_member(). */
static int receive_first(struct lobby *lobby, int fd, struct packet *packet)
{
	struct rendezvous *m = lobby->m;
	char difference[600];
	int status;

	switch (handshake_verify(&m->hello, &packet->message, packet->result, difference,
				 sizeof(difference))) {
	case HANDSHAKE_STRANGER:
		send_failure(m, fd, BELAY_E_REFUSED,
			     "the meeting does not know this rank's secret: the unique ids differ");
		return 0;
	case HANDSHAKE_MISFIT:
		if (m->failed) {
			turn_away(lobby, fd, packet);
			return 0;
		}
		status = meeting_fail_group(m, BELAY_E_REFUSED, "%s", difference);
		turn_away(lobby, fd, packet);
		return status;
	case HANDSHAKE_MEMBER:
		break;
	}
	if (!m->failed)
		return receive_member(m, fd, packet);
	turn_away(lobby, fd, packet);
	return 0;
}

static int hear_place(struct lobby *lobby, struct place *place)
{
	struct packet packet;
	int status = packet_receive(place->fd, &packet);

	if (status == -EAGAIN)
		return 0;
	if (status == 0) {
		status = receive_first(lobby, place->fd, &packet);
		packet_discard(&packet);
	} else {
		status = 0; /* a stranger */
	}
	if (status == 1)
		place->fd = -1; /* its seat has it now */
	packet_close(&place->fd);
	return status < 0 ? status : 0;
}

static int is_same_user(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       peer.uid == geteuid();
}

/* A free place, or that of the one who has been silent longest. */
static struct place *make_room(struct lobby *lobby)
{
	struct place *oldest = &lobby->place[0];

	for (int i = 0; i < PLACES; i++) {
		if (lobby->place[i].fd < 0)
			return &lobby->place[i];
		if (lobby->place[i].since_ns < oldest->since_ns)
			oldest = &lobby->place[i];
	}
	packet_close(&oldest->fd);
	return oldest;
}

static int accept_some(struct lobby *lobby)
{
	struct rendezvous *m = lobby->m;
	int status = 0;

	for (int i = 0; i < ACCEPTED_AT_ONCE && !status; i++) {
		int fd = accept4(lobby->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct place *place;

		if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
			break; /* nobody more, or one who is gone again */
		if (fd < 0) {
			int error = errno;

			/* Any other error, such as a filter's EPERM, would come back for ever. */
			cause_add(m->causes, "accept4", error, -1, 0, "cannot let another rank in");
			return meeting_fail_own(m, meeting_status_of_errno(error));
		}
		if (!is_same_user(fd)) {
			packet_close(&fd);
			continue;
		}
		place = make_room(lobby);
		*place = (struct place){.fd = fd, .since_ns = clock_now_ns()};
		status = hear_place(lobby, place); /* mostly its message is here already */
	}
	return status;
}

/* Closes the places that have been silent too long; returns when the next one will be. */
static uint64_t expire(struct lobby *lobby, uint64_t deadline_ns)
{
	uint64_t now_ns = clock_now_ns();

	for (int i = 0; i < PLACES; i++) {
		struct place *place = &lobby->place[i];

		if (place->fd < 0)
			continue;
		if (now_ns - place->since_ns >= PLACE_NS)
			packet_close(&place->fd);
		else if (place->since_ns + PLACE_NS < deadline_ns)
			deadline_ns = place->since_ns + PLACE_NS;
	}
	return deadline_ns;
}

static void fill_poll(const struct lobby *lobby, struct lobby_poll *poll)
{
	const struct rendezvous *m = lobby->m;

	poll->listener = (struct pollfd){.fd = lobby->listener, .events = POLLIN};
	for (int i = 0; i < PLACES; i++)
		poll->place[i] = (struct pollfd){.fd = lobby->place[i].fd, .events = POLLIN};
	for (int i = 0; i < BELAY_RANKS_MAX; i++) {
		/* After a failure the seated ones have been told and are of no interest. */
		int fd = m->failed ? -1 : m->seat[i];
		int life = fd >= 0 ? m->shared.pidfd[i] : -1;

		poll->seat[i] = (struct pollfd){.fd = fd, .events = POLLIN};
		poll->life[i] = (struct pollfd){.fd = life, .events = POLLIN};
	}
}

/* A seated rank has nothing to say before SHARE: it gives up, or is gone. */
static int hear_seat(struct rendezvous *m, int rank, int is_dead)
{
	struct packet packet;
	int status = host_hear(m, rank, &packet);

	if (status == 0) {
		packet_discard(&packet);
		status = meeting_fail_group(m, BELAY_E_SYSTEM,
					    "rank %d (pid %d) spoke out of turn in the meeting",
					    rank, m->pid[rank]);
	}
	if (status == 1)
		status = is_dead ? host_lost(m, rank) : 0;
	return status;
}

static int hear_all(struct lobby *lobby, const struct lobby_poll *poll)
{
	int status = 0;

	for (int i = 0; i < BELAY_RANKS_MAX && !status; i++)
		if (poll->seat[i].revents || poll->life[i].revents)
			status = hear_seat(lobby->m, i, poll->life[i].revents != 0);
	for (int i = 0; i < PLACES && !status; i++)
		if (poll->place[i].revents)
			status = hear_place(lobby, &lobby->place[i]);
	if (!status && poll->listener.revents)
		status = accept_some(lobby);
	return status;
}

/* Waits for the next event and handles it. 1: the deadline came first. */
static int lobby_turn(struct lobby *lobby, uint64_t deadline_ns)
{
	struct lobby_poll poll;
	uint64_t until_ns = expire(lobby, deadline_ns);
	int ready;

	fill_poll(lobby, &poll);
	ready = packet_poll(&poll.listener, sizeof(poll) / sizeof(struct pollfd), until_ns);
	if (ready < 0) {
		cause_add(lobby->m->causes, "ppoll", -ready, -1, 0, "cannot wait for the ranks");
		return meeting_fail_own(lobby->m, BELAY_E_SYSTEM);
	}
	if (ready == 0)
		return clock_now_ns() >= deadline_ns;
	return hear_all(lobby, &poll);
}

/* The creation has failed; ranks that come a little later should not wait for it in vain. */
static void tell_late_ones(struct lobby *lobby)
{
	struct rendezvous *m = lobby->m;
	uint64_t end_ns = clock_now_ns() + LATE_NS;

	if (end_ns > m->deadline_ns)
		end_ns = m->deadline_ns;
	lobby->told |= m->joined | 1;
	while (lobby->told != meeting_all(m) && clock_now_ns() < end_ns)
		if (lobby_turn(lobby, end_ns) != 0)
			break;
}

static int wait_for_all(struct lobby *lobby)
{
	struct rendezvous *m = lobby->m;
	int status = 0;

	while (!status && m->joined != meeting_all(m))
		status = lobby_turn(lobby, m->deadline_ns);
	if (status == 1) {
		char missing[400];

		meeting_list_missing(m->joined, m->nranks, missing, sizeof(missing));
		status =
			meeting_fail_group(m, BELAY_E_START_TIMEOUT,
					   "of %d ranks these did not join: %s; waited for %llu ms",
					   m->nranks, missing, meeting_allowed_ms(m));
	}
	return status;
}

int lobby_gather(struct rendezvous *m)
{
	struct lobby lobby = {.m = m, .listener = -1};
	int status;

	for (int i = 0; i < PLACES; i++)
		lobby.place[i].fd = -1;
	meeting_fault(m);
	status = lobby_open(&lobby);
	if (status)
		return status; /* without a listener there is nobody to tell */
	status = m->unfit ? meeting_fail_own(m, m->unfit) : wait_for_all(&lobby);
	if (status)
		tell_late_ones(&lobby);
	/* Closed before anybody is let go, so that the name is free for the ranks' next meeting. */
	lobby_close(&lobby);
	return status;
}
