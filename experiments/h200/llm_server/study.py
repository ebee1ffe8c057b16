#!/usr/bin/env python3
"""Simulates the server from its captured steps, and compares with what was measured.

  study.py steps SIM RECORDING    steps.json.gz from what `sim capture --keep RECORDING` kept: a program a step
  study.py compare SIM            the runs of served*.json.gz beside the simulation of the same arrivals
"""
import glob
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = os.path.join(HERE, "steps.json.gz")


def ranges_of(recording):
    names = set()
    for path in glob.glob(os.path.join(recording, "*.jsonl")):
        with open(path) as file:
            names |= {json.loads(line)[1] for line in file if line.startswith('["r"')}
    return sorted(names, key=lambda name: [int(n) for n in re.findall("[0-9]+", name)])


def make_steps(sim, recording):
    kernels, of_name, programs = {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name in ranges_of(recording):
            path = os.path.join(folder, "step.json")
            subprocess.run([sim, "import", "capture", recording, "--range", name, "--name", name, "-o", path], check=True,
                           stderr=subprocess.DEVNULL)
            with open(path) as file:
                trace = json.load(file)
            by_name = {}  # kernels of one name and of several steps are one where all else is equal too
            for kernel in trace["kernels"]:
                was = kernel.pop("name")
                short = re.sub(r" #[0-9]+$", "", was)
                content = json.dumps([short, kernel], sort_keys=True)
                if content not in kernels:
                    of_name[short] = of_name.get(short, 0) + 1
                    number = f" #{of_name[short]}" if of_name[short] > 1 else ""
                    kernels[content] = {"name": short + number, **kernel}
                by_name[was] = kernels[content]["name"]
            program = trace["programs"][0]
            for op in program["ops"]:
                if "launch" in op:
                    op["launch"] = by_name[op["launch"]]
            programs.append(program)
    trace = {"corun_trace": 1, "name": "llm_server_steps", "about": f"Captured from serve.py steps: {len(programs)} steps of a server of a language model.", "gpu": "h200", "kernels": list(kernels.values()),
             "programs": programs, "clients": []}
    with gzip.GzipFile(STEPS, "wb", mtime=0) as file:
        file.write(json.dumps(trace).encode())


def quantiles(values):
    values = sorted(values)
    return [statistics.mean(values), values[(len(values) - 1) // 2], values[int(0.99 * (len(values) - 1))]]


def measured():
    """Of each speed and each of first_token and between_tokens: mean, p50 and p99 in ms, of each run."""
    runs = {}
    for path in sorted(glob.glob(os.path.join(HERE, "served*.json.gz"))):
        with gzip.open(path) as file:
            run = json.load(file)
        sequences = run["sequences"]
        times = {"first_token": [(s["tokens_s"][0] - s["at_s"]) * 1e3 for s in sequences],
                 "between_tokens": [(b - a) * 1e3 for s in sequences for a, b in zip(s["tokens_s"], s["tokens_s"][1:])]}
        for name, values in times.items():
            runs.setdefault((run["speed"], name), []).append(quantiles(values))
    return runs


def rows(sim):
    """(speed, what, measured, simulated): mean, p50 and p99 in ms, of each run and of the simulation."""
    with gzip.open(STEPS) as file:
        programs = [p["name"] for p in json.load(file)["programs"]]
    serve, served = "+".join(f"{name}:{name.split('_')[1]}" for name in programs), {}
    for (speed, name), runs in measured().items():
        if speed not in served:
            client = f"llm={STEPS},rt,serve={serve},times={os.path.join(HERE, 'arrivals.csv')},speed={speed}"
            ran = subprocess.run([sim, "compare", "--client", client, "--gpu", "h200", "--policies", "fcfs", "--duration=120s", "--json"],
                                 capture_output=True, text=True, check=True)
            served[speed] = json.loads(ran.stdout)["results"][0]["clients"][0]["served"]
        yield speed, name, runs, [served[speed][f"{name}_{q}_ms"] for q in ("mean", "p50", "p99")]


def compare(sim):
    print(f"{'speed':>5} {'runs':>4} {'':14} {'measured ms: mean (from - to)':>29} {'p50 (from - to)':>24} {'simulated':>17} {'error':>19}")
    for speed, name, runs, there in rows(sim):
        of = [[run[i] for run in runs] for i in range(2)]
        middle = [statistics.mean(values) for values in of]
        spread = [f"{m:7.2f} ({min(values):6.2f} - {max(values):6.2f})" for m, values in zip(middle, of)]
        print(f"{speed:5g} {len(runs):4} {name:14} {spread[0]:>29} {spread[1]:>24} {there[0]:8.2f} {there[1]:8.2f}"
              f" {''.join(f'{100 * (t / m - 1):+8.1f} %' for m, t in zip(middle, there))}")


if __name__ == "__main__":
    if sys.argv[1] == "steps":
        make_steps(sys.argv[2], sys.argv[3])
    else:
        compare(sys.argv[2])
