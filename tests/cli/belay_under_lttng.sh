#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# LTTng may be absent, come later, die, hang or lack memory: ranks print nothing, and all their results are right.
. "$top_srcdir/tests/support/tap.sh"

skip_all()
{
	tap_skip "LTTng never hurts the ranks" "$1"
	tap_end
	exit 0
}

# In a mount namespace of its own, with a /dev/shm and a place for a daemon's sockets that no other test has.
if [ "${1:-}" != inside ]; then
	grep -q '^#define HAVE_LTTNG_UST 1' "$top_builddir/config.h" || skip_all "built without LTTng"
	command -v lttng-sessiond >/dev/null || skip_all "no lttng-sessiond"
	[ "$(id -u)" = 0 ] || skip_all "not root"
	unshare -m true 2>/dev/null || skip_all "no right to a mount namespace"
	exec unshare -m sh "$0" inside
fi

tap_folder
. "$top_srcdir/tests/support/command.sh"
mkdir -p /run/lttng
{ mount -t tmpfs none /dev/shm && mount -t tmpfs none /run/lttng; } || skip_all "no right to mount"

daemon=
end_daemon()
{
	# shellcheck disable=SC2046,SC2086 # numbers, or none
	[ -z "$daemon" ] || kill -KILL "$daemon" $consumer $(pgrep -P "$daemon") 2>/dev/null
	daemon=
}
trap 'end_daemon; rm -rf "$tap_dir"' EXIT

# The daemon, and a session that records what belay does: once ranks register, it gives them buffers.
start_daemon()
{
	consumer=
	timeout 20 lttng-sessiond -d --no-kernel -p "$tap_dir/daemon" >/dev/null 2>&1 || return 1
	daemon=$(cat "$tap_dir/daemon")
	lttng create belay --output="$tap_dir/trace" && lttng enable-channel -u --buffers-pid calls && lttng enable-event -u 'belay:*' -c calls &&
		lttng start || return 1
	consumer=$(pgrep -P "$daemon" -f lttng-consumerd | head -n 1)
	[ -n "$consumer" ]
}

# calls ITERATIONS [VARIABLE=VALUE...]: ranks whose results are right and that print nothing. Each call takes 5 ms, mostly asleep.
calls()
{
	iterations=$1
	shift
	# How long a program waits for a daemon that does not answer is LTTng's, before belay comes to anything.
	run env BELAY_LATE_MS=5000 LTTNG_UST_REGISTER_TIMEOUT=200 "$@" "$top_builddir/belay-bench" --backend=host --ranks=2 --sizes=1K --iters="$iterations" --format=json \
		--fault='rank=0,seq=*,kind=delay:5'
	[ "$status" = 0 ] && [ ! -s "$tap_dir/err" ] && jq -e '.rows[0].checked and .wrong_results == 0' "$tap_dir/out" >/dev/null && return
	show
	return 1
}

tap_is "without a session daemon nothing is said" calls 8
tap_is "nor without HOME" calls 8 --unset=HOME
tap_is "nor where HOME cannot be written" calls 8 HOME=/proc
tap_is "nor without a wait for the daemon" calls 8 LTTNG_UST_REGISTER_TIMEOUT=0

# The rest takes some seconds of waiting for daemons.
if [ "${BELAY_TESTS_LONG:-0}" != 1 ]; then
	tap_end
	exit 0
fi

# Started while ranks make calls, and killed while they go on.
comes_and_goes()
{
	(calls 150 >"$tap_dir/calls" 2>&1; echo $? >"$tap_dir/ended") &
	start_daemon || return 1
	end_daemon
	[ ! -e "$tap_dir/ended" ] || { echo "the calls were over before the daemon was killed"; return 1; }
	wait
	cat "$tap_dir/calls"
	[ "$(cat "$tap_dir/ended")" = 0 ]
}
tap_is "a session daemon may come while ranks make calls, and die" comes_and_goes

# Not by tap_is, which would lose the daemon's number.
start_daemon >"$tap_dir/lttng" 2>&1
tap_is "a session records" test -n "$consumer"
[ -z "$consumer" ] || kill -STOP "$consumer"
tap_is "a consumer that is stopped delays nobody" calls 50
[ -z "$consumer" ] || kill -CONT "$consumer"
tap_is "and when it goes on, all is well" calls 8
end_daemon

# Of 16 KiB: enough for the page through which LTTng wakes programs, without which its library dies of SIGBUS when a program starts
# that is linked with it, and not for its buffers.
mount -t tmpfs -o size=16k none /dev/shm
start_daemon >"$tap_dir/lttng" 2>&1
tap_is "a session records where there is no memory for it" test -n "$consumer"
tap_is "buffers that /dev/shm has no room for are LTTng's loss" calls 8
end_daemon
tap_end
