#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libbelay-nccl stands before NCCL or in its place: it has all of NCCL's functions and no others, and a program cannot tell
# it from NCCL where belay has no GPU.
. "$top_srcdir/tests/support/tap.sh"
tap_folder

library=$top_builddir/.libs/libbelay-nccl.so
program=$top_builddir/tests/support/nccl_program
BELAY_NCCL_LIBRARY=$top_builddir/tests/support/.libs/libtest-nccl-stub.so
# Belay has no GPU here, wherever this runs.
CUDA_VISIBLE_DEVICES=
BELAY_START_MS=20000
STUB_NCCL=version=22799
export BELAY_NCCL_LIBRARY BELAY_START_MS CUDA_VISIBLE_DEVICES STUB_NCCL

if [ ! -e "$library" ]; then
	tap_skip "libbelay-nccl" "built without NCCL"
	tap_end
	exit
fi

# shellcheck disable=SC2086 # words
header=$(printf '#include <nccl.h>\n' | $CC $NCCL_FLAGS -E -M -x c - 2>/dev/null | tr ' ' '\n' | grep '/nccl\.h$' | head -n 1)
sed -n 's/.*[ *]\(nccl[A-Z][A-Za-z0-9]*\)(.*/\1/p' "${header:-/dev/null}" | grep -v Init_ | sort -u >"$tap_dir/header"
nm -D --defined-only "$library" | sed -n 's/.* [TDBRVW] //p' | sort >"$tap_dir/library"

has_all()
{
	missing=$(comm -23 "$tap_dir/header" "$tap_dir/library")
	[ -z "$missing" ] || { echo "not there: $missing"; false; }
}

only_nccls()
{
	! grep -v '^nccl[A-Z]\|^belay_nccl_' "$tap_dir/library"
}

# ends STATUS OUT COMMAND...: standard output in $tap_dir/OUT, standard error in $tap_dir/err
ends()
{
	wanted=$1
	out=$2
	shift 2
	got=0
	timeout 60 "$@" >"$tap_dir/$out" 2>"$tap_dir/err" || got=$?
	[ $got = "$wanted" ] || { echo "status $got"; cat "$tap_dir/$out" "$tap_dir/err"; false; }
}

says()
{
	grep -q "$1" "$tap_dir/$2" || { cat "$tap_dir/$2"; false; }
}

tap_is "the header's functions are found" test "$(wc -l <"$tap_dir/header")" -gt 30
tap_is "it has each function of NCCL's header" has_all
tap_is "it has nothing else" only_nccls
tap_is "it is not linked with NCCL or CUDA" sh -c "! readelf -d '$library' | grep -q 'NEEDED.*\(libnccl\|libcu\)'"
tap_is "it finds the libbelay beside it" sh -c "readelf -d '$library' | grep -q 'R.*PATH.*ORIGIN'"
tap_is "all its symbols are bound at load time" sh -c "readelf -d '$library' | grep -q BIND_NOW"

tap_is "a program on NCCL alone" ends 0 alone "$program"
tap_is "... has its NCCL" says '^version 22799$' alone
tap_is "the same under LD_PRELOAD" ends 0 preloaded env LD_PRELOAD="$library" "$program"
tap_is "... prints the same" cmp "$tap_dir/alone" "$tap_dir/preloaded"
tap_is "... and belay says why it leaves the communicator alone" says 'warn: a communicator of 2 ranks stays with NCCL alone: ' err
tap_is "switched off" ends 0 disabled env BELAY_DISABLE=1 LD_PRELOAD="$library" "$program"
tap_is "... prints the same" cmp "$tap_dir/alone" "$tap_dir/disabled"
tap_is "... and belay says nothing" test ! -s "$tap_dir/err"
tap_is "loaded in NCCL's place" ends 0 loaded "$program" "$library"
tap_is "... has its functions" says '^version 22799$' loaded
tap_is "... and sums" says '^sum 3 4 8$' loaded
tap_is "a function that the NCCL in use lacks is an error that names it" says '^unknown 5: .*ncclCommSuspend: the NCCL in use has no such function$' loaded
cat >"$tap_dir/sizes.c" <<'END'
#include <stddef.h>
#include <stdio.h>
#include "runtime/belay.h"
int main(void)
{
	printf("%zu %zu %zu %zu %zu %zu\n", sizeof(struct belay_verdict), offsetof(struct belay_verdict, text), sizeof(struct belay_health),
	       offsetof(struct belay_health, last_algorithm), sizeof(struct belay_place), offsetof(struct belay_place, rank));
	return 0;
}
END
cat >"$tap_dir/sizes.py" <<'END'
import ctypes, belay
v, h, p = belay.Verdict, belay.Health, belay.Place
print(ctypes.sizeof(v), v.raw_text.offset, ctypes.sizeof(h), h.last_algorithm.offset, ctypes.sizeof(p), p.rank.offset)
END
cat >"$tap_dir/marks.py" <<'END'
import belay
with belay.one_pass():
    print(belay.active(), belay.communicators())
END
sizes_are_the_headers()
{
	# shellcheck disable=SC2086 # flags are words
	$CC ${SAN_CFLAGS:-} -I "$top_srcdir" -o "$tap_dir/sizes" "$tap_dir/sizes.c" && "$tap_dir/sizes" >"$tap_dir/c" && python3 "$tap_dir/sizes.py" >"$tap_dir/py" &&
		diff "$tap_dir/c" "$tap_dir/py"
}
if command -v python3 >/dev/null; then
	PYTHONPATH=$(cd "$top_srcdir" && pwd)/tools/python
	PYTHONDONTWRITEBYTECODE=1
	export PYTHONPATH PYTHONDONTWRITEBYTECODE
	tap_is "belay.py has the structures of belay.h" sizes_are_the_headers
	tap_is "belay.py without libbelay-nccl" ends 0 python python3 "$tap_dir/marks.py"
	tap_is "... marks nothing" says '^False \[\]$' python
	tap_is "belay.py under libbelay-nccl" ends 0 python env LD_PRELOAD="$library" python3 "$tap_dir/marks.py"
	tap_is "... finds it, and no communicator" says '^True \[\]$' python
else
	tap_skip "belay.py" "no python3"
fi

tap_is "without NCCL it says so" ends 1 none env BELAY_NCCL_LIBRARY=/nonexistent/libnccl.so.2 "$program" "$library"
tap_is "... with the file's name" says '^no id: .*ncclGetUniqueId: .*/nonexistent/libnccl.so.2' none
tap_end
