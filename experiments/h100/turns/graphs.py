#!/usr/bin/env python3
"""Switches between two processes that launch graphs and wait for them.

  graphs.py measure GRAPHS OUT.json FOLDER     GRAPHS: graphs.cu, compiled; 25 s
  graphs.py read OUT.json.gz
"""
import gzip
import json
import os
import statistics
import subprocess
import sys

CASES = [(10, 50, 1), (100, 5, 1), (10, 190, 1), (280, 5, 1), (10, 50, 2), (100, 5, 2)]  # kernels of the first, us each, requests in flight
OTHER = (100, 5)


def requests(path):
    with open(path) as file:
        return [tuple(map(int, line.split())) for line in file]


def measure(graphs, out, folder):
    os.makedirs(folder, exist_ok=True)
    smi = ["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"]
    data = {"gpu": subprocess.run(smi, capture_output=True, text=True).stdout.strip(), "cases": []}
    for kernels, us, in_flight in CASES:
        files = [os.path.join(folder, name) for name in ("a", "b")]
        running = [subprocess.Popen([graphs, str(n), str(each), "1.5", path, str(in_flight)])
                   for (n, each), path in zip(((kernels, us), OTHER), files)]
        if any(r.wait() for r in running):
            sys.exit("a program failed")
        ran = sorted((begin, end, which) for which, path in enumerate(files) for begin, end in requests(path))
        both = [r for r in ran if r[0] > max(requests(p)[0][0] for p in files) and r[1] < min(requests(p)[-1][1] for p in files)]
        gaps = {"switch": [], "same": []}
        for before, after in zip(both, both[1:]):
            gaps["switch" if before[2] != after[2] else "same"].append((after[0] - before[1]) / 1e3)
        row = {"kernels": kernels, "us": us, "in_flight": in_flight, "lengths_us": [
            round(statistics.median((e - b) / 1e3 for b, e, w in both if w == which), 1) for which in (0, 1)]}
        for what, us_of in gaps.items():
            row[what] = {"n": len(us_of)} | ({"deciles_us": [round(q, 1) for q in statistics.quantiles(us_of, n=10)]} if len(us_of) > 1 else {})
        data["cases"].append(row)
        print(json.dumps(row), flush=True)
        with open(out, "w") as file:
            json.dump(data, file, indent=1)


def read(path):
    with gzip.open(path, "rt") as file:
        data = json.load(file)
    print(data["gpu"])
    for row in data["cases"]:
        deciles = row["switch"].get("deciles_us")
        print(f"{row['kernels']:4} kernels of {row['us']} us beside {OTHER[0]} of {OTHER[1]}, {row['in_flight']} in flight: "
              f"{row['switch']['n']} switches of {deciles[4]:.0f} us ({deciles[0]:.0f} to {deciles[8]:.0f})")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", graphs, out, folder]: measure(graphs, out, folder)
        case ["read", path]: read(path)
        case _: sys.exit(__doc__)
