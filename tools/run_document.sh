#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a document with what its commands print now: in blocks that begin with ```console, each line "$ COMMAND" is run in
# FOLDER, and its output takes the place of what stood behind it. Only commands of trace-analyze belong there.
#
# usage: run_document.sh DOCUMENT FOLDER; trace-analyze is found by PATH
set -eu

document=$1
folder=$2
inside=

while IFS= read -r line; do
	case $inside$line in
	'```console')
		inside=1
		printf '%s\n' "$line"
		;;
	'1```')
		inside=
		printf '%s\n' "$line"
		;;
	'1$ '*)
		printf '%s\n' "$line"
		(cd "$folder" && sh -c "${line#$ }" 2>&1 </dev/null) || :
		;;
	1*) ;;
	*) printf '%s\n' "$line" ;;
	esac
done <"$document"
