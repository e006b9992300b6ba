/* SPDX-License-Identifier: Apache-2.0 */
/* See rank_group.h. */
#include "config.h"

#include "tests/support/rank_group.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)
#define CAP_MS	  30000
#define AWAIT_NS  (20000 * NS_PER_MS)

extern char **environ;

/* Shared by the test and its ranks; zeroed. */
struct board {
	_Atomic uint64_t words[RANK_WORDS];
	struct belay_unique_id ids[RANK_IDS];
	struct rank_report report[];
};

struct run {
	const struct rank_spec *spec;
	struct board *board;
	size_t board_bytes;
	pid_t pid[BELAY_RANKS_MAX];
	int nprocesses;
	int end; /* read end of a pipe that every process of the run holds open */
	uint64_t deadline_ns;
};

uint64_t rank_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 * NS_PER_MS + (uint64_t)now.tv_nsec;
}

bool rank_tests_long(void)
{
	const char *value = getenv("BELAY_TESTS_LONG");

	return value && strcmp(value, "1") == 0;
}

int rank_times(const char *variable, int in_long, int ordinary)
{
	const char *value = getenv(variable);

	if (value && atoi(value) > 0)
		return atoi(value);
	return rank_tests_long() ? in_long : ordinary;
}

int rank_open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	if (!folder)
		return -1;
	while (readdir(folder))
		count++;
	(void)closedir(folder);
	return count - 3;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
long rank_private_kib(void)
{
	return 0;
}
#else
long rank_private_kib(void)
{
	long all, resident = 0, shared = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file)
		return 0;
	if (fscanf(file, "%ld %ld %ld", &all, &resident, &shared) != 3)
		resident = shared = 0;
	(void)fclose(file);
	return (resident - shared) * (sysconf(_SC_PAGESIZE) / 1024);
}
#endif

/* ---- a rank's side --------------------------------------------------------------------------- */

void rank_complain(struct rank_seat *seat, const char *file, int line, const char *text, long got)
{
	struct rank_report *report = seat->report;

	if (report->complaint[0])
		return;
	(void)snprintf(report->complaint, sizeof(report->complaint), "%s:%d: %s, got %ld; %.200s",
		       file, line, text, got, report->message);
}

/* A condition of another rank, not a time, ends this; the nap only spares the core. */
bool rank_await(struct rank_seat *seat, int index, uint64_t value)
{
	uint64_t until = rank_now_ns() + AWAIT_NS;

	while (atomic_load_explicit(&seat->words[index], memory_order_acquire) < value) {
		if (rank_now_ns() >= until) {
			rank_complain(seat, __FILE__, __LINE__, "waited for another rank", index);
			return false;
		}
		(void)poll(NULL, 0, 1);
	}
	return true;
}

void rank_announce(struct rank_seat *seat, int index)
{
	(void)atomic_fetch_add_explicit(&seat->words[index], 1, memory_order_acq_rel);
}

static void take_message(void *user, enum belay_log_level level, const char *message)
{
	struct rank_seat *seat = user;

	pthread_mutex_lock(&seat->log_lock);
	seat->report->messages++;
	seat->report->left_nccl |= strstr(message, "gathering over NCCL failed") != NULL;
	if (!seat->report->told_at && strstr(message, "verdict "))
		seat->report->told_at = rank_now_ns();
	if (level == BELAY_LOG_ERROR)
		(void)snprintf(seat->report->message, sizeof(seat->report->message), "%s", message);
	pthread_mutex_unlock(&seat->log_lock);
}

/* The environment would come before the config: a rank has none of belay's, but for where NCCL is.
 */
