#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The programs that README.md and libbelay(3) show compile without a warning and do what is said there.
# shellcheck disable=SC2016 # the backquotes are Markdown's
. "$top_srcdir/tests/support/tap.sh"
tap_folder

export LD_LIBRARY_PATH="$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

sed -n '/^```c$/,/^```$/p' "$top_srcdir/README.md" | sed '/^```/d' >"$tap_dir/readme.c"
sed -n '/^\.Sh EXAMPLES/,$p' "$top_srcdir/docs/man/libbelay.3" | sed -n '/^\.Bd/,/^\.Ed/p' |
	sed '/^\.[BE]d/d; s/\\e/\\/g' >"$tap_dir/manual.c"

has_one_program()
{
	[ "$(grep -c 'int main(' "$tap_dir/readme.c")" = 1 ]
}

compiles()
{
	# shellcheck disable=SC2086 # CC and the flags are words
	$CC $SAN_CFLAGS -Wall -Wextra -Werror -I"$top_srcdir/runtime" -o "$tap_dir/$1" "$tap_dir/$1.c" \
		-L"$top_builddir/.libs" -lbelay
}

# Both ranks end well and print the sum.
readme_runs()
{
	# As the README says; the job's name is this test's own.
	export WORLD_SIZE=2 BELAY_JOB="readme-$$" BELAY_START_MS=10000
	RANK=1 timeout 20 "$tap_dir/readme" >"$tap_dir/one" &
	RANK=0 timeout 20 "$tap_dir/readme" >"$tap_dir/zero"
	first=$?
	wait $!
	second=$?
	cat "$tap_dir/zero" "$tap_dir/one"
	[ $first = 0 ] && [ $second = 0 ] && grep -qF "$(grep '^rank 0 of 2' "$top_srcdir/README.md")" "$tap_dir/zero" &&
		grep -qF "$(grep '^rank 1 of 2' "$top_srcdir/README.md")" "$tap_dir/one"
}

tap_is "README.md shows one whole program" has_one_program
tap_is "the README's program compiles" compiles readme
tap_is "it sums over two ranks, as printed there" readme_runs
tap_is "the program of libbelay(3) compiles" compiles manual
tap_is "it makes its passes on four ranks" timeout 30 "$tap_dir/manual"
tap_end
