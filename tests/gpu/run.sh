#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests on GPUs, in sets: see docs/testing.md. TAP on stdout, with a table of all parts and their times at the end.
#
#   tests/gpu/run.sh [--set SET]... [--build DIR] [--json FILE] [--ranks "2 4 8"] [--long]
#
#   kernels    the kernels by themselves
#   kills      without MPS: ranks that are killed, stopped, or lose their context
#   mps        ranks share the GPU under MPS: all sizes and types, soaks, faults that are survived
#   threads    ranks are threads of one process
#   sanitizer  compute-sanitizer's memcheck, racecheck and synccheck on small runs
#   speed      times in graphs beside those of one by one; the figures are for people
#   all        all of them; the default is kills, mps, threads
#
# --long: soaks of 100,000 calls, and kills at each step in each position. Exit status: 0 nothing failed, 1 something did, 2 usage, 77 no GPU is here.
set -u

build=${top_builddir:-.}
json=gpu-tests.json
sets=
rank_list="2 4 8"
long=${BELAY_TESTS_LONG:-0}

usage()
{
	sed -n '5,16s/^# *//p' "$0" >&2
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
	*) usage ;;
	esac
	shift
done
sets=${sets:-kills mps threads}
for set in $sets; do
	case $set in
	all) sets="kernels kills mps threads sanitizer speed" ;;
	kernels | kills | mps | threads | sanitizer | speed) ;;
	*) usage ;;
	esac
done

# The library's own variables would change what is tested.
for variable in $(env | sed -n 's/^\(BELAY_[A-Z_]*\)=.*/\1/p'); do
	case $variable in
	BELAY_TESTS_* | BELAY_GPU_* | BELAY_SEED | BELAY_VERDICT_MS) ;;
	*) unset "$variable" ;;
	esac
done
BELAY_LOG=off
export BELAY_LOG
if [ "$long" = 1 ]; then
	BELAY_TESTS_LONG=1
	export BELAY_TESTS_LONG
	soak=100000
else
	soak=10000
fi

bench=$build/belay-bench
work=$(mktemp -d) || exit 1
count=0
failed=0
mps=

mps_stop()
{
	[ -n "$mps" ] || return 0
	echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1
	unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	mps=
}

finish()
{
	mps_stop
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# A daemon of our own, by folders that nobody else knows.
mps_start()
{
	CUDA_MPS_PIPE_DIRECTORY=$work/mps
	CUDA_MPS_LOG_DIRECTORY=$work/mps-log
	export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
	if ! command -v nvidia-cuda-mps-control >/dev/null || ! timeout 20 nvidia-cuda-mps-control -d; then
		unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
		return 1
	fi
	mps=1
}

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

# note NAME SECONDS PASSED FAILED SKIPPED: a row of the table and of the JSON file.
note()
{
	printf '%-10s %-58s %8s %6s %6s %7s\n' "$set" "$1" "$2" "$3" "$4" "$5" >>"$work/table"
	printf '{"set":"%s","part":"%s","seconds":%s,"passed":%s,"failed":%s,"skipped":%s}\n' "$set" "$1" "$2" "$3" "$4" "$5" \
		>>"$work/rows"
}

show_output()
{
	sed 's/^/# /' "$work/out" "$work/err"
}

# TAP of a program under numbers of our own; an end before its plan, or by the cap, is a failure.
retell()
{
	retell_passed=0
	retell_failed=0
	retell_skipped=0
	while IFS= read -r line; do
		case $line in
		"ok "* | "not ok "*)
			count=$((count + 1))
			text=${line#*- }
			case $line in
			*"# SKIP"*) retell_skipped=$((retell_skipped + 1)) ;;
			"ok "*) retell_passed=$((retell_passed + 1)) ;;
			*) retell_failed=$((retell_failed + 1)) ;;
			esac
			echo "${line%%ok *}ok $count - $1: $text"
			;;
		1..*) ;;
		"#"*) echo "$line" ;;
		*) echo "# $line" ;;
		esac
	done <"$work/out"
	sed 's/^/# /' "$work/err"
}

