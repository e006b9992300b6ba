#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze what-if, on recordings whose answer is known: from the truth of the generator, or by arithmetic.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze

# make NAME [CAUSE] [SCENARIO...]
make()
{
	name=$1
	shift
	"$top_builddir/tests/support/make_log" "$tap_dir/$name" "$@" "--truth=$tap_dir/$name.truth" >/dev/null || exit 1
}

# says SENTENCE NAME QUESTION FILTER: what holds of the one communicator of the JSON document.
says()
{
	# shellcheck disable=SC2086 # several words
	tap_is "$1" json ".comms[0] | $4" "$analyze" --format=json what-if $3 "$tap_dir/$2"
}

# What the calls would have been shorter by, us, had RANK come no later than the last of the others: from the truth.
saved_by_truth()
{
	awk -F, -v rank="$2" 'NR > 1 {
		if ($3 == rank) own[$1] = $5
		else if ($5 > others[$1]) others[$1] = $5
	} END {
		for (seq in own) if (own[seq] > others[seq]) saved += own[seq] - others[seq]
		printf "%.3f\n", saved / 1000
	}' "$tap_dir/$1.truth"
}

make straggler straggler
says "a straggler on time saves what the truth says" straggler --on-time=5 \
	"(.on_time.saved_us - $(saved_by_truth straggler 5) | fabs) < 1 and .on_time.last_calls > 1200 and
	(.passes.recorded_us.p50 - .passes.what_if_us.p50 - .on_time.saved_us / 10 | fabs) < 200 and .passes.count == 10"
says "after the straggler nobody stands out" straggler --on-time=5 \
	'[.on_time.then_last[].rank] == [0,1,2,3,4,6,7] and ([.on_time.then_last[].calls] | max < 300)'
says "another rank on time saves next to nothing" straggler --on-time=3 '.on_time.saved_us < 1000 and .on_time.then_last != []'
says "several ranks can be on time" straggler --on-time=5,3 '.on_time.ranks == [3,5] and .on_time.saved_us > 60000'
says "all ranks on time leave nobody to compare with" straggler --on-time=0,1,2,3,4,5,6,7 \
	'.on_time.saved_us == 0 and .on_time.then_last == []'
make clocks clocks-straggler
says "the same behind clocks that differ" clocks --on-time=5 "(.on_time.saved_us / $(saved_by_truth clocks 5) - 1 | fabs) < 0.06"

make slow passes=80 slow_pass=60 slow_rank=3 slow_ns=400000
says "the slow pass is like the others with its rank on time" slow --on-time=3 \
	'.passes.recorded_us.max > 73000 and .passes.what_if_us.max < 27000'
says "the slow pass stays slow with another rank on time" slow --on-time=2 '.passes.what_if_us.max > 73000'

# Late by 14 ms in ten calls; recorded with a soft deadline of 10 ms.
make late late hiccups=0
says "a shorter soft deadline raises the alarms that it would" late --late-ms=5 \
	'.late.calls == 10 and .late.false_alarms == 10 and .late.by_rank == [{"rank":6,"calls":10}] and .late.recorded_calls == 10'
says "a longer soft deadline raises none" late --late-ms=20 '.late.calls == 0 and .late.recorded_calls == 10'
says "a hard deadline below the lateness is a false verdict, with seq, pass and rank" late --give-up-ms=12 \
	'.give_up.false_verdicts == 10 and .give_up.first == {"seq":500,"pass":5,"rank":6} and .give_up.verdict_sooner_us == null'
says "a hard deadline above the lateness is none" late --give-up-ms=20 '.give_up.false_verdicts == 0 and .give_up.first == null'
make healthy hiccups=0
says "a healthy recording has no alarm at any sensible deadline" healthy "--late-ms=1 --give-up-ms=1000" \
	'.late.calls == 0 and .give_up.false_verdicts == 0'
make lost lost-writes passes=90
says "a shorter soft deadline begins the rescue sooner by the difference" lost --late-ms=4 \
	'.late.rescues == 1 and (.late.rescues_sooner_us - 6000 | fabs) < 10'
make stuck stuck-peer
says "a shorter hard deadline names the stuck rank sooner by the difference" stuck --give-up-ms=5000 \
	'(.give_up.verdict_sooner_us / 1000 - 25000 | fabs) < 20 and .give_up.false_verdicts == 0'
make death peer-death-saved
says "a death is no matter of deadlines" death --give-up-ms=5000 '.give_up.verdict_sooner_us == null'

# 1220 calls of 114688 bytes; between two sizes the cost is linear: 187.5 us on the host path, 10 us on the ring.
cat >"$tap_dir/costs" <<'END'
{"backend":"host","ranks":8,"rows":[
 {"bytes":65536,"path":"host","algorithm":"oneshot","p50_us":500},
 {"bytes":65536,"path":"host","algorithm":"twoshot","p50_us":100.0},
 {"bytes":131072,"path":"host","p50_us":216.6666667},
 {"bytes":114688,"path":"ring","p50_us":10},
 {"bytes":1024,"path":null,"p50_us":null}]}
END
says "another path costs what its table says, between its sizes too" healthy "--costs=$tap_dir/costs --path=host" \
	'.path.path == "host" and .path.calls == 1220 and .path.calls_outside == 0 and (.path.table_us - 1220 * 187.5 | fabs) < 2 and
	(.passes.what_if_us.p50 - .passes.recorded_us.p50 - (.path.table_us - .path.recorded_us) / 10 | fabs) < 300'
says "without a path each size takes the cheapest" healthy "--costs=$tap_dir/costs" '.path.path == null and .path.table_us == 12200'
make small count=1000
says "sizes that were not measured stay as recorded" small "--costs=$tap_dir/costs --path=host" \
	'.path.calls == 0 and .path.calls_outside == 1220 and .passes.what_if_us == .passes.recorded_us'

tap_is "the text tells all that was asked" ends 0 "$analyze" what-if --on-time=5 --late-ms=1 --give-up-ms=1 --costs="$tap_dir/costs" \
	"$tap_dir/straggler"
tap_is "the text names the saving" grep -q 'was last in 1219 of 1220 calls (100 %); without it' "$tap_dir/out"
tap_is "nothing asked is wrong usage" refuses 'what-if needs' "$analyze" what-if "$tap_dir/late"
tap_is "a rank that cannot be is refused" refuses '--on-time takes ranks' "$analyze" what-if --on-time=64 "$tap_dir/late"
tap_is "a list with a hole is refused" refuses '--on-time takes ranks' "$analyze" what-if --on-time=1,,2 "$tap_dir/late"
tap_is "a deadline of 0 is refused" refuses '--late-ms takes' "$analyze" what-if --late-ms=0 "$tap_dir/late"
tap_is "a table that is none is refused" refuses "--costs ./dev/null.:" "$analyze" what-if --costs=/dev/null "$tap_dir/late"
tap_is "a table without the path is refused" refuses 'has no path nccl' "$analyze" what-if "--costs=$tap_dir/costs" --path=nccl "$tap_dir/late"
tap_is "a path without a table is refused" refuses '--path needs' "$analyze" what-if --on-time=1 --path=host "$tap_dir/late"
tap_is "the options are those of what-if alone" refuses 'is an option of what-if' "$analyze" summary --on-time=1 "$tap_dir/late"
tap_end
