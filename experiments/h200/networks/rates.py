#!/usr/bin/env python3
"""How fast kernels of a class run beside kernels of another, as a share of their rate alone: from the timelines under streams.

  rates.py SIM [MIX...]   measured, and as SIM, the command, simulates 150 ms; without MIX the timelines of two clients

Least squares without negative rates, over what ran beside each launch and for how long; needs numpy and scipy.  `tiny` kernels have at
most 32 blocks; others than products `few` threads, at most 512 an SM, or `many`.
"""
import bisect
import collections
import glob
import json
import math
import os
import sys

import numpy
import scipy.optimize

from collect import HERE
from launches import FEW_THREADS, measured, simulated
from prior import class_of

PRODUCTS = {"attention", "thin_gemm", "wgmma", "mma", "simt"}
ALIKE = {"copy": "elementwise", "layout": "elementwise", "optimizer": "elementwise", "batch_norm": "normalisation", "reduction": "normalisation"}


def kind_of(kernel):
    name, blocks = class_of(kernel["name"]) or "other", math.prod(kernel["grid"])
    if blocks <= 32:
        return "tiny"
    if name in PRODUCTS:
        return name
    few = blocks * math.prod(kernel["block"]) <= FEW_THREADS
    return f"{ALIKE.get(name, name)}, {'few' if few else 'many'}"


def beside(ran, launches):
    """Adds (time alone, time, {kind: time beside it}) of each launch, by its kind."""
    ran = sorted(ran, key=lambda r: r.start)
    starts, longest = [r.start for r in ran], max(r.end - r.start for r in ran)
    for r in ran:
        if not r.kernel or r.alone <= 0:
            continue
        times = collections.Counter()
        for o in ran[bisect.bisect_left(starts, r.start - longest):bisect.bisect_left(starts, r.end)]:
            both = min(o.end, r.end) - max(o.start, r.start)
            if o.client != r.client and both > 0:
                times[kind_of(o.kernel) if o.kernel else "unknown"] += both
        launches[kind_of(r.kernel)].append((r.alone, r.end - r.start, times))


def rates(launches):
    kinds = sorted({k for _, _, times in launches for k in times})
    rows = [[max(0, time - sum(times.values()))] + [times[k] for k in kinds] for _, time, times in launches]
    weights = numpy.array([time ** -0.5 for _, time, _ in launches])
    found, _ = scipy.optimize.nnls(numpy.array(rows) * weights[:, None], numpy.array([alone for alone, _, _ in launches]) * weights)
    return dict(zip(kinds, found[1:]))


def main(sim, *mixes):
    sides = collections.defaultdict(list), collections.defaultdict(list)
    for path in sorted(glob.glob(os.path.join(HERE, "timelines/*.streams.clients.json"))):
        mix = os.path.basename(path).split(".")[0]
        with open(path) as file:
            networks = [client["network"] for client in json.load(file)["mix"]]
        if mix in mixes or (not mixes and len(networks) == 2):
            beside(measured(mix, networks), sides[0])
            beside(simulated(sim, mix, networks), sides[1])
    spent = {kind: sum(time for _, time, _ in launches) for kind, launches in sides[0].items()}
    for kind in sorted(spent, key=lambda k: -spent[k]):
        if kind not in sides[1]:
            continue
        stretch = [sum(time for _, time, _ in side[kind]) / sum(alone for alone, _, _ in side[kind]) for side in sides]
        print(f"{kind}: takes {stretch[0]:.2f} times as long as alone, simulated {stretch[1]:.2f}")
        found = [rates(side[kind]) for side in sides]
        shares = collections.Counter()
        for _, _, times in sides[0][kind]:
            shares.update(times)
        for other, time in shares.most_common(8):
            print(f"    beside {other:22}{100 * time / spent[kind]:4.0f} % of its time: rate {found[0][other]:.2f}, "
                  f"simulated {found[1].get(other, float('nan')):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
