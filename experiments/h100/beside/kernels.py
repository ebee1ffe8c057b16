#!/usr/bin/env python3
"""What each kernel of a graph takes, and waits for, beside training under MPS: on the card and simulated.

  kernels.py collect KEEP OUT.json.gz    of the recordings that measure.sh keeps: each kernel's start and end in each request, ns
  kernels.py compare SIM OUT.json.gz     the table of README.md; anywhere
The simulated training's host has gaps 1.6 times as long as captured, with which a request takes as long beside the graphs as it did here.
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

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("decode-graph", "vision-graph")
SLOWER_HOST = 1.6


def load(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


def recorded(folder):
    """Kernels of each request, in order: name, blocks, start and end."""
    names, kernels, ranges = {}, [], []
    for line in open(glob.glob(folder + "/*.jsonl")[0]):
        row = json.loads(line)
        match row[0]:
            case "n": names[row[1]] = row[2]
            case "k": kernels.append((names[row[1]], row[8] * row[9] * row[10], row[2], row[3]))
            case "r": ranges.append((row[2], row[3]))
    kernels.sort(key=lambda k: k[2])
    return usual(in_requests(kernels, ranges))


def in_requests(kernels, ranges):
    """Kernels by the ranges in which they start."""
    requests, at = [], 0
    for begin, end in ranges:
        while at < len(kernels) and kernels[at][2] < begin:
            at += 1
        first = at
        while at < len(kernels) and kernels[at][2] < end:
            at += 1
        requests.append(kernels[first:at])
    return requests


def usual(requests):
    length = collections.Counter(map(len, requests)).most_common(1)[0][0]
    return [r for r in requests if len(r) == length]


def collect(keep, out):
    data = {}
    for program in PROGRAMS:
        alone, beside = (recorded(f"{keep}/{program}-{how}") for how in ("alone", "beside-train"))
        data[program] = {"kernels": [k[:2] for k in alone[0]],
                         **{how: [[(k[2] - r[0][2], k[3] - k[2]) for k in r] for r in requests] for how, requests in (("alone", alone), ("beside", beside))}}
    with open(out, "wb") as file:
        file.write(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0))


def simulated(sim, program, folder, train=None):
    """Of each kernel, in the mean of the requests: what it takes, and the time from the end of the one before, us."""
    clients = ["--client", f"{program}={HERE}/../live/traces/{program}.json.gz,be,closed,process=0", *(["--client", f"train={train},be,closed,process=1"] if train else [])]
    subprocess.run([sim, "--policy=mps", "--duration=500ms", "--gpu=h100-sxm", *clients, "--out", folder], check=True, capture_output=True)
    requests = collections.defaultdict(list)
    for row in csv.DictReader(open(folder + "/kernels.csv")):
        if row["client"] == program and row["finished_ns"]:
            requests[row["request"]].append((int(row["op"]), float(row["started_ns"]), float(row["finished_ns"])))
    usual = collections.Counter(map(len, requests.values())).most_common(1)[0][0]
    whole = [sorted(r) for r in requests.values() if len(r) == usual][2:]  # after the start
    return means([[(k[1] - r[0][1], k[2] - k[1]) for k in r] for r in whole])


def means(requests):
    for i in range(len(requests[0])):
        yield (statistics.mean(r[i][1] for r in requests) / 1e3,
               statistics.mean(r[i][0] - sum(r[i - 1]) for r in requests) / 1e3 if i else 0)


def compare(sim, path):
    with tempfile.TemporaryDirectory() as folder:
        trace = load(f"{HERE}/../live/traces/train.json.gz")
        for op in trace["programs"][0]["ops"]:
            if "host_gap_ns" in op:
                op["host_gap_ns"] = round(SLOWER_HOST * op["host_gap_ns"], 2)
        train = folder + "/train.json"
        json.dump(trace, open(train, "w"))
        for program, data in load(path).items():
            groups = collections.defaultdict(list)
            for (name, blocks), a, b, s, t in zip(data["kernels"], means(data["alone"]), means(data["beside"]), simulated(sim, program, f"{folder}/{program}-alone"),
                                                  simulated(sim, program, f"{folder}/{program}", train)):
                groups[name[:40], blocks].append((a[0], b[0], b[1] - a[1], s[0], t[0], t[1] - s[1]))
            print(f"{program}: a kernel's time and what it waits for more, us\n{'':5}{'on the card':>26}{'simulated':>26}")
            every = [row for rows in groups.values() for row in rows]
            for (name, blocks), rows in [*sorted(groups.items(), key=lambda g: -sum(r[3] for r in g[1]))[:14], (("all, in a request", ""), [tuple(map(sum, zip(*every)))])]:
                a, b, wait, s, t, waits = (statistics.mean(column) for column in zip(*rows))
                print(f"{len(rows):4}{a:9.2f} -> {b:7.2f} {wait:+8.2f}{s:9.2f} -> {t:7.2f} {waits:+8.2f}  {name} {blocks}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["collect", keep, out]: collect(keep, out)
        case ["compare", sim, path]: compare(sim, path)
        case _: sys.exit(__doc__)
