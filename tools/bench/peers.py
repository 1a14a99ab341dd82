#!/usr/bin/env python3
"""Every row of rows.txt on the GPU here: `quern bench`, a check of its outputs, and PyTorch on the same inputs.

    peers.py QUERN OUTDIR [--only TEXT] [--budget SECONDS]

OUTDIR gets h200.json, what the README's table is made from, table.md, and a roofline of each row.  Without PyTorch
there is quern alone.  PyTorch is timed as quern is: replays of a CUDA graph with the arguments out of the L2 cache
(replay) and in it (warm), and calls.  When the budget is used up, max-autotune is left out first, then the others: the
table says so.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import table

try:
    import numpy
    import torch

    import programs

    torch.cuda.init()
except Exception as why:  # any reason will do: a peer that is not here is not measured
    print(f"without PyTorch: {why}", file=sys.stderr)
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = {"compile": "default", "max_autotune": "max-autotune-no-cudagraphs"}  # the graphs are ours
SAMPLES, MAX_SETS, GRAPH_US, MAX_RUNS, CALLS_US, MAX_CALLS = 21, 1024, 1000, 200, 5000, 200


# ---- rows ----


def read_rows(only):
    rows = []
    with open(os.path.join(HERE, "rows.txt"), encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#") or not line.strip():
                continue
            name, check, program, options = line.split(None, 3)
            words = options.split()
            size = dict(words[i + 1].split("=") for i, word in enumerate(words) if word == "-D")
            if only in name:
                rows.append({"name": name, "check_by": check, "file": os.path.join(HERE, program),
                             "program": os.path.splitext(os.path.basename(program))[0], "options": words,
                             "size": {key: int(value) for key, value in size.items()}})
    return rows


# ---- quern ----


def quern(arguments):
    """The JSON that it prints; where there is none, the reason."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return None, "took over 120 s"
    try:
        return json.loads(done.stdout), None
    except ValueError:
        return None, f"exit status {done.returncode}: {done.stderr.strip()[-400:]}"


def save(path, tensor):
    if tensor.dtype == torch.bfloat16:
        numpy.save(path, tensor.view(torch.int16).cpu().numpy().view("V2"))
    else:
        numpy.save(path, tensor.cpu().numpy())


