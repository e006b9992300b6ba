#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze compare: two recordings side by side.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze

# make NAME [CAUSE] [SCENARIO...]
make()
{
	name=$1
	shift
	"$top_builddir/tests/support/make_log" "$tap_dir/$name" "$@" >/dev/null || exit 1
}

# says SENTENCE A B FILTER: what holds of the JSON document.
says()
{
	tap_is "$1" json "$4" "$analyze" --format=json compare "$tap_dir/$2" "$tap_dir/$3"
}

make healthy
make again seed=2
make straggler straggler
says "a recording against itself shows no change" healthy healthy \
	'.comms | length == 1 and (.[0] | .same_calls and .a == .b and .same_to_pass == 10 and ([.passes[] | .a_us == .b_us] | all))'
says "communicators of different ids pair up by their ranks" healthy again \
	'.comms | length == 1 and (.[0] | .same_calls and .a.id != .b.id and (.passes | length) == 10)'
says "a straggler shows as waiting, not as transfer" healthy straggler \
	'.comms[0] | .b.last_most_often == 5 and (.b.wait_us - .a.wait_us) > 50000 and (.b.transfer_us / .a.transfer_us - 1 | fabs) < 0.1 and
	([.passes[] | .b_waited_for == 5 and .b_us > .a_us + 5000] | all)'

make longer passes=12
says "a longer recording is the same as far as both go" healthy longer \
	'.comms[0] | (.same_calls | not) and .same_to_pass == 10 and .b.passes == 12 and (.passes | length) == 10'
make broken break_pass=4 break_calls=7
says "the pass where the calls begin to differ is found" healthy broken '.comms[0] | (.same_calls | not) and .same_to_pass == 3'
make other count=1000
says "other sizes are other calls" healthy other \
	'.comms[0] | (.same_calls | not) and .same_to_pass == 0 and [.a.sizes[].bytes] == [114688] and [.b.sizes[].bytes] == [2000]'
make ring path=4
says "the same sizes on another path stand beside each other" healthy ring \
	'.comms[0] | .same_calls and .a.sizes[0].path == "symm" and .b.sizes[0].path == "ring" and .a.sizes[0].bytes == .b.sizes[0].bytes'
make fewer ranks=4 seed=3
says "communicators of unlike ranks have no partner" healthy fewer '[.comms[] | .a == null, .b == null] == [false,true,true,false]'
make rescued rescue_seq=600 rescue_stuck=2 rescue_lost=3
says "rescues and verdicts of both are counted" rescued healthy '.comms[0] | [.a.rescues, .b.rescues] == [1,0] and .b.verdict == null'
mkdir "$tap_dir/empty"
says "a recording that is none is named" healthy empty '.damaged != [] and .comms[0].b == null'

status_of()
{
	ends "$1" "$analyze" compare "$tap_dir/$2" "$tap_dir/$3"
}
tap_is "two sound recordings: status 0" status_of 0 healthy again
tap_is "a finding in one of them: status 1" status_of 1 healthy rescued
tap_is "a missing one: status 3" status_of 3 empty rescued
tap_is "one input is wrong usage" refuses 'compare takes two inputs, not 1' "$analyze" compare "$tap_dir/healthy"
tap_is "three inputs are wrong usage" refuses 'compare takes two inputs, not 3' "$analyze" compare "$tap_dir/healthy" "$tap_dir/again" "$tap_dir/ring"
no_input_overwritten()
{
	refuses 'is an input' "$analyze" compare --output="$(find "$tap_dir/ring" -name '*.belay' | head -n 1)" "$tap_dir/healthy" "$tap_dir/ring"
}
tap_is "neither input is written over" no_input_overwritten

table()
{
	run "$analyze" compare "$tap_dir/healthy" "$tap_dir/straggler"
	grep -q '^  the same calls in the same order$' "$tap_dir/out" &&
		grep -qE '^  last most often +rank [0-9] 1[0-9] % +rank 5 100 %$' "$tap_dir/out" &&
		grep -qE '^  calls +1220 +1220$' "$tap_dir/out" && grep -qE '^    of that waiting .*\+[0-9.]+ %$' "$tap_dir/out" &&
		[ "$(grep -cE '^ +[0-9]+ +122 ' "$tap_dir/out")" = 5 ]
}
tap_is "the text is a table with the passes that differ most" table
tap_end
