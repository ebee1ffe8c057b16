#!/usr/bin/env python3
"""Replays what was captured in the first turn (traces/) beside what the programs said of themselves (capture.json).
The error is that against the run of the same turn without tracing: the host's speed changes from minute to minute.

  judge.py SIM
"""
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def rows(sim):
    """(program, ms of each run without tracing, captured, replayed) by client."""
    with open(os.path.join(HERE, "capture.json")) as file:
        data = json.load(file)
    for name, row in data["programs"].items():
        trace = os.path.join(HERE, "traces", name + ".json.gz")
        policy = "mps" if name == "two" else "fcfs"
        ran = subprocess.run([sim, "--policy=" + policy, "--duration=300ms", "--json", trace], capture_output=True, text=True, check=True)
        replayed = sorted(client["p50_ms"] for client in json.loads(ran.stdout)["clients"])
        for i, ms in enumerate(replayed):
            yield name, [run[i] for run in row["plain_ms"]], [run[i] for run in row["captured_ms"]], ms


def main(sim):
    print(f"{'program':14} {'without tracing, ms: runs':>32} {'captured':>10} {'x':>5} {'replayed':>10} {'error':>8}")
    for name, plain, captured, ms in rows(sim):
        slower = statistics.median(c / p for c, p in zip(captured, plain))
        print(f"{name:14} {' '.join(f'{p:9.4f}' for p in plain):>32} {statistics.median(captured):10.4f} {slower:5.2f} {ms:10.4f} "
              f"{100 * (ms / plain[0] - 1):+7.1f} %")


if __name__ == "__main__":
    main(sys.argv[1])
