#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mandoc finds nothing in any man page.
. "$top_srcdir/tests/support/tap.sh"

for page in "$top_srcdir"/docs/man/*.[1-8]; do
	name="mandoc is content with ${page##*/}"
	if command -v mandoc >/dev/null; then
		tap_is "$name" mandoc -T lint -W warning,stop "$page"
	else
		tap_skip "$name" "no mandoc"
	fi
done
tap_end
