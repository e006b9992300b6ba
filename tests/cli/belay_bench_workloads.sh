#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay-bench --workload FILE: runs what the file says; a file that is wrong is refused with its line.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
bench=$top_builddir/belay-bench

cat >"$tap_dir/good" <<'END'
# two kinds of pass
repeat=2 calls=5 count=1000 dtype=f32 gap_us=10

repeat=3 calls=4 count=77 dtype=i8 gap_us=0 # the second
END
tap_is "the lines are run in order, once" json '
	.passes.count == 5 and [.rows[] | [.bytes, .dtype, .calls, .checked]] == [[4000, "f32", 10, true], [77, "i8", 12, true]]' \
	"$bench" --workload "$tap_dir/good" --format json
tap_is "--passes stops earlier" json '.passes.count == 3 and .rows[1].calls == 4' \
	"$bench" --workload "$tap_dir/good" --passes 3 --format json

# is_named LINE TEXT PATTERN
is_named()
{
	printf '%s\n' "$2" >"$tap_dir/bad"
	tap_is "line $1 of '$2' is named" refuses "bad:$1: $3" "$bench" --workload "$tap_dir/bad"
}
is_named 1 'repeat=1 calls=0 count=1 dtype=u8 gap_us=0' "calls '0': expected a number from 1"
is_named 1 'repeat=1 calls=1 count=1 dtype=fp8 gap_us=0' "dtype 'fp8': expected bf16"
is_named 1 'repeat=1 calls=1 count=1 dtype=u8' "'gap_us=' is missing"
is_named 1 'repeat=1 calls=1 count=1 dtype=u8 gap_us=0 color=red' "unknown key 'color'"
is_named 1 '# nothing' 'no line with a kind of pass'
tap_is "a folder is no workload" refuses "cannot read" "$bench" --workload "$tap_dir"
tap_is "more calls than can be kept are refused" ends 1 "$bench" --workload verify-pass --passes 1000000000
tap_end
