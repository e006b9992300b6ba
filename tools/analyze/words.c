/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include <string.h>

#include "runtime/belay.h"
#include "tools/analyze/words.h"

const char *words_ranks(uint64_t mask, char *buffer)
{
	int used = 0;

	if (!mask)
		(void)snprintf(buffer, WORDS_RANKS_BYTES, "none");
	while (mask && used < WORDS_RANKS_BYTES) {
		int first = __builtin_ctzll(mask);
		uint64_t ones = ~(mask >> first);
		int length = ones ? __builtin_ctzll(ones) : 64;
		int last = first + length - 1;
		const char *comma = used ? "," : "";
		size_t room = (size_t)(WORDS_RANKS_BYTES - used);

		if (length <= 2) {
			used += snprintf(buffer + used, room, "%s%d", comma, first);
			mask &= mask - 1;
			continue;
		}
		used += snprintf(buffer + used, room, "%s%d-%d", comma, first, last);
		mask = last >= 63 ? 0 : mask & ~((2ull << last) - 1);
	}
	return buffer;
}

const char *words_time(uint64_t ns, char *buffer)
{
	static const struct {
		uint64_t below;
		double unit;
		const char *name;
	} units[] = {{1000000, 1e3, "us"}, {1000000000, 1e6, "ms"}, {UINT64_MAX, 1e9, "s"}};
	unsigned i = 0;
	double value;

	if (ns < 1000) {
		(void)snprintf(buffer, WORDS_TIME_BYTES, "%" PRIu64 " ns", ns);
		return buffer;
	}
	while (ns >= units[i].below && i < 2)
		i++;
	value = (double)ns / units[i].unit;
	(void)snprintf(buffer, WORDS_TIME_BYTES, "%.*f %s",
		       value < 10    ? 2
		       : value < 100 ? 1
				     : 0,
		       value, units[i].name);
	return buffer;
}

const char *words_bytes(uint64_t bytes, char *buffer)
{
	if (bytes < 10240)
		(void)snprintf(buffer, WORDS_TIME_BYTES, "%" PRIu64, bytes);
	else if (bytes < 10485760)
		(void)snprintf(buffer, WORDS_TIME_BYTES, "%.0fK", (double)bytes / 1024);
	else
		(void)snprintf(buffer, WORDS_TIME_BYTES, "%.1fM", (double)bytes / 1048576);
	return buffer;
}

const char *words_place(uint64_t seq, uint64_t pass, char *buffer)
{
	if (pass)
		(void)snprintf(buffer, WORDS_PLACE_BYTES, "seq %" PRIu64 " (pass %" PRIu64 ")", seq,
			       pass);
	else
		(void)snprintf(buffer, WORDS_PLACE_BYTES, "seq %" PRIu64, seq);
	return buffer;
}

static const char *name_or_number(const char *name, uint8_t number, char *buffer)
{
	if (strcmp(name, "unknown") == 0)
		(void)snprintf(buffer, WORDS_NAME_BYTES, "%u", number);
	else
		(void)snprintf(buffer, WORDS_NAME_BYTES, "%s", name);
	return buffer;
}

const char *words_op(uint8_t op, char *buffer)
{
	return name_or_number(belay_op_name((enum belay_op)op), op, buffer);
}

const char *words_dtype(uint8_t dtype, char *buffer)
{
	return name_or_number(belay_dtype_name((enum belay_dtype)dtype), dtype, buffer);
}

const char *words_collective(uint8_t op, char *buffer)
{
	if (op > BELAY_USER_OP)
		return words_op(op, buffer);
	(void)snprintf(buffer, WORDS_NAME_BYTES, "allreduce");
	return buffer;
}
