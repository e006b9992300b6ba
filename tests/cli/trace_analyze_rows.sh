#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze: the commands that print rows.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
logs=$tap_dir/logs
"$top_builddir/tests/support/make_log" "$logs" ranks=4 passes=10 straggler=1 straggler_ns=14000000 straggler_from=500 \
	straggler_to=509 rescue_seq=800 rescue_stuck=2 rescue_lost=3 kill_seq=1100 kill_rank=0 >/dev/null || exit 1

# rows SENTENCE COMMAND-WORDS FILTER: what holds of the one communicator of the JSON document.
rows()
{
	# shellcheck disable=SC2086 # several words
	tap_is "$1" json ".comms[0] | $3" "$analyze" --format=json $2 "$logs"
}

rows "passes: a row each, wait and transfer make up the time in allreduce" passes \
	'.passes_by == "marks" and [.passes[].pass] == [range(1;11)] and
	([.passes[] | (.wait_us + .transfer_us - .allreduce_us | fabs) < 0.01] | all) and .passes[0].calls == 122 and
	.passes[0].start_us == 0 and .passes[0].bytes == 122 * 57344 * 2'
rows "passes: a straggler is the rank waited for, and its pass shows it" passes \
	'.passes[4].waited_for == 1 and .passes[4].late_calls == 10 and .passes[4].wait_us > 100000'
rows "passes: the one with the verdict is not whole" passes '.passes[9].failed_calls == 1 and .passes[9].whole == false'
rows "stragglers: a row a rank" stragglers '[.ranks[].rank] == [0,1,2,3] and .ranks[1].late_calls >= 10 and .ranks[1].worst_us > 10000'
rows "faults: in the order of time, with seq, pass and rank" faults \
	'([.faults[].time_us] | . == sort) and ([.faults[] | select(.what == "late" and .rank == 1)] | length) >= 10 and
	([.faults[] | select(.what == "rescue")] == [.faults[] | select(.seq == 800 and .what == "rescue")]) and
	([.faults[] | select(.what == "verdict") | .seq, .rank, .cause] == [1100, 0, "peer_lost"])'
rows "calls: --seq takes a range" "calls --seq=10:12" '[.calls[].seq] == [10,10,10,10,11,11,11,11,12,12,12,12]'
rows "calls: --seq takes an open range" "calls --seq=:2 --rank=1" '[.calls[].seq] == [1,2]'
rows "calls: --pass and --rank choose" "calls --pass=2 --rank=3" '(.calls | length) == 122 and ([.calls[].index] == [range(0;122)])'
rows "calls: --slower-than chooses by the record's duration" "calls --slower-than=10000" \
	'(.calls | length) >= 30 and ([.calls[].duration_us > 10000] | all)'
rows "calls: a rescued call tells how" "calls --seq=800 --rank=2" \
	'.calls[0].rescue_path == "ring" and .calls[0].rescue_us == 900 and (.calls[0].flags | index("rescued")) != null and .calls[0].missing == [3]'
rows "calls: the last of a call is marked, and how long each one waited for it" "calls --seq=505" \
	'[.calls[].last] == [false,true,false,false] and .calls[1].waited_us == 0 and ([.calls[0,2,3].waited_us > 13000] | all) and
	([.calls[] | .waited_us <= .duration_us] | all)'
rows "calls: a filter that leaves nothing is an empty list" "calls --seq=99999" '.calls == []'

says_none()
{
	run "$analyze" calls --seq=99999 "$logs"
	grep -q 'no call is as the options want it' "$tap_dir/out"
}
tap_is "calls: the text says that nothing is left" says_none

relative_and_absolute()
{
	"$analyze" --format=json calls --seq=1:2 "$logs" >"$tap_dir/relative"
	"$analyze" --format=json calls --seq=1:2 --absolute "$logs" >"$tap_dir/absolute"
	jq -e '[.comms[0].calls[].start_us] | min == 0' "$tap_dir/relative" &&
		jq -e '[.comms[0].calls[].start_us] | min > 0' "$tap_dir/absolute" &&
		[ "$(jq '.comms[0].calls | .[7].start_us - .[0].start_us | . * 1000 | round' "$tap_dir/relative")" = \
			"$(jq '.comms[0].calls | .[7].start_us - .[0].start_us | . * 1000 | round' "$tap_dir/absolute")" ]
}
tap_is "times are from the first call unless --absolute" relative_and_absolute

csv()
{
	run "$analyze" export --to=csv "$logs"
	# 1100 calls of 4 ranks, save the killed one's last, and the heading; every row has as many fields.
	[ "$(wc -l <"$tap_dir/out")" = 4400 ] && [ "$(awk -F, '{ print NF }' "$tap_dir/out" | sort -u)" = 22 ]
}
tap_is "export --to=csv: a heading and a row a record" csv
same_json()
{
	"$analyze" export --to=json "$logs" >"$tap_dir/export"
	"$analyze" calls --format=json "$logs" >"$tap_dir/calls"
	cmp "$tap_dir/export" "$tap_dir/calls"
}
tap_is "export --to=json is the document of calls" same_json

# Every command gives text as well, with the same exit status.
for command in summary passes stragglers faults calls; do
	tap_is "$command prints text" ends 1 "$analyze" $command "$logs"
done
passes_by_period()
{
	"$top_builddir/tests/support/make_log" "$tap_dir/unmarked" ranks=2 passes=3 marks=0 >/dev/null || return 1
	run "$analyze" passes "$tap_dir/unmarked"
	grep -q 'no marks, and nothing repeats: no passes' "$tap_dir/out"
}
tap_is "passes says when there are none to be found" passes_by_period
# A recording keeps a verdict's text whole, however long: it ends in numbers.
whole_verdict()
{
	run "$top_builddir/belay-bench" --backend=host --ranks=2 --workload=verify-pass --passes=3 --fault=rank=1,seq=200,kind=skip \
		--log-dir="$tap_dir/skip"
	text=$(sed -n 's/^  \(rank 1 called differently .*\)/\1/p' "$tap_dir/out")
	[ ${#text} -ge 160 ] || { show && return 1; }
	run "$analyze" "$tap_dir/skip"
	grep -qxF "            $text" "$tap_dir/out" || { show && return 1; }
	run "$analyze" faults "$tap_dir/skip"
	grep -qF ": $text" "$tap_dir/out" || { show && return 1; }
}
tap_is "a long verdict is told whole from the log" whole_verdict
tap_end
