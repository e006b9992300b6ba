#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each fuzz target over its corpus, and over seeded changes of it.
. "$top_srcdir/tests/support/tap.sh"

tap_is "no input of the corpus harms the meeting's decoder" \
	"$top_builddir/tests/fuzz/replay_handshake" "$top_srcdir"/tests/fuzz/handshake/*.bin
tap_end
