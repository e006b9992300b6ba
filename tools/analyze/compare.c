/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/compare.h"

/* Collecting ------------------------------------------------------------------------------------
 */

struct size_group {
	uint64_t bytes;
	uint8_t path, collective;
	struct histogram *latency;
};

/* A communicator while it is read. Memory is the output's arena's. */
struct compare_feed {
	struct compare_comm *comm;
	uint64_t calls_hash;
	struct histogram *durations;
	uint64_t time_ns, wait_ns;
	struct size_group sizes[COMPARE_SIZES_MAX];
	size_t nsizes;
	uint64_t sizes_left_out;
};

static struct compare_side *side_of(const struct output *output)
{
	return output->state;
}

static int comm_begin(struct output *output)
{
	struct compare_side *side = side_of(output);
	struct compare_feed *feed = arena_alloc(output->arena, sizeof(*feed));
	struct compare_comm **place = vector_add(&side->comms, sizeof(*place));

	if (place)
		*place = arena_alloc(&side->arena, sizeof(**place));
	if (feed)
		feed->durations = arena_alloc(output->arena, sizeof(*feed->durations));
	if (!place || !*place || !feed || !feed->durations)
		return BELAY_E_NO_MEMORY;
	feed->comm = *place;
	side->feed = feed;
	return 0;
}

static int size_group_of(struct compare_feed *feed, const struct call_record *record,
			 struct arena *arena, struct size_group **ret_group)
{
	struct size_group one = {record_bytes(record), record->path, record_collective(record),
				 NULL};

	*ret_group = NULL;
	for (size_t i = 0; i < feed->nsizes; i++) {
		const struct size_group *known = &feed->sizes[i];

		if (known->bytes == one.bytes && known->path == one.path &&
		    known->collective == one.collective)
			*ret_group = &feed->sizes[i];
	}
	if (*ret_group || feed->nsizes == COMPARE_SIZES_MAX)
		return 0;
	one.latency = arena_alloc(arena, sizeof(*one.latency));
	if (!one.latency)
		return BELAY_E_NO_MEMORY;
	*ret_group = &feed->sizes[feed->nsizes++];
	**ret_group = one;
	return 0;
}