static void forget_settings(void)
{
	static const char *const names[] = {
		"BELAY_LATE_MS",
		"BELAY_GRACE_MS",
		"BELAY_GIVE_UP_MS",
		"BELAY_WARMUP_GIVE_UP_MS",
		"BELAY_START_MS",
		"BELAY_DESTROY_MS",
		"BELAY_HEARTBEAT_MS",
		"BELAY_PATHS",
		"BELAY_SYMM_MAX",
		"BELAY_BREAKER",
		"BELAY_PROBE_MS",
		"BELAY_JOB",
		"BELAY_LOG",
		"BELAY_LOG_DIR",
		"BELAY_LOG_KEEP",
		"BELAY_TUNE",
		"BELAY_FAULT",
		"BELAY_BUFFER_MAX",
		"BELAY_DEVICE",
		/* The tests' own, which the library would warn of. */
		"BELAY_FAULT_KILLS",
		"BELAY_FAULT_TRIALS",
		"BELAY_SOAK_SECONDS",
		"BELAY_SEED",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unsetenv(names[i]);
}

static void sit_down(struct rank_seat *seat, const struct run *run, int rank)
{
	*seat = (struct rank_seat){
		.rank = rank,
		.nranks = run->spec->nranks,
		.plan = run->spec->plan,
		.report = &run->board->report[rank],
		.words = run->board->words,
		.ids = run->board->ids,
		.config = BELAY_CONFIG_INIT,
		.log_lock = PTHREAD_MUTEX_INITIALIZER,
	};
	seat->config.log = take_message;
	seat->config.log_user = seat;
	seat->config.late_ms = "5";
	seat->config.grace_ms = "1";
	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "20000";
	seat->config.start_ms = "20000";
	seat->config.destroy_ms = "5000";
	seat->config.symm_max = "64K";
	seat->config.buffer_max = "1M";
	seat->config.breaker = "1000/1s";
}

static void play(const struct run *run, int rank)
{
	struct rank_seat seat;

	sit_down(&seat, run, rank);
	run->spec->scenario(&seat);
	free(seat.memory);
	seat.report->ended = true;
}

struct thread_start {
	const struct run *run;
	int rank;
};

static void *play_in_thread(void *argument)
{
	struct thread_start *start = argument;

	play(start->run, start->rank);
	return NULL;
}

static void play_in_threads(const struct run *run)
{
	pthread_t threads[BELAY_RANKS_MAX];
	struct thread_start starts[BELAY_RANKS_MAX];

	for (int r = 0; r < run->spec->nranks; r++) {
		starts[r] = (struct thread_start){.run = run, .rank = r};
		if (pthread_create(&threads[r], NULL, play_in_thread, &starts[r]))
			_exit(3);
	}
	for (int r = 0; r < run->spec->nranks; r++)
		(void)pthread_join(threads[r], NULL);
}

static _Noreturn void be_a_process(const struct run *run, int index)
{
	int before;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The test's own handlers would end the test, not the rank. */
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGALRM, SIG_DFL);
	forget_settings();
	before = rank_open_descriptors();
	if (run->spec->threads)
		play_in_threads(run);
	else
		play(run, index);
	if (rank_open_descriptors() != before && !run->spec->gpu)
		_exit(4);
	_exit(0);
}

/* ---- the test's side ------------------------------------------------------------------------- */

static void use_one_core(void)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void start(struct run *run)
{
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	run->end = ends[0];
	for (int i = 0; i < run->nprocesses; i++) {
		run->pid[i] = fork();
		ck_assert_int_ge(run->pid[i], 0);
		if (run->pid[i] == 0) {
			(void)close(ends[0]);
			if (run->spec->one_core)
				use_one_core();
			be_a_process(run, i);
		}
	}
	(void)close(ends[1]);
}

static void kill_all(const struct run *run)
{
	for (int i = 0; i < run->nprocesses; i++)
		(void)kill(run->pid[i], SIGKILL);
}

/* As rank_await(): a word of the ranks ends this, or the cap. */
static void strike(const struct run *run, struct rank_group *group)
{
	const struct rank_blow *blow = &run->spec->blow;
	struct timespec rest = {.tv_sec = (time_t)(blow->after_ns / (1000 * NS_PER_MS)),
				.tv_nsec = (long)(blow->after_ns % (1000 * NS_PER_MS))};

	while (atomic_load_explicit(&run->board->words[RANK_BLOW], memory_order_acquire) <
	       blow->at) {
		if (rank_now_ns() >= run->deadline_ns)
			return;
		(void)poll(NULL, 0, 1);
	}
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
	group->blow_at = rank_now_ns();
	for (int i = 0; i < run->nprocesses; i++)
		if (blow->rank < 0 || blow->rank == i)
			(void)kill(run->pid[i], blow->signal);
}

