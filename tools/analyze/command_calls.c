/* SPDX-License-Identifier: Apache-2.0 */
/* `calls` for people, and `calls` and `export` for machines: a row a call and rank, as recorded. */
#include <inttypes.h>
#include <string.h>

#include "tools/analyze/print_json.h"
#include "tools/analyze/print_text.h"
#include "tools/analyze/words.h"

static const struct {
	uint16_t bit;
	const char *name;
} flags[] = {
	{CALL_IN_PLACE, "in_place"}, {CALL_GRAPH, "graph"},   {CALL_RESCUED, "rescued"},
	{CALL_LATE, "late"},	     {CALL_REGION, "region"}, {CALL_CHUNKED, "chunked"},
	{CALL_DIGEST, "digest"},     {CALL_FUSED, "fused"},   {CALL_WATCHED, "watched"},
};

#define FLAGS (sizeof(flags) / sizeof(flags[0]))

typedef int print_record_function(struct output *output, const struct call_row *row,
				  const struct row_facts *facts, uint32_t rank);

static int print_wanted(struct output *output, const struct call_row *row,
			const struct row_facts *facts, print_record_function *print)
{
	int status = 0;

	for (uint64_t left = call_filter_ranks(&output->filter, row); status == 0 && left;)
		status = print(output, row, facts, mask_pop(&left));
	return status;
}

static uint64_t index_of(const struct output *output, const struct call_row *row)
{
	return pass_rule_index(&output->summary->passes.rule, row);
}

/* Text ----------------------------------------------------------------------------------------- */

static void print_columns(const struct output *output)
{
	text_bold(output);
	fprintf(output->file,
		"%12s %8s %5s %4s %16s %12s %10s %12s %-5s %-12s %-5s %-4s %10s  %s\n", "seq",
		"pass", "place", "rank", "start (us)", "duration", "staged", "waited", "path",
		"algorithm", "dtype", "op", "count", "remarks");
	text_plain(output);
}

/* How long this rank's own input stood ready before the last one did, or, where that is not known,
 * before the last one was seen here. */
static uint64_t waited_ns(const struct call_record *record, const struct row_facts *facts,
			  uint32_t nranks)
{
	uint64_t last = record->staged_ns;

	if (facts->last_rank >= 0)
		return record_wait(record, facts->last_arrival_ns);
	for (uint32_t peer = 0; peer < nranks; peer++) {
		if (record->arrival_ns[peer] != CALL_ARRIVAL_NONE &&
		    record->arrival_ns[peer] > last)
			last = record->arrival_ns[peer];
	}
	return last - record->staged_ns;
}

static void print_remarks(const struct output *output, const struct call_record *record)
{
	char ranks[WORDS_RANKS_BYTES], time[WORDS_TIME_BYTES];

	for (size_t i = 0; i < FLAGS; i++) {
		if ((record->flags & flags[i].bit) && flags[i].bit != CALL_DIGEST)
			fprintf(output->file, " %s", flags[i].name);
	}
	if (record->missing)
		fprintf(output->file, " missing=%s", words_ranks(record->missing, ranks));
	if (record->rescue_path)
		fprintf(output->file, " via=%s,%s", belay_path_name(record->rescue_path),
			words_time(record->rescue_ns, time));
	if (record->status)
		fprintf(output->file, " %s", belay_status_name(record->status));
}

static int record_text(struct output *output, const struct call_row *row,
		       const struct row_facts *facts, uint32_t rank)
{
	const struct call_record *record = row->records[rank];
	char dtype[WORDS_NAME_BYTES], op[WORDS_NAME_BYTES];

	if (output->rows++ == 0)
		print_columns(output);
	fprintf(output->file, "%12" PRIu64 " %8" PRIu64 " %5" PRIu64 " %4" PRIu32 " ", row->seq,
		row->pass, index_of(output, row), rank);
	text_time(output, record->start_ns, 16);
	fprintf(output->file, " %12.3f %10.3f %12.3f %-5s %-12s %-5s %-4s %10" PRIu64 " ",
		(double)record->duration_ns / 1e3, (double)record->staged_ns / 1e3,
		(double)waited_ns(record, facts, row->nranks) / 1e3, belay_path_name(record->path),
		belay_algorithm_name(record->algorithm), words_dtype(record->dtype, dtype),
		words_op(record->op, op), record->count);
	if (facts->last_rank == (int)rank)
		fputs(" last", output->file);
	print_remarks(output, record);
	fputc('\n', output->file);
	return 0;
}

