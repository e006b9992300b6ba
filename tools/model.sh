#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# model.sh MODEL [long]: runs spin over the protocol's model, with all its rules and with each rule taken away, and
# prints a table: what was run, with what result, in how many states. With "long" the larger configurations too.
# MODEL_JOBS runs side by side (1), MODEL_MB of memory at most for each (4000).
# Exit status: 0 as expected, or no spin; 1 not.
set -u
model=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
long=${2:-}
if ! command -v spin >/dev/null; then
	echo "SKIP: spin is not installed"
	echo "# SKIP: 1"
	exit 0
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/belay-model.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
number=0
running=0

# build OPTIMISATION SWITCH...: makes the model's checker, here. Most of the time of a short run is the compiler's.
build()
{
	optimisation=$1
	shift
	spin "$@" -a "$model" &&
		"${CC:-cc}" "$optimisation" -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM="${MODEL_MB:-4000}" -o pan pan.c
}

# explore NAME EXPECTED SECONDS OPTIMISATION SWITCH...: one line of the table.
explore()
{
	name=$1 expected=$2 seconds=$3
	shift 3
	mkdir "$dir/$number.d" && cd "$dir/$number.d" || return
	if ! build "$@" >build.out 2>&1; then
		echo "WRONG  $name: $(tail -n 1 build.out)"
		return
	fi
	# Seconds of processor time, so that a busy machine changes nothing.
	# shellcheck disable=SC3045 # not in POSIX, but in every sh that has spin beside it
	(ulimit -t "$seconds" && exec ./pan -m1000000) >pan.out 2>&1
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.out)
	states=$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out)
	if [ "${errors:-0}" != 0 ]; then
		how=$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/\1/p' pan.out | cut -c1-44)
	elif [ -z "$errors" ] || grep -qi 'max search depth\|out of memory\|memory limit' pan.out; then
		how="cut short" errors=
	else
		how=exhaustive
	fi
	mark=ok
	[ "$errors" = "$expected" ] || mark=WRONG
	printf '%-5s  %-22s  %-9s  %9s  %s\n' "$mark" "$name" "${errors:-?} errors" "${states:--}" "$how"
}

# run ARGUMENT...: explore, beside others.
run()
{
	number=$((number + 1))
	explore "$@" >"$dir/$number.out" 2>/dev/null &
	running=$((running + 1))
	[ $running -lt "${MODEL_JOBS:-1}" ] || settle
}

# The rest of a line's files goes at once: the model checkers are large.
settle()
{
	wait
	cat "$dir"/*.out | tee -a "$dir/all"
	rm -rf "$dir"/*.out "$dir"/*.d
	running=0
}

# rules NAME SWITCH...: with all rules, in full, no error.
rules()
{
	name=$1
	shift
	run "$name" 0 "$seconds_max" "$optimisation" "$@"
}

# without RULE SWITCH...: with this one taken away, with the faults that show its lack soonest, an error.
without()
{
	rule=$1
	shift
	run "$rule" 1 60 -O0 "-D$rule" "$@"
}

printf '%-5s  %-22s  %-9s  %9s  %s\n' "" run found states how
seconds_max=120 optimisation=-O1
# By symmetry a fault of one rank, or pair, stands for that of all: rank 2 of 3, and the pair 0 to 1. Of two deaths the
# ranks 0 and 2 are enough, for only who donates depends on the number; of a loss and a death, the pairs 0-1 and 2-1.
crash="-DMAXC=1 -DCPIN=4"
loss="-DMAXL=1 -DPPIN=2"
delay="-DMAXD=1 -DPPIN=2"
three="-DS=3 -DPASS1=2"
switch="-DMAXB=2 -DMAXL=1"
# shellcheck disable=SC2086 # the switches are words
{
	rules death $crash $three
	rules loss $loss $three
	rules delay $delay $three
	rules two-shot-loss -DTWOSHOT $loss
	rules leave-loss -DLEAVE -DPASS2=0 $loss
	rules leave-death -DLEAVE -DPASS2=0 $crash
	rules switch $switch $three
	rules switch-death -DN=2 $switch -DS=4 -DPASS1=3 -DMAXC=1
	rules give-up -DGIVEUP
	rules give-up-death-2 -DN=2 -DGIVEUP -DMAXC=1 $three
	rules give-up-both-2 -DN=2 -DGIVEUP -DMAXC=1 -DMAXL=1
	without ASWRITTEN -DGIVEUP $crash
	without NOREREAD -DGIVEUP
	without NOWITHDRAW -DGIVEUP
	without NOHELP -DGIVEUP $crash
	without PLAINSTEP2 -DGIVEUP $crash
	without RESETWORD -DGIVEUP
	without OWNSEQ -DGIVEUP -DN=2 $three
	without VERDICTATONCE $crash
	without GOON -DGIVEUP $loss $three
	without COMMITANY $crash
	without LEAVEATONCE -DLEAVE -DPASS2=0 $loss
	without DEADDONE $crash
	without HALFSTAGED $crash
	without BEGINEARLY
	without STALEJOIN $delay $three
	without ANYPART -DMAXL=2 -DPPIN=2 $three
	without ONEATTEMPT -DMAXC=2 -DCPIN=5
	without ONLYSTUCK $loss
	without NOACK $delay
	without LATEENDS $delay
	without NORESULTS -DTWOSHOT -DMAXL=1
	without SAMEFLAG $delay $three
	without COUNTEACH -DMAXL=2
	without SWITCHNOW $switch $three
	without SWITCHLATE $switch $three
	without SWITCHOVER $switch -DS=4 -DPASS1=3
	[ $running = 0 ] || settle
}
if [ "$long" = long ]; then
	# shellcheck disable=SC2034 # read by rules
	seconds_max=600 optimisation=-O2
	# shellcheck disable=SC2086 # the switches are words
	{
		rules two-deaths -DMAXC=2 -DCPIN=5
		rules loss-and-death -DMAXC=1 -DMAXL=1 -DPPIN=130
		rules two-losses-and-delay -DMAXL=2 -DMAXD=1
		rules two-shot-death -DTWOSHOT $crash
		rules switch-death-3 $switch -DMAXC=1 -DCPIN=5 $three
		rules give-up-death -DGIVEUP $crash
		rules give-up-loss -DGIVEUP $loss
		rules give-up-all-2 -DN=2 -DGIVEUP -DMAXC=1 -DMAXL=1 -DMAXD=1
		[ $running = 0 ] || settle
	}
fi
wrong=$(grep -c '^WRONG' "$dir/all")
echo "# PASS: $((number - wrong))"
echo "# FAIL: $wrong"
[ "$wrong" = 0 ]
