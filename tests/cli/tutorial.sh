#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What docs/tutorial.md shows of trace-analyze is what it prints. When that has changed for good: make tutorial.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"

# The commands of the tutorial run where its recordings are `logs` and `gpu-logs`.
place=$tap_dir/place
mkdir "$place" && cp -r "$top_srcdir/tests/data/tutorial" "$place/logs" && cp -r "$top_srcdir/tests/data/tutorial-gpu" "$place/gpu-logs" && chmod -R u+w "$place" || exit 1
PATH=$(cd "$top_builddir" && pwd):$PATH
export PATH

true_to_the_letter()
{
	timeout -k 5 60 sh "$top_srcdir/tools/run_document.sh" "$top_srcdir/docs/tutorial.md" "$place" >"$tap_dir/now" || return 1
	diff -u "$top_srcdir/docs/tutorial.md" "$tap_dir/now"
}
tap_is "the tutorial's commands print what it shows" true_to_the_letter

# Its record part cannot be repeated to the letter; what it leaves behind can be.
made()
{
	[ "$(tail -n 1 "$place/report.html")" = '</html>' ] && [ -s "$place/slow.pftrace" ]
}
tap_is "the files that it has made are there" made
tap_end
