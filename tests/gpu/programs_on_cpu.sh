#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The programs of the GPU sets over the GPU that is played on the CPU, with 2 and with 4 ranks; over a stub NCCL where that is built.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
programs=$top_builddir/tests/gpu
BELAY_LOG=off
BELAY_NCCL_LIBRARY=$top_builddir/tests/support/.libs/libtest-nccl-stub.so
# A quarter of the time after which a rank counts as stuck. The 50 ms that are promised need processors of one's own.
BELAY_VERDICT_MS=5000
CK_TAP_LOG_FILE_NAME=-
CK_VERBOSITY=silent
export BELAY_LOG BELAY_NCCL_LIBRARY BELAY_VERDICT_MS CK_TAP_LOG_FILE_NAME CK_VERBOSITY

# retell NAME: a program's tests, under numbers of our own. What it skips it says before the test's line.
retell()
{
	reason=
	while IFS= read -r line; do
		case $line in
		"# SKIP "*) reason=" $line" ;;
		"ok "* | "not ok "*)
			tap_count=$((tap_count + 1))
			echo "${line%%ok *}ok $tap_count - $1: ${line#*.c:}$reason"
			reason=
			;;
		1..*) ;;
		"#"*) echo "$line" ;;
		*) echo "# $line" ;;
		esac
	done <"$tap_dir/out"
	sed 's/^/# /' "$tap_dir/err"
}

# ends_well: the last program came to its end, by its cap.
ends_well()
{
	[ "$status" = 0 ] || [ "$status" = 1 ] && grep -q '^1\.\.[1-9]' "$tap_dir/out"
}

# program NAME CAP RANKS
program()
{
	name="$1, $3 ranks"
	status=0
	BELAY_GPU_RANKS=$3 timeout -k 10 "$2" "$programs/cpu_gpu_$1" >"$tap_dir/out" 2>"$tap_dir/err" || status=$?
	retell "$name"
	tap_is "$name: it comes to its end within $2 s" ends_well
}

if [ ! -x "$programs/cpu_gpu_calls" ]; then
	tap_skip "calls and faults on a played GPU" "not built"
elif [ "${BELAY_TESTS_LONG:-0}" = 0 ]; then
	tap_skip "calls and faults on a played GPU" "takes long; set BELAY_TESTS_LONG=1"
else
	for n in 2 4; do
		program calls 600 "$n"
		program faults 400 "$n"
	done
fi
tap_end
