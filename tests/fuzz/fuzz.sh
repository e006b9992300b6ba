#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh TARGET [SECONDS]: builds a fuzz target with libFuzzer, AddressSanitizer and UBSan (clang) and runs it at low
# priority on one core, from the corpus in the source and what earlier runs have found. In a build folder, as
# `sh SOURCE/tests/fuzz/fuzz.sh ctf_check 600`; keeps all in fuzz/TARGET there. Status 0 when nothing was found.
set -eu
target=${1:?TARGET}
seconds=${2:-600}
source=$(cd "$(dirname "$0")/../.." && pwd)
[ -f config.h ] || { echo "fuzz.sh: run it in a build folder" >&2; exit 2; }

trace="trace/call_columns.c trace/call_log_format.c trace/call_log_reader.c trace/column_decoder.c"
case $target in
call_columns | call_log_reader) parts=$trace ;;
ctf_check) parts="tools/analyze/containers.c tools/analyze/ctf_check.c" ;;
handshake) parts="runtime/cause.c runtime/clock.c runtime/group/handshake.c runtime/names.c runtime/number_text.c runtime/settings.c runtime/settings_parse.c runtime/status.c" ;;
*)
	echo "fuzz.sh: no target '$target'" >&2
	exit 2
	;;
esac

mkdir -p "fuzz/$target/found"
objects=
for part in $parts tests/fuzz/fuzz_$target.c; do
	objects="$objects $source/$part"
done
# shellcheck disable=SC2086 # several files
${FUZZ_CC:-clang} -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I. -I"$source" \
	-o "fuzz/$target/fuzz" $objects -lzstd
exec nice -n 19 "fuzz/$target/fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 \
	-artifact_prefix="fuzz/$target/" "fuzz/$target/found" "$source/tests/fuzz/$target"
