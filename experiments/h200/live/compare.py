#!/usr/bin/env python3
"""Live runs beside the simulation of the same programs, captured alone, under the same policies.  What the best-effort programs get
done is a share of what they do alone, of which a host's speed takes out.

  compare.py SIM MEASURED.json.gz...   SIM: the `sim` command
"""
import gzip
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = {"decode-graph": "traces/decode-graph.json.gz", "train": "traces/train.json.gz", "prefill": "traces/prefill.json.gz",
          "vision-graph": "../capture/traces/torch-graph.json.gz"}
SIMULATED = {"mps": "fcfs", "turns": "timeslice"}
AHEAD_US = "20"  # where a mode does not say


def main(sim, *paths):
    for path in paths:
        with gzip.open(path) as file:
            measured = json.load(file)
        programs, runs = list(measured["alone"]), {}
        for run in measured["runs"]:
            if "failed" not in run:
                runs.setdefault(run["mode"], []).append(run)
        real_time, *others = programs
        rate = 1e3 * measured["load"] / measured["alone"][real_time]["mean_ms"]
        print(f"{os.path.basename(path)}: {real_time} at {rate:.0f} requests a second, beside {', '.join(others)}; medians of {len(next(iter(runs.values())))}")
        if not all(p in TRACES for p in programs):
            clients = None
        else:
            clients = ["--client", f"{real_time}={os.path.join(HERE, TRACES[real_time])},rt,rate={rate:.3f},queue,priority=-5,process=0"]
            for i, p in enumerate(others):
                clients += ["--client", f"{p}={os.path.join(HERE, TRACES[p])},be,closed,process={i + 1}"]
        print(f"{'mode':32}{'p99 ms':>8}{'simulated':>10}{'':8}" + "".join(f"{p + ' /s':>12}{'of alone':>10}{'simulated':>10}" for p in others))
        for mode, of_mode in runs.items():
            p99 = statistics.median(r[real_time]["p99_ms"] for r in of_mode)
            saturated = statistics.median(r[real_time]["per_s"] for r in of_mode) < 0.97 * rate
            simulated, (policy, _, options) = {}, mode.partition("@")
            if clients:
                served = [] if mode in SIMULATED else ["--as-served=" + (options.partition("/")[0] or AHEAD_US)]
                said = subprocess.run([sim, "--policy=" + SIMULATED.get(mode, policy), "--duration=2s", "--json", *served, *clients],
                                      capture_output=True, text=True, check=True)
                simulated = {c["name"]: c for c in json.loads(said.stdout)["clients"]}
            line = f"{mode:32}" + (f"{'behind':>8}" if saturated else f"{p99:8.3f}")
            if clients:
                there = simulated[real_time]
                behind = there["throughput_per_s"] < 0.97 * rate
                line += f"{'behind':>10}{'':8}" if behind else f"{there['p99_ms']:10.3f}" + (f"{'':8}" if saturated else f" {100 * (there['p99_ms'] / p99 - 1):+6.1f}%")
            else:
                line += " " * 18
            for p in others:
                per_s = statistics.median(r[p]["per_s"] for r in of_mode)
                line += f"{per_s:12.1f}{per_s / measured['alone'][p]['per_s']:10.2f}" + (f"{simulated[p]['progress']:10.2f}" if clients else " " * 10)
            print(line)
        alone = measured["alone"]
        same = {p: sum(r[p]["sha256"] == alone[p]["sha256"] for rs in runs.values() for r in rs if p in r) for p in programs}
        print("alone: " + ", ".join(f"{p} p99 {alone[p]['p99_ms']:.3f} ms, {alone[p]['per_s']:.1f} /s" for p in programs))
        print("outputs as alone, bit by bit: " + ", ".join(f"{p} in {n} of {sum(map(len, runs.values()))} runs" for p, n in same.items()), end="\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
