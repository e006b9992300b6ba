#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the documents name exists: the files that they link to or mention, the functions, and themselves in the archive.
# shellcheck disable=SC2016 # the backquotes are Markdown's
. "$top_srcdir/tests/support/tap.sh"
cd "$top_srcdir" || exit 1

documents=$(find README.md docs -name '*.md')

# pieces PATTERN: what matches in all documents, as "DOCUMENT MATCH"; blocks between ``` are left out.
pieces()
{
	for document in $documents; do
		awk '/^[ ]*```/ { inside = !inside; next } !inside' "$document" | grep -oE "$1" | sort -u |
			sed "s|^|$document |"
	done
}

# exist_all COMMAND: the command is called with document and piece, for each line of the input.
exist_all()
{
	missing=0
	while read -r document piece; do
		"$1" "$document" "$piece" && continue
		echo "$document: $piece does not exist"
		missing=1
	done
	return $missing
}

linked()
{
	target=${2#](}
	target=${target%)}
	target=${target%%#*}
	case $target in
	http*://* | '') return 0 ;;
	esac
	[ -e "$(dirname "$1")/$target" ]
}

# A path as it stands, or below runtime/ or docs/, or just a name that some file has; a program by its source.
named()
{
	file=$(echo "$2" | tr -d '`')
	[ -e "$file" ] || [ -e "$file.c" ] || [ -e "runtime/$file" ] || [ -e "docs/$file" ] && return
	case $file in
	*/*) return 1 ;;
	esac
	[ -n "$(find .ci README.md Makefile.am configure.ac runtime kernels trace tools tests docs -name "$file")" ]
}

defined()
{
	function=$(echo "$2" | tr -d '`()')
	grep -rqw --include='*.[ch]' --include='*.sh' --include='*.cu' --include='*.cuh' -e "$function" runtime kernels trace tools tests
}

links_lead_somewhere()
{
	pieces '\]\([^) ]+\)' | exist_all linked
}

files_exist()
{
	pieces '`[a-zA-Z_./-]+\.(c|h|cu|cuh|def|map|sh|awk|am|ac|md|pml)`' | exist_all named
}

folders_exist()
{
	pieces '`(runtime|kernels|trace|tools|tests|docs)/[a-z_/]*`' | exist_all named
}

functions_exist()
{
	pieces '`[a-z_0-9]+\(\)`' | exist_all defined
}

archived()
{
	absent=0
	for document in $documents; do
		[ "$document" = README.md ] || grep -qF "%D%/${document#docs/}" docs/docs.am && continue
		echo "$document is not listed in docs/docs.am"
		absent=1
	done
	return $absent
}

tap_is "every link leads to a file" links_lead_somewhere
tap_is "every file that is mentioned exists" files_exist
tap_is "every folder that is mentioned exists" folders_exist
tap_is "every function that is mentioned exists" functions_exist
tap_is "every document goes into the archive" archived
tap_end
