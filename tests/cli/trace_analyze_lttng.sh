#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze on LTTng traces: the same facts as from the call logs of the same run; damage costs what is damaged.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
session=belay-test-$$

skip_all()
{
	tap_skip "LTTng traces are analysed" "$1"
	tap_end
	exit 0
}

grep -q '^#define HAVE_BABELTRACE 1' "$top_builddir/config.h" || skip_all "built without libbabeltrace2"
grep -q '^#define HAVE_LTTNG_UST 1' "$top_builddir/config.h" || skip_all "built without LTTng"
command -v lttng >/dev/null || skip_all "no lttng command"

# A daemon of the machine is used; where there is none, one in a home of this test's, stopped at the end.
daemon=
end_session()
{
	timeout 20 lttng destroy "$session" >/dev/null 2>&1
	[ -z "$daemon" ] || kill "$daemon"
	rm -rf "$tap_dir"
}
trap end_session EXIT
if ! timeout 10 lttng list >/dev/null 2>&1; then
	timeout 20 lttng-sessiond -d --no-kernel -p "$tap_dir/daemon" >/dev/null 2>&1 || skip_all "no session daemon can be started"
	daemon=$(cat "$tap_dir/daemon")
fi

record()
{
	# Small packets and files, so that a trace has several of each.
	lttng create "$session" --output="$tap_dir/all" &&
		lttng enable-channel -u --buffers-pid --subbuf-size=8K --num-subbuf=32 --tracefile-size=32K -s "$session" calls &&
		lttng enable-event -u 'belay:*' -c calls -s "$session" && lttng start "$session" || return 1
	timeout 60 "$top_builddir/belay-bench" --backend=host --ranks=2 --workload=verify-pass --passes=3 --log-dir="$tap_dir/log" \
		--fault='rank=1,seq=200,kind=drop;rank=0,seq=300,kind=delay:15'
	lttng stop "$session" && lttng destroy "$session"
}
record >"$tap_dir/record" 2>&1 || skip_all "no recording: $(tail -n 1 "$tap_dir/record")"

# Programs that fork without an exec lose the tracer's threads, at whatever they were doing.
daemons()
{
	lttng create "$session" --output="$tap_dir/daemons" && lttng enable-channel -u --buffers-pid -s "$session" calls &&
		lttng enable-event -u 'belay:*' -c calls -s "$session" && lttng start "$session" || return 1
	WORLD_SIZE=1 RANK=0 BELAY_JOB="daemon-$$" timeout 120 "$top_builddir/tests/support/daemon_calls" 1000 "$1"
	status=$?
	lttng destroy "$session"
	[ $status = 0 ]
}
times=10
[ -z "${BELAY_TESTS_LONG:-}" ] || times=1000
tap_is "daemons that fork without an exec make their calls while a session traces" daemons $times

# Other processes of this user may have been recorded as well: keep the traces of this test's communicator.
id=$("$analyze" --format=json "$tap_dir/log" | jq -r '.comms[0].id')
mkdir "$tap_dir/lttng"
find "$tap_dir/all" -name metadata | while read -r metadata; do
	folder=${metadata%/metadata}
	if "$analyze" --format=json "$folder" | jq -e --arg id "$id" '[.comms[].id] == [$id]' >/dev/null; then
		mv "$folder" "$tap_dir/lttng/"
	fi
done

same()
{
	"$analyze" "$@" --format=json "$tap_dir/lttng" | jq -S . >"$tap_dir/from-lttng"
	"$analyze" "$@" --format=json "$tap_dir/log" | jq -S . >"$tap_dir/from-log"
	diff "$tap_dir/from-lttng" "$tap_dir/from-log"
}
for command in summary passes stragglers faults calls; do
	tap_is "$command of the LTTng trace and of the call logs are equal" same $command
done
tap_is "the rescue and the late rank are in the trace" json \
	'.comms[0].rescues[0].seq == 200 and ([.comms[0].late[] | select(.rank == 0)] | length) == 1' \
	"$analyze" --format=json "$tap_dir/lttng"
tap_is "trace and logs together count each call once" json '.comms[0].calls == 366 and .comms[0].lost_records == 0' \
	"$analyze" --format=json "$tap_dir/lttng" "$tap_dir/log"

