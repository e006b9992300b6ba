#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One call for a machine with 2 to 8 GPUs, a rank on each: builds, checks and measures within a given time; see
# docs/testing.md. TAP on stdout, then tables of the parts, of the times and of what is aimed at; all of it in a JSON file.
#
#   tests/gpu/multi.sh [--build DIR] [--ranks "2 4"] [--seconds N] [--only "SET..."] [--json FILE] [--long]
#                      [--rounds N] [--python PYTHON] [--racecheck-build DIR]
#
#   topology   how the GPUs are joined; what belay-info says; every path between all ranks, and between pairs
#   bits       all algorithms, types and sizes, in graphs and one by one
#   speed      belay beside NCCL, NCCL tuned and PyTorch: in graphs, with computing between the calls, one by one, and
#              without programmatic launch
#   lost       a write that is lost, one by one and in a replayed graph
#   kills      a rank killed at each step; what NCCL makes of that
#   fallback   no peer access, a self-test that fails, no NCCL: the path that is left, named
#   soak       a million calls; --long: and 100,000 one by one, of random sizes
#   calls      the scenarios of check_gpu_calls and check_gpu_cuda
#   sanitizer  compute-sanitizer on small runs
#
# --seconds: all is over within so many (470). The sets come in this order; each may take what the later ones do not need,
# and what there is no time for is shown as skipped. --build: a built tree, or a folder to build in (.). --ranks: one
# number of ranks or several (the number of GPUs). --played: over the GPU that is played on the CPU, to try this script.
# Exit status: 0 nothing failed, 1 something did, 2 usage, 77 there are no two GPUs here.
set -u

here=$(cd "$(dirname "$0")" && pwd)
source_root=$(cd "$here/../.." && pwd)
build=${top_builddir:-.}
json=multi-gpu.json
rank_list=
seconds=470
only=
long=${BELAY_TESTS_LONG:-0}
rounds=4
python=python3
racecheck_build=
played=
all_sets="topology bits speed lost kills fallback soak calls sanitizer"

help()
{
	sed -n '6,27s/^# \{0,3\}//p' "$0"
}

usage()
{
	help >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--long) long=1 ;;
	--played) played=1 ;;
	--help)
		help
		exit 0
		;;
	--*=*)
		value=${1#*=}
		option=${1%%=*}
		shift
		set -- "$option" "$value" "$@"
		continue
		;;
	*)
		[ $# -ge 2 ] || usage
		case $1 in
		--build) build=$2 ;;
		--ranks) rank_list=$2 ;;
		--seconds) seconds=$2 ;;
		--only) only=$2 ;;
		--json) json=$2 ;;
		--rounds) rounds=$2 ;;
		--python) python=$2 ;;
		--racecheck-build) racecheck_build=$2 ;;
		*) usage ;;
		esac
		shift
		;;
	esac
	shift
done
case $seconds$rounds in
*[!0-9]* | '') usage ;;
esac
for set in $only; do
	case " $all_sets " in
	*" $set "*) ;;
	*) usage ;;
	esac
done

# ---- what is here -----------------------------------------------------------------------------------------------------

# GPUs that programs may use, by their ordinals among all, between blanks. There may be nodes for more.
find_gpus()
{
	if [ -n "$played" ]; then
		echo 0 1
	elif [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
		echo "$CUDA_VISIBLE_DEVICES" | tr ',' ' '
	elif command -v nvidia-smi >/dev/null; then
		timeout 20 nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | grep -x '[0-9]*' | tr '\n' ' '
	else
		for node in /dev/nvidia[0-9]*; do
			[ -e "$node" ] && printf '%s ' "${node#/dev/nvidia}"
		done
	fi
}

gpus=$(find_gpus | sed 's/ *$//')
ngpus=$(echo "$gpus" | wc -w)
if [ "$ngpus" -lt 2 ]; then
	echo "1..0 # SKIP there are no two GPUs here"
	exit 77
fi
rank_list=${rank_list:-$((ngpus < 8 ? ngpus : 8))}
for n in $rank_list; do
	case $n in
	[2-8]) ;;
	*) usage ;;
	esac
	if [ "$n" -gt "$ngpus" ]; then
		echo "multi.sh: $n ranks and $ngpus GPUs: each rank needs one of its own" >&2
		exit 2
	fi
