#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All tests that this machine can run, from a fresh clone on: builds in build/, the sanitizer builds and the clang build
# in folders below it, and the release archive. Ends with one line "N passed, N failed, N skipped"; status 1 when
# something failed. The output of each step is kept in build/check/.
#
# usage: sh tools/check.sh [CONFIGURE-OPTION...]
set -u
cd "$(dirname "$0")/.." || exit 1

STEP_SECONDS_MAX=900
passed=0
failed=0
skipped=0
jobs=$(nproc 2>/dev/null || echo 2)
logs=$PWD/build/check
mkdir -p "$logs"

# Undefined behaviour is a failure, not a remark.
UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export UBSAN_OPTIONS

# sum NAME LOG: adds up the lines "# NAME: N" with which each test run ends.
sum()
{
	sed -n "s/^# $1: *\([0-9][0-9]*\)\$/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

# count LOG STATUS: takes the results of a step into the totals.
count()
{
	bad=$(($(sum FAIL "$1") + $(sum XPASS "$1") + $(sum ERROR "$1")))
	# A step that failed with no test to blame, as when it does not compile, is a failure of its own.
	if [ "$2" != 0 ] && [ $bad = 0 ]; then
		bad=1
	fi
	passed=$((passed + $(sum PASS "$1") + $(sum XFAIL "$1")))
	skipped=$((skipped + $(sum SKIP "$1")))
	failed=$((failed + bad))
}

# step NAME COMMAND...: runs it, counts its tests, and shows what went wrong.
step()
{
	step_name=$1
	shift
	log=$logs/$step_name.log
	echo "check: $step_name"
	timeout -k 10 $STEP_SECONDS_MAX "$@" >"$log" 2>&1
	step_status=$?
	count "$log" $step_status
	if [ $bad != 0 ]; then
		echo "check: $step_name failed (status $step_status); see $log"
		grep '^\(FAIL\|XPASS\|ERROR\): ' "$log" || tail -n 20 "$log"
	fi
	return $step_status
}

# skip NAME REASON: a step that cannot be run here.
skip()
{
	echo "check: $1 skipped: $2"
	skipped=$((skipped + 1))
}

# configured FOLDER OPTIONS...: configures there unless that was done with the same options.
configured()
{
	folder=$1
	shift
	mkdir -p "$folder"
	if [ -f "$folder/Makefile" ] && [ "$(cat "$folder/check-options" 2>/dev/null)" = "$*" ]; then
		return 0
	fi
	source=$PWD
	(cd "$folder" && exec timeout $STEP_SECONDS_MAX "$source/configure" "$@") >"$logs/configure.log" 2>&1 &&
		echo "$*" >"$folder/check-options" && return
	echo "check: configure $* failed in $folder; see $logs/configure.log"
	tail -n 5 "$logs/configure.log"
	failed=$((failed + 1))
	return 1
}

# variant NAME OPTIONS...: a build of its own that runs the tests of one process.
variant()
{
	variant_name=$1
	shift
	# shellcheck disable=SC2086 # words of a command, or none
	configured "build/$variant_name" "$@" &&
		step "$variant_name" $without_aslr make -C "build/$variant_name" -j "$jobs" check-fast
}

# What these builds look at is the same with and without kernels, which take long to compile.
without_gpus='--without-cuda --without-nccl'

# sanitized NAME LIST OPTIONS...: a variant; -O1 halves the time to compile it.
sanitized()
{
	sanitized_name=$1
	sanitizers=$2
	shift 2
	# shellcheck disable=SC2086 # words
	variant "$sanitized_name" --enable-sanitizer="$sanitizers" "$@" $without_gpus CFLAGS='-g -O1'
}

# sanitizer_runs LIST [WRAPPER]: whether a program built so can be run here.
sanitizer_runs()
{
	echo 'int main(void) { return 0; }' >"$logs/trial.c"
	gcc -fsanitize="$1" -o "$logs/trial" "$logs/trial.c" 2>/dev/null && $2 "$logs/trial" 2>/dev/null
}

finish()
{
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed = 0 ]
	exit
}

without_aslr=
if ! sh tools/install_packages.sh; then
	failed=1
	finish
fi
# A configure that is there but old is remade by make.
if [ ! -x configure ]; then
	step autoreconf autoreconf -fi || finish
fi

configured build "$@" || finish
step build make -C build -j "$jobs" || finish
step check make -C build -j "$jobs" check
step configure-options make -C build check BELAY_TESTS_LONG=1 TESTS=tests/build/configure_options.sh

if command -v spin >/dev/null; then
	step model make -C build model MODEL_JOBS="$jobs"
else
	skip model "no spin"
fi

if sanitizer_runs address,undefined ''; then
	sanitized asan address,undefined "$@"
else
	skip asan "no program built with it runs here"
fi

# ThreadSanitizer of older compilers does not start where the kernel places memory too much at random.
if sanitizer_runs thread ''; then
	sanitized tsan thread --without-lttng "$@"
elif sanitizer_runs thread 'setarch -R'; then
	without_aslr='setarch -R'
	sanitized tsan thread --without-lttng "$@"
	without_aslr=
else
	skip tsan "no program built with it runs here"
fi

if command -v clang >/dev/null; then
	# All programs, those of tests too, are to compile; which tests to run is known from gcc's build.
	# shellcheck disable=SC2086 # words
	configured build/clang CC=clang "$@" $without_gpus && step clang-build make -C build/clang -j "$jobs" check TESTS= &&
		step clang make -C build/clang -j "$jobs" check-fast
else
	skip clang "no clang"
fi

# Builds all that is in the archive, and runs what reads files of it; the other tests ran above, from the same source.
step distcheck make -C build -j "$jobs" distcheck \
	DISTCHECK_CONFIGURE_FLAGS="--without-lttng --without-babeltrace $without_gpus" \
	TESTS="$(echo tests/build/*.sh tests/cli/*.sh tests/fuzz/corpora_replay.sh tests/unit/check_call_log tests/unit/check_names)"
finish
