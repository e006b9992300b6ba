#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay-bench: every option with a wrong value is refused in one line that names it and what was expected.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
bench=$top_builddir/belay-bench

# is_refused OPTIONS PATTERN
is_refused()
{
	# shellcheck disable=SC2086 # several options in a word
	tap_is "'$1' is refused" refuses "$2" "$bench" $1
}

is_refused --backend=tpu "--backend 'tpu': expected auto, host or cuda"
is_refused --ranks=0 "--ranks '0': expected a number from 1 to 64"
is_refused --ranks=65 "--ranks '65': expected a number from 1 to 64"
is_refused --ranks=2K "--ranks '2K'"
is_refused --sizes= "--sizes '': expected bytes"
is_refused --sizes=1K,,2K "--sizes '': expected bytes"
is_refused --sizes=1T "--sizes '1T': expected bytes"
is_refused "--sizes=1023 --dtype=f32" "--sizes '1023': expected a multiple of 4 bytes, the size of f32"
is_refused --dtype=fp8 "--dtype 'fp8': expected bf16, f16, f32, f64, i32, i64, u8 or i8"
is_refused --op=avg "--op 'avg': expected sum, max, min or prod"
is_refused --iters=0 "--iters '0': expected a number from 1"
is_refused --warmup=-1 "--warmup '-1': expected a number from 0"
is_refused --graph "--graph needs --backend=cuda"
is_refused --calls-per-graph=5 "--calls-per-graph needs --graph"
is_refused "--backend=cuda --graph --calls-per-graph=10001" "--calls-per-graph '10001': expected a number from 1 to 10000"
is_refused --gap-us=5 "--gap-us needs --graph"
is_refused "--backend=cuda --graph --gap-us=1,2,3" "--gap-us '1,2,3': expected one number, or two"
is_refused --buffers=0 "--buffers '0': expected a number from 1 to 4096"
is_refused --eager-host-time "--eager-host-time needs --backend=cuda"
is_refused "--backend=cuda --eager-host-time --graph" "--eager-host-time and --graph exclude each other"
is_refused "--backend=cuda --graph --workload=verify-pass --calls-per-graph=5" "--calls-per-graph and --workload exclude each other"
is_refused --pin=maybe "--pin 'maybe': expected auto, yes or no"
is_refused --paths=tcp "--paths 'tcp': expected a list of symm"
is_refused --algorithm=twoshot-pull "--algorithm 'twoshot-pull' needs --backend=cuda"
is_refused --blocks=8,0 "--blocks '0': expected a number from 1 to 256"
is_refused --threads=48 "--threads '48': expected a multiple of 32"
is_refused --algorithm=tree "--algorithm 'tree': expected oneshot or twoshot"
is_refused --fault=rank=2,seq=5,kind=drop "--fault 'rank=2,seq=5,kind=drop': expected ranks from 0 to 1"
is_refused --fault=rank=1,seq=5,kind=explode "--fault 'rank=1,seq=5,kind=explode': .*explode"
is_refused --first-seq=0 "--first-seq '0': expected a number from 1"
is_refused --first-seq=9007199254740992 "--first-seq '9007199254740992': expected a number from 1 to 9007199254740991"
is_refused --log-dir=/dev/null "--log-dir '/dev/null': expected a folder to write into, or the name of a new one: Not a directory"
is_refused --log-dir=/no/such/folder "--log-dir '/no/such/folder': expected a folder"
is_refused --workload=no-such-file "--workload 'no-such-file': no workload of that name, and no file"
is_refused --passes=3 "--passes needs --workload"
is_refused "--workload=verify-pass --passes=0" "--passes '0': expected a number from 1"
is_refused "--workload=verify-pass --sizes=1K" "--sizes and --workload exclude each other"
is_refused "--workload=verify-pass --dtype=f32" "--dtype and --workload exclude each other"
is_refused "--workload=verify-pass --iters=2" "--iters and --workload exclude each other"
is_refused "--workload=verify-pass --warmup=2" "--warmup and --workload exclude each other"
is_refused "--workload=verify-pass --tune=x" "--tune and --workload exclude each other"
is_refused "--tune=x --algorithm=oneshot" "--tune and --algorithm exclude each other"
is_refused --format=xml "--format 'xml': expected text or json"
is_refused --ranks "option '--ranks' needs a value"
is_refused --help=1 "option '--help=1' takes no value"
is_refused --nonsense "unknown or ambiguous option '--nonsense'"
is_refused -x "unknown option '-x'"
is_refused operand "unexpected operand 'operand'"
is_refused --rank-process=0 "--rank-process is for this command's own ranks"

# What is wrong in the environment: as is_refused, for VARIABLE=VALUE.
setting_is_refused()
{
	export "${1?}"
	tap_is "'$1' is refused" refuses "$2" "$bench" --ranks=4
	unset "${1%%=*}"
}
setting_is_refused BELAY_LATE_MS=soon "BELAY_LATE_MS='soon' (from the environment): expected milliseconds"
setting_is_refused BELAY_PATHS=tcp "BELAY_PATHS='tcp' (from the environment): expected a list"
setting_is_refused BELAY_FAULT=boom "BELAY_FAULT: 'boom': expected rank="

# short_forms COMMAND: -h and -V say what --help and --version say.
short_forms()
{
	[ "$("$top_builddir/$1" -h)" = "$("$top_builddir/$1" --help)" ] && [ -n "$("$top_builddir/$1" -h)" ] &&
		[ "$("$top_builddir/$1" -V)" = "$("$top_builddir/$1" --version)" ]
}
for command in belay-bench belay-info; do
	tap_is "-h and -V of $command are --help and --version" short_forms $command
done

too_large()
{
	ends 1 "$bench" --ranks 64 --sizes 65536M --iters 1 && [ "$(wc -l <"$tap_dir/err")" = 1 ] &&
		grep -q 'the buffers of 64 ranks need more memory than is free here' "$tap_dir/err"
}
tap_is "buffers that the machine has no memory for are an error, not the end of other processes" too_large
tap_is "nothing was written by what was refused" test ! -e x

no_cuda()
{
	ends 77 "$bench" --backend cuda && [ "$(wc -l <"$tap_dir/err")" = 1 ] && grep -q 'backend cuda' "$tap_dir/err"
}
tap_is "a backend that is not here is status 77 and one line with the reason" no_cuda
tap_end