static int begin_text(struct output *output)
{
	text_heading(output);
	return 0;
}

static int row_text(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	return print_wanted(output, row, facts, record_text);
}

static int end_text(struct output *output)
{
	if (output->rows == 0)
		fputs("  no call is as the options want it\n", output->file);
	return 0;
}

const struct command_ops command_calls_text = {
	.name = "calls",
	.comm_begin = begin_text,
	.row = row_text,
	.comm_end = end_text,
	.end = text_damages,
};

/* JSON ----------------------------------------------------------------------------------------- */

/* These rows may be millions: they are printed by hand. No value in them needs escaping. */

static void print_us(const struct output *output, const char *name, uint64_t ns)
{
	fprintf(output->file, ",\"%s\":%" PRIu64 ".%03" PRIu64, name, ns / 1000, ns % 1000);
}

/* From the first call on, or absolute; what came before the first call is negative. */
static void print_start(const struct output *output, uint64_t start_ns)
{
	uint64_t ns = output->absolute ? start_ns : start_ns - output->base_ns;
	int before = (int64_t)ns < 0;

	if (before)
		ns = 0 - ns;
	fprintf(output->file, ",\"start_us\":%s%" PRIu64 ".%03" PRIu64, before ? "-" : "",
		ns / 1000, ns % 1000);
}

static void print_flag_list(const struct output *output, uint16_t value)
{
	const char *comma = "";

	fputs(",\"flags\":[", output->file);
	for (size_t i = 0; i < FLAGS; i++) {
		if (!(value & flags[i].bit))
			continue;
		fprintf(output->file, "%s\"%s\"", comma, flags[i].name);
		comma = ",";
	}
	fputc(']', output->file);
}

static void print_arrival_list(const struct output *output, const struct call_record *record,
			       uint32_t nranks)
{
	fputs(",\"arrival_us\":[", output->file);
	for (uint32_t peer = 0; peer < nranks; peer++) {
		uint64_t ns = record->arrival_ns[peer];

		fputs(peer ? "," : "", output->file);
		if (ns == CALL_ARRIVAL_NONE)
			fputs("null", output->file);
		else
			fprintf(output->file, "%" PRIu64 ".%03" PRIu64, ns / 1000, ns % 1000);
	}
	fputc(']', output->file);
}

static void print_missing_list(const struct output *output, uint64_t missing)
{
	const char *comma = "";

	fputs(",\"missing\":[", output->file);
	while (missing) {
		fprintf(output->file, "%s%" PRIu32, comma, mask_pop(&missing));
		comma = ",";
	}
	fputc(']', output->file);
}

static void print_outcome(const struct output *output, const struct call_record *record)
{
	if (record->rescue_path)
		fprintf(output->file, ",\"rescue_path\":\"%s\"",
			belay_path_name(record->rescue_path));
	else
		fputs(",\"rescue_path\":null", output->file);
	print_us(output, "rescue_us", record->rescue_ns);
	if (record->flags & CALL_DIGEST)
		fprintf(output->file, ",\"digest\":\"%016" PRIx64 "\"}", record->digest);
	else
		fputs(",\"digest\":null}", output->file);
}

static int record_json(struct output *output, const struct call_row *row,
		       const struct row_facts *facts, uint32_t rank)
{
	const struct call_record *record = row->records[rank];
	char dtype[WORDS_NAME_BYTES], op[WORDS_NAME_BYTES];

	fputs(output->rows++ ? ",\n" : "\n", output->file);
	fprintf(output->file,
		"{\"seq\":%" PRIu64 ",\"rank\":%" PRIu32 ",\"pass\":%" PRIu64 ",\"index\":%" PRIu64
		",\"op\":\"%s\",\"dtype\":\"%s\",\"count\":%" PRIu64
		",\"path\":\"%s\",\"algorithm\":\"%s\",\"status\":\"%s\"",
		row->seq, rank, row->pass, index_of(output, row), words_op(record->op, op),
		words_dtype(record->dtype, dtype), record->count, belay_path_name(record->path),
		belay_algorithm_name(record->algorithm), belay_status_name(record->status));
	print_flag_list(output, record->flags);
	print_us(output, "enqueue_us", record->enqueue_ns);
	print_start(output, record->start_ns);
	print_us(output, "staged_us", record->staged_ns);
	print_arrival_list(output, record, row->nranks);
	print_us(output, "duration_us", record->duration_ns);
	print_us(output, "waited_us", waited_ns(record, facts, row->nranks));
	fprintf(output->file, ",\"last\":%s", facts->last_rank == (int)rank ? "true" : "false");
	print_missing_list(output, record->missing);
	print_outcome(output, record);
	return 0;
}

