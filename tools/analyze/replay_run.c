/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/analyze/compare.h"
#include "tools/analyze/interrupt.h"
#include "tools/analyze/print_text.h"
#include "tools/analyze/replay_run.h"
#include "tools/analyze/replay_script.h"

/* How often a run is looked at. */
#define BENCH_NOT_RUN	    127 /* of the process that should have become belay-bench */
#define NOT_ON_THIS_MACHINE 77	/* as belay-bench says of a backend */
#define LOOK_NS		    50000000
/* A deadlock of the replay ends in a verdict so soon, unless the recording knows longer calls. */
#define GIVE_UP_MS UINT64_C(30000)

struct replay {
	const struct replay_request *request;
	char folder[PATH_MAX]; /* of scripts, and of logs when nobody wants to keep them */
	char log_dir[PATH_MAX];
	struct replay_scripts scripts;
	struct compare_side recorded, replayed;
	size_t made; /* scripts that belay-bench has run */
};

/* Folders ------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
	(void)about;
	(void)kind;
	(void)place;
	(void)remove(path); /* what stays is no harm to the result */
	return 0;
}

static int make_folder(struct replay *replay)
{
	const char *base = getenv("TMPDIR");
	int length = snprintf(replay->folder, sizeof(replay->folder), "%s/belay-replay.XXXXXX",
			      base && *base ? base : "/tmp");

	if (length < (int)sizeof(replay->folder) - 64 && mkdtemp(replay->folder))
		return 0;
	command_error("cannot make a folder in TMPDIR: %s", strerror(errno));
	replay->folder[0] = '\0';
	return -1;
}

/* The log is compared as a whole: nothing else may stand there. */
static int is_empty(const char *path)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	int others = 0;

	if (!folder)
		return errno == ENOENT;
	while ((entry = readdir(folder)) != NULL)
		others += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	(void)closedir(folder); /* only read */
	return !others;
}

static int choose_log_dir(struct replay *replay)
{
	const char *wanted = replay->request->log_dir;

	if (!wanted) {
		(void)snprintf(replay->log_dir, sizeof(replay->log_dir), "%.*s/logs",
			       (int)sizeof(replay->log_dir) - 8, replay->folder);
		return 0;
	}
	(void)snprintf(replay->log_dir, sizeof(replay->log_dir), "%s", wanted);
	return is_empty(wanted) ? 0
				: command_complain("--log-dir '%s': expected an empty folder, or "
						   "the name of a new one",
						   wanted);
}

/* Scripts ------------------------------------------------------------------------------------- */

/* The recording is read once, for the scripts and for the comparison: two commands in one, each
 * with a state of its own. */
static int comm_begin(struct output *output)
{
	struct replay *replay = output->state;
	int status;

	output->state = &replay->scripts;
	status = replay_script_ops.comm_begin(output);
	output->state = &replay->recorded;
	if (status == 0)
		status = compare_ops.comm_begin(output);
	output->state = replay;
	return status;
}

static int take_row(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	struct replay *replay = output->state;
	int status;

	output->state = &replay->scripts;
	status = replay_script_ops.row(output, row, facts);
	output->state = &replay->recorded;
	/* What is left out of the replay is not compared with it. */
	if (status == 0 && !(facts->any->flags & CALL_WATCHED))
		status = compare_ops.row(output, row, facts);
	output->state = replay;
	return status;
}

static int take_pass(struct output *output, const struct pass_facts *pass)
{
	struct replay *replay = output->state;
	int status;

	output->state = &replay->recorded;
	status = compare_ops.pass(output, pass);
	output->state = replay;
	return status;
}

static int comm_end(struct output *output)
{
	struct replay *replay = output->state;
	int status;

	output->state = &replay->scripts;
	status = replay_script_ops.comm_end(output);
	output->state = &replay->recorded;
	if (status == 0)
		status = compare_ops.comm_end(output);
	output->state = replay;
	return status;
}

static void end(struct output *output, const struct inputs *inputs)
{
	struct replay *replay = output->state;

	output->state = &replay->recorded;
	compare_ops.end(output, inputs);
	output->state = replay;
}

