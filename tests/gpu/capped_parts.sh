#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What parts.sh promises the scripts for GPUs: a part that hangs is ended, what there is no time for is shown, and the file is JSON.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"

# A part that ends well, one that does not, one that only KILL ends, a program, one that takes its group along, and one that
# comes too late.
cat >"$tap_dir/stubborn" <<'END'
trap '' TERM
echo $$ >"$1"
while :; do sleep 0.05; done
END
cat >"$tap_dir/program" <<'END'
echo "ok 1 - one.c: it holds"
echo "# SKIP takes 4 ranks"
echo "ok 2 - two.c: not here"
echo "1..2"
END
cat >"$tap_dir/deadly" <<'END'
trap 'trap - TERM; kill -TERM 0' TERM
while :; do sleep 0.05; done
END
cat >"$tap_dir/script" <<'END'
build=. json=$1/json seconds=9 over="the time is over"
. "$top_srcdir/tests/gpu/parts.sh"
end_tenths=2
end_seconds=0
parts_begin
set=early set_end=$(($(now_ms) + 60000))
checks "well" 5 0 right echo right
checks "another word" 5 0 right echo wrong
checks "another status" 5 3 right echo right
checks "stubborn" 1 0 right sh "$1/stubborn" "$1/pid"
programs "program" 5 sh "$1/program"
programs "no plan" 5 sh -c 'exit 4'
programs "deadly" 1 sh "$1/deadly"
echo '{"bytes":1}' >"$work/document"
extra figures "$work/document"
set=late set_end=$(now_ms)
checks "too late" 5 0 right echo right
parts_end
END

run sh "$tap_dir/script" "$tap_dir"

told()
{
	grep -qxF -e "$1" "$tap_dir/out" || { show; return 1; }
}

# holds FILTER: of the JSON file.
holds()
{
	jq -e "$1" "$tap_dir/json" >/dev/null || { cat "$tap_dir/json"; return 1; }
}

gone()
{
	! kill -0 "$(cat "$tap_dir/pid")" 2>/dev/null
}

tap_is "what failed is the script's status" [ "$status" = 1 ]
tap_is "a part with its status and its line has passed" told "ok 1 - well"
tap_is "another line has not" told "not ok 2 - another word"
tap_is "another status has not" told "not ok 3 - another status"
tap_is "a part that hangs has not" told "not ok 4 - stubborn"
tap_is "a part that hangs is ended, whatever it takes" gone
tap_is "a program's tests are told one by one" told "ok 5 - program: one.c: it holds"
tap_is "what a program skips is told with its reason" told "ok 6 - program: two.c: not here # SKIP takes 4 ranks"
tap_is "a program that does not come to its end has not passed" \
	told "not ok 7 - no plan: it comes to its end (status 4, cap 5 s)"
tap_is "a program that hands its end on to its group ends nobody else" \
	told "not ok 8 - deadly: it comes to its end (status 124, cap 1 s)"
tap_is "what there is no time for is skipped" told "ok 9 - too late # SKIP the time is over"
tap_is "the plan counts all" told "1..9"
tap_is "the file has every part" holds '[.parts[].part] == ["well", "another word", "another status", "stubborn", "program", "no plan", "deadly", "too late"]'
tap_is "the file counts what came out" holds '.failed == 5 and ([.parts[] | .passed] | add) == 2 and ([.parts[] | .skipped] | add) == 2'
tap_is "the file has what else was found" holds '.figures.bytes == 1 and (.interrupted | not)'

cat >"$tap_dir/script" <<'END'
build=. json=$1/json seconds=9 over="the time is over"
. "$top_srcdir/tests/gpu/parts.sh"
end_tenths=2
parts_begin
set=early set_end=$(($(now_ms) + 60000))
checks "interrupting" 20 0 right sh -c "kill -INT $$; sleep 20"
END
run sh "$tap_dir/script" "$tap_dir"
tap_is "a script that is interrupted says so" told "Bail out! interrupted"
tap_is "and leaves what it has" holds '.interrupted and .parts == []'
tap_end
