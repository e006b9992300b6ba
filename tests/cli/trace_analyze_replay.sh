#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze replay: recorded calls are made again, what cannot be is mapped in words, and nothing hangs.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
# A rank that the machine keeps waiting has not lost a write.
BELAY_LOG=off
BELAY_GRACE_MS=2000
export BELAY_LOG BELAY_GRACE_MS
TMPDIR=$tap_dir
export TMPDIR

# make NAME SCENARIO...: 3 ranks, 2 passes of 20 calls of 1000 elements.
make()
{
	name=$1
	shift
	"$top_builddir/tests/support/make_log" "$tap_dir/$name" ranks=3 passes=2 calls=20 count=1000 hiccups=0 "$@" >/dev/null || exit 1
}

# says SENTENCE STATUS FILTER REPLAY-WORDS...: the exit status, and what holds of the JSON document.
says()
{
	says_sentence=$1 says_status=$2 says_filter=$3
	shift 3
	tap_is "$says_sentence" says_so "$says_status" "$says_filter" "$@"
}
says_so()
{
	so_status=$1 so_filter=$2
	shift 2
	json "$so_filter" "$analyze" --format=json replay --backend=host "$@" && [ "$status" = "$so_status" ] && return
	show
	return 1
}

make straggler straggler=1 straggler_ns=15000000
says "the calls are the same, and the straggler is again who all wait for" 0 \
	'.speed == "recorded" and .replay[0].calls == 40 and (.comms[0] | .same_calls and .b.calls == 40 and .b.passes == 2 and
	.b.last_most_often == 1 and .b.wait_us > .a.wait_us / 2 and [.passes[].calls] == [20,20] and [.b.sizes[].path] == ["host"])' \
	--log-dir="$tap_dir/kept" "$tap_dir/straggler"
in_place()
{
	json '.comms[0] | .clocks == [] and ([.calls[] | .flags | index("in_place") != null] | all and length == 120)' "$analyze" calls --format=json "$tap_dir/kept"
}
tap_is "its log is kept, its calls are in place as recorded, and its ranks on one clock" in_place
tap_is "its log can be compared again" json '.comms[0].same_calls' "$analyze" compare --format=json "$tap_dir/straggler" "$tap_dir/kept"
tap_is "a folder with a log in it is not taken for another" refuses "log-dir '.*': expected an empty folder" \
	"$analyze" replay --log-dir="$tap_dir/kept" "$tap_dir/straggler"
says "at full speed nobody waits for the straggler" 0 '.speed == "max" and (.comms[0] | .same_calls and .b.pass_us.p50 < .a.pass_us.p50 / 2)' \
	--speed=max "$tap_dir/straggler"
says "one pass of many can be chosen" 0 '.replay[0].calls == 20 and (.comms[0] | .same_calls and .a.calls == 20 and .a.passes == 1)' \
	--speed=max --pass=2 "$tap_dir/straggler"
says "some calls can be chosen, and another path asked for" 0 \
	'.replay[0].calls == 11 and (.comms[0] | .same_calls and .a.calls == 11 and [.b.sizes[].path] == ["ring"])' \
	--paths=ring --speed=max --seq=15:25 "$tap_dir/straggler"

make sizes pattern=1 dtype=1
says "sizes, dtypes and order are those of the recording" 0 '.comms[0] | .same_calls and [.a.sizes[].bytes] == [.b.sizes[].bytes] and
	(.a.sizes | length) == 3' --speed=max "$tap_dir/sizes"
"$top_builddir/tests/support/make_log" "$tap_dir/two" ranks=2 passes=2 calls=5 seed=8 >/dev/null
"$top_builddir/tests/support/make_log" "$tap_dir/two" ranks=3 passes=1 calls=7 seed=9 >/dev/null
says "two communicators are replayed one after the other, each beside its own" 0 \
	'([.replay[].calls] | sort) == [7,10] and ([.comms[] | .same_calls and .a.nranks == .b.nranks] == [true,true])' --speed=max "$tap_dir/two"
make missing missing=0x4 straggler=2 straggler_ns=8000000
says "a rank without a log is played by what the others saw of it" 3 \
	'.replay[0].records_made == 40 and (.comms[0] | .same_calls and .b.ranks_present == [0,1,2] and .b.last_most_often == 2)' \
	"$tap_dir/missing"
make mismatch mismatch_seq=30 mismatch_rank=2
says "a call that failed is not made again: the replay ends before it" 1 \
	'.replay[0].failed_seq == 30 and .replay[0].calls == 29 and (.comms[0] | .a.verdict.cause == "mismatch" and .b.verdict == null and .b.calls == 29)' \
	--speed=max "$tap_dir/mismatch"
