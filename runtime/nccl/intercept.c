/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libbelay-nccl: the functions of NCCL that belay does something about, here those of communicators
 * and groups; collectives.c has the calls. All others go to the real one as they are (forward.c).
 * Loaded before or in place of NCCL, by LD_PRELOAD or by a program that is told which file to load;
 * see docs/serving.md.
 *
 * Twins are made when NCCL's communicator is ready: by the call that made it, by the end of its
 * group, or, if it is not blocking, when the program asks whether it is (ncclCommGetAsyncError).
 */
#include "config.h"

#include <nccl.h>
#include <stddef.h>

#include "runtime/nccl/group.h"
#include "runtime/nccl/intercept.h"
#include "runtime/nccl/last_error.h"
#include "runtime/nccl/twin.h"

/* ---- the real one ---------------------------------------------------------------------------- */

/* How deep this thread is in calls of the real NCCL. */
static _Thread_local unsigned inside;

void intercept_enter(void)
{
	inside++;
}

ncclResult_t intercept_leave(ncclResult_t result)
{
	inside--;
	if (result != ncclSuccess && result != ncclInProgress)
		last_error_is_nccls();
	return result;
}

ncclResult_t intercept_lacks(const char *function)
{
	const char *why = real_nccl()->why;

	last_error_set("libbelay-nccl: %s: %s", function,
		       why[0] ? why : "the NCCL in use has no such function");
	return ncclSystemError;
}

bool intercept_between(const void *caller)
{
	return !real_nccl_alone() && inside == 0 && real_nccl() && !real_nccl_holds(caller);
}

/* ---- communicators --------------------------------------------------------------------------- */

/* A communicator of the program's shares what it is told to end by, or does not block. */
static void note_config(const ncclConfig_t *config)
{
	/* Programs that were compiled with an older header have a shorter one. */
#define CONFIG_SAYS(field, value)                                                                  \
	(config->size >= offsetof(ncclConfig_t, field) + sizeof(config->field) &&                  \
	 config->field == (value))
	if (!config)
		return;
	if (CONFIG_SAYS(blocking, 0))
		release_forbid();
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1)
	if (CONFIG_SAYS(splitShare, 1))
		release_forbid();
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
	if (CONFIG_SAYS(shrinkShare, 1))
		release_forbid();
#endif
#undef CONFIG_SAYS
}

/* The real NCCL has made communicators, or will have by the end of the group. */
static ncclResult_t made(const ncclComm_t *comms, int ncomms, ncclResult_t result)
{
	if (result != ncclSuccess && result != ncclInProgress)
		return result;
	release_look_at_environment();
	if (result == ncclInProgress)
		release_forbid(); /* it does not block, by its config or by NCCL_COMM_BLOCKING */
	if (group_is_open()) {
		(void)group_add_comms(comms, ncomms); /* without memory: NCCL's alone */
		return result;
	}
	for (int i = 0; i < ncomms; i++)
		if (comms[i])
			(void)twin_expect(comms[i]); /* likewise */
	if (result == ncclSuccess)
		twin_create(comms, ncomms);
	return result;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
	if (!stands_between())
		return REAL(CommInitRank, comm, nranks, commId, rank);
	return made(comm, 1, REAL(CommInitRank, comm, nranks, commId, rank));
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId,
					   int rank, ncclConfig_t *config)
{
	if (!stands_between())
		return REAL(CommInitRankConfig, comm, nranks, commId, rank, config);
	note_config(config);
	return made(comm, 1, REAL(CommInitRankConfig, comm, nranks, commId, rank, config));
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
	if (!stands_between())
		return REAL(CommInitAll, comm, ndev, devlist);
	return made(comm, ndev, REAL(CommInitAll, comm, ndev, devlist));
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 4)
EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
					     ncclUniqueId *commIds, ncclConfig_t *config)
{
	if (!stands_between())
		return REAL(CommInitRankScalable, newcomm, nranks, myrank, nId, commIds, config);
	note_config(config);
	return made(newcomm, 1,
		    REAL(CommInitRankScalable, newcomm, nranks, myrank, nId, commIds, config));
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1)
EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
				  ncclConfig_t *config)
{
	struct twin *twin;
	ncclResult_t result;

	if (!stands_between())
		return REAL(CommSplit, comm, color, key, newcomm, config);
	note_config(config);
	twin = twin_keep(comm);
	result = twin ? twin_refuses(twin) : ncclSuccess;
	if (result == ncclSuccess)
		result = made(newcomm, 1, REAL(CommSplit, comm, color, key, newcomm, config));
	twin_unkeep(twin, group_is_open());
	return result;
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
				   ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
	struct twin *twin;
	ncclResult_t result;

	if (!stands_between())
		return REAL(CommShrink, comm, excludeRanksList, excludeRanksCount, newcomm, config,
			    shrinkFlags);
	note_config(config);
	twin = twin_keep(comm);
	/* NCCL ends what is under way on the old one, for ranks that do not come any more; and
	 * takes back that it has been told to end, if it has. */
	if (shrinkFlags & NCCL_SHRINK_ABORT)
		twin_abort(comm);
	else if (twin && twin_refuses(twin) != ncclSuccess)
		shrinkFlags |= NCCL_SHRINK_ABORT;
	result = made(newcomm, 1,
		      REAL(CommShrink, comm, excludeRanksList, excludeRanksCount, newcomm, config,
			   shrinkFlags));
	if (shrinkFlags & NCCL_SHRINK_ABORT)
		twin_abandon_release(twin);
	twin_unkeep(twin, group_is_open() || shrinkFlags & NCCL_SHRINK_ABORT);
	return result;
}
#endif

