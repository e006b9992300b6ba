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
# runtime_parts: the whole library, as it is built for host memory alone.
runtime_parts()
{
	cd "$source"
	find runtime kernels trace -name '*.c' ! -path 'runtime/nccl/*' ! -name tracepoints.c ! -name 'gpu_[cdm]*' ! -name nccl_jobs.c \
		! -name nccl_library.c ! -name nccl_worker.c ! -name nccl_gather.c ! -name create_from_nccl.c
}

causes="runtime/cause.c runtime/clock.c runtime/names.c runtime/number_text.c runtime/status.c"
settings="runtime/settings.c runtime/settings_parse.c"
leaks=1
case $target in
call_columns | call_log_reader) parts=$trace ;;
ctf_check) parts="tools/analyze/containers.c tools/analyze/ctf_check.c" ;;
documents) parts="$causes tools/command_line.c tools/bench/bench_workload.c tools/analyze/containers.c tools/analyze/cost_table.c tools/bench/bench_script.c" ;;
fault_specs) parts="$causes runtime/fault_injection.c" ;;
handshake) parts="$causes $settings runtime/group/handshake.c" ;;
peers) parts=$(runtime_parts) leaks=0 ;;
process) parts="$(runtime_parts) tools/command_line.c tools/info/info_process.c" ;;
settings) parts="$causes $settings runtime/tuning.c runtime/cuda/launch_shape.c runtime/group/environment_id.c" ;;
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
# Without LTTng, whose provider is not for a fuzzer.
sed '/HAVE_LTTNG_UST/d' config.h >"fuzz/$target/config.h"
# shellcheck disable=SC2086 # several files
${FUZZ_CC:-clang} -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I"fuzz/$target" -I"$source" \
	-o "fuzz/$target/fuzz" $objects -lzstd -ljansson
# What is made once, and used by each input, would be taken for a leak.
exec nice -n 10 "fuzz/$target/fuzz" -detect_leaks="$leaks" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 \
	-artifact_prefix="fuzz/$target/" "fuzz/$target/found" "$source/tests/fuzz/$target"
