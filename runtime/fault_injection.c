/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injection: the parser of BELAY_FAULT, the pure question "is a fault due here", and the
 * faults that act on the process itself.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/fault_injection.h"
#include "runtime/number_text.h"

#define NS_PER_S     1000000000u
#define SPIN_NS_MAX  200000u /* below this a sleep is too coarse */
#define FAULT_NS_MAX (86400ull * NS_PER_S)
#define RANK_EVERY   (-1)

/* What a kind's value looks like and what this build makes of it. */
enum kind_flag {
	KIND_TIMED = 1,	  /* NAME:MS */
	KIND_PROCESS = 2, /* carried out by fault_act() */
	KIND_ABSENT = 4	  /* belongs to a path that this build does not have */
};
#ifdef HAVE_NCCL
#define KIND_NCCL 0
#else
#define KIND_NCCL KIND_ABSENT
#endif
#ifdef HAVE_CUDA
#define KIND_CUDA 0
#else
#define KIND_CUDA KIND_ABSENT
#endif

static const struct kind {
	const char *name;
	enum fault_point at; /* when `at=` is not given */
	unsigned flags;
} kinds[] = {
	/* clang-format off */
	[FAULT_NONE]        = { "none",        0,                  0 },
	[FAULT_DROP]        = { "drop",        FAULT_AT_PUSH,      0 },
	[FAULT_DELAY]       = { "delay",       FAULT_AT_STAGE,     KIND_TIMED | KIND_PROCESS },
	[FAULT_KILL]        = { "kill",        FAULT_AT_STAGE,     KIND_PROCESS },
	[FAULT_STOP]        = { "stop",        FAULT_AT_STAGE,     KIND_TIMED | KIND_PROCESS },
	[FAULT_CORRUPT]     = { "corrupt",     FAULT_AT_PUSH,      0 },
	[FAULT_FLAG]        = { "flag",        FAULT_AT_STAGE,     0 },
	[FAULT_SKIP]        = { "skip",        FAULT_AT_STAGE,     0 },
	[FAULT_EXTRA]       = { "extra",       FAULT_AT_STAGE,     0 },
	[FAULT_SWAP]        = { "swap",        FAULT_AT_STAGE,     0 },
	[FAULT_COUNT]       = { "count",       FAULT_AT_STAGE,     0 },
	[FAULT_DTYPE]       = { "dtype",       FAULT_AT_STAGE,     0 },
	[FAULT_OP]          = { "op",          FAULT_AT_STAGE,     0 },
	[FAULT_MAP_FAIL]    = { "map-fail",    FAULT_AT_HANDSHAKE, 0 },
	[FAULT_SELFTEST]    = { "selftest",    FAULT_AT_HANDSHAKE, 0 },
	[FAULT_NCCL_ERROR]  = { "nccl-error",  FAULT_AT_STAGE,     KIND_NCCL },
	[FAULT_NCCL_HANG]   = { "nccl-hang",   FAULT_AT_STAGE,     KIND_NCCL },
	[FAULT_CUDA_STICKY] = { "cuda-sticky", FAULT_AT_STAGE,     KIND_CUDA },
	[FAULT_STARVE]      = { "starve",      FAULT_AT_STAGE,     KIND_TIMED },
	[FAULT_SLOW_PUSH]   = { "slow-push",   FAULT_AT_HANDSHAKE, 0 },
	/* clang-format on */
};

static const char *const points[] = {
	[FAULT_AT_HANDSHAKE] = "handshake", [FAULT_AT_STAGE] = "stage",
	[FAULT_AT_PUSH] = "push",	    [FAULT_AT_WAIT] = "wait",
	[FAULT_AT_REDUCE] = "reduce",	    [FAULT_AT_RESCUE] = "rescue",
	[FAULT_AT_VERDICT] = "verdict",	    [FAULT_AT_DESTROY] = "destroy",
};

