#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tensor-parallel transformer over torch.distributed, as a serving process runs one: rank processes decode greedily,
one by one or in a CUDA graph, with two allreduces a layer. It knows nothing of belay; run it with and without
LD_PRELOAD=libbelay-nccl.so and compare.

One line of JSON: tokens (a hash, and the first ones), whether all ranks have the same logits bit for bit, tokens a second
by the median step, the median and the longest step of the slowest rank, and for each rank that was told of an error its message and how long after the death that was.

usage: torch_transformer.py [--ranks N] [--layers N] [--hidden N] [--batch N] [--width N] [--steps N] [--graph]
                            [--kill RANK:STEP] [--seed N] [--marks] [--hosts N]

--hosts: the ranks are dealt out to so many hosts, as far as belay knows (BELAY_HOST_ID).
--marks: each step is a pass, marked with tools/python/belay.py (PYTHONPATH).
"""
import argparse
import hashlib
import json
import os
import queue
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as nnf

HEAD = 128
VOCABULARY = 8192
LENGTH = 512  # of the cache


class Layer:
    """A rank's part of one layer: attention and a gated feed-forward network, each ended by an allreduce."""

    def __init__(self, options, rank, number):
        n, hidden = options.ranks, options.hidden
        self.heads = hidden // HEAD // n
        self.inner = self.heads * HEAD
        wide = hidden * 5 // 2 // n // HEAD * HEAD
        made = torch.Generator(device="cuda").manual_seed(options.seed + 1000 * number + rank)

        def weights(rows, columns):
            w = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16, generator=made)
            return w.mul_(rows ** -0.5)

        self.qkv, self.out = weights(hidden, 3 * self.inner), weights(self.inner, hidden)
        self.up, self.gate, self.down = weights(hidden, wide), weights(hidden, wide), weights(wide, hidden)
        shape = (options.batch, self.heads, LENGTH, HEAD)
        self.keys = torch.zeros(shape, device="cuda", dtype=torch.bfloat16)
        self.values = torch.zeros(shape, device="cuda", dtype=torch.bfloat16)

    def attention(self, x, places, mask):
        batch, width, _ = x.shape
        q, k, v = (x @ self.qkv).view(batch, width, 3, self.heads, HEAD).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        y = nnf.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        return y.transpose(1, 2).reshape(batch, width, self.inner) @ self.out

    def __call__(self, x, places, mask):
        y = self.attention(nnf.rms_norm(x, x.shape[-1:]), places, mask)
        dist.all_reduce(y)
        x = x + y
        h = nnf.rms_norm(x, x.shape[-1:])
        y = (nnf.silu(h @ self.gate) * (h @ self.up)) @ self.down
        dist.all_reduce(y)
        return x + y


class Model:
    """Decodes `width` tokens of each sequence a step, as a verify pass does."""

    def __init__(self, options, rank):
        made = torch.Generator(device="cuda").manual_seed(options.seed)
        self.embedding = torch.randn(VOCABULARY, options.hidden, device="cuda", dtype=torch.bfloat16, generator=made)
        self.marks = options.marks
        self.layers = [Layer(options, rank, i) for i in range(options.layers)]
        self.tokens = torch.randint(VOCABULARY, (options.batch, options.width), device="cuda", generator=made)
        self.places = torch.arange(options.width, device="cuda")
        self.all_places = torch.arange(LENGTH, device="cuda")

    def step(self):
        if not self.marks:
            return self.forward()
        import belay  # pylint: disable=import-outside-toplevel,import-error
        with belay.one_pass(torch.cuda.current_stream().cuda_stream):
            return self.forward()

    def forward(self):
        x = self.embedding[self.tokens]
        mask = self.all_places[None, :] <= self.places[:, None]
        for layer in self.layers:
            x = layer(x, self.places, mask)
        logits = (nnf.rms_norm(x, x.shape[-1:]) @ self.embedding.T).float()
        self.tokens.copy_(logits.argmax(-1))
        self.places.add_(self.places.numel())
        return logits


def capture(model):
    """The step as a graph; the model stands where it stood."""
    tokens, places = model.tokens.clone(), model.places.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            model.step()
    torch.cuda.current_stream().wait_stream(side)
    model.tokens.copy_(tokens)
    model.places.copy_(places)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = model.step()
    return graph.replay, logits


