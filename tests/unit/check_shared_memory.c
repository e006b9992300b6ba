/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory that is reserved, sealed and checked: errors in place of signals. */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/group/memory_room.h"
#include "runtime/group/shared_memory.h"

static struct cause_chain *causes;

static void setup(void)
{
	struct cause_config config = {.level = BELAY_LOG_OFF, .rank = -1};

	causes = cause_chain_create(&config);
}

static void teardown(void)
{
	cause_chain_free(causes);
}

static void assert_cause(const char *text)
{
	char newest[512];

	cause_newest(causes, newest, sizeof(newest));
	ck_assert_msg(strstr(newest, text) != NULL, "no '%s' in: %s", text, newest);
}

START_TEST(memory_is_zero_shared_sealed_and_closed_on_exec)
{
	int fd = -1, seals;
	struct stat about;
	char *a, *b;

	ck_assert_int_eq(shared_memory_create("t", 8192, 0, 8192, &fd, causes), 0);
	ck_assert_int_eq(shared_memory_map(fd, 8192, (void **)&a, causes), 0);
	ck_assert_int_eq(shared_memory_map(fd, 8192, (void **)&b, causes), 0);
	for (int i = 0; i < 8192; i++)
		ck_assert_int_eq(a[i], 0);
	a[8191] = 42;
	ck_assert_int_eq(b[8191], 42);
	seals = fcntl(fd, F_GET_SEALS);
	ck_assert_int_eq(seals & F_SEAL_SHRINK, F_SEAL_SHRINK);
	ck_assert_int_eq(seals & F_SEAL_GROW, F_SEAL_GROW);
	ck_assert_int_eq(seals & F_SEAL_SEAL, F_SEAL_SEAL);
	ck_assert_int_ne(ftruncate(fd, 100), 0);
	ck_assert_int_ne(ftruncate(fd, 10000), 0);
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	ck_assert_int_eq(fstat(fd, &about), 0);
	ck_assert_uint_eq(about.st_mode & 07777, 0600);
	munmap(a, 8192);
	munmap(b, 8192);
	close(fd);
}
END_TEST

static long long reserved_bytes(int fd)
{
	struct stat info;

	ck_assert_int_eq(fstat(fd, &info), 0);
	return (long long)info.st_blocks * 512;
}

START_TEST(only_the_start_of_each_stride_is_reserved)
{
	size_t mib = 1 << 20;
	int fd = -1;

	ck_assert_int_eq(shared_memory_create("t", 4 * mib, mib, 8192, &fd, causes), 0);
	ck_assert_int_eq(reserved_bytes(fd), 4 * 8192);
	ck_assert_int_eq(shared_memory_reserve(fd, 2 * mib + 8192, 4096, causes), 0);
	ck_assert_int_eq(reserved_bytes(fd), 4 * 8192 + 4096);
	ck_assert_int_eq(shared_memory_reserve(fd, 3 * mib, mib, causes), 0);
	ck_assert_int_eq(reserved_bytes(fd), (long long)mib + 3 * 8192 + 4096);
	/* Past the end: the seal forbids it. */
	ck_assert_int_eq(shared_memory_reserve(fd, 4 * mib, 4096, causes), BELAY_E_SYSTEM);
	close(fd);
}
END_TEST

START_TEST(a_last_stride_that_is_short_is_reserved_to_the_end)
{
	int fd = -1;

	ck_assert_int_eq(shared_memory_create("t", 3 * 4096, 8192, 8192, &fd, causes), 0);
	ck_assert_int_eq(reserved_bytes(fd), 3 * 4096);
	close(fd);
}
END_TEST

START_TEST(a_file_size_limit_is_an_error_that_names_both_numbers)
{
	struct rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
	int fd = -1;

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(shared_memory_create("t", 65536, 0, 65536, &fd, causes), 0);
	close(fd);
	fd = -7;
	/* One byte over; SIGXFSZ would end this process. */
	ck_assert_int_eq(shared_memory_create("t", 65537, 0, 0, &fd, causes), BELAY_E_LIMIT);
	ck_assert_int_eq(fd, -7);
	assert_cause("needs 65537 bytes in one file, RLIMIT_FSIZE (ulimit -f) allows 65536");
}
END_TEST

START_TEST(more_than_the_machine_has_is_refused_before_it_is_tried)
{
	size_t bytes = (size_t)1 << 50;
	int fd = -7, status = shared_memory_create("t", bytes, 0, bytes, &fd, causes);

	ck_assert_msg(status == BELAY_E_NO_MEMORY || status == BELAY_E_LIMIT, "status %d", status);
	ck_assert_int_eq(fd, -7);
	assert_cause("needs 1125899906842624 bytes");
	/* Sparse, it is nothing. */
	ck_assert_int_eq(shared_memory_create("t", bytes, bytes / 64, 4096, &fd, causes), 0);
	close(fd);
}
END_TEST

static void ignore(int signal_number)
{
	(void)signal_number;
}

/* Signals come faster than a whole step of the reservation takes. */
START_TEST(signals_do_not_stop_a_reservation)
{
	struct sigaction action = {.sa_handler = ignore};
	struct itimerval often = {.it_interval = {.tv_usec = 100}, .it_value = {.tv_usec = 100}};
	struct itimerval never = {.it_value = {.tv_usec = 0}};
	size_t bytes = (size_t)8 << 20;
	int fd = -1, status;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	status = shared_memory_create("t", bytes, 0, bytes, &fd, causes);
	setitimer(ITIMER_REAL, &never, NULL);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(reserved_bytes(fd), (long long)bytes);
	close(fd);
}
END_TEST

