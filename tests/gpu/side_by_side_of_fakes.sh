#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_side_by_side.py over programs that measure nothing: what it makes of their figures, and of what is missing, wrong or late.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"

if ! command -v python3 >/dev/null; then
	tap_skip "measurements side by side" "no python3"
	tap_end
	exit
fi

# belay-bench: a call takes 1.5 us. peer_nccl: 1 us with the CTAs that fit its size best, 2 with others.
mkdir -p "$tap_dir/tests/perf"
cat >"$tap_dir/belay-bench" <<'END'
#!/bin/sh
name=${0##*/}
modes=graph gap=- windows=no ctas=${NCCL_SYM_CTAS:--}
for option; do
	case $option in
	--modes=*) modes=$(echo "${option#*=}" | tr ',' ' ') ;;
	--gap-us=*) gap=${option#*=} ;;
	--windows) windows=yes ;;
	esac
done
echo "$name $ctas $gap $windows ${NCCL_GRAPH_MIXING_SUPPORT:--}" >>"$FAKE_CALLS"
[ "${FAKE_MISSING:-}" != "$name" ] || exit 77
checked=true
[ "${FAKE_WRONG:-}" != "$name" ] || checked=false
rows=
for mode in $modes; do
	for size in 4000 16000; do
		us=2.0
		[ "$name" = peer_nccl ] || us=1.5
		[ "$ctas" != $((size / 1000)) ] || us=1.0
		rows="$rows,{\"mode\":\"$mode\",\"bytes\":$size,\"p50_us\":$us,\"p99_us\":9.0,\"checked\":$checked}"
	done
done
echo "{\"rows\":[${rows#,}]}"
END
cp "$tap_dir/belay-bench" "$tap_dir/tests/perf/peer_nccl"
chmod +x "$tap_dir/belay-bench" "$tap_dir/tests/perf/peer_nccl"
printf '#!/bin/sh\nexit 77\n' >"$tap_dir/no-torch"
chmod +x "$tap_dir/no-torch"
FAKE_CALLS=$tap_dir/calls
CUDA_VISIBLE_DEVICES=0,1
export FAKE_CALLS CUDA_VISIBLE_DEVICES

# beside STATUS FILTER OPTION...
beside()
{
	beside_status=$1
	beside_filter=$2
	shift 2
	: >"$FAKE_CALLS"
	ends "$beside_status" python3 "$top_srcdir/tests/perf/gpu_side_by_side.py" --build "$tap_dir" --ranks 2 --sizes 4000,16000 \
		--python "$tap_dir/no-torch" --json "$tap_dir/json" "$@" || return 1
	jq -e "$beside_filter" "$tap_dir/json" >/dev/null && return
	cat "$tap_dir/json"
	return 1
}

# runs PATTERN: how many of the programs' runs match.
runs()
{
	grep -c "$1" "$FAKE_CALLS"
}

tap_is "NCCL tuned is the best of each row" beside 0 \
	'[.rows[] | .nccl_tuned_how[-7:], .nccl_tuned_us, .nccl_us, .belay_us] == [" 4 CTAs", 1, 2, 1.5, "16 CTAs", 1, 2, 1.5]' --rounds 3
tap_is "what wins no row is measured once" [ "$(runs 'peer_nccl 8 ')" = 1 ]
tap_is "what wins one is measured in each round" [ "$(runs 'peer_nccl 16 ')" = 3 ]
tap_is "NCCL as it is by default is measured in each round" [ "$(runs 'peer_nccl - .* no -$')" = 3 ]
tap_is "ratios are belay's over the others'" beside 0 'all(.rows[]; .nccl_ratio == 0.75 and .nccl_tuned_ratio == 1.5 and .ratio == null)'
tap_is "each mode has its rows" beside 0 '[.rows[].mode] == ["graph", "graph", "gap", "gap", "plain", "plain"]' --modes graph,gap,plain --gap-us 7,3
tap_is "the gap reaches belay-bench" [ "$(runs 'belay-bench - 7,3')" = 3 ]
missing()
{
	FAKE_MISSING=peer_nccl
	export FAKE_MISSING
	beside 0 'all(.rows[]; .nccl_us == null and .belay_us == 1.5) and .problems == []'
}
tap_is "a peer that is not here leaves its columns empty" missing
wrong()
{
	FAKE_WRONG=belay-bench
	export FAKE_WRONG
	beside 1 '.rows == [] and (.problems[0] | test("wrong result"))'
}
tap_is "wrong results have no row, and are a failure" wrong
tap_is "what there is no time for is left out, belay last" beside 0 'all(.rows[]; .belay_us == 1.5 and .nccl_us == null)' --seconds 9
tap_end
