/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL where belay was built without its header: there is never a worker. See nccl_worker.h. */
#include "runtime/cuda/nccl_worker.h"

#include <stdio.h>

#include "runtime/belay.h"
#include "runtime/cause.h"

static int refuse(char *ret_why, size_t size)
{
	snprintf(ret_why, size, "belay was built without NCCL");
	return -1;
}

int nccl_worker_prepare(struct belay_comm *comm, char *ret_why, size_t size)
{
	(void)comm;
	return refuse(ret_why, size);
}

int nccl_worker_join(struct belay_comm *comm, uint64_t deadline_ns, struct nccl_worker **ret_worker,
		     char *ret_why, size_t size)
{
	(void)comm;
	(void)deadline_ns;
	(void)ret_worker;
	return refuse(ret_why, size);
}

void nccl_worker_free(struct nccl_worker *worker)
{
	(void)worker;
}

void nccl_worker_gather(struct nccl_worker *worker, const void *part, size_t bytes, void *parts)
{
	(void)worker;
	(void)part;
	(void)bytes;
	(void)parts;
}

enum nccl_progress nccl_worker_progress(struct nccl_worker *worker, uint64_t now_ns)
{
	(void)worker;
	(void)now_ns;
	return NCCL_IDLE;
}

uint64_t nccl_worker_gather_ns(const struct nccl_worker *worker)
{
	(void)worker;
	return 0;
}

void nccl_worker_cancel(struct nccl_worker *worker)
{
	(void)worker;
}

void nccl_worker_note_rescue(struct nccl_worker *worker, bool active)
{
	(void)worker;
	(void)active;
}

bool nccl_worker_aborts(const struct nccl_worker *worker, uint64_t now_ns)
{
	(void)worker;
	(void)now_ns;
	return false;
}

bool nccl_worker_can_gather(const struct nccl_worker *worker)
{
	(void)worker;
	return false;
}

int nccl_worker_allreduce(struct nccl_worker *worker, const void *send, void *recv, uint64_t count,
			  int dtype, int op, struct CUstream_st *stream)
{
	(void)worker;
	(void)send;
	(void)recv;
	(void)count;
	(void)dtype;
	(void)op;
	(void)stream;
	return -1;
}

void nccl_worker_fail_calls(struct nccl_worker *worker, const char *why)
{
	(void)worker;
	(void)why;
}

int nccl_worker_calls_error(struct nccl_worker *worker, char *ret_text, size_t size)
{
	(void)worker;
	(void)ret_text;
	(void)size;
	return 0;
}

void nccl_worker_abort_calls(struct nccl_worker *worker)
{
	(void)worker;
}

int nccl_worker_version(const struct nccl_worker *worker, const char **ret_file)
{
	(void)worker;
	*ret_file = "";
	return 0;
}

int belay_comm_create_from_nccl(struct belay_comm **ret_comm, struct ncclComm *nccl,
				const struct belay_config *config)
{
	struct cause_config told = {.level = BELAY_LOG_WARN, .rank = -1};
	struct cause_chain *causes;

	if (!ret_comm || !nccl)
		return BELAY_E_ARGUMENT;
	if (config) {
		told.log = config->log;
		told.log_user = config->log_user;
	}
	causes = cause_chain_create(&told);
	if (!causes)
		return BELAY_E_NO_MEMORY;
	cause_add(causes, NULL, 0, -1, 0,
		  "no communicator from one of NCCL's: belay was built without NCCL");
	cause_keep_as_last_error(causes);
	cause_flush(causes, BELAY_LOG_ERROR);
	cause_chain_free(causes);
	return BELAY_E_UNSUPPORTED;
}
