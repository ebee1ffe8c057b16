#!/usr/bin/env python3
"""Sets what was measured beside what was predicted: whether the named setting held what was promised, and how far its goal is from the best
setting that held.

  judge.py [PREDICTIONS]    reads them, and measured.json.gz beside this file
"""
import gzip
import json
import os
import random
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ENOUGH = 0.05


def p99(values, unfinished=0):
    """Of all that came: what did not end counts as longest."""
    ascending = sorted(values) + [float("inf")] * unfinished
    return ascending[-(-99 * len(ascending) // 100) - 1]


def figure(measured, metric):
    if metric == "throughput":
        return measured["per_s"]
    if metric == "ttft":
        return p99(measured["first_us"], measured["unfinished"]) / 1e3
    if metric == "tbt":  # a sequence's mean
        return p99([statistics.mean(gaps) for gaps in measured["gaps_us"]]) / 1e3
    return p99(measured["latencies_us"], measured["unfinished"]) / 1e3


def spread(measured, metric):
    """Nine of ten of 200 resamplings, in blocks of 50 requests, as they follow from each other."""
    if metric == "throughput":
        return None
    values = {"ttft": "first_us", "tbt": "gaps_us"}.get(metric, "latencies_us")
    of = [statistics.mean(gaps) for gaps in measured[values]] if metric == "tbt" else measured[values]
    dice, blocks = random.Random(1), [of[i:i + 50] for i in range(0, len(of), 50)]
    found = sorted(p99(sum((dice.choice(blocks) for _ in blocks), [])) / 1e3 for _ in range(200))
    return found[10], found[189]


def predicted(setting, promise):
    value = setting["promises"][promise]
    return float("inf") if value is None else value


def main(predictions=os.path.join(HERE, "predictions.json")):
    with open(predictions) as file:
        cases = json.load(file)
    with gzip.open(os.path.join(HERE, "measured.json.gz")) as file:
        runs = {(run["case"], run["setting"]): run["clients"] for run in json.load(file)["runs"]}
    right, errors = 0, {}
    for name, case in cases.items():
        names = [c["network"] for c in case["clients"]]
        wanted, aim = case["goal"].rsplit(":", 1)
        print(f"\n{name}: {', '.join(case['promised'])}; wanted {case['goal']}")
        rows = []
        for setting in case["settings"]:
            found = runs.get((name, setting["setting"]))
            if found is None:
                print(f"   {setting['setting']}: not measured")
                continue
            of, holds, shown = dict(zip(names, found)), True, []
            for promise in case["promised"]:
                client, limit = promise.split(":", 1)
                metric, limit = limit.split("=")
                was, said = figure(of[client], metric), predicted(setting, promise)
                low, high = spread(of[client], metric)
                holds = holds and was <= float(limit[:-2])
                errors.setdefault(setting["mode"], []).append(said / was - 1)
                shown.append(f"{client} {metric} {was:.2f} [{low:.2f}, {high:.2f}] ms ({said:.2f}){'' if was <= float(limit[:-2]) else ' BROKEN'}")
            value = figure(of[wanted], aim)
            shown.append(f"{aim} {value:.2f} ({setting['goal']:.2f})")
            rows.append((setting["advised"], holds, value if aim == "throughput" else -value))
            print(f"   {'->' if setting['advised'] else '  '} {setting['setting']}: {'; '.join(shown)}")
        held = [value for _, holds, value in rows if holds]
        named = next((row for row in rows if row[0]), None)
        if case["holds"]:
            good = bool(named and named[1] and named[2] >= max(held) - ENOUGH * abs(max(held)))
        else:
            good = not held
        right += good
        print(f"   {'right' if good else 'WRONG'}" + ("" if case["holds"] else ": none was said to hold"))
    for mode, of in sorted(errors.items()):
        print(f"{mode}: promised figures off by {100 * statistics.mean(map(abs, of)):.1f} % in the mean, {100 * statistics.mean(of):+.1f} % signed, {len(of)} of them")
    print(f"\nright in {right} of {len(cases)} cases; measured [nine of ten resampled] (predicted)")


main(*sys.argv[1:])
