#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each fuzz target over its corpus, and over seeded changes of it.
. "$top_srcdir/tests/support/tap.sh"

tap_is "no input of the corpus harms the meeting's decoder" \
	"$top_builddir/tests/fuzz/replay_handshake" "$top_srcdir"/tests/fuzz/handshake/*.bin
tap_is "no input of the corpus harms the decoder of columns" \
	"$top_builddir/tests/fuzz/replay_call_columns" "$top_srcdir"/tests/fuzz/call_columns/*.bin
tap_is "no input of the corpus harms the reader of call logs" \
	"$top_builddir/tests/fuzz/replay_call_log_reader" "$top_srcdir"/tests/fuzz/call_log_reader/*.belay
tap_is "no input of the corpus harms the look at LTTng traces" \
	"$top_builddir/tests/fuzz/replay_ctf_check" "$top_srcdir"/tests/fuzz/ctf_check/*.bin
tap_is "no input of the corpus harms the readers of cost tables and scripts" \
	"$top_builddir/tests/fuzz/replay_documents" "$top_srcdir"/tests/fuzz/documents/*.bin
tap_is "no input of the corpus harms the parser of faults" \
	"$top_builddir/tests/fuzz/replay_fault_specs" "$top_srcdir"/tests/fuzz/fault_specs/*.txt
tap_is "no peer of the corpus leads a rank out of its memory" \
	"$top_builddir/tests/fuzz/replay_peers" "$top_srcdir"/tests/fuzz/peers/*.bin
tap_is "no process of the corpus harms or misleads belay-info" \
	"$top_builddir/tests/fuzz/replay_process" "$top_srcdir"/tests/fuzz/process/*.bin
tap_is "no input of the corpus harms the readers of settings, tuning files and environments" \
	"$top_builddir/tests/fuzz/replay_settings" "$top_srcdir"/tests/fuzz/settings/*.bin
tap_end
