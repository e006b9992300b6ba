/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/group/environment_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/belay.h"
#include "runtime/cause.h"

#define NUMBER_MAX 999999999L

static const char *get(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Decimal digits only; -1: no such number, or none at all. */
static long number_of(const char *value)
{
	if (!value || strlen(value) > 9 || strspn(value, "0123456789") != strlen(value))
		return -1;
	return strtol(value, NULL, 10);
}

/* A whole number in min..max, decimal digits only. Absent: `absent`, or an error when that is <
 * 0. */
static int read_number(const char *name, long min, long max, long absent, long *ret_number,
		       struct cause_chain *causes)
{
	const char *value = get(name);
	long number = number_of(value);

	if (!value && absent >= 0) {
		*ret_number = absent;
		return 0;
	}
	if (!value) {
		cause_add(causes, NULL, 0, -1, 0,
			  "%s is not set in the environment: expected a number from %ld to %ld, as "
			  "torchrun sets it",
			  name, min, max);
		return BELAY_E_SETTING;
	}
	if (number < min || number > max) {
		cause_add(causes, NULL, 0, -1, 0,
			  "%s is '%.40s' in the environment: expected a number from %ld to %ld",
			  name, value, min, max);
		return BELAY_E_SETTING;
	}
	*ret_number = number;
	return 0;
}

/* Both say how the world is spread; either alone is enough to see that it is not one host. */
static int check_one_host(long nranks, struct cause_chain *causes)
{
	long local, hosts, rank;
	int status = read_number("LOCAL_WORLD_SIZE", 1, nranks, nranks, &local, causes);

	if (!status)
		status = read_number("GROUP_WORLD_SIZE", 1, NUMBER_MAX, 1, &hosts, causes);
	if (!status)
		status = read_number("LOCAL_RANK", 0, local - 1, 0, &rank, causes);
	if (status)
		return status;
	if (local == nranks && hosts == 1)
		return 0;
	cause_add(causes, NULL, 0, -1, 0,
		  "the world of %ld ranks spans several hosts: LOCAL_WORLD_SIZE is %ld, "
		  "GROUP_WORLD_SIZE is %ld; belay connects the ranks of one host",
		  nranks, local, hosts);
	return BELAY_E_UNSUPPORTED;
}

/*
 * The launcher's name for the job. torchrun calls every job "none" that it was not given a name
 * for, and users copy names such as "100" from manuals, so address and port are added where they
 * are known: they are the same on all ranks of a job and differ between jobs of one host.
 */
static int name_job(const char *job, char *ret_name, size_t size, struct cause_chain *causes)
{
	const char *run = get("TORCHELASTIC_RUN_ID");
	const char *address = get("MASTER_ADDR"), *port = get("MASTER_PORT");
	int has_place = address && port;
	int length;

	if (*job)
		length = snprintf(ret_name, size, "job %s", job);
	else if (run && strcmp(run, "none") == 0 && !has_place)
		run = NULL, length = 0;
	else if (run || has_place)
		length = snprintf(ret_name, size, "run %s at %s port %s", run ? run : "-",
				  has_place ? address : "-", has_place ? port : "-");
	else
		length = 0;
	if (length == 0) {
		cause_add(causes, NULL, 0, -1, 0,
			  "the job has no name: expected BELAY_JOB, TORCHELASTIC_RUN_ID, or "
			  "MASTER_ADDR and MASTER_PORT in the environment");
		return BELAY_E_SETTING;
	}
	if ((size_t)length >= size) {
		cause_add(causes, NULL, 0, -1, 0,
			  "the name of the job (BELAY_JOB, TORCHELASTIC_RUN_ID, MASTER_ADDR) is %d "
			  "bytes "
			  "long: expected less than %zu",
			  length, size);
		return BELAY_E_SETTING;
	}
	return 0;
}

int environment_id_read(const char *job, struct environment_id *ret_id, struct cause_chain *causes)
{
	struct environment_id id;
	char name[ENVIRONMENT_MEETING_BYTES - 32];
	long rank, restart, port, nranks = number_of(get("WORLD_SIZE"));
	/* Of a world that is too large for a host, that it is on several is told first. */
	int status = nranks > 0 ? check_one_host(nranks, causes) : 0;

	if (!status)
		status = read_number("WORLD_SIZE", 1, BELAY_RANKS_MAX, -1, &nranks, causes);
	if (!status)
		status = read_number("RANK", 0, nranks - 1, -1, &rank, causes);
	if (!status)
		status = read_number("MASTER_PORT", 0, 65535, 0, &port, causes);
	if (!status)
		status = read_number("TORCHELASTIC_RESTART_COUNT", 0, NUMBER_MAX, 0, &restart,
				     causes);
	if (!status)
		status = name_job(job, name, sizeof(name), causes);
	if (status)
		return status;
	id.rank = (int)rank;
	id.nranks = (int)nranks;
	/* Ranks of an earlier try that are still dying must not be met. */
	(void)snprintf(id.meeting, sizeof(id.meeting), "%s try %ld", name, restart);
	*ret_id = id;
	return 0;
}
