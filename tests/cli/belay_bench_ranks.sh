#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay-bench: faults end as they should, what the ranks say reaches the results, and no process is left behind.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
bench=$top_builddir/belay-bench
BELAY_LOG=off
export BELAY_LOG

# faulty STATUS FILTER SPEC: five verify passes on four ranks with that fault.
faulty()
{
	json "$2" "$bench" --ranks 4 --workload verify-pass --passes 5 --fault "$3" --format json || return 1
	[ "$status" = "$1" ] || { show; return 1; }
}

tap_is "a lost write is rescued and all results are right" faulty 0 '
	.rescues == 1 and .passes.count == 5 and .rows[0].checked and .verdict == null' rank=2,seq=300,kind=drop
BELAY_SYMM_MAX=32K
export BELAY_SYMM_MAX
tap_is "a call that was rescued in four turns is one rescue" faulty 0 '
	.rescues == 1 and .passes.count == 5 and .rows[0].checked and .verdict == null' rank=2,seq=300,kind=drop
unset BELAY_SYMM_MAX
tap_is "a killed rank is the verdict of every survivor" faulty 1 '
	.verdict.seq == 300 and .verdict.cause == "peer_lost" and .verdict.rank == 2 and .lost_ranks == [2]
	and [.verdicts[] | [.rank, .seq, .cause, .culprit]]
		== [[0, 300, "peer_lost", 2], [1, 300, "peer_lost", 2], [3, 300, "peer_lost", 2]]
	and .rows[0].checked and .rows[0].calls == 299' rank=2,seq=300,kind=kill,at=stage
tap_is "a mismatch is the verdict of every rank, and no output was written" faulty 1 '
	.verdict.cause == "mismatch" and .verdict.rank == 1 and (.verdicts | length) == 4
	and all(.verdicts[]; .seq == 300 and .culprit == 1 and .output_untouched)' rank=1,seq=300,kind=count
tap_is "a rank that is stopped for a while is waited for" faulty 0 '
	.rescues == 0 and .verdict == null and .passes.count == 5' rank=1,seq=300,kind=stop:50

tap_is "a rank that leaves out one call of a pass is found at the last call that the others make in it" faulty 1 '
	.verdict.seq == 366 and .verdict.cause == "mismatch" and .verdict.rank == 1
	and (.verdicts | length) == 4' rank=1,seq=300,kind=skip

tap_is "BELAY_DEVICE does not say where the ranks of the host backend are" json '.backend == "host" and .rows[0].checked' \
	env BELAY_DEVICE=gpu63 "$bench" --backend host --sizes 1K --iters 3 --format json

# Fails on all ranks alike: told once, in one line, with the reason.
wrong_memory()
{
	ends 1 "$bench" --backend host --ranks 4 --paths nccl && [ "$(wc -l <"$tap_dir/err")" = 1 ] &&
		grep -q '^belay-bench: rank 0 and 3 more: .*; nccl carries calls on device memory only; creation failed' "$tap_dir/err"
}
tap_is "why no allowed path works is told once for all ranks" wrong_memory

# idle_faults: exactly the second of three faults is told as never carried out, and changes nothing.
idle_faults()
{
	ends 0 "$bench" --ranks 2 --workload verify-pass --passes 2 --backend host \
		--fault 'rank=1,seq=30,kind=delay:1;rank=0,seq=999999,kind=drop;rank=*,seq=31,kind=delay:1' &&
		[ "$(cat "$tap_dir/err")" = "belay-bench: the fault 'rank=0,seq=999999,kind=drop' was never carried out" ]
}
tap_is "a fault whose call never comes is told" idle_faults
path_fault()
{
	ends 0 "$bench" --ranks 2 --workload verify-pass --passes 2 --backend host --paths ring --fault rank=1,seq=30,kind=drop &&
		grep -q "the fault 'rank=1,seq=30,kind=drop' was never carried out" "$tap_dir/err"
}
tap_is "a fault that the path does not have is told" path_fault
killed_quietly()
{
	faulty 1 '.lost_ranks == [2]' rank=2,seq=300,kind=kill && ! grep "never" "$tap_dir/err"
}
tap_is "a fault that killed its rank is not told as never carried out" killed_quietly

if [ "${BELAY_TESTS_LONG:-0}" = 1 ]; then
	tap_is "passes before and after a rescue are unaffected" json '
		.rescues == 1 and .passes.count == 200 and .rows[0].checked and .rows[0].calls == 24400 and .verdict == null' \
		"$bench" --backend host --ranks 4 --workload verify-pass --passes 200 --fault rank=2,seq=5000,kind=drop --format json
fi

corrupted()
{
	faulty 1 '.wrong_results > 0 and .rows[0].checked == false' rank=2,seq=300,kind=corrupt &&
		grep -q 'belay-bench: rank [0-3]: seq 300: wrong result: element' "$tap_dir/err"
}
tap_is "a wrong result is found and named" corrupted

# The ranks of a belay-bench, by its process id.
ranks_of()
{
	cat "/proc/$1/task/$1/children" 2>/dev/null
}

# all_gone PID...: within five seconds.
all_gone()
{
	tries=0
	while [ $tries -lt 100 ]; do
		alive=
		for pid in "$@"; do
			! kill -0 "$pid" 2>/dev/null || alive=1
		done
		[ -n "$alive" ] || return 0
		tries=$((tries + 1))
		sleep 0.05
	done
	echo "still there: $*"
	return 1
}

# Sets $bench_pid and $ranks to those of a run that will not end by itself.
start_long()
{
	"$bench" --ranks 3 --workload verify-pass --passes 100000 >"$tap_dir/long" 2>&1 &
	bench_pid=$!
	tries=0
	ranks=
	while [ $tries -lt 200 ] && [ "$(echo "$ranks" | wc -w)" != 3 ]; do
		ranks=$(ranks_of $bench_pid)
		tries=$((tries + 1))
		sleep 0.05
	done
	[ "$(echo "$ranks" | wc -w)" = 3 ]
}

# left_by SIGNAL: nothing is left when the command gets it, and it ends by it.
left_by()
{
	start_long || return 1
	kill -s "$1" $bench_pid
	wait $bench_pid
	ended=$?
	# shellcheck disable=SC2086 # numbers
	all_gone $ranks && [ $ended -gt 128 ]
}
if [ -r /proc/$$/task/$$/children ]; then
	tap_is "SIGTERM ends the command and its ranks" left_by TERM
	tap_is "SIGKILL of the command ends its ranks" left_by KILL
else
	tap_skip "signals end the command and its ranks" "no /proc/PID/task/PID/children"
fi
tap_is "a group that cannot come together is status 1" env BELAY_START_MS=300 BELAY_FAULT='rank=1,seq=*,kind=kill,at=handshake' \
	sh -c "timeout 30 '$bench' --sizes 1K >/dev/null 2>&1; [ \$? = 1 ]"
tap_end
