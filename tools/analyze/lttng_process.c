/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "tools/analyze/interrupt.h"
#include "tools/analyze/lttng_process.h"
#include "trace/call_record.h"

/* The reader sends something at least this often when it is not stuck. */
#define SILENCE_MS_MAX 15000
/* Large, so that the two processes seldom wait for each other. */
#define PIPE_BYTES   (1 << 20)
#define INBOX_BYTES  (256u * 1024)
#define FRAMES_BYTES (256u * 1024)
/* No message of libbabeltrace2 stands for less of the trace, and it gives a sign of life each so
 * many messages. */
#define MESSAGE_BYTES_MIN 4u
#define SIGNS_SPARE	  1024u
/* What a sound trace needs is a hundredth of it. */
#define DATA_BYTES_MAX ((rlim_t)2 << 30)

/* What has come through the pipe and has not been taken. */
struct inbox {
	size_t from, until;
	unsigned char bytes[INBOX_BYTES];
};

/* A sanitizer takes more memory than any trace. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

static void limit_resources(void)
{
	struct rlimit no_core = {0, 0};
#ifndef IS_SANITIZED
	struct rlimit data = {DATA_BYTES_MAX, DATA_BYTES_MAX};

	(void)setrlimit(RLIMIT_DATA, &data);
#endif
	/* A crash here is expected and harmless. */
	(void)setrlimit(RLIMIT_CORE, &no_core);
}

static void be_the_reader(const char *folder, enum lttng_reading reading, int out)
{
	static char buffer[FRAMES_BYTES];
	FILE *frames = fdopen(out, "wb");
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	limit_resources();
	/* The library may print what it thinks of the trace; the parent tells it in its own
	 * words. */
	if (null >= 0)
		(void)dup2(null, STDERR_FILENO);
	if (frames) {
		(void)setvbuf(frames, buffer, _IOFBF, sizeof(buffer));
		lttng_read_trace(folder, reading, frames);
	}
	_exit(0);
}

/* Returns 0 or -1 (errno tells). */
static int start(struct lttng_process *process, const char *folder, enum lttng_reading reading)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	(void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* a small one is only slower */
	fflush(NULL);
	process->pid = fork();
	if (process->pid == 0) {
		close(ends[0]);
		be_the_reader(folder, reading, ends[1]);
	}
	close(ends[1]);
	process->pipe = ends[0];
	if (process->pid > 0)
		return 0;
	close(ends[0]);
	return -1;
}

int lttng_process_start(struct lttng_process *process, const char *folder, uint64_t bytes,
			enum lttng_reading reading)
{
	struct inbox *inbox = calloc(1, sizeof(*inbox));

	if (!inbox)
		return BELAY_E_NO_MEMORY;
	if (start(process, folder, reading) != 0) {
		free(inbox);
		return BELAY_E_SYSTEM;
	}
	process->inbox = inbox;
	process->signs_left =
		bytes / MESSAGE_BYTES_MIN / LTTNG_MESSAGES_BETWEEN_SIGNS + SIGNS_SPARE;
	return 0;
}

/* Receiving ------------------------------------------------------------------------------------ */

static enum lttng_receipt await(const struct lttng_process *process)
{
	struct pollfd ready = {.fd = process->pipe, .events = POLLIN};
	int n;

	do
		n = poll(&ready, 1, SILENCE_MS_MAX);
	while (n < 0 && errno == EINTR && !interrupt_requested());
	if (interrupt_requested())
		return LTTNG_ABORTED;
	return n > 0 ? LTTNG_RECEIVED : LTTNG_STUCK;
}

static enum lttng_receipt refill(const struct lttng_process *process)
{
	struct inbox *inbox = process->inbox;
	enum lttng_receipt receipt;
	ssize_t got;

	memmove(inbox->bytes, inbox->bytes + inbox->from, inbox->until - inbox->from);
	inbox->until -= inbox->from;
	inbox->from = 0;
	receipt = await(process);
	if (receipt != LTTNG_RECEIVED)
		return receipt;
	do
		got = read(process->pipe, inbox->bytes + inbox->until, INBOX_BYTES - inbox->until);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return LTTNG_CUT_SHORT;
	inbox->until += (size_t)got;
	return LTTNG_RECEIVED;
}

static enum lttng_receipt receive(const struct lttng_process *process, void *ret_bytes, size_t size)
{
	struct inbox *inbox = process->inbox;
	enum lttng_receipt receipt = LTTNG_RECEIVED;

	while (receipt == LTTNG_RECEIVED && inbox->until - inbox->from < size)
		receipt = refill(process);
	if (receipt != LTTNG_RECEIVED)
		return receipt;
	memcpy(ret_bytes, inbox->bytes + inbox->from, size);
	inbox->from += size;
	return LTTNG_RECEIVED;
}

static int is_sane(const struct lttng_frame *frame)
{
	if (frame->bytes > LTTNG_FRAME_BYTES_MAX)
		return 0;
	if (frame->kind != LTTNG_FRAME_CALL && frame->kind != LTTNG_FRAME_EVENT)
		return 1;
	if (frame->nranks > BELAY_RANKS_MAX || frame->rank >= frame->nranks)
		return 0;
	return frame->bytes == (frame->kind == LTTNG_FRAME_CALL ? call_record_stride(frame->nranks)
								: sizeof(struct event_record));
}

enum lttng_receipt lttng_process_receive(struct lttng_process *process,
					 struct lttng_frame *ret_frame, void *ret_payload)
{
	enum lttng_receipt receipt = receive(process, ret_frame, sizeof(*ret_frame));

	if (receipt == LTTNG_RECEIVED && !is_sane(ret_frame))
		return LTTNG_CUT_SHORT;
	if (receipt == LTTNG_RECEIVED)
		receipt = receive(process, ret_payload, ret_frame->bytes);
	if (receipt == LTTNG_RECEIVED && ret_frame->kind == LTTNG_FRAME_ALIVE &&
	    process->signs_left-- == 0)
		return LTTNG_STUCK;
	return receipt;
}

int lttng_process_end(struct lttng_process *process)
{
	int status = 0;

	(void)kill(process->pid, SIGKILL); /* it has ended, or is not wanted any more */
	while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(process->pipe);
	free(process->inbox);
	process->inbox = NULL;
	return WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL ? WTERMSIG(status) : 0;
}
