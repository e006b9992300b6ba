#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NCCL as serving processes use it that are told which file to load (VLLM_NCCL_SO_PATH, SGLANG_NCCL_SO_PATH): by dlopen()
and ctypes, on the current stream. Two ranks; eager calls, calls in a CUDA graph, sums checked; and what 10,000 calls
cost that are only handed on.

usage: nccl_by_path.py FILE
"""
import ctypes
import json
import os
import sys
import time

import torch
import torch.multiprocessing as mp

FLOAT32, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def library(file):
    nccl = ctypes.CDLL(file)
    nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
    nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                   ctypes.c_void_p, ctypes.c_void_p]
    nccl.ncclCommCount.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
    return nccl


def check(nccl, result):
    if result:
        raise RuntimeError(f"{nccl.ncclGetErrorString(result).decode()}: {nccl.ncclGetLastError(None).decode()}")


def reduce(nccl, comm, tensor):
    check(nccl, nccl.ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(), tensor.numel(), FLOAT32, SUM, comm,
                                   torch.cuda.current_stream().cuda_stream))


def cost_of_counting(nccl, comm):
    count = ctypes.c_int()
    place = ctypes.byref(count)
    best = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(10000):
            nccl.ncclCommCount(comm, place)
        best.append((time.perf_counter() - began) / 10000 * 1e9)
    assert count.value == 2
    return round(min(best), 1)


def life(rank, file, ids, results):
    if torch.cuda.device_count() < 2:
        os.environ.update(NCCL_HOSTID=f"h{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1",
                          NCCL_IB_DISABLE="1")
    torch.cuda.set_device(rank % torch.cuda.device_count())
    nccl, made = library(file), UniqueId()
    if rank == 0:
        check(nccl, nccl.ncclGetUniqueId(ctypes.byref(made)))
        ids.put(bytes(made.internal))
    else:
        made.internal[:] = (ctypes.c_byte * 128).from_buffer_copy(ids.get(timeout=60))
    comm = ctypes.c_void_p()
    check(nccl, nccl.ncclCommInitRank(ctypes.byref(comm), 2, made, rank))
    tensor = torch.full((20000,), float(rank + 1), device="cuda")
    reduce(nccl, comm, tensor)
    torch.cuda.synchronize()
    right = bool((tensor == 3).all())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            reduce(nccl, comm, tensor)
    for _ in range(2):
        tensor.fill_(rank + 1.0)
        graph.replay()
        torch.cuda.synchronize()
        right = right and bool((tensor == 12).all())
    results.put({"rank": rank, "right": right, "ns_of_ncclCommCount": cost_of_counting(nccl, comm)})
    results.close()
    results.join_thread()
    del graph
    check(nccl, nccl.ncclCommDestroy(comm))


def main():
    context = mp.get_context("spawn")
    ids, results = context.Queue(), context.Queue()
    processes = [context.Process(target=life, args=(rank, sys.argv[1], ids, results)) for rank in range(2)]
    for process in processes:
        process.start()
    found = [results.get(timeout=100) for _ in range(2)]
    for process in processes:
        process.join(30)
    print(json.dumps(found))
    return 0 if all(r["right"] for r in found) and all(p.exitcode == 0 for p in processes) else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main())
