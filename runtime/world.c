/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/world.h"

#include <stdarg.h>
#include <stdio.h>

struct rank_words world_rank_words(const struct comm_world *world, int rank)
{
	struct rank_words words;

	if (rank < 0)
		snprintf(words.text, sizeof(words.text), "none");
	else if (world && world->nranks && rank < BELAY_RANKS_MAX)
		snprintf(words.text, sizeof(words.text), "%d (%d of this host)",
			 (int)world->rank[rank], rank);
	else
		snprintf(words.text, sizeof(words.text), "%d", rank);
	return words;
}

__attribute__((format(printf, 4, 5))) static size_t add(char *buffer, size_t size, size_t used,
							const char *format, ...)
{
	va_list arguments;
	int added;

	va_start(arguments, format);
	added = used < size ? vsnprintf(buffer + used, size - used, format, arguments) : 0;
	va_end(arguments);
	return added > 0 ? used + (size_t)added : used;
}

/* Runs of neighbours as "8-15". */
static size_t add_ranks(const struct comm_world *world, unsigned nranks, char *buffer, size_t size)
{
	size_t used = add(buffer, size, 0, nranks == 1 ? "rank" : "ranks");
	unsigned last;

	for (unsigned first = 0; first < nranks; first = last + 1) {
		last = first;
		while (last + 1 < nranks && world->rank[last + 1] == world->rank[last] + 1)
			last++;
		used = add(buffer, size, used, "%s%d", first ? "," : " ", (int)world->rank[first]);
		if (last > first)
			used = add(buffer, size, used, "-%d", (int)world->rank[last]);
	}
	return used;
}

void world_describe(const struct comm_world *world, unsigned nranks, char *buffer, size_t size)
{
	size_t used = add_ranks(world, nranks, buffer, size);

	(void)add(buffer, size, used, " of %d, host %d of %d of NCCL communicator %s",
		  (int)world->nranks, (int)world->host, (int)world->hosts, world->name);
}
