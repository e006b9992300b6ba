#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze on damaged recordings: what can be read is analysed, what cannot is named, and nothing hangs.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
"$top_builddir/tests/support/make_log" "$tap_dir/whole" ranks=2 passes=20 block=500 >/dev/null || exit 1
name=$(cd "$tap_dir/whole" && find . -name 'rank-0001.0.belay')
size=$(wc -c <"$tap_dir/whole/$name")

# damaged: a fresh copy in $tap_dir/logs; the file to damage is $file.
fresh()
{
	rm -rf "$tap_dir/logs"
	cp -r "$tap_dir/whole" "$tap_dir/logs"
	file=$tap_dir/logs/$name
}

# says STATUS FILTER: of the summary of $tap_dir/logs
says()
{
	json "$2" "$analyze" --format=json "$tap_dir/logs" && [ "$status" = "$1" ] && return
	show
	return 1
}

flip()
{
	# shellcheck disable=SC2059 # a byte in octal
	printf "$(printf '\\%03o' $((255 - $(od -An -tu1 -j "$1" -N1 "$file"))))" |
		dd of="$file" bs=1 seek="$1" conv=notrunc 2>/dev/null
}

fresh
flip $((size / 2))
tap_is "a flipped byte costs its block, and the loss is stated" says 3 \
	'.comms[0].calls == 2440 and (.damaged | length) == 1 and .damaged[0].records_kept >= 1900 and .comms[0].lost_records >= 1 and
	.comms[0].lost_records <= 500'

# Cut at places all over the file: always an answer in time, never more records than there were.
any_cut()
{
	cut=1
	while [ $cut -lt "$size" ]; do
		fresh
		truncate -s $cut "$file"
		run "$analyze" --format=json "$tap_dir/logs"
		case $status in
		0 | 3) ;;
		*) show && return 1 ;;
		esac
		jq -e '.comms[0].calls == 2440' "$tap_dir/out" >/dev/null || { show && return 1; }
		cut=$((cut + size / 12 + 1))
	done
}
tap_is "a log cut anywhere leaves the rest" any_cut
fresh
: >"$file"
tap_is "an empty log is named, and its rank has no data" says 3 \
	'.comms[0].ranks_present == [0] and (.damaged | length) == 1 and .damaged[0].records_kept == 0'
fresh
head -c 10000 /dev/zero >"$file"
tap_is "a file of zeros is named" says 3 '.comms[0].ranks_present == [0] and (.damaged | length) == 1'
fresh
rm "$file"
ln -s nowhere "$file"
tap_is "a link to nowhere is named" says 3 '.damaged[0].reason == "No such file or directory"'
fresh
mkdir "$tap_dir/logs/deep.belay"
printf 'text' >"$tap_dir/logs/README"
tap_is "folders and files of other kinds are passed over" says 0 '.damaged == [] and .comms[0].calls == 2440'
mkfifo "$tap_dir/logs/pipe.belay"
tap_is "a pipe that nobody writes to is named and not waited for" says 3 '.damaged[0].reason == "not a regular file"'

# joined: all logs in one file, as by cat(1).
joined()
{
	fresh
	mkdir "$tap_dir/logs/joined"
	find "$tap_dir/logs" -name 'rank-*.belay' | sort | xargs cat >"$tap_dir/logs/joined/all.belay"
	rm "$tap_dir"/logs/*/rank-*.belay
	"$analyze" --format=json "$tap_dir/whole" >"$tap_dir/apart" && json true "$analyze" --format=json "$tap_dir/logs" &&
		cmp "$tap_dir/apart" "$tap_dir/out"
}
tap_is "logs that were written into one file are told apart" joined
several_files()
{
	"$top_builddir/tests/support/make_log" "$tap_dir/rotated" ranks=2 passes=20 block=100 file_bytes=4096 keep=1000 >/dev/null || return 1
	[ "$(find "$tap_dir/rotated" -name '*.belay' | wc -l)" -gt 10 ] || return 1
	"$analyze" --format=json "$tap_dir/rotated" >"$tap_dir/apart"
	mkdir "$tap_dir/one" && find "$tap_dir/rotated" -name '*.belay' | sort -r | xargs cat >"$tap_dir/one/all.belay"
	# A few files at a time are open, however many there are.
	# shellcheck disable=SC3045 # dash has it
	(ulimit -n 24 && json true "$analyze" --format=json "$tap_dir/rotated" && cmp "$tap_dir/apart" "$tap_dir/out" &&
		json true "$analyze" --format=json "$tap_dir/one" && cmp "$tap_dir/apart" "$tap_dir/out")
}
tap_is "rotated files are read one after the other, apart or in one file, in any order" several_files
one_gone()
{
	rm "$(find "$tap_dir/rotated" -name 'rank-0001.5.belay')"
	json '.comms[0].calls == 2440 and .comms[0].lost_records > 100 and .damaged == []' "$analyze" --format=json \
		"$tap_dir/rotated" && [ "$status" = 3 ]
}
tap_is "a file that is gone from among rotated ones is lost records" one_gone
told()
{
	fresh
	flip $((size / 2))
	run "$analyze" "$tap_dir/logs"
	grep -q '^damaged or missing input$' "$tap_dir/out" && grep -q 'rank-0001.0.belay: .* records kept, .* lost' "$tap_dir/out"
}
tap_is "the text names the damaged file, what was kept and what was lost" told
# The tutorial's recording, with a hole in the log of the rank that pass 4 waited for.
blamed()
{
	rm -rf "$tap_dir/logs"
	cp -r "$top_srcdir/tests/data/tutorial" "$tap_dir/logs" && chmod -R u+w "$tap_dir/logs" || return 1
	file=$(find "$tap_dir/logs" -name 'rank-0001.0.belay')
	flip 3000
	run "$analyze" "$tap_dir/logs"
	grep -q 'rank 1: 599 records lost' "$tap_dir/out" && grep -q 'pass 4: 179 ms, of that .* waiting for rank 1$' "$tap_dir/out" &&
		grep -q 'Rank 1 kept being the last to arrive since seq 321' "$tap_dir/out" &&
		grep -q 'record: 600; 1 of them do not tell who was last$' "$tap_dir/out" && return
	show
	return 1
}
tap_is "who was last in calls whose records are lost is known by what the others saw" blamed
open_block()
{
	"$top_builddir/tests/support/make_log" "$tap_dir/open" ranks=2 passes=2 open_rank=1 >/dev/null || return 1
	run "$analyze" "$tap_dir/open"
	[ "$status" = 0 ] && grep -q 'rank 1: log not closed' "$tap_dir/out"
}
tap_is "a log that was not closed may lack its open block: said, but no loss" open_block
tap_end
