/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are threads of one process and have one mapping of what they share: elsewhere each
 * rank maps it for itself, and ThreadSanitizer, which goes by addresses, sees nothing of what
 * passes between them. Calls, a rescue and a verdict; the bits are looked at as ever.
 *
 * mmap() and munmap() are wrapped (-Wl,--wrap=mmap): a file that is mapped already is mapped there.
 */
#include <check.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/support/rank_calls.h"

#define MAPPINGS_MAX 64

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

static struct mapping {
	void *at; /* NULL: free */
	ino_t inode;
	int users;
} mappings[MAPPINGS_MAX];
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;

static struct mapping *find_inode_locked(ino_t inode)
{
	struct mapping *unused = NULL;

	for (int i = 0; i < MAPPINGS_MAX; i++) {
		if (mappings[i].at && mappings[i].inode == inode)
			return &mappings[i];
		if (!mappings[i].at)
			unused = &mappings[i];
	}
	return unused;
}

static struct mapping *find_address_locked(const void *at)
{
	for (int i = 0; i < MAPPINGS_MAX; i++)
		if (mappings[i].at == at)
			return &mappings[i];
	return NULL;
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *result = MAP_FAILED;
	struct mapping *mapping;
	struct stat status;

	if (fd < 0 || !(flags & MAP_SHARED) || fstat(fd, &status))
		return __real_mmap(at, bytes, protection, flags, fd, offset);
	pthread_mutex_lock(&mappings_lock);
	mapping = find_inode_locked(status.st_ino);
	if (mapping && mapping->at)
		result = mapping->at;
	else if (mapping)
		result = __real_mmap(at, bytes, protection, flags, fd, offset);
	if (mapping && result != MAP_FAILED) {
		mapping->at = result;
		mapping->inode = status.st_ino;
		mapping->users++;
	}
	pthread_mutex_unlock(&mappings_lock);
	return result;
}

int __wrap_munmap(void *at, size_t bytes)
{
	struct mapping *mapping;
	int result = 0;

	pthread_mutex_lock(&mappings_lock);
	mapping = find_address_locked(at);
	if (!mapping || --mapping->users == 0) {
		result = __real_munmap(at, bytes);
		if (mapping)
			mapping->at = NULL;
	}
	pthread_mutex_unlock(&mappings_lock);
	return result;
}

static void run(int nranks, const struct work_plan *plan, struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = nranks,
					   .scenario = rank_life,
					   .plan = plan,
					   .cap_ms = 120000,
					   .threads = true},
		       ret_group);
}

static const struct {
	int nranks;
	struct work_plan plan;
} healthy[] = {
	{2, {.passes = 3}},
	{3, {.passes = 3, .symm_max = "16K"}}, /* two-shot, and calls of several turns */
	{3, {.passes = 3, .regions = true}},
	{3, {.passes = 2, .paths = "ring"}},
};

START_TEST(ranks_in_one_memory_make_calls_and_commit_passes)
{
	struct rank_group group;

	run(healthy[_i].nranks, &healthy[_i].plan, &group);
	assert_all_well(&group);
}
END_TEST

START_TEST(ranks_in_one_memory_rescue_a_lost_write)
{
	struct work_plan plan = {.passes = 3, .fault = "rank=1,seq=4,kind=drop"};
	struct rank_group group;

	run(3, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 1);
}
END_TEST

START_TEST(ranks_in_one_memory_agree_on_a_verdict)
{
	struct work_plan plan = {.passes = 3, .fault = "rank=1,seq=4,kind=count", .stay = true};
	struct rank_group group;

	run(3, &plan, &group);
	assert_one_verdict(&group, 7, BELAY_CAUSE_MISMATCH, 1, 4);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("thread ranks");
	TCase *c = tcase_create("one memory");

	tcase_set_timeout(c, 150);
	tcase_add_loop_test(c, ranks_in_one_memory_make_calls_and_commit_passes, 0,
			    (int)(sizeof(healthy) / sizeof(healthy[0])));
	tcase_add_test(c, ranks_in_one_memory_rescue_a_lost_write);
	tcase_add_test(c, ranks_in_one_memory_agree_on_a_verdict);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
