#!/usr/bin/env python3
"""Replays what was captured in the first turn (traces/) beside what the programs said of themselves (capture*.json).
The error is that against the run of the same turn without tracing: the host's speed changes from minute to minute.

Then what `sim capture --twice` made of its two runs (twice-*.json): the replay beside its own run without tracing; that of
twice-2.json was made on the machine of the GPU.

  judge.py SIM
"""
import glob
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def replay(sim, trace, policy):
    """p50 in ms of each client."""
    ran = subprocess.run([sim, "--policy=" + policy, "--duration=300ms", "--json", trace], capture_output=True, text=True, check=True)
    return sorted(client["p50_ms"] for client in json.loads(ran.stdout)["clients"])


def captured(of=""):
    with open(os.path.join(HERE, f"capture{of}.json")) as file:
        return json.load(file)


def rows(sim, of=""):
    """(program, ms of each run without tracing, captured, replayed) by client."""
    for name, row in captured(of)["programs"].items():
        trace = os.path.join(HERE, "traces", f"{name}{of}.json.gz")
        for i, ms in enumerate(replay(sim, trace, "mps" if name == "two" else "fcfs")):
            yield name, [run[i] for run in row["plain_ms"]], [run[i] for run in row["captured_ms"]], ms


def twice(sim):
    """(program, ms of the run without tracing, traced, replayed) of each `capture --twice`; without its trace, as replayed there."""
    for path in sorted(glob.glob(os.path.join(HERE, "twice-*.json"))):
        with open(path) as file:
            programs = json.load(file)["programs"]
        for name, row in programs.items():
            trace = os.path.join(HERE, "traces", f"{name}.{os.path.basename(path)}.gz")
            for (plain, traced), (replayed,) in zip(map(sorted, row["captured_ms"]), row["replayed_ms"]):
                yield name, plain, traced, replay(sim, trace, "fcfs")[0] if os.path.exists(trace) else replayed


def by_sms(sim):
    """(percentage of the GPU under MPS, ms measured, simulated with the kernels' times there, and without them)."""
    with open(os.path.join(HERE, "by-sms.json")) as file:
        data = json.load(file)
    known = os.path.join(HERE, "traces", data["program"] + ".by-sms.json.gz")
    with gzip.open(known) as file:
        trace = json.load(file)
    for kernel in trace["kernels"]:
        kernel.pop("solo_time_by_sms_ns", None)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as without:
        json.dump(trace, without)
        without.flush()
        for percent, measured in data["mps_ms"].items():
            if percent != "100":
                policy = f"mps:percentages={percent}"
                yield int(percent), statistics.mean(measured), *(replay(sim, path, policy)[0] for path in (known, without.name))


def main(sim):
    for path in sorted(glob.glob(os.path.join(HERE, "capture*.json"))):
        of = os.path.basename(path)[len("capture"):-len(".json")]
        print(captured(of)["gpu"], captured(of)["date"])
        print(f"{'program':14} {'without tracing, ms: runs':>32} {'captured':>10} {'x':>5} {'replayed':>10} {'error':>8}")
        for name, plain, traced, ms in rows(sim, of):
            slower = statistics.median(c / p for c, p in zip(traced, plain))
            print(f"{name:14} {' '.join(f'{p:9.4f}' for p in plain):>32} {statistics.median(traced):10.4f} {slower:5.2f} {ms:10.4f} "
                  f"{100 * (ms / plain[0] - 1):+7.1f} %")
    print(f"{'--twice':14} {'without tracing':>32} {'traced':>10} {'x':>5} {'replayed':>10} {'error':>8}")
    for name, plain, traced, ms in twice(sim):
        print(f"{name:14} {plain:32.4f} {traced:10.4f} {traced / plain:5.2f} {ms:10.4f} {100 * (ms / plain - 1):+7.1f} %")
    print(f"{'--by-sms':14} {'measured':>32} {'with times by SMs':>20} {'without':>20}")
    for percent, measured, known, without in by_sms(sim):
        errors = [f"{ms:9.4f} ({100 * (ms / measured - 1):+5.1f} %)" for ms in (known, without)]
        print(f"{f'MPS, {percent} %':14} {measured:32.4f} {errors[0]:>20} {errors[1]:>20}")


if __name__ == "__main__":
    main(sys.argv[1])
