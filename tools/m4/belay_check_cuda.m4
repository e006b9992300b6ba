# SPDX-License-Identifier: Apache-2.0
# BELAY_CHECK_CUDA sets have_cuda and why_cuda, and for yes NVCC, NVCC_GENCODE, CUDA_CPPFLAGS and CUDA_LIBS.
# --with-cuda=DIR names the toolkit, --with-cuda-arch=LIST the GPUs. cudart is linked statically, so that the library
# loads where there is no CUDA and brings no second runtime into an application; the driver is found at run time.

AC_DEFUN([BELAY_CHECK_CUDA], [
  AC_ARG_WITH([cuda-arch],
    [AS_HELP_STRING([--with-cuda-arch=LIST],
      [compute capabilities to build kernels for @<:@80 90 120, those that nvcc knows@:>@])],
    [], [with_cuda_arch=auto])
  AC_ARG_VAR([NVCC], [CUDA compiler])
  AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags @<:@-O3@:>@])
  : ${NVCCFLAGS=-O3}
  AS_CASE([$with_cuda], [/*], [cuda_dir=$with_cuda], [cuda_dir=/usr/local/cuda])
  AS_IF([test -z "$NVCC"], [
    AS_IF([test -x "$cuda_dir/bin/nvcc"], [NVCC=$cuda_dir/bin/nvcc],
      [test "x$with_cuda" = xauto || test "x$with_cuda" = xyes], [
      AS_IF([belay_nvcc=`command -v nvcc`], [
        NVCC=$belay_nvcc
        cuda_dir=`dirname "$NVCC"`
        cuda_dir=`dirname "$cuda_dir"`])])])
  CUDA_LIBDIR=
  for belay_dir in lib64 lib targets/`uname -m`-linux/lib lib/`uname -m`-linux-gnu; do
    AS_IF([test -z "$CUDA_LIBDIR" && test -f "$cuda_dir/$belay_dir/libcudart_static.a"],
      [CUDA_LIBDIR=$cuda_dir/$belay_dir])
  done
  # The compilers search /usr/include by themselves, and in an order of their own.
  CUDA_CPPFLAGS=
  AS_IF([test "x$cuda_dir" != x/usr], [CUDA_CPPFLAGS="-isystem $cuda_dir/include"])
  CUDA_LIBS="-L$CUDA_LIBDIR -lcudart_static -ldl -lrt -lpthread"

  have_cuda=no
  AS_IF([test -z "$NVCC"], [why_cuda="nvcc not found in $cuda_dir/bin; --with-cuda=DIR"],
    [test ! -f "$cuda_dir/include/cuda_runtime.h"], [why_cuda="no cuda_runtime.h in $cuda_dir/include"],
    [test -z "$CUDA_LIBDIR"], [why_cuda="no libcudart_static.a in $cuda_dir"],
    [BELAY_CUDA_ARCH
     BELAY_TRY_NVCC])
  AC_SUBST([NVCC_GENCODE])
  AS_IF([test "x$have_cuda" = xno], [CUDA_CPPFLAGS= CUDA_LIBS=])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LIBS])
])

# BELAY_CUDA_ARCH makes NVCC_GENCODE and cuda_arch of those wanted: machine code for each, and PTX for other GPUs. Those
# that are asked for by name are not filtered. The kernels' source says the same for all from 90 on, and for all below:
# the first one's PTX is assembled for the others too, which saves the front end's time, and lets the PTX that is kept
# be made into code for as many GPUs as can be.
AC_DEFUN([BELAY_CUDA_ARCH], [
  cuda_arch=
  NVCC_GENCODE=
  belay_ptx_old=
  belay_ptx_new=
  belay_known=`"$NVCC" --list-gpu-arch 2>/dev/null`
  AS_IF([test "x$with_cuda_arch" = xauto], [belay_wanted="80 90 120"],
    [belay_wanted=`AS_ECHO(["$with_cuda_arch"]) | tr ',' ' '`])
  for belay_arch in $belay_wanted; do
    AS_IF([test "x$with_cuda_arch" != xauto || AS_ECHO(["$belay_known"]) | grep -qx "compute_$belay_arch"], [
      AS_CASE([$belay_arch],
        [*@<:@!0-9@:>@*], [belay_ptx=$belay_arch], dnl 90a and the like serve themselves only
        [@<:@1-8@:>@@<:@0-9@:>@], [belay_ptx=${belay_ptx_old:=$belay_arch}],
        [belay_ptx=${belay_ptx_new:=$belay_arch}])
      AS_CASE([$belay_arch], [*@<:@!0-9@:>@*], [],
        [AS_IF([test "$belay_arch" -lt "$belay_ptx"], [belay_ptx=$belay_arch])])
      cuda_arch="$cuda_arch${cuda_arch:+ }$belay_arch"
      NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$belay_ptx,code=sm_$belay_arch"])
  done
  NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$belay_ptx,code=compute_$belay_ptx"
])

# nvcc needs a C++ compiler that it likes, and knows the architectures, or not: seen by a trial only.
AC_DEFUN([BELAY_TRY_NVCC], [
  AC_MSG_CHECKING([whether $NVCC compiles for $cuda_arch])
  AS_ECHO(["__global__ void trial(int *p) { *p = 1; }"]) >conftest.cu
  AS_IF([AC_TRY_COMMAND([$NVCC $NVCC_GENCODE $NVCCFLAGS -std=c++17 -c -o conftest.cu.o conftest.cu >&AS_MESSAGE_LOG_FD 2>&1])],
    [have_cuda=yes why_cuda="$NVCC, for $cuda_arch"],
    [why_cuda="$NVCC cannot compile for $cuda_arch; see config.log"])
  rm -f conftest.cu conftest.cu.o
  AC_MSG_RESULT([$have_cuda])
])

# BELAY_CHECK_NCCL sets have_nccl, why_nccl and NCCL_CPPFLAGS. NCCL is used beside CUDA only, and only its header is
# needed: the library is loaded at run time. --with-nccl=DIR names the folder above include/.
AC_DEFUN([BELAY_CHECK_NCCL], [
  have_nccl=no
  NCCL_CPPFLAGS=
  AS_CASE([$with_nccl], [/*], [belay_dirs=$with_nccl], [belay_dirs="$cuda_dir /usr /usr/local"])
  AS_IF([test "x$have_cuda" != xyes], [why_nccl="needs the symmetric path's CUDA"], [
    why_nccl="nccl.h not found; --with-nccl=DIR"
    for belay_dir in $belay_dirs; do
      AS_IF([test "x$have_nccl" = xno && test -f "$belay_dir/include/nccl.h"], [
        have_nccl=yes
        why_nccl="$belay_dir/include/nccl.h"
        AS_CASE([$belay_dir], [/usr|/usr/local|$cuda_dir], [], [NCCL_CPPFLAGS="-isystem $belay_dir/include"])])
    done])
  AC_SUBST([NCCL_CPPFLAGS])
])