#define KINDS  ((int)(sizeof(kinds) / sizeof(kinds[0])))
#define POINTS ((int)(sizeof(points) / sizeof(points[0])))
#define KIND_NAMES                                                                                 \
	"drop, delay:MS, kill, stop:MS, corrupt, flag, skip, extra, swap, count, dtype, op, "      \
	"map-fail, "                                                                               \
	"selftest, nccl-error, nccl-hang, cuda-sticky, starve:MS or slow-push"
#define POINT_NAMES "handshake, stage, push, wait, reduce, rescue, verdict or destroy"

const char *fault_kind_name(enum fault_kind kind)
{
	return (int)kind >= 0 && (int)kind < KINDS ? kinds[kind].name : "unknown";
}

const char *fault_point_name(enum fault_point at)
{
	return (int)at > 0 && (int)at < POINTS ? points[at] : "unknown";
}

/* A stretch of the text that is being parsed. */
struct span {
	const char *at;
	size_t length;
};

static int span_is(struct span span, const char *text)
{
	return strlen(text) == span.length && memcmp(span.at, text, span.length) == 0;
}

/* Cuts off and returns what stands before `separator`, or all; `ret_found` says whether there was
 * one. */
static struct span span_cut(struct span *rest, char separator, int *ret_found)
{
	const char *end = rest->length ? memchr(rest->at, separator, rest->length) : NULL;
	struct span head = {rest->at, end ? (size_t)(end - rest->at) : rest->length};
	size_t used = head.length + (end ? 1 : 0);

	rest->at += used;
	rest->length -= used;
	*ret_found = end != NULL;
	return head;
}

static int complain(struct cause_chain *causes, struct span bad, const char *expected)
{
	int length = bad.length > 80 ? 80 : (int)bad.length;

	cause_add(causes, NULL, 0, -1, 0, "BELAY_FAULT: '%.*s%s': expected %s", length, bad.at,
		  bad.length > 80 ? "..." : "", expected);
	return BELAY_E_SETTING;
}

static int parse_rank(struct span value, struct fault *fault)
{
	uint64_t rank;

	if (span_is(value, "*")) {
		fault->rank = RANK_EVERY;
		return 0;
	}
	if (number_parse(value.at, value.length, &rank) || rank >= BELAY_RANKS_MAX)
		return -1;
	fault->rank = (int)rank;
	return 0;
}

static int parse_seq(struct span value, struct fault *fault)
{
	uint64_t part[3];
	int nparts = 0, more = 1;

	if (span_is(value, "*")) {
		fault->first = 0;
		fault->last = UINT64_MAX;
		fault->step = 1;
		return 0;
	}
	while (more) {
		struct span number = span_cut(&value, ':', &more);

		if (nparts == 3 || number_parse(number.at, number.length, &part[nparts++]))
			return -1;
	}
	fault->first = part[0];
	fault->last = nparts > 1 ? part[1] : part[0];
	fault->step = nparts > 2 ? part[2] : 1;
	return fault->first <= fault->last && fault->step ? 0 : -1;
}

static int parse_kind(struct span value, struct fault *fault)
{
	int timed;
	struct span name = span_cut(&value, ':', &timed);

	for (int i = FAULT_NONE + 1; i < KINDS; i++) {
		if (!span_is(name, kinds[i].name))
			continue;
		fault->kind = (enum fault_kind)i;
		if (timed != !!(kinds[i].flags & KIND_TIMED))
			return -1;
		return timed ? number_parse_ms(value.at, value.length, FAULT_NS_MAX, &fault->ns)
			     : 0;
	}
	return -1;
}

static int parse_at(struct span value, struct fault *fault)
{
	for (int i = FAULT_AT_HANDSHAKE; i < POINTS; i++) {
		if (span_is(value, points[i])) {
			fault->at = (enum fault_point)i;
			return 0;
		}
	}
	return -1;
}

