#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze is ended by signals in good order; progress is shown where it is wanted.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
logs=$tap_dir/logs
# More than 8192 calls: the tool looks at the clock that often.
"$top_builddir/tests/support/make_log" "$logs" ranks=2 passes=80 >/dev/null || exit 1

# ends_by NAME NUMBER ARGUMENTS...: that signal comes while the rows stand in a pipe that nobody reads.
ends_by()
{
	name=$1
	number=$2
	shift 2
	rm -f "$tap_dir/fifo"
	mkfifo "$tap_dir/fifo" || return 1
	# A shell lets its background processes ignore SIGINT.
	env --default-signal=INT "$analyze" "$@" >"$tap_dir/fifo" 2>"$tap_dir/err" &
	pid=$!
	exec 3<"$tap_dir/fifo"
	read -r first <&3 && kill -s "$name" $pid
	# The reader is gone only when the tool is.
	wait $pid
	status=$?
	exec 3<&-
	[ -n "$first" ] && [ $status = $((128 + number)) ] && [ ! -s "$tap_dir/err" ] && return
	show
	return 1
}
tap_is "SIGINT ends a run with the status of the signal, though nobody reads its output" ends_by INT 2 calls "$logs"
tap_is "SIGTERM ends a run with the status of the signal" ends_by TERM 15 export --to=csv "$logs"

# The reader begins to read only after the signal: there are whole lines and no more.
whole_lines()
{
	rm -f "$tap_dir/fifo"
	mkfifo "$tap_dir/fifo" || return 1
	"$analyze" export --to=csv "$logs" >"$tap_dir/fifo" 2>"$tap_dir/err" &
	pid=$!
	exec 3<"$tap_dir/fifo"
	read -r first <&3 && kill $pid && cat <&3 >"$tap_dir/rest"
	wait $pid
	status=$?
	exec 3<&-
	[ $status = 143 ] && [ "$(awk -F, '{ print NF }' "$tap_dir/rest" | sort -u)" = "$(echo "$first" | awk -F, '{ print NF }')" ]
}
tap_is "the rows before a signal are whole lines" whole_lines

# One that is ignored from the start, as under nohup, ends nothing.
ignored()
{
	rm -f "$tap_dir/fifo"
	mkfifo "$tap_dir/fifo" || return 1
	(
		trap '' HUP
		exec "$analyze" export --to=csv "$logs" >"$tap_dir/fifo"
	) &
	pid=$!
	exec 3<"$tap_dir/fifo"
	read -r first <&3 && kill -s HUP $pid && cat <&3 >"$tap_dir/rest"
	wait $pid
	status=$?
	exec 3<&-
	[ $status = 0 ] && [ "$(wc -l <"$tap_dir/rest")" = $((80 * 122 * 2)) ]
}
tap_is "a signal that was ignored from the start stays so" ignored

# stalled ARGUMENTS...: the run takes more than a second, as its reader is slow.
stalled()
{
	rm -f "$tap_dir/fifo"
	mkfifo "$tap_dir/fifo" || return 1
	"$analyze" export --to=csv "$@" "$logs" >"$tap_dir/fifo" 2>"$tap_dir/err" &
	{
		read -r first
		sleep 1.1
		cat >/dev/null
	} <"$tap_dir/fifo"
	wait $!
}
progress_asked()
{
	stalled --progress && grep -qxE 'trace-analyze: export: [0-9]+ % of [0-9.]+ MB(, [0-9]+ s left)?' "$tap_dir/err"
}
not_asked()
{
	stalled && [ ! -s "$tap_dir/err" ]
}
tap_is "long work shows its progress when asked to" progress_asked
tap_is "long work shows no progress where there is no terminal" not_asked
short_work()
{
	ends 0 "$analyze" --progress "$logs" && [ ! -s "$tap_dir/err" ]
}
tap_is "short work shows none" short_work
tap_end
