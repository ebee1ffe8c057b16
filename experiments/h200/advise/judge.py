#!/usr/bin/env python3
"""Sets what was measured beside what was predicted, and says of each case whether the setting that was advised is right: what
was promised held, and what was wanted is within 5 % of the best setting that held.

  judge.py [PREDICTIONS]   reads them (predictions.json), and measured-*.json.gz beside this file
"""
import glob
import gzip
import json
import os
import statistics
import sys

from cases import names

HERE = os.path.dirname(os.path.abspath(__file__))
ENOUGH = 0.05


def measured_of(case, runs):
    """By client: p99 in ms of all repeats, requests/s."""
    found = {}
    for i, name in enumerate(names(case["clients"])):
        of = [r[i] for r in runs]
        if "latencies_us" in of[0]:
            latencies = sum((r["latencies_us"] for r in of), [])
            dropped = sum(r["dropped"] for r in of)
            found[name] = {"p99": statistics.quantiles(latencies, n=100, method="inclusive")[-1] / 1e3, "of": len(latencies) + dropped,
                           "dropped": dropped}
        else:
            found[name] = {"throughput": statistics.mean([r["per_s"] for r in of])}
    return found


def main(predictions=os.path.join(HERE, "predictions.json")):
    with open(predictions) as file:
        cases = json.load(file)
    runs = {}
    for path in sorted(glob.glob(os.path.join(HERE, "measured-*.json.gz"))):
        with gzip.open(path) as file:
            for run in json.load(file)["runs"]:
                runs[run["case"], run["setting"]] = run["repeats"]
    right, errors = 0, {}
    for name, case in cases.items():
        wanted, metric = case["goal"].rsplit(":", 1)
        print(f"\n{name}: {', '.join(case['promised'])}; wanted {case['goal']}")
        rows = []
        for setting in case["settings"]:
            key = name, setting["setting"]
            if key not in runs:
                print(f"   {setting['setting']}: not measured")
                continue
            found, predicted = measured_of(case, runs[key]), {c["name"]: c for c in setting["clients"]}
            holds, shown = True, []
            for promise in case["promised"]:
                client, limit = promise.split(":p99=")
                was = found[client]
                held = was["p99"] <= float(limit[:-2]) and was["dropped"] <= 0.01 * was["of"]
                holds = holds and held
                errors.setdefault(setting["mode"], []).append(predicted[client]["p99_ms"] / was["p99"] - 1)
                shown.append(f"{client} {was['p99']:.2f} ms ({predicted[client]['p99_ms']:.2f}){'' if held else ' BROKEN'}")
            value = found[wanted][metric]
            was = predicted[wanted]["throughput_per_s" if metric == "throughput" else "p99_ms"]
            shown.append(f"{case['goal']} {value:.2f} ({was:.2f})")
            rows.append((setting, holds, value if metric == "throughput" else -value))
            print(f"   {'->' if setting['advised'] else '  '} {setting['setting']}: {'; '.join(shown)}")
        held = [value for _, holds, value in rows if holds]
        best = max(held) if held else None
        advised = [(holds, value) for setting, holds, value in rows if setting["advised"]]
        good = (bool(advised) and advised[0][0] and abs(best - advised[0][1]) <= ENOUGH * abs(best)) if held else not advised
        right += good
        print(f"   {'right' if good else 'WRONG'}")
    for mode, of in errors.items():
        print(f"p99 under {mode}: off by {100 * statistics.mean(map(abs, of)):.1f} % in the mean, {100 * statistics.mean(of):+.1f} % signed, "
              f"{len(of)} of them")
    everything = [abs(e) for of in errors.values() for e in of]
    print(f"p99 in all: off by {100 * statistics.mean(everything):.1f} % in the mean, {100 * max(everything):.1f} % at most")
    print(f"\nright in {right} of {len(cases)} cases; measured (predicted)")


main(*sys.argv[1:])
