#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives of torch.distributed that belay leaves to NCCL and watches: each is checked, one by one and in a CUDA graph,
and timed; run it under LD_PRELOAD=libbelay-nccl.so and without. It knows nothing of belay.

One line of JSON: whether all values were right, and us a call of the slower rank, one by one and in a graph, with the
kernels that make its input and check its output.

usage: torch_collectives.py [--ranks N] [--hosts] [--mismatch | --kill] [--seconds N]

--hosts: each rank is a host of its own (BELAY_HOST_ID). --mismatch: the last rank gathers where the others broadcast.
--kill: it is killed where the others gather. All others wait for their stream before they call anything else: the JSON line
has what each rank was told, and after how many ms.
"""
import argparse
import json
import os
import queue
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

COUNT = 7168


def value(rank, length=COUNT):
    return torch.arange(length, device="cuda", dtype=torch.float32) + 1000 * rank


class Collectives:
    """Each method makes one call and returns whether it was right, as a tensor."""

    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks
        self.all = torch.cat([value(r) for r in range(ranks)])
        self.sum = sum(value(r) for r in range(ranks))

    def all_reduce(self):
        data = value(self.rank)
        dist.all_reduce(data)
        return (data == self.sum).all()

    def average(self):
        data = value(self.rank)
        dist.all_reduce(data, op=dist.ReduceOp.AVG)
        return (data == self.sum / self.ranks).all()

    def all_gather(self):
        data = torch.empty_like(self.all)
        dist.all_gather_into_tensor(data, value(self.rank))
        return (data == self.all).all()

    def reduce_scatter(self):
        data = torch.empty(COUNT, device="cuda")
        dist.reduce_scatter_tensor(data, self.all + self.rank)
        mine = value(self.rank) * self.ranks + self.ranks * (self.ranks - 1) // 2
        return (data == mine).all()

    def broadcast(self):
        data = value(self.rank)
        dist.broadcast(data, src=self.ranks - 1)
        return (data == value(self.ranks - 1)).all()

    def reduce(self):
        data = value(self.rank)
        dist.reduce(data, dst=0)
        return (data == self.sum).all() if self.rank == 0 else data.isfinite().all()  # others': undefined

    def all_to_all(self):
        data = torch.empty(self.ranks * COUNT, device="cuda")
        dist.all_to_all_single(data, torch.cat([value(100 * r + self.rank) for r in range(self.ranks)]))
        return (data == torch.cat([value(100 * self.rank + r) for r in range(self.ranks)])).all()


KINDS = ("all_reduce", "average", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all")


def graph_of(call, calls):
    """A graph of so many, and the last one's result."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            right = call()
    return graph, right


def captured(call):
    graph, right = graph_of(call, 1)
    for _ in range(2):
        graph.replay()
    return bool(right.item())


def timed(call, calls):
    """us a call, of 100 times so many."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(100):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1e4 / calls


def timed_in_graph(call):
    return timed(graph_of(call, 20)[0].replay, 20)


def work(rank, options, report):
    calls = Collectives(rank, options.ranks)
    if options.mismatch or options.kill:
        calls.all_reduce()
        calls.all_gather()
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        report["began"] = time.time()
        if options.kill and rank == options.ranks - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        (calls.all_gather if options.kill or rank == options.ranks - 1 else calls.broadcast)()
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        return
    report["right"] = all(bool(getattr(calls, kind)().item()) for kind in KINDS) and \
        all(captured(getattr(calls, kind)) for kind in KINDS)
    report["us"] = {kind: timed(getattr(calls, kind), 1) for kind in KINDS}
    report["us_graph"] = {kind: timed_in_graph(getattr(calls, kind)) for kind in KINDS}


def life(rank, options, reports):
    if options.ranks > torch.cuda.device_count():  # ranks that share a GPU
        os.environ.update(NCCL_HOSTID=f"h{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1",
                          NCCL_IB_DISABLE="1")
    if options.hosts:
        os.environ["BELAY_HOST_ID"] = f"host {rank}"
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=options.ranks)
    report = {"rank": rank}
    try:
        with torch.inference_mode():
            work(rank, options, report)
    except Exception as error:  # pylint: disable=broad-except
        report.update(error=str(error)[:2000], after_ms=round((time.time() - report.get("began", time.time())) * 1000, 1))
    reports.put(report)
    reports.close()
    reports.join_thread()
    if "error" in report:
        os._exit(1)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, number in {"ranks": 2, "port": 29600 + os.getpid() % 300, "seconds": 60}.items():
        parser.add_argument("--" + name, type=int, default=number)
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--mismatch", action="store_true")
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    wanted = options.ranks - options.kill
    context = mp.get_context("spawn")
    reports = context.Queue()
    processes = [context.Process(target=life, args=(rank, options, reports)) for rank in range(options.ranks)]
    for process in processes:
        process.start()
    found, until = [], time.time() + options.seconds
    while len(found) < wanted and time.time() < until:
        try:
            found.append(reports.get(timeout=0.2))
        except queue.Empty:
            pass
    for process in processes:
        process.join(10)
        process.kill()
    whole = [report for report in found if "us" in report]
    print(json.dumps({
        "ranks": options.ranks, "reports": len(found), "right": len(whole) == options.ranks and all(r["right"] for r in whole),
        **{us: {kind: round(max(r[us][kind] for r in whole), 1) for kind in KINDS} for us in ("us", "us_graph") if whole},
        "errors": [{key: r[key] for key in ("rank", "after_ms", "error")} for r in found if "error" in r]}))
    return 0 if len(found) == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
