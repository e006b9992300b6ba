/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_disk.h"

#include <errno.h>
#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#define WAIT_S 10

ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int error_given, hangs, hanging;
static int64_t left;
static uint64_t failures;

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	int error = 0;

	pthread_mutex_lock(&lock);
	hanging += hangs;
	pthread_cond_broadcast(&changed);
	while (hangs)
		pthread_cond_wait(&changed, &lock);
	hanging = 0;
	if (error_given && left <= 0) {
		error = error_given;
		failures++;
		pthread_cond_broadcast(&changed);
	} else if (error_given && (int64_t)size > left) {
		size = (size_t)left;
	}
	left -= (int64_t)size;
	pthread_mutex_unlock(&lock);
	errno = error;
	return error ? -1 : __real_pwrite(fd, bytes, size, offset);
}

void fake_disk_fail_after(int64_t bytes, int error)
{
	pthread_mutex_lock(&lock);
	left = bytes;
	error_given = error;
	failures = 0;
	pthread_mutex_unlock(&lock);
}

static void set_hangs(int value)
{
	pthread_mutex_lock(&lock);
	hangs = value;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void fake_disk_hang(void)
{
	set_hangs(1);
}

void fake_disk_release(void)
{
	set_hangs(0);
}

/* Waits, under lock, for one of the two counts. */
static int wait_for(uint64_t failed, int hung)
{
	struct timespec until;
	int late = 0, good;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&lock);
	while (!late && (failures < failed || hanging < hung))
		late = pthread_cond_timedwait(&changed, &lock, &until);
	good = failures >= failed && hanging >= hung;
	pthread_mutex_unlock(&lock);
	return good;
}

int fake_disk_wait_hanging(void)
{
	return wait_for(0, 1);
}

int fake_disk_wait_failed(uint64_t n)
{
	return wait_for(n, 0);
}