static void close_all(struct output *output)
{
	struct replay *replay = output->state;

	output->state = &replay->scripts;
	replay_script_ops.close(output);
	output->state = replay;
}

static const struct command_ops both_ops = {
	.name = "replay",
	.comm_begin = comm_begin,
	.row = take_row,
	.pass = take_pass,
	.comm_end = comm_end,
	.end = end,
	.close = close_all,
};

static int read_recording(struct replay *replay, struct inputs *inputs, struct output *output,
			  struct findings *ret_findings)
{
	const char *paths = replay->request->paths;
	int status;

	replay->scripts.folder = replay->folder;
	replay->scripts.at_full_speed = replay->request->at_full_speed;
	/* Only the host path has them. */
	replay->scripts.region_buffers = !paths || strstr(paths, "host") != NULL;
	output->ops = &both_ops;
	output->state = replay;
	output->filtered = 1;
	status = driver_run(inputs, output, ret_findings);
	output->filtered = 0; /* the replay's numbers are its own */
	output->state = NULL;
	if (replay->scripts.failed_errno)
		command_error("cannot write '%s': %s", replay->folder,
			      strerror(replay->scripts.failed_errno));
	return status;
}

/* Running belay-bench -------------------------------------------------------------------------- */

/* Beside this program, else wherever PATH says. */
static void find_bench(char *ret_path, size_t size)
{
	ssize_t length = readlink("/proc/self/exe", ret_path, size - sizeof("/belay-bench"));
	char *slash;

	ret_path[length > 0 ? length : 0] = '\0';
	slash = strrchr(ret_path, '/');
	if (slash)
		(void)strcpy(slash, "/belay-bench");
	if (!slash || access(ret_path, X_OK) != 0)
		(void)strcpy(ret_path, "belay-bench");
}

/* In the child. What the user has set stays. */
static void set_deadlines(const struct replay_script *script)
{
	uint64_t longest_ms = 2 * script->longest_ns / 1000000u;
	char text[32];

	(void)snprintf(text, sizeof(text), "%" PRIu64,
		       longest_ms > GIVE_UP_MS ? longest_ms : GIVE_UP_MS);
	if (setenv("BELAY_WARMUP_GIVE_UP_MS", text, 0) || setenv("BELAY_GIVE_UP_MS", text, 0))
		_exit(BENCH_NOT_RUN);
}

static _Noreturn void become_bench(const struct replay *replay, const struct replay_script *script,
				   pid_t parent)
{
	const struct replay_request *request = replay->request;
	char program[PATH_MAX], script_option[PATH_MAX + 16], log_option[PATH_MAX + 16];
	char backend_option[64], paths_option[256];
	char *arguments[8] = {program, script_option, log_option, backend_option};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	find_bench(program, sizeof(program));
	(void)snprintf(script_option, sizeof(script_option), "--script=%s", script->path);
	(void)snprintf(log_option, sizeof(log_option), "--log-dir=%s", replay->log_dir);
	(void)snprintf(backend_option, sizeof(backend_option), "--backend=%s",
		       request->backend ? request->backend : "auto");
	(void)snprintf(paths_option, sizeof(paths_option), "--paths=%s",
		       request->paths ? request->paths : "");
	if (request->paths)
		arguments[4] = paths_option;
	set_deadlines(script);
	/* It ends its ranks before itself. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent || null < 0 ||
	    dup2(null, STDOUT_FILENO) < 0)
		_exit(BENCH_NOT_RUN);
	(void)execvp(program, arguments);
	_exit(BENCH_NOT_RUN);
}

/* Returns as waitpid() tells it; -1: a signal asked for the end. */
static int wait_for_bench(pid_t pid)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};
	int wait_status = 0, interrupted = 0;

	while (waitpid(pid, &wait_status, WNOHANG) == 0) {
		if (interrupt_requested() && !interrupted) {
			interrupted = 1;
			(void)kill(pid, SIGTERM); /* our own child, not yet reaped */
		}
		(void)nanosleep(&look, NULL); /* too short a sleep does no harm */
	}
	return interrupted ? -1 : wait_status;
}

