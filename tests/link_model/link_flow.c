/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over links that are shared. See link_flow.h. */
#include "tests/link_model/link_flow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is nearer than this is the same time: rounding of what is exact on paper. */
#define SAME_US	   1e-9
#define SAME_BYTES 1e-6

static void need_room(int used, int most, const char *of)
{
	if (used < most)
		return;
	fprintf(stderr, "link_flow: no room for more than %d %s\n", most, of);
	exit(99);
}

void flow_init(struct flow_net *net)
{
	net->nlinks = net->nmessages = net->nwaits = net->nactive = 0;
	net->now_us = 0;
	net->least_rate = INFINITY;
}

int flow_add_link(struct flow_net *net, double capacity)
{
	need_room(net->nlinks, FLOW_LINKS_MAX, "links");
	net->link[net->nlinks] = (struct flow_link){.capacity = capacity};
	return net->nlinks++;
}

int flow_add_message(struct flow_net *net, const struct flow_message *message)
{
	need_room(net->nmessages, FLOW_MESSAGES_MAX, "messages");
	net->message[net->nmessages] = *message;
	net->message[net->nmessages].first_wait = -1;
	return net->nmessages++;
}

void flow_use(struct flow_message *message, int link, double weight)
{
	need_room(message->nuses, FLOW_USES_MAX, "uses");
	message->use[message->nuses++] = (struct flow_use){.link = link, .weight = weight};
}

static void wait_for(struct flow_net *net, int waiter, int other, bool left)
{
	need_room(net->nwaits, FLOW_WAITS_MAX, "waits");
	net->wait[net->nwaits] = (struct flow_wait){waiter, left, net->message[other].first_wait};
	net->message[other].first_wait = net->nwaits++;
	net->message[waiter].waits++;
}

void flow_wait_arrived(struct flow_net *net, int waiter, int other)
{
	wait_for(net, waiter, other, false);
}

