#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who may include whom. Dependencies go one way: a folder is a stage of the call, and the pure files compute only.
. "$top_srcdir/tests/support/tap.sh"
cd "$top_srcdir" || exit 1

# Files that decide and compute, and touch nothing outside: wherever they stand.
pure='block_words breaker call_log_columns choose_path handshake liveness number_text rescue_plan settings_parse stuck_kernel verdict
	call_filter call_row histogram late merge pass_pause pass_rule pass_times passes perfetto_packet period_follow period_search rank_stream report_data report_scale
	signatures story story_words stragglers summary timeline words'

# only FOLDER ALLOWED-PATTERN [EXCEPT-FILE]: each quoted include of the folder's files matches the pattern.
only()
{
	! grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$1" |
		grep -v "^${3:-no file}:" | grep -vE "include[[:space:]]*\"($2)\""
}

# Prints what a pure file has and must not have.
impurities()
{
	awk -f tests/support/strip_comments.awk "$1" | grep -E \
		'include *<(sys/|pthread|poll|time|unistd|fcntl|signal|stdlib|cuda|nccl|lttng|linux/)|\<(malloc|calloc|realloc|free|strdup|clock_gettime|time|getenv|open|read|write|socket|printf|fprintf|syscall)\('
}

pure_files_are_pure()
{
	found=0
	impure=0
	for name in $pure; do
		# shellcheck disable=SC2044 # names hold no blanks
		for file in $(find runtime kernels trace tools -name "$name.c"); do
			found=$((found + 1))
			! impurities "$file" || impure=1
		done
	done
	[ $found -gt 0 ] && [ $impure = 0 ]
}

own_or_system()
{
	! grep -nE '^#include' runtime/belay.h | grep -vE '<(stddef|stdint)\.h>'
}

tap_is "belay.h needs stddef.h and stdint.h only" own_or_system
tap_is "kernels/ includes only its own headers" only kernels 'kernels/[a-z_/]*\.c?u?h|config\.h'
tap_is "trace/ includes only belay.h and its own headers" only trace 'runtime/belay\.h|trace/[a-z_/]*\.h|config\.h'
tap_is "tools/ includes only belay.h, the call log's reader and its own headers" \
	only tools 'runtime/belay\.h|trace/call_[a-z_]*\.h|tools/[a-z_/]*\.h|config\.h' tools/make_lists.c
tap_is "runtime/ includes nothing of the tools and tests" \
	only runtime '(runtime|kernels|trace)/[a-z_/]*\.(h|def)|config\.h'
tap_is "the pure files touch no memory, clock, file or device" pure_files_are_pure
tap_end
