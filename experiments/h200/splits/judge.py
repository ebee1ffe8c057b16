#!/usr/bin/env python3
"""Decode steps and prefills on parts of an H200, alone and side by side, simulated and measured (times-1.jsonl.gz).

  judge.py SIM [--ordinary|--aside|--all] [--rows] [MODE...]   SIM: the `sim` command; --rows: each ordinary row too, worst first

MODE, what the simulator knows: `none` a recording on the whole GPU; `counters` Nsight Compute's too, where it counted that request; `second` also a recording
on 32 SMs, a green context's, or of MPS at 25 % where that one lacks launches; `own` each side's recording at its own percentage beside `counters`.
Alone is on the first SMs (a mask) and under a percentage; side by side is on eight splits (masks), under percentages, and under MPS without any.
Of what is set aside only summaries are printed.
"""
import contextlib
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import measure
import models

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ("none", "counters", "second", "own")
TARGET = (8, 20)  # mean, worst (issue 48)
REQUESTS = 4  # that the slower client is simulated for
COMPLETE = 0.8  # of the whole GPU's launches: a recording with fewer lost some


class Recordings:
    def __init__(self, sim, folder):
        self.sim, self.folder, self.kernels = sim, folder, {}
        with contextlib.redirect_stdout(None):  # which failed
            measure.unpack(os.path.join(HERE, "recordings-1.jsonl.gz"), folder)
        measure.split(os.path.join(HERE, "counters-1.csv.gz"), folder)
        with gzip.open(os.path.join(HERE, "recordings-1.jsonl.gz"), "rt") as file:
            for row in map(json.loads, file):
                if "kernels" in row:
                    self.kernels[row["name"], row["part"]] = row["kernels"]

    def file(self, name, part):
        """Of a recording that has its launches."""
        seen = self.kernels.get((name, part), 0)
        return os.path.join(self.folder, f"{name}.{part}.json.gz") if seen and seen >= COMPLETE * self.kernels[name, "132"] else None

    def counters(self, name):
        path = os.path.join(self.folder, name + ".csv.gz")
        with gzip.open(path, "rt") as file:
            return path if sum(1 for _ in file) > 1 else None

    def second(self, name):
        if path := self.file(name, "32"):
            return "32=" + path
        return self.file(name, "mps25")

    def options(self, name, mode, percent):
        """Of `sim import`; None: not measured."""
        if mode == "none":
            return []
        counters = self.counters(name)
        counted = ["--counters", counters] if counters else []
        if mode == "counters":
            return counted or None
        part = self.second(name) if mode == "second" else self.file(name, f"mps{percent}") if percent and percent < 100 else None
        return [*counted, "--by-sms", part] if part else None

    def is_told(self, row, mode):
        """Whether the part of this row is the second recording's."""
        if mode == "second":
            return row.get("part", str(row["sms"])) == ("32" if self.file(row["name"], "32") else "mps25")
        return mode == "own"

    def trace(self, name, mode, percent=None):
        """A file of the request's programs, and the name of the one for the whole GPU."""
        options = self.options(name, mode, percent)
        if options is None:
            return None
        path = os.path.join(self.folder, f"{name}.{mode}.{percent if mode == 'own' else ''}.json")
        if not os.path.exists(path):
            subprocess.run([self.sim, "import", "kineto", self.file(name, "132"), "--gpu", "h200", "--name", name, "-o", path, *options],
                           check=True, capture_output=True)
        with open(path) as file:
            return path, json.load(file)["clients"][0]["program"]


def simulated_ms(recordings, policy, clients, longest_ms, requests=REQUESTS):
    """clients: [(trace, first SM, last SM)]; of each the mean time from a request's end to the next one's, two being under way as measured."""
    mix = {"corun_trace": 1, "gpu": "h200", "include": sorted({path for (path, _), *_ in clients}), "run": {"duration_ns": round(requests * longest_ms * 1e6)},
           "clients": [{"name": str(i), "program": program, "process": str(i), "tpc_mask": f"{first // 2}-{last // 2 - 1}",
                        "arrivals": {"type": "closed_loop", "in_flight": 2}} for i, ((_, program), first, last) in enumerate(clients)]}
    with tempfile.NamedTemporaryFile("w", dir=recordings.folder, suffix=".json") as file:
        json.dump(mix, file)
        file.flush()
        ran = subprocess.run([recordings.sim, file.name, "--policy=" + policy, "--json"], check=True, capture_output=True, text=True)
    done = json.loads(ran.stdout)["clients"]
    if not all(client["finished"] for client in done):
        return simulated_ms(recordings, policy, clients, longest_ms, 2 * requests)
    # A latency spans two of these times, the first one's a single one.
    return [client["mean_ms"] * client["finished"] / (2 * client["finished"] - 1) for client in done]


