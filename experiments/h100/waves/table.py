#!/usr/bin/env python3
"""What of a launch's time its places on the SMs are free: table.py, from waves.json.gz (`contention waves`, `contention gap_after`).

A launch of W waves takes T + W * S.  S is the slope between the fewest waves over 7 and the most; T, its mean over 1.5 to 8 waves, is what a
launch takes beside its waves.  Where one wave more begins with each block more (blocks of a kernel that waits for nobody end together), the same
over whole waves, rounded up, is what is left of T.
"""
import gzip
import json
import math
import os
import statistics

HERE = os.path.dirname(os.path.abspath(__file__))


def records():
    with gzip.open(os.path.join(HERE, "waves.json.gz")) as file:
        return json.load(file)


def launches(records):
    """By kernel, threads, shared bytes and places per SM, then by waves: the medians of what was measured."""
    found = {}
    for r in records["waves"]:
        if "waves" in r:
            kernel = (r["kernel"], r["threads"], r["shared_bytes"], r["places_per_sm"])
            found.setdefault(kernel, {}).setdefault(r["waves"], {})[r["metric"]] = r["value"]
    return found


def beside_waves(of):
    """Mean over 1.5 to 8 waves of what a launch takes beside its waves: us and blocks, by waves and by whole waves."""
    many = sorted(w for w in of if w > 7)
    slope = (of[many[-1]]["length_us"] - of[many[0]]["length_us"]) / (many[-1] - many[0])
    few = [w for w in of if 1.5 < w < 8]
    us = statistics.mean(of[w]["length_us"] - w * slope for w in few)
    whole = statistics.mean(of[w]["length_us"] - math.ceil(w - 1e-9) * of[w]["block_us"] for w in few)
    block = statistics.mean(of[w]["block_us"] for w in few)
    return us, us / block, whole / block, block, statistics.mean(of[w]["spread_of_blocks"] for w in few)


def main():
    all_ = records()
    print(all_["environment"][0]["gpu"], all_["environment"][0]["date"])
    print(f"{'kernel':8} {'threads':>7} {'places':>6}  {'block, us':>9} {'spread':>6}  beside waves: {'us':>6} {'blocks':>6} {'of whole waves':>15}")
    for (kernel, threads, _, places), of in launches(all_).items():
        us, blocks, whole, block, spread = beside_waves(of)
        print(f"{kernel:8} {threads:7} {places:6}  {block:9.1f} {spread:6.2f}                {us:6.2f} {blocks:6.2f} {whole:15.2f}")
    print("from the last block's end to the next launch's first block, us: medians over launches 1 to 23, and of the 22nd")
    rows = {}
    for r in all_["gap_after"]:
        if "launch" in r:
            rows.setdefault((r["kernel"], r["the_same_again"], r["MiB"]), {})[r["launch"]] = r["value"]
    for (kernel, again, mib), of in rows.items():
        print(f"{kernel:8} {mib:4} MiB {'again' if again else 'others':6}  {statistics.median(of.values()):5.2f} {of[22]:5.2f}")


if __name__ == "__main__":
    main()
