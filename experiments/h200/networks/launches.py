#!/usr/bin/env python3
"""What another client's launches cost a graph's short kernels: from the timelines of two clients under streams.

  launches.py             by what runs beside when the kernel before ends, and whether another client launched a kernel since that
                          began: how long until the kernel starts, and what it lasts longer than alone
  launches.py SIM [MIX...]   by what runs beside, measured and as SIM, the command, simulates 150 ms: both times together

Kernels of at most 4 us alone and 512 threads an SM.  A start more than 400 us late is taken for the end of a request.  Kernels are told apart by their
launch shapes; what belongs to no whole request counts as beside, but not as a short kernel.
"""
import bisect
import collections
import csv
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from collect import HERE, load
from prior import class_of

SHORT_US, FEW_THREADS, LATE_US, SAME = 4, 132 * 512, 400, 8
Ran = collections.namedtuple("Ran", "start end client kernel alone")


def program(network):
    trace = load(f"traces/{network}.json.gz")
    kernels = {k["name"]: k for k in trace["kernels"]}
    ops = next(p for p in trace["programs"] if p["name"].endswith(".graph"))["ops"]
    return {i: (kernels[op["launch"]], op.get("solo_time_ns", kernels[op["launch"]].get("solo_time_ns")) / 1e3)
            for i, op in enumerate(ops) if "launch" in op}


def measured(mix, networks):
    streams = collections.defaultdict(list)
    for e in load(f"timelines/{mix}.streams.json.gz")["traceEvents"]:
        if e.get("cat") == "kernel":
            streams[e["args"]["stream"]].append(e)
    shape = lambda e: (tuple(e["args"]["grid"]), tuple(e["args"]["block"]))  # noqa: E731
    ran = []
    for network in networks:
        launches = list(program(network).values())
        wanted = [(tuple(k["grid"]), tuple(k["block"])) for k, _ in launches]
        best = max(streams, key=lambda s: sum(shape(e) in wanted for e in streams[s]))
        events = sorted(streams.pop(best), key=lambda e: e["ts"])
        seen, at = [shape(e) for e in events], len(wanted)
        for i, e in enumerate(events):
            if at < len(wanted) and seen[i] != wanted[at]:
                at = len(wanted)
            if at == len(wanted) and seen[i:i + SAME] == wanted[:SAME]:
                at = 0
            kernel, alone = launches[at] if at < len(wanted) else (None, 0)
            ran.append(Ran(e["ts"], e["ts"] + e["dur"], network, kernel, alone))
            at = min(at + 1, len(wanted))
    return ran


def simulated(sim, mix, networks):
    launches, ran = {n: program(n) for n in networks}, []
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sim, "--policy=fcfs", "--duration=150ms", "--out", out, os.path.join(HERE, f"mixes/{mix}.json")],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "kernels.csv")) as file:
            for r in csv.DictReader(file):
                if r["finished_ns"] not in ("", "-1"):
                    ran.append(Ran(float(r["started_ns"]) / 1e3, float(r["finished_ns"]) / 1e3, r["client"],
                                   *launches[r["client"]][int(r["op"])]))
    return ran


def beside(ran):
    """(what runs beside, whether others launched since): (start after the end before it, longer than alone), each short kernel."""
    ran = sorted(ran)
    starts, longest = [r.start for r in ran], max(r.end - r.start for r in ran)
    rows, last = collections.defaultdict(list), {}
    for r in ran:
        before = last.get(r.client)
        last[r.client] = r
        if not before or not before.kernel or not r.kernel or r.start - before.end > LATE_US:
            continue
        if r.alone > SHORT_US or math.prod(r.kernel["grid"]) * math.prod(r.kernel["block"]) > FEW_THREADS:
            continue
        others = [o for o in ran[bisect.bisect_left(starts, before.end - longest):bisect.bisect_left(starts, before.end)]
                  if o.client != r.client and o.end > before.end]
        what = "nothing" if not others else class_of(others[0].kernel["name"]) if others[0].kernel else None
        since = any(o.client != r.client
                    for o in ran[bisect.bisect_left(starts, before.start):bisect.bisect_left(starts, r.start)])
        rows[what or "other", since].append((r.start - before.end, r.end - r.start - r.alone))
    return rows


def main(sim=None, *mixes):
    all_measured, all_simulated = collections.defaultdict(list), collections.defaultdict(list)
    for path in sorted(glob.glob(os.path.join(HERE, "timelines/*.streams.clients.json"))):
        mix = os.path.basename(path).split(".")[0]
        with open(path) as file:
            networks = [client["network"] for client in json.load(file)["mix"]]
        if len(networks) != 2 or (mixes and mix not in mixes):
            continue
        for key, rows in beside(measured(mix, networks)).items():
            all_measured[key] += rows
        for key, rows in (beside(simulated(sim, mix, networks)) if sim else {}).items():
            all_simulated[key] += rows
    if not sim:
        print("beside              another launched   kernels   starts after, us   lasts longer, us (medians)")
        for (what, since), rows in sorted(all_measured.items()):
            if len(rows) >= 40:
                print(f"{what:20}{'yes' if since else 'no':16}{len(rows):10}{statistics.median(r[0] for r in rows):19.2f}"
                      f"{statistics.median(r[1] for r in rows):19.2f}")
        return
    print("both together, us       measured: median   three quarters   mean   simulated: median   three quarters   mean")
    for what in sorted({what for what, _ in all_measured}):
        columns = []
        for side in (all_measured, all_simulated):
            sums = sorted(a + b for since in (False, True) for a, b in side[what, since])
            columns.append(f"{statistics.median(sums):16.2f}{sums[3 * len(sums) // 4]:17.2f}{statistics.mean(sums):7.2f}" if sums else "")
        print(f"{what:24}" + "    ".join(columns))


if __name__ == "__main__":
    main(*sys.argv[1:])