done

if [ -z "$played" ]; then
	CUDA_VISIBLE_DEVICES=$(echo "$gpus" | tr ' ' ',')
	export CUDA_VISIBLE_DEVICES
fi
program_calls=$build/tests/gpu/check_gpu_calls
program_cuda=$build/tests/gpu/check_gpu_cuda
program_faults=$build/tests/gpu/check_gpu_faults
peer_nccl=$build/tests/perf/peer_nccl
if [ -n "$played" ]; then
	bench=$build/tests/gpu/cpu_belay_bench
	program_calls=$build/tests/gpu/cpu_gpu_calls
	program_faults=$build/tests/gpu/cpu_gpu_faults
	BELAY_TEST_GPU_DEVICES=0,1
	# What is promised needs processors of one's own.
	BELAY_VERDICT_MS=${BELAY_VERDICT_MS:-5000}
	export BELAY_TEST_GPU_DEVICES BELAY_VERDICT_MS
fi
over="the $seconds s are over"
# shellcheck source-path=SCRIPTDIR source=parts.sh
. "$here/parts.sh"
if [ "$long" = 1 ]; then
	BELAY_TESTS_LONG=1
	export BELAY_TESTS_LONG
fi
if [ -n "$played" ]; then
	# A rank that the machine keeps waiting has not lost a write.
	BELAY_GRACE_MS=500
	export BELAY_GRACE_MS
fi
# Never here, whoever is measured.
NCCL_NVLS_ENABLE=0
TORCH_SYMM_MEM_DISABLE_MULTICAST=1
export NCCL_NVLS_ENABLE TORCH_SYMM_MEM_DISABLE_MULTICAST

# ---- time -------------------------------------------------------------------------------------------------------------

# What a set needs for the best of it, s, of the default 470.
needs()
{
	case $1 in
	topology) echo 15 ;;
	bits) echo 80 ;;
	speed) echo 160 ;;
	lost) echo 20 ;;
	kills) echo 50 ;;
	fallback) echo 35 ;;
	soak) echo 20 ;;
	calls) echo 34 ;;
	sanitizer) echo 40 ;;
	esac
}

# set_limit SET...: sets set_end for the first of these sets: the others have what they need, or their part of what is left.
set_limit()
{
	own=$(needs "$1")
	all=0
	for later; do
		all=$((all + $(needs "$later")))
	done
	left=$((all_end - $(now_ms)))
	kept=$(((all - own) * 1000))
	if [ $((all * 1000)) -gt "$left" ]; then
		kept=$((left * (all - own) / all))
	fi
	set_end=$((all_end - kept))
}

# figure WHAT VALUE UNIT AIM: of what people want to read; "-": not known.
figure()
{
	printf '%-74s %10s %-4s %8s\n' "$1" "$2" "$3" "$4" >>"$work/figures"
	printf '{"figure":"%s","value":%s,"unit":"%s","aim":%s}\n' "$1" "$(echo "$2" | sed 's/^-$/null/')" "$3" \
		"$(echo "$4" | sed 's/^-$/null/')" >>"$work/figure-rows"
}

# ---- building ---------------------------------------------------------------------------------------------------------

# The compute capability of the first GPU, as nvcc calls it.
architecture()
{
	nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/\.//p'
}

# shellcheck disable=SC2317 # called by name
build_all()
{
	mkdir -p "$build" || return
	if [ ! -x "$source_root/configure" ]; then
		(cd "$source_root" && autoreconf -fi) || return
	fi
	cd "$build" || return
	if [ ! -e Makefile ]; then
		"$source_root/configure" --with-cuda-arch="$(architecture)" || return
	fi
	make -j "$(nproc)" belay-bench belay-info trace-analyze tests/perf/peer_nccl tests/gpu/check_gpu_calls \
		tests/gpu/check_gpu_cuda tests/gpu/check_gpu_faults
}

set_build()
{
	checks "it builds" "$((seconds * 2 / 3))" 0 '' build_all
	[ "$failed" = 0 ] && return
	echo "Bail out! nothing to test"
	exit 1
}