# programs NAME CAP COMMAND...: a Check program, all its tests.
programs()
{
	part=$1
	cap=$2
	shift 2
	begin=$(now_ms)
	status=0
	CK_TAP_LOG_FILE_NAME=- CK_VERBOSITY=silent timeout -k 10 "$cap" "$@" >"$work/out" 2>"$work/err" || status=$?
	retell "$part"
	if [ $status != 0 ] && [ $retell_failed = 0 ] && [ $status != 77 ]; then
		count=$((count + 1))
		retell_failed=1
		echo "not ok $count - $part: it comes to its end (status $status, cap $cap s)"
	fi
	failed=$((failed + retell_failed))
	note "$part" "$(seconds_since "$begin")" $retell_passed $retell_failed $retell_skipped
}

seconds_since()
{
	ms=$(($(now_ms) - $1))
	echo "$((ms / 1000)).$((ms % 1000 / 100))"
}

# checks NAME CAP STATUS PATTERN COMMAND...: one test: that status, and a line of the output that matches.
checks()
{
	part=$1
	cap=$2
	wanted=$3
	pattern=$4
	shift 4
	begin=$(now_ms)
	status=0
	timeout -k 10 "$cap" "$@" >"$work/out" 2>"$work/err" || status=$?
	count=$((count + 1))
	if [ $status = "$wanted" ] && grep -q "$pattern" "$work/out"; then
		echo "ok $count - $part"
		note "$part" "$(seconds_since "$begin")" 1 0 0
	else
		echo "not ok $count - $part"
		echo "# status $status; $*"
		show_output
		failed=$((failed + 1))
		note "$part" "$(seconds_since "$begin")" 0 1 0
	fi
	if [ -n "${keep_output:-}" ]; then
		sed 's/^/# /' "$work/out"
	fi
}

skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
	note "$1" 0.0 0 0 1
}

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

# sizes_of BYTES-OF-AN-ELEMENT: small, odd and large ones.
sizes_of()
{
	w=$1
	echo "$w,$((3 * w)),$((7 * w)),$((1023 * w)),14336,$((4097 * w)),112K,256K,$((131071 * w)),1M,2M"
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
	mps_stop
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
	command -v compute-sanitizer >/dev/null || { skip "compute-sanitizer" "no compute-sanitizer here"; return; }
	# Ranks are children that execute the program anew. Deadlines are far: everything is slow.
	BELAY_LATE_MS=5000
	export BELAY_LATE_MS
	for tool in memcheck racecheck synccheck; do
		checks "$tool finds nothing in calls of all algorithms" 180 0 'right$' \
			compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 "$bench" --backend cuda --ranks 2 \
			--sizes 14,4096,64K,256K,1M --iters 2 --warmup 1 --paths symm
		checks "$tool finds nothing in types that go in packets and pull" 180 0 'right$' \
			compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 "$bench" --backend cuda --ranks 2 --dtype i64 \
			--sizes 8,4096,256K,1M --iters 2 --warmup 1 --paths symm
	done
	unset BELAY_LATE_MS
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
	mps_stop
}

# ---- all of it --------------------------------------------------------------------------------------------------------

[ -x "$bench" ] || { echo "Bail out! $bench is not there: build first, or give --build"; exit 1; }
if ! timeout 60 "$bench" --backend cuda --ranks 1 --sizes 2 --iters 1 --warmup 0 >/dev/null 2>"$work/err"; then
	if grep -q 'backend cuda' "$work/err"; then
		echo "1..0 # SKIP $(sed -n 1p "$work/err")"
		exit 77
	fi
fi
: >"$work/table"
: >"$work/rows"
started=$(now_ms)
for set in $sets; do
	"set_$set"
done
echo "1..$count"
printf '# %-10s %-58s %8s %6s %6s %7s\n' set part seconds passed failed skipped
sed 's/^/# /' "$work/table"
echo "# $(seconds_since "$started") seconds in all, $failed failed"
{
	printf '{"seconds":%s,"failed":%s,"parts":[' "$(seconds_since "$started")" "$failed"
	sed '$!s/$/,/' "$work/rows"
	echo ']}'
} >"$json" || exit 1
[ "$failed" = 0 ]
