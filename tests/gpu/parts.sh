# SPDX-License-Identifier: Apache-2.0
# Parts of a long test on GPUs: each with a hard cap, none of them left running, MPS where it is wanted, and TAP, a table
# and a JSON file of what came out. Read in by run.sh and multi.sh behind `build`, `json` and `seconds`:
#
#   parts_begin; set=NAME set_end=MS; programs ...; checks ...; skip ...; parts_end
#
# `seconds` empty: nothing but the caps bounds a part. Else what cannot end by `set_end` (as now_ms() counts) is cut or
# skipped, and `over` says why.
# shellcheck shell=sh

bench=${bench:-$build/belay-bench}
info=$build/belay-info
work=$(mktemp -d) || exit 1
count=0
failed=0
started= # ms; empty: no set has begun
running= # the part that runs: a subshell of this script
mps=
mps_lost= # it does not come back
mps_round=0
interrupted=
# 10 s for a part that hangs to end by itself once it is asked to, then 5 s once it is killed; tenths of a second.
end_tenths=100
kill_tenths=50
# What is kept for that, s.
end_seconds=16

# The library's own variables would change what is tested.
for variable in $(env | sed -n 's/^\(BELAY_[A-Z_]*\)=.*/\1/p'); do
	case $variable in
	BELAY_TESTS_* | BELAY_GPU_* | BELAY_SEED | BELAY_VERDICT_MS) ;;
	*) unset "$variable" ;;
	esac
done
BELAY_LOG=off
export BELAY_LOG

# ---- processes that this script has started ---------------------------------------------------------------------------

children_of()
{
	pgrep -P "$1" 2>/dev/null || cat "/proc/$1/task/$1/children" 2>/dev/null
}

# All below it, each after its parent.
descendants_of()
{
	for child in $(children_of "$1"); do
		echo "$child"
		(descendants_of "$child")
	done
}

signal_all()
{
	signal=$1
	shift
	for pid; do
		kill "-$signal" "$pid" 2>/dev/null
	done
}

# What each rank of a part that hangs waits for.
tell_where()
{
	for pid in $(descendants_of "$running"); do
		if timeout 5 "$info" --process "$pid" >"$work/where" 2>/dev/null && [ -s "$work/where" ]; then
			echo "# process $pid:"
			sed 's/^/#   /' "$work/where"
		fi
	done
}

# Ends the part that runs; 10 s to do so by itself. What not even KILL ends is left behind.
end_part()
{
	mine=$(descendants_of "$running")
	# shellcheck disable=SC2086 # a list
	signal_all TERM $mine
	await_status $end_tenths && return
	# shellcheck disable=SC2046,SC2086
	signal_all KILL $mine $(descendants_of "$running")
	await_status $kill_tenths
}

# await_status TENTHS: true when the part has ended before that.
await_status()
{
	tenths=$1
	while [ ! -e "$work/status" ]; do
		[ "$tenths" -gt 0 ] || return 1
		tenths=$((tenths - 1))
		sleep 0.1
	done
}

# attempt CAP COMMAND...: its output in out and err; `status`, 124 when it took longer than the cap; `hung`.
attempt()
{
	cap=$1
	shift
	rm -f "$work/status"
	{
		ended=0
		"$@" >"$work/out" 2>"$work/err" || ended=$?
		echo $ended >"$work/status.new"
		mv "$work/status.new" "$work/status"
	} &
	running=$!
	hung=
	if await_status $((cap * 10)); then
		status=$(cat "$work/status")
	else
		hung=1
		status=124
		tell_where
		end_part
	fi
	running=
}

# ---- MPS --------------------------------------------------------------------------------------------------------------

is_mps()
{
	case $(cat "/proc/${1:-none}/comm" 2>/dev/null) in
	nvidia-cuda-mps*) return 0 ;;
	esac
	return 1
}

# The daemon is found by its own note in a folder that is ours.
mps_stop()
{
	[ -n "$mps" ] || return 0
	daemon=$(cat "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid" 2>/dev/null)
	echo quit | timeout 10 nvidia-cuda-mps-control >/dev/null 2>&1
	tenths=20
	while is_mps "$daemon" && [ $tenths -gt 0 ]; do
		tenths=$((tenths - 1))
		sleep 0.1
	done
	if is_mps "$daemon"; then
		# shellcheck disable=SC2046 # a list
		signal_all KILL $(descendants_of "$daemon") "$daemon"
	fi
	unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	mps=
}

