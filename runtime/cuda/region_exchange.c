/* SPDX-License-Identifier: Apache-2.0 */
/* See region_exchange.h. */
#include "config.h"

#include "runtime/cuda/region_exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/clock.h"

#define OFFER_MAGIC UINT64_C(0x6e6f6967657221) /* "!region" */

/* Both ends are on one host and of one version. */
struct message {
	uint64_t magic;
	uint64_t meeting;
	uint64_t bytes;
	uint64_t has_region;
};

union descriptor_space {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

struct exchange {
	const int *link;
	unsigned nranks;
	const struct region_offer *offer;
	uint64_t to_send, to_come; /* ranks */
	bool failed;
	int *fd;
	char *why; /* of the first failure */
	size_t size;
};

__attribute__((format(printf, 2, 3))) static void fail(struct exchange *x, const char *format, ...)
{
	va_list arguments;

	if (x->failed)
		return;
	x->failed = true;
	va_start(arguments, format);
	vsnprintf(x->why, x->size, format, arguments);
	va_end(arguments);
}

/* Nothing more goes to a peer or comes from it. */
static void lose(struct exchange *x, unsigned peer, const char *call, int error)
{
	if (error)
		fail(x, "region of rank %u: %s: %s (%d)", peer, call, strerror(error), error);
	else
		fail(x, "region of rank %u: the rank is gone", peer);
	x->to_send &= ~(UINT64_C(1) << peer);
	x->to_come &= ~(UINT64_C(1) << peer);
}

static bool try_again(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static void send_offer(struct exchange *x, unsigned peer)
{
	const struct region_offer *offer = x->offer;
	struct message message = {OFFER_MAGIC, offer->meeting, offer->bytes, offer->fd >= 0};
	union descriptor_space space = {.head = {.cmsg_len = 0}};
	struct iovec piece = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr head = {.msg_iov = &piece, .msg_iovlen = 1};

	if (offer->fd >= 0) {
		head.msg_control = space.bytes;
		head.msg_controllen = sizeof(space.bytes);
		space.head.cmsg_level = SOL_SOCKET;
		space.head.cmsg_type = SCM_RIGHTS;
		space.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&space.head), &offer->fd, sizeof(int));
	}
	if (sendmsg(x->link[peer], &head, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		x->to_send &= ~(UINT64_C(1) << peer);
	else if (!try_again(errno))
		lose(x, peer, "sendmsg", errno);
}

/* The descriptor that came with a message; -1: none. */
static int taken_descriptor(struct msghdr *head)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(head);
	int fd = -1;

	if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
	    part->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(part), sizeof(fd));
	return fd;
}

static void judge(struct exchange *x, unsigned peer, const struct message *message, size_t bytes)
{
	const struct region_offer *offer = x->offer;

	if (bytes != sizeof(*message) || message->magic != OFFER_MAGIC ||
	    message->meeting != offer->meeting)
		fail(x, "region of rank %u: what it sent is no region", peer);
	else if (!message->has_region)
		fail(x, "region of rank %u: it has none to share", peer);
	else if (message->bytes != offer->bytes)
		fail(x, "region of rank %u: it has %llu bytes, here %llu", peer,
		     (unsigned long long)message->bytes, (unsigned long long)offer->bytes);
	else if (x->fd[peer] < 0)
		fail(x, "region of rank %u: no descriptor came (too many are open?)", peer);
}

static void receive_offer(struct exchange *x, unsigned peer)
{
	struct message message = {0};
	union descriptor_space space;
	struct iovec piece = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr head = {.msg_iov = &piece,
			      .msg_iovlen = 1,
			      .msg_control = space.bytes,
			      .msg_controllen = sizeof(space.bytes)};
	ssize_t bytes = recvmsg(x->link[peer], &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (bytes <= 0) {
		if (bytes == 0 || !try_again(errno))
			lose(x, peer, "recvmsg", bytes == 0 || errno == ECONNRESET ? 0 : errno);
		return;
	}
	x->to_come &= ~(UINT64_C(1) << peer);
	x->fd[peer] = taken_descriptor(&head);
	judge(x, peer, &message, (size_t)bytes);
}

/* Waits until a socket is ready or the deadline has come; false: it has. */
static bool wait_for_links(const struct exchange *x, struct pollfd list[SYMM_RANKS_MAX],
			   uint64_t deadline_ns)
{
	uint64_t now = clock_now_ns();
	struct timespec rest = {0};

	if (now >= deadline_ns)
		return false;
	rest.tv_sec = (time_t)((deadline_ns - now) / NS_PER_SECOND);
	rest.tv_nsec = (long)((deadline_ns - now) % NS_PER_SECOND);
	for (unsigned r = 0; r < x->nranks; r++) {
		bool sends = x->to_send >> r & 1, comes = x->to_come >> r & 1;

		list[r].fd = sends || comes ? x->link[r] : -1;
		list[r].events = (short)((sends ? POLLOUT : 0) | (comes ? POLLIN : 0));
		list[r].revents = 0;
	}
	/* An error is an interruption: what is ready is looked at again. */
	(void)ppoll(list, x->nranks, &rest, NULL);
	return true;
}

static void close_all(int fd[SYMM_RANKS_MAX], unsigned nranks)
{
	for (unsigned r = 0; r < nranks; r++) {
		if (fd[r] >= 0)
			(void)close(fd[r]);
		fd[r] = -1;
	}
}

static void exchange(struct exchange *x, uint64_t deadline_ns)
{
	struct pollfd list[SYMM_RANKS_MAX];

	while (x->to_send | x->to_come) {
		if (!wait_for_links(x, list, deadline_ns)) {
			fail(x, "region of rank %d: it did not answer in time",
			     __builtin_ctzll(x->to_come ? x->to_come : x->to_send));
			return;
		}
		for (unsigned r = 0; r < x->nranks; r++) {
			if (list[r].revents && x->to_send >> r & 1)
				send_offer(x, r);
			if (list[r].revents && x->to_come >> r & 1)
				receive_offer(x, r);
		}
	}
}

int region_exchange(const int *link, unsigned rank, unsigned nranks,
		    const struct region_offer *offer, uint64_t deadline_ns,
		    int ret_fd[SYMM_RANKS_MAX], char *ret_why, size_t size)
{
	uint64_t peers = ((UINT64_C(1) << nranks) - 1) & ~(UINT64_C(1) << rank);
	int fd[SYMM_RANKS_MAX];
	struct exchange x = {
		.link = link,
		.nranks = nranks,
		.offer = offer,
		.to_send = peers,
		.to_come = peers,
		.fd = fd,
		.why = ret_why,
		.size = size,
	};

	for (unsigned r = 0; r < SYMM_RANKS_MAX; r++)
		fd[r] = -1;
	exchange(&x, deadline_ns);
	if (x.failed) {
		close_all(fd, nranks);
		return -1;
	}
	memcpy(ret_fd, fd, sizeof(fd));
	return 0;
}
