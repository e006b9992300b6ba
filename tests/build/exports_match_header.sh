#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library exports what belay.h declares with BELAY_API, under the versions of libbelay.map, and nothing else.
. "$top_srcdir/tests/support/tap.sh"
tap_folder

# The functions of the header: each declaration on one line, then the name before the parameters.
$CC -E -P "$top_srcdir/runtime/belay.h" | tr '\n' ' ' | tr ';' '\n' |
	sed -n 's/.*visibility("default")[^;]*[ *]\(belay_[a-z0-9_]*\)(.*/\1/p' | sort >"$tap_dir/header"
nm -D --defined-only "$top_builddir/.libs/libbelay.so" |
	sed -n 's/.* [TDBRVW] \([^@]*\)@.*/\1/p' | sort >"$tap_dir/library"
sed -n 's/^[[:space:]]*\(belay_[a-z0-9_]*\);.*/\1/p' "$top_srcdir/runtime/libbelay.map" |
	sort >"$tap_dir/map"

tap_is "the header declares functions" test -s "$tap_dir/header"
tap_is "the version script lists what the header declares" diff -u "$tap_dir/header" "$tap_dir/map"
tap_is "the library exports what the header declares" diff -u "$tap_dir/header" "$tap_dir/library"
tap_end
