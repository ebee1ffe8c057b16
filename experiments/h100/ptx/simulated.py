#!/usr/bin/env python3
"""What shares.py measured beside the simulation of the same programs: what each gets done of what it gets done alone.

  simulated.py SIM SHARES.json[.gz] FOLDER SECONDS [--turns=TURNS.txt] [--as-served=US] NCU.csv[.gz]...
SIM: the `sim` command; SHARES: of shares.py; FOLDER: for the traces; SECONDS: simulated of each set; NCU: of each kind's kernel, `ncu-KIND.csv`.
With --as-served best-effort kernels but for short's bring their PTX, and what a service has is simulated; without it each launch can be stopped and sized.
With --turns kernels under smguard take as workers with seats the time that turns.cpp measured of one launch, else what the counters say.
"""
import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys

WARM_UP_S = 0.05  # of a service: the first launches of a kernel are plain
KINDS = ("short", "fma", "triad", "tiles")  # as shares.py has them
GRID = {"short": [132, 1, 1], "fma": [101376, 1, 1], "triad": [131072, 1, 1], "tiles": [512, 512, 1]}
BLOCK = {"tiles": [32, 8, 1]}
COUNTERS = {"dram__bytes_read.sum": "dram_read_bytes", "dram__bytes_write.sum": "dram_write_bytes", "lts__t_bytes.sum": "l2_bytes", "l1tex__t_bytes.sum": "l1_bytes",
            "smsp__inst_executed.sum": "warp_instructions", "sm__inst_executed_pipe_tensor.sum": "tensor_instructions",
            "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue_active_pct", "sm__warps_active.avg.pct_of_peak_sustained_active": "warps_active_pct",
            "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active": "fp64_active_pct", "gpu__time_duration.sum": "duration_ns"}
PIPES = {"sm__inst_executed_pipe_%s.avg.pct_of_peak_sustained_active" % p: p for p in ("alu", "fma", "fmaheavy", "xu")} | {
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": "l1_data"}


def text_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        return file.read()


def kernel(kind, path, turns):
    said = text_of(path)
    values = {r["Metric Name"]: float(r["Metric Value"].replace(",", "")) for r in csv.DictReader(io.StringIO(said[said.index('"ID"'):]))}
    counters = {name: values[metric] for metric, name in COUNTERS.items()} | {"pipes_pct": {name: values[metric] for metric, name in PIPES.items()}}
    k = {"name": kind, "grid": GRID[kind], "block": BLOCK.get(kind, [256, 1, 1]), "registers_per_thread": int(values["launch__registers_per_thread"]),
         "static_shared_memory_bytes": int(values["launch__shared_mem_per_block_static"]), "solo_time_ns": values["gpu__time_duration.sum"], "counters": counters}
    if kind != "short":
        k["ptx"] = True
    if kind in turns:
        k["persistent_time_by_ctas_ns"] = turns[kind]
    return k


def of_turns(path):
    """Of a kernel as persistent workers with seats, by workers on an SM; by the launch's own margin over the kernel, which its plain launches have too."""
    found = {}
    for line in text_of(path).splitlines():
        if m := re.match(r"(\w+) new; 1056: .* seats ([\d.]+), near .*; 264: .* seats ([\d.]+), near", line):
            found[m[1]] = {"8": float(m[2]) * 1e3, "2": float(m[3]) * 1e3}
    return found


def client(kind, runs, shares, seconds):
    real_time = kind == "short"
    c = {"name": kind, "program": kind, "process": kind, "class": "real_time" if real_time else "best_effort", "priority": -5 if real_time else 0}
    if not runs:  # it has joined, and its reservation holds
        c["arrivals"] = {"type": "once", "at_ns": 2e9 * seconds}
    elif real_time:  # as shares.cu has them
        times = [(1000 * i + i * 7919 % 97) * 1000 for i in range(round(seconds * 1e3))]
        c["arrivals"] = {"type": "explicit", "times_ns": times, "stale": "queue"}
    else:
        c["arrivals"] = {"type": "closed_loop"}
    return c | shares.get(kind, {})


def shares_of(mode):
    of = {}
    for part in mode.split(" + ")[1:]:
        kind, _, options = part.partition(":")
        of[kind] = {name: float(value) for name, value in re.findall(r"--(\w+)=([\d.]+)", options)}
    return of


def main(sim, measured, folder, seconds, *rest):
    seconds = float(seconds)
    given = dict(p.split("=", 1) for p in rest if p.startswith("--"))
    turns = of_turns(given["--turns"]) if "--turns" in given else {}
    served = ["--as-served=" + given["--as-served"]] if "--as-served" in given else []
    sheets = {os.path.basename(p).split(".")[0].removeprefix("ncu-"): p for p in rest if not p.startswith("--")}
    os.makedirs(folder, exist_ok=True)
    runs = json.loads(text_of(measured))["runs"]
    alone = {k: s[k]["per_s"] for s in runs[0]["sets"] if len(s) == 1 for k in s}
    for run in runs[1:]:
        mode = run["mode"]
        policy = "fcfs" if mode == "mps" else re.search(r"--policy=(\S+)", mode)[1]
        plain = policy == "fcfs"
        errors = {}
        warm_up = WARM_UP_S if served and not plain else 0
        print(f"{mode.partition('=')[0]}: STP measured, simulated; of each program, measured and simulated")
        for row in run["sets"]:
            kinds = list(row)
            if len(kinds) == 1 and plain:
                continue
            trace = {"corun_trace": 1, "name": "+".join(kinds), "gpu": "h100-sxm", "kernels": [kernel(k, sheets[k], {} if plain else turns) for k in KINDS],
                     "programs": [{"name": k, "ops": [{"launch": k}] * (3 if k == "short" else 4) + [{"sync": True}]} for k in KINDS],
                     "clients": [client(k, k in kinds, shares_of(mode), seconds + warm_up) for k in KINDS], "run": {"duration_ns": (seconds + warm_up) * 1e9, "warm_up_ns": warm_up * 1e9}}
            path = os.path.join(folder, f"{mode.partition('=')[0]}-{'-'.join(kinds)}.json")
            with open(path, "w") as file:
                json.dump(trace, file)
            options = [] if plain or not served else [*served, "--persistent"]
            said = subprocess.run([sim, "--policy=" + policy, "--json", *options, path], capture_output=True, text=True, check=True)
            of = {c["name"]: c for c in json.loads(said.stdout)["clients"]}
            got = {k: row[k]["per_s"] / alone[k] for k in kinds}
            foretold = {k: of[k]["progress"] for k in kinds}
            stp, stp_simulated = sum(got.values()), sum(foretold.values())
            errors.setdefault(len(kinds), []).append(abs(stp_simulated / stp - 1))
            print(f"  {'+'.join(kinds):24} {stp:.3f} {stp_simulated:.3f} ({100 * (stp_simulated / stp - 1):+.1f} %)  " +
                  ", ".join(f"{k} {got[k]:.3f} {foretold[k]:.3f}" for k in kinds) +
                  "".join(f"; requests p50 {row[k]['p50_us']:.0f} {1e3 * of[k]['p50_ms']:.0f}, p99 {row[k]['p99_us']:.0f} {1e3 * of[k]['p99_ms']:.0f} us" for k in kinds if k == "short"),
                  flush=True)
        for n, each in errors.items():
            print(f"  of {n}: mean error of STP {100 * sum(each) / len(each):.1f} %, largest {100 * max(each):.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
