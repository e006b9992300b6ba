#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is asked for and missing stops configure; what is declined is left out; the summary gives reasons.
. "$top_srcdir/tests/support/tap.sh"

if [ "${BELAY_TESTS_LONG:-0}" = 0 ] && [ "${BELAY_TESTS_CONFIGURE:-0}" = 0 ]; then
	tap_skip "configure keeps its word" "takes long; set BELAY_TESTS_CONFIGURE=1"
	tap_end
	exit
fi
tap_folder
source=$(cd "$top_srcdir" && pwd)

# run FOLDER OPTIONS...: configures there; the first run's results serve the others as a cache.
run()
{
	mkdir -p "$tap_dir/$1" && cd "$tap_dir/$1" || return 1
	shift
	"$source/configure" --cache-file="$tap_dir/cache" "$@" >output 2>&1
}

declines()
{
	run declined --without-lttng --without-babeltrace --without-cuda || { tail -n 5 output; return 1; }
	grep 'tracepoints  *no (--without-lttng)' output && ! grep HAVE_LTTNG_UST config.h | grep define
}

# What is missing is named: the first option's part.
stops()
{
	! run refused "$@" || return 1
	grep -- "$1 was given, but\|${1%%=*} was given, but" output
}

without_gpus()
{
	run without_gpus --without-lttng --without-babeltrace --without-cuda || { tail -n 5 output; return 1; }
	grep 'symmetric path  *no (--without-cuda)' output && grep "nccl path  *no (needs the symmetric path's CUDA)" output &&
		! grep 'define HAVE_CUDA\|define HAVE_NCCL' config.h
}

tap_is "--without-lttng leaves tracepoints out and says why" declines
tap_is "--with-cuda=/nonexistent stops" stops --with-cuda=/nonexistent
tap_is "--with-cuda stops where nvcc does not know the GPU" stops --with-cuda --with-cuda-arch=1
tap_is "--with-nccl stops where there is no CUDA" stops --with-nccl --without-cuda
tap_is "--with-nccl=/nonexistent stops" stops --with-nccl=/nonexistent
tap_is "--without-cuda leaves GPUs and NCCL out and says why" without_gpus
tap_end
