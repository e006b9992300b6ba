#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay-bench: what it prints, as text and as JSON, and that output which is lost is an error.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
bench=$top_builddir/belay-bench

one_line()
{
	ends 0 "$bench" --version && [ "$(wc -l <"$tap_dir/out")" = 1 ]
}
tap_is "--version is one line" one_line
tap_is "--help is status 0 and on stdout" ends 0 "$bench" --help
tap_is "--help that cannot be written is status 4" sh -c "'$bench' --help >/dev/full; [ \$? = 4 ]"
tap_is "results that cannot be written are status 4" \
	sh -c "timeout 60 '$bench' --sizes 1K --iters 2 --warmup 0 >/dev/full; [ \$? = 4 ]"

tap_is "the rows of a sweep have what cli scripts read" json '
	.backend == "host" and .ranks == 2 and (.rows | length) == 2
	and ([.rows[] | .bytes] == [1024, 14336])
	and all(.rows[]; .checked and .min_us > 0 and .min_us <= .p50_us and .p50_us <= .p99_us and .busbw_gbps > 0
		and .path == "host" and (.algorithm == "oneshot" or .algorithm == "twoshot") and .calls == 20)
	and .passes == {"count": 0, "p50_ms": null, "p99_ms": null}
	and .rescues == 0 and .verdict == null and .verdicts == []' \
	"$bench" --sizes 1K,14336 --iters 20 --warmup 2 --format json

tap_is "passes are counted and timed" json '
	.passes.count == 3 and .passes.p50_ms > 0 and (.rows | length) == 1 and .rows[0].bytes == 114688
	and .rows[0].calls == 366 and .rows[0].checked' \
	"$bench" --workload verify-pass --passes 3 --format=json

text()
{
	ends 0 "$bench" --sizes 1K --iters 5 && grep -q '^ *1024 .* right$' "$tap_dir/out" && grep -qx 'rescues: 0' "$tap_dir/out"
}
tap_is "text has a row a size" text

# Every type and operation, against results that the command computes itself.
for dtype in bf16 f16 f32 f64 i32 i64 u8 i8; do
	for op in sum max min prod; do
		"$bench" --ranks 3 --sizes 3K,80K --iters 2 --warmup 0 --dtype $dtype --op $op --format json \
			>"$tap_dir/$dtype-$op" 2>/dev/null || echo "$dtype $op" >>"$tap_dir/wrong"
		[ "${BELAY_TESTS_LONG:-0}" = 1 ] || break # sum; all in the long tests
	done
done
tap_is "every type gives the rank-order result" test ! -e "$tap_dir/wrong"

tap_is "in place gives the same results" ends 0 "$bench" --in-place --sizes 1K,300K --iters 3
tap_is "region buffers give the same results" ends 0 "$bench" --region-buffers --sizes 1K,300K --iters 3
tap_is "both at once too" ends 0 "$bench" --region-buffers --in-place --sizes 1K,300K --iters 3
tap_is "a call of no bytes is one too" ends 0 "$bench" --sizes 0 --iters 3
tap_is "one rank is a group too" ends 0 "$bench" --ranks 1 --sizes 1K --iters 3
tap_is "the algorithm can be chosen" json '.rows[0].algorithm == "twoshot"' \
	"$bench" --algorithm twoshot --sizes 1K --iters 3 --format json
tap_is "the path can be chosen" json '.rows[0].path == "ring" and .rows[0].checked' \
	"$bench" --paths ring --sizes 1K --iters 3 --format json
tap_is "sequence numbers go on beyond 32 bits" ends 0 "$bench" --first-seq 4294967290 --sizes 1K --iters 20

tune()
{
	echo 'ranks=3 twoshot_from=77' >"$tap_dir/tune"
	ends 0 "$bench" --tune "$tap_dir/tune" --sizes 1K,64K --iters 10 --warmup 2 || return 1
	grep -qx 'ranks=3 twoshot_from=77' "$tap_dir/tune" && grep -qx 'ranks=2 twoshot_from=[0-9]*' "$tap_dir/tune" &&
		BELAY_TUNE=$tap_dir/tune ends 0 "$bench" --sizes 1K --iters 3
}
tap_is "a tuning file is written, keeps other lines, and can be used" tune
tap_is "a tuning file that cannot be written is status 4" \
	ends 4 "$bench" --tune /nonexistent/tune --sizes 1K --iters 2 --warmup 0
tap_end