/* Returns 0, BELAY_E_ABORTED or BELAY_E_SYSTEM; *ret_exit is belay-bench's exit status. */
static int run_bench(const struct replay *replay, const struct replay_script *script, int *ret_exit)
{
	pid_t parent = getpid(), pid;
	int wait_status;

	(void)fflush(NULL); /* so that the child has nothing to write again */
	pid = fork();
	if (pid == 0)
		become_bench(replay, script, parent);
	if (pid < 0) {
		command_error("cannot start belay-bench: %s", strerror(errno));
		return BELAY_E_SYSTEM;
	}
	wait_status = wait_for_bench(pid);
	if (wait_status < 0)
		return BELAY_E_ABORTED;
	*ret_exit = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;
	if (*ret_exit == BENCH_NOT_RUN) {
		command_error("cannot run belay-bench: it is neither beside this program nor in "
			      "PATH");
		*ret_exit = NOT_ON_THIS_MACHINE;
	}
	return 0;
}

static int has_calls(const struct replay *replay)
{
	const struct replay_script *scripts = replay->scripts.scripts.items;

	for (size_t i = 0; i < replay->scripts.scripts.count; i++) {
		if (scripts[i].calls)
			return 1;
	}
	return 0;
}

/* All scripts with calls, one after the other; the first that cannot be made ends it. */
static int run_scripts(struct replay *replay, int *ret_exit)
{
	const struct replay_script *scripts = replay->scripts.scripts.items;
	int status = 0;

	for (size_t i = 0; status == 0 && i < replay->scripts.scripts.count; i++) {
		int exit_status = 0;

		if (scripts[i].calls)
			status = run_bench(replay, &scripts[i], &exit_status);
		/* 1 is a verdict or the like: its log tells more. */
		if (exit_status > 1) {
			*ret_exit = exit_status;
			break;
		}
		replay->made = i + 1;
	}
	return status;
}

/* The table -------------------------------------------------------------------------------------
 */

static int read_replay(struct replay *replay, struct progress *progress, struct output *output,
		       struct findings *findings)
{
	struct inputs inputs = {.progress = progress};
	char *const folder[] = {replay->log_dir};
	int status = driver_read(&inputs, folder, 1);

	if (status == 0)
		status = compare_read(&inputs, output, &replay->replayed, findings);
	inputs_free(&inputs);
	return status;
}

static const struct compare_comm *recorded_of(const struct replay *replay, const char *id)
{
	struct compare_comm **comms = replay->recorded.comms.items;

	for (size_t i = 0; i < replay->recorded.comms.count; i++) {
		if (strcmp(comms[i]->id, id) == 0)
			return comms[i];
	}
	return NULL;
}

/* The n-th replayed communicator is the n-th script's that has calls: they ran one by one. */
static int pair_up(const struct replay *replay, struct vector *pairs)
{
	const struct replay_script *scripts = replay->scripts.scripts.items;
	struct compare_comm **replayed = replay->replayed.comms.items;
	size_t n = 0;

	for (size_t i = 0; i < replay->made; i++) {
		struct compare_pair *pair;

		if (!scripts[i].calls || n == replay->replayed.comms.count)
			continue;
		pair = vector_add(pairs, sizeof(*pair));
		if (!pair)
			return BELAY_E_NO_MEMORY;
		*pair = (struct compare_pair){recorded_of(replay, scripts[i].id), replayed[n++]};
	}
	return 0;
}

static void print_count(FILE *file, uint64_t n, const char *what)
{
	if (n)
		fprintf(file, "  %s: %" PRIu64 "\n", what, n);
}

static void print_heading(const struct output *output, const struct replay_script *script)
{
	text_bold(output);
	if (script->calls)
		fprintf(output->file,
			"replayed communicator %s: %" PRIu32 " ranks, %" PRIu64 " calls, %" PRIu64
			" pass%s\n",
			script->id, script->nranks, script->calls, script->passes,
			script->passes == 1 ? "" : "es");
	else
		fprintf(output->file,
			"communicator %s: no call is as the options want it and can be made "
			"again\n",
			script->id);
	text_plain(output);
}

