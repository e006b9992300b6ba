/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/info/info_process.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "runtime/belay.h"

static const char *breaker_text(enum belay_breaker_state state)
{
	static const char *const names[] = {"closed", "open", "half-open"};

	return (unsigned)state < 3 ? names[state] : "unknown";
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static const char *rank_state(const struct belay_rank_health *rank)
{
	if (rank->dead)
		return "dead";
	if (rank->left)
		return "left";
	return rank->in_call ? "in call" : "between calls";
}

/* One host's part of an NCCL communicator, in which ranks have other numbers. */
static int is_part(const struct belay_process_comm *comm)
{
	return comm->hosts > 1;
}

static void print_rank_text(const struct belay_process_comm *comm, int number,
			    const struct belay_rank_health *rank)
{
	printf("  %4d %8d %-13s %12" PRIu64 " %12" PRIu64 " %12.3f %12.3f", number, rank->pid,
	       rank_state(rank), rank->seq, rank->done_seq, seconds(rank->age_ns),
	       seconds(rank->heartbeat_age_ns));
	if (is_part(comm))
		printf(" %10d", rank->world_rank);
	putchar('\n');
}

static void print_comm_text(const struct belay_process_comm *comm)
{
	printf("communicator %s: %d ranks, path %s, breaker %s, %" PRIu64 " seqs rescued\n",
	       comm->id, comm->nranks, belay_path_name(comm->path), breaker_text(comm->breaker),
	       comm->rescued_seqs);
	if (is_part(comm))
		printf("  watched on host %d of %d of an NCCL communicator of %d ranks\n",
		       comm->host, comm->hosts, comm->world_nranks);
	if (comm->has_verdict)
		printf("  verdict: seq %" PRIu64 ": %s, rank %d at fault: %s\n", comm->verdict.seq,
		       belay_cause_name(comm->verdict.cause), comm->verdict.rank,
		       comm->verdict.text);
	else
		printf("  verdict: none\n");
	printf("  rank      pid state                  seq     done_seq   progress_s  "
	       "heartbeat_s%s\n",
	       is_part(comm) ? " world_rank" : "");
}

static int print_text(const struct belay_process *process, int count)
{
	struct belay_process_comm comm = {.size = sizeof(comm)};
	struct belay_rank_health rank = {.size = sizeof(rank)};

	for (int i = 0; i < count; i++) {
		if (belay_process_comm(process, i, &comm))
			continue; /* cannot be: i is in range */
		print_comm_text(&comm);
		for (int r = 0; r < comm.nranks; r++) {
			if (belay_process_rank(process, i, r, &rank) == 0)
				print_rank_text(&comm, r, &rank);
		}
	}
	return 0;
}

static json_t *rank_json(const struct belay_process_comm *comm, int number,
			 const struct belay_rank_health *rank)
{
	json_t *json = json_pack("{s:i, s:i, s:I, s:I, s:f, s:f, s:b, s:b, s:b}", "rank", number,
				 "pid", rank->pid, "seq", (json_int_t)rank->seq, "done_seq",
				 (json_int_t)rank->done_seq, "age_s", seconds(rank->age_ns),
				 "heartbeat_age_s", seconds(rank->heartbeat_age_ns), "dead",
				 rank->dead, "left", rank->left, "in_call", rank->in_call);

	if (is_part(comm))
		(void)json_object_set_new(json, "world_rank", json_integer(rank->world_rank));
	return json;
}

static json_t *verdict_json(const struct belay_process_comm *comm)
{
	const struct belay_verdict *verdict = &comm->verdict;

	if (!comm->has_verdict)
		return json_null();
	return json_pack("{s:I, s:s, s:o, s:s}", "seq", (json_int_t)verdict->seq, "cause",
			 belay_cause_name(verdict->cause), "rank",
			 verdict->rank < 0 ? json_null() : json_integer(verdict->rank), "text",
			 verdict->text);
}

static json_t *comm_json(const struct belay_process *process, int index)
{
	struct belay_process_comm comm = {.size = sizeof(comm)};
	struct belay_rank_health rank = {.size = sizeof(rank)};
	json_t *ranks = json_array(), *json;

	if (belay_process_comm(process, index, &comm)) {
		json_decref(ranks);
		return NULL;
	}
	for (int r = 0; r < comm.nranks; r++) {
		if (belay_process_rank(process, index, r, &rank) == 0)
			(void)json_array_append_new(ranks, rank_json(&comm, r, &rank));
	}
	json = json_pack("{s:s, s:i, s:s, s:s, s:I, s:o, s:o}", "id", comm.id, "nranks",
			 comm.nranks, "path", belay_path_name(comm.path), "breaker",
			 breaker_text(comm.breaker), "rescued_seqs", (json_int_t)comm.rescued_seqs,
			 "verdict", verdict_json(&comm), "ranks", ranks);
	if (is_part(&comm))
		(void)json_object_set_new(json, "part",
					  json_pack("{s:i, s:i, s:i}", "host", comm.host, "hosts",
						    comm.hosts, "world_nranks", comm.world_nranks));
	return json;
}

static int print_json(const struct belay_process *process, int pid, int count)
{
	json_t *comms = json_array();
	json_t *document;

	for (int i = 0; i < count; i++)
		(void)json_array_append_new(comms, comm_json(process, i));
	document = json_pack("{s:i, s:o}", "pid", pid, "comms", comms);
	if (!document) {
		command_error("out of memory");
		return 1;
	}
	/* What stdio could not write, command_finish() tells. */
	(void)json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
	putchar('\n');
	json_decref(document);
	return 0;
}

/* One metric of every rank: what it is called and how it comes from a rank's state. */
struct metric {
	const char *name, *type, *help;
	double (*value)(const struct belay_rank_health *rank);
};

static double metric_seq(const struct belay_rank_health *rank)
{
	return (double)rank->seq;
}

static double metric_done_seq(const struct belay_rank_health *rank)
{
	return (double)rank->done_seq;
}

static double metric_age(const struct belay_rank_health *rank)
{
	return seconds(rank->age_ns);
}

static double metric_heartbeat(const struct belay_rank_health *rank)
{
	return seconds(rank->heartbeat_age_ns);
}

static double metric_in_call(const struct belay_rank_health *rank)
{
	return rank->in_call;
}

static double metric_dead(const struct belay_rank_health *rank)
{
	return rank->dead;
}

static double metric_left(const struct belay_rank_health *rank)
{
	return rank->left;
}

/* clang-format off */
static const struct metric rank_metrics[] = {
	{ "belay_rank_seq", "counter", "Last call that the rank began.", metric_seq },
	{ "belay_rank_done_seq", "counter", "Last call that the rank finished.", metric_done_seq },
	{ "belay_rank_age_seconds", "gauge", "Time since the rank's last progress.", metric_age },
	{ "belay_rank_heartbeat_age_seconds", "gauge",
	  "Time since the last heartbeat of the rank's watcher.", metric_heartbeat },
	{ "belay_rank_in_call", "gauge", "1 while the rank is in a call.", metric_in_call },
	{ "belay_rank_dead", "gauge", "1 when the rank's process is gone.", metric_dead },
	{ "belay_rank_left", "gauge", "1 when the rank has destroyed its communicator.",
	  metric_left },
};
/* clang-format on */

static void print_head(const char *name, const char *type, const char *text)
{
	printf("# HELP %s %s\n# TYPE %s %s\n", name, text, name, type);
}

static void print_rank_sample(const struct belay_process_comm *comm, int number,
			      const struct belay_rank_health *rank, const struct metric *metric)
{
	printf("%s{comm=\"%s\",rank=\"%d\"", metric->name, comm->id, number);
	if (is_part(comm))
		printf(",world_rank=\"%d\"", rank->world_rank);
	printf("} %.15g\n", metric->value(rank));
}

static void print_rank_metric(const struct belay_process *process, int count,
			      const struct metric *metric)
{
	struct belay_process_comm comm = {.size = sizeof(comm)};
	struct belay_rank_health rank = {.size = sizeof(rank)};

	print_head(metric->name, metric->type, metric->help);
	for (int i = 0; i < count; i++) {
		if (belay_process_comm(process, i, &comm))
			continue; /* cannot be: i is in range */
		for (int r = 0; r < comm.nranks; r++) {
			if (belay_process_rank(process, i, r, &rank) == 0)
				print_rank_sample(&comm, r, &rank, metric);
		}
	}
}

static void print_comm_metric(const struct belay_process_comm *comm, int which)
{
	const char *cause = belay_cause_name(comm->verdict.cause);

	switch (which) {
	case 0:
		printf("belay_comm_ranks{comm=\"%s\",path=\"%s\"} %d\n", comm->id,
		       belay_path_name(comm->path), comm->nranks);
		break;
	case 1:
		printf("belay_comm_rescued_seqs{comm=\"%s\"} %" PRIu64 "\n", comm->id,
		       comm->rescued_seqs);
		break;
	case 2:
		printf("belay_comm_breaker{comm=\"%s\"} %d\n", comm->id, (int)comm->breaker);
		break;
	default:
		printf("belay_comm_verdict{comm=\"%s\",cause=\"%s\",rank=\"%d\"} %d\n", comm->id,
		       comm->has_verdict ? cause : "none",
		       comm->has_verdict ? comm->verdict.rank : -1, comm->has_verdict);
		break;
	}
}

static void print_comm_metrics(const struct belay_process *process, int count)
{
	static const char *const heads[][3] = {
		{"belay_comm_ranks", "gauge", "Ranks of the communicator."},
		{"belay_comm_rescued_seqs", "counter", "Calls rescued."},
		{"belay_comm_breaker", "gauge", "0 closed, 1 open, 2 half-open."},
		{"belay_comm_verdict", "gauge", "1 when the communicator has its verdict."},
	};
	struct belay_process_comm comm = {.size = sizeof(comm)};

	for (int which = 0; which < 4; which++) {
		print_head(heads[which][0], heads[which][1], heads[which][2]);
		for (int i = 0; i < count; i++) {
			if (belay_process_comm(process, i, &comm) == 0)
				print_comm_metric(&comm, which);
		}
	}
}

static int print_prometheus(const struct belay_process *process, int count)
{
	for (size_t i = 0; i < sizeof(rank_metrics) / sizeof(rank_metrics[0]); i++)
		print_rank_metric(process, count, &rank_metrics[i]);
	print_comm_metrics(process, count);
	return 0;
}

int info_process(int pid, int format)
{
	struct belay_process *process;
	int status = belay_process_open(pid, &process);
	int count;

	if (status) {
		command_error("process %d: %s", pid, belay_last_error());
		return 1;
	}
	count = belay_process_comm_count(process);
	if (format == COMMAND_JSON)
		status = print_json(process, pid, count);
	else if (format == FORMAT_PROMETHEUS)
		status = print_prometheus(process, count);
	else
		status = print_text(process, count);
	if (count == 0) {
		command_error("process %d has no communicator", pid);
		status = 1;
	}
	belay_process_close(process);
	return status;
}
