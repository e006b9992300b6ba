#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every cause that make_log can make: the summary names it with the right rank, seq and pass, in JSON and in words, and
# names nothing else; of sound recordings it tells nothing.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
make_log=$top_builddir/tests/support/make_log
tried=' '

# names CAUSE STATUS STORY FILTER WORDS [SCENARIO...]: STORY is all that is told, each with its rank, as JSON; FILTER holds
# of the communicator; WORDS stand in the text, where lines are joined.
names()
{
	cause=$1
	tried="$tried$cause "
	truth=$("$make_log" --list | sed -n "s/^$cause  *//p")
	tap_is "$cause: $truth" names_it "$@"
}
names_it()
{
	logs=$tap_dir/$1
	want_status=$2
	want_story=$3
	want_filter=$4
	want_words=$5
	name=$1
	shift 5
	"$make_log" "$logs" "$name" "$@" >/dev/null || return 1
	json ".comms[0] | ([.story[] | [.what, .rank]] == $want_story) and ($want_filter)" "$analyze" --format=json "$logs" ||
		return 1
	if [ "$status" != "$want_status" ]; then
		show
		return 1
	fi
	run "$analyze" "$logs"
	tr -s ' \n' '  ' <"$tap_dir/out" >"$tap_dir/joined"
	rm -rf "$logs"
	[ "$status" = "$want_status" ] && grep -qF "$want_words" "$tap_dir/joined" && return
	show
	return 1
}

names healthy 0 '[]' '.slow_passes == [] and .path_changes == []' 'verdict none'
names straggler 0 '[["straggler", 5]]' '.story[0].seq == null' 'Rank 5 kept being the last to arrive: in 100 % of the calls, 5'
names straggler-since 0 '[["straggler", 5]]' '.story[0] | .seq == 2441 and .pass == 21' \
	'Rank 5 kept being the last to arrive since seq 2441 (pass 21)'
names rotating 0 '[["stragglers_in_turn", null]]' '.story[0] | .ranks == [range(0;8)] and .count == 80' \
	'Ranks 0-7 were in turn the last to arrive: in 80 of 80 passes'
names slow-pass 0 '[["slow_passes", 3]]' \
	'.story[0].count == 1 and .story[0].pass == 700 and [.slow_passes[] | .pass, .waited_for] == [700, 3]' \
	'1 of 1000 passes was slow without any fault: pass 700 took' ranks=4 passes=1000
names late 0 '[["late", 6]]' '.story[0] | [.seq, .last_seq, .count] == [500, 509, 10]' \
	'Rank 6 was late in 10 calls from seq 500 (pass 5) to seq 509 (pass 5)'
names lost-writes 1 '[["lost_writes", 3]]' '[.rescues[] | .seq, .stuck, .lost, .via] ==
	[10000, [2], [3], "ring", 20000, [2], [3], "ring", 30000, [2], [3], "ring", 40000, [2], [3], "ring"]' \
	'The data of rank 3 was sent and did not arrive at rank 2 in 4 calls from seq 10000 (pass 82) to seq 40000 (pass 328), every 10000 calls. belay finished each over ring' ranks=4 passes=330
names breaker 1 '[["lost_writes", 3], ["breaker", null]]' '[.path_changes[] | .seq, .from, .to] ==
	[1402, "symm", "ring", 4402, "ring", "symm"] and .breaker_opened == 1 and (.rescues | length) == 3' \
	'opened the breaker in seq 1400: from seq 1402 on calls took ring in place of symm, until seq 4402; 3000 calls in all, and the recording ends on symm.'
names path-change 0 '[["path_change", null]]' '.paths.ring == 2000 and ([.path_changes[].seq] == [2000, 4000])' \
	'from seq 2000 on calls took ring in place of symm, until seq 4000'
names peer-death 1 '[["verdict", 2]]' '.verdict.cause == "peer_lost" and .verdict.seq == 700 and .verdict.pass == 6' \
	'Rank 2 died in seq 700 (pass 6)'
names peer-death-saved 1 '[["verdict", 2]]' '.verdict.cause == "peer_lost" and .lost_records == 0' \
	'its newest records were saved by rank 0'
names stuck-peer 1 '[["verdict", 2]]' '.verdict.cause == "peer_stuck" and .verdict.seq == 700' \
	'Rank 2 did not come within the hard deadline in seq 700 (pass 6)'
names mismatch 1 '[["verdict", 2]]' '.verdict.cause == "mismatch" and .mismatches[0].seq == 300 and
	([.mismatches[0].signatures[].ranks] == [[0,1,3,4,5,6,7], [2]])' 'Rank 2 called something else than the others in seq 300 (pass 3)'
names digest 1 '[["digest_differences", 3]]' '.digest_differences == [{"seq":77,"pass":1,"ranks":[3]}]' \
	'The output of rank 3 is not that of the others in seq 77 (pass 1)'
names clocks 0 '[["clocks", null]]' '.clocks_differ >= 0 and .story[0].ranks == [range(1;8)]' 'The clocks of ranks 1-7 are not that of the others'
names clocks-straggler 0 '[["straggler", 5], ["clocks", null]]' 'true' 'Rank 5 kept being the last to arrive: in '
names missing-rank 3 '[["no_data", 2]]' '.ranks_present == [0,1,3,4,5,6,7]' 'There is no data of rank 2'
names lost-records 3 '[["lost_records", 1]]' '.lost_records == 17' '17 records of rank 1 were made and are not here'
names no-marks 0 '[]' '.period | .calls == 122 and .sure == 1 and .breaks == []' \
	'passes 60 by what repeats (no marks), 122 calls each every 122 calls the same sizes come again, from seq 1: so it is for 100.0 %'
