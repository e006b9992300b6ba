/* SPDX-License-Identifier: Apache-2.0 */
/* `summary` for machines. Its fields are an interface: they may be added to, not changed. */
#include "tools/analyze/print_json.h"
#include "tools/analyze/story.h"
#include "tools/analyze/words.h"

/* Appends and takes the reference. Frees the list and returns NULL when memory is short. */
static json_t *append(json_t *list, json_t *item)
{
	if (list && json_array_append_new(list, item) == 0)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *latency(const struct summary *summary)
{
	const struct histogram *latency = summary->latency;

	return json_pack("{s:o,s:o,s:o}", "p50", json_us(histogram_quantile(latency, 0.50)), "p99",
			 json_us(histogram_quantile(latency, 0.99)), "max",
			 json_us(latency->largest));
}

static json_t *paths(const struct summary *summary)
{
	json_t *object = json_object();

	for (int path = 1; object && path < SUMMARY_PATHS; path++)
		(void)json_object_set_new(object, belay_path_name((enum belay_path)path),
					  json_number(summary->paths[path]));
	return object;
}

static json_t *stragglers(const struct summary *summary)
{
	json_t *list = json_array();

	for (uint32_t rank = 0; list && rank < summary->nranks; rank++) {
		const struct straggler_rank *one = &summary->stragglers.ranks[rank];

		if (!one->last_calls)
			continue;
		list = append(list, json_pack("{s:i,s:o,s:o,s:o}", "rank", (int)rank, "last_calls",
					      json_number(one->last_calls), "p50_us",
					      json_us(histogram_quantile(one->lateness, 0.50)),
					      "worst_us", json_us(one->worst_ns)));
	}
	return list;
}

static json_t *late(const struct summary *summary)
{
	json_t *list = json_array();

	for (uint32_t rank = 0; list && rank < summary->nranks; rank++) {
		const struct late_rank *one = &summary->late.ranks[rank];

		if (!one->calls)
			continue;
		list = append(list,
			      json_pack("{s:i,s:o,s:o,s:o,s:o}", "rank", (int)rank, "calls",
					json_number(one->calls), "worst_us", json_us(one->worst_ns),
					"first_seq", json_number(one->first_seq), "last_seq",
					json_number(one->last_seq)));
	}
	return list;
}

static json_t *rescues(const struct summary *summary)
{
	const struct summary_rescue *entries = summary->rescues.items;
	json_t *list = json_array();

	for (size_t i = 0; list && i < summary->rescues.count; i++) {
		const struct summary_rescue *one = &entries[i];

		list = append(list, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "seq",
					      json_number(one->seq), "pass", json_number(one->pass),
					      "stuck", json_ranks(one->stuck), "via",
					      json_path_or_null(one->via), "us", json_us(one->ns),
					      "lost", json_ranks(one->lost), "wait_us",
					      json_us_or_null(one->wait_ns)));
	}
	return list;
}

static json_t *signature(const struct signature *one, int with_place)
{
	char dtype[WORDS_NAME_BYTES], op[WORDS_NAME_BYTES];
	json_t *object = json_pack("{s:o,s:o,s:s,s:s}", "ranks", json_ranks(one->ranks), "count",
				   json_number(one->count), "dtype", words_dtype(one->dtype, dtype),
				   "op", words_op(one->op, op));

	if (object && with_place) {
		(void)json_object_set_new(object, "pass", json_number(one->pass));
		(void)json_object_set_new(object, "index", json_integer(one->index));
	}
	return object;
}

static json_t *mismatches(const struct summary *summary)
{
	const struct summary_mismatch *entries = summary->mismatches.items;
	json_t *list = json_array();

	for (size_t i = 0; list && i < summary->mismatches.count; i++) {
		const struct signature_list *found = &entries[i].signatures;
		json_t *groups = json_array();

		for (size_t j = 0; groups && j < found->count; j++)
			groups = append(groups, signature(&found->items[j], found->places_differ));
		list = append(list, json_pack("{s:o,s:o}", "seq", json_number(entries[i].seq),
					      "signatures", groups));
	}
	return list;
}

static json_t *digest_differences(const struct summary *summary)
{
	const struct summary_digest *entries = summary->digests.items;
	json_t *list = json_array();

	for (size_t i = 0; list && i < summary->digests.count; i++)
		list = append(list, json_pack("{s:o,s:o,s:o}", "seq", json_number(entries[i].seq),
					      "pass", json_number(entries[i].pass), "ranks",
					      json_ranks(entries[i].ranks)));
	return list;
}

