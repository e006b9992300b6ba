#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What nvcc has made of the kernels, without a GPU: the files that the build keeps beside the objects, X.ptx and X.usage
# (tools/compile_kernels.sh).
. "$top_srcdir/tests/support/tap.sh"

built=$top_builddir/kernels
source=$top_srcdir/kernels
call_kernels='one_shot_packets one_shot_wire two_shot_wire two_shot_pull island'
push_kernels='one_shot_packets one_shot_wire two_shot_wire island'

# Every file of kernels/ that nvcc reads is in the list of those that are distributed and that objects depend on.
listed()
{
	unlisted=0
	for file in "$source"/*.cu "$source"/*.cuh; do
		grep -q "%D%/$(basename "$file")\>" "$source/kernels.am" || { echo "$file"; unlisted=1; }
	done
	[ $unlisted = 0 ]
}

# Every file of the source that they include is there, in the archive too, which is tried on machines without nvcc.
included()
{
	missing=0
	# shellcheck disable=SC2013 # names hold no blanks
	for file in $(sed -n 's/^#include "\(.*\)"$/\1/p' "$source"/*.cu "$source"/*.cuh | sort -u); do
		[ "$file" = config.h ] || [ -f "$top_srcdir/$file" ] || { echo "$file"; missing=1; }
	done
	[ $missing = 0 ]
}

# each EXTENSION NAMES: the files of those kernels.
each()
{
	for name in $2; do
		echo "$built/$name.$1"
	done
}

# Each kernel for each GPU that configure chose.
for_all_gpus()
{
	gpus=$(sed -n 's/^NVCC_GENCODE = //p' "$top_builddir/Makefile" | tr ' ' '\n' | sed -n 's/.*code=\(sm_[0-9]*\)$/\1/p')
	[ -n "$gpus" ] || return 1
	# shellcheck disable=SC2013 # names hold no blanks
	for file in $(grep -l __global__ "$source"/*.cu); do
		usage=$built/$(basename "$file" .cu).usage
		for gpu in $gpus; do
			grep -q "Compiling entry function .* for '$gpu'" "$usage" || { echo "$usage has nothing for $gpu"; return 1; }
		done
	done
}

# Prints what spills, or uses a stack where `stacks` is 0. Functions that run when something is wrong may have a stack.
spilling()
{
	# shellcheck disable=SC2046 # names hold no blanks
	awk -v stacks="$1" '
		/Compiling entry function/ { entry = $0; sub(/.*function .|. for.*/, "", entry) }
		/Function properties for/ { name = $NF; next }
		/bytes stack frame/ {
			if ($5 != 0 || $9 != 0 || (!stacks && $1 != 0 && entry ~ name))
				print FILENAME ": " name ":" $0
		}' $(each usage "$2") | sort -u
}

nothing_spills()
{
	found=$(spilling 1 "$call_kernels")
	[ -z "$found" ] || { echo "$found"; return 1; }
}

entries_need_no_stack()
{
	found=$(spilling 0 "$call_kernels")
	[ -z "$found" ] || { echo "$found"; return 1; }
}

# in_entries PATTERN FILE...: lines of PTX with the pattern in kernels themselves, not in the functions they call.
in_entries()
{
	pattern=$1
	shift
	awk -v pattern="$pattern" '
		/^(\.visible |\.weak )?\.(entry|func)/ { entry = /\.entry/; name = $0 }
		entry && $0 ~ pattern { print FILENAME ": " name ": " $0; found = 1 }' "$@"
}

absent_in_entries()
{
	# shellcheck disable=SC2046 # names hold no blanks
	found=$(in_entries "$1" $(each ptx "$2"))
	[ -z "$found" ] || { echo "$found" | head -n 20; return 1; }
}

# Every kernel of those files has the pattern.
present_in_entries()
{
	for file in $(each ptx "$2"); do
		entries=$(grep -c '^\(\.visible \|\.weak \)*\.entry' "$file")
		having=$(in_entries "$1" "$file" | sed 's/(.*//' | sort -u | wc -l)
		if [ "$entries" = 0 ] || [ "$entries" != "$having" ]; then
			echo "$file: $having of $entries kernels have $1"
			return 1
		fi
	done
}

absent_anywhere()
{
	! grep -nE "$1" "$built"/*.ptx
}

tap_is "kernels.am lists every file that nvcc reads" listed
tap_is "every file that the kernels include is there" included
if ! grep -q '^#define HAVE_CUDA 1' "$top_builddir/config.h"; then
	tap_skip "the kernels that nvcc makes are as they were meant" "built without nvcc"
	tap_end
	exit
fi
tap_is "every kernel is compiled for every GPU" for_all_gpus
tap_is "no call kernel spills a register" nothing_spills
tap_is "no call kernel needs a stack while all goes well" entries_need_no_stack
tap_is "call kernels load what peers push 16 bytes at a time" \
	present_in_entries 'ld[.]relaxed[.]sys[.]global[.]v2[.][ub]64' "$push_kernels"
tap_is "call kernels push 16 bytes at a time" present_in_entries 'st[.]relaxed[.]sys[.]global[.]v2[.][ub]64' "$push_kernels"
tap_is "no push kernel fences at system scope while all goes well" \
	absent_in_entries 'fence.*[.]sys|membar[.]sys|fence[.]proxy' "$push_kernels"
tap_is "no kernel has an atomic that reaches beyond its GPU" absent_anywhere '(atom|red)\.[a-z.]*sys'
tap_is "no kernel traps" absent_anywhere '(^|[[:space:]])(trap|brkpt);'
tap_end
