#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Recordings with a known cause: trace-analyze names it, and invents none in healthy ones.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze

# make NAME [SCENARIO...]: a recording of 4 ranks, 10 passes of 122 calls.
make()
{
	name=$1
	shift
	"$top_builddir/tests/support/make_log" "$tap_dir/$name" ranks=4 passes=10 "$@" >/dev/null || exit 1
}

# says SENTENCE STATUS NAME FILTER: the summary's exit status, and what holds of its one communicator.
says()
{
	tap_is "$1" says_so "$2" "$tap_dir/$3" "$4"
}
says_so()
{
	json ".comms[0] | $3" "$analyze" --format=json "$2" && [ "$status" = "$1" ] && return
	show
	return 1
}

make healthy
says "a healthy recording has no findings" 0 healthy '.calls == 1220 and .passes == 10 and .passes_by == "marks" and
	.calls_per_pass == {"min":122,"max":122} and .ranks_present == [0,1,2,3] and .late == [] and .rescues == [] and
	.mismatches == [] and .digest_differences == [] and .verdict == null and .lost_records == 0 and
	.paths == {"symm":1220,"nccl":0,"host":0,"ring":0} and .latency_us.p50 <= .latency_us.p99 and .latency_us.p99 <= .latency_us.max'

make straggler straggler=1 straggler_ns=60000
says "a constant straggler is the last in nearly all calls" 0 straggler \
	'[.stragglers[] | select(.last_calls > 1150) | .rank] == [1] and .late == []'
make late straggler=1 straggler_ns=14000000 straggler_from=500 straggler_to=509
says "a late rank is named with its calls, and is no failure" 0 late \
	'[.late[] | select(.rank == 1) | .calls, .first_seq, .last_seq] == [10,500,509] and .late[0].worst_us > 10000'
make rescued rescue_seq=600 rescue_stuck=2 rescue_lost=3
says "a lost write is a rescue with seq, pass, who was stuck, the path and the time" 1 rescued \
	'.rescues == [{"seq":600,"pass":5,"stuck":[2],"via":"ring","us":900,"lost":[3],"wait_us":.rescues[0].wait_us}] and (.rescues[0].wait_us - 10000 | fabs) < 10 and .verdict == null'
make mismatch mismatch_seq=300 mismatch_rank=2
says "a mismatch tells both signatures and the verdict" 1 mismatch '.mismatches == [{"seq":300,"signatures":[
	{"ranks":[0,1,3],"count":57344,"dtype":"bf16","op":"sum"},{"ranks":[2],"count":114688,"dtype":"bf16","op":"sum"}]}] and
	.verdict.seq == 300 and .verdict.cause == "mismatch" and .verdict.rank == 2 and .calls_per_pass.min == 122'
make killed kill_seq=700 kill_rank=2
says "a killed rank has its last calls, and the verdict names it" 1 killed \
	'.verdict.seq == 700 and .verdict.cause == "peer_lost" and .verdict.rank == 2 and .lost_records == 0 and .ranks_present == [0,1,2,3]'
make digests digests=1 digest_seq=77 digest_rank=3
says "an output unlike the others' names its rank" 1 digests '.digest_differences == [{"seq":77,"pass":1,"ranks":[3]}]'
make missing missing=0x4
says "a rank without a log is missing, and takes no blame" 3 missing \
	'.ranks_present == [0,1,3] and .nranks == 4 and .verdict == null and ([.stragglers[].last_calls] | max < 500) and .calls == 1220'
make nameless missing=0x4 straggler=2 straggler_ns=60000
says "a straggler without a log is named by what the others saw" 3 nameless \
	'.stragglers | map(select(.last_calls > 1150)) | length == 1 and .[0].rank == 2 and (.[0].p50_us - 60 | fabs) < 10'
make lost lost_rank=1 lost_seq=200 lost_count=17
says "lost records are counted exactly, once" 3 lost '.lost_records == 17 and .calls == 1220 and .calls_per_pass.min == 122'
make partial partial_rank=1 partial_first=300 partial_last=800
says "logs of different windows are compared by what the others saw" 0 partial \
	'.calls == 1220 and ([.stragglers[].last_calls] | add) == 1220'
