/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank gets every other's descriptor, over the sockets that join them: one message from each
 * to each, be it that there is no descriptor. */
#ifndef BELAY_RUNTIME_CUDA_REGION_EXCHANGE_H
#define BELAY_RUNTIME_CUDA_REGION_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/symm_layout.h"

struct region_offer {
	uint64_t meeting; /* which one: the same on all ranks */
	uint64_t bytes;	  /* of a region: the same on all ranks */
	int fd;		  /* own; -1: none, and the peers are told so */
};

/*
 * link: a connected, non-blocking SOCK_SEQPACKET socket to each rank; links[rank] is not looked at.
 * Returns 0 and the peers' descriptors in ret_fd, the caller's to close (own: -1); or -1 with the
 * reason and no descriptor left: a peer has none, has gone, sent something else, or was not heard
 * by the deadline (CLOCK_MONOTONIC). Tells every peer in any case, so that none waits for this rank
 * in vain.
 */
int region_exchange(const int *link, unsigned rank, unsigned nranks,
		    const struct region_offer *offer, uint64_t deadline_ns,
		    int ret_fd[SYMM_RANKS_MAX], char *ret_why, size_t size);

#endif /* BELAY_RUNTIME_CUDA_REGION_EXCHANGE_H */
