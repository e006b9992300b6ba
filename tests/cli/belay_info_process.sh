#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay-info --process: shows the communicators of a process that is stopped.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
info=$top_builddir/belay-info
if [ ! -r /proc/$$/task/$$/children ]; then
	tap_skip "a stopped process can be looked at" "no /proc/PID/task/PID/children"
	tap_end
	exit
fi

"$top_builddir/belay-bench" --ranks 2 --workload verify-pass --passes 100000 >/dev/null 2>&1 &
bench=$!
trap 'kill $bench 2>/dev/null; rm -rf "$tap_dir"' EXIT

# Waits until a rank of the run has made calls, and sets $rank to its process id.
tries=0
rank=
while [ $tries -lt 200 ]; do
	rank=$(cut -d ' ' -f 1 "/proc/$bench/task/$bench/children" 2>/dev/null)
	[ -n "$rank" ] && json '.comms[0].ranks[0].done_seq > 0' "$info" --process "$rank" --format json >/dev/null && break
	tries=$((tries + 1))
	sleep 0.05
done
kill -STOP "$rank"

tap_is "a stopped process shows every rank of its communicator" json "
	.pid == $rank and (.comms | length) == 1 and .comms[0].nranks == 2 and (.comms[0].id | length) == 32
	and .comms[0].path == \"host\" and .comms[0].breaker == \"closed\" and .comms[0].verdict == null
	and ([.comms[0].ranks[] | .rank] == [0, 1]) and ([.comms[0].ranks[] | .pid == $rank] | any)
	and all(.comms[0].ranks[]; .seq >= .done_seq and .done_seq > 0 and .dead == false and .left == false)" \
	"$info" --process "$rank" --format json

metrics()
{
	ends 0 "$info" --process "$rank" --format prometheus || return 1
	# A name, labels and a number, or a comment.
	! grep -vE '^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\} -?[0-9.e+-]+)$' "$tap_dir/out" &&
		grep -q '^belay_rank_seq{comm="[0-9a-f]*",rank="1"} [0-9]' "$tap_dir/out"
}
tap_is "the metrics have the form that Prometheus reads" metrics
tap_is "text is for people" ends 0 "$info" --process "$rank"
kill -CONT "$rank"
kill $bench
tap_is "a process without communicator is status 1" ends 1 "$info" --process $$
tap_is "no such process is status 1" ends 1 "$info" --process 2147483646
tap_end
