#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Nothing is found by shellcheck in any script.
. "$top_srcdir/tests/support/tap.sh"
cd "$top_srcdir" || exit 1

if command -v shellcheck >/dev/null; then
	# shellcheck disable=SC2046 # names hold no blanks
	tap_is "shellcheck is content with every script" shellcheck $(find tools tests -name '*.sh') tools/completion/*
else
	tap_skip "shellcheck is content with every script" "no shellcheck"
fi
tap_end
