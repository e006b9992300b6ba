#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# archive_is_whole.sh ARCHIVE: every file that git knows, but for what serves work in a clone alone, is in the archive.
set -eu
archive=$(realpath "$1")
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tar -tf "$archive" | sed 's/^[^/]*.//' | sort >"$dir/archived"
git ls-files | grep -v '^[.]ci/\|^[.]clang-format$\|^[.]editorconfig$\|^[.]gitignore$' | sort >"$dir/known"
if comm -13 "$dir/archived" "$dir/known" >"$dir/missing" && [ ! -s "$dir/missing" ]; then
	echo "# PASS: 1"
	exit
fi
sed 's/^/FAIL: not in the archive: /' "$dir/missing"
exit 1
