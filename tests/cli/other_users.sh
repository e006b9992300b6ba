#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What belay makes is its user's alone, whatever the umask; another user, where this test can become one, sees nothing
# of a run.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
chmod 755 "$tap_dir"
logs=$tap_dir/logs
umask 0

BELAY_LOG_DIR=$logs "$top_builddir/belay-bench" --ranks 2 --workload verify-pass --passes 100000 >/dev/null 2>&1 &
bench=$!
trap 'kill $bench 2>/dev/null; wait; rm -rf "$tap_dir"' EXIT

# Waits until both ranks write their logs, and sets $rank to the process id of one.
tries=0
rank=
while [ $tries -lt 400 ] && [ "$(find "$logs" -name '*.belay' 2>/dev/null | wc -l)" -lt 2 ]; do
	tries=$((tries + 1))
	sleep 0.05
done
rank=$(cut -d ' ' -f 1 "/proc/$bench/task/$bench/children" 2>/dev/null)

logs_are_private()
{
	[ "$(find "$logs" -type f | wc -l)" -ge 2 ] && [ -z "$(find "$logs" ! -perm 600 ! -perm 700)" ] &&
		[ -z "$(find "$logs" -type f ! -perm 600)" ]
}
tap_is "call logs and their folders are their user's alone" logs_are_private

segments_are_private()
{
	found=0
	for fd in "/proc/$rank/fd/"*; do
		case $(readlink "$fd") in
		/memfd:belay-control* | /memfd:belay-region*)
			found=$((found + 1))
			[ "$(stat -L -c %a "$fd")" = 600 ] || return 1
			;;
		esac
	done
	[ $found -ge 1 ]
}
if [ -n "$rank" ]; then
	tap_is "shared memory is its user's alone" segments_are_private
else
	tap_skip "shared memory is its user's alone" "no /proc/PID/task/PID/children"
fi

# as_other COMMAND...: as a user who is nobody here.
as_other()
{
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
sees_nothing()
{
	! as_other find "$logs" -mindepth 1 2>/dev/null | grep . && ! as_other ls "/proc/$rank/fd/" 2>/dev/null &&
		! as_other cat "/proc/$rank/maps" 2>/dev/null | grep .
}
names_tell_nothing()
{
	! grep -a '@.*belay' /proc/net/unix | grep -qvE '@belay-[0-9]+-[0-9a-f]{32}$'
}
if [ -n "$rank" ] && [ "$(id -u)" = 0 ] && as_other true 2>/dev/null; then
	tap_is "another user sees neither logs nor descriptors nor memory of a rank" sees_nothing
else
	tap_skip "another user sees neither logs nor descriptors nor memory of a rank" "only root can become another user, by setpriv"
fi
if [ -r /proc/net/unix ]; then
	tap_is "the names of sockets, which all can read, tell a user's number and a hash" names_tell_nothing
else
	tap_skip "the names of sockets, which all can read, tell a user's number and a hash" "no /proc/net/unix"
fi
tap_end
