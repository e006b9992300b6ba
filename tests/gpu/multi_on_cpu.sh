#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# multi.sh where no GPU is: it says so, refuses what is wrong, ends when its time is over, and works over the GPU that is played on the CPU.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
multi=$top_srcdir/tests/gpu/multi.sh
json=$tap_dir/json

told()
{
	grep -qxF -e "$1" "$tap_dir/out" || { show; return 1; }
}

# refused OPTION...
refused()
{
	ends 2 sh "$multi" "$@" && [ ! -s "$tap_dir/out" ]
}

without_gpus()
{
	CUDA_VISIBLE_DEVICES=0 ends 77 sh "$multi" && told "1..0 # SKIP there are no two GPUs here" && [ "$(wc -l <"$tap_dir/out")" = 1 ]
}

# holds FILTER: of the file.
holds()
{
	jq -e "$1" "$json" >/dev/null || { cat "$json"; return 1; }
}

tap_is "without two GPUs it says so on one line" without_gpus
helps()
{
	ends 0 sh "$multi" --help && grep -q '^sanitizer  compute-sanitizer' "$tap_dir/out" && tail -n 1 "$tap_dir/out" | grep -q '^Exit status'
}

tap_is "its help ends with the exit statuses" helps
tap_is "an unknown option is refused" refused --nonsense
tap_is "an unknown set is refused" refused --only nonsense
tap_is "seconds that are no number are refused" refused --seconds soon
tap_is "more ranks than GPUs are refused" refused --played --ranks 4
tap_is "an option without its value is refused" refused --json

if [ ! -x "$top_builddir/tests/gpu/cpu_belay_bench" ] || [ ! -x "$top_builddir/trace-analyze" ]; then
	tap_skip "the script on a played GPU" "not built"
else
	# What is kept for ending a part that hangs is all there is.
	tap_is "a script without time is over" ends 0 sh "$multi" --played --seconds 16 --json "$json"
	tap_is "each set is shown as skipped" holds '[.parts[] | select(.skipped == 1) | .set] | unique | length == 8'
	tap_is "nothing has passed" holds '[.parts[].passed] | add == 0'
	if [ "${BELAY_TESTS_LONG:-0}" = 0 ]; then
		tap_skip "lost writes and paths that are missing" "takes long; set BELAY_TESTS_LONG=1"
	else
		tap_is "lost writes and paths that are missing" ends 0 sh "$multi" --played --only "topology lost fallback" --json "$json"
		tap_is "no part of that has failed or was skipped" holds '[.parts[] | .failed + .skipped] | add == 0'
		tap_is "what people want to know has a figure" holds '.figures | length == 2 and all(.value > 0 and .aim == 0.5)'
		tap_is "what the machine is stands in the file" holds '.machine.paths.host.usable'
	fi
fi
tap_end
