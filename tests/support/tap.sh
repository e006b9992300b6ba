# SPDX-License-Identifier: Apache-2.0
# TAP for shell tests. Read in with:  . "$top_srcdir/tests/support/tap.sh"
# shellcheck shell=sh

tap_count=0

# tap_is SENTENCE COMMAND...: one test, passed when the command succeeds. What it prints is shown when not.
tap_is()
{
	tap_name=$1
	shift
	tap_count=$((tap_count + 1))
	if tap_output=$("$@" 2>&1); then
		echo "ok $tap_count - $tap_name"
	else
		echo "not ok $tap_count - $tap_name"
		printf '%s\n' "$tap_output" | sed 's/^/# /'
	fi
}

# tap_skip SENTENCE REASON: a test that cannot be run here. It fails when BELAY_TESTS_NEED has a word of the reason.
tap_skip()
{
	tap_count=$((tap_count + 1))
	for tap_need in ${BELAY_TESTS_NEED:-}; do
		case " $2 " in
		*" $tap_need "*)
			echo "not ok $tap_count - $1"
			echo "# $2, and BELAY_TESTS_NEED asks for it"
			return
			;;
		esac
	done
	echo "ok $tap_count - $1 # SKIP $2"
}

# tap_end: the last line of every test. A script that dies before it is an error.
tap_end()
{
	echo "1..$tap_count"
}

# tap_folder: makes an empty folder, which is removed at the end, and sets $tap_dir to it.
tap_folder()
{
	tap_dir=$(mktemp -d) || exit 1
	trap 'rm -rf "$tap_dir"' EXIT
	trap 'exit 1' HUP INT TERM
}
