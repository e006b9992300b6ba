#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make install` installs what is listed in installed.txt, and a user's program compiles against it.
. "$top_srcdir/tests/support/tap.sh"
tap_folder

installs()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$top_builddir" install DESTDIR="$tap_dir/root"
}

listed()
{
	(cd "$tap_dir/root/$prefix" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort) >"$tap_dir/found"
	# Only where there is NCCL.
	without=none
	[ -e "$top_builddir/.libs/libbelay-nccl.so" ] || without='belay[-_]nccl\.[hls7]\|python'
	grep -v "$without" "$top_srcdir/tests/build/installed.txt" | diff -u - "$tap_dir/found"
}

nothing_outside_prefix()
{
	outside=$(find "$tap_dir/root" ! -type d ! -path "$tap_dir/root$prefix/*")
	[ -z "$outside" ] || { echo "$outside"; return 1; }
}

config()
{
	PKG_CONFIG_LIBDIR="$tap_dir/root$prefix/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$tap_dir/root" pkg-config "$@" belay
}

compiles_and_runs()
{
	cat >"$tap_dir/user.c" <<-'END'
		#include <belay.h>
		#include <stdio.h>
		int main(void) { return puts(belay_version()) < 0; }
	END
	# shellcheck disable=SC2046,SC2086 # flags are words
	$CC $SAN_CFLAGS -Wall -Werror -o "$tap_dir/user" "$tap_dir/user.c" $(config --cflags --libs) || return 1
	version=$(LD_LIBRARY_PATH="$tap_dir/root$prefix/lib" "$tap_dir/user") || return 1
	echo "the program says $version, belay.pc says $(config --modversion)"
	[ "$version" = "$(config --modversion)" ]
}

tap_is "make install works with DESTDIR" installs
tap_is "it installs the listed files" listed
tap_is "it installs nothing outside the prefix" nothing_outside_prefix
if command -v pkg-config >/dev/null; then
	tap_is "belay.pc compiles and links a user's program" compiles_and_runs
else
	tap_skip "belay.pc compiles and links a user's program" "no pkg-config"
fi
tap_end
