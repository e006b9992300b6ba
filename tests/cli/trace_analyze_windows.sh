#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze on recordings whose ranks tell of different calls, and on long ones: calls are matched by their numbers,
# nothing is concluded from what is not there, and memory does not grow.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze

# part RANK SCENARIO...: the log of one rank of the recording, as that scenario leaves it, into $tap_dir/logs.
part()
{
	rank=$1
	shift
	rm -rf "$tap_dir/part"
	# Every call has a count of its own: ranks that were matched by place would differ in all of them.
	"$top_builddir/tests/support/make_log" "$tap_dir/part" ranks=4 passes=3 pattern=3 block=20 straggler=1 straggler_ns=60000 \
		"$@" >/dev/null || exit 1
	mkdir -p "$tap_dir/logs"
	find "$tap_dir/part" -name "rank-000$rank.*.belay" -exec mv {} "$tap_dir/logs/" \;
}
part 0 partial_rank=0 partial_first=100 partial_last=200
part 1 partial_rank=1 partial_first=150 partial_last=250
# Rank 2 wrote nothing; rank 3 dropped ten records.
part 3 lost_rank=3 lost_seq=170 lost_count=10

# of_windows SENTENCE FILTER: what holds of the one communicator; the status tells of losses.
of_windows()
{
	tap_is "$1" holds "$2"
}
holds()
{
	json ".comms[0] | $1" "$analyze" --format=json "$tap_dir/logs" && [ "$status" = 3 ] && return
	show
	return 1
}
of_windows "windows that begin at different calls are no mismatch" '.mismatches == [] and .verdict == null and .digest_differences == []'
of_windows "each call that some rank tells of counts once" '.calls == 366 and .passes == 3'
of_windows "a rank without a log and a hole are told apart from what a window leaves out" \
	'.ranks_present == [0,1,3] and .lost_records == 10'
of_windows "who was last is told where two windows or more overlap, and nowhere else" \
	'([.stragglers[].last_calls] | add) == 151 and ([.stragglers[] | select(.last_calls > 30) | .rank] == [1])'
tells()
{
	run "$analyze" "$tap_dir/logs"
	grep -q 'rank 2: no data' "$tap_dir/out" && grep -q 'rank 0: only seq 100 to 200' "$tap_dir/out" &&
		grep -q 'rank 3: 10 records lost' "$tap_dir/out" && return
	show
	return 1
}
tap_is "the text tells which calls each rank's log holds" tells

# no_overlap: ranks whose logs have no call in common.
no_overlap()
{
	rm -rf "$tap_dir/logs"
	part 0 partial_rank=0 partial_first=1 partial_last=100
	part 1 partial_rank=1 partial_first=200 partial_last=300
	json '.comms[0] | .calls == 201 and .mismatches == [] and .stragglers == [] and .verdict == null' \
		"$analyze" --format=json "$tap_dir/logs"
}
tap_is "logs without a call in common tell nothing of who was last" no_overlap

# When the host submitted a call says nothing of when the device began it: it is told beside the other times, and moves
# none of them.
submitted()
{
	"$top_builddir/tests/support/make_log" "$tap_dir/device" ranks=2 passes=2 enqueue_ns=250000 >/dev/null &&
		"$top_builddir/tests/support/make_log" "$tap_dir/host" ranks=2 passes=2 >/dev/null || return 1
	"$analyze" export --to=csv "$tap_dir/device" >"$tap_dir/device.csv"
	"$analyze" export --to=csv "$tap_dir/host" >"$tap_dir/host.csv"
	[ "$(cut -d, -f14 "$tap_dir/device.csv" | sort -u)" = "250000
enqueue_ns" ] && [ "$(cut -d, --complement -f14 "$tap_dir/device.csv" | cksum)" = "$(cut -d, --complement -f14 "$tap_dir/host.csv" | cksum)" ] &&
		"$analyze" export --to=perfetto --output="$tap_dir/device.trace" "$tap_dir/device" &&
		"$analyze" export --to=perfetto --output="$tap_dir/host.trace" "$tap_dir/host" && cmp "$tap_dir/device.trace" "$tap_dir/host.trace"
}
tap_is "the time of submitting is not taken for a time of the device" submitted

# long NUMBER-OF-PASSES KIB: a recording of 8 ranks, read within so much memory.
long()
{
	"$top_builddir/tests/support/make_log" "$tap_dir/long" ranks=8 passes="$1" >/dev/null || return 1
	# shellcheck disable=SC3045 # dash has it
	(ulimit -v "$2" && json ".comms[0].calls == $1 * 122" "$analyze" --format=json "$tap_dir/long")
}
if grep -q '^AM_CFLAGS = .*-fsanitize' "$top_builddir/Makefile"; then
	tap_skip "memory does not grow with the length" "a sanitizer needs all addresses"
elif [ -n "${BELAY_TESTS_LONG:-}" ]; then
	tap_is "memory does not grow with the length: 10 million records" long 10246 131072
else
	tap_is "memory does not grow with the length: half a million records" long 512 131072
fi
tap_end
