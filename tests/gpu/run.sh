#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests on GPUs, in sets: see docs/testing.md. TAP on stdout, with a table of all parts and their times at the end.
#
#   tests/gpu/run.sh [--set SET]... [--build DIR] [--json FILE] [--ranks "2 4 8"] [--long] [--seconds N]
#                    [--racecheck-build DIR]
#
#   kernels    the kernels by themselves
#   kills      without MPS: ranks that are killed, stopped, or lose their context
#   mps        ranks share the GPU under MPS: all sizes and types, soaks, faults that are survived
#   threads    ranks are threads of one process
#   sanitizer  compute-sanitizer's memcheck, racecheck and synccheck on small runs
#   speed      times in graphs beside those of one by one; the figures are for people
#   all        all of them; the default is kills, mps, threads
#
# --long: soaks of 100,000 calls, and kills at each step in each position. --seconds: each set ends within so many; what it did not come to is
# skipped. --racecheck-build: for racecheck, built with NVCCFLAGS='-O3 -DSYMM_RACECHECK', which makes atomics of the words
# in shared memory that kernels poll; racecheck takes them for races otherwise. The table is printed when the script is
# interrupted, too. Exit status: 0 nothing failed, 1 something did, 2 usage, 77 no GPU is here.
set -u

build=${top_builddir:-.}
json=gpu-tests.json
sets=
rank_list="2 4 8"
long=${BELAY_TESTS_LONG:-0}
seconds=
racecheck_build=

usage()
{
	sed -n '5,19s/^# *//p' "$0" >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--set) [ $# -ge 2 ] || usage; sets="$sets $2"; shift ;;
	--set=*) sets="$sets ${1#*=}" ;;
	--build) [ $# -ge 2 ] || usage; build=$2; shift ;;
	--json) [ $# -ge 2 ] || usage; json=$2; shift ;;
	--ranks) [ $# -ge 2 ] || usage; rank_list=$2; shift ;;
	--long) long=1 ;;
	--seconds) [ $# -ge 2 ] || usage; seconds=$2; shift ;;
	--racecheck-build) [ $# -ge 2 ] || usage; racecheck_build=$2; shift ;;
	*) usage ;;
	esac
	shift
done
case $seconds in
*[!0-9]*) usage ;;
esac
sets=${sets:-kills mps threads}
for set in $sets; do
	case $set in
	all) sets="kernels kills mps threads sanitizer speed" ;;
	kernels | kills | mps | threads | sanitizer | speed) ;;
	*) usage ;;
	esac
done

if [ "$long" = 1 ]; then
	BELAY_TESTS_LONG=1
	export BELAY_TESTS_LONG
	soak=100000
else
	soak=10000
fi

over="the set's $seconds s are over"
# shellcheck source-path=SCRIPTDIR source=parts.sh
. "$(dirname "$0")/parts.sh"

# ---- sets -------------------------------------------------------------------------------------------------------------

set_kernels()
{
	programs "kernels" 180 "$build/tests/gpu/check_kernels"
}

set_kills()
{
	for n in 4 $([ "$long" = 1 ] && echo 2 8); do
		programs "faults, $n ranks" 240 env BELAY_GPU_RANKS="$n" "$build/tests/gpu/check_gpu_faults"
	done
	checks "bench: a rank killed in a graph is the verdict of all" 60 1 'peer_lost, rank 1 at fault; the same on all 3 ranks' \
		"$bench" --backend cuda --ranks 4 --graph --workload verify-pass --passes 30 --fault rank=1,seq=1500,kind=kill,at=wait
}

# sweep RANKS DTYPE BYTES OP: eager and in graphs.
sweep()
{
	checks "$1 ranks, $2 $4: every size has the right bits" 60 0 'rescues: ' \
		"$bench" --backend cuda --ranks "$1" --dtype "$2" --op "$4" --sizes "$(sizes_of "$3")" --iters 5 --warmup 3 --paths symm
	checks "$1 ranks, $2 $4: every size has the right bits in graphs" 60 0 'rescues: ' \
		"$bench" --backend cuda --ranks "$1" --dtype "$2" --op "$4" --sizes "$(sizes_of "$3")" --graph --calls-per-graph 10 --iters 3 \
		--warmup 2 --paths symm
}