/* What is not as it was recorded. */
static void print_script(const struct output *output, const struct replay_script *script)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	FILE *file = output->file;

	print_heading(output, script);
	print_count(file, script->left_out, "calls that no rank recorded, left out");
	print_count(file, script->watched, "calls made on NCCL by the program, left out");
	print_count(file, script->gaps_made, "records missing, their times made from the others'");
	print_count(file, script->rescued, "rescued calls, made as ordinary ones");
	print_count(file, script->from_graphs, "calls from graphs, made one by one");
	print_count(file, script->pauses_shortened, "pauses of all ranks, shortened to 10 s");
	if (script->failed_seq)
		fprintf(file, "  it ends before seq %" PRIu64 ", which failed\n",
			script->failed_seq);
	if (script->refused)
		fprintf(file, "  it ends before seq %" PRIu64 ": %s\n", script->refused_seq,
			script->refused);
	if (script->calls && processors > 0 && script->nranks > processors)
		fprintf(file,
			"  %" PRIu32 " ranks on %ld processors: times are not those of a "
			"machine with more\n",
			script->nranks, processors);
}

static json_t *script_json(const struct replay_script *script)
{
	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:s?,s:I}", "id", script->id,
			 "calls", (json_int_t)script->calls, "passes", (json_int_t)script->passes,
			 "calls_left_out", (json_int_t)script->left_out, "calls_watched",
			 (json_int_t)script->watched, "records_made", (json_int_t)script->gaps_made,
			 "rescued", (json_int_t)script->rescued, "from_graphs",
			 (json_int_t)script->from_graphs, "pauses_shortened",
			 (json_int_t)script->pauses_shortened, "failed_seq",
			 (json_int_t)script->failed_seq, "refused", script->refused, "refused_seq",
			 (json_int_t)script->refused_seq);
}

static json_t *scripts_json(const struct replay *replay)
{
	const struct replay_script *scripts = replay->scripts.scripts.items;
	json_t *list = json_array();

	for (size_t i = 0; i < replay->made; i++)
		(void)json_array_append_new(list, script_json(&scripts[i]));
	return json_pack("{s:o,s:s}", "replay", list, "speed",
			 replay->request->at_full_speed ? "max" : "recorded");
}

static int print(const struct replay *replay, const struct output *output,
		 const struct vector *pairs)
{
	const struct replay_script *scripts = replay->scripts.scripts.items;
	json_t *more;

	if (output->format == COMMAND_JSON) {
		more = scripts_json(replay);
		return more ? compare_json(output, &replay->recorded, &replay->replayed, pairs,
					   more)
			    : BELAY_E_NO_MEMORY;
	}
	for (size_t i = 0; i < replay->made; i++)
		print_script(output, &scripts[i]);
	if (has_calls(replay))
		compare_text(output, &replay->recorded, &replay->replayed, pairs, 1);
	else
		compare_damages_text(output, &replay->recorded);
	return 0;
}

static int compare(struct replay *replay, struct progress *progress, struct output *output,
		   struct findings *findings)
{
	struct vector pairs = {0};
	int status = 0;

	/* Without a call there is no log. */
	if (has_calls(replay))
		status = read_replay(replay, progress, output, findings);
	if (status == 0)
		status = pair_up(replay, &pairs);
	if (status == 0)
		status = print(replay, output, &pairs);
	vector_free(&pairs);
	return status;
}

int replay_run(const struct replay_request *request, struct inputs *inputs, struct output *output,
	       struct findings *ret_findings, int *ret_exit)
{
	struct replay replay = {.request = request,
				.recorded.name = "the recording",
				.replayed.name = "the replay"};
	int status = 0;

	*ret_exit = make_folder(&replay) ? COMMAND_NOT_WRITTEN : choose_log_dir(&replay);
	if (*ret_exit)
		goto out;
	status = read_recording(&replay, inputs, output, ret_findings);
	if (status == 0)
		status = run_scripts(&replay, ret_exit);
	if (status == 0 && *ret_exit == 0)
		status = compare(&replay, inputs->progress, output, ret_findings);
out:
	if (replay.folder[0])
		(void)nftw(replay.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	compare_side_free(&replay.recorded);
	compare_side_free(&replay.replayed);
	replay_scripts_free(&replay.scripts);
	return status;
}