# The folder of one rank's trace, in a fresh copy.
fresh()
{
	rm -rf "$tap_dir/damaged"
	cp -r "$tap_dir/lttng" "$tap_dir/damaged"
	stream=$(find "$tap_dir/damaged" -type f -path '*/calls_*' ! -path '*/index/*' -size +8k | sort | head -n 1)
	folder=${stream%/*}
}

# costs FILTER: damage is named with status 3, and the other rank's data is there.
costs()
{
	json ".comms[0].calls == 366 and (.damaged | length) >= 1 and ($1)" "$analyze" --format=json "$tap_dir/damaged" &&
		[ "$status" = 3 ] && return
	show
	return 1
}
tap_is "the trace has several files and packets, so that the following means something" test "$(find "$tap_dir/lttng" -name 'calls_*' \
	! -path '*/index/*' | wc -l)" -ge 6
fresh
truncate -s -100 "$stream"
tap_is "a torn last packet is cut off and named" costs '.damaged[0].reason | test("torn packet")'
fresh
head -c 4096 /dev/zero >>"$stream"
tap_is "zeros behind the last packet cost nothing before them" costs \
	'(.damaged[0].reason | test("no packet")) and .comms[0].lost_records == 0 and (.comms[0].ranks_present == [0,1])'
torn_inside()
{
	fresh
	{
		head -c 8000 "$stream"
		tail -c +8193 "$stream"
	} >"$tap_dir/torn"
	mv "$tap_dir/torn" "$stream"
	costs '(.damaged | length) == 1 and (.damaged[0].reason | test("torn packet in a stream .8000 of [0-9]+ bytes left out, at 0."))'
}
tap_is "a packet torn in the middle of a stream costs itself" torn_inside
# Events of a kind that there is not.
unreadable()
{
	fresh
	head -c 6000 /dev/zero | tr '\0' '\377' | dd of="$stream" bs=1 seek=8400 conv=notrunc 2>/dev/null
	costs '(.damaged | length) == 1 and
		(.damaged[0].reason | test("a packet that libbabeltrace2 cannot read .8192 of [0-9]+ bytes left out, at 8192.$"))'
}
tap_is "a packet that looks whole and cannot be read costs itself" unreadable
foreign()
{
	fresh
	other=$(find "$tap_dir/damaged" -type f -path '*/calls_*' ! -path '*/index/*' ! -path "$folder/*" -size +8k | sort | head -n 1)
	cat "$other" >>"$stream"
	json '.comms[0].calls == 366 and .comms[0].lost_records == 0 and (.damaged | length) == 1 and
		(.damaged[0].reason | test("a packet of another trace"))' "$analyze" --format=json "$tap_dir/damaged"
}
tap_is "packets of another trace are told apart" foreign
doubled()
{
	fresh
	cat "$stream" "$stream" >"$tap_dir/doubled"
	mv "$tap_dir/doubled" "$stream"
	json '.comms[0].calls == 366 and .comms[0].lost_records == 0 and (.damaged | length) == 1 and
		(.damaged[0].reason | test("a packet of an earlier time"))' "$analyze" --format=json "$tap_dir/damaged"
}
tap_is "a stream that was written twice into a file counts once" doubled
fresh
: >"$stream"
tap_is "an empty stream is named" costs '.damaged[0].reason | test("empty stream")'
for bytes in 0 10 37 2048; do
	fresh
	truncate -s $bytes "$folder/metadata"
	tap_is "metadata cut to $bytes bytes costs its trace and no time" costs '.damaged[0].reason | test("metadata")'
done
fresh
truncate -s 5000 "$folder/metadata"
tap_is "metadata cut behind its first packet costs its trace" costs '.damaged[0].reason | test("metadata")'
no_index()
{
	fresh
	find "$tap_dir/damaged" -type d -name index -exec rm -r {} +
	json '.comms[0].calls == 366 and .damaged == []' "$analyze" --format=json "$tap_dir/damaged"
}
tap_is "a trace without its index is read all the same" no_index
refused_over_input()
{
	fresh
	refuses "is an input" "$analyze" --output="$stream" "$tap_dir/damaged"
}
tap_is "--output never writes into a trace that is an input" refused_over_input
nothing_left()
{
	mkdir "$tap_dir/tmp" && fresh && truncate -s -100 "$stream"
	TMPDIR=$tap_dir/tmp "$analyze" "$tap_dir/damaged" >/dev/null
	[ -z "$(ls -A "$tap_dir/tmp")" ]
}
tap_is "nothing is left in TMPDIR" nothing_left
tap_end
