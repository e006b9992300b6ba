#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace-analyze report: one page that says what happened, looked at in a real browser where there is one.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
analyze=$top_builddir/trace-analyze
logs=$tap_dir/logs
page=$tap_dir/page.html
"$top_builddir/tests/support/make_log" "$logs" ranks=4 passes=40 straggler=1 straggler_ns=14000000 straggler_from=2000 \
	straggler_to=2019 rescue_seq=800 rescue_stuck=2 rescue_lost=3 kill_seq=4800 kill_rank=0 >/dev/null || exit 1
# Names of inputs are text from outside.
hostile="$tap_dir/<img src=x onerror=alert(1)>\"'&.belay"
printf 'not a log' >"$hostile"

written()
{
	ends 1 "$analyze" report --output="$page" "$logs" && [ ! -s "$tap_dir/out" ] && [ ! -s "$tap_dir/err" ] &&
		[ "$(head -n 1 "$page")" = '<!DOCTYPE html>' ] && [ "$(tail -n 1 "$page")" = '</html>' ]
}
tap_is "a page is written whole, with the exit status of the recording" written

same_on_stdout()
{
	ends 1 "$analyze" report "$logs" && cmp "$tap_dir/out" "$page"
}
tap_is "without --output the page goes to standard output" same_on_stdout

# Nothing that a browser would fetch.
names_nothing_outside()
{
	! grep -nE 'https?:|//[a-z]|@import|url\(|<(img|iframe|object|embed)|src=' "$page"
}
tap_is "the page names nothing outside itself" names_nothing_outside

tap_is "--format is not for it" refuses "report has one format: --format is not for it" "$analyze" report --format=json "$logs"
tap_is "an input is never written over" refuses "is an input" "$analyze" report --output="$hostile" "$hostile"

# size NAME=NUMBER...: the bytes of the page of that recording.
size()
{
	rm -rf "$tap_dir/long"
	"$top_builddir/tests/support/make_log" "$tap_dir/long" "$@" >/dev/null || return 1
	"$analyze" report "$tap_dir/long" | wc -c
}
bounded()
{
	short=$(size ranks=4 passes=300 calls=10) && long=$(size ranks=4 passes=6000 calls=10) || return 1
	echo "300 passes: $short bytes, 6000 passes: $long bytes"
	[ "$long" -lt $((short * 3 / 2)) ] && [ "$long" -lt 300000 ]
}
tap_is "the page of a long recording is no larger than that of a short one" bounded

empty()
{
	mkdir "$tap_dir/empty" && ends 3 "$analyze" report "$tap_dir/empty" && grep -q 'No calls were found' "$tap_dir/out" &&
		[ "$(tail -n 1 "$tap_dir/out")" = '</html>' ]
}
tap_is "where there are no calls the page says so" empty

# In the browser ----------------------------------------------------------------------------------

# A profile of its own, and nothing that the browser asks of the network by itself.
browser()
{
	timeout -k 5 50 "$chromium" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
		--disable-background-networking --disable-component-update --disable-sync --user-data-dir="$tap_dir/profile" \
		--enable-logging=stderr "$@" 2>"$tap_dir/browser.err"
}

# look PAGE RESULT BROWSER-OPTION...: opens the page with the probe in it and leaves what it found in RESULT.
look()
{
	look_page=$1
	look_result=$2
	shift 2
	{
		sed '/<head>/q' "$look_page"
		echo '<script>window.problems = []; addEventListener("error", (e) => problems.push(e.message));'
		echo 'addEventListener("securitypolicyviolation", (e) => problems.push("policy: " + e.blockedURI));</script>'
		sed '1,/<head>/d;/^<\/body>$/,$d' "$look_page"
		echo '<script>'
		cat "$top_srcdir/tests/support/page_probe.js"
		printf '</script>\n</body>\n</html>\n'
	} >"$tap_dir/probed.html"
	browser "$@" --dump-dom "file://$tap_dir/probed.html" >"$tap_dir/dom" || return 1
	sed -n 's/.*<pre id="probe">\(.*\)<\/pre>.*/\1/p' "$tap_dir/dom" >"$look_result"
	[ -s "$look_result" ] || { cat "$tap_dir/browser.err"; return 1; }
}

# holds RESULT FILTER
holds()
{
	jq -e "$2" "$1" >/dev/null && return
	jq . "$1"
	return 1
}

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || :)
why=
if [ -z "$chromium" ]; then
	why="no chromium"