def case(row):
    """What is simulated of a measured row: group, policy, [(request, first SM, last SM, percentage, measured ms)]."""
    if row["what"] == "alone":
        percent = int(row["part"][3:]) if "part" in row else None
        of = [(row["name"], 0, row["sms"] if percent is None else 132, percent, statistics.mean(row["ms"]))]
        if percent is None:
            return "alone, first SMs" if row["sms"] < 132 else "alone, whole GPU", "tpc-mask", of
        return "alone, percentage" if percent < 100 else "alone, whole GPU", "mps" if percent == 100 else f"mps:percentages={percent}", of
    took = [statistics.mean(ms) for ms in row["ms"]]
    if "percentages" in row:
        shares = row["percentages"]
        of = [(name, 0, 132, share, ms) for name, share, ms in zip(row["names"], shares, took)]
        if shares == [100, 100]:
            return "side by side, MPS", "mps", of
        return "side by side, percentages", "mps:percentages=" + "/".join(map(str, shares)), of
    split = row["decode_sms"]
    return "side by side, split", "tpc-mask", [(row["names"][0], 0, split, None, took[0]), (row["names"][1], split, 132, None, took[1])]


def errors(recordings, row, mode):
    """[(group, set aside, simulated / measured - 1, what)], of each client; none where a recording or counters are missing."""
    group, policy, of = case(row)
    if mode == "own" and not any(percent and percent < 100 for *_, percent, _ in of):
        return []
    traces = [recordings.trace(name, mode, percent) for name, _, _, percent, _ in of]
    if not all(traces):
        return []
    if group.startswith("alone") and recordings.is_told(row, mode):
        group = "alone, part recorded"
    ms = simulated_ms(recordings, policy, [(trace, first, last) for trace, (_, first, last, *_) in zip(traces, of)], max(took for *_, took in of))
    aside = any(models.is_set_aside(name) for name, *_ in of)
    return [(group, aside, there / took - 1, f"{name} {'' if percent else f'{first}-{last} '}{policy.partition('=')[2]}: {took:.3f} ms, simulated {there:.3f}")
            for there, (name, first, last, percent, took) in zip(ms, of)]


def summary(of):
    size = sorted(100 * abs(row[2]) for row in of)
    return (f"{len(size):4} times: mean {statistics.mean(size):5.1f} %, median {statistics.median(size):5.1f}, "
            f"worst {size[-1]:6.1f}; bias {100 * statistics.mean(row[2] for row in of):+6.1f}")


def main(sim, options, modes):
    with gzip.open(os.path.join(HERE, "times-1.jsonl.gz"), "rt") as file:
        measured = [row for row in map(json.loads, file) if row.get("what") in ("alone", "together") and row.get("ms") and all(row["ms"])]
    print("to reach: mean {} %, worst {}".format(*TARGET))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        recordings = Recordings(sim, folder)
        names = sorted({name for name, _ in recordings.kernels})
        for mode in modes or MODES:
            for name in names:  # before the threads: each trace is made once
                for percent in (25, 50, 75) if mode == "own" else (None,):
                    recordings.trace(name, mode, percent)
            missing = {aside: sorted(name for name in names if mode != "own" and models.is_set_aside(name) == aside and not recordings.trace(name, mode))
                       for aside in (False, True)}
            if any(missing.values()):
                print(f"{mode:9}left out for want of counters or a second recording: {', '.join(missing[False]) or 'none'}; set aside: {len(missing[True])} requests")
            found = [error for of in pool.map(lambda row: errors(recordings, row, mode), measured) for error in of]
            for aside in (False, True):
                if "--ordinary" in options and aside or "--aside" in options and not aside:
                    continue
                for group in dict.fromkeys(row[0] for row in found):
                    of = [row for row in found if row[:2] == (group, aside)]
                    if not of:
                        continue
                    print(f"{mode:9}{'set aside' if aside else 'ordinary':10}{group:27}{summary(of)}", flush=True)
                    for row in sorted(of, key=lambda row: -abs(row[2])) if "--rows" in options and not aside else ():
                        print(f"    {100 * row[2]:+7.1f} % {row[3]}")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not {"--ordinary", "--aside", "--all", "--rows", *MODES}.issuperset(sys.argv[2:]):
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), sys.argv[2:], [mode for mode in sys.argv[2:] if mode in MODES])
