#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# model.sh MODEL: runs spin over the protocol's model, as it is and with each rule taken away, and prints a table.
# The whole takes under three minutes of processor time. Exit status: 0 as expected (or no spin), 1 not.
set -u
model=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
if ! command -v spin >/dev/null; then
	echo "SKIP: spin is not installed"
	exit 0
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/belay-model.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

# run NAME EXPECTED SECONDS SWITCH...: EXPECTED is 0 (no error may be found) or 1 (one must be). Seconds of processor
# time, so that a busy machine changes nothing.
run()
{
	name=$1 expected=$2 seconds=$3
	shift 3
	mkdir -p "$dir/$name" && cd "$dir/$name" || exit 1
	spin "$@" -a "$model" >spin.out 2>&1 || { cat spin.out; exit 1; }
	"${CC:-cc}" -O2 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM="${MEM:-4000}" -o pan pan.c || exit 1
	# shellcheck disable=SC3045 # not in POSIX, but in every sh that has spin beside it
	(ulimit -t "$seconds" && exec ./pan -m2000000) >pan.out 2>&1 || true # killed at the limit, or an error: told below
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.out)
	states=$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out)
	what=exhaustive
	! grep -qi 'max search depth\|out of memory\|memory limit' pan.out || what="cut short"
	[ -n "$errors" ] || what="none in $seconds s"
	[ "${errors:-0}" = 0 ] || what=$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/\1/p' pan.out | cut -c1-50)
	mark=ok
	[ "${errors:-0}" = "$expected" ] || { mark=WRONG; bad=1; }
	printf '%-5s  %-14s  %-9s  %-10s  %s\n' "$mark" "$name" "${errors:-0} errors" "${states:--}" "$what"
}

printf '%-5s  %-14s  %-9s  %-10s  %s\n' "" rule found states how
# All rules: no error. The first two in full, the last as far as it gets.
run all-crash 0 60 -DS=2 -DPASS1=1 -DMAXC=1 -DMAXL=0 -DMAXD=0
run all-loss 0 60 -DS=2 -DPASS1=1 -DMAXC=0 -DMAXL=1 -DMAXD=0
run all-both 0 20 -DMAXC=1 -DMAXL=1 -DMAXD=1
# One rule taken away, with the faults that show its lack soonest: an error.
both="-DMAXC=1 -DMAXL=1 -DMAXD=1"
crash="-DMAXC=1 -DMAXL=0 -DMAXD=0"
loss="-DMAXC=0 -DMAXL=1 -DMAXD=0"
none="-DMAXC=0 -DMAXL=0 -DMAXD=0"
# shellcheck disable=SC2086 # the switches are words
{
	run ASWRITTEN 1 30 -DASWRITTEN $both
	run NOREREAD 1 30 -DNOREREAD $none
	run NOWITHDRAW 1 30 -DNOWITHDRAW $none
	run NOHELP 1 30 -DNOHELP $both
	run COMMITANY 1 30 -DCOMMITANY $crash
	run OWNSEQ 1 30 -DOWNSEQ $both
	run PLAINSTEP2 1 30 -DPLAINSTEP2 $both
	run GOON 1 60 -DGOON $loss
	run NOACK 1 30 -DNOACK $both
	run RESETWORD 1 30 -DRESETWORD $crash
	run DEADDONE 1 30 -DDEADDONE $crash
	run VERDICTATONCE 1 30 -DVERDICTATONCE $both
}
exit $bad