def load(path, dtype):
    array = numpy.load(path)
    if dtype == torch.bfloat16:
        return torch.from_numpy(array.view(numpy.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


def bench_on(command, row, out, *more):
    plot = os.path.join(out, row["name"] + ".svg")
    return quern([command, "bench", row["file"], *row["options"], *more, "--plot", plot, "--json", "--device", "cuda"])


def bench_on_files(command, row, out, given):
    """Bench on these inputs, which go through files, and what it left in y."""
    folder = tempfile.mkdtemp(prefix="quern-bench-")
    try:
        for name, tensor in given.items():
            save(f"{folder}/{name}.npy", tensor)
        files = [word for name in given for word in ("--in", f"{name}={folder}/{name}.npy")]
        bench, why = bench_on(command, row, out, *files, "--out",
                              f"{programs.output(row['program'])}={folder}/out.npy")
        dtype = next(iter(given.values())).dtype
        return bench, why, load(f"{folder}/out.npy", dtype) if bench else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_by_torch(row, given, got):
    with torch.no_grad():
        expected = programs.function(row["program"])(*[tensor.double() for tensor in given.values()])
    return programs.errors(row["program"], got, expected)


def check_by_eval(command, row):
    run, why = quern([command, "run", row["file"], *row["options"], "--random", "1", "--check", "--json",
                      "--device", "cuda"])
    if not run:
        return {"by": "eval", "ok": False, "why": why}
    worst = max(run["outputs"], key=lambda output: output["max_abs_error"] or 0)
    return {"by": "eval", "max_abs_error": worst["max_abs_error"], "ok": run["ok"]}


def measure_quern(command, row, out):
    """Adds to the row what quern bench says, and whether the outputs are right (None: nobody looked)."""
    by = row["check_by"]
    if torch and by != "eval":
        given = programs.inputs(row["program"], row["size"])
        torch.cuda.empty_cache()
        row["quern"], why, got = bench_on_files(command, row, out, given)
        row["check"] = {"ok": False, "why": why} if why else check_by_torch(row, given, got)
        return
    row["quern"], why = bench_on(command, row, out, "--random", "1")
    row["check"] = {"ok": False, "why": why} if why else \
        check_by_eval(command, row) if by != "torch" else {"ok": None, "why": "it takes PyTorch"}


# ---- PyTorch ----


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def make_sets(given, y):
    """Copies of the inputs, as many as make three times the L2 cache with their outputs."""
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    n = min(MAX_SETS, 3 * cache // max(1, bytes_of([*given, y])) + 1)
    return [given] + [[tensor.clone() for tensor in given] for _ in range(n - 1)]


def captured(call, sets, n_runs):
    """A graph of so many runs.  Outputs are kept until their set comes up again: they are not in the cache either."""
    graph, outputs = torch.cuda.CUDAGraph(), [None] * len(sets)
    with torch.cuda.graph(graph):
        for i in range(n_runs):
            outputs[i % len(sets)] = None
            outputs[i % len(sets)] = call(*sets[i % len(sets)])
    return graph, outputs


def replay_samples(graph, n_runs, n_samples):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    samples = []
    for _ in range(n_samples):
        graph.replay()  # the timed one waits behind it, so that the host's time is not in the figure
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        samples.append(1e3 * start.elapsed_time(stop) / n_runs)
    return samples


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}


def replay_us(call, sets):
    graph, _ = captured(call, sets[:1], 1)
    one = replay_samples(graph, 1, 3)[-1]
    del graph
    n_runs = min(MAX_RUNS, int(GRAPH_US / one) + 1)
    n_runs = (n_runs + len(sets) - 1) // len(sets) * len(sets)
    graph, outputs = captured(call, sets, n_runs)
    timing = spread(replay_samples(graph, n_runs, SAMPLES))
    del graph, outputs
    return timing


def call_us(call, given, one):
    n_calls, samples = min(MAX_CALLS, int(CALLS_US / one) + 1), []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(n_calls):
            call(*given)
        torch.cuda.synchronize()
        samples.append(1e6 * (time.perf_counter() - begun) / n_calls)
    return spread(samples)


def measure_call(call, given):
    """Replayed and called; the first calls compile."""
    with torch.no_grad():
        begun = time.perf_counter()
        y = call(*given)
        torch.cuda.synchronize()
        first_ms = 1e3 * (time.perf_counter() - begun)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                call(*given)
        torch.cuda.synchronize()
        sets = make_sets(given, y)
        result = {"replay_us": replay_us(call, sets)}
        result["warm_us"] = replay_us(call, sets[:1]) if len(sets) > 1 else result["replay_us"]
        result["call_us"] = call_us(call, given, result["warm_us"]["median"])
        result["first_ms"] = first_ms
    return result


def measure_peer(row, mode, known):
    """Rows of one program at the same sizes have the same peers."""
    key = (row["program"], tuple(row["size"].items()), mode)
    if key not in known:
        call = programs.function(row["program"])
        try:
            if mode != "eager":
                torch._dynamo.reset()
                call = torch.compile(call, dynamic=False, mode=MODES[mode])
            known[key] = measure_call(call, list(programs.inputs(row["program"], row["size"]).values()))
        except Exception as why:  # a peer that fails is a finding, not the end of the run
            known[key] = {"why": f"{type(why).__name__}: {str(why)[:200]}"}
        torch.cuda.empty_cache()
    row["peers"][mode] = known[key]


# ---- all of it ----


def words_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def machine(command):
    doctor, _ = quern([command, "doctor", "--json"])
    doctor = doctor or {}
    return {"commit": os.environ.get("QUERN_COMMIT") or words_of(["git", "-C", HERE, "rev-parse", "HEAD"]),
            "gpu": (doctor.get("gpu") or {}).get("name"),
            "driver": words_of(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0"]),
            "cuda_of_driver": (doctor.get("driver") or {}).get("version"),
            "nvrtc": (doctor.get("nvrtc") or {}).get("version"),
            "quern": doctor.get("version"),
            "torch": torch.__version__ if torch else None}


def write(out, results):
    path = os.path.join(out, "h200.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def say(row, what, begun):
    print(f"{time.perf_counter() - begun:6.1f} s  {row['name']}: {what}", file=sys.stderr, flush=True)


def one_line(row):
    if not row["quern"]:
        return f"FAILED: {row['check']['why']}"
    ok = {True: "right", False: "WRONG", None: "unchecked"}[row["check"]["ok"]]
    return f"{row['quern']['replay_us']['median']:.2f} us a replay, {ok}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quern")
    parser.add_argument("out")
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument("--budget", type=float, default=390, help="seconds; then peers are left out")
    given = parser.parse_args()
    begun = time.perf_counter()
    os.makedirs(given.out, exist_ok=True)
    results = {**machine(given.quern), "rows": read_rows(given.only)}
    known = {}
    for row in results["rows"]:
        row["peers"] = {}
        measure_quern(given.quern, row, given.out)
        say(row, one_line(row), begun)
        write(given.out, results)
    for mode in ["compile", "eager", "max_autotune"] if torch else []:  # what matters most first
        for row in results["rows"]:
            if time.perf_counter() - begun > given.budget:
                row["peers"][mode] = {"why": "out of time"}
                continue
            measure_peer(row, mode, known)
            say(row, f"{mode} {row['peers'][mode].get('replay_us', {}).get('median', 'failed')}", begun)
            write(given.out, results)
    for row in results["rows"]:
        row["file"] = os.path.relpath(row["file"], HERE)
    write(given.out, results)
    text = table.markdown(results)
    with open(os.path.join(given.out, "table.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text)
    return 1 if any(row["check"]["ok"] is False for row in results["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
