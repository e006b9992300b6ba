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
	log=$logs/configure-$(basename "$folder").log
	(cd "$folder" && exec timeout $STEP_SECONDS_MAX "$source/configure" "$@") >"$log" 2>&1 &&
		echo "$*" >"$folder/check-options" && return
	echo "check: configure $* failed in $folder; see $log"
	tail -n 5 "$log"
	failed=$((failed + 1))
	return 1
}

# What the other builds look at is the same with and without kernels, which take long to compile.
without_gpus='--without-cuda --without-nccl'

# configured_asan OPTIONS..., configured_tsan OPTIONS...: -O1 halves the time to compile them.
configured_asan()
{
	# shellcheck disable=SC2086 # words
	configured build/asan --enable-sanitizer=address,undefined "$@" $without_gpus CFLAGS='-g -O1'
}
configured_tsan()
{
	# shellcheck disable=SC2086 # words
	configured build/tsan --enable-sanitizer=thread --without-lttng "$@" $without_gpus CFLAGS='-g -O1'
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

if ! sh tools/install_packages.sh; then
	failed=1
	finish
fi
# A configure that is there but old is remade by make.
if [ ! -x configure ]; then
	step autoreconf autoreconf -fi || finish
fi

configured build "$@" || finish
# Configuring is one process at a time: it is done beside what can be done in parallel. What fails is told below, where it
# is tried again.
{ configured_asan "$@"; configured_tsan "$@"; } >/dev/null 2>&1 &
step build make -C build -j "$jobs" || finish
wait
# Some tests wait more than they compute.
step check env BELAY_TESTS_CONFIGURE=1 make -C build -j $((jobs + 1)) check

if command -v spin >/dev/null; then
	step model make -C build model MODEL_JOBS="$jobs"
else
	skip model "no spin"
fi

if sanitizer_runs address,undefined ''; then
	configured_asan "$@" && step asan make -C build/asan -j "$jobs" check-fast
else
	skip asan "no program built with it runs here"
fi

# ThreadSanitizer of older compilers does not start where the kernel places memory too much at random.
if sanitizer_runs thread ''; then
	configured_tsan "$@" && step tsan make -C build/tsan -j "$jobs" check-threads
elif sanitizer_runs thread 'setarch -R'; then
	configured_tsan "$@" && step tsan setarch -R make -C build/tsan -j "$jobs" check-threads
else
	skip tsan "no program built with it runs here"
fi

if command -v valgrind >/dev/null && gcc -o "$logs/trial" "$logs/trial.c" && valgrind -q "$logs/trial" 2>/dev/null; then
	step valgrind make -C build -j "$jobs" check-valgrind
else
	skip valgrind "no valgrind that works"
fi

# The archive is built by the other compiler, and without the optional parts.
another=
if command -v clang >/dev/null; then
	another=CC=clang
	step clang-lttng make -C build syntax-lttng CC=clang
else
	skip clang "no clang"
fi
step archive make -C build -j "$jobs" check-archive \
	DISTCHECK_CONFIGURE_FLAGS="$* --without-lttng --without-babeltrace $without_gpus $another CFLAGS=-O1 CXXFLAGS=-O1"
if git ls-files --error-unmatch tools/check.sh >/dev/null 2>&1; then
	step files sh tools/archive_is_whole.sh build/belay-*.tar.xz
else
	skip files "not a clone: git does not know which files there are"
fi
finish