START_TEST(no_descriptor_left_is_an_error)
{
	struct rlimit before, none = {0};
	int fd = -7, status, lowered, raised;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	/* No check in between: it may need a descriptor itself. */
	lowered = setrlimit(RLIMIT_NOFILE, &none);
	status = shared_memory_create("t", 4096, 0, 4096, &fd, causes);
	raised = setrlimit(RLIMIT_NOFILE, &before);
	ck_assert_int_eq(lowered, 0);
	ck_assert_int_eq(raised, 0);
	ck_assert_int_eq(status, BELAY_E_LIMIT);
	ck_assert_int_eq(fd, -7);
	assert_cause("memfd_create: Too many open files");
}
END_TEST

START_TEST(a_descriptor_of_wrong_size_or_without_seals_is_not_mapped)
{
	void *memory = &memory;
	int fd = -1, bare = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(shared_memory_create("t", 8192, 0, 8192, &fd, causes), 0);
	ck_assert_int_eq(shared_memory_map(fd, 4096, &memory, causes), BELAY_E_SYSTEM);
	ck_assert_int_eq(shared_memory_map(fd, 8193, &memory, causes), BELAY_E_SYSTEM);
	assert_cause("expected 8193 bytes of sealed size");
	ck_assert_int_eq(ftruncate(bare, 8192), 0);
	ck_assert_int_eq(shared_memory_map(bare, 8192, &memory, causes), BELAY_E_SYSTEM);
	ck_assert_int_eq(shared_memory_map(-1, 8192, &memory, causes), BELAY_E_SYSTEM);
	ck_assert_ptr_eq(memory, &memory);
	close(fd);
	close(bare);
}
END_TEST

START_TEST(impossible_sizes_are_refused)
{
	int fd = -7;

	ck_assert_int_eq(shared_memory_create("t", 0, 0, 0, &fd, causes), BELAY_E_ARGUMENT);
	ck_assert_int_eq(shared_memory_create("t", SIZE_MAX, 0, 0, &fd, causes), BELAY_E_ARGUMENT);
	ck_assert_int_eq(shared_memory_create("t", 4096, 1024, 2048, &fd, causes),
			 BELAY_E_ARGUMENT);
	ck_assert_int_eq(fd, -7);
}
END_TEST

/* A false /proc and /sys/fs/cgroup. */
static char root[64];

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static void make_root(void)
{
	strcpy(root, "/tmp/belay-check-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	put("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:     800 kB\nSwapFree:  200 kB\n");
}

static void remove_root(void)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
	ck_assert_int_eq(system(command), 0);
}

static void find(struct memory_room *ret_room)
{
	char proc[80], cgroup[80];

	(void)snprintf(proc, sizeof(proc), "%s/proc", root);
	(void)snprintf(cgroup, sizeof(cgroup), "%s/cgroup", root);
	memory_room_find_at(proc, cgroup, ret_room);
}

START_TEST(the_room_without_cgroups_is_the_machines)
{
	struct memory_room room;

	make_root();
	find(&room);
	remove_root();
	ck_assert_uint_eq(room.bytes, 1000 * 1024);
	ck_assert_int_eq(room.is_cgroup, 0);
	find(&room); /* nothing there at all: no bound */
	ck_assert_uint_eq(room.bytes, UINT64_MAX);
}
END_TEST

START_TEST(the_narrowest_cgroup_above_counts_less_its_page_cache)
{
	struct memory_room room;

	make_root();
	put("proc/self/cgroup", "0::/job/step\n");
	put("cgroup/job/step/memory.max", "max\n");
	put("cgroup/job/step/memory.current", "5000\n");
	put("cgroup/job/memory.max", "100000\n");
	put("cgroup/job/memory.current", "95000\n");
	put("cgroup/job/memory.stat", "anon 1\ninactive_file 20000\nactive_file 3000\n");
	find(&room);
	remove_root();
	ck_assert_uint_eq(room.bytes, 100000 - 95000 + 23000);
	ck_assert_int_eq(room.is_cgroup, 1);
	ck_assert_str_eq(room.where, "memory cgroup /job (limit 100000 bytes, 72000 in use)");
}
END_TEST

START_TEST(version_1_and_a_path_that_is_not_mounted_are_understood)
{
	struct memory_room room;

	make_root();
	put("proc/self/cgroup", "11:cpu,cpuacct:/x\n4:memory:/docker/0123\n0::/\n");
	put("cgroup/memory/memory.limit_in_bytes", "5000\n");
	put("cgroup/memory/memory.usage_in_bytes", "6000\n");
	find(&room);
	remove_root();
	ck_assert_uint_eq(room.bytes, 0);
	ck_assert_int_eq(room.is_cgroup, 1);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("shared_memory");
	TCase *c = tcase_create("memory");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, memory_is_zero_shared_sealed_and_closed_on_exec);
	tcase_add_test(c, only_the_start_of_each_stride_is_reserved);
	tcase_add_test(c, a_last_stride_that_is_short_is_reserved_to_the_end);
	tcase_add_test(c, a_file_size_limit_is_an_error_that_names_both_numbers);
	tcase_add_test(c, more_than_the_machine_has_is_refused_before_it_is_tried);
	tcase_add_test(c, signals_do_not_stop_a_reservation);
	tcase_add_test(c, no_descriptor_left_is_an_error);
	tcase_add_test(c, a_descriptor_of_wrong_size_or_without_seals_is_not_mapped);
	tcase_add_test(c, impossible_sizes_are_refused);
	suite_add_tcase(s, c);
	c = tcase_create("room");
	tcase_add_test(c, the_room_without_cgroups_is_the_machines);
	tcase_add_test(c, the_narrowest_cgroup_above_counts_less_its_page_cache);
	tcase_add_test(c, version_1_and_a_path_that_is_not_mounted_are_understood);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
