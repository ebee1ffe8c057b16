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


def rows(predictions=os.path.join(HERE, "predictions.json")):
    """By case: of each measured setting whether it held, its goal (larger is better), the promised figures, measured and predicted, and its words."""
    with open(predictions) as file:
        cases = json.load(file)
    with gzip.open(os.path.join(HERE, "measured.json.gz")) as file:
        runs = {(run["case"], run["setting"]): run["clients"] for run in json.load(file)["runs"]}
    for name, case in cases.items():
        names = [c["network"] for c in case["clients"]]
        wanted, aim = case["goal"].rsplit(":", 1)
        measured = []
        for setting in (s for s in case["settings"] if (name, s["setting"]) in runs):
            of, holds, shown, errors = dict(zip(names, runs[name, setting["setting"]])), True, [], []
            for promise in case["promised"]:
                client, limit = promise.split(":", 1)
                metric, limit = limit.split("=")
                was, said, (low, high) = figure(of[client], metric), predicted(setting, promise), spread(of[client], metric)
                kept = was <= float(limit[:-2])
                holds = holds and kept
                errors.append(said / was - 1)
                shown.append(f"{client} {metric} {was:.2f} [{low:.2f}, {high:.2f}] ms ({said:.2f}){'' if kept else ' BROKEN'}")
            value = figure(of[wanted], aim)
            shown.append(f"{aim} {value:.2f} ({setting['goal']:.2f})")
            measured.append({"setting": setting, "holds": holds, "value": value if aim == "throughput" else -value, "errors": errors, "shown": "; ".join(shown)})
        if measured:  # else it is yet to be
            yield name, case, measured


def is_right(case, measured):
    """What was named held, and its goal is within 5 % of the best that did; where none was named, nothing held."""
    held = [row["value"] for row in measured if row["holds"]]
    if not case["holds"]:
        return not held
    named = next((row for row in measured if row["setting"]["advised"]), None)
    return bool(named and named["holds"] and named["value"] >= max(held) - ENOUGH * abs(max(held)))


def main(*predictions):
    right, errors, cases = 0, {}, list(rows(*predictions))
    for name, case, measured in cases:
        print(f"\n{name}: {', '.join(case['promised'])}; wanted {case['goal']}")
        for row in measured:
            print(f"   {'->' if row['setting']['advised'] else '  '} {row['setting']['setting']}: {row['shown']}")
            errors.setdefault(row["setting"]["mode"], []).extend(row["errors"])
        right += is_right(case, measured)
        print(f"   {'right' if is_right(case, measured) else 'WRONG'}" + ("" if case["holds"] else ": none was said to hold"))
    for mode, of in sorted(errors.items()):
        print(f"{mode}: promised figures off by {100 * statistics.mean(map(abs, of)):.1f} % in the mean, {100 * statistics.mean(of):+.1f} % signed, {len(of)} of them")
    print(f"\nright in {right} of {len(cases)} cases; measured [nine of ten resampled] (predicted)")


if __name__ == "__main__":
    main(*sys.argv[1:])
