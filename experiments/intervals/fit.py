#!/usr/bin/env python3
"""How wide the simulator's numbers are: between what nine of ten measured values lie.

  fit.py SIM [--rows FILE]   SIM: the `sim` command, 5 min.  Writes sim/run/interval_table.h from ordinary measurements, and prints how
                             the intervals do on those set aside.  --rows: keeps what was simulated in FILE, and takes it from there if it is there

Sources, all of H200s: networks (mixes in six modes), parts (kernels), splits (decode and prefill), policies (kernels of ours under 14
policies).  A row is one number of one client: how it shares the GPU, what is known of its kernels, alone, simulated, measured.
"""
import collections
import csv
import gzip
import importlib.util
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
TABLE = os.path.join(ROOT, "sim/run/interval_table.h")
SHARING = ("alone", "turns", "together", "ranked", "part", "resized")  # as in sim/run/intervals.h
KERNELS = ("several", "one")  # in which a client spends its time
KNOWN = ("time", "counters", "part")
MEASURES = ("latency", "tail", "throughput", "stp")
OUTSIDE = 0.03  # of the ordinary values to either side; those set aside scatter more, and nine of ten are promised
LEAST_ROWS = 24  # from which a quantile is taken
REPEATS = 0.03  # of a time alone, as in intervals.cpp

Row = collections.namedtuple("Row", "source what aside sharing kernels known measure alone simulated measured")


def module_of(name, *path):
    """An experiment's script beside its own neighbours, which other experiments have under the same names."""
    folder = os.path.join(ROOT, "experiments", *path)
    for neighbour in ("measure", "models", "programs", "kernels", "judge", "collect"):
        sys.modules.pop(neighbour, None)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.pop(0)
    return module