# ---- sets -------------------------------------------------------------------------------------------------------------

tell()
{
	timeout 20 "$@" 2>/dev/null | sed 's/^/# /'
}

# nth_gpu N: the GPU that rank N is on.
nth_gpu()
{
	echo "$gpus" | cut -d ' ' -f "$(($1 + 1))"
}

set_topology()
{
	tell nvidia-smi --query-gpu=index,name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv
	tell nvidia-smi topo -m
	timeout 20 "$info" 2>/dev/null | sed -e '/^settings/,$d' -e 's/^/# /'
	timeout 20 "$info" --format=json >"$work/machine" 2>/dev/null && extra machine "$work/machine"
	[ -z "$played" ] || return 0
	keep_output=1
	for n in $rank_list; do
		checks "$n ranks: calls on every path are right" 60 0 'symm  works' "$info" --probe --ranks "$n"
	done
	keep_output=
	# Each GPU with the first: more pairs take more time than they tell.
	for n in $([ "$ngpus" -gt 2 ] && seq 1 $((ngpus - 1))); do
		checks "GPUs $(nth_gpu 0) and $(nth_gpu "$n"): calls are right" 30 0 'symm  works' env BELAY_PATHS=symm \
			CUDA_VISIBLE_DEVICES="$(nth_gpu 0),$(nth_gpu "$n")" "$info" --probe --ranks 2
	done
}

# Passes of all types and sizes: one run of belay-bench for all of them, since starting ranks takes most of the time.
all_types()
{
	for type in bf16:2 f16:2 f32:4 f64:8 i32:4 i64:8 u8:1 i8:1; do
		width=${type#*:}
		for bytes in $(sizes_of "$width" | tr ',' ' '); do
			case $bytes in
			*K) bytes=$((${bytes%K} * 1024)) ;;
			*M) bytes=$((${bytes%M} * 1048576)) ;;
			esac
			echo "repeat=2 calls=5 count=$((bytes / width)) dtype=${type%:*} gap_us=0"
		done
	done
}

# types NAME OPTION...: in graphs or one by one, as the options say.
types()
{
	name=$1
	shift
	checks "$n ranks, all types and sizes: the right bits, $name" 90 0 '^rescues: 0$' \
		"$bench" --backend cuda --ranks "$n" --workload "$work/types" --paths symm "$@"
}

set_bits()
{
	all_types >"$work/types"
	for n in $rank_list; do
		for algorithm in oneshot-packets oneshot-wire twoshot-wire twoshot-pull island; do
			types "$algorithm, in graphs" --graph --algorithm "$algorithm" --blocks 64
			types "$algorithm" --algorithm "$algorithm" --blocks 64
		done
		for op in sum max prod min; do
			types "$op, in graphs" --graph --op "$op"
			types "$op" --op "$op"
		done
		checks "$n ranks: calls of 8 MB on the symm path" 60 0 ' symm .* right$' env BELAY_SYMM_MAX=8M \
			"$bench" --backend cuda --ranks "$n" --sizes 4M,8M --iters 5 --paths symm
		[ -n "$played" ] || checks "$n ranks: large calls go on NCCL" 60 0 ' nccl .* right$' \
			"$bench" --backend cuda --ranks "$n" --dtype i32 --sizes 4M,8M --iters 5
		checks "$n ranks in place: the right bits in graphs" 60 0 'rescues: ' \
			"$bench" --backend cuda --ranks "$n" --in-place --graph --sizes 14336,112K,1M --calls-per-graph 20 --iters 3 --paths symm
		checks "$n ranks: passes through the wrap of their numbers" 60 0 'rescues: ' \
			"$bench" --backend cuda --ranks "$n" --first-seq 4294967000 --graph --sizes 14336,112K,1M --iters 3 --paths symm
	done
}