elif ! browser --dump-dom "file://$page" >"$tap_dir/untouched" || ! grep -q 'What happened' "$tap_dir/untouched"; then
	why="chromium does not run here"
fi

# in_browser SENTENCE COMMAND...
in_browser()
{
	if [ -n "$why" ]; then
		tap_skip "$1" "$why"
	else
		tap_is "$@"
	fi
}

# Of the page as it is.
said=$(grep CONSOLE "$tap_dir/browser.err" 2>/dev/null)
in_browser "the page loads without a word on the console" test -z "$said"

result=$tap_dir/light.json
in_browser "it opens in a wide window" look "$page" "$result" --window-size=1200,900
in_browser "nothing fails in it, nothing is loaded and nothing is refused" holds "$result" \
	'.problems == [] and .loaded == [] and .images == 0 and .idsTwice == [] and .namelessPictures == 0'
in_browser "it has all figures" holds "$result" '.figures == ["c1-passes", "c1-latency", "c1-arrivals", "c1-faults"]'
in_browser "it begins with what one would tell a colleague" holds "$result" '
	(.story[0] | test("Rank 0 died in seq 4800")) and ([.summary[] | test("in short")] | any | not)'
in_browser "its tiles and its summary say what happened" holds "$result" '
	(.tiles | join(" ") | test("40") and test("rank 1") and test("peer_lost") and test("rank 0 at fault")) and
	(.summary | join(" ") | test("verdict +seq 4800 .pass 40.: peer_lost, rank 0 at fault"))'
in_browser "the slow passes are told, the worst first, with the rank waited for" holds "$result" '
	[.tables["Slowest passes"][] | .[0], .[6]] == ["17", "rank 1"]'
in_browser "the worst calls are those of the straggler" holds "$result" '
	.tables["Worst calls"] | length == 25 and ([.[:20][] | (.[0] | tonumber) >= 2000 and (.[0] | tonumber) < 2020] | all) and
	([.[:20][] | .[6] | test("^rank 1, by 1[0-9].")] | all)'
in_browser "latency has a row for the one size and path" holds "$result" \
	'.tables.latency[0][:3] == ["symm", "112K", "4800"]'
in_browser "every plot is read out by the arrow keys" holds "$result" '
	([.readings[] | .focused and .last == .spoken and (.columns == 1 or .first != .second)] | all) and
	(.readings[0] | .columns == 40 and (.first | test("^pass 1, at 0: ")) and (.second | test("^pass 2, ")) and
		(.last | test("failed calls: 1")))'
in_browser "faults in words name seq, pass and rank" holds "$result" '
	[.tables["faults in words"][] | join(" ")] | any(test("seq 800 .pass 7. rescue: rank 2 stuck, finished over ring")) and
	any(test("verdict: peer_lost, rank 0 at fault"))'
in_browser "its text has contrast by day" holds "$result" '.dark == false and .contrast.ratio >= 4.5'

result=$tap_dir/dark.json
in_browser "it opens on a phone at night" look "$page" "$result" --window-size=390,800 --blink-settings=preferredColorScheme=0
in_browser "its text has contrast by night" holds "$result" '.dark and .contrast.ratio >= 4.5'
in_browser "it is as wide as the phone" holds "$result" '.width <= 500 and .overflow == 0'

# Several communicators, and an input the name of which is markup.
several()
{
	mkdir "$tap_dir/several" || return 1
	for seed in 2 3 4; do
		"$top_builddir/tests/support/make_log" "$tap_dir/several/$seed" seed=$seed ranks=2 passes=3 calls=20 >/dev/null || return 1
	done
	ends 3 "$analyze" report --output="$page" "$tap_dir/several" "$logs" "$hostile" && look "$page" "$tap_dir/several.json"
}
in_browser "a recording of several communicators, with a hostile name among the inputs, opens" several
in_browser "it begins with a line for each, which leads there and says the worst" holds "$tap_dir/several.json" '
	.problems == [] and .idsTwice == [] and (.index | length == 4) and ([.index[].leads] | all) and
	([.index[] | select(.bad == "bad") | .text] | length == 1 and (.[0] | test("4 ranks, 4800 calls: Rank 0 died"))) and
	.contrast.ratio >= 4.5'
in_browser "a page of one has no such list" holds "$tap_dir/dark.json" '.index == []'
in_browser "the hostile name is text" holds "$tap_dir/several.json" '.images == 0 and
	(.tables["damaged input"][0][0] | endswith("<img src=x onerror=alert(1)>\"'"'"'&.belay"))'
tap_end
