#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze export --to=perfetto: what Perfetto requires of a trace, and what ours has to show.
# shellcheck disable=SC2016 # dollar signs are jq's
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
logs=$tap_dir/logs
trace=$tap_dir/trace
packets=$tap_dir/packets
"$top_builddir/tests/support/make_log" "$logs" ranks=4 passes=4 calls=40 straggler=1 straggler_ns=14000000 straggler_from=30 \
	straggler_to=33 rescue_seq=80 rescue_stuck=2 rescue_lost=3 kill_seq=150 kill_rank=0 >/dev/null || exit 1

# unpack OPTION...: exports into $trace and $packets.
unpack()
{
	"$analyze" export --to=perfetto --output="$trace" "$@"
	"$top_builddir/tests/support/read_perfetto" "$trace" | jq -s . >"$packets"
}

# shows FILTER: it holds of the list of packets.
shows()
{
	jq -e "$1" "$packets" >/dev/null && return
	jq -c '.[:20][]' "$packets"
	return 1
}

written()
{
	ends 1 "$analyze" export --to=perfetto --output="$trace" "$logs" && [ ! -s "$tap_dir/err" ] && unpack "$logs" &&
		shows 'length > 2500'
}
tap_is "a trace is written of packets that can be read, with the exit status of the recording" written

# Perfetto's rules -----------------------------------------------------------------------------------

# Events in the order in which Perfetto takes them: by time, at equal times as in the file.
events='[to_entries[] | select(.value.track_event) | .value.track_event + {ts: .value.timestamp, at: .key}] | sort_by(.ts, .at)'

tap_is "the first packet begins the sequence and names the notes" shows '
	.[0] | .first_packet_on_sequence == 1 and .sequence_flags == 3 and
	([.interned_data.debug_annotation_names[] | .iid] == [range(1; 11)])'