set_speed()
{
	[ -z "$played" ] || { skip "times side by side" "the GPU is played"; return; }
	command -v "$python" >/dev/null || { skip "times side by side" "no $python"; return; }
	may_run "times side by side" "$seconds" || return 0
	time_for_it=$((cap > 20 ? cap - 5 : cap))
	checks "times side by side" "$cap" 0 '^| graph' "$python" "$source_root/tests/perf/gpu_side_by_side.py" --build "$build" \
		--ranks "$(echo "$rank_list" | tr ' ' ',')" --sizes 14336,16K,64K,112K,256K,512K,1M,2M,8M --modes graph,gap,eager,plain \
		--rounds "$rounds" --replays 50 --seconds "$time_for_it" --belay=--buffers=1 --json "$work/speed"
	cat "$work/out" >"$work/times"
	extra speed "$work/speed"
}

# slowest_call LOG: us, of those that were rescued.
slowest_call()
{
	"$build/trace-analyze" calls --slower-than 5000 "$1" 2>/dev/null |
		awk '/ rescued / && $6 > most { most = $6 } END { if (most) printf "%.1f\n", most; else print "-" }'
}

# How long the call of a lost write took beyond soft deadline and grace: 12 ms.
figure_rescue()
{
	took=$(slowest_call "$2")
	if [ "$took" != - ]; then
		took=$(echo "$took" | awk '{ printf "%.2f\n", $1 / 1000 - 12 }')
	fi
	figure "$1" "$took" ms "$3"
}

set_lost()
{
	printf 'repeat=8 calls=122 count=524288 dtype=bf16 gap_us=0\n' >"$work/large"
	via=nccl
	[ -z "$played" ] || via=ring
	for n in $rank_list; do
		log=$work/lost$n
		checks "$n ranks: a write lost in a replayed graph of 122 calls is one rescue" 60 0 '^rescues: 1$' \
			"$bench" --backend cuda --ranks "$n" --graph --workload verify-pass --passes 10 --fault rank=1,seq=671,kind=drop
		checks "$n ranks, 1 MB: a write lost in a replayed graph is one rescue" 60 0 '^rescues: 1$' \
			"$bench" --backend cuda --ranks "$n" --graph --workload "$work/large" --fault rank=1,seq=671,kind=drop --log-dir "$log-graph"
		checks "$n ranks, 1 MB: it went over $via, says the trace" 30 1 "finished over $via" "$build/trace-analyze" "$log-graph"
		figure_rescue "$n ranks, 1 MB in a graph: from deadline to released" "$log-graph" 0.5
		checks "$n ranks, 1 MB: a write lost one by one is one rescue" 60 0 '^rescues: 1$' \
			"$bench" --backend cuda --ranks "$n" --sizes 1M --iters 30 --warmup 5 --fault rank=1,seq=20,kind=drop --log-dir "$log-eager"
		figure_rescue "$n ranks, 1 MB one by one: from deadline to released" "$log-eager" 0.5
	done
}

set_kills()
{
	for n in $rank_list; do
		programs "faults, $n ranks" 240 env BELAY_GPU_RANKS="$n" "$program_faults"
		latest=$(sed -n 's/^# verdict[a-z ]* \([0-9.]*\) ms.*/\1/p' "$work/out" 2>/dev/null | sort -n | tail -n 1)
		figure "$n ranks: the latest verdict after a kill" "${latest:--}" ms 50
		checks "$n ranks: a rank killed in a graph is the verdict of the others" 60 1 'peer_lost, rank 1 at fault' \
			"$bench" --backend cuda --ranks "$n" --graph --workload verify-pass --passes 30 --fault rank=1,seq=1500,kind=kill,at=wait
	done
	[ -z "$played" ] || return 0
	n=${rank_list%% *}
	checks "NCCL beside it: a rank killed in a graph" 40 0 noticed_ms "$peer_nccl" --kill --ranks "$n" --sizes 1M
	noticed=$(sed -n 's/.*"noticed_ms": \([0-9.]*\).*/\1/p' "$work/out" 2>/dev/null)
	figure "$n ranks: NCCL notices a killed rank (-: not in 3 s)" "${noticed:--}" ms -
}

# falls_back NAME PATH FAULT OPTION...: calls are right on that path, and the trace says from which they came.
falls_back()
{
	name=$1 path=$2 fault=$3
	shift 3
	rm -rf "$work/fallback"
	checks "$name: calls are right on $path" 60 0 " $path .* right\$" \
		env "$@" "$bench" --backend cuda --ranks "$n" --sizes 14336,1M --iters 5 --fault "$fault" --log-dir "$work/fallback"
	checks "$name: the trace says so" 30 0 "took $path in place of symm" "$build/trace-analyze" "$work/fallback"
}

