#!/usr/bin/env python3
"""Twelve programs on an H200, alone, in pairs and in triples, simulated and measured (runs-*.jsonl.gz).

  judge.py SIM [--all] [--rows] [--ordinary|--aside] [--paced] [none|counters]   SIM: the `sim` command; --all: each mode by itself; --rows: each ordinary row, worst first

none: what a capture of each program alone tells; counters: Nsight Compute's too (counters-*.jsonl.gz). Arrivals are the measured ones: a service has a request due
each period, and what finds it busy waits; the others make one after the other. Both sides count what ends from WARM_S to SECONDS. A service counts as
behind where half of its requests take two periods or more: its latency grows with the run, so that its throughput counts, among those of best effort.
--paced: each trace has what its program took in the median alone at these arrivals, in the place of what it took when captured: the error left is of what others
cost. Only of the campaign that measured programs alone, as hosts differ.
Of what is set aside only summaries are printed.
"""
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from measure import BEST_EFFORT, HERE, SECONDS, SERVICES, WARM_S, is_set_aside, rows_of, unpack

KNOWN = ("none", "counters")
POLICIES = {"alone": "fcfs", "turns": "timeslice", "mps": "mps", "percent": "mps:percentages=", "priority": "priority", "wait": "wait"}
WHAT = {"mean_ms": "latency", "p50_ms": "median", "p99_ms": "p99", "per_s": "throughput"}
# What the kept recordings need, of which the pace and most requests were left out: the request that the whole ones give.
IMPORT = {"jax-train": ["--step=3"], "diffusion-train": ["--step=3", "--request-time=36.81ms"]}


class Traces:
    def __init__(self, sim, folder, paced=None):
        """paced: ms that a request of each program takes."""
        self.sim, self.folder, self.made, self.paced = sim, folder, {}, paced or {}
        unpack(HERE, folder)

    def of(self, name, known):
        """A file with its program, and its client as captured; None: not counted."""
        if (name, known) not in self.made:
            self.made[name, known] = self.make(name, known)
        return self.made[name, known]

    def make(self, name, known):
        path = lambda end: os.path.join(self.folder, f"{name}.{end}")
        if known == "counters" and not os.path.exists(path("csv")):
            return None
        counted = ["--counters", path("csv")] if known == "counters" else []
        options = [o for o in IMPORT.get(name, []) if not (name in self.paced and o.startswith("--request-time"))]
        if name in self.paced:
            options.append(f"--request-time={self.paced[name]:.4f}ms")
        subprocess.run([self.sim, "import", "capture", os.path.join(self.folder, "kept", name), "--gpu=h200", "--name=" + name, "-o", path(known + ".json"),
                        *options, *counted], check=True, capture_output=True)
        with open(path("json")) as file:  # its think time and stalls are of the whole recording
            return path(known + ".json"), json.load(file)["clients"][0]


