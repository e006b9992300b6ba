/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One handshake message with its descriptors over a SOCK_SEQPACKET socket, and waiting by a
 * deadline. Nothing here blocks but packet_poll() and packet_pause(); signals do not disturb them.
 */
#ifndef BELAY_RUNTIME_GROUP_PACKET_H
#define BELAY_RUNTIME_GROUP_PACKET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/clock.h"
#include "runtime/group/handshake.h"

/* Most descriptors of one message: control, region and a pidfd of each rank. */
#define PACKET_DESCRIPTORS_MAX (2 + BELAY_RANKS_MAX)

/* A received message. Its descriptors are the receiver's to close; packet_discard() does. */
struct packet {
	struct handshake_message message;
	enum handshake_result result; /* OK or OTHER_PROTOCOL */
	int fds[PACKET_DESCRIPTORS_MAX];
	size_t nfds; /* equals message.ndescriptors */
};

/* Sends; the descriptors stay the caller's. Returns 0 or a negative errno: -EAGAIN (no room now),
 * -ETOOMANYREFS (too many descriptors are under way), -EPIPE (the peer is gone), ... */
int packet_send(int fd, struct handshake_message *message, const int *fds, size_t nfds);

/*
 * Receives without waiting. Returns 0, or with nothing kept
 *   -EAGAIN    nothing there
 *   -EPIPE     the peer is gone
 *   -EBADMSG   no message of belay's
 *   -EMFILE    its descriptors do not fit into this process's table
 *   others     of recvmsg()
 */
int packet_receive(int fd, struct packet *ret_packet);

/* Closes the descriptors that are still there (>= 0). */
void packet_discard(struct packet *packet);

/* Most entries of packet_poll(): a listener, some places, a socket and a pidfd of each rank. */
#define PACKET_POLL_MAX (2 * BELAY_RANKS_MAX + 32)

/* poll() until deadline_ns (CLOCK_MONOTONIC); entries with fd -1 are skipped. Returns how many are
 * ready, 0 at the deadline, or a negative errno. */
int packet_poll(struct pollfd *fds, size_t count, uint64_t deadline_ns);

/* Sleeps for pause_ns, but not past deadline_ns. */
void packet_pause(uint64_t pause_ns, uint64_t deadline_ns);

/* Closes *fd unless it is -1, and makes it -1. */
void packet_close(int *fd);

#endif /* BELAY_RUNTIME_GROUP_PACKET_H */
