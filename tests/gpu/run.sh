#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests on GPUs, in sets: see docs/testing.md. TAP on stdout, with a table of all parts and their times at the end.
#
#   tests/gpu/run.sh [--set SET]... [--build DIR] [--json FILE] [--ranks "2 4 8"] [--long] [--seconds N]
#                    [--racecheck-build DIR] [--python PYTHON]
#
#   kernels    the kernels by themselves
#   kills      without MPS: ranks that are killed, stopped, or lose their context
#   mps        ranks share the GPU under MPS: all sizes and types, soaks, faults that are survived
#   threads    ranks are threads of one process
#   sanitizer  compute-sanitizer's memcheck, racecheck and synccheck on small runs
#   speed      times in graphs beside those of one by one; the figures are for people
#   serving    PyTorch under libbelay-nccl, where there is one (--python): a transformer with and without, faults, status
#   hosts      the same transformer with its ranks dealt out to two and four hosts by BELAY_HOST_ID: NCCL's calls, watched (--python)
#   all        all of them; the default is kills, mps, threads
#
# --long: soaks of 100,000 calls, and kills at each step in each position. --seconds: each set ends within so many; what it did not come to is
# skipped. --racecheck-build: for racecheck, built with NVCCFLAGS='-O3 -DSYMM_RACECHECK', which makes atomics of the words
# in shared memory that kernels poll; racecheck takes them for races otherwise. The table is printed when the script is
# interrupted, too. Exit status: 0 nothing failed, 1 something did, 2 usage, 77 no GPU is here.
set -u

source_root=$(cd "$(dirname "$0")/../.." && pwd)
build=${top_builddir:-.}
json=gpu-tests.json
sets=
rank_list="2 4 8"
long=${BELAY_TESTS_LONG:-0}
seconds=
racecheck_build=
python=python3

usage()
{
	sed -n '5,21s/^# *//p' "$0" >&2
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
	--python) [ $# -ge 2 ] || usage; python=$2; shift ;;
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
	all) sets="kernels kills mps threads sanitizer speed serving hosts" ;;
	kernels | kills | mps | threads | sanitizer | speed | serving | hosts) ;;
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
	for n in 4 8; do
		checks "$n ranks: islands have the right bits" 60 0 ' island .* right$' \
			"$bench" --backend cuda --ranks "$n" --algorithm island --sizes 1K,14336,112K,1M,2M --iters 20 --paths symm
		checks "$n ranks: a write that islands lose in a graph is one rescue" 60 0 '^rescues: 1$' \
			"$bench" --backend cuda --ranks "$n" --algorithm island --graph --workload verify-pass --passes 10 --fault rank=1,seq=671,kind=drop
	done
	checks "4 ranks: slow pushes make turns of 1 MB pulled" 60 0 ' twoshot-pull .* right$' \
		"$bench" --backend cuda --ranks 4 --sizes 1M --iters 20 --paths symm --fault rank=1,kind=slow-push
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

# decodes NAME OPTION...: the transformer, with libbelay-nccl or ("plain") without; all ranks have the same logits. `tokens`: what it said.
decodes()
{
	name=$1
	preload="LD_PRELOAD=$build/.libs/libbelay-nccl.so"
	[ "$2" != plain ] || { preload=BELAY_DISABLE=1; shift; }
	shift
	checks "$name: the same logits on all ranks" 120 0 '"same_logits": true' \
		env "$preload" PYTHONPATH="$source_root/tools/python" "$python" "$source_root/tests/gpu/torch_transformer.py" "$@"
	tokens=$(sed -n 's/.*"tokens": "\([0-9a-f]*\)".*/\1/p' "$work/out" 2>/dev/null)
}

same_tokens()
{
	checks "$1: the same tokens" 5 0 '[0-9a-f]' expr "${2:-none}" : "\\(${3:-other}\\)\$"
}

