#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay-bench --script FILE: single calls, as trace-analyze replay writes them.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
bench=$top_builddir/belay-bench
analyze=$top_builddir/trace-analyze

cat >"$tap_dir/script" <<'END'
ranks 3
begin
1000 bf16 sum i 0
1000 bf16 sum - 0,0,200000000
end
begin
2000 f32 sum - 0
end
77 i8 sum r 5000
0 i64 sum - 0
END
tap_is "the calls are made and their results right" json '.ranks == 3 and .passes.count == 2 and .wrong_results == 0 and .verdict == null' \
	"$bench" --backend=host --script "$tap_dir/script" --log-dir "$tap_dir/logs" --format json
as_written()
{
	json '.comms[0].calls | map(select(.rank == 0)) | (map([.count, .dtype, .pass]) ==
		[[1000,"bf16",1],[1000,"bf16",1],[2000,"f32",2],[77,"i8",0],[0,"i64",0]]) and
		(.[0].flags | index("in_place") != null) and (.[1].flags | index("in_place") == null)' \
		"$analyze" calls --format=json "$tap_dir/logs"
}
tap_is "its log has sizes, types, passes and in place as written" as_written
tap_is "the gap of one rank makes it late in that call" json \
	'.comms[0].calls | map(select(.seq == 2)) | (.[2].last and .[0].waited_us > 100000 and .[1].waited_us > 100000)' \
	"$analyze" calls --format=json "$tap_dir/logs"
printf 'ranks 2\n10 f32 sum - 0\n10 f32 max - 0\n' >"$tap_dir/ops"
tap_is "several ops are made in their order" ends 0 "$bench" --backend=host --script "$tap_dir/ops"
tap_is "a fault ends it with a verdict" json '.verdict.cause == "peer_lost" and .verdict.rank == 1 and .verdict.seq == 4' \
	"$bench" --backend=host --script "$tap_dir/script" --fault rank=1,seq=4,kind=kill --format json
sed 1d "$tap_dir/script" >"$tap_dir/bad_script"
tap_is "a script that is wrong is refused with its line" refuses "script:2: '1000': expected 'ranks N' first" \
	"$bench" --script "$tap_dir/bad_script"
tap_is "a script that is not there is refused" refuses "script '/nowhere'" "$bench" --script /nowhere
tap_is "a script has its own ranks" refuses 'exclude each other' "$bench" --script "$tap_dir/script" --ranks 4
tap_end
