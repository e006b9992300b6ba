# SPDX-License-Identifier: Apache-2.0
"""belay beside PyTorch's symmetric memory and NCCL on GPUs, taking turns; see docs/performance.md.

usage: gpu_side_by_side.py --build DIR [--ranks 2,4,8] [--sizes LIST] [--modes LIST] [--rounds 3] [--seconds S]
                           [--tuned yes|no] [--json FILE]

For each number of ranks, ROUNDS times: belay-bench with deadlines armed, retained input kept, records and call log on;
NCCL as it is by default and tuned (peer_nccl, built with the tests); torch_symm.py. All are timed alike, in one mode or
several:

graph  122 calls in a CUDA graph, two replays in a row, of which the second is timed
gap    the same with a kernel before each call that waits, on one rank in turn for longer: a neighbour on the stream that
       does not launch programmatically, and ranks that arrive apart. Its times are taken off, its launch is not
eager  calls one by one, launched together
plain  graph, belay without programmatic launch; the others have none

A figure is the median over the rounds of the p50, or of the p99, of a call's slowest rank, in microseconds. Ratios are
of p50, belay's over the other's. NCCL tuned is the best, row by row, of buffers in symmetric windows or not, of
NCCL_SYM_CTAS, and of NCCL_GRAPH_MIXING_SUPPORT=0; what wins no row in the first round is left out of the later ones.
NCCL is measured where each rank has a GPU of its own: between ranks on one GPU it goes over sockets. Ranks that share a
GPU run under an MPS daemon of this program's. Multicast stays off.

--seconds: no run is begun that would last longer, as far as earlier ones tell; what there is then is printed. Exit
status: 0, 1 something could not be measured, 77 no GPU is here.
"""
import argparse
import contextlib
import glob
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CAP_S = 240
END_S = 8  # for PyTorch to end a row that it has begun
EAGER_TIMES = 4  # calls one by one for each replay
STAGED_MAX = 2 << 20  # larger calls go on NCCL unless BELAY_SYMM_MAX says otherwise
# The sizes whose ratios are summed up in a geometric mean.
MEAN_FROM, MEAN_TO = 14 * 1024, 256 * 1024
# What is aimed at between two H200 over NVLink, in graphs: microseconds, and ratios to NCCL up to so many bytes.
AIMS_US = {14336: 2.2, 16384: 2.2, 65536: 2.4, 114688: 2.6, 262144: 3.0, 524288: 3.9, 1 << 20: 5.6, 2 << 20: 9.0, 8 << 20: 27}
AIM_TUNED, AIM_TUNED_LARGE, AIM_DEFAULT = 0.85, 0.95, 0.45
# NCCL tuned: a name, whether buffers are in windows, and its variables.
TUNED = [("plain, mixing 0", False, {"NCCL_GRAPH_MIXING_SUPPORT": "0"}), ("windows", True, {})]
TUNED += [("windows, mixing 0", True, {"NCCL_GRAPH_MIXING_SUPPORT": "0"})]
TUNED += [
    (f"windows, mixing 0, {ctas} CTAs", True, {"NCCL_GRAPH_MIXING_SUPPORT": "0", "NCCL_SYM_CTAS": str(ctas)})
    for ctas in (4, 8, 16, 32)
]
NOT_INHERITED = ("NCCL_GRAPH_MIXING_SUPPORT", "NCCL_SYM_CTAS")


class NotHere(Exception):
    """This cannot be measured on this machine."""


class NoTime(Exception):
    """The next run would not end in time."""


def devices():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return len(visible.split(",")) if visible else len(glob.glob("/dev/nvidia[0-9]*"))


def size_of(text):
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


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


class Clock:
    """How long runs take, and whether there is time for one more."""

    def __init__(self, seconds):
        self.until = time.monotonic() + seconds if seconds else None
        self.took = {}

    def left(self):
        return CAP_S if self.until is None else self.until - time.monotonic()

    @contextlib.contextmanager
    def run(self, one):
        if self.left() < self.took.get(one.name, one.first_s):
            raise NoTime(one.name)
        begin = time.monotonic()
        yield min(CAP_S, self.left())
        self.took[one.name] = time.monotonic() - begin


