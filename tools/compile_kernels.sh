#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs nvcc as libtool asks, and keeps what tests look at beside the object's folder: X.ptx, the code for the newest GPU
# before the assembler, and X.usage, what the assembler says of registers, stack and spills.
#
# usage: sh compile_kernels.sh NVCC OPTION... -o FOLDER/.libs/X.o SOURCE
set -u

object=
previous=
for word in "$@"; do
	[ "$previous" != -o ] || object=$word
	previous=$word
done
folder=$(dirname "$object")
[ "$(basename "$folder")" != .libs ] || folder=$(dirname "$folder")
result=$folder/$(basename "$object" .o)
kept=$object.kept
mkdir -p "$kept"

"$@" --keep --keep-dir "$kept" -Xptxas -v 2>"$kept/messages"
status=$?
grep 'ptxas info\|bytes stack frame' "$kept/messages" >"$result.usage"
grep -v 'ptxas info\|bytes stack frame' "$kept/messages" >&2
# The last one has the highest number.
newest=$(find "$kept" -name '*.ptx' | sort -V | tail -n 1)
[ -z "$newest" ] || mv "$newest" "$result.ptx"
rm -rf "$kept"
exit $status
