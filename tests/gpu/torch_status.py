#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at a PyTorch job from outside, as an operator does, with belay-info --process: while it works, while one rank is
stopped, when it goes on, and after that rank was killed. Run it under LD_PRELOAD=libbelay-nccl.so.

One line of JSON: what each look showed, and whether that is what is promised: a stopped rank stands out by its heartbeat
and its calls, in the metrics for Prometheus too; the verdict about a killed one is there.

usage: torch_status.py BELAY-INFO
"""
import json
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PATIENCE = 30


def life(rank, port, over):
    if torch.cuda.device_count() < 2:  # ranks that share a GPU
        os.environ.update(NCCL_HOSTID=f"h{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1",
                          NCCL_IB_DISABLE="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCH_NCCL_ASYNC_ERROR_HANDLING="0")
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=2)
    data = torch.zeros(7168, device="cuda", dtype=torch.bfloat16)
    try:
        while not over.is_set():
            dist.all_reduce(data)
            torch.cuda.synchronize()
    except Exception:  # pylint: disable=broad-except
        over.wait(PATIENCE)  # to be looked at
    os._exit(0)


def look(info, pid, form):
    """What belay-info says of the process; None: nothing."""
    told = subprocess.run([info, "--process", str(pid), f"--format={form}"], capture_output=True, text=True, timeout=20, check=False)
    return told.stdout if told.returncode == 0 else None


def await_look(info, pid, holds):
    """The first communicator of the process, once `holds` is true of it; None if it does not become so."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        told = look(info, pid, "json")
        comms = json.loads(told)["comms"] if told else []
        if comms and holds(comms[0]):
            return comms[0]
        time.sleep(0.1)
    return None


def metric(text, name, rank):
    """The value of a rank's metric, or None."""
    for line in (text or "").splitlines():
        if line.startswith(name + "{") and f'rank="{rank}"' in line:
            return float(line.rsplit(" ", 1)[1])
    return None


def watch(info, pids, looks):
    looks["working"] = await_look(info, pids[0], lambda comm: comm["ranks"][1]["done_seq"] > 100)
    os.kill(pids[1], signal.SIGSTOP)
    looks["stopped"] = await_look(info, pids[0], lambda comm: comm["ranks"][1]["heartbeat_age_s"] > 0.5 and
                                  comm["ranks"][0]["in_call"] and comm["ranks"][0]["heartbeat_age_s"] < 0.4)
    looks["of the stopped process"] = await_look(info, pids[1], lambda comm: comm["ranks"][1]["heartbeat_age_s"] > 0.5)
    metrics = look(info, pids[0], "prometheus")
    looks["metrics"] = {rank: metric(metrics, "belay_rank_heartbeat_age_seconds", rank) for rank in (0, 1)}
    os.kill(pids[1], signal.SIGCONT)
    done = looks["stopped"]["ranks"][1]["done_seq"] if looks["stopped"] else 0
    looks["going on"] = await_look(info, pids[0], lambda comm: comm["ranks"][1]["done_seq"] > done + 100)
    os.kill(pids[1], signal.SIGKILL)
    looks["killed"] = await_look(info, pids[0], lambda comm: comm["verdict"] and comm["verdict"]["cause"] == "peer_lost")


def main():
    if len(sys.argv) != 2:
        print("usage: torch_status.py BELAY-INFO", file=sys.stderr)
        return 2
    context = mp.get_context("spawn")
    over = context.Event()
    processes = [context.Process(target=life, args=(rank, 29400 + os.getpid() % 100, over)) for rank in (0, 1)]
    for process in processes:
        process.start()
    looks = {}
    try:
        watch(sys.argv[1], [process.pid for process in processes], looks)
    finally:
        over.set()
        for process in processes:
            process.join(5)
            process.kill()
    metrics = looks.get("metrics", {})
    right = all(looks.get(what) for what in ("working", "stopped", "of the stopped process", "going on", "killed")) and \
        (metrics.get(1) or 0) > 0.5
    print(json.dumps({"right": right, "looks": looks}))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
