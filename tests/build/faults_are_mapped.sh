#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/faults.md has a line for each row of the fault matrix and for each case from the field, and each test that it names exists.
. "$top_srcdir/tests/support/tap.sh"
cd "$top_srcdir" || exit 1
tap_folder

rows=45
# The cases that are about host memory or the interface; those about devices and traces are listed where they are shown.
cases='F01 F02 F03 F04 F05 F06 F07 F09 F10 F11 F12 F13 F14 F17 F18 F20 F21 F22 F24 F27 F30 F31 F37 F38 F40 F43 F48 F49 F50 F51 F55 F56
F57 F58 F61 F62 F64 F65 F67 F69 F70 F76 F78 F82 F83 F84 F87 F88 F89 F90 F91 F93 F94 F96 F97 F99 F101 F102 F107'

# Lines of the tables that are written by hand, without their heads, and of the table of results.
by_hand=$tap_dir/by_hand
by_tests=$tap_dir/by_tests
awk '/^<!-- table of results: begin/ { made = 1 } /^<!-- table of results: end/ { made = 0 }
	/^\| / && !/^\| (row|---|case)/ { print > (made ? t : h) }' h="$by_hand" t="$by_tests" docs/faults.md
touch "$by_hand" "$by_tests"

# "ROW REST OF THE LINE" for each row or case of a line's first column; "27 to 30" are four.
awk -F'|' '{ n = split($2, word, /[ ,]+|and/)
	for (i = 1; i <= n; i++) {
		last = word[i + 1] == "to" ? word[i + 2] : word[i]
		if (word[i] ~ /^[0-9]+$/)
			for (r = word[i] + 0; r <= last + 0; r++) print r, $0
		else if (word[i] != "" && word[i] != "to")
			print word[i], $0
	} }' "$by_hand" >"$tap_dir/lines"

# A line says something when it names a test, or says that and why nothing is shown.
mapped()
{
	absent=0
	for one in "$@"; do
		grep "^$one " "$tap_dir/lines" | grep -qE '[a-z0-9]+(_[a-z0-9]+){2,}|\.sh|not shown|: all' && continue
		echo "$one stands in no line that names a test or says why there is none"
		absent=1
	done
	return $absent
}

# Names of Check tests have three words or more; a word with a slash or a dot is a file.
tests_exist()
{
	cut -d'|' -f3,4 "$by_hand" "$by_tests" | tr -c 'a-zA-Z0-9_./' '\n' | grep -E '^[a-z0-9]+(_[a-z0-9]+){3,}$' | sort -u >"$tap_dir/named"
	grep -rhoE '^(START|FAULT)_TEST\([a-z0-9_]+' tests | sed 's/.*(//' | sort -u >"$tap_dir/tests"
	[ -s "$tap_dir/named" ] && comm -23 "$tap_dir/named" "$tap_dir/tests" >"$tap_dir/absent"
	[ ! -s "$tap_dir/absent" ] || { echo "no such test:" && cat "$tap_dir/absent" && return 1; }
}

# What a test says that it shows stands in a line of the document with its name, or with "PROGRAM: all".
agreed()
{
	grep -roE '^FAULT_TEST\([^)]*\)' tests/group | sed 's|.*/\(.*\)[.]c:FAULT_TEST(|\1 |; s/, / /; s/[")]//g' >"$tap_dir/shows"
	awk 'FNR == NR { line[$1] = line[$1] $0; next }
		{ for (i = 3; i <= NF; i++)
			if (line[$i] !~ "[^a-z_]" $2 "[^a-z_]" && line[$i] !~ $1 ": all") {
				print $2 " shows " $i ", but no line of " $i " names it"; astray = 1
			} }
		END { exit astray || !FNR }' "$tap_dir/lines" "$tap_dir/shows"
}

# shellcheck disable=SC2046 # numbers
tap_is "every row of the fault matrix is in the document" mapped $(seq $rows)
# shellcheck disable=SC2086 # words
tap_is "every case from the field is in the document" mapped $cases
tap_is "every test that it names exists" tests_exist
tap_is "every test that shows a row is named there" agreed
tap_end
