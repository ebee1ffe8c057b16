#!/usr/bin/env python3
"""Scores predictions of how many times as long programs take where they share a GPU.

  score.py PREDICTIONS.csv...   columns id, predicted; also packed (.csv.gz).  `null`: nothing slows anything

Of each set, and of its rows that were set aside: error of the factor (mean, median, 95th percentile); the same beside what it costs to share (sum of errors over the sum
of measured factors less 1); rank correlation (Spearman).  A set is scored whose rows are all predicted.
"""
import csv
import gzip
import math
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def read(path):
    try:
        with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as file:
            return list(csv.DictReader(file))
    except OSError as error:
        sys.exit(f"score.py: {path}: {error.strerror}")


def predictions(path, rows):
    if path == "null":
        return {row["id"]: 1.0 for row in rows}
    known, found = {row["id"] for row in rows}, {}
    for number, row in enumerate(read(path), 2):
        try:
            name, value = row["id"], float(row["predicted"])
            if not (math.isfinite(value) and value > 0):
                raise ValueError
        except (KeyError, TypeError, ValueError):
            sys.exit(f"score.py: {path}: line {number}: expected an id and a factor above 0, as pairs-h200/a+b/half/a,1.25")
        if name not in known:
            sys.exit(f"score.py: {path}: line {number}: there is no row {name}; rows.csv.gz has their names")
        found[name] = value
    return found


def ranks(values):
    order, rank = sorted(range(len(values)), key=values.__getitem__), [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for i in order[at:end]:
            rank[i] = (at + end - 1) / 2
        at = end
    return rank


def correlation(a, b):
    """None where one of them is the same throughout."""
    a, b = ranks(a), ranks(b)
    return statistics.correlation(a, b) if len(set(a)) > 1 and len(set(b)) > 1 else None


def score(pairs):
    """Errors of [(measured, predicted)]."""
    errors = sorted(abs(p / m - 1) for m, p in pairs)
    cost = sum(abs(m - 1) for m, _ in pairs)
    return {"rows": len(pairs), "mean": statistics.mean(errors), "median": statistics.median(errors), "p95": errors[math.ceil(0.95 * len(errors)) - 1],
            "cost": sum(abs(p - m) for m, p in pairs) / cost if cost else math.nan, "rank": correlation(*zip(*pairs))}


def table(rows, predicted):
    """[(set, score or number of rows that are missing)]; then those of rows that were set aside."""
    found = []
    for of in dict.fromkeys(row["set"] for row in rows):
        for aside in ("", "1"):
            mine = [row for row in rows if row["set"] == of and row["aside"] >= aside]
            if not mine or (aside and len(mine) == sum(row["set"] == of for row in rows)):
                continue
            missing = sum(row["id"] not in predicted for row in mine)
            found.append((of + (", set aside" if aside else ""), missing or score([(float(row["measured"]), predicted[row["id"]]) for row in mine])))
    return found


def main(paths):
    rows = read(os.path.join(HERE, "rows.csv.gz"))
    for path in paths:
        print(f"\n{os.path.basename(path).split('.')[0]:36}{'rows':>6}{'mean':>8}{'median':>8}{'p95':>8}{'of cost':>9}{'rank':>7}")
        for of, s in table(rows, predictions(path, rows)):
            if isinstance(s, int):
                print(f"{of:36}{s:6} rows are not predicted")
            else:
                print(f"{of:36}{s['rows']:6}" + "".join(f"{100 * s[key]:6.1f} %" for key in ("mean", "median", "p95")) + f"{100 * s['cost']:7.1f} %"
                      + (f"{s['rank']:7.2f}" if s["rank"] is not None else "      -"))


if __name__ == "__main__":
    main(sys.argv[1:]) if len(sys.argv) > 1 else sys.exit(__doc__)
