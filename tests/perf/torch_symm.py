# SPDX-License-Identifier: Apache-2.0
"""Times of PyTorch's allreduces, taken as belay-bench takes its own.

The three symmetric-memory algorithms (one_shot, one_shot_copy, two_shot) and NCCL's, in one mode or several:

graph  CALLS of them in one CUDA graph, two replays in a row of which the second is timed by events, REPLAYS times
gap    the same with a kernel that waits before each call, for G microseconds, on one rank in turn for S more, which
       are taken off
eager  one by one, between two events, four times REPLAYS

The time of a call is that of its slowest rank. Prints one JSON document: rows of mode, bytes, algorithm, min_us, p50_us,
p99_us, checked.

usage: torch_symm.py --ranks N [--sizes LIST] [--modes graph,gap,eager] [--gap-us G,S] [--calls 122] [--replays 50]
                     [--algorithms LIST] [--seconds S]

--seconds: no row is begun later than that after the start. Rank R is on GPU R modulo the number of GPUs. Several on one
GPU need MPS. Multicast stays off.
"""
import argparse
import ctypes
import datetime
import itertools
import json
import os
import socket
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError as error:
    print(f"torch_symm.py: no PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

SYMMETRIC = ("one_shot", "one_shot_copy", "two_shot")
EAGER_TIMES = 4  # calls one by one for each replay
LINE = 16  # counters of the meeting, so many words apart
MEETING_S = 60
CALIBRATION_CYCLES = 20_000_000


def size_of(text):
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def separate_hosts(rank):
    """NCCL joins ranks that share a GPU only if each claims a host of its own."""
    os.environ.setdefault("NCCL_HOSTID", f"torch-symm-{rank}")
    for name, value in (
        ("NCCL_SOCKET_IFNAME", "lo"),
        ("NCCL_P2P_DISABLE", "1"),
        ("NCCL_SHM_DISABLE", "1"),
        ("NCCL_IB_DISABLE", "1"),
    ):
        os.environ.setdefault(name, value)


def enable_symmetric(group_name):
    """Older versions want it; newer ones have it enabled, or the function not any more."""
    import torch.distributed._symmetric_memory as symmetric

    try:
        symmetric.enable_symm_mem_for_group(group_name)
    except (AttributeError, RuntimeError):
        pass


class Meeting:
    """A barrier in memory that the ranks share: they leave it within a microsecond or two, unlike gloo's."""

    def __init__(self, words, rank, nranks):
        self.words = words
        self.rank = rank
        self.nranks = nranks

    def __call__(self):
        self.words[self.rank * LINE] += 1
        turn = self.words[self.rank * LINE]
        until = time.monotonic() + MEETING_S
        while any(self.words[other * LINE] < turn for other in range(self.nranks)):
            if time.monotonic() > until:
                raise TimeoutError("another rank does not come")


class Gap:
    """Kernels that wait before the calls of a graph, as bench_device_delay() does."""

    def __init__(self, microseconds, rank, nranks):
        self.gap_us, self.skew_us = microseconds
        self.rank = rank
        self.nranks = nranks
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        times = []
        for _ in range(3):
            begin.record()
            torch.cuda._sleep(CALIBRATION_CYCLES)
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
        self.cycles_per_us = CALIBRATION_CYCLES / min(times)

    def enqueue(self, number):
        late = self.skew_us if number % self.nranks == self.rank else 0
        torch.cuda._sleep(int((self.gap_us + late) * self.cycles_per_us))

    def of_a_call(self):
        return self.gap_us + self.skew_us


class Calls:
    """One algorithm at one size: what it reads, how it is called, where its result stands."""

    def __init__(self, algorithm, nbytes, rank, nranks, group):
        self.algorithm = algorithm
        self.group = group
        device = torch.device("cuda", torch.cuda.current_device())
        generator = torch.Generator(device="cpu").manual_seed(nbytes)
        # Small whole numbers: their sum is exact in every order, so that it can be checked.
        parts = torch.randint(-3, 4, (nranks, nbytes // 2), generator=generator)
        self.wanted = parts.sum(0).to(torch.bfloat16).to(device)
        self.input = parts[rank].to(torch.bfloat16).to(device)
        if algorithm == "nccl":
            self.buffer = torch.empty_like(self.input)
        else:
            import torch.distributed._symmetric_memory as symmetric

            self.buffer = symmetric.empty(nbytes // 2, dtype=torch.bfloat16, device=device)
            symmetric.rendezvous(self.buffer, group.group_name)
        self.result = self.buffer

    def refill(self):
        self.buffer.copy_(self.input)

    def call(self):
        name = self.group.group_name
        ops = torch.ops.symm_mem
        if self.algorithm == "nccl":
            dist.all_reduce(self.buffer, group=self.group)
        elif self.algorithm == "one_shot":
            self.result = ops.one_shot_all_reduce(self.buffer, "sum", name)
        elif self.algorithm == "one_shot_copy":
            self.result = ops.one_shot_all_reduce_copy(self.buffer, self.input, "sum", name)
        else:
            ops.two_shot_all_reduce_(self.buffer, "sum", name)

    def is_right(self):
        """One call, eagerly; those of a graph that work in place sum up and up."""
        self.refill()
        torch.cuda.synchronize()
        self.call()
        torch.cuda.synchronize()
        return bool(torch.equal(self.result, self.wanted))


def capture(calls, count, stream, gap):
    graph = torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            calls.call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for number in range(count):
            if gap:
                gap.enqueue(number)
            calls.call()
    return graph


def time_replays(calls, options, meeting, gap):
    stream = torch.cuda.Stream()
    graph = capture(calls, options.calls, stream, gap)
    times = []
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    for _ in range(options.replays):
        calls.refill()
        torch.cuda.synchronize()
        meeting()
        with torch.cuda.stream(stream):
            graph.replay()
            begin.record()
            graph.replay()
            end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / options.calls - (gap.of_a_call() if gap else 0))
    return times


def time_calls(calls, options, meeting):
    times = []
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    for _ in range(options.replays * EAGER_TIMES):
        calls.refill()
        torch.cuda.synchronize()
        meeting()
        begin.record()
        calls.call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return times


def slowest(times, control, rank, nranks):
    """Of each replay, on rank 0."""
    of_ranks = [None] * nranks if rank == 0 else None
    dist.gather_object(times, of_ranks, dst=0, group=control)
    return [max(one) for one in zip(*of_ranks)] if rank == 0 else []


def measure(mode, algorithm, nbytes, rank, options, control, groups, meeting, gap):
    group = groups["nccl"] if algorithm == "nccl" else control
    calls = Calls(algorithm, nbytes, rank, options.ranks, group)
    dist.barrier(group=control)
    right = calls.is_right()
    dist.barrier(group=control)
    if mode == "eager":
        times = time_calls(calls, options, meeting)
    else:
        times = time_replays(calls, options, meeting, gap if mode == "gap" else None)
    all_right = [None] * options.ranks
    dist.all_gather_object(all_right, right, group=control)
    times = sorted(slowest(times, control, rank, options.ranks))
    if rank:
        return None
    return {
        "mode": mode,
        "bytes": nbytes,
        "algorithm": algorithm,
        "min_us": round(times[0], 3),
        "p50_us": round(times[(len(times) - 1) // 2], 3),
        "p99_us": round(times[min(len(times) - 1, len(times) * 99 // 100)], 3),
        "checked": all(all_right),
    }


def join(rank, options, rendezvous):
    os.environ["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
    devices = torch.cuda.device_count()
    torch.cuda.set_device(rank % devices)
    if options.ranks > devices:
        separate_hosts(rank)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=options.ranks,
        timeout=datetime.timedelta(seconds=60),
    )
    if any(name in SYMMETRIC for name in options.algorithms):
        enable_symmetric(dist.group.WORLD.group_name)
    groups = {}
    if "nccl" in options.algorithms:
        groups["nccl"] = dist.new_group(backend="nccl")
    return dist.group.WORLD, groups


def is_late(options, control):
    """Whether it is time to end; rank 0 says so for all."""
    late = torch.tensor([1 if options.until and time.monotonic() > options.until else 0])
    dist.broadcast(late, src=0, group=control)
    return bool(late.item())


def be_rank(rank, options, rendezvous, words):
    control, groups = join(rank, options, rendezvous)
    meeting = Meeting(words, rank, options.ranks)
    gap = Gap(options.gap_us, rank, options.ranks) if "gap" in options.modes else None
    rows = []
    for mode, nbytes, algorithm in itertools.product(options.modes, options.sizes, options.algorithms):
        if is_late(options, control):
            break
        try:
            row = measure(mode, algorithm, nbytes, rank, options, control, groups, meeting, gap)
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            # All ranks fail alike: an algorithm that this PyTorch or machine has not.
            row = {"mode": mode, "bytes": nbytes, "algorithm": algorithm, "error": str(error)[:200]}
        rows.append(row)
    if rank == 0:
        print(json.dumps({"torch": torch.__version__, "ranks": options.ranks, "rows": rows}), flush=True)
    dist.barrier(group=control)
    os._exit(0)  # communicators of ranks on one GPU may hang in their destruction


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--sizes", default="14336,112K,256K,1M,2M")
    parser.add_argument("--calls", type=int, default=122)
    parser.add_argument("--replays", type=int, default=50)
    parser.add_argument("--algorithms", default=",".join(SYMMETRIC))
    parser.add_argument("--modes", default="graph")
    parser.add_argument("--gap-us", default="5,2")
    parser.add_argument("--seconds", type=float, default=0)
    options = parser.parse_args()
    options.until = time.monotonic() + options.seconds if options.seconds else 0
    options.modes = options.modes.split(",")
    options.gap_us = ([int(us) for us in options.gap_us.split(",")] + [0])[:2]
    options.sizes = [size_of(text) for text in options.sizes.split(",")]
    options.algorithms = options.algorithms.split(",")
    os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    if not torch.cuda.is_available():
        print("torch_symm.py: no GPU is here", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory(prefix=socket.gethostname()) as folder:
        words = mp.get_context("spawn").RawArray(ctypes.c_int64, options.ranks * LINE)
        mp.spawn(be_rank, (options, os.path.join(folder, "meet"), words), nprocs=options.ranks, join=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