# A daemon of our own, by folders that nobody else knows, and that no earlier one has used.
mps_start()
{
	mps_round=$((mps_round + 1))
	CUDA_MPS_PIPE_DIRECTORY=$work/mps$mps_round
	CUDA_MPS_LOG_DIRECTORY=$work/mps-log$mps_round
	export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
	if ! command -v nvidia-cuda-mps-control >/dev/null || ! timeout 20 nvidia-cuda-mps-control -d >/dev/null 2>&1; then
		unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
		return 1
	fi
	mps=1
}

# A client that hung or was killed may leave a server that takes no other: the parts behind it get a new one.
mps_refresh()
{
	[ -n "$mps" ] || return 0
	[ -n "$hung" ] || grep -q 'busy or unavailable' "$work/out" "$work/err" || return 0
	echo "# MPS is started anew"
	mps_stop
	mps_start || mps_lost=1
}

# ---- parts ------------------------------------------------------------------------------------------------------------

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

# note NAME SECONDS PASSED FAILED SKIPPED: a row of the table and of the JSON file.
note()
{
	printf '%-10s %-74s %8s %6s %6s %7s\n' "$set" "$1" "$2" "$3" "$4" "$5" >>"$work/table"
	printf '{"set":"%s","part":"%s","seconds":%s,"passed":%s,"failed":%s,"skipped":%s}\n' "$set" "$1" "$2" "$3" "$4" "$5" \
		>>"$work/rows"
}

# extra NAME FILE: what the JSON file has besides the parts; a JSON document.
extra()
{
	if [ -s "$2" ]; then
		printf ',"%s":' "$1"
		cat "$2"
	fi >>"$work/extra"
}

table()
{
	printf '# %-10s %-74s %8s %6s %6s %7s\n' set part seconds passed failed skipped
	sed 's/^/# /' "$work/table"
	echo "# $(seconds_since "$started") seconds in all, $failed failed${interrupted:+, interrupted}"
	sed 's/^/# /' "$work/tables"
	{
		printf '{"seconds":%s,"failed":%s,"interrupted":%s,"parts":[' "$(seconds_since "$started")" "$failed" "${interrupted:-false}"
		sed '$!s/$/,/' "$work/rows"
		echo ']'
		cat "$work/extra"
		echo '}'
	} >"$json"
}

# Whatever the end: nothing of ours runs on, and what is known is told. A script may have something to add: closing().
finish()
{
	ending=$?
	trap '' HUP INT TERM
	[ -z "$running" ] || end_part
	mps_stop
	if [ -n "$started" ]; then
		if command -v closing >/dev/null; then
			closing
		fi
		table || ending=1
	fi
	rm -rf "$work"
	exit $ending
}

interrupt()
{
	interrupted=true
	[ -z "$started" ] || echo "Bail out! interrupted"
	exit 1
}
trap finish EXIT
trap interrupt HUP INT TERM

# From here on what came out is told, whatever happens.
parts_begin()
{
	: >"$work/table"
	: >"$work/rows"
	: >"$work/extra"
	: >"$work/tables" # what is to be shown behind that of the parts
	started=$(now_ms)
}

# The plan, and the status of the script.
parts_end()
{
	echo "1..$count"
	[ "$failed" = 0 ]
}

show_output()
{
	tail -n 200 "$work/out" | sed 's/^/# /'
	tail -n 200 "$work/err" | sed 's/^/# /'
}

# may_run NAME CAP: false, and the part is skipped, where it cannot run any more; else `cap`, which the set's end may shorten: then `cut`.
may_run()
{
	cap=$2
	cut=
	if [ -n "$mps_lost" ]; then
		skip "$1" "MPS does not start any more"
		return 1
	fi
	[ -n "$seconds" ] || return 0
	left=$(((set_end - $(now_ms)) / 1000 - end_seconds))
	if [ $left -le 0 ]; then
		skip "$1" "$over"
		return 1
	fi
	if [ $left -lt "$cap" ]; then
		cap=$left
		cut=1
	fi
}

# TAP of a program under numbers of our own. What it skips it may say on a line before the test's.
retell()
{
	retell_passed=0
	retell_failed=0
	retell_skipped=0
	reason=
	while IFS= read -r line; do
		case $line in
		"# SKIP "*) reason=" $line" ;;
		"ok "* | "not ok "*)
			count=$((count + 1))
			text="${line#*- }$reason"
			case $line$reason in
			"not ok "*) retell_failed=$((retell_failed + 1)) ;;
			*"# SKIP"*) retell_skipped=$((retell_skipped + 1)) ;;
			*) retell_passed=$((retell_passed + 1)) ;;
			esac
			echo "${line%%ok *}ok $count - $1: $text"
			reason=
			;;
		1..*) ;;
		"#"*) echo "$line" ;;
		*) echo "# $line" ;;
		esac
	done <"$work/out"
	sed 's/^/# /' "$work/err"
}

