#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The documents made from the source's lists are what `make lists` would write.
# And the rules that the protocol's model is explored without are those that the cluster fixture is run without.
. "$top_srcdir/tests/support/tap.sh"

same_as_made()
{
	"$top_builddir/tools/make_lists" "$(basename "$1")" | diff -u "$top_srcdir/$1" -
}

rules_of_model()
{
	sed -n 's/^ \*   \([A-Z][A-Z0-9]*\)  *[A-Z][0-9].*/\1/p' "$top_srcdir/docs/protocol.pml" | sort
}

rules_of_fixture()
{
	sed -n '/^	MUTATION_NONE,/,/^	LATEISLOST,/p' "$top_srcdir/tests/cluster/cluster.h" | sed 's|/[*].*||' |
		tr -s ', \t' '\n' | grep -v '^MUTATION_NONE$\|^LATEISLOST$\|^$' | sort
}

same_rules()
{
	rules_of_model >"$tap_dir/model"
	test -s "$tap_dir/model" && rules_of_fixture | diff -u "$tap_dir/model" -
}

tap_folder
for list in docs/settings.md docs/statuses.md docs/man/belay-settings.7; do
	tap_is "$list is up to date" same_as_made "$list"
done
tap_is "the cluster fixture is run without each rule that the model is explored without" same_rules
tap_end