def document_of(command, cap, variables):
    """The one JSON document that a command prints on its last line; what went wrong goes on stderr."""
    environment = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    environment.update(variables)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=cap)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"not over after {cap:.0f} s: {' '.join(command)}") from error
            raise
    if process.returncode == 77:
        raise NotHere(" ".join(command))
    lines = output.strip().splitlines()
    if process.returncode or not lines:
        raise RuntimeError(f"status {process.returncode}: {' '.join(command)}")
    return json.loads(lines[-1])


class Samples:
    """What all runs have told: by mode, who, and bytes, the p50 and the p99 of each round."""

    def __init__(self):
        self.times = {}
        self.problems = []

    def add(self, mode, name, row):
        if "error" in row or not row["checked"]:
            self.problem(f"{name}, {mode}, {row['bytes']} bytes: {row.get('error', 'wrong result')}")
            return
        self.times.setdefault((mode, name, row["bytes"]), []).append((row["p50_us"], row["p99_us"]))

    def problem(self, text):
        print(text, file=sys.stderr)
        self.problems.append(text)

    def median(self, mode, name, nbytes):
        """(p50, p99), or None."""
        times = self.times.get((mode, name, nbytes))
        return tuple(statistics.median(column) for column in zip(*times)) if times else None

    def best(self, mode, names, nbytes):
        """(name, (p50, p99)) of the fastest, or (None, None)."""
        known = {name: self.median(mode, name, nbytes) for name in names}
        known = {name: times for name, times in known.items() if times}
        name = min(known, key=lambda one: known[one][0], default=None)
        return name, known.get(name)


class Belay:
    """One mode of it: each is a run of its own."""

    first_s = 8  # until one has been seen

    def __init__(self, options, ranks, mode):
        self.name = f"belay {mode}"
        self.mode = mode
        self.ranks = ranks
        self.command = [os.path.join(options.build, "belay-bench"), "--backend=cuda", f"--ranks={ranks}", "--format=json"]
        self.command += [f"--sizes={options.sizes}"] + options.belay
        if mode == "eager":
            self.command += [f"--iters={options.replays * EAGER_TIMES}"]
        else:
            self.command += ["--graph", f"--iters={options.replays}"]
        if mode == "gap":
            self.command += [f"--gap-us={options.gap_us}"]
        most = max(size_of(text) for text in options.sizes.split(","))
        self.variables = {"BELAY_SYMM_MAX": str(most)} if most > STAGED_MAX else {}

    def take(self, cap, samples):
        with tempfile.TemporaryDirectory() as folder:
            variables = dict(self.variables)
            if self.mode == "plain":
                variables["BELAY_TUNE"] = os.path.join(folder, "plain")
                with open(variables["BELAY_TUNE"], "w", encoding="utf-8") as file:
                    file.write(f"ranks={self.ranks} programmatic=no\n")
            document = document_of(self.command + [f"--log-dir={folder}/log"], cap, variables)
        for row in document["rows"]:
            samples.add(self.mode, "belay", row)


class Nccl:
    """One way of NCCL, in all modes."""

    first_s = 10

    def __init__(self, options, ranks, modes, name, windows, variables):
        self.name = name
        self.variables = variables
        self.command = [os.path.join(options.build, "tests/perf/peer_nccl"), f"--ranks={ranks}", f"--sizes={options.sizes}"]
        self.command += [f"--modes={','.join(modes)}", f"--gap-us={options.gap_us}", f"--iters={options.replays}"]
        self.command += ["--windows"] if windows else []

    def take(self, cap, samples):
        for row in document_of(self.command, cap, self.variables)["rows"]:
            samples.add(row["mode"], self.name, row)


class Torch:
    """All of PyTorch's algorithms, in all modes."""

    first_s = 40

    def __init__(self, options, ranks, modes, algorithms):
        self.name = "PyTorch"
        self.command = [options.python, os.path.join(HERE, "torch_symm.py"), f"--ranks={ranks}", f"--sizes={options.sizes}"]
        self.command += [f"--replays={options.replays}", f"--algorithms={','.join(algorithms)}"]
        self.command += [f"--modes={','.join(modes)}", f"--gap-us={options.gap_us}"]

    def take(self, cap, samples):
        # What it has by then is better than nothing.
        command = self.command + [f"--seconds={max(1, cap - END_S):.0f}"]
        for row in document_of(command, cap, {})["rows"]:
            samples.add(row["mode"], row["algorithm"], row)


