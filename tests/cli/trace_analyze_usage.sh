#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze: wrong usage, help, version, and output that cannot be written.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
logs=$tap_dir/logs
"$top_builddir/tests/support/make_log" "$logs" ranks=2 passes=2 >/dev/null || exit 1

# is_refused OPTIONS PATTERN
is_refused()
{
	# shellcheck disable=SC2086 # several options in a word
	tap_is "'$1' is refused" refuses "$2" "$analyze" $1
}

is_refused "" "no input was given"
is_refused "passes" "no input was given"
for word in sumary summmary sumnary summray; do
	is_refused "$word $logs" "'$word' is neither a command nor an input; 'summary' is a command"
done
is_refused "--format=xml $logs" "--format takes text or json, not 'xml'"
is_refused "--seq=5:3 calls $logs" "--seq takes A:B with A at most B, not '5:3'"
is_refused "--seq= calls $logs" "--seq takes A:B"
is_refused "--seq=1:2:3 calls $logs" "--seq takes A:B"
is_refused "--seq=x calls $logs" "--seq takes A:B"
is_refused "--pass=0 calls $logs" "--pass takes a number from 1, not '0'"
is_refused "--rank=64 calls $logs" "--rank takes 0 to 63, not '64'"
is_refused "--slower-than=-1 calls $logs" "--slower-than takes microseconds, not '-1'"
is_refused "--slower-than=nan calls $logs" "--slower-than takes microseconds"
is_refused "--to=chrome export $logs" "--to takes csv, json or perfetto, not 'chrome'"
is_refused "export $logs" "export needs --to=csv, --to=json or --to=perfetto"
is_refused "--to=csv passes $logs" "--to is an option of export"
is_refused "--rank=1 $logs" "--rank is an option of calls and export"
is_refused "--output= $logs" "--output takes the name of a file"
is_refused "--nonsense $logs" "unknown or ambiguous option '--nonsense'"
is_refused "--format" "option '--format' needs a value"

help_names_what_is_there()
{
	ends 0 "$analyze" --help && [ ! -s "$tap_dir/err" ] || return
	for command in summary passes stragglers faults calls report export what-if compare replay; do
		grep -q "^  $command  " "$tap_dir/out" || return
	done
}
one_line_of_version()
{
	ends 0 "$analyze" --version && [ "$(wc -l <"$tap_dir/out")" = 1 ] && grep -q '^trace-analyze (belay) [0-9]' "$tap_dir/out"
}
tap_is "--help names every command" help_names_what_is_there
tap_is "--version is one line" one_line_of_version

# is_full OPTIONS...: standard output cannot be written.
is_full()
{
	status=0
	"$analyze" "$@" >/dev/full 2>"$tap_dir/err" || status=$?
	[ $status = 4 ] && [ "$(wc -l <"$tap_dir/err")" = 1 ] && grep -q 'cannot write standard output' "$tap_dir/err"
}
for words in "--help" "--version" "$logs" "passes $logs" "calls $logs" "export --to=csv $logs" "--format=json calls $logs" "report $logs"; do
	# shellcheck disable=SC2086 # several words
	tap_is "a full disk under '${words%"$logs"}' is status 4" is_full $words
done

# The reader of the pipe goes away before anything is written.
closed_pipe()
{
	mkfifo "$tap_dir/fifo" || return 1
	: <"$tap_dir/fifo" &
	{
		sleep 0.2
		status=0
		"$analyze" export --to=csv "$logs" 2>"$tap_dir/err" || status=$?
		echo $status >"$tap_dir/status"
	} >"$tap_dir/fifo"
	wait
	[ "$(cat "$tap_dir/status")" = 4 ] && grep -q 'cannot write' "$tap_dir/err"
}
tap_is "a closed pipe is status 4 and no signal" closed_pipe
tap_is "a file that cannot be opened is status 4" ends 4 "$analyze" --output="$tap_dir/none/out" "$logs"

# on_terminal COMMAND...: on a terminal of its own; what it prints is in $tap_dir/screen.
on_terminal()
{
	timeout -k 5 60 script -qec "$*" /dev/null </dev/null >"$tap_dir/screen" 2>&1
}
not_for_terminals()
{
	! on_terminal "$analyze" "$@" "$logs" && grep -q "is not for a terminal: give --output" "$tap_dir/screen" &&
		[ "$(wc -l <"$tap_dir/screen")" = 2 ]
}
for words in report "export --to=perfetto"; do
	if command -v script >/dev/null; then
		# shellcheck disable=SC2086 # several words
		tap_is "$words does not fill a terminal" not_for_terminals $words
	else
		tap_skip "$words does not fill a terminal" "no script"
	fi
done

input=$(find "$logs" -name 'rank-0000.0.belay')
before=$(cksum <"$input")
ln -s "$input" "$tap_dir/link"
is_refused "--output=$input $logs" "is an input"
is_refused "--output=$tap_dir/link $logs" "is an input"
printf 'not a log' >"$tap_dir/bad.belay"
is_refused "--output=$tap_dir/bad.belay $tap_dir/bad.belay" "is an input"
tap_is "an input is not touched by --output" test "$(cksum <"$input")" = "$before"

written()
{
	ends 0 "$analyze" --format=json --output="$tap_dir/summary.json" "$logs" && [ ! -s "$tap_dir/out" ] &&
		jq -e '.comms[0].calls == 244' "$tap_dir/summary.json"
}
tap_is "--output receives the whole document" written

# What cannot be written whole leaves the old content and no other file.
not_written()
{
	mkdir "$tap_dir/folder" && echo old >"$tap_dir/folder/out" || return 1
	(ulimit -f 8 && trap '' XFSZ && ends 4 "$analyze" export --to=csv --output="$tap_dir/folder/out" "$logs") || return 1
	[ "$(cat "$tap_dir/folder/out")" = old ] && [ "$(ls "$tap_dir/folder")" = out ]
}
tap_is "a document that does not fit is status 4 and leaves the old one" not_written

nothing_to_read()
{
	ends 3 "$analyze" "$tap_dir/no-such-folder" && [ "$(wc -l <"$tap_dir/err")" = 1 ] &&
		grep -q "cannot read '.*no-such-folder': No such file or directory" "$tap_dir/err"
}
mkdir "$tap_dir/empty"
tap_is "input that is missing is status 3 and one line" nothing_to_read
tap_is "a folder without recordings is status 3" ends 3 "$analyze" "$tap_dir/empty"
tap_is "what is missing does not keep the rest from being analysed" \
	json '.comms[0].calls == 244 and (.damaged | length) == 1' "$analyze" --format=json "$tap_dir/no-such-folder" "$logs"
no_colour()
{
	run "$analyze" "$logs"
	! grep -q "$(printf '\033')" "$tap_dir/out" && [ ! -s "$tap_dir/err" ]
}
tap_is "no colour and no progress where there is no terminal" no_colour
tap_end
