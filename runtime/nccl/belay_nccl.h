/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libbelay-nccl has beyond NCCL's functions, for programs that know belay: pass marks, and the
 * communicators behind NCCL's. tools/python/belay.py has it for Python. A program that does not
 * know whether libbelay-nccl is there looks these up by dlsym().
 */
#ifndef BELAY_NCCL_H
#define BELAY_NCCL_H

#ifdef __cplusplus
extern "C" {
#endif

struct belay_comm;
struct CUstream_st;

/**
 * A pass begins, or ends: belay_pass_begin() and belay_pass_end() on every communicator of this
 * process that belay serves, on the stream of its calls. All their ranks do the same. May be
 * captured. A communicator that was made in the middle of a pass has no part of it.
 *
 * @return 0, or the first status that was not; the others have been marked all the same. 0 when
 * there is none
 */
int belay_nccl_pass_begin(struct CUstream_st *stream);
int belay_nccl_pass_end(struct CUstream_st *stream);

/**
 * Belay's communicators, the newest first, for the functions of belay.h that ask. Each is NCCL's
 * twin and ends with it: not to be destroyed, and not to be used once NCCL's is being destroyed.
 *
 * @return NULL beyond the last
 */
struct belay_comm *belay_nccl_comm(unsigned index);

#ifdef __cplusplus
}
#endif

#endif /* BELAY_NCCL_H */
