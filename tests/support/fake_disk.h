/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fails on demand. Link with $(FAKE_DISK_WRAP), which wraps pwrite. All threads see the
 * same disk. */
#ifndef BELAY_TESTS_SUPPORT_FAKE_DISK_H
#define BELAY_TESTS_SUPPORT_FAKE_DISK_H

#include <stdint.h>

/* Writes take what is left of `bytes` and then fail with `error`, as on a full disk. error 0:
 * writes work again. */
void fake_disk_fail_after(int64_t bytes, int error);

/* Writes hang until fake_disk_release(). */
void fake_disk_hang(void);
void fake_disk_release(void);

/* Waits until a write hangs, or has failed `n` times since the last fake_disk_fail_after(); 10 s at
 * the most, else returns 0. */
int fake_disk_wait_hanging(void);
int fake_disk_wait_failed(uint64_t n);

#endif /* BELAY_TESTS_SUPPORT_FAKE_DISK_H */
