/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/support/meeting_ranks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/group/packet.h"
#include "runtime/group/shared_memory.h"

#define CONTROL_BYTES 65536
#define CHILD_SECONDS 60

struct rank_plan rank_plan(int rank, int nranks)
{
	static int serial;
	struct rank_plan plan = {.rank = rank,
				 .nranks = nranks,
				 .agree_text = "BELAY_LATE_MS=10\n",
				 .timeout_ms = 20000,
				 .region_bytes = 1 << 20,
				 .usable = 0xe};

	if (rank == 0)
		serial++;
	(void)snprintf(plan.meeting, sizeof(plan.meeting), "check-%d-%d", (int)getpid(), serial);
	plan.secret[3] = 77;
	return plan;
}

struct rank_report *reports_new(int count)
{
	void *memory = mmap(NULL, (size_t)count * sizeof(struct rank_report),
			    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int count_open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	if (!folder)
		return -1;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 3;
}

unsigned int descriptor_limit_for(int room)
{
	int fd = 0;

	for (; room > 0; fd++)
		room -= fcntl(fd, F_GETFD) < 0;
	return (unsigned int)fd;
}

static void close_members(struct group_members *members)
{
	packet_close(&members->control_fd);
	packet_close(&members->region_fd);
	for (int i = 0; i < BELAY_RANKS_MAX; i++) {
		packet_close(&members->pidfd[i]);
		packet_close(&members->link[i]);
	}
}

static int lacks_cloexec(int fd)
{
	return fd >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

/* Sends each peer this rank's number and reads theirs: every link must lead where it says. */
static int try_links(const struct rank_plan *plan, const struct group_members *members)
{
	int good = 0;

	for (int i = 0; i < plan->nranks; i++)
		if (i != plan->rank)
			(void)send(members->link[i], &plan->rank, sizeof(int), MSG_NOSIGNAL);
	for (int i = 0; i < plan->nranks; i++) {
		struct pollfd poll = {.fd = members->link[i], .events = POLLIN};
		int got = -1;

		if (i != plan->rank &&
		    packet_poll(&poll, 1, clock_now_ns() + UINT64_C(20000000000)) == 1 &&
		    recv(members->link[i], &got, sizeof(got), 0) == sizeof(got))
			good += got == i;
	}
	return good;
}

static int use_memory(const struct rank_plan *plan, const struct group_members *members,
		      struct cause_chain *causes)
{
	void *memory;
	int status = shared_memory_map(members->control_fd, CONTROL_BYTES, &memory, causes);

	if (status)
		return status;
	((char *)memory)[plan->rank] = 1;
	munmap(memory, CONTROL_BYTES);
	return 0;
}

static int go_through(const struct rank_plan *plan, struct rendezvous *meeting,
		      struct group_members *members, struct cause_chain *causes,
		      struct rank_report *report)
{
	char reason[40] = "";
	int status;

	if (plan->orphan && fork() == 0) {
		alarm(5);
		for (;;)
			pause();
	}
	if (plan->orphan)
		(void)raise(SIGKILL);
	if (plan->stop)
		(void)raise(SIGSTOP);
	status = use_memory(plan, members, causes);

	report->not_cloexec =
		lacks_cloexec(members->control_fd) + lacks_cloexec(members->region_fd);
	for (int i = 0; i < plan->nranks; i++)
		report->not_cloexec +=
			lacks_cloexec(members->pidfd[i]) + lacks_cloexec(members->link[i]);
	if (!plan->skip_links)
		report->links_tried = try_links(plan, members);
	report->region_fd_given = members->region_fd >= 0;
	report->generation = members->generation;
	memcpy(report->comm_id, members->comm_id, sizeof(report->comm_id));
	if (!status)
		status = rendezvous_barrier(meeting);
	if (plan->usable != 0xe)
		(void)snprintf(reason, sizeof(reason), "mask %u", plan->usable);
	if (!status)
		status = rendezvous_agree(meeting, plan->usable, reason, &report->usable,
					  report->reasons, sizeof(report->reasons));
	if (!status && plan->end_status) {
		status = -(int)plan->end_status;
		cause_add(causes, NULL, 0, -1, 0, "the test wants it so");
	}
	return rendezvous_end(meeting, status);
}

void rank_run(const struct rank_plan *plan, struct rank_report *report)
{
	struct cause_config config = {.level = BELAY_LOG_OFF, .rank = plan->rank};
	struct cause_chain *causes = cause_chain_create(&config);
	uint64_t begin_ns = clock_now_ns();
	int before = count_open_descriptors();
	struct faults faults = {0};
	struct group_members members;
	struct rendezvous *meeting;
	struct rendezvous_spec spec = {
		.meeting = plan->meeting,
		.rank = plan->rank,
		.nranks = plan->nranks,
		.agree_text = plan->agree_text,
		.control_bytes = CONTROL_BYTES,
		.region_bytes = plan->region_bytes,
		.region_stride = plan->region_bytes / 4,
		.region_reserved = 4096,
		.faults = &faults,
		.unfit = plan->unfit,
		.deadline_ns = begin_ns + plan->timeout_ms * 1000000,
	};

	memcpy(spec.secret, plan->secret, sizeof(spec.secret));
	report->status = plan->fault ? faults_parse(plan->fault, &faults, causes) : 0;
	if (plan->unfit)
		cause_add(causes, NULL, 0, -1, 0, "BELAY_LATE_MS is 'x'");
	if (!report->status)
		report->status = rendezvous_begin(&spec, &meeting, &members, causes);
	if (!report->status) {
		report->status = go_through(plan, meeting, &members, causes, report);
		close_members(&members);
	}
	report->elapsed_ms = (clock_now_ns() - begin_ns) / 1000000;
	(void)cause_text(causes, report->causes, sizeof(report->causes));
	report->leaked = count_open_descriptors() - before;
	report->done++;
	cause_chain_free(causes);
}

static void on_alarm(int signal_number)
{
	(void)signal_number;
}

/* A handler without SA_RESTART: every blocking call is interrupted. */
static void start_storm(void)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval every_ms = {.it_interval = {.tv_usec = 1000},
				     .it_value = {.tv_usec = 1000}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every_ms, NULL);
}

pid_t rank_start(const struct rank_plan *plan, struct rank_report *report)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (plan->storm)
		start_storm();
	else
		alarm(CHILD_SECONDS);
	if (plan->nofile) {
		struct rlimit limit = {.rlim_cur = plan->nofile, .rlim_max = plan->nofile};

		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (plan->fsize) {
		struct rlimit limit = {.rlim_cur = plan->fsize, .rlim_max = plan->fsize};

		setrlimit(RLIMIT_FSIZE, &limit);
	}
	do
		rank_run(plan, report);
	while (report->status == 0 && report->done < plan->runs);
	_exit(0);
}

int rank_wait(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

void ranks_run(const struct rank_plan *plans, struct rank_report *reports, int count)
{
	pid_t pids[BELAY_RANKS_MAX + 8];

	for (int i = 0; i < count; i++)
		pids[i] = rank_start(&plans[i], &reports[i]);
	for (int i = 0; i < count; i++)
		(void)rank_wait(pids[i]);
}