static const struct key {
	const char *name;
	int (*parse)(struct span value, struct fault *fault);
	const char *expected;
} keys[] = {
	{"rank", parse_rank, "rank=N with N from 0 to 63, or rank=*"},
	{"seq", parse_seq,
	 "seq=A, seq=A:B, seq=A:B:STEP or seq=* with A at most B and STEP at least 1"},
	{"kind", parse_kind, "kind= one of " KIND_NAMES " (MS: milliseconds up to 86400000)"},
	{"at", parse_at, "at= one of " POINT_NAMES},
};

#define KEYS ((int)(sizeof(keys) / sizeof(keys[0])))

/* One KEY=VALUE; `seen` has a bit for each key that came before. */
static int parse_pair(struct span pair, struct fault *fault, unsigned *seen,
		      struct cause_chain *causes)
{
	struct span value = pair;
	int has_value;
	struct span name = span_cut(&value, '=', &has_value);

	for (int i = 0; i < KEYS; i++) {
		if (!has_value || !span_is(name, keys[i].name))
			continue;
		if (*seen & 1u << i)
			return complain(causes, pair,
					"each of rank, seq, kind and at only once in a fault");
		*seen |= 1u << i;
		return keys[i].parse(value, fault) ? complain(causes, pair, keys[i].expected) : 0;
	}
	return complain(causes, pair,
			"rank=, seq=, kind= or at=, separated by commas; faults by ';'");
}

static int parse_fault(struct span text, struct fault *ret_fault, struct cause_chain *causes)
{
	struct fault fault = {.rank = RANK_EVERY, .last = UINT64_MAX, .step = 1};
	struct span rest = text;
	unsigned seen = 0;
	int more = 1;

	while (more) {
		int status = parse_pair(span_cut(&rest, ',', &more), &fault, &seen, causes);

		if (status)
			return status;
	}
	if (fault.kind == FAULT_NONE || !(seen & 1u))
		return complain(causes, text, "at least rank= and kind=");
	if (!fault.at)
		fault.at = kinds[fault.kind].at;
	if (kinds[fault.kind].flags & KIND_ABSENT)
		cause_message(
			causes, BELAY_LOG_WARN, kinds[fault.kind].name,
			"BELAY_FAULT: kind=%s has no effect: no path of this build can show it",
			kinds[fault.kind].name);
	*ret_fault = fault;
	return 0;
}

int faults_parse(const char *text, struct faults *ret_faults, struct cause_chain *causes)
{
	struct span rest = {text, strlen(text)};
	struct faults faults = {0};
	int more = rest.length != 0;

	while (more) {
		struct span part = span_cut(&rest, ';', &more);
		int status;

		if (faults.count == FAULTS_MAX)
			return complain(causes, part, "at most 16 faults");
		status = parse_fault(part, &faults.list[faults.count], causes);
		if (status)
			return status;
		faults.count++;
	}
	*ret_faults = faults;
	return 0;
}

static int fault_matches(const struct fault *fault, int rank, uint64_t seq, enum fault_point at)
{
	return fault->at == at && (fault->rank == RANK_EVERY || fault->rank == rank) &&
	       seq >= fault->first && seq <= fault->last && (seq - fault->first) % fault->step == 0;
}

/* The fault that fault_due() is about; -1: none. */
static int find_due(const struct faults *faults, int rank, uint64_t seq, enum fault_point at)
{
	for (uint32_t i = 0; i < faults->count; i++) {
		const struct fault *fault = &faults->list[i];

		if (!(kinds[fault->kind].flags & KIND_PROCESS) &&
		    fault_matches(fault, rank, seq, at))
			return (int)i;
	}
	return -1;
}

enum fault_kind fault_due(const struct faults *faults, int rank, uint64_t seq, enum fault_point at,
			  uint64_t *ret_ns)
{
	int found = find_due(faults, rank, seq, at);

	if (found < 0)
		return FAULT_NONE;
	if (ret_ns)
		*ret_ns = faults->list[found].ns;
	return faults->list[found].kind;
}

