#!/usr/bin/env python3
"""Sets what was measured beside what was predicted: requests a second, p50 and p99 of all replicas.

  judge.py   reads predictions.json and measured.json.gz beside this file
"""
import gzip
import json
import os
import statistics

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = {"per_s": "per_s", "p50_ms": "p50_us", "p99_ms": "p99_us"}  # predicted: measured


def load(name):
    with (gzip.open if name.endswith(".gz") else open)(os.path.join(HERE, name)) as file:
        return json.load(file)


def rows():
    """Yields of each case its prediction, the mean of its repeats, and how far these are apart (most over least)."""
    def case(row):
        return row["server"], row["mode"], row["cores"], row["replicas"]
    runs = {}
    for run in load("measured.json.gz")["runs"]:
        runs.setdefault(case(run), []).append(run)
    found = []
    for predicted in load("predictions.json"):
        of = runs.get(case(predicted))
        if not of:
            continue
        row = {"case": case(predicted), "repeats": max(r["per_s"] for r in of) / min(r["per_s"] for r in of) - 1}
        for name, key in FIGURES.items():
            measured = statistics.mean(r[key] for r in of) / (1 if name == "per_s" else 1e3)
            row[name] = {"predicted": predicted[name], "measured": measured, "error": predicted[name] / measured - 1}
        found.append(row)
    return found


def main():
    all_rows = rows()
    print(f"{'server':13}{'mode':11}{'cores':8}{'n':>2}  {'/s: measured':>13}{'predicted':>11}{'error':>9}  {'p50, ms':>9}{'':>9}{'':>9}  {'p99, ms':>9}{'':>9}{'':>9}  repeats")
    for row in all_rows:
        server, mode, cores, n = row["case"]
        text = f"{server:13}{mode:11}{cores:8}{n:2}"
        for name, wide in (("per_s", 13), ("p50_ms", 9), ("p99_ms", 9)):
            of = row[name]
            text += f"  {of['measured']:{wide}.5g}{of['predicted']:{11 if wide == 13 else 9}.5g}{of['error']:+9.1%}"
        print(text + f"  {row['repeats']:7.1%}")
    for name in FIGURES:
        errors = [abs(row[name]["error"]) for row in all_rows]
        print(f"{name:7} mean {statistics.mean(errors):.1%}, most {max(errors):.1%}, within 12 %: {sum(e <= 0.12 for e in errors)} of {len(errors)}")


if __name__ == "__main__":
    main()
