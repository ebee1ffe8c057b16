#!/usr/bin/env python3
"""Three programs beside each other under MPS, each kernel of each: on the card and simulated.

  together.py collect SIM OUT together-1.json.gz   of what together.sh recorded
  together.py compare SIM together-1.json.gz       requests a second, and what kernels take and wait for; anywhere, 30 s
The simulated training has the gaps of the host that it had here: its host is slower than where it was captured, and recording slows it.
"""
import collections
import csv
import glob
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

from kernels import in_requests, means, usual  # of this folder

LIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "live", "traces")
PROGRAMS = ("decode-graph", "train", "vision-graph")
EAGER = "train"


def recorded(path):
    names, kernels, ranges = {}, [], []
    for line in open(path):
        row = json.loads(line)
        match row[0]:
            case "n": names[row[1]] = row[2]
            case "k": kernels.append((row[2], row[3] - row[2], names[row[1]][:60], row[8] * row[9] * row[10]))
            case "r": ranges.append((row[2], row[3]))
    return sorted(kernels), ranges


def collect(sim, folder, out):
    """Times in ns from the first instant at which all make requests, to the last; a kernel's start is from the start before."""
    data, every = {"card": open(folder + "/card.txt").read().split("\n")[:2]}, {}
    for program in PROGRAMS:
        every[program] = recorded(glob.glob(f"{folder}/{program}/*.jsonl")[0])
    begin = max(r[0][0] for _, r in every.values())
    end = min(r[-1][1] for _, r in every.values())
    for program, (kernels, ranges) in every.items():
        shapes, rows, last = {}, [], begin
        for start, took, *shape in kernels:
            if begin <= start < end:
                rows += [shapes.setdefault(tuple(shape), len(shapes)), start - last, took]
                last = start
        data[program] = {"shapes": list(shapes), "kernels": rows, "requests": [(a - begin, b - begin) for a, b in ranges if begin <= a and b <= end]}
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sim, "import", "capture", f"{folder}/{EAGER}", "--range=request", "--gpu=h100-sxm", "-o", scratch + "/t.json"], check=True, capture_output=True)
        data["host_gaps_ns"] = [op.get("host_gap_ns", 0) for op in json.load(open(scratch + "/t.json"))["programs"][0]["ops"]]
    with open(out, "wb") as file:
        file.write(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0))


def measured(data):
    """Of each request, in order: each kernel's name and blocks, its start and its time."""
    kernels, at = [], 0
    for i in range(0, len(data["kernels"]), 3):
        shape, after, took = data["kernels"][i:i + 3]
        at += after
        kernels.append((*data["shapes"][shape], at, took))
    return in_requests(kernels, data["requests"])


def simulated(sim, gaps, folder):
    trace = json.load(gzip.open(f"{LIVE}/{EAGER}.json.gz"))
    ops = trace["programs"][0]["ops"]
    assert len(ops) == len(gaps)
    for op, gap in zip(ops, gaps):
        op.pop("host_gap_ns", None)
        if gap:
            op["host_gap_ns"] = gap
    json.dump(trace, open(f"{folder}/{EAGER}.json", "w"))
    files = {p: f"{folder}/{p}.json" if p == EAGER else f"{LIVE}/{p}.json.gz" for p in PROGRAMS}
    clients = [part for i, p in enumerate(PROGRAMS) for part in ("--client", f"{p}={files[p]},be,closed,process={i}")]
    subprocess.run([sim, "--policy=mps", "--duration=600ms", "--gpu=h100-sxm", *clients, "--out", folder], check=True, capture_output=True)
    requests = {p: collections.defaultdict(list) for p in PROGRAMS}
    for row in csv.DictReader(open(folder + "/kernels.csv")):
        if row["finished_ns"]:
            requests[row["client"]][row["request"]].append((int(row["op"]), float(row["started_ns"]), float(row["finished_ns"])))
    return {p: [[(k[1], k[2] - k[1]) for k in sorted(r)] for r in of.values()][1:] for p, of in requests.items()}


def compare(sim, path):
    data = json.load(gzip.open(path))
    print(*data["card"])
    with tempfile.TemporaryDirectory() as folder:
        of = simulated(sim, data["host_gaps_ns"], folder)
    for program in PROGRAMS:
        on_card, simulated_ = usual(measured(data[program])), usual(of[program])
        period = statistics.mean(b - a for a, b in data[program]["requests"]) / 1e6
        there = (simulated_[-1][-1][0] - simulated_[0][0][0]) / max(1, len(simulated_)) / 1e6
        a, b = (list(means(r)) for r in ([[k[2:] for k in r] for r in on_card], simulated_))
        print(f"{program}: a request takes {period:.2f} ms, simulated {there:.2f}; kernels run {sum(k[0] for k in a):.0f} us and {sum(k[1] for k in a):.0f} pass between them, "
              f"simulated {sum(k[0] for k in b):.0f} and {sum(k[1] for k in b):.0f}")
        groups = collections.defaultdict(list)
        for k, x, y in zip(on_card[0], a, b):
            groups[k[0][:44], k[1]].append((*x, *y))
        for (name, blocks), rows in sorted(groups.items(), key=lambda g: -abs(sum(r[2] + r[3] - r[0] - r[1] for r in g[1])))[:6]:
            c = [sum(column) for column in zip(*rows)]
            print(f"{len(rows):5} {c[0]:8.0f} {c[1]:7.0f}   simulated {c[2]:8.0f} {c[3]:7.0f}   {name} {blocks}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["collect", sim, folder, out]: collect(sim, folder, out)
        case ["compare", sim, path]: compare(sim, path)
        case _: sys.exit(__doc__)