make rescued rescue_seq=20 rescue_stuck=1 rescue_lost=2 lost_rank=0 lost_seq=5 lost_count=3
says "a rescued call is made as an ordinary one, and a lost record from the others'" 3 \
	'.replay[0] == {"id":.replay[0].id,"calls":40,"passes":2,"calls_left_out":0,"calls_watched":0,"records_made":3,"rescued":1,"from_graphs":0,"pauses_shortened":0,
	"failed_seq":0,"refused":null,"refused_seq":0} and (.comms[0] | .same_calls and .a.rescues == 1 and .b.rescues == 0)' \
	--speed=max "$tap_dir/rescued"
make cut block=10
truncated()
{
	log=$(find "$tap_dir/cut" -name 'rank-0001*.belay')
	size=$(wc -c <"$log")
	head -c $((size * 2 / 3)) "$log" >"$log.cut" && mv "$log.cut" "$log"
	says_so 3 '.replay[0].records_made > 0 and .replay[0].calls == 40 and .damaged != [] and .comms[0].b.calls == 40' --speed=max "$tap_dir/cut"
}
tap_is "a log that was cut gives what it has" truncated
# A replay that cannot go on ends with a verdict.
make eight ranks=8
dies()
{
	BELAY_FAULT=rank=1,seq=25,kind=kill says_so 1 '.comms[0].b.verdict.cause == "peer_lost" and .comms[0].b.verdict.seq == 25 and
		(.comms[0] | (.same_calls | not) and .same_to_pass == 1 and .b.nranks == 8)' --speed=max "$tap_dir/eight"
}
tap_is "of eight ranks on whatever processors there are one that dies is a verdict" dies
stops()
{
	BELAY_FAULT=rank=1,seq=25,kind=stop:800 BELAY_GIVE_UP_MS=200 says_so 1 '.comms[0].b.verdict.cause == "peer_stuck" and
		.comms[0].b.verdict.rank == 1 and .comms[0].b.verdict.seq == 25' --speed=max "$tap_dir/straggler"
}
tap_is "a replay that is stuck ends with the verdict" stops

text()
{
	ends 0 "$analyze" replay --backend=host --speed=max "$tap_dir/straggler" && grep -q '^replayed communicator .*: 3 ranks, 40 calls, 2 passes$' "$tap_dir/out" &&
		[ "$(grep -cE '^ +[12] +20 ' "$tap_dir/out")" = 2 ]
}
tap_is "the text has a row for each pass" text
# no_calls STATUS WORDS...: a line says that there is nothing to make, and none tells of a file of the replay's own.
no_calls()
{
	no_calls_status=$1
	shift
	ends "$no_calls_status" "$analyze" replay --backend=host --speed=max "$@" || return 1
	[ ! -s "$tap_dir/err" ] && ! grep -q belay-replay "$tap_dir/out" &&
		[ "$(grep -c '^communicator .*: no call is as the options want it and can be made again$' "$tap_dir/out")" = 1 ] && return
	show
	return 1
}
tap_is "a choice that leaves no call is said in a line" no_calls 0 --pass=77 "$tap_dir/straggler"
tap_is "a choice of a call that failed alone is said in a line" no_calls 1 --seq=30 "$tap_dir/mismatch"
says "a choice that leaves no call damages nothing" 0 '.comms == [] and .damaged == [] and .replay[0].calls == 0' --pass=77 "$tap_dir/straggler"
mkdir "$tap_dir/empty"
tap_is "nothing to replay is said" json '.comms == [] and (.damaged | length) == 1' "$analyze" --format=json replay "$tap_dir/empty"
no_cuda()
{
	ends 77 "$analyze" replay --backend=cuda "$tap_dir/straggler" && grep -q 'backend cuda' "$tap_dir/err" && [ ! -s "$tap_dir/out" ]
}
tap_is "a backend that is not on this machine: status 77, in words" no_cuda
alone()
{
	mkdir "$tap_dir/alone" && cp "$analyze" "$tap_dir/alone/" || return 1
	ends 77 env PATH="$tap_dir/alone" "$tap_dir/alone/trace-analyze" replay --backend=host "$tap_dir/straggler" &&
		[ "$(wc -l <"$tap_dir/err")" = 1 ] && grep -q 'cannot run belay-bench' "$tap_dir/err"
}
tap_is "without belay-bench there is no replay: status 77, in words" alone
tap_is "a path that is none is refused" ends 2 "$analyze" replay --backend=host --paths=carrier-pigeon "$tap_dir/straggler"
tap_is "a backend that is none is refused" refuses '--backend takes' "$analyze" replay --backend=tpu "$tap_dir/straggler"
tap_is "a speed that is none is refused" refuses '--speed takes' "$analyze" replay --speed=slow "$tap_dir/straggler"
tap_is "nothing is left behind" sh -c "! ls '$tap_dir' | grep belay-replay"
tap_end
