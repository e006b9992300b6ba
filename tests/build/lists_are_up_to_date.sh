#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The documents made from the source's lists are what `make lists` would write.
. "$top_srcdir/tests/support/tap.sh"

same_as_made()
{
	"$top_builddir/tools/make_lists" "$(basename "$1")" | diff -u "$top_srcdir/$1" -
}

for list in docs/settings.md docs/statuses.md docs/man/belay-settings.7; do
	tap_is "$list is up to date" same_as_made "$list"
done
tap_end
