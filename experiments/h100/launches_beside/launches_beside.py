#!/usr/bin/env python3
"""What a launch takes longer beside loads that are no program's: measured, and simulated with what is known of each kernel alone.

  launches_beside.py show FILE...              what gaps and kernels grow by, ns
  launches_beside.py constants FILE...         those of a GPU's description, ns
  launches_beside.py compare SIM FILE [GPU]    gaps beside another client of MPS, measured and simulated, ns
"""
import collections
import csv
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

CHAINS = ("stream of 1", "graph of 1", "graph of 8", "graph of 64")
SMS, LINE, GAP_US = 132, 16, 0.75  # GAP_US: between kernels of a graph alone
CHAIN = 96


def load(path):
    rows = [json.loads(line) for line in (gzip.open if path.endswith(".gz") else open)(path, "rt")]
    chains = {(r["where"], r["load"], r["chain"]): r for r in rows if "chain" in r}
    times = collections.defaultdict(list)
    for r in rows:
        if "us_a_kernel" in r:
            times[r["load"]].append(r["us_a_kernel"])
    return rows[0], chains, times


def growth(chains, where, load, chain, of="gap_ns", what="mean"):
    return chains[where, load, chain][of][what] - chains[where, "none", chain][of][what]


def show(path):
    card, chains, times = load(path)
    print(card["gpu"], card["date"])
    for where in ("streams", "clients"):
        print(f"{where}; gaps in the mean (median), kernels in the mean, ns more than alone; last: a load from memory")
        for name in dict.fromkeys(k[1] for k in chains if k[0] == where and k[1] != "none"):
            cells = [f"{growth(chains, where, name, c):8.0f} ({growth(chains, where, name, c, 'gap_ns', 'p50'):6.0f}) {growth(chains, where, name, c, 'time_ns'):6.0f}" for c in CHAINS]
            print(f"{name:16}" + " |".join(cells) + f" | {growth(chains, where, name, 'load from DRAM', 'time_ns'):6.0f}")


def kernel(name, us):
    """The load's kernel as its source says, and its time alone."""
    what, _, how = name.partition("-")
    if what in ("fill", "scale", "add", "sum4"):
        reads, blocks = {"fill": 0, "scale": 1, "add": 2, "sum4": 4}[what], {"": SMS * 15, "waves": 6272, "few": SMS * 4}[how]
        shape, threads, bytes_read, bytes_written, instructions = blocks, 128, reads, 1, 20 + 4 * reads
        items = blocks * threads
    elif what in ("read", "copy"):
        shape, threads, items = SMS * int(how), 256, 64 << 20
        bytes_read, bytes_written, instructions = 1, int(what == "copy"), 3
        if what == "read":
            bytes_written = 0
    else:
        shape = 1 if what.startswith("block") else SMS * 7
        return {"name": name, "grid": [shape, 1, 1], "block": [128 if shape == 1 else 256, 1, 1], "registers_per_thread": 32, "solo_time_ns": us * 1e3}
    moved = LINE * items
    warps = items * instructions / 32
    return {"name": name, "grid": [shape, 1, 1], "block": [threads, 1, 1], "registers_per_thread": 32, "solo_time_ns": us * 1e3,
            "counters": {"dram_read_bytes": moved * bytes_read, "dram_write_bytes": moved * bytes_written, "l2_bytes": 1.5 * moved * (bytes_read + bytes_written),
                         "l1_bytes": moved * (bytes_read + bytes_written), "warp_instructions": warps, "tensor_instructions": 0.0,
                         "issue_active_pct": min(99.0, warps / (us * 1e3 * 1.755 * 4 * SMS) * 100), "warps_active_pct": min(100.0, shape * threads / SMS / 2048 * 100) * (1 if shape <= SMS * 16 else 0.75),
                         "duration_ns": us * 1e3}}