/* True when every process of the run has closed the pipe; false when the cap was over first. */
static bool wait_for_end(const struct run *run)
{
	struct pollfd end = {.fd = run->end, .events = POLLIN};

	for (;;) {
		uint64_t now = rank_now_ns();

		if (now >= run->deadline_ns)
			return false;
		if (poll(&end, 1, (int)((run->deadline_ns - now) / NS_PER_MS) + 1) > 0)
			return true;
	}
}

static void reap(struct run *run, struct rank_group *group)
{
	for (int i = 0; i < run->nprocesses; i++) {
		int status = -1;

		while (waitpid(run->pid[i], &status, 0) < 0 && errno == EINTR)
			;
		for (int r = i; r < (run->spec->threads ? group->nranks : i + 1); r++)
			group->wait_status[r] = status;
	}
}

/* Orphans of the ranks are this process's children (subreaper); each must end by itself before the
 * cap. */
static bool no_process_is_left(const struct run *run)
{
	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return true;
		if (pid == 0 && rank_now_ns() >= run->deadline_ns)
			return false;
		if (pid == 0)
			(void)poll(NULL, 0, 1);
	}
}

static int files_in_dev_shm(void)
{
	DIR *folder = opendir("/dev/shm");
	const struct dirent *entry;
	int count = 0;

	if (!folder)
		return 0;
	while ((entry = readdir(folder)))
		count += strstr(entry->d_name, "belay") != NULL;
	(void)closedir(folder);
	return count;
}

static void describe_ranks(const struct rank_group *group, char *text, size_t size)
{
	size_t used = 0;

	text[0] = 0;
	for (int r = 0; r < group->nranks && used + 64 < size; r++) {
		const struct rank_report *report = &group->report[r];

		used += (size_t)snprintf(
			text + used, size - used,
			"\n  rank %d: wait status %#x, created %d, calls %llu, failed %d %s%s", r,
			(unsigned)group->wait_status[r], report->created,
			(unsigned long long)report->calls, report->failed,
			report->ended ? "" : "did not end; ", report->complaint);
	}
}

static void check_ranks(const struct rank_group *group)
{
	static char text[16384];
	bool good = true;

	for (int r = 0; r < group->nranks; r++) {
		int status = group->wait_status[r];

		good &= group->report[r].complaint[0] == 0;
		/* A rank that a test kills, or that exits on its own, is the test's to judge; 3 and
		 * 4 are ours. */
		good &= !WIFEXITED(status) ||
			(WEXITSTATUS(status) != 3 && WEXITSTATUS(status) != 4);
	}
	if (!good)
		describe_ranks(group, text, sizeof(text));
	ck_assert_msg(good, "ranks complain, or leak descriptors (exit 4):%s", text);
}

/* From the blow, or the last that is known of those who died, to the moment at which the last
 * survivor knew; where nobody died, how long the longest failed call took of those who are not to
 * blame. */
static uint64_t verdict_ns(const struct rank_group *group, int culprit)
{
	uint64_t died = group->blow_at, known = 0, longest = 0;

	for (int r = 0; r < group->nranks; r++) {
		const struct rank_report *report = &group->report[r];
		bool dead = group->wait_status[r] != 0;

		uint64_t knew = report->failed_at ? report->failed_at : report->told_at;

		if (dead && !group->blow_at && (!died || report->began_at < died))
			died = report->began_at;
		if (!dead && knew > known)
			known = knew;
		if (!dead && r != culprit && report->failed_ns > longest)
			longest = report->failed_ns;
	}
	return died && known > died ? known - died : longest;
}

/* The ranks whose word tells most of a run; NULL: there is none. */
struct witnesses {
	const struct rank_report *injected, *verdict, *refused, *failed, *rescued;
	bool killed; /* a signal ended one of them */
};

