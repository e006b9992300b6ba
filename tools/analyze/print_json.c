/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/print_json.h"

/* Enough for nanoseconds of a year in microseconds, and no noise behind. */
#define JSON_FLAGS (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

static int dump(struct output *output, json_t *value)
{
	if (!value)
		return BELAY_E_NO_MEMORY;
	/* A failed write stays in the stream's error flag, where the end of the command looks. */
	(void)json_dumpf(value, output->file, JSON_FLAGS);
	json_decref(value);
	return 0;
}

void json_document_begin(struct output *output)
{
	fputs("{\"comms\":[", output->file);
}

void json_document_end(struct output *output, const struct inputs *inputs)
{
	const struct input_damage *damages = inputs->damages.items;

	fputs("],\n\"damaged\":[", output->file);
	for (size_t i = 0; i < inputs->damages.count; i++) {
		const struct input_damage *one = &damages[i];
		json_t *lost = one->records_lost < 0 ? json_null()
						     : json_integer((json_int_t)one->records_lost);

		fputs(i ? ",\n" : "\n", output->file);
		(void)dump(output, json_pack("{s:o,s:o,s:o,s:o}", "file", json_text(one->file),
					     "reason", json_text(one->reason), "records_kept",
					     json_number(one->records_kept), "records_lost", lost));
	}
	fputs("]}\n", output->file);
}

int json_rows_begin(struct output *output, const char *list)
{
	const struct summary *summary = output->summary;
	int status;

	fputs(output->comms_done ? ",\n" : "\n", output->file);
	fprintf(output->file,
		"{\"id\":\"%s\",\"nranks\":%u,\"passes_by\":\"%s\",\"period\":", summary->id,
		summary->nranks, pass_by_name(summary->passes.rule.by));
	status = dump(output, json_period(&summary->passes.rule));
	fprintf(output->file, ",\"%s\":[", list);
	return status;
}

int json_row(struct output *output, json_t *row)
{
	fputs(output->rows++ ? ",\n" : "\n", output->file);
	return dump(output, row);
}

static json_t *clock_json(const struct clocks *clocks, uint32_t rank)
{
	struct clock_report report;

	clocks_report(clocks, rank, &report);
	if (report.refused)
		return json_pack("{s:i,s:b,s:s}", "rank", (int)rank, "aligned", 0, "reason",
				 report.refused);
	return json_pack("{s:i,s:b,s:i,s:f,s:f,s:o,s:o,s:o}", "rank", (int)rank, "aligned", 1,
			 "to_rank", (int)clocks->reference, "offset_us",
			 (double)report.offset_ns / 1e3, "drift_ppm", report.drift_ppm, "steps",
			 json_number(report.steps), "within_us", json_us(report.bound_ns),
			 "within_worst_us", json_us(report.bound_worst_ns));
}

json_t *json_clocks(const struct clocks *clocks)
{
	json_t *list = json_array();

	for (uint64_t left = clocks->differ; list && left;) {
		if (json_array_append_new(list, clock_json(clocks, mask_pop(&left))) != 0) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

int json_rows_end(struct output *output)
{
	fputs("],\n\"clocks\":", output->file);
	(void)dump(output, json_clocks(output->clocks));
	fputs("}", output->file);
	return 0;
}

int json_comm(struct output *output, json_t *comm)
{
	fputs(output->comms_done ? ",\n" : "\n", output->file);
	return dump(output, comm);
}

json_t *json_ranks(uint64_t mask)
{
	json_t *list = json_array();

	while (list && mask) {
		if (json_array_append_new(list, json_integer(mask_pop(&mask))) != 0) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

json_t *json_us(uint64_t ns)
{
	return json_real((double)ns / 1000.0);
}

json_t *json_us_or_null(uint64_t ns)
{
	return ns ? json_us(ns) : json_null();
}

json_t *json_rank_or_null(int rank)
{
	return rank < 0 ? json_null() : json_integer(rank);
}

json_t *json_number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

json_t *json_text(const char *text)
{
	json_t *value = json_string(text);
	char copy[512];
	size_t i;

	if (value)
		return value;
	for (i = 0; text[i] && i < sizeof(copy) - 1; i++)
		copy[i] = (char)((unsigned char)text[i] < 0x80 ? text[i] : '?');
	copy[i] = '\0';
	return json_string(copy);
}

json_t *json_path_or_null(uint8_t path)
{
	return path ? json_string(belay_path_name(path)) : json_null();
}

static json_t *breaks_of(const struct pass_rule *rule)
{
	size_t n = pass_rule_breaks(rule);
	json_t *list = json_array();

	for (size_t i = 0; list && i < n; i++) {
		struct pass_break broken;
		json_t *one;

		pass_rule_break(rule, i, &broken);
		one = json_pack("{s:o,s:o,s:o}", "seq", json_number(broken.seq), "until",
				broken.until ? json_number(broken.until) : json_null(), "calls",
				broken.until ? json_number(broken.calls) : json_null());
		if (!one || json_array_append_new(list, one) != 0) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

json_t *json_period(const struct pass_rule *rule)
{
	static const char *const names[] = {
		[PERIOD_SIZES] = "sizes", [PERIOD_ALIKE] = "runs", [PERIOD_PAUSES] = "pauses"};

	if (rule->by != PASS_BY_PERIOD)
		return json_null();
	return json_pack("{s:o,s:o,s:s,s:f,s:o,s:o}", "calls", json_number(rule->period),
			 "first_seq", json_number(rule->first_seq), "by", names[rule->kind], "sure",
			 pass_rule_sureness(rule), "unlike", json_number(rule->unlike), "breaks",
			 breaks_of(rule));
}

json_t *json_time_us(const struct output *output, uint64_t time_ns)
{
	int64_t ns = (int64_t)(output->absolute ? time_ns : time_ns - output->base_ns);

	return json_real((double)ns / 1000.0);
}
