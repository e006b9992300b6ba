/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of a meeting need: names, limits, and how a failure is said. */
#include "config.h"

#include "runtime/group/meeting.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/cause.h"

/*
 * The user stands in the name, so that two users' jobs of one name do not meet; the text only as a
 * hash, since names of abstract sockets can be read by everyone and are short.
 */
unsigned int meeting_address(const char *meeting, struct sockaddr_un *ret_address)
{
	size_t bytes = strlen(meeting);
	int length;

	memset(ret_address, 0, sizeof(*ret_address));
	ret_address->sun_family = AF_UNIX;
	length = snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1,
			  "belay-%lu-%016" PRIx64 "%016" PRIx64, (unsigned long)geteuid(),
			  handshake_hash(meeting, bytes, 1), handshake_hash(meeting, bytes, 2));
	return (unsigned int)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

uint64_t meeting_all(const struct rendezvous *m)
{
	return m->nranks == 64 ? UINT64_MAX : (UINT64_C(1) << m->nranks) - 1;
}

void meeting_list_missing(uint64_t mask, int nranks, char *ret_text, size_t size)
{
	size_t used = 0;

	*ret_text = '\0';
	for (int rank = 0; rank < nranks && used < size; rank++)
		if (!(mask >> rank & 1))
			used += (size_t)snprintf(ret_text + used, size - used, "%s%d",
						 used ? ", " : "", rank);
}

unsigned long long meeting_allowed_ms(const struct rendezvous *m)
{
	uint64_t allowed_ns = m->deadline_ns > m->begin_ns ? m->deadline_ns - m->begin_ns : 0;

	return (allowed_ns + 500000) / 1000000;
}

void meeting_compose(const struct rendezvous *m, enum handshake_type type,
		     struct handshake_message *ret_message)
{
	handshake_init(ret_message, type);
	ret_message->rank = m->rank;
	ret_message->nranks = m->nranks;
	ret_message->pid = (uint64_t)getpid();
	ret_message->step = m->step;
	memcpy(ret_message->secret, m->spec.secret, sizeof(ret_message->secret));
}

void meeting_fault(struct rendezvous *m)
{
	uint64_t step = m->fault_step++;

	if (m->faults && faults_armed(m->faults))
		fault_act(m->faults, m->rank, step, FAULT_AT_HANDSHAKE);
}

/*
 * How many descriptors below `limit` are open: the limit bounds their numbers, so those above it,
 * from before it was lowered, take no room. -1 when that cannot be looked up.
 */
static int count_descriptors(uint64_t limit, uint64_t *ret_count)
{
	DIR *folder = opendir("/proc/self/fd");
	uint64_t count = 0;
	struct dirent *entry;

	if (!folder && errno == EMFILE) {
		*ret_count = limit;
		return 0;
	}
	if (!folder)
		return -1;
	while ((entry = readdir(folder)) != NULL)
		count += *entry->d_name != '.' && strtoull(entry->d_name, NULL, 10) < limit;
	(void)closedir(folder); /* only read from */
	*ret_count = count - 1; /* the folder's own */
	return 0;
}

int meeting_check_descriptors(unsigned int needed, struct cause_chain *causes)
{
	struct rlimit limit;
	uint64_t open;

	/* What cannot be looked up is left to the calls that will need it. */
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || count_descriptors(limit.rlim_cur, &open) != 0)
		return 0;
	if (open + needed <= limit.rlim_cur)
		return 0;
	cause_add(causes, NULL, 0, -1, 0,
		  "the creation needs %u descriptors, RLIMIT_NOFILE (ulimit -n) allows %" PRIu64
		  " of which %" PRIu64 " are in use",
		  needed, (uint64_t)limit.rlim_cur, open);
	return BELAY_E_LIMIT;
}

int meeting_status_of_errno(int error)
{
	switch (error) {
	case EMFILE:
	case ENFILE:
	case ETOOMANYREFS:
		return BELAY_E_LIMIT;
	case ENOMEM:
	case ENOBUFS:
		return BELAY_E_NO_MEMORY;
	default:
		return BELAY_E_SYSTEM;
	}
}

int meeting_status_from(int32_t status)
{
	if (status < 0 && strcmp(belay_status_name(status), "unknown status") != 0)
		return status;
	return BELAY_E_SYSTEM;
}

static int fail(struct rendezvous *m, int status)
{
	m->failed = status;
	if (m->rank == 0)
		host_tell_failure(m);
	else
		member_tell_failure(m);
	return status;
}

int meeting_fail_group(struct rendezvous *m, int status, const char *format, ...)
{
	va_list arguments;

	if (m->failed)
		return m->failed;
	va_start(arguments, format);
	(void)vsnprintf(m->fail_text, sizeof(m->fail_text), format, arguments); /* may be cut */
	va_end(arguments);
	cause_add(m->causes, NULL, 0, -1, 0, "%s", m->fail_text);
	return fail(m, status);
}

int meeting_fail_own(struct rendezvous *m, int status)
{
	char cause[512] = "";

	if (m->failed)
		return m->failed;
	cause_newest(m->causes, cause, sizeof(cause));
	(void)snprintf(m->fail_text, sizeof(m->fail_text), "rank %d (pid %d): %s", m->rank,
		       (int)getpid(), *cause ? cause : belay_status_text(status));
	return fail(m, status);
}
