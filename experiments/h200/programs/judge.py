#!/usr/bin/env python3
"""Twelve programs on an H200, in pairs and in triples, measured (runs-*.jsonl.gz) and simulated.

  judge.py SIM [--modes] [--rows] [none|counters]   SIM: the `sim` command; --modes: each mode by itself; --rows: each ordinary row, worst first

none: what captures of programs alone tell; counters: Nsight Compute's too. Captures of runs-N are captured-N, or else the newest. Arrivals are the
measured ones: a service has a request due each period, and what finds it busy waits; the others make one after the other. Counted is what ends from
WARM_S to SECONDS. A service is behind where half of its requests take two periods or more: then its throughput counts, as its latency grows with the run.
halves: the second half of what is counted beside the first, measured: what no simulation of a steady host tells. Of what is set aside only sums are printed.
"""
import contextlib
import glob
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


class Traces:
    """Of one campaign's captures: each program's trace and its client."""

    def __init__(self, sim, folder, number):
        self.sim, self.folder, self.made = sim, folder, {}
        unpack(HERE, folder, number)
        self.rows = {row["name"]: row for row in rows_of(HERE, f"captured-{number}") if "trace" in row}

    def make(self, known):
        for name, row in self.rows.items():
            path = lambda end: os.path.join(self.folder, f"{name}.{end}")
            counted = ["--counters", path("csv")] if known == "counters" else []
            if counted and not os.path.exists(path("csv")):
                continue
            subprocess.run([self.sim, "import", "capture", os.path.join(self.folder, "kept", name), "--gpu=h200", "--name=" + name, "-o", path(known + ".json"),
                            *row.get("import", ()), *counted], check=True, capture_output=True)
            self.made[name, known] = path(known + ".json"), row["trace"]["clients"][0]  # its think time and stalls are of the whole recording


def measured(answer, since=WARM_S, until=SECONDS):
    """As `sim` counts: latencies of what is due and ends in the window; requests a second, with parts of those at its ends."""
    ends = answer["ends"]
    ms = sorted(m for m, end in zip(answer["ms"], ends) if end <= until and end - m / 1e3 >= since)
    found = {"per_s": answer["per_s"]} if until - since == SECONDS - WARM_S else {"per_s": sum(since < end <= until for end in ends) / (until - since)}
    if ms:
        found |= {"mean_ms": statistics.mean(ms), "p50_ms": ms[(len(ms) - 1) // 2], "p99_ms": ms[int(0.99 * (len(ms) - 1))]}
    return found


def simulated(traces, row, known):
    """Of each program what `sim` says; None: it lacks a trace."""
    found = [traces.made.get((name, known)) for name in row["set"]]
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


def errors(row, there):
    """[(what, there / measured - 1, in words)], and how often a service was behind: measured, there, both. there: None for the halves."""
    found, behind = [], [0, 0, 0]
    for name in row["set"]:
        answer, period = row["programs"][name], row["period_ms"].get(name)
        middle = (WARM_S + SECONDS) / 2
        here, other = (measured(answer), there[name]) if there else (measured(answer, until=middle), measured(answer, since=middle))
        late = [bool(period) and (side.get("p50_ms") or 9 * period) > 2 * period for side in (here, other)]
        behind = [n + was for n, was in zip(behind, (*late, all(late)))]
        for what in ["per_s"] if any(late) or (name in BEST_EFFORT and row["mode"] != "alone") else [w for w in WHAT if w != "per_s"]:
            words = f"{WHAT[what]:11}{row['mode']:9}{'/'.join(map(str, row.get('percentages', ()))):9}{name:17}of {' + '.join(row['set']):41}"
            if here.get(what) and other.get(what):
                found.append((what, other[what] / here[what] - 1, f"{words}{here[what]:9.3f}, simulated {other[what]:9.3f}"))
    return found, behind


def summary(results):
    """Of [(errors, behind)]."""
    parts = []
    for what, words in WHAT.items():
        size = [100 * abs(error) for found, _ in results for of, error, _ in found if of == what]
        if size:
            parts.append(f"{words} {statistics.mean(size):5.1f} /{statistics.median(size):5.1f} ({len(size)})")
    behind = [sum(n) for n in zip(*(late for _, late in results))]
    return "   ".join(parts) + (f"   behind {behind[0]}, simulated {behind[1]}, both {behind[2]}" if any(behind) else "")


def kind_of(row):
    return "alone" if row["mode"] == "alone" else ("pairs", "triples")[len(row["set"]) - 2]


def main(sim, options):
    print("errors in %, mean / median (of how many); to reach with counters: latency 8 / 5, p99 10 / 6, throughput 7 / 5, triples 1.3 times pairs")
    captures = sorted(os.path.basename(path)[9:-9] for path in glob.glob(os.path.join(HERE, "captured-*.jsonl.gz")))
    for path in sorted(glob.glob(os.path.join(HERE, "runs-*.jsonl.gz")), reverse=True):
        number = os.path.basename(path)[5:-9]
        rows = [{"period_ms": {}} | row for row in rows_of(HERE, f"runs-{number}") if row.get("mode") in POLICIES and row.get("programs")
                and all("per_s" in one for one in row["programs"].values())]
        print(f"runs-{number}, " + ("captures of the same machine" if number in captures else "captures of another machine"))
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            with contextlib.redirect_stdout(None):
                traces = Traces(sim, folder, number if number in captures else captures[-1])
            for known in ("halves", *([k for k in KNOWN if k in options] or KNOWN)):
                if known == "halves":
                    results = [(row, errors(row, None)) for row in rows]
                else:
                    traces.make(known)
                    ran = pool.map(lambda row: simulated(traces, row, known), rows)
                    results = [(row, errors(row, there)) for row, there in zip(rows, ran) if there]
                for aside in (False, True):
                    of = [(row, one) for row, one in results if any(map(is_set_aside, row["set"])) == aside]
                    groups = {}
                    for row, one in of:
                        groups.setdefault(kind_of(row), []).append(one)
                        if "--modes" in options and row["mode"] != "alone":
                            groups.setdefault(f"{row['mode']}, {kind_of(row)}", []).append(one)
                    for title, those in sorted(groups.items(), key=lambda one: ("," in one[0], one[0])):
                        print(f"  {known:9}{'set aside' if aside else 'ordinary':10}{title:18}{summary(those)}", flush=True)
                    if "--rows" in options and not aside and known != "halves":
                        for _, error, words in sorted((e for _, (found, _) in of for e in found), key=lambda e: -abs(e[1])):
                            print(f"    {100 * error:+7.1f} % {words}")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not {"--modes", "--rows", *KNOWN}.issuperset(sys.argv[2:]):
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
