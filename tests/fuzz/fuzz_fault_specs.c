/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the text of BELAY_FAULT, and whether what it says is due. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/fault_injection.h"
#include "tests/fuzz/fuzz_target.h"

/* A fault is one that the documentation knows, and is due where it says so. */
static void judge(const struct faults *faults, const struct fault *fault)
{
	uint64_t ns;

	if (fault->rank < -1 || fault->rank >= BELAY_RANKS_MAX || fault->first > fault->last ||
	    fault->step < 1 || fault->kind < FAULT_DROP || fault->kind > FAULT_STARVE ||
	    fault->at < FAULT_AT_HANDSHAKE || fault->at > FAULT_AT_DESTROY)
		abort();
	if (strcmp(fault_kind_name(fault->kind), "unknown") == 0 ||
	    strcmp(fault_point_name(fault->at), "unknown") == 0)
		abort();
	if (fault->kind != FAULT_DELAY && fault->kind != FAULT_KILL && fault->kind != FAULT_STOP &&
	    fault_due(faults, fault->rank < 0 ? 0 : fault->rank, fault->first, fault->at, &ns) ==
		    FAULT_NONE)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct cause_config quiet = {.log = fuzz_say_nothing, .rank = -1};
	struct cause_chain *causes = cause_chain_create(&quiet);
	char *text = fuzz_text(data, size);
	struct faults faults, before;
	char cause[64] = "";

	memset(&before, 0x5a, sizeof(before));
	faults = before;
	if (faults_parse(text, &faults, causes)) {
		cause_newest(causes, cause, sizeof(cause));
		if (!*cause || memcmp(&faults, &before, sizeof(faults)) != 0)
			abort();
		faults.count = 0;
	}
	if (faults.count > FAULTS_MAX)
		abort();
	for (uint32_t i = 0; i < faults.count; i++)
		judge(&faults, &faults.list[i]);
	(void)faults_check_ranks(&faults, 4, causes);
	free(text);
	cause_chain_free(causes);
	return 0;
}
