/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ncclGetLastError() says of errors that are libbelay-nccl's. The real NCCL keeps its own.
 * Which of the two a thread is told is decided by whose error it got last.
 */
#ifndef BELAY_RUNTIME_NCCL_LAST_ERROR_H
#define BELAY_RUNTIME_NCCL_LAST_ERROR_H

/* The calling thread's last error is this one, cut at LAST_ERROR_BYTES. */
enum { LAST_ERROR_BYTES = 4096 };
void last_error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* ... is the real NCCL's. */
void last_error_is_nccls(void);
/* The text, until this thread's next error; NULL: it is not ours. */
const char *last_error_get(void);

#endif /* BELAY_RUNTIME_NCCL_LAST_ERROR_H */