/* Nothing is left to flush on one that has been told to leave. */
EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	if (stands_between() && twin_is_released(comm))
		return ncclSuccess;
	return REAL(CommFinalize, comm);
}

/* Of one whose twin has been taken out; or that has none. NCCL's first: a thread of the program may
 * hang in a call of it, with the twin in hand, and kernels of belay's may stand behind one that
 * hangs. */
static ncclResult_t abort_both(ncclComm_t comm, struct twin *twin)
{
	struct release *release = twin_take_release(twin);
	ncclResult_t result = ncclSuccess;

	/* In a group NCCL frees when all communicators of the group have been told. */
	if (release && group_is_open())
		release_leave(release);
	else
		result = release ? release_end(release) : REAL(CommAbort, comm);
	twin_destroy(twin);
	return result;
}

/* Once its calls have ended the twin goes first. */
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	struct twin *twin;

	if (!stands_between())
		return REAL(CommDestroy, comm);
	group_drop_calls(comm);
	twin = twin_take_out(comm);
	if (twin_is_lost(twin))
		return abort_both(comm, twin);
	twin_destroy(twin);
	return REAL(CommDestroy, comm);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	struct twin *twin;

	if (!stands_between())
		return REAL(CommAbort, comm);
	group_drop_calls(comm);
	twin_abort(comm);
	twin = twin_take_out(comm);
	twin_let_go(twin);
	return abort_both(comm, twin);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
	struct twin *twin;
	ncclResult_t result = ncclSuccess;

	if (!stands_between())
		return REAL(CommRevoke, comm, revokeFlags);
	twin = twin_keep(comm);
	/* One that has been released has been told. */
	if (!twin_is_released(comm)) {
		twin_abort(comm);
		result = REAL(CommRevoke, comm, revokeFlags);
	}
	twin_unkeep(twin, true);
	return result;
}
#endif

/* ---- errors ---------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
	struct twin *twin = stands_between() && asyncError ? twin_get(comm) : NULL;
	ncclResult_t result, verdict;

	if (!twin)
		return REAL(CommGetAsyncError, comm, asyncError);
	/* After a verdict NCCL may say what has come of that; one that does not block may be busy
	 * yet.
	 */
	verdict = release_is_forbidden() ? ncclSuccess : twin_verdict(twin);
	result = verdict == ncclSuccess ? REAL(CommGetAsyncError, comm, asyncError) : ncclSuccess;
	if (verdict != ncclSuccess)
		*asyncError = verdict;
	else if (result == ncclSuccess && *asyncError == ncclSuccess)
		*asyncError = twin_poll(twin) ? twin_verdict(twin) : ncclInProgress;
	else if (result == ncclSuccess && *asyncError != ncclInProgress)
		twin_tell_error(twin, *asyncError);
	twin_put(twin);
	return result;
}

EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
	const char *ours = stands_between() ? last_error_get() : NULL;
	const char *text;

	if (ours)
		return ours;
	if (!real_nccl()->GetLastError)
		return real_nccl()->why;
	intercept_enter();
	text = real_nccl()->GetLastError(comm);
	inside--;
	return text;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
	return real_nccl()->GetErrorString ? real_nccl()->GetErrorString(result)
					   : "libbelay-nccl found no NCCL";
}

/* ---- sends and receives, which are not watched -------------------------------------------------
 */

/* ncclSuccess, or what the call returns. */
static ncclResult_t refused(ncclComm_t comm)
{
	ncclResult_t verdict = twin_comm_refuses(comm);

	if (verdict != ncclSuccess)
		group_refuse(verdict);
	return verdict;
}

EXPORT ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
			     ncclComm_t comm, cudaStream_t stream)
{
	ncclResult_t verdict = stands_between() ? refused(comm) : ncclSuccess;

	return verdict == ncclSuccess ? REAL(Send, sendbuff, count, datatype, peer, comm, stream)
				      : verdict;
}

EXPORT ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
			     ncclComm_t comm, cudaStream_t stream)
{
	ncclResult_t verdict = stands_between() ? refused(comm) : ncclSuccess;

	return verdict == ncclSuccess ? REAL(Recv, recvbuff, count, datatype, peer, comm, stream)
				      : verdict;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* nccl.h declares them without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

EXPORT ncclResult_t ncclGroupStart(void)
{
	ncclResult_t result = REAL(GroupStart);

	if (stands_between() && result == ncclSuccess)
		group_start();
	return result;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t result = REAL(GroupEnd);

	return stands_between() ? group_end(result) : result;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 3)
/* Ends the group without doing any of it. */
EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
	ncclResult_t result = REAL(GroupSimulateEnd, simInfo);

	if (stands_between())
		(void)group_end(ncclInvalidUsage);
	return result;
}
#endif