def decode(options, rank, report):
    model = Model(options, rank)
    replay, logits = capture(model) if options.graph else (None, None)
    if not options.graph:
        tokens, places = model.tokens.clone(), model.places.clone()
        model.step()
        model.tokens.copy_(tokens)
        model.places.copy_(places)
    digest, first, seconds = hashlib.sha256(), [], []
    all_tokens = hashlib.sha256()
    for step in range(options.steps):
        if options.kill and (rank, step) == options.kill:
            torch.cuda.synchronize()
            with open(options.mark, "w", encoding="ascii") as file:
                file.write(repr(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.perf_counter()
        if replay:
            replay()
        else:
            logits = model.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        digest.update(logits.cpu().numpy().tobytes())
        all_tokens.update(model.tokens.cpu().numpy().tobytes())
        first += model.tokens[0].tolist() if len(first) < 24 else []
    seconds.sort()
    report.update(logits=digest.hexdigest(), tokens=all_tokens.hexdigest(), first=first,
                  median=seconds[len(seconds) // 2], longest=seconds[-1])


def life(rank, options, reports):
    if options.ranks > torch.cuda.device_count():  # ranks that share a GPU
        os.environ.update(NCCL_HOSTID=f"h{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1",
                          NCCL_IB_DISABLE="1")
    if options.hosts > 1:
        os.environ["BELAY_HOST_ID"] = f"host {rank * options.hosts // options.ranks}"
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=options.ranks)
    report = {"rank": rank}
    try:
        with torch.inference_mode():
            decode(options, rank, report)
    except Exception as error:  # pylint: disable=broad-except
        report["error"] = str(error)[:4000]
        report["told"] = time.time()
    reports.put(report)
    reports.close()
    reports.join_thread()
    if "error" in report:
        os._exit(1)
    dist.destroy_process_group()


def collect(options, processes, reports):
    """The ranks' reports, within `--cap` seconds; ranks that are silent then are killed."""
    found, until = [], time.time() + options.cap
    while len(found) < options.ranks and time.time() < until and (
            any(p.is_alive() for p in processes) or not reports.empty()):
        try:
            found.append(reports.get(timeout=0.2))
        except queue.Empty:
            pass
    for process in processes:
        process.join(20 if len(found) == options.ranks else 0.1)
        if process.is_alive():
            process.kill()
    return found


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, value in dict(ranks=2, layers=8, hidden=7168, batch=4, width=4, steps=40, seed=1, hosts=1, port=29577, cap=120).items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--marks", action="store_true")
    parser.add_argument("--kill", type=lambda text: tuple(int(n) for n in text.split(":")))
    options = parser.parse_args(arguments)
    options.mark = f"/tmp/torch-transformer-{os.getpid()}"
    return options


def main():
    options = options_of(sys.argv[1:])
    context = mp.get_context("spawn")
    reports = context.Queue()
    processes = [context.Process(target=life, args=(rank, options, reports)) for rank in range(options.ranks)]
    for process in processes:
        process.start()
    found = collect(options, processes, reports)
    whole = [r for r in found if "logits" in r]
    died = None
    if options.kill and os.path.exists(options.mark):
        with open(options.mark, encoding="ascii") as file:
            died = float(file.read())
        os.unlink(options.mark)
    print(json.dumps({
        "ranks": options.ranks, "graph": options.graph, "reports": len(found), "finished": len(whole),
        "same_logits": len({r["logits"] for r in whole}) == 1, "same_tokens": len({r["tokens"] for r in whole}) == 1,
        "tokens": whole[0]["tokens"][:16] if whole else None, "first": whole[0]["first"][:12] if whole else None,
        "tokens_per_s": round(options.batch * options.width / max(r["median"] for r in whole), 1) if whole else None,
        "step_ms": [round(max(r[key] for r in whole) * 1000, 3) for key in ("median", "longest")] if whole else None,
        "errors": [{"rank": r["rank"], "after_ms": round((r["told"] - died) * 1000, 1) if died else None,
                    "message": r["error"]} for r in found if "error" in r]}))
    return 0 if len(whole) == options.ranks or (options.kill and not whole) else 1


if __name__ == "__main__":
    sys.exit(main())