TORCH = ("one_shot", "one_shot_copy", "two_shot")
TUNED_NAMES = [name for name, _, _ in TUNED]


def runs_of(options, ranks, shared):
    modes = options.modes.split(",")
    peers_modes = [mode for mode in modes if mode != "plain"]
    algorithms = list(TORCH)
    runs = [Belay(options, ranks, mode) for mode in modes]
    if not peers_modes:
        return runs
    if options.nccl == "auto" and not shared and os.path.exists(os.path.join(options.build, "tests/perf/peer_nccl")):
        tuned = TUNED if options.tuned == "yes" else []
        runs += [Nccl(options, ranks, peers_modes, *how) for how in [("nccl", False, {})] + tuned]
    elif options.nccl == "yes" or (options.nccl == "auto" and not shared):
        algorithms.append("nccl")
    if options.torch == "yes":
        runs.append(Torch(options, ranks, peers_modes, algorithms))
    return runs


def wins(name, samples):
    """Whether a way of tuning NCCL is the fastest anywhere; of what is not one of them, true."""
    rows = {(mode, nbytes) for mode, _, nbytes in samples.times}
    return name not in TUNED_NAMES or any(samples.best(mode, TUNED_NAMES, nbytes)[0] == name for mode, nbytes in rows)


def take(one, clock, samples):
    """Returns whether it is worth another try."""
    try:
        with clock.run(one) as cap:
            one.take(cap, samples)
    except NoTime:
        print(f"{one.name}: no time for it any more", file=sys.stderr)
        return False
    except NotHere as error:
        print(f"{one.name}: not on this machine: {error}", file=sys.stderr)
        return False
    except (RuntimeError, ValueError, KeyError) as error:
        samples.problem(f"{one.name}: {error}")
        return False
    return True


def measure(options, ranks, gpus, clock, samples):
    """Returns in how many rounds there was time for belay."""
    runs = runs_of(options, ranks, ranks > gpus)
    rounds = 0
    with mps(ranks > gpus):
        while rounds < options.rounds and any(isinstance(one, Belay) for one in runs):
            runs = [one for one in runs if take(one, clock, samples)]
            # The other way round each time, so that nobody always stands behind the same.
            runs = [one for one in reversed(runs) if wins(one.name, samples)]
            rounds += any(isinstance(one, Belay) for one in runs)
    return rounds


def ratio_of(own, other):
    return round(own[0] / other[0], 3) if own and other else None


def row_of(mode, ranks, gpus, nbytes, samples):
    """What is not measured in the mode plain is that of graph: nobody else launches programmatically."""
    other = "graph" if mode == "plain" else mode
    belay = samples.median(mode, "belay", nbytes)
    nccl = samples.median(other, "nccl", nbytes)
    how, tuned = samples.best(other, TUNED_NAMES, nbytes)
    if tuned and nccl and nccl[0] < tuned[0]:
        how, tuned = "default", nccl
    which, torch = samples.best(other, TORCH, nbytes)
    row = {"mode": mode, "ranks": ranks, "bytes": nbytes}
    for name, times in (("belay", belay), ("nccl", nccl), ("nccl_tuned", tuned), ("torch", torch)):
        row[f"{name}_us"], row[f"{name}_p99_us"] = times if times else (None, None)
    row["nccl_tuned_how"], row["torch_best"] = how, which
    row["ratio"], row["nccl_ratio"] = ratio_of(belay, torch), ratio_of(belay, nccl)
    row["nccl_tuned_ratio"] = ratio_of(belay, tuned)
    row["aim_us"] = AIMS_US.get(nbytes) if ranks == 2 and gpus >= 2 and mode == "graph" else None
    return row


def rows_of(options, ranks, gpus, samples):
    modes = options.modes.split(",")
    known = {(modes.index(mode), nbytes) for mode, name, nbytes in samples.times if name == "belay"}
    return [row_of(modes[place], ranks, gpus, nbytes, samples) for place, nbytes in sorted(known)]