set_mps()
{
	mps_start || { skip "MPS" "no MPS here: nvidia-cuda-mps-control"; return; }
	for n in $rank_list; do
		sweep "$n" bf16 2 sum
	done
	sweep 4 f32 4 sum
	sweep 4 f16 2 max
	sweep 4 f64 8 sum
	sweep 2 i32 4 prod
	sweep 2 i64 8 min
	sweep 2 u8 1 sum
	sweep 2 i8 1 max
	checks "2 ranks: calls of 8 MB on the symm path" 60 0 ' symm .* right$' env BELAY_SYMM_MAX=8M \
		"$bench" --backend cuda --ranks 2 --sizes 4M,8M --iters 5 --paths symm
	checks "2 ranks: large calls go on NCCL" 60 0 ' nccl .* right$' \
		"$bench" --backend cuda --ranks 2 --dtype i32 --sizes 4M,8M --iters 5
	checks "4 ranks in place: the right bits in graphs" 60 0 'rescues: ' \
		"$bench" --backend cuda --ranks 4 --in-place --graph --sizes 14336,112K,1M --calls-per-graph 20 --iters 3 --paths symm
	checks "first-seq near 2^32: passes through the wrap" 60 0 'rescues: ' \
		"$bench" --backend cuda --ranks 4 --first-seq 4294967000 --graph --sizes 14336,112K,1M --iters 3 --paths symm
	checks "a write lost in a replayed graph of 122 calls is one rescue" 60 0 '^rescues: 1$' \
		"$bench" --backend cuda --ranks 4 --graph --workload verify-pass --passes 10 --fault rank=1,seq=671,kind=drop
	for n in 2 4; do
		programs "calls, $n ranks" 300 env BELAY_GPU_RANKS="$n" \
			BELAY_GPU_SOAK="$([ "$n" = 4 ] && echo $soak || echo 2000)" "$build/tests/gpu/check_gpu_calls"
	done
	programs "pointers, captures" 120 "$build/tests/gpu/check_gpu_cuda"
}

set_threads()
{
	BELAY_GPU_THREADS=1
	export BELAY_GPU_THREADS
	for n in 2 4; do
		programs "calls, $n threads" 180 env BELAY_GPU_RANKS="$n" BELAY_GPU_SOAK=2000 \
			"$build/tests/gpu/check_gpu_calls"
	done
	programs "pointers, captures, threads" 120 "$build/tests/gpu/check_gpu_cuda"
	unset BELAY_GPU_THREADS
}

set_sanitizer()
{
	sanitizer memcheck 180
	sanitizer racecheck 180
	sanitizer synccheck 180
}

set_speed()
{
	mps_start || { skip "MPS" "no MPS here: nvidia-cuda-mps-control"; return; }
	keep_output=1
	for n in $rank_list; do
		checks "$n ranks: times in graphs" 60 0 'rescues: ' "$bench" --backend cuda --ranks "$n" --graph --paths symm \
			--log-dir "$work/log"
	done
	checks "2 ranks: host time of a call" 60 0 'launch_us' "$bench" --backend cuda --ranks 2 --eager-host-time \
		--sizes 14336,112K --paths symm
	keep_output=
}

# ---- all of it --------------------------------------------------------------------------------------------------------

[ -x "$bench" ] || { echo "Bail out! $bench is not there: build first, or give --build"; exit 1; }
gpu_here || exit 77
parts_begin
for set in $sets; do
	set_end=$(($(now_ms) + ${seconds:-0} * 1000))
	mps_lost=
	"set_$set"
	mps_stop
done
parts_end
