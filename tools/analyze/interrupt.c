/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "tools/analyze/interrupt.h"

/* An end that takes longer hangs in something: a pipe that nobody reads, a disk that does not
 * answer. */
#define GRACE_S 1

static volatile sig_atomic_t noted;

static void note(int number)
{
	noted = number;
	(void)alarm(GRACE_S);
}

static void force(int number)
{
	(void)number;
	interrupt_end();
}

void interrupt_begin(void)
{
	static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
	struct sigaction action = {.sa_handler = note,
				   .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
	struct sigaction before;

	(void)sigemptyset(&action.sa_mask);
	(void)signal(SIGALRM, force);
	/* None of these calls can fail for signals that exist. */
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		(void)sigaction(numbers[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			(void)sigaction(numbers[i], &action, NULL);
	}
}

int interrupt_requested(void)
{
	return noted;
}

void interrupt_end(void)
{
	if (!noted)
		return;
	(void)signal(noted, SIG_DFL);
	(void)raise(noted);
}