def missed(row):
    """What a row misses of what is aimed at, in words."""
    large = row["bytes"] > STAGED_MAX
    aims = [
        ("us", row["belay_us"], row["aim_us"]),
        ("of NCCL tuned", row["nccl_tuned_ratio"], AIM_TUNED_LARGE if large else AIM_TUNED),
        ("of NCCL", row["nccl_ratio"], None if large else AIM_DEFAULT),
    ]
    if row["aim_us"] is None:
        return []
    return [f"{row['bytes']} bytes: {is_:.2f} {what}, aim {aim}" for what, is_, aim in aims if is_ and aim and is_ > aim]


def text_of(value):
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def print_table(rows):
    titles = ["mode", "ranks", "bytes", "belay p50 / p99", "aim", "NCCL", "ratio", "NCCL tuned", "how", "ratio"]
    titles += ["PyTorch's best", "which", "ratio"]
    print("| " + " | ".join(titles) + " |")
    print("| " + " | ".join(["---"] * len(titles)) + " |")
    for row in rows:
        cells = [row["mode"], row["ranks"], row["bytes"]]
        for name, others in (
            ("belay", ("aim_us",)),
            ("nccl", ("nccl_ratio",)),
            ("nccl_tuned", ("nccl_tuned_how", "nccl_tuned_ratio")),
            ("torch", ("torch_best", "ratio")),
        ):
            both = f"{text_of(row[f'{name}_us'])} / {text_of(row[f'{name}_p99_us'])}"
            cells += ["-" if row[f"{name}_us"] is None else both] + [row[other] for other in others]
        print("| " + " | ".join(text_of(cell) for cell in cells) + " |")


def geometric_mean(rows):
    ratios = [row["ratio"] for row in rows if row["mode"] == "graph" and row["ratio"] and MEAN_FROM <= row["bytes"] <= MEAN_TO]
    return round(math.exp(statistics.fmean(map(math.log, ratios))), 3) if ratios else None


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--sizes", default="14336,16K,64K,112K,256K,1M,2M")
    parser.add_argument("--modes", default="graph", help="of graph, gap, eager and plain")
    parser.add_argument("--gap-us", default="5,2", help="in the mode gap: before each call, and more on one rank in turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--nccl", choices=("auto", "yes", "no"), default="auto", help="yes: PyTorch's NCCL, whatever is shared")
    parser.add_argument("--tuned", choices=("yes", "no"), default="yes")
    parser.add_argument("--torch", choices=("yes", "no"), default="yes")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", default="gpu-side-by-side.json")
    parser.add_argument("--belay", action="append", default=[], help="one more option of belay-bench")
    return parser.parse_args()


def main():
    options = read_options()
    gpus = devices()
    if gpus == 0:
        print("gpu_side_by_side.py: no GPU is here", file=sys.stderr)
        return 77
    begin = time.monotonic()
    rows, problems, rounds = [], [], {}
    counts = list(map(int, options.ranks.split(",")))
    for place, ranks in enumerate(counts):
        samples = Samples()
        # What there is goes in equal parts to the numbers of ranks that are still to come.
        left = options.seconds - (time.monotonic() - begin)
        clock = Clock(max(1, left / (len(counts) - place)) if options.seconds else 0)
        rounds[ranks] = measure(options, ranks, gpus, clock, samples)
        rows += rows_of(options, ranks, gpus, samples)
        problems += samples.problems
    print_table(rows)
    means = {str(ranks): geometric_mean([row for row in rows if row["ranks"] == ranks]) for ranks in rounds}
    means["all"] = geometric_mean(rows)
    print("\nGeometric mean of the ratio to PyTorch, graph, 14 KB to 256 KB: " + ", ".join(f"{k}: {v}" for k, v in means.items()))
    print("Rounds: " + ", ".join(f"{ranks} ranks: {n}" for ranks, n in rounds.items()))
    misses = [text for row in rows for text in missed(row)]
    for text in misses:
        print(f"missed: {text}")
    for text in problems:
        print(f"problem: {text}")
    with open(options.json, "w", encoding="utf-8") as output:
        document = {"gpus": gpus, "rows": rows, "geometric_mean": means, "rounds": rounds, "missed": misses}
        json.dump({**document, "problems": problems}, output)
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
