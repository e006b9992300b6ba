# SPDX-License-Identifier: Apache-2.0
# Running a command in a test. Read in behind tap.sh and tap_folder.
# shellcheck shell=sh

# Belay's own variables would change what the commands do.
for variable in $(env | sed -n 's/^\(BELAY_[A-Z_]*\)=.*/\1/p'); do
	case $variable in
	BELAY_TESTS_* | BELAY_TEST_SEED | BELAY_SEED | BELAY_GPU_SOAK) ;;
	*) unset "$variable" ;;
	esac
done

# What these tests say holds for the host path, on a machine with GPUs too.
CUDA_VISIBLE_DEVICES=
export CUDA_VISIBLE_DEVICES

# run COMMAND...: keeps its output in $tap_dir/out and $tap_dir/err and its status in $status. Nothing runs for ever.
run()
{
	status=0
	timeout -k 5 60 "$@" >"$tap_dir/out" 2>"$tap_dir/err" || status=$?
}

show()
{
	echo "status $status"
	cat "$tap_dir/out" "$tap_dir/err"
}

# refuses MESSAGE-PATTERN COMMAND...: wrong usage: status 2, nothing on stdout, the line and where to find help.
refuses()
{
	refuses_pattern=$1
	shift
	run "$@"
	refuses_name=${1##*/}
	[ "$status" = 2 ] && [ ! -s "$tap_dir/out" ] && [ "$(wc -l <"$tap_dir/err")" = 2 ] &&
		sed -n 1p "$tap_dir/err" | grep -q "^$refuses_name: .*$refuses_pattern" &&
		sed -n 2p "$tap_dir/err" | grep -qxF "Try '$refuses_name --help'." && return
	show
	return 1
}

# ends STATUS COMMAND...
ends()
{
	ends_status=$1
	shift
	run "$@"
	[ "$status" = "$ends_status" ] && return
	show
	return 1
}

# json FILTER COMMAND...: stdout is one JSON document, of which the jq filter holds; any status.
json()
{
	json_filter=$1
	shift
	run "$@"
	[ "$(jq -s length "$tap_dir/out")" = 1 ] && jq -e "$json_filter" "$tap_dir/out" >/dev/null && return
	show
	return 1
}
