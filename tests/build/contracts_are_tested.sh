#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The ordering contracts: those that the code speaks of, those of docs/memory-model.md and those with litmus tests are the
# same ones, and the document tells of each test.
# shellcheck disable=SC2016 # the backquotes are Markdown's
. "$top_srcdir/tests/support/tap.sh"
cd "$top_srcdir" || exit 1

document=docs/memory-model.md
tests='tests/litmus/contracts.litmus tests/litmus/device_contracts.litmus'
tap_folder

sources()
{
	find runtime kernels trace -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'
}

# The places where a contract is told: "NAME FILE", with the path as the document has it.
told()
{
	# shellcheck disable=SC2046 # names hold no blanks
	grep -oE 'Ordering contract \[[A-Z_ ]+\]' $(sources) | sed 's|^runtime/||; s|^\([^:]*\):.*\[\(.*\)\]|\2 \1|' | sort -u
}

# The rows of the two tables of contracts, alike.
listed()
{
	sed -n 's/^| \([A-Z_ ]*[A-Z]\) | `\([a-z_/]*\.[a-z]*\)` |.*/\1 \2/p' "$document" | sort -u
}

names()
{
	sed 's/ [^ ]*$//' | sort -u
}

# What a comment calls "[NAME]" or "contract NAME".
spoken_of()
{
	# shellcheck disable=SC2046
	sed -n 's|^.*/\*|/*|; s|\*/.*||; /^\/\*/p; /^[[:space:]]*\*/p' $(sources) |
		grep -oE '(^|[^][:alnum:]_])\[[A-Z][A-Z_ ]+[A-Z]\]|contracts? [A-Z][A-Z_ ]+[A-Z]\b' |
		sed 's/^contracts* //; s/.*\[//; s/\]//' | grep -v '_MAX$' | sort -u
}

# "NAME: SENTENCE" of each test, in order; and of each row of the document.
tested()
{
	# shellcheck disable=SC2086
	awk '/^test /{ name = substr($0, 6) } /^contract /{ print substr($0, 10) ": " name }' $tests
}
shown()
{
	sed -n '/^## Litmus tests/,/^## [^L]/s/^| \([A-Z_ ]*[A-Z]\) | \([^|]*[^| ]\) |.*/\1: \2/p' "$document"
}

# same A B: two commands print the same; if not, what differs.
same()
{
	"$1" >"$tap_dir/a"
	"$2" >"$tap_dir/b"
	[ -s "$tap_dir/a" ] && diff "$tap_dir/a" "$tap_dir/b"
}

listed_names()
{
	listed | names
}
tested_names()
{
	tested | sed 's/: .*//' | sort -u
}
sorted_tests()
{
	tested | sort
}
sorted_rows()
{
	shown | sort
}
all_known()
{
	listed_names >"$tap_dir/known"
	unknown=$(spoken_of | grep -vxFf "$tap_dir/known")
	[ -z "$unknown" ] || { echo "$unknown"; return 1; }
}

tap_is "every contract that the code tells is in the document, with its place, and the other way round" same told listed
tap_is "no comment speaks of a contract that there is not" all_known
tap_is "every contract has a litmus test, and every litmus test a contract" same listed_names tested_names
tap_is "the document tells of every litmus test, and of no other" same sorted_tests sorted_rows
tap_end
