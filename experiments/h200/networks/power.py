#!/usr/bin/env python3
"""What a GPU draws: fits the constants of `power` in traces/gpus/h200.json to clocks.json.gz, or in h100-sxm.json to that of an H100.

  power.py [CLOCKS]      prints the constants, and what each load drew beside what they give

Watts = idle + (warp instructions, columns of wgmma and bytes of DRAM a second, each at its energy) * sqrt(clock / highest clock).
The counters are those of the networks' traces, also for the H100, on which the same kernels run; for products of matrices, copies and sums they follow from their sizes.
Networks of which a tenth of the time or more has no counters are left out, and those set aside.
"""
import os
import re
import statistics
import sys

from collect import HERE, load, set_aside
from prior import CLASSES, matches

HIGHEST = 1980.0  # MHz
WGMMA = next(patterns for name, _, patterns in CLASSES if name == "wgmma").split()


def columns(name):
    """As `wgmma_columns` in sim/model/kernel_energy.cpp."""
    tile = re.search(r"(?:_|tilesize)(\d+)x(\d+)", name)
    if not tile:
        return 128
    rows, cols = int(tile[1]), int(tile[2])
    if "nvjet" not in name or rows % 64 == 0:
        shared_out = "nvjet" in name and cols % 64 == 0 and "coopB" in name
        return min(cols / (2 if shared_out else 1), 256)
    return min(rows, 256)


def of_network(name):
    """Warp instructions, columns, bytes of a request; None: too little is known."""
    trace, launches = load(f"traces/{name}.json.gz"), {}
    for op in trace["programs"][0]["ops"]:
        if "launch" in op:
            launches[op["launch"]] = launches.get(op["launch"], 0) + 1
    total, known, sums = 0, 0, [0.0, 0.0, 0.0]
    for kernel in trace["kernels"]:
        times, c = launches.get(kernel["name"], 0), kernel.get("counters")
        total += times * kernel.get("solo_time_ns", 0)
        if not c:
            continue
        known += times * kernel.get("solo_time_ns", 0)
        sums[0] += times * c["warp_instructions"]
        sums[1] += times * c["tensor_instructions"] * columns(kernel["name"]) * any(matches(kernel["name"].lower(), p) for p in WGMMA)
        sums[2] += times * (c["dram_read_bytes"] + c["dram_write_bytes"])
    return sums if known >= 0.9 * total else None


def of_operation(name):
    n = 8192
    if name in ("product_f16", "product_bf16"):  # 256 columns: 65,536 multiply-adds a warp's share
        return [n ** 3 / 32768 * 8, n ** 3 / 256, 12 * n * n]
    if name == "product_tf32":  # half as many multiply-adds
        return [n ** 3 / 32768 * 16, n ** 3 / 128, 24 * n * n]
    if name == "product_1kx8kx8k":
        return [1024 * n * n / 32768 * 8, 1024 * n * n / 256, 2 * n * n + 4 * 1024 * n]
    if name == "product_f32":
        return [4096 ** 3 / 32 * 1.12, 0, 0]
    if name == "copy":
        return [2 ** 28 / 4 / 32 * 4.5, 0, 2 ** 31]
    if name == "sum":
        return [2 ** 28 / 4 / 32 * 6, 0, 2 ** 30]
    return None


def solve(matrix, right):
    n = len(right)
    rows = [row[:] + [r] for row, r in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(n):
            if k != i:
                f = rows[k][i] / rows[i][i]
                rows[k] = [a - f * b for a, b in zip(rows[k], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def main():
    rows, aside = [], set_aside()
    for name, run in load(sys.argv[1] if len(sys.argv) > 1 else "clocks.json.gz")["runs"].items():
        if name in aside:
            continue
        done = of_network(name) if os.path.exists(os.path.join(HERE, f"traces/{name}.json.gz")) else of_operation(name)
        if not done:
            continue
        steady = [s for s in run["samples"] if 0.25 < s[0] < 0.95]
        seconds = statistics.median(run["ms"][len(run["ms"]) // 4:len(run["ms"]) * 3 // 4]) / 1e3
        clock = statistics.median(s[1] for s in steady) / HIGHEST
        rows.append((name, clock, statistics.mean(s[2] for s in steady),
                     [1.0] + [x / seconds / 1e12 * clock ** 0.5 for x in done]))
    square, right = [[0.0] * 4 for _ in range(4)], [0.0] * 4
    for _, _, watts, x in rows:  # relative errors
        for i in range(4):
            right[i] += x[i] / watts
            for k in range(4):
                square[i][k] += x[i] * x[k] / watts ** 2
    found = solve(square, right)
    print("idle {:.0f} W, warp instruction {:.0f} pJ, wgmma column {:.0f} pJ, DRAM byte {:.0f} pJ".format(*found))
    errors = []
    for name, clock, watts, x in rows:
        given = sum(a * b for a, b in zip(x, found))
        errors.append(given / watts - 1)
        print(f"{name:20s} {clock * HIGHEST:5.0f} MHz {watts:4.0f} W, by the constants {given:4.0f} ({100 * errors[-1]:+.0f} %)")
    print(f"{len(rows)} loads, root mean square {100 * statistics.mean(e * e for e in errors) ** 0.5:.1f} %")
    print("limit: {:.0f} W in the mean where the clock was lowered".format(
        statistics.mean(watts for _, clock, watts, _ in rows if clock < 0.9)))


if __name__ == "__main__":
    main()