# Not the part's own cap has ended it.
was_cut()
{
	[ -n "$hung" ] && [ -n "$cut" ]
}

# programs NAME CAP COMMAND...: a Check program, all its tests; an end before its plan, or by the cap, is a failure. In a
# session of its own, since Check hands a signal that ends it on to its whole process group.
programs()
{
	part=$1
	may_run "$1" "$2" || return 0
	shift 2
	begin=$(now_ms)
	attempt "$cap" setsid env CK_TAP_LOG_FILE_NAME=- CK_VERBOSITY=silent "$@"
	retell "$part"
	if was_cut; then
		count=$((count + 1))
		retell_skipped=$((retell_skipped + 1))
		echo "ok $count - $part: the rest of it # SKIP cut short after $cap s: $over"
	elif [ "$status" != 0 ] && [ $retell_failed = 0 ] && [ "$status" != 77 ]; then
		count=$((count + 1))
		retell_failed=1
		echo "not ok $count - $part: it comes to its end (status $status, cap $cap s)"
	fi
	failed=$((failed + retell_failed))
	note "$part" "$(seconds_since "$begin")" $retell_passed $retell_failed $retell_skipped
	[ "$status" = 0 ] || mps_refresh
}

seconds_since()
{
	ms=$(($(now_ms) - $1))
	echo "$((ms / 1000)).$((ms % 1000 / 100))"
}

# In a subshell of attempt()'s.
# shellcheck disable=SC2317 # called by name
with_warnings()
{
	BELAY_LOG=warn
	"$@"
}

# checks NAME CAP STATUS PATTERN COMMAND...: one test: that status, and a line of the output that matches. The warnings of one that fails are shown.
checks()
{
	part=$1
	may_run "$1" "$2" || return 0
	wanted=$3
	pattern=$4
	shift 4
	begin=$(now_ms)
	attempt "$cap" with_warnings "$@"
	if [ "$status" = "$wanted" ] && grep -q "$pattern" "$work/out"; then
		count=$((count + 1))
		echo "ok $count - $part"
		note "$part" "$(seconds_since "$begin")" 1 0 0
	elif was_cut; then
		show_output
		skip "$part" "cut short after $cap s: $over"
	else
		count=$((count + 1))
		echo "not ok $count - $part"
		echo "# status $status, cap $cap s; $*"
		show_output
		failed=$((failed + 1))
		note "$part" "$(seconds_since "$begin")" 0 1 0
		mps_refresh
	fi
	if [ -n "${keep_output:-}" ]; then
		sed 's/^/# /' "$work/out"
	fi
}

skip()
{
	: >"$work/out" # not of the part before
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
	note "$1" 0.0 0 0 1
}

# ---- parts that several scripts have -----------------------------------------------------------------------------------

# gpu_here: false, and told on one line, where no GPU can be used. Status 77 is the script's then.
gpu_here()
{
	if ! timeout 60 "$bench" --backend cuda --ranks 1 --sizes 2 --iters 1 --warmup 0 >/dev/null 2>"$work/err" &&
		grep -q 'backend cuda' "$work/err"; then
		echo "1..0 # SKIP $(sed -n 1p "$work/err")"
		return 1
	fi
}

# sizes_of BYTES-OF-AN-ELEMENT: small, odd and large ones.
sizes_of()
{
	w=$1
	echo "$w,$((3 * w)),$((7 * w)),$((1023 * w)),14336,$((4097 * w)),112K,256K,$((131071 * w)),1M,2M"
}

# sanitizer TOOL CAP: one of compute-sanitizer's over small runs of two ranks. `racecheck_build`: for racecheck; else it is skipped.
sanitizer()
{
	command -v compute-sanitizer >/dev/null || { skip "$1" "no compute-sanitizer here"; return; }
	checked=$bench
	if [ "$1" = racecheck ]; then
		[ -n "${racecheck_build:-}" ] || { skip "racecheck" "no build for it: --racecheck-build"; return; }
		checked=$racecheck_build/belay-bench
	fi
	tool=$1
	# Ranks are children that execute the program anew. Deadlines are far: everything is slow.
	BELAY_LATE_MS=5000
	export BELAY_LATE_MS
	checks "$tool finds nothing in calls of all algorithms" "$2" 0 'right$' \
		compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 "$checked" --backend cuda --ranks 2 \
		--sizes 14,4096,64K,256K,1M --iters 2 --warmup 1 --paths symm
	checks "$tool finds nothing in types that go in packets and pull" "$2" 0 'right$' \
		compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 "$checked" --backend cuda --ranks 2 --dtype i64 \
		--sizes 8,4096,256K,1M --iters 2 --warmup 1 --paths symm
	unset BELAY_LATE_MS
}
