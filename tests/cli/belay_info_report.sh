#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay-info: the report, the probe, wrong usage.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"
info=$top_builddir/belay-info

tap_is "the report is status 0" ends 0 "$info"
tap_is "its JSON has version, paths with reasons and settings with origin" json '
	(.version | test("^[0-9]+[.][0-9]+[.][0-9]+$"))
	and ([.paths | keys[]] == ["host", "nccl", "ring", "symm"])
	and all(.paths[]; (.usable | type) == "boolean" and (.why | length) > 0)
	and .paths.host.usable and .probe == null
	and all(.settings[]; .from == "default")
	and ([.settings[] | select(.name == "BELAY_LATE_MS") | .value] == ["10"])' "$info" --format json
tap_is "each path for device memory is usable, or says what is missing" json '
	(.devices | type) == "array" and (.versions.cuda | type) == "boolean"
	and (if (.devices | length) == 0 then (.paths.symm.usable | not) and (.paths.nccl.usable | not)
		and (.paths.symm.why | test("built without CUDA|no CUDA driver|no CUDA device|cu[A-Z]")) else true end)
	and all(.devices[]; (.name | length) > 0 and (.uuid | test("^GPU-[0-9a-f-]{36}$"))
		and (.pci | test("^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}[.]0$")) and .compute >= 30)' "$info" --format json
tap_is "a setting from the environment is shown as such" json '
	[.settings[] | select(.name == "BELAY_LATE_MS") | [.value, .from]] == [["25", "environment"]]' \
	env BELAY_LATE_MS=25 "$info" --format json
tap_is "a path that is not allowed is not usable, and it says why" json '
	.paths.host.usable == false and (.paths.host.why | test("BELAY_PATHS"))' env BELAY_PATHS=ring "$info" --format json
tap_is "the probe finds the paths of this machine working" json '
	.probe.ranks == 3 and .probe.paths.host.works and .probe.paths.ring.works and .probe.paths.host.calls == 60
	and all(.settings[]; .from == "default")' "$info" --probe --ranks 3 --format json
tap_is "a probe that fails is status 1" ends 1 env BELAY_START_MS=300 BELAY_FAULT='rank=1,seq=*,kind=kill,at=handshake' \
	"$info" --probe

bad_setting()
{
	ends 1 env BELAY_LATE_MS=soon "$info" && grep -q "BELAY_LATE_MS='soon'" "$tap_dir/err"
}
tap_is "a bad setting is named" bad_setting

# is_bad VARIABLE=VALUE PATTERN
is_bad()
{
	ends 1 env "$1" "$info" && grep -q -- "$2" "$tap_dir/err"
}
tap_is "a tuning file that is not there is a bad setting" is_bad BELAY_TUNE=/nonexistent/tuning "BELAY_TUNE='/nonexistent/tuning'"
echo 'ranks=many twoshot_from=1' >"$tap_dir/tune"
tap_is "a tuning file with a wrong line is a bad setting" is_bad "BELAY_TUNE=$tap_dir/tune" "tune.*1"
tap_is "a device that cannot be meant is a bad setting" is_bad BELAY_DEVICE=gpu "BELAY_DEVICE='gpu'"

unknown_variable()
{
	ends 0 env BELAY_GIVEUP_MS=1 "$info" && [ "$(grep -c 'BELAY_GIVEUP_MS in the environment is no setting' "$tap_dir/err")" = 1 ] &&
		ends 0 env BELAY_GIVEUP_MS=1 BELAY_LOG=off "$info" && [ ! -s "$tap_dir/err" ]
}
tap_is "an unknown variable is warned about, once" unknown_variable

# is_refused OPTIONS PATTERN
is_refused()
{
	# shellcheck disable=SC2086 # several options in a word
	tap_is "'$1' is refused" refuses "$2" "$info" $1
}
is_refused --format=xml "--format 'xml': expected text, json or prometheus"
is_refused --format=prometheus "--format=prometheus needs --process"
is_refused --ranks=3 "--ranks needs --probe"
is_refused "--probe --ranks=1" "--ranks '1': expected a number from 2 to 64"
is_refused --process=0 "--process '0': expected a number from 1"
is_refused --process=self "--process 'self'"
is_refused "--process=1 --probe" "--probe and --process exclude each other"
is_refused --nonsense "unknown or ambiguous option '--nonsense'"
is_refused operand "unexpected operand 'operand'"
tap_is "output that cannot be written is status 4" sh -c "'$info' >/dev/full; [ \$? = 4 ]"
tap_is "help that cannot be written is status 4" sh -c "'$info' --help >/dev/full; [ \$? = 4 ]"
tap_end
