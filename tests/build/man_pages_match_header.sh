#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The man pages of the library say what belay.h says: every function has a page, with the header's prototype, and every
# status that the header gives for a function stands in its page.
# shellcheck disable=SC2013 # words are wanted
. "$top_srcdir/tests/support/tap.sh"
tap_folder
header=$top_srcdir/runtime/belay.h
pages=$top_srcdir/docs/man

# One spelling for blanks: one between words, none beside * ( and ).
spell()
{
	sed 's/[[:space:]][[:space:]]*/ /g; s/ *\([*()]\) */\1/g; s/^ //; s/ $//'
}

$CC -E -P "$header" | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
	sed 's/.*visibility("default")))//; s/__attribute__((warn_unused_result))//' | spell | sort >"$tap_dir/header"

# The .Ft, .Fo, .Fa and .Fc lines of each page's synopsis, a prototype a line.
for page in "$pages"/*.3; do
	awk '/^\.Sh/ { synopsis = /SYNOPSIS/ }
		!synopsis { next }
		{ rest = $0; sub(/^\.[A-Za-z]+ /, "", rest); gsub(/"/, "", rest) }
		/^\.Ft/ { type = rest }
		/^\.Fo/ { name = rest; n = 0; arguments = "" }
		/^\.Fa/ { arguments = arguments (n++ ? ", " : "") rest }
		/^\.Fc/ { print type " " name "(" arguments ")" }' "$page" | spell
done | sort >"$tap_dir/pages"

# Function and status, for each status that stands in the comment right before a declaration.
awk '/^\/\*\*/ { comment = "" } { comment = comment " " $0 }
	/^BELAY_API/ && match($0, /belay_[a-z_]+\(/) {
		name = substr($0, RSTART, RLENGTH - 1)
		while (match(comment, /BELAY_E_[A-Z_]+/)) {
			print name, substr(comment, RSTART, RLENGTH)
			comment = substr(comment, RSTART + RLENGTH)
		}
	}' "$header" >"$tap_dir/statuses"

page_of()
{
	grep -l "^\.Nm $1\( ,\)\{0,1\}\$" "$pages"/*.3
}

statuses_stand_there()
{
	missing=0
	while read -r name status; do
		grep -q "$status\>" "$(page_of "$name")" && continue
		echo "$name: $status is not in $(page_of "$name")"
		missing=1
	done <"$tap_dir/statuses"
	return $missing
}

statuses_exist()
{
	strange=0
	for status in $(grep -hv '^\.Dt' "$pages"/*.3 | grep -o 'BELAY_[A-Z][A-Z_0-9]*' | sort -u); do
		grep -q "\<$status\>" "$header" "$top_srcdir/runtime/settings.def" && continue
		echo "$status is neither in belay.h nor a setting"
		strange=1
	done
	return $strange
}

# A page for each function, of its own or leading to the one that has it among its names.
pages_exist()
{
	absent=0
	for name in $(sed 's/.*[* ]\(belay_[a-z_]*\)(.*/\1/' "$tap_dir/header"); do
		page=$(page_of "$name")
		[ "$page" = "$pages/$name.3" ] && continue
		[ "$(cat "$top_builddir/docs/man/links/$name.3")" = ".so man3/${page##*/}" ] && continue
		echo "no page for $name"
		absent=1
	done
	return $absent
}

references_exist()
{
	dead=0
	for name in $(sed -n 's/^\.Xr \(belay[^ ]*\|libbelay\|trace-analyze\) \([1-8]\).*/\1.\2/p' "$pages"/*.[1-8] | sort -u); do
		[ -f "$pages/$name" ] || [ -f "$top_builddir/docs/man/links/$name" ] && continue
		echo "there is no $name"
		dead=1
	done
	return $dead
}

tap_is "the header has prototypes to compare" test -s "$tap_dir/header"
tap_is "the header has statuses to compare" test -s "$tap_dir/statuses"
tap_is "the pages have the header's prototypes, each once" diff -u "$tap_dir/header" "$tap_dir/pages"
tap_is "every function has a page" pages_exist
tap_is "every status of a function stands in its page" statuses_stand_there
tap_is "the pages name no constant that does not exist" statuses_exist
tap_is "the pages lead to pages that exist" references_exist
tap_end