void flow_wait_left(struct flow_net *net, int waiter, int other)
{
	wait_for(net, waiter, other, true);
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* What the links have left to deal out, and what the messages without a rate would take of it for
 * each byte a microsecond. */
struct shares {
	double left[FLOW_LINKS_MAX], wanted[FLOW_LINKS_MAX];
};

static int senders_on(const struct flow_net *net, int link)
{
	unsigned senders = 0;

	for (int a = 0; a < net->nactive; a++) {
		const struct flow_message *m = &net->message[net->active[a]];

		for (int u = 0; u < m->nuses; u++)
			if (m->state == FLOW_FLOWS && m->posted && m->use[u].link == link)
				senders |= 1u << m->from;
	}
	return __builtin_popcount(senders);
}

static double capacity_now(const struct flow_net *net, int link)
{
	const struct flow_link *l = &net->link[link];

	if (l->collapse_senders && senders_on(net, link) >= l->collapse_senders)
		return l->collapsed;
	return l->capacity;
}

static void begin_shares(struct flow_net *net, struct shares *shares)
{
	for (int i = 0; i < net->nlinks; i++) {
		shares->left[i] = capacity_now(net, i);
		shares->wanted[i] = 0;
	}
	for (int a = 0; a < net->nactive; a++) {
		struct flow_message *m = &net->message[net->active[a]];

		m->fixed = m->state != FLOW_FLOWS;
		for (int u = 0; u < m->nuses && !m->fixed; u++)
			shares->wanted[m->use[u].link] += m->use[u].weight;
	}
}

/* The link on which each message gets least; -1: all have their rate. */
static int tightest(const struct flow_net *net, const struct shares *shares, double *ret_rate)
{
	int found = -1;

	for (int i = 0; i < net->nlinks; i++) {
		double rate;

		if (shares->wanted[i] <= SAME_US)
			continue;
		rate = shares->left[i] / shares->wanted[i];
		if (found < 0 || rate < *ret_rate) {
			found = i;
			*ret_rate = rate;
		}
	}
	return found;
}

static bool uses(const struct flow_message *m, int link)
{
	for (int u = 0; u < m->nuses; u++)
		if (m->use[u].link == link)
			return true;
	return false;
}

static void fix_rate(struct flow_message *m, double rate, struct shares *shares)
{
	m->rate = rate;
	m->fixed = true;
	for (int u = 0; u < m->nuses; u++) {
		shares->left[m->use[u].link] -= m->use[u].weight * rate;
		shares->wanted[m->use[u].link] -= m->use[u].weight;
	}
}

/* Progressive filling: the tightest link settles the rate of all that use it; then the next one. */
static void deal_out_rates(struct flow_net *net)
{
	struct shares shares;
	double rate = 0;
	int link;

	begin_shares(net, &shares);
	while ((link = tightest(net, &shares, &rate)) >= 0) {
		for (int a = 0; a < net->nactive; a++) {
			struct flow_message *m = &net->message[net->active[a]];

			if (!m->fixed && uses(m, link))
				fix_rate(m, rate, &shares);
		}
		shares.wanted[link] = 0;
		net->least_rate = fmin(net->least_rate, rate);
	}
}

/* ---- events ---------------------------------------------------------------------------------- */

static void begin(struct flow_net *net, int i)
{
	struct flow_message *m = &net->message[i];

	m->state = FLOW_DELAYED;
	m->begin_us = net->now_us;
	m->flow_us = net->now_us + m->delay_us;
	m->rest = m->bytes;
	net->active[net->nactive++] = i;
}

/* Those that have waited for it wait for one event less. */
static void happened(struct flow_net *net, int other, bool left)
{
	for (int w = net->message[other].first_wait; w >= 0; w = net->wait[w].next)
		if (net->wait[w].left == left && --net->message[net->wait[w].waiter].waits == 0)
			begin(net, net->wait[w].waiter);
}

/* When a message's next event is, at the rates of now. */
static double next_event_us(const struct flow_net *net, const struct flow_message *m)
{
	if (m->state == FLOW_DELAYED)
		return m->flow_us;
	if (m->state == FLOW_IN_FLIGHT)
		return m->arrived_us;
	return net->now_us + m->rest / m->rate;
}

static double next_time_us(const struct flow_net *net)
{
	double next = INFINITY;

	for (int a = 0; a < net->nactive; a++)
		next = fmin(next, next_event_us(net, &net->message[net->active[a]]));
	return next;
}

static void flow_until(struct flow_net *net, double time_us)
{
	for (int a = 0; a < net->nactive; a++) {
		struct flow_message *m = &net->message[net->active[a]];
		double bytes = m->rate * (time_us - net->now_us);

		if (m->state != FLOW_FLOWS)
			continue;
		bytes = fmin(bytes, m->rest);
		m->rest -= bytes;
		for (int u = 0; u < m->nuses; u++)
			net->link[m->use[u].link].bytes += bytes;
	}
	net->now_us = time_us;
}

/* All events of now that a message has. */
static void step_message(struct flow_net *net, int i)
{
	struct flow_message *m = &net->message[i];

	if (m->state == FLOW_DELAYED && m->flow_us <= net->now_us + SAME_US)
		m->state = FLOW_FLOWS;
	if (m->state == FLOW_FLOWS && m->rest <= SAME_BYTES) {
		m->state = FLOW_IN_FLIGHT;
		m->left_us = net->now_us;
		m->arrived_us = net->now_us + m->latency_us;
		happened(net, i, true);
	}
	if (m->state == FLOW_IN_FLIGHT && m->arrived_us <= net->now_us + SAME_US) {
		m->state = FLOW_ARRIVED;
		happened(net, i, false);
	}
}

static void drop_arrived(struct flow_net *net)
{
	int kept = 0;

	for (int a = 0; a < net->nactive; a++)
		if (net->message[net->active[a]].state != FLOW_ARRIVED)
			net->active[kept++] = net->active[a];
	net->nactive = kept;
}

double flow_run(struct flow_net *net)
{
	for (int i = 0; i < net->nmessages; i++)
		if (net->message[i].waits == 0)
			begin(net, i);
	while (net->nactive > 0) {
		/* Messages that begin now are behind those that let them. */
		for (int a = 0; a < net->nactive; a++)
			step_message(net, net->active[a]);
		drop_arrived(net);
		if (net->nactive == 0)
			break;
		deal_out_rates(net);
		flow_until(net, next_time_us(net));
	}
	for (int i = 0; i < net->nmessages; i++)
		if (net->message[i].state != FLOW_ARRIVED)
			return -1;
	return net->now_us;
}