/* Relaxed here and below: a number for people, it orders nothing. */
static void note_done(struct faults *faults, uint32_t number)
{
	atomic_fetch_or_explicit(&faults->done, UINT32_C(1) << number, memory_order_relaxed);
}

uint32_t faults_done(const struct faults *faults)
{
	return atomic_load_explicit(&faults->done, memory_order_relaxed);
}

enum fault_kind fault_take(struct faults *faults, int rank, uint64_t seq, enum fault_point at,
			   uint32_t mask, uint64_t *ret_ns)
{
	int found = find_due(faults, rank, seq, at);

	if (found < 0 || !(mask & FAULT_BIT(faults->list[found].kind)))
		return FAULT_NONE;
	note_done(faults, (uint32_t)found);
	return fault_due(faults, rank, seq, at, ret_ns);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
}

static void delay(uint64_t ns)
{
	uint64_t end_ns = now_ns() + ns;
	struct timespec end = to_timespec(end_ns);

	if (ns < SPIN_NS_MAX) {
		while (now_ns() < end_ns)
			;
		return;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

/*
 * The child of stop(): stops the process, waits, and wakes it. Runs in a copy of a process that may
 * have had threads, so system calls only. Ends early when the process dies, and holds none of its
 * descriptors open, so that nobody waits for a dead rank's end of a socket.
 */
static void stop_and_continue(int process, uint64_t ns)
{
	struct pollfd died = {.fd = process, .events = POLLIN};
	struct timespec rest = to_timespec(ns);

	if (process > 0)
		(void)syscall(SYS_close_range, 0u, (unsigned)process - 1, 0u);
	(void)syscall(SYS_close_range, (unsigned)process + 1, ~0u, 0u);
	if (syscall(SYS_pidfd_send_signal, process, SIGSTOP, NULL, 0u) == 0) {
		(void)syscall(SYS_ppoll, &died, 1, &rest, NULL, 0);
		(void)syscall(SYS_pidfd_send_signal, process, SIGCONT, NULL, 0u);
	}
	for (;;)
		(void)syscall(SYS_exit_group, 0);
}

/*
 * Stops this process for a time. The child sends both signals, since a SIGCONT that overtakes its
 * SIGSTOP would leave the process stopped for good. It is made by a plain clone without exit
 * signal: no fork handlers run, the application sees no SIGCHLD, and its own wait() does not find
 * it.
 */
static void stop(uint64_t ns)
{
	int process = (int)syscall(SYS_pidfd_open, getpid(), 0u);
	long child;

	if (process < 0)
		return;
	child = syscall(SYS_clone, 0ul, NULL, NULL, NULL, 0ul);
	if (child == 0)
		stop_and_continue(process, ns);
	while (child > 0 && waitpid((pid_t)child, NULL, __WALL) < 0 && errno == EINTR)
		;
	close(process);
}

static void act(const struct fault *fault)
{
	if (fault->kind == FAULT_DELAY)
		delay(fault->ns);
	else if (fault->kind == FAULT_KILL)
		kill(getpid(), SIGKILL);
	else if (fault->kind == FAULT_STOP)
		stop(fault->ns);
}

void fault_act(struct faults *faults, int rank, uint64_t seq, enum fault_point at)
{
	for (uint32_t i = 0; i < faults->count; i++) {
		const struct fault *fault = &faults->list[i];

		if (!(kinds[fault->kind].flags & KIND_PROCESS) ||
		    !fault_matches(fault, rank, seq, at))
			continue;
		note_done(faults, i);
		act(fault);
	}
}

int faults_check_ranks(const struct faults *faults, int nranks, struct cause_chain *causes)
{
	for (uint32_t i = 0; i < faults->count; i++) {
		if (faults->list[i].rank < nranks)
			continue;
		cause_add(causes, NULL, 0, -1, 0,
			  "BELAY_FAULT names rank=%d; expected a rank from 0 to %d, or *",
			  faults->list[i].rank, nranks - 1);
		return BELAY_E_SETTING;
	}
	return 0;
}