static uint64_t hashed(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static int take_row(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	struct compare_feed *feed = side_of(output)->feed;
	struct size_group *group;
	int status = size_group_of(feed, facts->any, output->arena, &group);

	(void)row;
	if (status != 0)
		return status;
	feed->calls_hash = hashed(feed->calls_hash, pass_signature(facts->any));
	if (group)
		histogram_add(group->latency, facts->latency_ns);
	else
		feed->sizes_left_out++;
	return 0;
}

static int take_pass(struct output *output, const struct pass_facts *pass)
{
	struct compare_feed *feed = side_of(output)->feed;
	struct compare_pass *kept;

	histogram_add(feed->durations, pass->end_ns - pass->start_ns);
	feed->time_ns += pass->time_ns;
	feed->wait_ns += pass->wait_ns;
	if (feed->comm->kept.count == COMPARE_PASSES_MAX)
		return 0;
	kept = vector_add(&feed->comm->kept, sizeof(*kept));
	if (!kept)
		return BELAY_E_NO_MEMORY;
	*kept = (struct compare_pass){.pass = pass->pass,
				      .calls = pass_calls(pass),
				      .duration_ns = pass->end_ns - pass->start_ns,
				      .time_ns = pass->time_ns,
				      .wait_ns = pass->wait_ns,
				      .calls_hash = feed->calls_hash,
				      .waited_for = pass->waited_for};
	return 0;
}

static struct compare_quantiles quantiles_of(const struct histogram *histogram)
{
	return (struct compare_quantiles){histogram_quantile(histogram, 0.50),
					  histogram_quantile(histogram, 0.99), histogram->largest};
}

static int by_bytes_path_and_kind(const void *a, const void *b)
{
	const struct compare_size *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	if (x->path != y->path)
		return x->path < y->path ? -1 : 1;
	return x->collective - y->collective;
}

static int keep_sizes(const struct compare_feed *feed, struct arena *arena)
{
	struct compare_comm *comm = feed->comm;
	struct compare_size *sizes = arena_alloc(arena, (feed->nsizes + 1) * sizeof(*sizes));

	if (!sizes)
		return BELAY_E_NO_MEMORY;
	for (size_t i = 0; i < feed->nsizes; i++) {
		const struct size_group *group = &feed->sizes[i];

		sizes[i] =
			(struct compare_size){group->bytes, group->path, group->collective,
					      group->latency->count, quantiles_of(group->latency)};
	}
	sort_items(sizes, feed->nsizes, sizeof(*sizes), by_bytes_path_and_kind);
	comm->sizes = sizes;
	comm->nsizes = feed->nsizes;
	comm->sizes_left_out = feed->sizes_left_out;
	return 0;
}

static void keep_last(struct compare_comm *comm, const struct stragglers *stragglers)
{
	uint64_t most = 0;

	comm->last_rank = -1;
	for (uint32_t rank = 0; rank < stragglers->nranks; rank++) {
		if (stragglers->ranks[rank].last_calls <= most)
			continue;
		most = stragglers->ranks[rank].last_calls;
		comm->last_rank = (int)rank;
	}
	if (most)
		comm->last_share = (double)most / (double)stragglers->calls;
}

static void keep_summary(struct compare_comm *comm, const struct summary *summary)
{
	(void)snprintf(comm->id, sizeof(comm->id), "%s", summary->id);
	comm->nranks = summary->nranks;
	comm->present = summary->present;
	comm->calls = summary->calls;
	comm->latency = quantiles_of(summary->latency);
	comm->passes_by = summary->passes.rule.by;
	comm->passes = summary->passes.count;
	for (uint32_t rank = 0; rank < summary->nranks; rank++)
		comm->late_calls += summary->late.ranks[rank].calls;
	comm->rescues = summary->rescue_count;
	comm->mismatches = summary->mismatches.count;
	comm->digests = summary->digest_count;
	comm->lost_records = summary->lost_records;
	comm->verdict = summary->verdict;
	keep_last(comm, &summary->stragglers);
}

static int comm_end(struct output *output)
{
	struct compare_side *side = side_of(output);
	const struct compare_feed *feed = side->feed;
	struct compare_comm *comm = feed->comm;

	keep_summary(comm, output->summary);
	comm->calls_hash = feed->calls_hash;
	comm->pass = quantiles_of(feed->durations);
	comm->time_ns = feed->time_ns;
	comm->wait_ns = feed->wait_ns;
	comm->clocks_differ = output->clocks->differ;
	side->feed = NULL;
	return keep_sizes(feed, &side->arena);
}

/* A damage that cannot be kept for lack of memory is still in the exit status. */
static void end(struct output *output, const struct inputs *inputs)
{
	struct compare_side *side = side_of(output);
	const struct input_damage *damages = inputs->damages.items;

	for (size_t i = 0; i < inputs->damages.count; i++) {
		struct input_damage *kept = vector_add(&side->damages, sizeof(*kept));

		if (!kept)
			return;
		*kept = damages[i];
		kept->file = arena_text(&side->arena, damages[i].file);
		kept->reason = arena_text(&side->arena, damages[i].reason);
		if (!kept->file || !kept->reason) {
			side->damages.count--;
			return;
		}
	}
}

const struct command_ops compare_ops = {
	.name = "compare",
	.comm_begin = comm_begin,
	.row = take_row,
	.pass = take_pass,
	.comm_end = comm_end,
	.end = end,
};

void compare_side_free(struct compare_side *side)
{
	struct compare_comm **comms = side->comms.items;

	for (size_t i = 0; i < side->comms.count; i++) {
		if (comms[i])
			vector_free(&comms[i]->kept);
	}
	vector_free(&side->comms);
	vector_free(&side->damages);
	arena_free(&side->arena);
}

/* Pairing ---------------------------------------------------------------------------------------
 */

static const struct compare_comm *comm_at(const struct compare_side *side, size_t i)
{
	return ((struct compare_comm **)side->comms.items)[i];
}

static int is_taken(const struct vector *pairs, const struct compare_comm *b)
{
	const struct compare_pair *items = pairs->items;

	for (size_t i = 0; i < pairs->count; i++) {
		if (items[i].b == b)
			return 1;
	}
	return 0;
}

static int has_id(const struct compare_side *side, const char *id)
{
	for (size_t i = 0; i < side->comms.count; i++) {
		if (strcmp(comm_at(side, i)->id, id) == 0)
			return 1;
	}
	return 0;
}

/* The partner of a's communicator in b; NULL: there is none. What has a namesake is nobody
 * else's. */
static const struct compare_comm *partner_of(const struct compare_comm *one,
					     const struct compare_side *a,
					     const struct compare_side *b,
					     const struct vector *pairs)
{
	int by_id = has_id(b, one->id);

	for (size_t i = 0; i < b->comms.count; i++) {
		const struct compare_comm *other = comm_at(b, i);

		if (by_id ? strcmp(other->id, one->id) == 0
			  : other->nranks == one->nranks && !has_id(a, other->id) &&
				    !is_taken(pairs, other))
			return other;
	}
	return NULL;
}

static int add_pair(struct vector *pairs, const struct compare_comm *a,
		    const struct compare_comm *b)
{
	struct compare_pair *pair = vector_add(pairs, sizeof(*pair));

	if (!pair)
		return BELAY_E_NO_MEMORY;
	*pair = (struct compare_pair){a, b};
	return 0;
}

int compare_pair_up(const struct compare_side *a, const struct compare_side *b,
		    struct vector *ret_pairs)
{
	struct vector pairs = {0};
	int status = 0;

	for (size_t i = 0; status == 0 && i < a->comms.count; i++)
		status = add_pair(&pairs, comm_at(a, i), partner_of(comm_at(a, i), a, b, &pairs));
	for (size_t i = 0; status == 0 && i < b->comms.count; i++) {
		if (!is_taken(&pairs, comm_at(b, i)))
			status = add_pair(&pairs, NULL, comm_at(b, i));
	}
	if (status != 0) {
		vector_free(&pairs);
		return status;
	}
	*ret_pairs = pairs;
	return 0;
}

void compare_calls(const struct compare_pair *pair, struct compare_sameness *ret_sameness)
{
	const struct compare_comm *a = pair->a, *b = pair->b;
	const struct compare_pass *left = a->kept.items, *right = b->kept.items;

	*ret_sameness =
		(struct compare_sameness){.same = a->nranks == b->nranks && a->calls == b->calls &&
						  a->calls_hash == b->calls_hash};
	for (size_t i = 0; i < a->kept.count && i < b->kept.count; i++) {
		if (left[i].calls_hash != right[i].calls_hash)
			break;
		ret_sameness->same_pass = left[i].pass;
	}
}