# Each rank sees its own GPU and no other, as under launchers that set CUDA_VISIBLE_DEVICES for each process.
each_alone()
{
	own=$(echo "$gpus" | cut -d ' ' -f "1-$n" | tr ' ' ',')
	programs "$n ranks that see their own GPU alone" 60 env CK_RUN_CASE=graphs BELAY_GPU_RANKS="$n" \
		BELAY_GPU_ALONE="$own" "$program_faults"
}

set_fallback()
{
	next=nccl
	[ -z "$played" ] || next=ring
	for n in $rank_list; do
		each_alone
		falls_back "$n ranks, no peer access" "$next" 'rank=*,kind=map-fail' NCCL_P2P_DISABLE=1
		falls_back "$n ranks, one cannot map" "$next" rank=1,kind=map-fail BELAY_LOG=warn
		falls_back "$n ranks, a self-test fails" "$next" rank=1,kind=selftest BELAY_LOG=warn
		falls_back "$n ranks, no peer access and no NCCL" ring 'rank=*,kind=map-fail' BELAY_NCCL_LIBRARY=/nonexistent
		[ -z "$played" ] || continue
		keep_output=1
		checks "$n ranks, no peer access: belay-info names the path and the reason" 60 1 'symm  FAILS: .*mapping the regions failed' \
			env BELAY_FAULT='rank=*,kind=map-fail' "$info" --probe --ranks "$n"
		keep_output=
	done
}

set_soak()
{
	for n in $rank_list; do
		checks "$n ranks: a million calls in graphs are right" 120 0 '^rescues: 0$' \
			"$bench" --backend cuda --ranks "$n" --graph --sizes 14336,64K,112K,256K,1M --iters "$([ -n "$played" ] && echo 2 || echo 820)" \
			--log-dir "$work/soak$n"
		checks "$n ranks: their trace is sound" 30 0 '' "$build/trace-analyze" "$work/soak$n"
		rm -rf "$work/soak$n"
		[ "$long" = 1 ] || continue
		programs "soak one by one, $n ranks" 200 env CK_RUN_CASE=soaks BELAY_GPU_RANKS="$n" BELAY_GPU_SOAK=100000 "$program_calls"
	done
}

set_calls()
{
	for n in $rank_list; do
		programs "calls, $n ranks" 200 env BELAY_GPU_RANKS="$n" BELAY_GPU_SOAK=2000 "$program_calls"
	done
	[ -z "$played" ] || return 0
	programs "pointers, captures" 120 env BELAY_GPU_RANKS=2 "$program_cuda"
}

set_sanitizer()
{
	[ -z "$played" ] || { skip "compute-sanitizer" "the GPU is played"; return; }
	sanitizer memcheck 90
	sanitizer racecheck 90
	sanitizer synccheck 90
}

# ---- all of it --------------------------------------------------------------------------------------------------------

# What stands behind the table of the parts, and in the file.
closing()
{
	{
		printf '%-74s %10s %-4s %8s\n' figure value unit aim
		cat "$work/figures"
		cat "$work/times"
	} >>"$work/tables"
	{
		echo '['
		sed '$!s/$/,/' "$work/figure-rows"
		echo ']'
	} >"$work/figures.json"
	extra figures "$work/figures.json"
}

: >"$work/figures"
: >"$work/figure-rows"
: >"$work/times"
parts_begin
# A part that hangs has to be ended within the time as well.
all_end=$((started + (seconds - end_seconds) * 1000))
end_seconds=0
set_end=$all_end
if [ ! -x "$bench" ] || [ ! -x "$build/trace-analyze" ]; then
	set=build
	set_build
fi
[ -n "$played" ] || gpu_here || exit 77
# shellcheck disable=SC2086 # a list
set -- ${only:-$all_sets}
while [ $# -gt 0 ]; do
	set=$1
	set_limit "$@"
	"set_$set"
	shift
done
parts_end
