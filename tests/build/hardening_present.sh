#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The hardening flags have reached the ELF files: a misspelt variable in configure.ac would drop them unseen.
. "$top_srcdir/tests/support/tap.sh"

library=$top_builddir/.libs/libbelay.so

has()
{
	pattern=$1
	shift
	readelf -W "$@" | grep -q "$pattern"
}

has_not()
{
	! has "$@"
}

tap_is "all symbols are bound at load time" has 'BIND_NOW' -d "$library"
tap_is "the relocations are read-only after that" has 'GNU_RELRO' -l "$library"
tap_is "the stack is not executable" has 'GNU_STACK.* RW ' -l "$library"
tap_is "nothing is both writable and executable" has_not 'LOAD.* RWE ' -l "$library"
tap_is "no text needs relocation" has_not 'TEXTREL' -d "$library"
tap_is "no search path is built in" has_not 'RPATH\|RUNPATH' -d "$library"
tap_is "stacks are guarded" has '__stack_chk_fail' --dyn-syms "$library"
tap_is "the library has its name and version" has 'SONAME.*libbelay\.so\.0' -d "$library"
tap_is "it loads where there is no CUDA and no NCCL" has_not 'NEEDED.*\(libcu\|libnv\|libnccl\)' -d "$library"
tap_is "it needs no C++ library" has_not 'NEEDED.*libstdc' -d "$library"

# A program that uses the library is a script of libtool's beside it.
for name in belay-bench belay-info trace-analyze; do
	program=$top_builddir/.libs/$name
	[ -f "$program" ] || program=$top_builddir/$name
	tap_is "$name can be loaded anywhere" has 'Type: *DYN' -h "$program"
	tap_is "$name binds all symbols at load time, and keeps relocations read-only after that" \
		eval "has BIND_NOW -d '$program' && has GNU_RELRO -l '$program'"
	tap_is "$name has guarded stacks, which are not executable" \
		eval "has __stack_chk_fail --dyn-syms '$program' && has 'GNU_STACK.* RW ' -l '$program'"
done
tap_end
