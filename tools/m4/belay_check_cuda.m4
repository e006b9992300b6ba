# SPDX-License-Identifier: Apache-2.0
# BELAY_CHECK_CUDA sets have_cuda and why_cuda. --with-cuda=DIR names the toolkit.
# This version has no kernels yet (they come with the symmetric path), so the toolkit is
# looked for, and asked for it is an error, never a silent fallback.
AC_DEFUN([BELAY_CHECK_CUDA], [
  AS_CASE([$with_cuda], [/*], [cuda_dir=$with_cuda], [cuda_dir=/usr/local/cuda])
  have_cuda=no
  AS_IF([test -f "$cuda_dir/include/cuda_runtime.h"],
    [why_cuda="toolkit in $cuda_dir; this version of belay has no CUDA kernels"],
    [why_cuda="no CUDA toolkit in $cuda_dir; --with-cuda=DIR"])
])

# BELAY_CHECK_NCCL sets have_nccl and why_nccl: NCCL is used beside CUDA only.
AC_DEFUN([BELAY_CHECK_NCCL], [
  have_nccl=no
  why_nccl="needs the symmetric path's CUDA"
])
