/* SPDX-License-Identifier: Apache-2.0 */
/* See mismatch.h. */
#include "runtime/outcome/mismatch.h"

#include <inttypes.h>
#include <stdio.h>

static unsigned count_of(const uint32_t *signatures, uint64_t here, unsigned nranks, uint32_t value)
{
	unsigned n = 0;

	for (unsigned r = 0; r < nranks; r++)
		n += (here >> r & 1) && signatures[r] == value;
	return n;
}

/* The signature that more than half of the known ranks share, else that of the lowest known
 * rank. */
static uint32_t right_one(const uint32_t *signatures, uint64_t here, unsigned nranks)
{
	unsigned known = (unsigned)__builtin_popcountll(here);

	for (unsigned r = 0; r < nranks; r++)
		if (here >> r & 1 && 2 * count_of(signatures, here, nranks, signatures[r]) > known)
			return signatures[r];
	return signatures[__builtin_ctzll(here)];
}

int mismatch_culprit(const uint32_t *signatures, uint64_t here, unsigned nranks)
{
	uint32_t right;

	if (!here)
		return -1;
	right = right_one(signatures, here, nranks);
	for (unsigned r = 0; r < nranks; r++)
		if (here >> r & 1 && signatures[r] != right)
			return (int)r;
	return -1;
}

static int describe_call(const struct belay_comm *comm, char *text, size_t size, const char *who,
			 uint64_t ranks, const struct control_call *call)
{
	return snprintf(text, size,
			"%s (ranks mask 0x%" PRIx64 "%s): count %" PRIu64 " %s %s, pass %" PRIu64
			" place %" PRIu32,
			who, ranks, comm_mask_words(comm), call->count,
			belay_dtype_name(call->dtype), belay_op_name(call->op), call->pass,
			call->index);
}

/* What watched calls sign besides is not in the description. */
static const char *difference(const struct control_call *one, const struct control_call *two)
{
	bool alike = one->count == two->count && one->dtype == two->dtype && one->op == two->op &&
		     one->pass == two->pass && one->index == two->index;

	return alike ? "; root, reduction or number of calls differ" : "";
}

void mismatch_describe(const struct belay_comm *comm, const struct outcome_view *view,
		       struct control_cause *cause, const struct control_call *call)
{
	uint32_t signatures[BELAY_RANKS_MAX] = {0};
	uint64_t here = 0, odd = 0, turn = cause->turn;
	const struct control_call *first = NULL, *other = NULL;
	char one[128] = "", two[128] = "";

	for (unsigned r = 0; r < comm->nranks; r++) {
		/* [PROGRESS] (2) was done when the view was built; the description stays until
		 * all are done. */
		if (view->progress.staged[r] < turn || view->progress.staged[r] > turn + 1)
			continue;
		here |= UINT64_C(1) << r;
		signatures[r] = comm->control.rank[r].call[turn & 1].signature;
	}
	cause->culprit = mismatch_culprit(signatures, here, comm->nranks);
	if (cause->culprit < 0 || !call) {
		snprintf(cause->text, sizeof(cause->text), "signatures differ at seq %" PRIu64,
			 cause->seq);
		return;
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (!(here >> r & 1))
			continue;
		if (signatures[r] == signatures[cause->culprit])
			odd |= UINT64_C(1) << r;
		else if (!first)
			first = &comm->control.rank[r].call[turn & 1];
	}
	other = &comm->control.rank[cause->culprit].call[turn & 1];
	describe_call(comm, two, sizeof(two), "odd", odd, other);
	if (first)
		describe_call(comm, one, sizeof(one), "others", here & ~odd, first);
	snprintf(cause->text, sizeof(cause->text),
		 "rank %.24s called differently at seq %" PRIu64 ": %.96s; %.96s%s",
		 comm_rank_words(comm, cause->culprit).text, cause->seq, two, one,
		 first ? difference(first, other) : "");
}