static json_t *verdict(const struct summary *summary)
{
	const struct summary_verdict *verdict = &summary->verdict;

	if (!verdict->stands)
		return json_null();
	return json_pack("{s:o,s:s,s:o,s:o}", "seq", json_number(verdict->seq), "cause",
			 belay_cause_name((enum belay_cause)verdict->cause), "rank",
			 json_rank_or_null(verdict->rank), "pass", json_number(verdict->pass));
}

static json_t *path_changes(const struct summary *summary)
{
	const struct summary_path_change *changes = summary->path_changes.items;
	json_t *list = json_array();

	for (size_t i = 0; list && i < summary->path_changes.count; i++)
		list = append(list,
			      json_pack("{s:o,s:o,s:o,s:o}", "seq", json_number(changes[i].seq),
					"pass", json_number(changes[i].pass), "from",
					json_path_or_null(changes[i].from), "to",
					json_path_or_null(changes[i].to)));
	return list;
}

static json_t *slow_passes(const struct summary *summary)
{
	struct slow_pass slowest[PASS_TIMES_SLOWEST];
	json_t *list = json_array();
	size_t n;

	(void)pass_times_slow(&summary->pass_times, slowest, &n);
	for (size_t i = 0; list && i < n; i++)
		list = append(list, json_pack("{s:o,s:o,s:o,s:o,s:o}", "pass",
					      json_number(slowest[i].pass), "us",
					      json_us(slowest[i].duration_ns), "median_us",
					      json_us(slowest[i].median_ns), "waited_for",
					      json_rank_or_null(slowest[i].waited_for),
					      "waited_for_us", json_us(slowest[i].waited_for_ns)));
	return list;
}

/* A number that is 0 where the point has none. */
static json_t *some(uint64_t value)
{
	return value ? json_number(value) : json_null();
}

static json_t *story_of(const struct output *output)
{
	char sentence[STORY_SENTENCE_BYTES];
	json_t *list = json_array();
	struct story story;

	story_tell(output->summary, output->clocks->differ, &story);
	for (size_t i = 0; list && i < story.count; i++) {
		const struct story_point *point = &story.points[i];

		list = append(list, json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "what",
					      story_name(point->what), "rank",
					      json_rank_or_null(point->rank), "ranks",
					      json_ranks(point->ranks), "seq", some(point->seq),
					      "pass", some(point->pass), "last_seq",
					      some(point->last_seq), "count", some(point->count),
					      "text", json_text(story_words(point, sentence))));
	}
	return list;
}

/* Only where there is one: whoever knows of no hosts finds nothing new. */
static json_t *with_part(json_t *json, const struct summary *summary)
{
	if (json && summary->part[0])
		(void)json_object_set_new(json, "part", json_string(summary->part));
	return json;
}

static int comm_end(struct output *output)
{
	const struct summary *summary = output->summary;
	const struct passes *passes = &summary->passes;

	return json_comm(
		output,
		with_part(
			json_pack(
				"{s:s,s:i,s:o,s:o,s:o,s:s,s:o,s:{s:o,s:o},s:o,s:o,s:o,s:o,s:o,s:o,"
				"s:o,s:"
				"o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
				"id", summary->id, "nranks", (int)summary->nranks, "ranks_present",
				json_ranks(summary->present), "calls", json_number(summary->calls),
				"passes", json_number(passes->count), "passes_by",
				pass_by_name(passes->rule.by), "period", json_period(&passes->rule),
				"calls_per_pass", "min", json_number(passes->calls_min), "max",
				json_number(passes->calls_max), "latency_us", latency(summary),
				"paths", paths(summary), "stragglers", stragglers(summary), "late",
				late(summary), "rescues", rescues(summary), "mismatches",
				mismatches(summary), "digest_differences",
				digest_differences(summary), "verdict", verdict(summary),
				"lost_records", json_number(summary->lost_records), "clocks_differ",
				json_number(summary->calls_clocks_differ), "clocks",
				json_clocks(output->clocks), "path_changes", path_changes(summary),
				"breaker_opened", json_number(summary->switches.opened),
				"slow_passes", slow_passes(summary), "story", story_of(output)),
			summary));
}

const struct command_ops command_summary_json = {
	.name = "summary",
	.begin = json_document_begin,
	.comm_end = comm_end,
	.end = json_document_end,
};