tap_is "a track is described before its first event, its parent before it, none twice" shows '
	reduce .[] as $p ({known: {"none": true}, good: true};
		if $p.track_descriptor then
			.good = (.good and .known[$p.track_descriptor.parent_uuid // "none"] and
				(.known[$p.track_descriptor.uuid] | not)) | .known[$p.track_descriptor.uuid] = true
		elif $p.track_event then .good = (.good and .known[$p.track_event.track_uuid])
		else . end) | .good'
tap_is "slices of a track nest and all end" shows "
	reduce ($events)[] as \$e ({open: {}, good: true};
		if \$e.type == 1 then .open[\$e.track_uuid] += 1
		elif \$e.type == 2 then .open[\$e.track_uuid] -= 1 | .good = (.good and .open[\$e.track_uuid] >= 0)
		else . end) | .good and ([.open[]] | add == 0)"
tap_is "times of a rank's track never go back in the file" shows '
	([.[] | select(.track_descriptor.name // "" | startswith("rank")) | .track_descriptor.uuid]) as $ranks |
	reduce (.[] | select(.track_event)) as $p ({last: {}, good: true};
		if ($ranks | index($p.track_event.track_uuid)) then
			.good = (.good and $p.timestamp >= (.last[$p.track_event.track_uuid] // 0)) |
			.last[$p.track_event.track_uuid] = $p.timestamp
		else . end) | .good'
tap_is "every arrow begins once and ends once, not before its begin" shows "
	reduce ($events)[] as \$e ({open: {}, good: true, ends: 0};
		reduce (\$e.flow_ids // [])[] as \$id (.; .good = (.good and (.open | has(\$id) | not)) | .open[\$id] = true) |
		reduce (\$e.terminating_flow_ids // [])[] as \$id (.; .good = (.good and .open[\$id]) | .open[\$id] = false | .ends += 1)
	) | .good and .ends > 300 and ([.open[]] | any | not)"

# What it shows --------------------------------------------------------------------------------------

tap_is "a track a rank, below the communicator" shows '
	([.[] | .track_descriptor // empty]) as $tracks | ($tracks[0] | (.name | startswith("communicator ")) and (has("parent_uuid") | not)) and
	([$tracks[1:][] | .name] == ["what went wrong", "rank 0", "rank 1", "rank 2", "rank 3"]) and
	([$tracks[1:][] | .parent_uuid == $tracks[0].uuid] | all)'
tap_is "a slice a record, with its seq" shows '
	[.[] | .track_event // empty | select(.type == 1 and (.name | startswith("allreduce 112K")))] | length == 599 and
	([.[] | .debug_annotations[] | select(.name_iid == 1) | .uint_value] | unique == [range(1; 151)])'
tap_is "a slice a pass on each rank" shows '
	[.[] | .track_event // empty | select(.type == 1 and (.name | test("^pass ")))] | group_by(.name) | map(length) == [4, 4, 4, 4]'
tap_is "others wait for the straggler, and it behind nobody" shows '
	([.[] | .track_descriptor // empty | select(.name == "rank 1") | .uuid][0]) as $straggler |
	[to_entries[] | select(.value.track_event.name == "wait for rank 1")] | length >= 12 and
	([.[] | .value.track_event.track_uuid != $straggler] | all)'
tap_is "the parts of a call are as long as the call" shows "
	reduce ($events)[] as \$e ({open: {}, parts: {}, good: true};
		if \$e.type == 1 then .open[\$e.track_uuid] = (.open[\$e.track_uuid] // []) + [{name: \$e.name, from: \$e.ts, inside: 0}]
		elif \$e.type == 2 then
			(.open[\$e.track_uuid][-1]) as \$s | .open[\$e.track_uuid] |= .[:-1] |
			(if (\$s.name | startswith(\"allreduce\")) then .good = (.good and \$s.inside == \$e.ts - \$s.from) else . end) |
			(if (.open[\$e.track_uuid] | length) > 0 then .open[\$e.track_uuid][-1].inside += \$e.ts - \$s.from else . end)
		else . end) | .good"
tap_is "arrows of the straggler's calls begin at it" shows '
	([.[] | .track_descriptor // empty | select(.name == "rank 1") | .uuid][0]) as $straggler |
	[.[] | select(.track_event.name == "last to arrive" and .track_event.track_uuid == $straggler)] | length >= 4'
tap_is "a rescue is a slice in its call, on the rank that was stuck" shows '
	([.[] | .track_descriptor // empty | select(.name == "rank 2") | .uuid][0]) as $stuck |
	[.[] | .track_event // empty | select(.name == "rescue over ring")] | length == 1 and .[0].track_uuid == $stuck and .[0].type == 1'
tap_is "what went wrong has a track of its own" shows '
	([.[] | .track_descriptor // empty | select(.name == "what went wrong") | .uuid][0]) as $faults |
	[.[] | .track_event // empty | select(.track_uuid == $faults)] | ([.[] | .type == 3] | all) and
	([.[] | .name] | contains(["late", "lost write", "rescue", "verdict"])) and
	([.[] | select(.name == "verdict") | .debug_annotations[0].string_value] | .[0] | test("peer_lost, rank 0 at fault"))'

chosen()
{
	unpack --pass=2 --rank=3 "$logs"
	shows '[.[] | .track_event // empty | select(.type == 1 and (.name | startswith("allreduce")))] | length == 40'
}
tap_is "--pass and --rank choose" chosen
aligned()
{
	rm -rf "$tap_dir/clocks" && "$top_builddir/tests/support/make_log" "$tap_dir/clocks" clocks passes=3 calls=20 >/dev/null || return 1
	unpack "$tap_dir/clocks"
	shows "([.[] | .timestamp // empty] | max - min) < 1000000000 and (
		reduce ($events)[] as \$e ({open: {}, good: true};
			if \$e.type == 1 then .open[\$e.track_uuid] += 1
			elif \$e.type == 2 then .open[\$e.track_uuid] -= 1 | .good = (.good and .open[\$e.track_uuid] >= 0)
			else . end) | .good)"
}
tap_is "ranks whose clocks differ are on one clock, and their slices nest" aligned
damaged()
{
	printf 'not a log' >"$tap_dir/bad.belay"
	ends 3 "$analyze" export --to=perfetto --output="$trace" "$logs" "$tap_dir/bad.belay" &&
		grep -q 'bad.belay' "$tap_dir/err"
}
tap_is "damage is told on standard error" damaged
tap_is "a full disk is status 4" ends 4 "$analyze" export --to=perfetto --output=/dev/full "$logs"

# Perfetto's own description of the format, where its Python package is: no field that it does not know, no
# value of another kind.
if python3 -c 'import perfetto.protos.perfetto.trace.perfetto_trace_pb2' 2>/dev/null; then
	unpack "$logs"
	known()
	{
		python3 - "$trace" <<-'END'
			import sys
			from google.protobuf.unknown_fields import UnknownFieldSet
			from perfetto.protos.perfetto.trace import perfetto_trace_pb2

			def unknown(message):
			    found = len(UnknownFieldSet(message))
			    for field, value in message.ListFields():
			        if field.type == field.TYPE_MESSAGE:
			            found += sum(map(unknown, value if hasattr(value, "append") else [value]))
			    return found

			trace = perfetto_trace_pb2.Trace.FromString(open(sys.argv[1], "rb").read())
			sys.exit(len(trace.packet) < 2500 or unknown(trace) > 0)
		END
	}
	tap_is "Perfetto's own schema knows every field" known
else
	tap_skip "Perfetto's own schema knows every field" "no perfetto package for python3"
fi
tap_end
