/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/rank_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/command_line.h"

/* How often progress is looked at. */
#define LOOK_NS 200000000

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* fails only for a clock that does not exist */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fill_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGCHLD);
	sigaddset(ret_set, SIGHUP);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGQUIT);
	sigaddset(ret_set, SIGTERM);
}

/* Executes this program anew; by its path, so that tools show its name, else by the link to
 * itself. */
static void execute(char **arguments)
{
	static const char link[] = "/proc/self/exe";
	char path[4096];
	ssize_t length = readlink(link, path, sizeof(path) - 1);

	if (length > 0) {
		path[length] = '\0';
		execv(path, arguments);
	}
	execv(link, arguments);
}

/* In the child, before exec: tied to the parent, its signals as the parent found them. */
static _Noreturn void become_rank(int rank, int job_fd, pid_t parent, const sigset_t *mask)
{
	char name[64], argument[64];
	char *arguments[] = {name, argument, NULL};

	snprintf(name, sizeof(name), "%s", program_invocation_short_name);
	snprintf(argument, sizeof(argument), RANK_ARGUMENT "%d", rank);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(127);
	/* dup2() onto itself would keep close-on-exec. */
	if (job_fd == RANK_JOB_FD ? fcntl(job_fd, F_SETFD, 0) < 0 : dup2(job_fd, RANK_JOB_FD) < 0)
		_exit(127);
	(void)sigprocmask(SIG_SETMASK, mask, NULL); /* cannot fail with these arguments */
	execute(arguments);
	_exit(127);
}

static void reap(struct rank_process *process, int options)
{
	if (process->pid > 0 &&
	    waitpid(process->pid, &process->wait_status, options) == process->pid)
		process->pid = 0;
}

/* Kills and reaps what still runs. SIGKILL ends stopped processes too. */
static void kill_all(struct rank_processes *processes, int overdue)
{
	for (int rank = 0; rank < processes->count; rank++) {
		struct rank_process *process = &processes->rank[rank];

		reap(process, WNOHANG);
		if (process->pid > 0) {
			process->overdue = overdue;
			(void)kill(process->pid, SIGKILL); /* our own child, not yet reaped */
		}
	}
	for (int rank = 0; rank < processes->count; rank++)
		reap(&processes->rank[rank], 0);
}

int rank_processes_start(struct rank_processes *processes, int count, int job_fd)
{
	pid_t parent = getpid();
	sigset_t set;
	int error;

	memset(processes, 0, sizeof(*processes));
	fill_signals(&set);
	if (sigprocmask(SIG_BLOCK, &set, &processes->outer_mask))
		return -1;
	for (int rank = 0; rank < count; rank++) {
		pid_t pid = fork();

		if (pid == 0)
			become_rank(rank, job_fd, parent, &processes->outer_mask);
		if (pid < 0)
			goto fail;
		processes->rank[rank].pid = pid;
		processes->count = rank + 1;
	}
	return 0;
fail:
	error = errno;
	kill_all(processes, 0);
	(void)sigprocmask(SIG_SETMASK, &processes->outer_mask, NULL); /* as above */
	errno = error;
	return -1;
}

/* Reaps whoever has ended. Returns how many still run. */
static int count_running(struct rank_processes *processes, const struct rank_limits *limits)
{
	int running = 0;

	for (int rank = 0; rank < processes->count; rank++) {
		struct rank_process *process = &processes->rank[rank];

		if (process->pid == 0)
			continue;
		reap(process, WNOHANG);
		if (process->pid == 0)
			limits->ended(limits->user, rank);
		else
			running++;
	}
	return running;
}

int rank_processes_wait(struct rank_processes *processes, const struct rank_limits *limits)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};
	uint64_t progress = 0, progress_ns = now_ns();
	int running = processes->count;
	int number = 0;
	sigset_t set;

	fill_signals(&set);
	while (running > 0 && (number <= 0 || number == SIGCHLD)) {
		uint64_t limit = running < processes->count ? limits->grace_ns : limits->stall_ns;
		uint64_t progress_now = limits->progress(limits->user);
		int running_now = count_running(processes, limits);

		if (progress_now != progress || running_now != running) {
			progress = progress_now;
			running = running_now;
			progress_ns = now_ns();
			continue;
		}
		if (now_ns() - progress_ns > limit)
			break;
		number = sigtimedwait(&set, NULL, &look);
	}
	kill_all(processes, 1);
	(void)sigprocmask(SIG_SETMASK, &processes->outer_mask, NULL); /* as above */
	return number > 0 && number != SIGCHLD ? number : 0;
}

int rank_process_rank(int argc, char *const *argv)
{
	size_t length = strlen(RANK_ARGUMENT);
	uint64_t rank;

	if (argc != 2 || strncmp(argv[1], RANK_ARGUMENT, length) != 0)
		return -1;
	if (command_parse_number(argv[1] + length, &rank) || rank >= BELAY_RANKS_MAX)
		return -1;
	return (int)rank;
}

void end_by_signal(int number)
{
	sigset_t set;

	(void)fflush(stdout); /* the signal tells that the run is not complete */
	(void)signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	(void)raise(number);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}
