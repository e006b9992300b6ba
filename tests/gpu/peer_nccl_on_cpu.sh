#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# peer_nccl over a stub NCCL and the GPU that is played on the CPU: sums are checked and timed in each mode.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
peer=$top_builddir/tests/gpu/cpu_peer_nccl
stub=$top_builddir/tests/support/.libs/libtest-nccl-stub.so
BELAY_TEST_GPU_DEVICES=0,1
export BELAY_TEST_GPU_DEVICES

if [ ! -x "$peer" ] || [ ! -e "$stub" ]; then
	tap_skip "NCCL as a peer, on a played GPU" "not built"
	tap_end
	exit
fi

# right FILTER OPTION...
right()
{
	filter=$1
	shift
	json "all(.rows[]; .checked and .min_us <= .p50_us and .p50_us <= .p99_us) and ($filter)" \
		"$peer" --library="$stub" --sizes=14336 --iters=2 --calls=3 "$@" && [ "$status" = 0 ]
}

tap_is "replays are checked and timed" right '.nccl and .ranks == 2 and [.rows[] | [.mode, .bytes]] == [["graph", 14336]]'
tap_is "each mode and each size has its row" right '[.rows[] | [.mode, .bytes]] == [["graph", 2], ["graph", 1024], ["gap", 2],
	["gap", 1024], ["eager", 2], ["eager", 1024]]' --modes=eager,gap,graph --gap-us=20,10 --sizes=2,1K
tap_is "an NCCL without windows is told and is no failure" ends 77 "$peer" --library="$stub" --windows
tap_is "no NCCL is told and is no failure" ends 77 "$peer" --library=/nonexistent
tap_is "each rank needs a GPU of its own" ends 77 "$peer" --library="$stub" --ranks=3
for wrong in --modes=x --sizes=3 --iters=0 --gap-us=1,2,3 --nonsense; do
	tap_is "'$wrong' is refused" ends 2 "$peer" "$wrong"
done
tap_end
