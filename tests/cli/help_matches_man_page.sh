#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every long option of a command's help stands in its man page, and the other way round.
. "$top_srcdir/tests/support/tap.sh"
tap_folder

# The options of a page: its list items, in whichever macro language.
man_options()
{
	sed -n -e 's/^\.It Fl Fl \([a-z-]*\).*/\1/p' -e 's/\\-/-/g' \
		-e 's/^\.B[IR]* .*--\([a-z-]*\).*/\1/p' "$1" | sort -u
}

for command in belay-bench belay-info trace-analyze; do
	page=$top_srcdir/docs/man/$command.1
	if [ ! -x "$top_builddir/$command" ] || [ ! -f "$page" ]; then
		tap_skip "help and man page of $command name the same options" "not built"
		continue
	fi
	"$top_builddir/$command" --help | grep -oE '^ .*--[a-z-]+' | grep -oE -- '--[a-z][a-z-]*' | sed 's/^--//' | sort -u \
		>"$tap_dir/help"
	man_options "$page" >"$tap_dir/man"
	tap_is "help and man page of $command name the same options" diff -u "$tap_dir/help" "$tap_dir/man"
done
tap_end
