/* SPDX-License-Identifier: Apache-2.0 */
/* read_log FILE...: reads call logs to their ends and says what they hold, how fast that was, and
 * what is damaged. */
#include <stdio.h>
#include <time.h>

#include "trace/call_log_reader.h"

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* the machine may be busy */
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void report_damage(const struct call_log_reader *reader)
{
	const struct call_log_damage *damage;
	size_t count = call_log_reader_damage(reader, &damage);

	for (size_t i = 0; i < count; i++)
		printf("  damage at %llu, %llu bytes, %lld records: %s\n",
		       (unsigned long long)damage[i].offset, (unsigned long long)damage[i].bytes,
		       (long long)damage[i].records_lost, damage[i].reason);
}

static int read_file(const char *path)
{
	struct call_log_batch batch = {.kind = CALL_LOG_CALLS};
	struct call_log_reader *reader;
	const char *reason;
	unsigned long long calls = 0, events = 0;
	double begin = seconds();

	if (call_log_reader_open(path, 0, &reader, &reason)) {
		printf("%s: %s\n", path, reason);
		return 1;
	}
	while (!call_log_reader_next(reader, &batch) && batch.kind != CALL_LOG_END) {
		calls += batch.kind == CALL_LOG_CALLS ? batch.count : 0;
		events += batch.kind == CALL_LOG_EVENTS ? batch.count : 0;
	}
	printf("%s: calls=%llu events=%llu lost=%llu closed=%d ns_a_call=%.1f\n", path, calls,
	       events, (unsigned long long)call_log_reader_records_lost(reader),
	       call_log_reader_closed(reader),
	       calls ? (seconds() - begin) * 1e9 / (double)calls : 0.0);
	report_damage(reader);
	call_log_reader_close(reader);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0;

	for (int i = 1; i < argc; i++)
		status |= read_file(argv[i]);
	return status;
}
