#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands where check_played_kernels cannot be built, so that it is not missed in silence.
. "$top_srcdir/tests/support/tap.sh"

tap_skip "the call kernels keep their word on the CPU" \
	"no c++ compiler with -std=c++17 and -fsanitize-coverage=trace-pc, or a sanitizer build"
tap_end
