#!/usr/bin/env python3
"""Simulates the server from its captured steps, and compares with what was measured.

  study.py steps SIM RECORDING [FOLDER]   FOLDER/steps.json.gz from what `sim capture --keep RECORDING` kept: a program a step; with what
                                          each takes without tracing, where FOLDER/times.json says so, and when the host stood still,
                                          as FOLDER/each.json.gz has it, else as the recording does
  study.py compare SIM [FOLDER]           the runs of FOLDER/served*.json.gz beside the simulation of the same arrivals: without stalls of
                                          the host, and with them, of ten seeds
  study.py sizes [FOLDER]                 each captured size left out: how near do its neighbours come?

FOLDER: this one, unless another is given.
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


def packed_steps(folder):
    return os.path.join(folder, "steps.json.gz")


def read(path):
    with gzip.open(path) as file:
        return json.load(file)


# As `sim import capture` has them (traces/import/host_stalls.cpp): a stall's share of the usual time, its least, and what is written as one.
SLOW, LEAST_US, GRAIN_US = 1.5, 200, 500


def stalls_of(each):
    """When the host stood still, from steps whose calls took it so much longer than the median of their size; nanoseconds, and of how many steps."""
    times = {}
    for phase in each["phases"]:
        for name, _, issued, _ in phase:
            times.setdefault(name, []).append(issued)
    usual = {name: statistics.median_low(of) for name, of in times.items()}
    stalls, now, steps = [], 0, 0
    for phase in each["phases"]:
        for name, gap, issued, took in phase:
            now += gap
            lost = issued - usual[name]
            if lost >= LEAST_US and issued >= SLOW * usual[name]:  # spread over its calls, as they were
                steps, parts = steps + 1, max(1, lost // GRAIN_US)
                of_us = [(now + issued * (i + 1) // parts, lost * (i + 1) // parts - lost * i // parts) for i in range(parts)]
                stalls += [[1000 * (end - lasting), 1000 * lasting] for end, lasting in of_us]
            now += took
    return {"observed_ns": 1000 * now, "stalls": stalls}, steps


def ranges_of(recording):
    names = set()
    for path in glob.glob(os.path.join(recording, "*.jsonl")):
        with open(path) as file:
            names |= {json.loads(line)[1] for line in file if line.startswith('["r"')}
    return sorted(names, key=lambda name: [int(n) for n in re.findall("[0-9]+", name)])


def make_steps(sim, recording, folder):
    kernels, of_name, programs, gpu, times = {}, {}, [], None, {}
    to, known = packed_steps(folder), os.path.join(folder, "times.json")
    if os.path.exists(known):
        with open(known) as file:
            times = json.load(file)
    stalls = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in ranges_of(recording):
            path = os.path.join(scratch, "step.json")
            without = ["--request-time", f"{times[name]:.5f}ms"] if name in times else []
            subprocess.run([sim, "import", "capture", recording, "--range", name, "--name", name, *without, "-o", path], check=True,
                           stderr=subprocess.DEVNULL)
            with open(path) as file:
                trace = json.load(file)
            gpu, stalls = trace["gpu"], trace["clients"][0].get("host_stalls")
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
    host = {"name": "main", "program": programs[0]["name"]}
    if os.path.exists(os.path.join(folder, "each.json.gz")):
        stalls, _ = stalls_of(read(os.path.join(folder, "each.json.gz")))
    if stalls:
        host["host_stalls"] = stalls
    trace = {"corun_trace": 1, "name": "llm_server_steps", "about": f"Captured from serve.py steps: {len(programs)} steps of a server of a language model.", "gpu": gpu, "kernels": list(kernels.values()),
             "programs": programs, "clients": [host]}
    with open(to, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(json.dumps(trace).encode())


def totals(folder):
    """Microseconds of all launches of each step: of prompts by (0, tokens), of decodes by (batch, context)."""
    trace = read(packed_steps(folder))
    usual = {kernel["name"]: kernel["solo_time_ns"] for kernel in trace["kernels"]}
    all_ = {}
    for program in trace["programs"]:
        size = [int(n) for n in re.findall("[0-9]+", program["name"])]
        all_[size[0] if len(size) > 1 else 0, size[-1]] = sum(op.get("solo_time_ns", usual[op["launch"]]) for op in program["ops"] if "launch" in op) / 1e3
    return all_


def errors_of_sizes(folder=HERE):
    """Of prompts, contexts and batches: the errors of a size that is left out, if it takes the next larger one, the nearer one (of two the mean
    of their errors), or what lies between."""
    of = totals(folder)
    batches, contexts = sorted({b for b, _ in of if b}), sorted({c for b, c in of if b})
    rows = {"prompts": [[(size, of[0, size]) for size in sorted(c for b, c in of if b == 0)]],
            "contexts": [[(c, of[b, c]) for c in contexts] for b in batches],
            "batches": [[(b, of[b, c]) for b in batches] for c in contexts]}
    found = {}
    for name, lists in rows.items():
        found[name] = {"next larger": [], "nearer": [], "between": []}
        for row in lists:
            for (small, below), (size, true), (large, above) in zip(row, row[1:], row[2:]):
                way = (size - small) / (large - small)
                nearer = [below] if way < 0.5 else [above] if way > 0.5 else [below, above]
                found[name]["next larger"].append([above / true - 1])
                found[name]["nearer"].append([one / true - 1 for one in nearer])
                found[name]["between"].append([(below + way * (above - below)) / true - 1])
    return found


def sizes(folder):
    print(f"{'left out: error':16} {'number':>6}" + "".join(f"{way + ': mean, size, worst':>34}" for way in ("next larger", "nearer", "between")))
    for name, ways in errors_of_sizes(folder).items():
        print(f"{name:16} {len(ways['between']):6}" + "".join(f"{100 * statistics.mean(map(statistics.mean, of)):+18.1f} {100 * statistics.mean(abs(e) for es in of for e in es):6.1f} "
              f"{100 * max(abs(e) for es in of for e in es):6.1f} %" for of in ways.values()))


def quantiles(values):
    values = sorted(values)
    return [statistics.mean(values), values[(len(values) - 1) // 2], values[int(0.99 * (len(values) - 1))]]


def measured(folder):
    """Of each speed and each of first_token and between_tokens: mean, p50 and p99 in ms, of each run."""
    runs = {}
    for path in sorted(glob.glob(os.path.join(folder, "served*.json.gz"))):
        run = read(path)
        sequences = run["sequences"]
        times = {"first_token": [(s["tokens_s"][0] - s["at_s"]) * 1e3 for s in sequences],
                 "between_tokens": [(b - a) * 1e3 for s in sequences for a, b in zip(s["tokens_s"], s["tokens_s"][1:])]}
        for name, values in times.items():
            runs.setdefault((run["speed"], name), []).append(quantiles(values))
    return runs


def simulated(sim, folder, speed, seed=1, steady=False):
    """Of first_token and between_tokens: mean, p50 and p99 in ms."""
    steps = read(packed_steps(folder))
    client = f"llm={packed_steps(folder)},rt,padded,serve=auto,times={os.path.join(HERE, 'arrivals.csv')},speed={speed}" + (",steady" if steady else "")
    ran = subprocess.run([sim, "compare", "--client", client, "--gpu", steps["gpu"], "--policies", "fcfs", "--duration=120s", "--seed", str(seed), "--json"],
                         capture_output=True, text=True, check=True)
    served = json.loads(ran.stdout)["results"][0]["clients"][0]["served"]
    return {name: [served[f"{name}_{q}_ms"] for q in ("mean", "p50", "p99")] for name in ("first_token", "between_tokens")}


def rows(sim, folder=HERE, seeds=1, steady=False, speeds=None):
    """(speed, what, measured, simulated): mean, p50 and p99 in ms, of each run and of each seed, which says when the host stands still."""
    served = {}
    for (speed, name), runs in measured(folder).items():
        if speeds and speed not in speeds:
            continue
        if speed not in served:
            served[speed] = [simulated(sim, folder, speed, seed, steady) for seed in range(1, seeds + 1)]
        yield speed, name, runs, [of[name] for of in served[speed]]


def compare(sim, folder):
    stalls = any("host_stalls" in client for client in read(packed_steps(folder))["clients"])
    ways = [("without stalls", 1, True), ("with stalls", 10, False)] if stalls else [("", 1, False)]
    for way, seeds, steady in ways:
        print(f"speed runs {way:14} {'measured ms: mean (from - to)':>34} {'p50 (from - to)':>24} {'simulated: mean (from - to)':>31} {'p50':>7} {'error':>19}")
        for speed, name, runs, there in rows(sim, folder, seeds, steady):
            of = [[run[i] for run in runs] for i in range(2)]
            middle, simulated_ = [statistics.mean(values) for values in of], [statistics.mean(run[i] for run in there) for i in range(2)]
            spread = [f"{m:7.2f} ({min(values):6.2f} - {max(values):6.2f})" for m, values in zip([*middle, simulated_[0]], [*of, [run[0] for run in there]])]
            print(f"{speed:5g} {len(runs):4} {name:14} {spread[0]:>34} {spread[1]:>24} {spread[2]:>31} {simulated_[1]:7.2f}"
                  f" {''.join(f'{100 * (t / m - 1):+8.1f} %' for m, t in zip(middle, simulated_))}")


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    folder = given.pop() if len(given) > {"steps": 2, "compare": 1, "sizes": 0}[what] else HERE
    {"steps": make_steps, "compare": compare, "sizes": sizes}[what](*given, folder)
