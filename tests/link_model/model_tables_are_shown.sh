#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tables of docs/path-choice.md that the link model has made are what it makes today.
. "$top_srcdir/tests/support/tap.sh"
tap_folder

crossovers=$top_builddir/tests/link_model/crossovers

# The document has them between "<!-- crossovers PART: begin -->" and "<!-- crossovers PART: end -->".
shown()
{
	sed -n "/^<!-- crossovers $1: begin -->/,/^<!-- crossovers $1: end -->/p" "$top_srcdir/docs/path-choice.md" |
		grep -v '^<!--\|^```\|^$'
}

same()
{
	"$crossovers" "$1" >"$tap_dir/made" && shown "$1" | diff -u "$tap_dir/made" -
}

for part in figures best islands ports rows; do
	tap_is "docs/path-choice.md shows what 'crossovers $part' prints" same $part
done
tap_end
