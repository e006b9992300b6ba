# SPDX-License-Identifier: Apache-2.0
"""belay beside PyTorch's symmetric memory and NCCL on GPUs, taking turns; see docs/performance.md.

usage: gpu_side_by_side.py --build DIR [--ranks 2,4,8] [--sizes LIST] [--rounds 3] [--json FILE]

For each number of ranks, ROUNDS times: belay-bench --graph with deadlines armed, retained input kept, records and call
log on; then torch_symm.py. A figure is the median over the rounds of the p50 of a call's slowest rank, in microseconds.
The ratio is belay's over the best of PyTorch's three. NCCL (as it is by default) is measured where each rank has a GPU
of its own: between ranks on one GPU it goes over sockets. Ranks that share a GPU run under an MPS daemon of this program's.
"""
import argparse
import contextlib
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CAP_S = 240
# The sizes whose ratios are summed up in a geometric mean.
MEAN_FROM, MEAN_TO = 14 * 1024, 256 * 1024


def devices():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return len(visible.split(",")) if visible else len(glob.glob("/dev/nvidia[0-9]*"))


@contextlib.contextmanager
def mps(wanted):
    """An MPS daemon of our own, by folders that nobody else knows."""
    if not wanted:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
        for name in names:
            os.environ[name] = os.path.join(folder, name.split("_")[2].lower())
            os.makedirs(os.environ[name])
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, timeout=30)
        try:
            yield
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, timeout=30, check=False)
            for name in names:
                del os.environ[name]


def document_of(command):
    """The one JSON document that a command prints on its last line; what went wrong goes on stderr."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=CAP_S, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"status {done.returncode}: {' '.join(command)}")
    return json.loads(lines[-1])


def take_belay(options, ranks, samples):
    with tempfile.TemporaryDirectory() as log:
        command = [os.path.join(options.build, "belay-bench"), "--backend=cuda", "--graph", f"--ranks={ranks}"]
        command += [f"--sizes={options.sizes}", f"--iters={options.replays}", f"--log-dir={log}", "--format=json"]
        document = document_of(command + options.belay)
    for row in document["rows"]:
        if not row["checked"]:
            raise RuntimeError(f"belay: wrong results at {row['bytes']} bytes")
        samples.setdefault(("belay", row["bytes"]), []).append(row["p50_us"])


def take_torch(options, ranks, algorithms, samples):
    command = [options.python, os.path.join(HERE, "torch_symm.py"), f"--ranks={ranks}", f"--sizes={options.sizes}"]
    document = document_of(command + [f"--replays={options.replays}", f"--algorithms={algorithms}"])
    for row in document["rows"]:
        if "error" in row or not row["checked"]:
            print(f"torch {row['algorithm']} {row['bytes']}: {row.get('error', 'wrong result')}", file=sys.stderr)
            continue
        samples.setdefault((row["algorithm"], row["bytes"]), []).append(row["p50_us"])


def row_of(ranks, nbytes, samples):
    medians = {name: statistics.median(times) for (name, size), times in samples.items() if size == nbytes}
    torch = {name: us for name, us in medians.items() if name not in ("belay", "nccl")}
    best = min(torch, key=torch.get, default=None)
    row = {"ranks": ranks, "bytes": nbytes, "belay_us": medians["belay"], "nccl_us": medians.get("nccl")}
    row["torch_us"] = torch.get(best)
    row["torch_best"] = best
    row["ratio"] = round(medians["belay"] / torch[best], 3) if best else None
    row["nccl_ratio"] = round(medians["belay"] / medians["nccl"], 3) if "nccl" in medians else None
    return row


def measure(options, ranks, gpus):
    shared = ranks > gpus
    algorithms = "one_shot,one_shot_copy,two_shot"
    if options.nccl == "yes" or (options.nccl == "auto" and not shared):
        algorithms += ",nccl"
    samples = {}
    with mps(shared):
        for _ in range(options.rounds):
            take_belay(options, ranks, samples)
            take_torch(options, ranks, algorithms, samples)
    sizes = sorted({nbytes for name, nbytes in samples if name == "belay"})
    return [row_of(ranks, nbytes, samples) for nbytes in sizes]


def text_of(value):
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def print_table(rows):
    print("| ranks | bytes | belay | PyTorch's best | which | ratio | NCCL | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        names = ("ranks", "bytes", "belay_us", "torch_us", "torch_best", "ratio", "nccl_us", "nccl_ratio")
        print("| " + " | ".join(text_of(row[name]) for name in names) + " |")


def geometric_mean(rows):
    ratios = [row["ratio"] for row in rows if row["ratio"] and MEAN_FROM <= row["bytes"] <= MEAN_TO]
    return round(math.exp(statistics.fmean(map(math.log, ratios))), 3) if ratios else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--sizes", default="14336,16K,64K,112K,256K,1M,2M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--nccl", choices=("auto", "yes", "no"), default="auto")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", default="gpu-side-by-side.json")
    parser.add_argument("--belay", action="append", default=[], help="one more option of belay-bench")
    options = parser.parse_args()
    gpus = devices()
    if gpus == 0:
        print("gpu_side_by_side.py: no GPU is here", file=sys.stderr)
        return 77
    rows = []
    for ranks in map(int, options.ranks.split(",")):
        rows += measure(options, ranks, gpus)
    print_table(rows)
    means = {ranks: geometric_mean([row for row in rows if row["ranks"] == ranks]) for ranks in {r["ranks"] for r in rows}}
    means["all"] = geometric_mean(rows)
    print("\nGeometric mean of the ratio, 14 KB to 256 KB: " + ", ".join(f"{k}: {v}" for k, v in means.items()))
    with open(options.json, "w", encoding="utf-8") as output:
        json.dump({"gpus": gpus, "rows": rows, "geometric_mean": {str(k): v for k, v in means.items()}}, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
