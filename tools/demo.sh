#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shows belay at work, from a fresh clone on: builds it in build/, runs four ranks through verify passes on host memory (or
# on the GPUs that are here) while one write gets lost and one rank is slow, and prints what trace-analyze makes of the
# recording. Everything stays in build/demo/, a page with plots as well.
#
# usage: sh tools/demo.sh [--backend host|cuda]
set -eu

backend=host
while [ $# -gt 0 ]; do
	case $1 in
	--backend=*)
		value=${1#*=}
		shift
		set -- --backend "$value" "$@"
		;;
	--backend)
		case ${2:-} in
		host | cuda) backend=$2 ;;
		*)
			echo "demo: --backend takes host or cuda" >&2
			exit 2
			;;
		esac
		shift 2
		;;
	*)
		echo "usage: sh tools/demo.sh [--backend host|cuda]" >&2
		exit 2
		;;
	esac
done
cd "$(dirname "$0")/.."

RANKS=4
PASSES=20
LOST_RANK=2
LOST_SEQ=1000
SLOW_RANK=1
FAULT="rank=$LOST_RANK,seq=$LOST_SEQ,kind=drop;rank=$SLOW_RANK,seq=1300:1800:20,kind=delay:15"

demo=$PWD/build/demo
session=belay-demo-$$
session_made=
daemon_pid=

say()
{
	echo "demo: $*"
}

# quietly LOG COMMAND...: shows the output only when the command fails.
quietly()
{
	log=$demo/$1.log
	shift
	"$@" >"$log" 2>&1 && return
	say "failed: $*; the end of $log:" >&2
	tail -n 15 "$log" >&2
	return 1
}

# gone PID: whether it ends within 5 seconds.
gone()
{
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 0.2
	done
	return 1
}

# Whatever happens, no session and no daemon of ours is left.
end_lttng()
{
	if [ -n "$session_made" ]; then
		session_made=
		timeout 20 lttng --no-sessiond destroy "$session" >/dev/null 2>&1 || true
	fi
	if [ -n "$daemon_pid" ]; then
		kill "$daemon_pid" 2>/dev/null || true
		gone "$daemon_pid" || kill -9 "$daemon_pid" 2>/dev/null || true
		daemon_pid=
	fi
}
trap end_lttng EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Kernels for the GPUs that are here, and none where there are none: they take longest to compile.
gpu_options()
{
	gpus=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$/\1\2/p' | sort -u)
	if [ -n "$gpus" ]; then
		echo "--with-cuda-arch=$(echo "$gpus" | paste -sd, -)"
	else
		echo "--without-cuda --without-nccl"
	fi
}

build()
{
	say "building in build/ (see build/demo/*.log)"
	[ -x configure ] || quietly autoreconf autoreconf -fi || return
	if [ ! -f build/Makefile ]; then
		# shellcheck disable=SC2046 # words
		(cd build && quietly configure ../configure $(gpu_options)) || return
	fi
	quietly make make -C build -j "$(nproc)"
}

# The daemon is ours to end only if there was none.
start_daemon()
{
	timeout 20 lttng --no-sessiond list >/dev/null 2>&1 && return
	timeout 20 lttng-sessiond --daemonize --no-kernel --pidfile="$demo/sessiond.pid" >"$demo/sessiond.log" 2>&1 || return
	daemon_pid=$(cat "$demo/sessiond.pid")
}

# Per-process buffers: a killed rank cannot harm the trace of the others.
start_session()
{
	timeout 20 lttng --no-sessiond create "$session" --output="$demo/lttng" || return
	session_made=1
	timeout 20 lttng --no-sessiond enable-channel --userspace --buffers-pid --session="$session" belay || return
	timeout 20 lttng --no-sessiond enable-event --userspace --session="$session" --channel=belay 'belay:*' || return
	timeout 20 lttng --no-sessiond start "$session"
}

start_lttng()
{
	if ! command -v lttng >/dev/null || ! command -v lttng-sessiond >/dev/null; then
		say "no LTTng here: the call logs are written all the same"
	elif start_daemon && start_session >"$demo/lttng.log" 2>&1; then
		say "LTTng session $session started, per-process buffers, into build/demo/lttng"
	else
		say "LTTng does not start here (see build/demo/lttng.log): the call logs are written all the same"
		end_lttng
	fi
}

run()
{
	say "running $RANKS ranks through $PASSES verify passes of 122 calls; every result is checked"
	say "injected: a lost write of rank $LOST_RANK at seq $LOST_SEQ, and rank $SLOW_RANK slow in 26 calls"
	BELAY_LOG=error timeout 60 build/belay-bench --backend "$backend" --ranks "$RANKS" --workload verify-pass --passes "$PASSES" \
		--fault "$FAULT" --log-dir "$demo/logs" >"$demo/bench.txt" || return
	cat "$demo/bench.txt"
}

# analyze FORMAT: 0 and 1 are the statuses of sound data; with a rescue in it, 1.
analyze()
{
	status=0
	timeout 60 build/trace-analyze summary --format="$1" "$demo/logs" || status=$?
	[ $status -le 1 ]
}

report()
{
	status=0
	timeout 60 build/trace-analyze report --output="$demo/report.html" "$demo/logs" || status=$?
	[ $status -le 1 ]
}

# Is what was injected in the summary?
named()
{
	jq -e --argjson rank "$LOST_RANK" --argjson seq "$LOST_SEQ" --argjson slow "$SLOW_RANK" '
		.comms[0] | .verdict == null
		and ([.rescues[] | select(.seq == $seq and .lost == [$rank])] | length) == 1
		and (.late | max_by(.calls) | .rank == $slow and .calls >= 20)' "$demo/summary.json" >/dev/null
}

mkdir -p "$demo"
rm -rf "$demo/lttng" "$demo/logs" "$demo/report.html"
sh tools/install_packages.sh
build
start_lttng
run
[ -z "$session_made" ] || quietly lttng-stop timeout 20 lttng --no-sessiond stop "$session"
end_lttng

say "trace-analyze build/demo/logs:"
echo
analyze text
analyze json >"$demo/summary.json"
report
echo
if ! named; then
	say "the summary does not name the lost write and the slow rank" >&2
	exit 1
fi
say "the lost write and the slow rank are named; look further with build/trace-analyze faults build/demo/logs"
say "with plots: build/demo/report.html, for any browser"
say "call logs in build/demo/logs$([ ! -d "$demo/lttng" ] || echo ", LTTng trace in build/demo/lttng")"
