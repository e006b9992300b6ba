#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay-bench on device memory, over the GPU that is played on the CPU: every call is checked, one by one, in graphs and in passes.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
bench=$top_builddir/tests/gpu/cpu_belay_bench
BELAY_LOG=off
# A rank that the machine keeps waiting has not lost a write.
BELAY_GRACE_MS=2000
BELAY_PATHS=symm,ring
export BELAY_LOG BELAY_GRACE_MS BELAY_PATHS

if [ ! -x "$bench" ]; then
	tap_skip "belay-bench on a played GPU" "not built"
	tap_end
	exit
fi

# right FILTER OPTION...: status 0, and the filter holds.
right()
{
	filter=$1
	shift
	json ".backend == \"cuda\" and .verdict == null and all(.rows[]; .checked and .path == \"symm\") and ($filter)" \
		"$bench" --backend cuda --format json "$@" && [ "$status" = 0 ]
}

tap_is "calls one by one are checked and timed" right '[.rows[].calls] == [3, 3]' --sizes 1K,14336 --iters 3 --warmup 1
tap_is "the calls of a graph are checked and timed" right '[.rows[].calls] == [20]' \
	--graph --calls-per-graph 10 --sizes 1K --iters 2 --warmup 1
tap_is "calls that ranks compute before are timed without that" right '[.rows[].calls] == [20]' \
	--graph --calls-per-graph 10 --gap-us 20,10 --sizes 1K --iters 2 --warmup 1
tap_is "in place each call of a graph has a buffer of its own" right '[.rows[].calls] == [10]' \
	--graph --calls-per-graph 5 --sizes 1K --iters 2 --warmup 1 --in-place
echo 'repeat=2 calls=6 count=500 dtype=f32 gap_us=20' >"$tap_dir/workload"
tap_is "passes are committed" right '.passes.count == 2 and .rows[0].calls == 12' --workload "$tap_dir/workload"
tap_is "passes in graphs are committed" right '.passes.count == 2 and .rows[0].calls == 12' --graph --workload "$tap_dir/workload"
tap_is "the host's time is told" right '.rows[0].host_us > 0 and .rows[0].launch_us > 0' \
	--eager-host-time --sizes 1K --iters 3 --warmup 1

printf 'ranks 2\nbegin\n500 f32 sum i 0\n500 f32 sum - 0,2000000\nend\n9 u8 max - 50000\n' >"$tap_dir/script"
tap_is "the calls of a script are made on the stream" right '.passes.count == 0 and .ranks == 2' --script "$tap_dir/script"

killed()
{
	json '.verdict.cause == "peer_lost" and .verdict.rank == 1 and .lost_ranks == [1] and .wrong_results == 0' \
		"$bench" --backend cuda --format json --graph --workload "$tap_dir/workload" --fault rank=1,seq=9,kind=kill,at=stage \
		--log-dir "$tap_dir/killed" && [ "$status" = 1 ]
}
tap_is "a rank that is killed in a graph is the verdict" killed
# The ninth has a record if the survivor had staged it.
tap_is "the survivor's log has every call up to that" \
	json '.comms[0].calls >= 8 and .comms[0].lost_records == 0' "$top_builddir/trace-analyze" --format json "$tap_dir/killed"
tap_end