static int begin_json(struct output *output)
{
	return json_rows_begin(output, "calls");
}

static int row_json(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	return print_wanted(output, row, facts, record_json);
}

const struct command_ops command_calls_json = {
	.name = "calls",
	.begin = json_document_begin,
	.comm_begin = begin_json,
	.row = row_json,
	.comm_end = json_rows_end,
	.end = json_document_end,
};

const struct command_ops command_export_json = {
	.name = "export",
	.begin = json_document_begin,
	.comm_begin = begin_json,
	.row = row_json,
	.comm_end = json_rows_end,
	.end = json_document_end,
};

/* CSV ------------------------------------------------------------------------------------------ */

/* Times in whole nanoseconds, so that nothing is lost; lists within a field are separated by
 * spaces. */
static void begin_csv(struct output *output)
{
	fputs("comm,nranks,rank,seq,pass,index,op,dtype,count,path,algorithm,status,flags,"
	      "enqueue_ns,start_ns,staged_ns,arrival_ns,duration_ns,missing,rescue_path,rescue_ns,"
	      "digest\n",
	      output->file);
}

static void print_lists(const struct output *output, const struct call_record *record)
{
	const char *space = "";

	for (size_t i = 0; i < FLAGS; i++) {
		if (!(record->flags & flags[i].bit))
			continue;
		fprintf(output->file, "%s%s", space, flags[i].name);
		space = " ";
	}
}

static void print_arrivals(const struct output *output, const struct call_record *record,
			   uint32_t nranks)
{
	for (uint32_t peer = 0; peer < nranks; peer++) {
		fputs(peer ? " " : "", output->file);
		if (record->arrival_ns[peer] == CALL_ARRIVAL_NONE)
			fputc('-', output->file);
		else
			fprintf(output->file, "%" PRIu64, record->arrival_ns[peer]);
	}
}

static int record_csv(struct output *output, const struct call_row *row,
		      const struct row_facts *facts, uint32_t rank)
{
	const struct call_record *record = row->records[rank];
	char dtype[WORDS_NAME_BYTES], op[WORDS_NAME_BYTES];
	FILE *file = output->file;

	(void)facts; /* the record alone */
	fprintf(file,
		"%s,%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%s,%s,%" PRIu64
		",%s,%s,%s,",
		output->summary->id, row->nranks, rank, row->seq, row->pass, index_of(output, row),
		words_op(record->op, op), words_dtype(record->dtype, dtype), record->count,
		belay_path_name(record->path), belay_algorithm_name(record->algorithm),
		belay_status_name(record->status));
	print_lists(output, record);
	fprintf(file, ",%" PRIu32 ",%" PRId64 ",%" PRIu32 ",", record->enqueue_ns,
		(int64_t)(output->absolute ? record->start_ns : record->start_ns - output->base_ns),
		record->staged_ns);
	print_arrivals(output, record, row->nranks);
	fprintf(file, ",%" PRIu64 ",0x%" PRIx64 ",%s,%" PRIu64 ",", record->duration_ns,
		record->missing, record->rescue_path ? belay_path_name(record->rescue_path) : "",
		record->rescue_ns);
	if (record->flags & CALL_DIGEST)
		fprintf(file, "%016" PRIx64, record->digest);
	fputc('\n', file);
	return 0;
}

static int row_csv(struct output *output, const struct call_row *row, const struct row_facts *facts)
{
	return print_wanted(output, row, facts, record_csv);
}

const struct command_ops command_export_csv = {
	.name = "export",
	.begin = begin_csv,
	.row = row_csv,
	.end = text_damages_aside,
};