names no-marks-noise 0 '[]' '.passes == 200 and (.period | .calls == 122 and .sure > 0.99 and .sure < 1 and .breaks == [])' \
	'so it is for 99.9 % of the calls'
names no-marks-break 0 '[]' '.passes == 60 and .period.breaks == [{"seq":3661,"until":3668,"calls":122}]' \
	'broken once, at seq 3661 (again from seq 3668 on)'
names no-marks-tokens 0 '[]' '.passes == 200 and .period.calls == 122 and .period.by == "runs"' '122 calls each are of one size, from seq 1'
names no-marks-alike 0 '[]' '.passes == 60 and (.period | .calls == 122 and .first_seq == 1 and .by == "pauses" and .breaks == [])' \
	'every 122 calls a long pause comes again, from seq 1'
names no-period 0 '[]' '.passes == 0 and .period == null' 'not known: no marks, and nothing repeats'

# A cause that the generator learns and nobody looks for would pass unseen.
all_tried()
{
	for cause in $("$make_log" --list | sed -n 's/^\([a-z-]\{1,\}\) .*/\1/p'); do
		case $tried in
		*" $cause "*) ;;
		*)
			echo "$cause is not tried"
			return 1
			;;
		esac
	done
}
tap_is "every cause of make_log --list is tried" all_tried

# Seeds, numbers of ranks, sizes and paths: whatever chance brings, nothing is told.
tells_nothing()
{
	for scenario in 'ranks=1' 'ranks=2 seed=2' 'ranks=2 passes=40 seed=12' 'ranks=3 seed=3 passes=40' 'ranks=4 seed=4 path=4' \
		'ranks=8 seed=5 passes=100' 'ranks=8 seed=6 digests=1 jitter_ns=8000' 'ranks=16 seed=7' 'ranks=64 seed=8 passes=2' \
		'ranks=5 seed=9 hiccups=50' 'ranks=4 seed=10 pattern=2 passes=60' 'ranks=4 seed=11 pattern=1 first_seq=4000000000000' \
		'ranks=4 seed=13 marks=0 passes=60' 'ranks=4 seed=14 calls=6 passes=300' 'ranks=8 seed=15 calls=900'; do
		# shellcheck disable=SC2086 # several words
		"$make_log" "$tap_dir/sound" $scenario >/dev/null || return 1
	done
	json '[.comms[] | .story == [] and .late == [] and .rescues == [] and .verdict == null and .path_changes == []] |
		length == 15 and all' "$analyze" --format=json "$tap_dir/sound" || return 1
	run "$analyze" "$tap_dir/sound"
	[ "$status" = 0 ] && grep -q 'and 7 more communicators, all sound' "$tap_dir/out" &&
		[ "$(grep -vc ' sound$' "$tap_dir/out")" = 0 ] && return
	show
	return 1
}
tap_is "of sound recordings nothing is told" tells_nothing

# Where little is known little is told: ranks without data are no stragglers, nor are those that are left.
absent_data()
{
	for scenario in 'ranks=4 missing=0xc' 'ranks=8 missing=0x7e jitter_ns=8000' 'ranks=3 missing=0x1 jitter_ns=8000 passes=40'; do
		# shellcheck disable=SC2086 # several words
		"$make_log" "$tap_dir/absent" $scenario >/dev/null || return 1
		json '.comms[0] | [.story[].what] == ["no_data"]' "$analyze" --format=json "$tap_dir/absent" || return 1
		rm -rf "$tap_dir/absent"
	done
}
tap_is "where data is absent that alone is told" absent_data

# Of many communicators the sound ones take a line each; one of which there is something to tell is no sound one.
one_of_many()
{
	for seed in 1 2 3; do
		"$make_log" "$tap_dir/many" ranks=2 seed=$seed >/dev/null || return 1
	done
	"$make_log" "$tap_dir/many" slow-pass passes=20 slow_pass=7 ranks=4 seed=4 >/dev/null || return 1
	run "$analyze" "$tap_dir/many"
	[ "$(grep -c ' sound$' "$tap_dir/out")" = 3 ] && grep -q 'in short  1 of 20 passes was slow' "$tap_dir/out" && return
	show
	return 1
}
tap_is "of many communicators the one that is not sound is told" one_of_many

# What faults shows of one is told by faults as well, and no more than that.
faults_tell()
{
	"$make_log" "$tap_dir/both" late slow_pass=9 slow_rank=3 slow_ns=300000 ranks=7 passes=12 >/dev/null || return 1
	run "$analyze" "$tap_dir/both"
	grep -q 'of 12 passes was slow without any fault' "$tap_dir/out" || return 1
	run "$analyze" faults "$tap_dir/both"
	tail -n 4 "$tap_dir/out" | tr -s ' \n' '  ' >"$tap_dir/joined"
	grep -q 'in short Rank 6 was late in 10 calls from seq 500' "$tap_dir/joined" && ! grep -q 'slow' "$tap_dir/out"
}
tap_is "faults tells of its rows alone what happened" faults_tell
tap_end