def measured(answer):
    """As `sim` counts: latencies of what is due and ends in the window; requests a second, with parts of those at its ends."""
    ends = answer["ends"]
    ms = sorted(m for m, end in zip(answer["ms"], ends) if end <= SECONDS and end - m / 1e3 >= WARM_S)
    found = {"per_s": answer["per_s"]}
    if ms:
        found |= {"mean_ms": statistics.mean(ms), "p50_ms": ms[(len(ms) - 1) // 2], "p99_ms": ms[int(0.99 * (len(ms) - 1))]}
    return found


def simulated(traces, row, known):
    """Of each program what `sim` says; None: it lacks a trace."""
    found = [traces.of(name, known) for name in row["set"]]
    if not all(found):
        return None
    clients = []
    for name, (_, client) in zip(row["set"], found):
        client = client | {"name": name, "process": name}
        if row["mode"] in ("priority", "wait") and name in SERVICES:
            client |= {"class": "real_time", "priority": -5}
        if name in row["period_ms"]:
            client["arrivals"] = {"type": "periodic", "period_ns": round(1e6 * row["period_ms"][name]), "stale": "queue"}
        clients.append(client)
    mix = {"corun_trace": 1, "gpu": "h200", "include": [path for path, _ in found], "clients": clients,
           "run": {"duration_ns": round(1e9 * SECONDS), "warm_up_ns": round(1e9 * WARM_S)}}
    with tempfile.NamedTemporaryFile("w", dir=traces.folder, suffix=".json") as file:
        json.dump(mix, file)
        file.flush()
        policy = POLICIES[row["mode"]] + "/".join(map(str, row.get("percentages", ())))
        ran = subprocess.run([traces.sim, file.name, "--policy=" + policy, "--json", *(["--as-served=8"] if row["mode"] == "wait" else [])],
                             check=True, capture_output=True, text=True)
    return {client["name"]: client | {"per_s": client["throughput_per_s"]} for client in json.loads(ran.stdout)["clients"]}


def paces(rows):
    """Of each program its median alone: a service's at its rate."""
    alone = [row for row in rows if row["mode"] == "alone" and (row["period_ms"] or row["set"][0] in BEST_EFFORT)]
    return {row["set"][0]: measured(row["programs"][row["set"][0]])["p50_ms"] for row in alone}


def measured_rows(paced):
    """Those without a failure; where paced only of the files that have programs alone."""
    found, campaign = [], None
    for row in rows_of(HERE, "runs"):
        if "gpu" in row:
            campaign = row["gpu"], row["date"]
        if row.get("mode") in POLICIES and row.get("programs") and not row.get("failed") and all("per_s" in one for one in row["programs"].values()):
            found.append({"period_ms": {}} | row | {"campaign": campaign})
    alone = {row["campaign"] for row in found if row["mode"] == "alone"}
    return [row for row in found if row["campaign"] in alone or not paced]


def kind_of(row):
    return "alone" if row["mode"] == "alone" else ("pairs", "triples")[len(row["set"]) - 2]


def errors(traces, row, known):
    """[(what, simulated / measured - 1, in words)], and how often a service was behind: measured, simulated, both."""
    there = simulated(traces, row, known)
    if there is None:
        return None
    found, behind = [], [0, 0, 0]
    for name in row["set"]:
        here, period = measured(row["programs"][name]), row["period_ms"].get(name)
        late = [bool(period) and (side.get("p50_ms") or 9 * period) > 2 * period for side in (here, there[name])]
        behind = [n + was for n, was in zip(behind, (*late, all(late)))]
        whats = ["per_s"] if any(late) or (name in BEST_EFFORT and row["mode"] != "alone") else [w for w in WHAT if w != "per_s"]
        for what in whats:
            words = f"{WHAT[what]:11}{row['mode']:9}{'/'.join(map(str, row.get('percentages', ()))):9}{name:17}of {' + '.join(row['set']):41}"
            found.append((what, there[name][what] / here[what] - 1, f"{words}{here[what]:9.3f}, simulated {there[name][what]:9.3f}"))
    return found, behind


def summary(found, behind):
    parts = []
    for what, words in WHAT.items():
        size = [100 * abs(error) for of, error, _ in found if of == what]
        if size:
            parts.append(f"{words} {statistics.mean(size):5.1f} /{statistics.median(size):5.1f} ({len(size)})")
    return "   ".join(parts) + (f"   behind {behind[0]}, simulated {behind[1]}, both {behind[2]}" if any(behind) else "")


def main(sim, options):
    rows = measured_rows("--paced" in options)
    print("errors in %, mean / median (of how many); to reach with counters: latency 8 / 5, p99 10 / 6, throughput 7 / 5, triples 1.3 times pairs")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        with contextlib.redirect_stdout(None):
            traces = Traces(sim, folder, paces(rows) if "--paced" in options else None)
        for known in [k for k in KNOWN if k in options] or KNOWN:
            for name in SERVICES + BEST_EFFORT:  # before the threads: each trace is made once
                traces.of(name, known)
            lacking = [name for name in SERVICES + BEST_EFFORT if not traces.of(name, known)]
            if lacking:
                print(f"{known}: none of {', '.join(lacking)}")
            results = [(row, result) for row, result in zip(rows, pool.map(lambda row: errors(traces, row, known), rows)) if result]
            for aside in (False, True):
                if "--ordinary" in options and aside or "--aside" in options and not aside:
                    continue
                of = [(row, *result) for row, result in results if any(map(is_set_aside, row["set"])) == aside]
                groups = [("alone", lambda row: kind_of(row) == "alone"), ("pairs", lambda row: kind_of(row) == "pairs"),
                          ("triples", lambda row: kind_of(row) == "triples"), ("together", lambda row: kind_of(row) != "alone")]
                if "--all" in options:
                    groups += [(f"{mode}, {kind}", lambda row, mode=mode, kind=kind: row["mode"] == mode and kind_of(row) == kind)
                               for mode in POLICIES if mode != "alone" for kind in ("pairs", "triples")]
                for title, belongs in groups:
                    found = [error for row, errors_of, _ in of if belongs(row) for error in errors_of]
                    if found:
                        behind = [sum(n) for n in zip(*(late for row, _, late in of if belongs(row)))]
                        print(f"{known:9}{'set aside' if aside else 'ordinary':10}{title:18}{summary(found, behind)}", flush=True)
                if "--rows" in options and not aside:
                    for _, error, words in sorted((e for _, errors_of, _ in of for e in errors_of), key=lambda e: -abs(e[1])):
                        print(f"    {100 * error:+7.1f} % {words}")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not {"--ordinary", "--aside", "--all", "--rows", "--paced", *KNOWN}.issuperset(sys.argv[2:]):
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
