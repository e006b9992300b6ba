#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay.h compiles alone, without a warning, in C and C++, with each compiler found; so does each internal header in C.
. "$top_srcdir/tests/support/tap.sh"
tap_folder

# compiles COMPILER FLAGS... : reads the program from $tap_dir/program.c
compiles()
{
	"$@" -Wall -Wextra -Werror -fsyntax-only "$tap_dir/program.c"
}

echo '#include "belay.h"
int main(void) { return belay_version() == 0; }' >"$tap_dir/program.c"
for compiler in gcc clang; do
	for standard in c99 c11; do
		name="belay.h compiles as $standard with $compiler"
		if command -v $compiler >/dev/null; then
			tap_is "$name" compiles $compiler -std=$standard -pedantic -I"$top_srcdir/runtime"
		else
			tap_skip "$name" "no $compiler"
		fi
	done
done
for compiler in g++ clang++; do
	name="belay.h compiles as C++17 with $compiler"
	if command -v $compiler >/dev/null; then
		tap_is "$name" compiles $compiler -x c++ -std=c++17 -pedantic -I"$top_srcdir/runtime"
	else
		tap_skip "$name" "no $compiler"
	fi
done

# Each header of a folder, one after the other, so that none can lean on what another includes.
headers_compile()
{
	failed=0
	for header in "$top_srcdir/$1"/*.h "$top_srcdir/$1"/*/*.h; do
		case $header in
		*/tracepoints.h | *'*'*) continue ;; # LTTng's own inclusion rules; or no header here
		esac
		# A template is included by another header, several times, and says so.
		! grep -q '^ \* Template:' "$header" || continue
		echo "#include \"${header#"$top_srcdir"/}\"" >"$tap_dir/program.c"
		# shellcheck disable=SC2086 # CC may hold flags
		compiles $CC -std=gnu11 -D_GNU_SOURCE -Wno-unused-function -I"$top_srcdir" -I"$top_builddir" ||
			failed=1
	done
	return $failed
}

for folder in runtime kernels trace tools; do
	tap_is "each header of $folder compiles alone" headers_compile $folder
done
tap_end
