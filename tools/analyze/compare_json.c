/* SPDX-License-Identifier: Apache-2.0 */
/* `compare` for machines. */
#include "tools/analyze/compare.h"
#include "tools/analyze/print_json.h"
#include "tools/analyze/words.h"

/* Appends and takes the reference. Frees the list and returns NULL when memory is short. */
static json_t *append(json_t *list, json_t *item)
{
	if (list && json_array_append_new(list, item) == 0)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *quantiles(const struct compare_quantiles *one)
{
	return json_pack("{s:o,s:o,s:o}", "p50", json_us(one->p50), "p99", json_us(one->p99), "max",
			 json_us(one->max));
}

static json_t *verdict(const struct summary_verdict *verdict)
{
	if (!verdict->stands)
		return json_null();
	return json_pack("{s:o,s:s,s:o,s:o}", "seq", json_number(verdict->seq), "cause",
			 belay_cause_name((enum belay_cause)verdict->cause), "rank",
			 json_rank_or_null(verdict->rank), "pass", json_number(verdict->pass));
}

static json_t *sizes(const struct compare_comm *comm)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < comm->nsizes; i++) {
		const struct compare_size *one = &comm->sizes[i];
		char what[WORDS_NAME_BYTES];

		list = append(list,
			      json_pack("{s:o,s:o,s:s,s:o,s:o}", "bytes", json_number(one->bytes),
					"path", json_path_or_null(one->path), "collective",
					words_collective(one->collective, what), "calls",
					json_number(one->calls), "latency_us",
					quantiles(&one->latency)));
	}
	return list;
}

static json_t *comm(const struct compare_comm *one)
{
	if (!one)
		return json_null();
	return json_pack(
		"{s:s,s:i,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
		"id", one->id, "nranks", (int)one->nranks, "ranks_present",
		json_ranks(one->present), "calls", json_number(one->calls), "passes_by",
		pass_by_name(one->passes_by), "passes", json_number(one->passes), "latency_us",
		quantiles(&one->latency), "pass_us", quantiles(&one->pass), "allreduce_us",
		json_us(one->time_ns), "wait_us", json_us(one->wait_ns), "transfer_us",
		json_us(one->time_ns - one->wait_ns), "last_most_often",
		json_rank_or_null(one->last_rank), "late_calls", json_number(one->late_calls),
		"rescues", json_number(one->rescues), "mismatches", json_number(one->mismatches),
		"digest_differences", json_number(one->digests), "lost_records",
		json_number(one->lost_records), "verdict", verdict(&one->verdict), "sizes",
		sizes(one));
}

static json_t *pass_row(const struct compare_pass *a, const struct compare_pass *b)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "pass", json_number(a->pass),
			 "calls", json_number(a->calls), "a_us", json_us(a->duration_ns), "b_us",
			 json_us(b->duration_ns), "a_wait_us", json_us(a->wait_ns), "b_wait_us",
			 json_us(b->wait_ns), "a_waited_for", json_rank_or_null(a->waited_for),
			 "b_waited_for", json_rank_or_null(b->waited_for), "b_pass",
			 json_number(b->pass));
}

static json_t *pass_rows(const struct compare_pair *pair)
{
	const struct compare_pass *a = pair->a->kept.items, *b = pair->b->kept.items;
	json_t *list = json_array();

	for (size_t i = 0; list && i < pair->a->kept.count && i < pair->b->kept.count; i++)
		list = append(list, pass_row(&a[i], &b[i]));
	return list;
}

static json_t *pair_json(const struct compare_pair *pair)
{
	struct compare_sameness sameness = {0};

	if (!pair->a || !pair->b)
		return json_pack("{s:o,s:o,s:n,s:[]}", "a", comm(pair->a), "b", comm(pair->b),
				 "same_calls", "passes");
	compare_calls(pair, &sameness);
	return json_pack("{s:o,s:o,s:b,s:o,s:o}", "a", comm(pair->a), "b", comm(pair->b),
			 "same_calls", sameness.same, "same_to_pass",
			 json_number(sameness.same_pass), "passes", pass_rows(pair));
}

static json_t *add_damages(json_t *list, const struct compare_side *side)
{
	const struct input_damage *damages = side->damages.items;

	for (size_t i = 0; list && i < side->damages.count; i++) {
		const struct input_damage *one = &damages[i];
		json_t *lost = one->records_lost < 0 ? json_null()
						     : json_integer((json_int_t)one->records_lost);

		list = append(list,
			      json_pack("{s:o,s:o,s:o,s:o}", "file", json_text(one->file), "reason",
					json_text(one->reason), "records_kept",
					json_number(one->records_kept), "records_lost", lost));
	}
	return list;
}

int compare_json(const struct output *output, const struct compare_side *a,
		 const struct compare_side *b, const struct vector *pairs, void *more)
{
	const struct compare_pair *items = pairs->items;
	json_t *list = json_array(), *document;

	for (size_t i = 0; list && i < pairs->count; i++)
		list = append(list, pair_json(&items[i]));
	document =
		json_pack("{s:o,s:o,s:o,s:o}", "a", json_text(a->name), "b", json_text(b->name),
			  "comms", list, "damaged", add_damages(add_damages(json_array(), a), b));
	if (document && more && json_object_update(document, more) != 0) {
		json_decref(document);
		document = NULL;
	}
	json_decref(more);
	if (!document)
		return BELAY_E_NO_MEMORY;
	/* What stdio could not write the end of the command tells. */
	(void)json_dumpf(document, output->file, JSON_COMPACT | JSON_REAL_PRECISION(15));
	fputc('\n', output->file);
	json_decref(document);
	return 0;
}
