/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/group/packet.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for descriptors as ancillary data, aligned for it. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(PACKET_DESCRIPTORS_MAX * sizeof(int))];
};

void packet_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* sockets and memfds: nothing is lost by an error */
	*fd = -1;
}

void packet_discard(struct packet *packet)
{
	for (size_t i = 0; i < packet->nfds; i++)
		packet_close(&packet->fds[i]);
	packet->nfds = 0;
}

int packet_send(int fd, struct handshake_message *message, const int *fds, size_t nfds)
{
	uint8_t bytes[HANDSHAKE_BYTES_MAX];
	union control control;
	struct iovec part = {.iov_base = bytes};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t sent;

	message->ndescriptors = (uint32_t)nfds;
	part.iov_len = handshake_encode(message, bytes);
	if (nfds > 0) {
		memset(&control, 0, sizeof(control));
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		CMSG_FIRSTHDR(&header)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&header)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&header)->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), fds, nfds * sizeof(int));
	}
	do
		sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return 0;
}

/* Takes the descriptors out of the ancillary data, whatever its shape: none may be lost. */
static void take_descriptors(struct msghdr *header, struct packet *packet)
{
	packet->nfds = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		/* The kernel joins all into one header, and the buffer holds no more than this. */
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (packet->nfds < PACKET_DESCRIPTORS_MAX)
				packet->fds[packet->nfds++] = fd;
			else
				packet_close(&fd);
		}
	}
}

static int judge(const uint8_t *bytes, size_t nbytes, int flags, struct packet *packet)
{
	if (flags & MSG_TRUNC)
		return -EBADMSG;
	packet->result = handshake_decode(bytes, nbytes, &packet->message);
	if (packet->result == HANDSHAKE_GARBAGE)
		return -EBADMSG;
	if (packet->result == HANDSHAKE_OK && packet->message.ndescriptors != packet->nfds)
		return flags & MSG_CTRUNC ? -EMFILE : -EBADMSG;
	return 0;
}

int packet_receive(int fd, struct packet *ret_packet)
{
	uint8_t bytes[HANDSHAKE_BYTES_MAX + 1]; /* one more: a longer message is seen to be so */
	union control control;
	struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	ssize_t got;
	int status;

	/* A peer that closed with our message unread leaves ECONNRESET once, before what it
	 * sent. */
	do
		got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (got < 0 && (errno == EINTR || errno == ECONNRESET));
	if (got < 0)
		return -errno;
	take_descriptors(&header, ret_packet);
	status = got == 0 ? -EPIPE : judge(bytes, (size_t)got, header.msg_flags, ret_packet);
	if (status)
		packet_discard(ret_packet);
	return status;
}

/* ppoll() of the entries that are there: it refuses arrays longer than RLIMIT_NOFILE, holes and
 * all. */
static int poll_once(struct pollfd *fds, size_t count, const struct timespec *left)
{
	struct pollfd dense[PACKET_POLL_MAX];
	size_t n = 0;
	int ready;

	for (size_t i = 0; i < count; i++)
		if (fds[i].fd >= 0)
			dense[n++] = fds[i];
	ready = ppoll(dense, (nfds_t)n, left, NULL);
	for (size_t i = 0, at = 0; i < count; i++)
		fds[i].revents = fds[i].fd >= 0 && ready > 0 ? dense[at++].revents : 0;
	return ready;
}

int packet_poll(struct pollfd *fds, size_t count, uint64_t deadline_ns)
{
	assert(count <= PACKET_POLL_MAX);
	for (;;) {
		uint64_t now_ns = clock_now_ns();
		uint64_t left_ns = now_ns < deadline_ns ? deadline_ns - now_ns : 0;
		struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_SECOND),
					.tv_nsec = (long)(left_ns % NS_PER_SECOND)};
		int ready = poll_once(fds, count, &left);

		if (ready > 0)
			return ready;
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (left_ns == 0)
			return 0;
	}
}

void packet_pause(uint64_t pause_ns, uint64_t deadline_ns)
{
	uint64_t end_ns = clock_now_ns() + pause_ns;

	(void)packet_poll(NULL, 0, end_ns < deadline_ns ? end_ns : deadline_ns);
}