static void find_witnesses(const struct rank_group *group, struct witnesses *ret)
{
	*ret = (struct witnesses){0};
	for (int r = 0; r < group->nranks; r++) {
		const struct rank_report *report = &group->report[r];

		ret->killed |= WIFSIGNALED(group->wait_status[r]);
		if (report->injected[0])
			ret->injected = report;
		if (report->has_verdict)
			ret->verdict = report;
		if (report->created)
			ret->refused = report;
		if (report->failed)
			ret->failed = report;
		if (report->rescue_ns > (ret->rescued ? ret->rescued->rescue_ns : 0))
			ret->rescued = report;
	}
}

/* What the table of docs/faults.md says of the run. */
static void note_run(const struct rank_spec *spec, const struct rank_group *group)
{
	struct fault_result result = {.nranks = spec->nranks,
				      .one_core = spec->one_core,
				      .injected = spec->injected ? spec->injected : "",
				      .outcome = rank_group_alive(group) ? "complete" : "ended"};
	struct witnesses of;

	find_witnesses(group, &of);
	if (of.injected && !spec->injected)
		result.injected = of.injected->injected;
	if (of.killed && group->blow_at && spec->blow.rank < 0) {
		result.outcome = "ended";
		result.ns = group->end_at - group->blow_at;
	} else if (of.verdict) {
		result.outcome = belay_cause_name(of.verdict->verdict.cause);
		result.ns = verdict_ns(group, of.verdict->verdict.rank);
	} else if (of.refused) {
		result.outcome = belay_status_name(of.refused->created);
	} else if (of.failed) {
		result.outcome = belay_status_name(of.failed->failed);
		result.ns = verdict_ns(group, -1);
	} else if (of.rescued) {
		result.outcome = "rescued";
		result.ns = of.rescued->rescue_ns;
	}
	fault_results_add(&result);
}

static void prepare(struct run *run, const struct rank_spec *spec)
{
	size_t bytes = sizeof(struct board) + (size_t)spec->nranks * sizeof(struct rank_report);

	*run = (struct run){.spec = spec, .board_bytes = bytes};
	run->board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(run->board, MAP_FAILED);
	for (int i = 0; i < RANK_IDS; i++)
		ck_assert_int_eq(belay_unique_id_create(&run->board->ids[i]), 0);
	run->nprocesses = spec->threads ? 1 : spec->nranks;
	run->deadline_ns = rank_now_ns() + (spec->cap_ms ? spec->cap_ms : CAP_MS) * NS_PER_MS;
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

void rank_group_run(const struct rank_spec *spec, struct rank_group *ret_group)
{
	static char text[16384];
	struct run run;
	int descriptors = rank_open_descriptors(), files = files_in_dev_shm();
	bool in_time;

	prepare(&run, spec);
	*ret_group = (struct rank_group){.nranks = spec->nranks, .report = run.board->report};
	start(&run);
	if (spec->blow.signal)
		strike(&run, ret_group);
	in_time = wait_for_end(&run);
	if (!in_time)
		kill_all(&run);
	reap(&run, ret_group);
	ret_group->end_at = rank_now_ns();
	(void)close(run.end);
	note_run(spec, ret_group);
	if (!in_time)
		describe_ranks(ret_group, text, sizeof(text));
	ck_assert_msg(in_time, "the cap was over and all ranks were killed:%s", text);
	ck_assert_msg(no_process_is_left(&run), "a process is left");
	ck_assert_int_eq(rank_open_descriptors(), descriptors);
	ck_assert_int_eq(files_in_dev_shm(), files);
	check_ranks(ret_group);
}

uint64_t rank_group_alive(const struct rank_group *group)
{
	uint64_t alive = 0;

	for (int r = 0; r < group->nranks; r++)
		if (WIFEXITED(group->wait_status[r]) && WEXITSTATUS(group->wait_status[r]) == 0)
			alive |= UINT64_C(1) << r;
	return alive;
}
