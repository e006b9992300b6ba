/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over links that are shared: a fluid model. A message begins when all that it waits for
 * has happened; while it flows its bytes go at one rate, the same over each link that it uses;
 * rates are max-min fair: no message could go faster but at the cost of one that is not faster than
 * it. Between two events (a message begins, leaves, arrives) rates stay as they are, so the times
 * are exact, and the same on every run.
 *
 *   waits ... begin_us |delay_us| bytes at the fair rates | left_us |latency_us| arrived_us
 *
 * Units: microseconds, bytes, bytes a microsecond (1 GB/s is 1000).
 */
#ifndef BELAY_TESTS_LINK_FLOW_H
#define BELAY_TESTS_LINK_FLOW_H

#include <stdbool.h>

#define FLOW_LINKS_MAX	  128
#define FLOW_USES_MAX	  12
#define FLOW_MESSAGES_MAX 2048
#define FLOW_WAITS_MAX	  20000

/* One direction of a link, or anything else that is shared: a message that flows at rate r over it
 * takes weight * r of its capacity. */
struct flow_link {
	double capacity;
	/* From so many senders on that write over it at once it has another one; 0: never. */
	int collapse_senders;
	double collapsed;
	double bytes; /* result: has gone over it */
};

struct flow_use {
	int link;
	double weight;
};

enum flow_state { FLOW_WAITS, FLOW_DELAYED, FLOW_FLOWS, FLOW_IN_FLIGHT, FLOW_ARRIVED };

struct flow_message {
	int from, to;	   /* ranks */
	bool posted;	   /* a write; what is read is not */
	double bytes;	   /* 0: only a flag, or only a delay */
	double delay_us;   /* before the first byte */
	double latency_us; /* behind the last byte */
	struct flow_use use[FLOW_USES_MAX];
	int nuses;
	/* Results. */
	enum flow_state state;
	double begin_us, left_us, arrived_us;
	/* While it runs. */
	int waits;	/* for so many events */
	int first_wait; /* of those that wait for it; -1: none */
	double flow_us, rest, rate;
	bool fixed; /* its rate, while rates are dealt out */
};

/* `waiter` begins after `other` has left or arrived. */
struct flow_wait {
	int waiter;
	bool left;
	int next; /* of those that wait for the same message */
};

struct flow_net {
	struct flow_link link[FLOW_LINKS_MAX];
	int nlinks;
	struct flow_message message[FLOW_MESSAGES_MAX];
	int nmessages;
	struct flow_wait wait[FLOW_WAITS_MAX];
	int nwaits;
	double least_rate; /* result: that any message had while it flowed */
	/* While it runs. */
	double now_us;
	int active[FLOW_MESSAGES_MAX]; /* delayed, flowing and in flight, in the order they came */
	int nactive;
};

/* Nothing in it. */
void flow_init(struct flow_net *net);

/* The index of what was added. More than there is room for ends the program. */
int flow_add_link(struct flow_net *net, double capacity);
int flow_add_message(struct flow_net *net, const struct flow_message *message);

void flow_use(struct flow_message *message, int link, double weight);

/* `waiter` begins when `other` has arrived, or has left its sender. */
void flow_wait_arrived(struct flow_net *net, int waiter, int other);
void flow_wait_left(struct flow_net *net, int waiter, int other);

/* From 0 until nothing moves. The time of the last arrival; negative when messages are left that
 * wait for each other. Once only. */
double flow_run(struct flow_net *net);

#endif /* BELAY_TESTS_LINK_FLOW_H */