def simulated(sim, gpu, name, us, chain, folder):
    way, _, blocks = chain.partition(" of ")
    small = {"name": "small", "grid": [int(blocks), 1, 1], "block": [128, 1, 1], "registers_per_thread": 16, "solo_time_ns": 300}
    kernels, clients = [small], [{"name": "chain", "program": "chain", "process": "0", "arrivals": {"type": "closed_loop", "think_time_ns": 50000}}]
    ops = [{"launch": "small"} for _ in range(CHAIN)]
    if way == "stream":
        first = {"name": "first", "grid": [1, 1, 1], "block": [32, 1, 1], "registers_per_thread": 16, "solo_time_ns": 500000}
        kernels.append(first)
        ops.insert(0, {"launch": "first"})
    programs = [{"name": "chain", **({"issue": "graph"} if way == "graph" else {}), "ops": ops}]
    if name != "none":
        kernels.append(kernel(name, us))
        programs.append({"name": "load", "issue": "graph", "ops": [{"launch": name} for _ in range(60 if us < 100 else 4)]})
        clients.append({"name": "load", "program": "load", "process": "1", "arrivals": {"type": "closed_loop", "in_flight": 2}})
    trace = {"corun_trace": 1, "name": "beside", "gpu": gpu, "run": {"duration_ns": 40_000_000}, "kernels": kernels, "programs": programs, "clients": clients}
    path = f"{folder}/trace.json"
    json.dump(trace, open(path, "w"))
    done = subprocess.run([sim, "--policy=mps", "--out", folder, path], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    requests = collections.defaultdict(list)
    for row in csv.DictReader(open(f"{folder}/kernels.csv")):
        if row["client"] == "chain" and row["finished_ns"]:
            requests[row["request"]].append((int(row["op"]), float(row["started_ns"]), float(row["finished_ns"])))
    gaps, times = [], []
    for r in list(requests.values())[1:]:
        r.sort()
        r = r[1 if way == "stream" else 0:]
        gaps += [b[1] - a[2] for a, b in zip(r, r[1:])]
        times += [k[2] - k[1] for k in r]
    return statistics.mean(gaps), statistics.median(gaps), statistics.mean(times)


def compare(sim, path, gpu="h100-sxm"):
    _, chains, times = load(path)
    with tempfile.TemporaryDirectory() as folder:
        alone = {c: simulated(sim, gpu, "none", 0, c, folder) for c in CHAINS}
        print("what gaps grow by beside another client of MPS, ns, mean (median), and kernels: measured | simulated")
        for name in dict.fromkeys(k[1] for k in chains if k[0] == "clients" and k[1] != "none"):
            if name in ("block-each-25us", "fma"):
                continue
            us = times[name][-1] - GAP_US
            cells = []
            for c in CHAINS:
                s = [a - b for a, b in zip(simulated(sim, gpu, name, us, c, folder), alone[c])]
                cells.append(f"{growth(chains, 'clients', name, c):6.0f} ({growth(chains, 'clients', name, c, 'gap_ns', 'p50'):5.0f}) {growth(chains, 'clients', name, c, 'time_ns'):5.0f} | {s[0]:6.0f} ({s[1]:5.0f}) {s[2]:5.0f}")
            print(f"{name:14}" + " || ".join(cells), flush=True)


BESIDE_OTHERS_NS, IDLE_NS = 300, 350  # launch_beside_others_ns and dram_latency_ns of h100-sxm
MOVE_SOME = ("fill-few", "scale-few", "add-few", "sum4-few", "read-1")
FULL = ("copy-2", "read-4", "copy-4", "read-7", "copy-7")  # loops that keep DRAM full
FULL_OR_NEARLY = (*FULL, "fill-waves", "scale-waves", "add-waves", "sum4-waves")


def constants(*paths):
    """Their means over the cards; in brackets the least and the most of each card."""
    rows = [dict(of_card(p)) for p in paths]
    for name in rows[0]:
        each = "; ".join(f"{middle:.1f}, {min(all_):.1f} to {max(all_):.1f}" for middle, all_ in (r[name] for r in rows))
        print(f"{name:30}{statistics.mean(r[name][0] for r in rows):8.1f}   ({each})")


def of_card(path):
    _, chains, _ = load(path)
    gap = lambda name, chain: growth(chains, "clients", name, chain)  # noqa: E731
    wait = lambda name: chains["clients", name, "load from DRAM"]["time_ns"]["mean"] - IDLE_NS  # noqa: E731
    graphs = CHAINS[1:]
    memory = [gap(n, "stream of 1") - BESIDE_OTHERS_NS for n in MOVE_SOME]
    step = statistics.median(memory)
    after = [gap("blocks-short", c) for c in graphs]
    in_streams = [(gap(n, "stream of 1") - BESIDE_OTHERS_NS - step) / wait(n) for n in FULL]
    in_graphs = [(gap(n, c) - statistics.mean(after)) / wait(n) for n in FULL for c in graphs]
    waits = [wait(n) for n in FULL_OR_NEARLY]
    yield "launch_beside_memory_ns", (step, memory)
    yield "launch_memory_accesses", (statistics.median(in_streams), in_streams)
    yield "launch_access_most_wait_ns", (statistics.median(waits), waits)
    yield "graph_launch_after_others_ns", (statistics.mean(after), after)
    yield "graph_launch_memory_accesses", (statistics.median(in_graphs), in_graphs)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["show", *paths] if paths:
            for p in paths: show(p)
        case ["constants", *paths] if paths: constants(*paths)
        case ["compare", sim, path, *gpu]: compare(sim, path, *gpu)
        case _: sys.exit(__doc__)
