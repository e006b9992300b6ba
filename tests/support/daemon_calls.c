/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_calls NUMBER TIMES: becomes a daemon as old ones do, by two forks without an exec, and has
 * it make so many calls on a communicator of its own; so many times. A tracer's threads do not
 * survive a fork: the calls must. Status 0 when each daemon has made all of them in time.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/belay.h"

#define ANSWER_MS_MAX 20000

static int make_calls(long number)
{
	struct belay_comm *comm;
	float x[64] = {1};
	int status = belay_comm_create_from_env(&comm, NULL);

	if (status != 0)
		return status;
	for (long i = 0; status == 0 && i < number; i++)
		status = belay_allreduce(x, x, 64, BELAY_F32, BELAY_SUM, comm, NULL);
	return belay_comm_destroy(comm) || status;
}

/* The second fork: the daemon is nobody's child. */
static void become_daemon(long number, int answer)
{
	char ok;

	if (setsid() < 0 || fork() != 0)
		_exit(0);
	ok = make_calls(number) == 0;
	_exit(write(answer, &ok, 1) != 1);
}

static int run_daemon(long number)
{
	struct pollfd answer = {.events = POLLIN};
	char ok = 0;
	int ends[2];
	pid_t pid;

	if (pipe(ends) != 0)
		return -1;
	pid = fork();
	if (pid == 0)
		become_daemon(number, ends[1]);
	close(ends[1]);
	answer.fd = ends[0];
	if (pid < 0 || waitpid(pid, NULL, 0) != pid || poll(&answer, 1, ANSWER_MS_MAX) != 1 ||
	    read(ends[0], &ok, 1) != 1)
		ok = 0;
	close(ends[0]);
	return ok ? 0 : -1;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: daemon_calls NUMBER TIMES\n");
		return 2;
	}
	for (long i = 0; i < strtol(argv[2], NULL, 10); i++) {
		if (run_daemon(strtol(argv[1], NULL, 10)) != 0) {
			fprintf(stderr, "daemon %ld did not make its calls\n", i);
			return 1;
		}
	}
	return 0;
}
