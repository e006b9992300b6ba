/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's place as a launcher such as torchrun tells it in the environment. */
#ifndef BELAY_RUNTIME_GROUP_ENVIRONMENT_ID_H
#define BELAY_RUNTIME_GROUP_ENVIRONMENT_ID_H

struct cause_chain;

#define ENVIRONMENT_MEETING_BYTES 1024

struct environment_id {
	int rank;
	int nranks;
	char meeting[ENVIRONMENT_MEETING_BYTES]; /* where this job, in this try, meets */
};

/*
 * Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_WORLD_SIZE, TORCHELASTIC_RUN_ID,
 * TORCHELASTIC_RESTART_COUNT, MASTER_ADDR, MASTER_PORT.
 *
 * @param job  the setting BELAY_JOB; "" when it is not given
 * @return 0; BELAY_E_SETTING: a variable is missing or malformed, causes names it and what was
 *   expected; BELAY_E_UNSUPPORTED: the world spans several hosts. ret_id is then untouched.
 */
int environment_id_read(const char *job, struct environment_id *ret_id, struct cause_chain *causes);

#endif /* BELAY_RUNTIME_GROUP_ENVIRONMENT_ID_H */
