/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fault_results.h. Check runs each test in a process of its own, which a failed assertion ends
 * at once: so the results lie in memory that it shares with the program, which writes them in the
 * end.
 */
#include "config.h"

#include "tests/support/fault_results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESULTS_MAX 8192

struct noted {
	char test[160], shows[80], injected[256], outcome[64];
	int nranks;
	bool one_core, passed;
	uint64_t ns;
};

static struct {
	char file[4096];
	pid_t owner; /* the program's process: it alone writes the file */
	const char *test;
	const char *shows; /* of the test that runs, in its process */
	unsigned first;	   /* of its results */
	struct {
		_Atomic unsigned used;
		struct noted noted[RESULTS_MAX];
	} * shared; /* NULL: not wanted */
} results;

__attribute__((constructor)) static void open_results(void)
{
	const char *file = getenv("BELAY_FAULT_RESULTS");
	void *memory;

	if (!file)
		return;
	(void)snprintf(results.file, sizeof(results.file), "%s", file);
	/* Or the library would warn of a setting that it does not know. */
	(void)unsetenv("BELAY_FAULT_RESULTS");
	memory = mmap(NULL, sizeof(*results.shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return;
	results.shared = memory;
	results.owner = getpid();
}

static unsigned used(void)
{
	unsigned count = atomic_load_explicit(&results.shared->used, memory_order_relaxed);

	return count < RESULTS_MAX ? count : RESULTS_MAX;
}

static void write_result(int fd, const char *program, const struct noted *noted)
{
	/* None of the texts has a quote or a backslash: names, and BELAY_FAULT's syntax. */
	(void)dprintf(
		fd,
		"{\"program\":\"%s\",\"test\":\"%s\",\"shows\":\"%s\",\"injected\":\"%s\","
		"\"ranks\":%d,\"one_core\":%s,\"outcome\":\"%s\",\"ns\":%llu,\"passed\":%s}\n",
		program, noted->test, noted->shows, noted->injected, noted->nranks,
		noted->one_core ? "true" : "false", noted->outcome, (unsigned long long)noted->ns,
		noted->passed ? "true" : "false");
}

__attribute__((destructor)) static void close_results(void)
{
	int fd;

	if (!results.shared || results.owner != getpid())
		return;
	fd = open(results.file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0) {
		perror(results.file);
		return;
	}
	for (unsigned i = 0; i < used(); i++)
		write_result(fd, program_invocation_short_name, &results.shared->noted[i]);
	(void)close(fd);
}

bool fault_results_wanted(void)
{
	return results.shared != NULL;
}

void fault_results_begin(const char *test, const char *shows)
{
	results.test = test;
	results.shows = shows;
	results.first = results.shared ? used() : 0;
}

void fault_results_add(const struct fault_result *result)
{
	struct noted *noted;
	unsigned place;

	if (!results.shared || !results.test)
		return;
	place = atomic_fetch_add_explicit(&results.shared->used, 1, memory_order_relaxed);
	if (place >= RESULTS_MAX)
		return;
	noted = &results.shared->noted[place];
	(void)snprintf(noted->test, sizeof(noted->test), "%s", results.test);
	(void)snprintf(noted->shows, sizeof(noted->shows), "%s", results.shows);
	(void)snprintf(noted->injected, sizeof(noted->injected), "%s", result->injected);
	(void)snprintf(noted->outcome, sizeof(noted->outcome), "%s", result->outcome);
	noted->nranks = result->nranks;
	noted->one_core = result->one_core;
	noted->ns = result->ns;
}

void fault_results_end(void)
{
	if (!results.shared)
		return;
	if (results.first == used())
		fault_results_add(
			&(struct fault_result){.injected = "", .outcome = "as it should"});
	for (unsigned i = results.first; i < used(); i++)
		results.shared->noted[i].passed = true;
}