# Rings that wrapped differently: rank 0 has seq 100 to 200, rank 1 has 150 to 250, rank 2 nothing, rank 3 a hole. One seed, one communicator.
make ring0 partial_rank=0 partial_first=100 partial_last=200
make ring1 partial_rank=1 partial_first=150 partial_last=250
make ring3 lost_rank=3 lost_seq=160 lost_count=10
rings()
{
	json '.comms | length == 1 and (.[0] | .mismatches == [] and .digest_differences == [] and .verdict == null and .late == [] and
		.clocks == [] and .ranks_present == [0,1,3] and .lost_records == 10 and ([.stragglers[].last_calls] | add) == 41)' \
		"$analyze" --format=json "$tap_dir"/ring0/*/rank-0000* "$tap_dir"/ring1/*/rank-0001* "$tap_dir"/ring3/*/rank-0003*
	[ "$status" = 3 ]
}
tap_is "rings that wrapped differently are matched by seq, compared where all have data, and blamed for nothing" rings
make clocks clock_rank=2 clock_offset_ns=11000000000
says "a clock that is off is put right, and taken for no straggler" 0 clocks \
	'.clocks_differ == 0 and .calls == 1220 and ([.stragglers[].last_calls] | max < 500) and .clocks[0].within_us < 20 and
	(.clocks | map(.rank, .aligned, (.offset_us / 1000 | round))) == [2,true,11000]'
make drifting clock_rank=3 clock_offset_ns=11000000000 clock_drift_ppb=50000 straggler=1 straggler_ns=60000
says "behind clocks that differ and drift the straggler is the same, by as much" 0 drifting \
	'([.stragglers[] | select(.last_calls > 1150) | .rank] == [1]) and (.stragglers[] | select(.rank == 1) | .p50_us - 60 | fabs) < 10 and
	(.clocks | length == 1 and .[0].rank == 3 and (.[0].drift_ppm - 50 | fabs) < 10)'
make unmarked marks=0 passes=3
says "three passes of calls that are all alike are too few to be found without marks" 0 unmarked \
	'.passes == 0 and .passes_by == "nothing"'
make rotated file_bytes=4096 block=100
says "rotated files are one recording" 0 rotated '.calls == 1220 and .lost_records == 0'

mkdir "$tap_dir/two"
# Two recordings that differ in their seed are two communicators.
make two/a seed=1 passes=1
make two/b seed=2 passes=2
tap_is "several communicators are told apart" json \
	'(.comms | length) == 2 and ([.comms[].calls] | sort) == [122,244]' "$analyze" --format=json "$tap_dir/two"
same_twice()
{
	"$analyze" --format=json "$tap_dir/rescued" >"$tap_dir/once"
	"$analyze" --format=json "$tap_dir/rescued" "$tap_dir/rescued" "$(find "$tap_dir/rescued" -name 'rank-0001.0.belay')" \
		>"$tap_dir/twice"
	cmp "$tap_dir/once" "$tap_dir/twice"
}
tap_is "an input given twice counts once" same_twice

# Two million records take 8 MB; a few are enough to see what grows.
bounded()
{
	"$top_builddir/tests/support/make_log" "$tap_dir/long" ranks=4 passes=800 >/dev/null || return 1
	# shellcheck disable=SC3045 # dash has it
	(ulimit -v 100000 && json '.comms[0].calls == 97600' "$analyze" --format=json "$tap_dir/long")
}
if grep -q '^AM_CFLAGS = .*-fsanitize' "$top_builddir/Makefile"; then
	tap_skip "a long recording takes no more memory than a short one" "a sanitizer needs all addresses"
else
	tap_is "a long recording takes no more memory than a short one" bounded
fi

# One screen, and on it what an engineer at night wants.
screen()
{
	run "$analyze" "$tap_dir/rescued"
	cat "$tap_dir/out"
	[ "$status" = 1 ] && [ "$(wc -l <"$tap_dir/out")" -le 24 ] &&
		grep -q '^  calls  *1220: seq 1 to 1220 in ' "$tap_dir/out" &&
		grep -q '^  passes  *10 by marks, 122 calls each$' "$tap_dir/out" &&
		grep -q '^  rescued  *seq 600 (pass 5): the data of rank 3 did not arrive; rank 2 stuck, finished over ring in 900 us after a wait of 10.00 ms$' \
			"$tap_dir/out" && grep -q '^  verdict  *none$' "$tap_dir/out"
}
tap_is "the text of a summary is one screen with the rescue on it" screen
tells_missing()
{
	run "$analyze" "$tap_dir/missing"
	grep -q 'rank 2: no data; nothing is concluded about it but what the others saw' "$tap_dir/out"
}
tap_is "the text tells that a rank has no data" tells_missing
tap_end