# What killed ranks leave behind is MPS's to suffer from: so that comes last, and without.
set_serving()
{
	"$python" -c 'import torch' 2>/dev/null || { skip "PyTorch" "no PyTorch here: --python"; return; }
	mps_start || { skip "MPS" "no MPS here: nvidia-cuda-mps-control"; return; }
	keep_output=1
	for n in 2 4; do
		decodes "$n ranks in a graph, NCCL alone" plain --ranks "$n" --graph
		alone=$tokens
		decodes "$n ranks in a graph, with marks" --ranks "$n" --graph --marks
		with=$tokens
		[ "$n" != 2 ] || same_tokens "2 ranks in a graph, with belay and without" "$with" "$alone"
		BELAY_FAULT=rank=1,seq=300,kind=drop
		export BELAY_FAULT
		decodes "$n ranks in a graph, a write is lost" --ranks "$n" --graph --marks
		unset BELAY_FAULT
		same_tokens "$n ranks, a write is lost" "$tokens" "$with"
		decodes "$n ranks one by one, NCCL alone" plain --ranks "$n"
		decodes "$n ranks one by one" --ranks "$n"
	done
	with="LD_PRELOAD=$build/.libs/libbelay-nccl.so"
	collectives="$python $source_root/tests/gpu/torch_collectives.py"
	# shellcheck disable=SC2086 # program and argument
	for hosts in '' --hosts; do
		rm -rf "$work/log"
		checks "all collectives${hosts:+, each rank a host}: right" 90 0 '"right": true' \
			env "$with" BELAY_LOG_DIR="$work/log" $collectives $hosts
		for op in sum avg allgather reduce-scatter broadcast reduce; do
			checks "... and the trace has each: $op" 20 0 " $op .*graph" "$build/trace-analyze" calls "$work/log"
		done
	done
	# shellcheck disable=SC2086
	checks "all collectives, NCCL alone" 90 0 '"right": true' $collectives
	# shellcheck disable=SC2086
	checks "ranks that call different collectives are all told so" 90 0 '"after_ms".*mismatch.*"after_ms".*mismatch' \
		env "$with" $collectives --mismatch
	checks "by dlopen(), in NCCL's place" 60 0 '' "$python" "$source_root/tests/gpu/nccl_by_path.py" "$build/.libs/libbelay-nccl.so"
	mps_stop
	checks "belay-info on a job that works, is stopped, is killed" 120 0 '"right": true' \
		env "LD_PRELOAD=$build/.libs/libbelay-nccl.so" "$python" "$source_root/tests/gpu/torch_status.py" "$info"
	# shellcheck disable=SC2086
	checks "a rank killed in a gather of NCCL's is told to the others" 90 0 '"after_ms".*peer_lost.*"after_ms".*peer_lost' \
		env "$with" $collectives --ranks 3 --kill
	checks "a killed rank is told to the others" 120 0 'peer_lost' env "LD_PRELOAD=$build/.libs/libbelay-nccl.so" \
		"$python" "$source_root/tests/gpu/torch_transformer.py" --ranks 4 --kill 1:5
	keep_output=
}

# Watched calls are NCCL's own, so their tokens are NCCL's to the last. Deaths without MPS, as above.
set_hosts()
{
	"$python" -c 'import torch' 2>/dev/null || { skip "PyTorch" "no PyTorch here: --python"; return; }
	mps_start || { skip "MPS" "no MPS here: nvidia-cuda-mps-control"; return; }
	keep_output=1
	decodes "4 ranks in a graph, NCCL alone" plain --ranks 4 --graph
	alone=$tokens
	for n in 2 4; do
		decodes "4 ranks on $n hosts in a graph, with marks" --ranks 4 --hosts "$n" --graph --marks
		same_tokens "4 ranks on $n hosts" "$tokens" "$alone"
	done
	decodes "4 ranks on 2 hosts one by one" --ranks 4 --hosts 2
	mps_stop
	checks "a killed rank is told on its own host, and on the other" 120 0 'peer_lost: rank 3 (1 of this host)' \
		env "LD_PRELOAD=$build/.libs/libbelay-nccl.so" BELAY_GIVE_UP_MS=20000 BELAY_WARMUP_GIVE_UP_MS=20000 \
		"$python" "$source_root/tests/gpu/torch_transformer.py" --ranks 4 --hosts 2 --kill 3:5
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
