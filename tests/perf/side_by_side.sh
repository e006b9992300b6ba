#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# belay beside Open MPI over UCX, taking turns A B A B ..., timed by one harness; see docs/performance.md.
# usage: side_by_side.sh HARNESS BUILD OUT.csv [RANKS [ROUNDS]]
#   HARNESS  folder with bench.c, peer_mpi.c   BUILD  a built tree of belay
set -eu
[ $# -ge 3 ] || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
harness=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
out=$3
ranks=${4:-2}
rounds=${5:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

gcc -O3 -march=native -w -c "$harness/bench.c" -o "$work/bench.o"
mpicc.openmpi -O3 -march=native -w "$harness/peer_mpi.c" "$work/bench.o" -o "$work/openmpi"
gcc -O2 -I"$here/../.." "$here/peer_belay.c" "$work/bench.o" -o "$work/belay" \
	-L"$build/.libs" -lbelay -Wl,-rpath,"$build/.libs"

export OUT="$out" CAP="${CAP:-1}" DTS="${DTS:-0}" OMP_NUM_THREADS=1
belay() { # TAG, then settings
	tag=$1
	shift
	env "$@" BENCH_ID="side$$" TAG="$tag" BELAY_LOG_DIR="$work/log" "$work/belay" "$ranks"
	rm -rf "$work/log"
}
round=0
while [ "$round" -lt "$rounds" ]; do
	BENCH_ID="side$$" TAG=ucx UCX_TLS=self,sm mpirun.openmpi --allow-run-as-root --oversubscribe \
		--bind-to none -np "$ranks" --mca pml ucx --mca pml_ucx_tls any \
		--mca pml_ucx_devices any "$work/openmpi"
	belay any
	if [ "$ranks" = 2 ]; then belay region REGION=1; fi
	round=$((round + 1))
done