def validated(sim, folder):
    """[(name's parts, simulated, measured)] of `sim validate`."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sim, "validate", folder, "--out", out], check=True, capture_output=True)
        (file,) = os.listdir(out)
        with open(os.path.join(out, file)) as lines:
            return [(row["name"].split("/"), float(row["simulated"]), float(row["measured"])) for row in csv.DictReader(lines)]


def of_networks(sim):
    prior, networks = module_of("prior", "h200", "networks"), os.path.join(ROOT, "experiments/h200/networks")
    aside = set(prior.set_aside())
    members = {mix["name"]: mix["networks"] for mix in prior.load("networks.json.gz")["mixes"]}
    modes = {"timeslice": "turns", "streams": "together", "priority": "ranked", "mps": "together", "mps_percent": "part", "halves": "part"}
    measures = {"mean_us": "latency", "p50_us": "latency", "p99_us": "tail", "per_s": "throughput", "stp": "stp"}
    with tempfile.TemporaryDirectory() as stripped:
        prior.stripped_copy(stripped)
        for known, folder in (("counters", networks), ("time", stripped)):
            rows = validated(sim, folder)
            alone = {name[0]: simulated for name, simulated, _ in rows if name[1:] == ["alone_ms"]}
            yield from (Row("networks", name, name in aside, "alone", "several", known, "latency", simulated, simulated, measured)
                        for (name, *rest), simulated, measured in rows if rest == ["alone_ms"])
            for name, simulated, measured in rows:
                if len(name) < 3 or name[-1] not in measures:
                    continue
                ms = alone[name[2]] if len(name) == 4 else math.nan
                yield Row("networks", "/".join(name), bool(set(members[name[0]]) & aside), modes[name[1]], "several", known, measures[name[-1]],
                          1e3 / ms if name[-1] == "per_s" else 1e3 * ms, simulated, measured)


def of_parts(sim):
    judge = module_of("judge", "h200", "parts")
    with gzip.open(os.path.join(judge.HERE, "kernels-1.json.gz")) as file:
        data = json.load(file)
    for aside in (False, True):
        kernels, _ = judge.chosen(data, aside)
        for mode, known in (("none", "time"), ("counters", "counters"), ("second", "part")):
            for sms in data["sms"]:
                if sms == judge.WHOLE or mode == "second" and sms == judge.SECOND:
                    continue
                for us, (name, _, kernel) in zip(judge.simulated_us(sim, kernels, mode, sms), kernels):
                    times = kernel["us_by_sms"]
                    if str(sms) in times and (mode != "second" or str(judge.SECOND) in times):
                        yield Row("parts", f"{name} on {sms}", aside, "part", "one", known, "latency", times[str(judge.WHOLE)], us,
                                  times[str(sms)])


def of_splits(sim):
    judge = module_of("judge", "h200", "splits")
    with gzip.open(os.path.join(judge.HERE, "times-1.jsonl.gz"), "rt") as file:
        measured = [row for row in map(json.loads, file) if row.get("what") in ("alone", "together") and row.get("ms") and all(row["ms"])]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        recordings = judge.Recordings(sim, folder)
        for mode, known in (("none", "time"), ("counters", "counters"), ("second", "part")):
            alone = {}
            for name in sorted({name for name, _ in recordings.kernels}):  # before the threads: each trace is made once
                if trace := recordings.trace(name, mode):
                    alone[name] = judge.simulated_ms(recordings, "tpc-mask", [(trace, 0, 132)], 10)[0]

            def rows_of(row, mode=mode, known=known, alone=alone):
                group, policy, of = judge.case(row)
                if not all(name in alone for name, *_ in of):
                    return []
                told = group.startswith("alone") and recordings.is_told(row, mode)
                sharing = ("alone" if group == "alone, whole GPU" else "together" if group == "side by side, MPS" else "part")
                traces = [(recordings.trace(name, mode), first, last) for name, first, last, *_ in of]
                there = judge.simulated_ms(recordings, policy, traces, max(took for *_, took in of))
                aside = any(judge.models.is_set_aside(name) for name, *_ in of)
                return [] if told else [Row("splits", f"{name} {group} {first}-{last} {policy}", aside, sharing, "several", known, "latency", alone[name], ms, took)
                                        for ms, (name, first, last, _, took) in zip(there, of)]
            for found in pool.map(rows_of, measured):
                yield from found


def of_policies(sim):
    measures = {"p99_ms": "tail", "progress": "throughput", "stp": "stp"}
    sharing = {"timeslice": "turns", "priority": "ranked", "lookahead": "ranked", "tpc-mask": "part", "static-split": "part"} | dict.fromkeys(
        ("fcfs", "mps", "wait", "sequential"), "together")
    for name, simulated, measured in validated(sim, os.path.join(ROOT, "experiments/h200/policies")):
        if name[-1] in measures and measured > 0 and simulated > 0:
            yield Row("policies", "/".join(name), False, sharing.get(name[1].partition(":")[0], "resized"), "one", "part", measures[name[-1]], math.nan,
                      simulated, measured)


def simulated(sim):
    return [row for source in (of_networks, of_parts, of_splits, of_policies) for row in source(sim) if row.simulated > 0 and row.measured > 0]


def quantile(sorted_values, share):
    at = share * (len(sorted_values) - 1)
    low = int(at)
    return sorted_values[low] + (sorted_values[min(low + 1, len(sorted_values) - 1)] - sorted_values[low]) * (at - low)


def off(row):
    return math.log(row.measured / row.simulated)


def fit(rows):
    """{(sharing, kernels, known, measure): (low, high, rows, of which key)}, logarithms; where too few were measured, of the nearest key that has
    enough."""
    by_key = collections.defaultdict(list)
    for row in rows:
        by_key[row[3:7]].append(off(row))
    # What is known of kernels changes nothing where one has the whole GPU.
    for sharing in ("alone", "turns"):
        for measure in MEASURES:
            keys = list(itertools.product([sharing], KERNELS, KNOWN, [measure]))
            all_of = [e for key in keys for e in by_key[key]]
            by_key.update(dict.fromkeys(keys, all_of))
    table = {}
    for sharing, kernels, known, measure in itertools.product(SHARING, KERNELS, KNOWN, MEASURES):
        tries = itertools.product([sharing, "together" if sharing == "ranked" else "part"], [measure, "latency"], [kernels, *KERNELS], [known, "counters", "time", "part"])
        key = next(key for s, m, n, k in tries if len(by_key[key := (s, n, k, m)]) >= LEAST_ROWS)
        values = sorted(by_key[key])
        low, high = min(quantile(values, OUTSIDE), -REPEATS), max(quantile(values, 1 - OUTSIDE), REPEATS)
        if measure != "latency" and KNOWN.index(key[2]) > KNOWN.index(known):  # of kernels that are known better: no surer than the latency
            below, above, *_ = table[sharing, kernels, known, "latency"]
            if measure == "tail":
                low, high = min(low, below), max(high, above)
            elif measure == "throughput" or sharing == "part":
                low, high = min(low, -above), max(high, -below)
        table[sharing, kernels, known, measure] = (low, high, len(values), key)
    return table


def interval(table, row):
    """As intervals.cpp has it: no client is faster than alone."""
    low, high, *_ = table[row[3:7]]
    if row.measure in ("latency", "tail") and row.alone == row.alone:
        low = max(low, min(0, math.log(row.alone / row.simulated)) + math.log(1 - REPEATS))
    if row.measure == "throughput" and row.alone == row.alone:
        high = min(high, max(0, math.log(row.alone / row.simulated)) + math.log(1 + REPEATS))
    return low, high


def score(low, high, value, outside=0.1):
    """The interval score (Gneiting and Raftery, 2007): its width, and by how much it is missed."""
    return high - low + 2 / outside * (max(0, low - value) + max(0, value - high))


def constant(rows):
    """x of the interval of plus and minus x that scores best, in hundredths."""
    return min((k / 100 for k in range(1, 200)), key=lambda x: sum(score(-x, x, off(row)) for row in rows))


def write(table):
    def lines():
        for sharing in SHARING:
            yield f"    {{  // {sharing}"
            for kernels in KERNELS:
                yield f"        {{  // {kernels}"
                for known in KNOWN:
                    keys = [(sharing, kernels, known, measure) for measure in MEASURES]
                    cells = ", ".join("{{{:.3f}, {:.3f}}}".format(*map(math.exp, table[key][:2])) for key in keys)
                    rows = ", ".join(f"{table[key][2]}{'' if table[key][3] == key else '*'}" for key in keys)
                    yield f"            {{{cells}}},  // {known}: {rows}"
                yield "        },"
            yield "    },"
    sizes = "".join(f"[{len(of)}]" for of in (SHARING, KERNELS, KNOWN, MEASURES))
    with open(TABLE, "w") as file:
        print("// Written by experiments/intervals/fit.py from measurements on H200s, those set aside left out.\n#pragma once\n\n"
              '#include "traces/timeline/metrics.h"\n\nnamespace corun::sim {\n\n// clang-format off\n'
              "// By sharing, number of kernels, what is known, and measure: factors of the simulated value; how many rows tell them, with a star\n"
              f"// where these are of the nearest that has enough.\ninline constexpr Interval kIntervals{sizes} = {{", file=file)
        print(*lines(), "};\n// clang-format on\n\n}  // namespace corun::sim", sep="\n", file=file)


def print_scores(table, ordinary, aside):
    x = constant(ordinary)
    print(f"one constant for all: +-{100 * x:.0f} % (of logarithms), fitted on {len(ordinary)} ordinary rows")
    print(f"{'set aside':22}{'rows':>6}{'inside':>9}{'width':>8}{'score':>8}{'constant':>10}{'better':>8}")
    groups = [(source, [row for row in aside if row.source == source]) for source in dict.fromkeys(row.source for row in aside)]
    groups += [(f"known: {known}", [row for row in aside if row.known == known]) for known in KNOWN]
    for name, rows in [*groups, ("all", aside)]:
        found = [(interval(table, row), off(row)) for row in rows]
        inside = statistics.mean(low <= e <= high for (low, high), e in found)
        width = statistics.median(high - low for (low, high), _ in found)
        mine, other = (statistics.mean(score(low, high, e) for (low, high), e in of) for of in (found, [((-x, x), e) for _, e in found]))
        print(f"{name:22}{len(rows):6}{100 * inside:7.0f} %{width:8.2f}{mine:8.3f}{other:10.3f}{100 * (1 - mine / other):6.0f} %")


def main(sim, kept):
    if kept and os.path.exists(kept):
        with open(kept) as file:
            rows = [Row(*row) for row in json.load(file)]
    else:
        rows = simulated(sim)
        if kept:
            with open(kept, "w") as file:
                json.dump(rows, file)
    ordinary, aside = [row for row in rows if not row.aside], [row for row in rows if row.aside]
    table = fit(ordinary)
    write(table)
    print_scores(table, ordinary, aside)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(os.path.abspath(sys.argv[1]), None)
    elif len(sys.argv) == 4 and sys.argv[2] == "--rows":
        main(os.path.abspath(sys.argv[1]), sys.argv[3])
    else:
        sys.exit(__doc__)
