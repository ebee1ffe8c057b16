#!/usr/bin/env python3
"""What the calibrations here say of each constant, card by card.

    table.py                      constants of the H200s: least, most, how far apart, and the largest spread within a file
    table.py --all                all constants, and the second H100's beside them
    table.py --moves build/bin/sim   of those more than 3 % apart, how far 3 % moves the pairs' mean simulated slowdown (7 s of a core each)
"""

import argparse
import csv
import json
import re
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CARDS = {  # of each file; the -second files name the first card's UUID (README)
    "h200-first": "GPU-0bb6ea9f-0b69-015d-18fe-a5dbaafec4b2",
    "h200-second": "GPU-d787f051-447a-01b5-cbb2-1ced6301a160",
    "h200-third": "GPU-b8d34e37-4d04-5317-be8c-f6731f19c418",
    "h200-fourth": "GPU-5974ac44-45fc-55df-5a38-ca17121dcd6f",
    "h200-fifth": "GPU-d5fe117f-c655-3062-2203-5852ae54eee3",
    "h100-first": "GPU-8e13b55c-30e0-c68d-a742-8d55534ccc53",
    "h100-second": "GPU-4273c401-ed43-f881-9f34-3bf984567d9c",
    "h100-fourth": "GPU-f5c56712-9ebc-4638-e3b6-45ee95481385",
    "h100-fifth": "GPU-43cf3af8-d36f-ceaf-a075-b16b1d92a05f",
    "h100-third": "GPU-17c07f79-fcc0-1191-4661-c55918bbde62",
}
GROUPS = ("scheduling", "latencies", "preemption", "memory", "contention")
BASE = HERE / "h200-third.json"
REFERENCE = HERE.parent / "reference" / "h200-corun.json.gz"


def measured(path):
    """Each number that the card was asked for: its value, and its spread over repetitions in percent if the file has one."""
    found = {}
    for group, members in json.loads(path.read_text()).items():
        for key, leaf in members.items() if group in GROUPS else ():
            source = leaf["source"]
            if "by sim calibrate" not in source or "the same share of L2" in source or not isinstance(leaf["value"], (int, float)):
                continue
            spread = re.search(r"spread ([\d.]+) %", source)
            found[f"{group}/{key}"] = leaf["value"], float(spread.group(1)) if spread else None
    return found


def by_card():
    """{card: {constant: [(value, spread) of each calibration]}}"""
    cards = {name: {} for name in CARDS}
    for path in sorted(HERE.glob("*.json")):
        card = cards[path.stem.removesuffix("-again")]
        for constant, what in measured(path).items():
            card.setdefault(constant, []).append(what)
    return cards


def apart(cards, constant):
    """Least and most mean of an H200's calibrations, how far apart in percent, and the largest spread within a file."""
    seen = [card[constant] for name, card in cards.items() if name.startswith("h200") and constant in card]
    means = [sum(v for v, _ in of) / len(of) for of in seen]
    spreads = [s for of in seen for _, s in of if s is not None]
    return min(means), max(means), 100 * (max(means) / min(means) - 1) if min(means) > 0 else 0.0, max(spreads, default=None), len(means)


def table(everything=False):
    cards = by_card()
    constants = dict.fromkeys(c for name, card in cards.items() if name.startswith("h200") for c in card)
    rows = []
    for constant in constants:
        least, most, percent, spread, n = apart(cards, constant)
        if everything or percent > 3:
            h100 = cards["h100-second"].get(constant)
            rows.append((constant, n, least, most, percent, spread, sum(v for v, _ in h100) / len(h100) if h100 else None))
    return rows, len(constants)


def mean_slowdown(sim, gpu):
    """Of the simulated pairs."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sim, "validate", "--gpu", gpu, "--reference", REFERENCE, "--out", folder], check=True, stdout=subprocess.DEVNULL)
        with open(Path(folder) / "rows.csv", newline="") as rows:
            values = [float(row["simulated"]) for row in csv.DictReader(rows) if not row["name"].endswith("/stp")]
    return sum(values) / len(values)


def moved(sim, constant, before):
    """Percent by which 3 % more of it moves the pairs' mean simulated slowdown."""
    group, key = constant.split("/")
    description = json.loads(BASE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        gpu = Path(folder) / "changed.json"
        leaf = description[group][key]
        leaf["value"] = type(leaf["value"])(1.03 * leaf["value"])
        gpu.write_text(json.dumps(description))
        return 100 * (mean_slowdown(sim, gpu) / before - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all constants")
    parser.add_argument("--moves", metavar="SIM", help="path of sim")
    a = parser.parse_args()
    rows, n = table(a.all)
    before = mean_slowdown(a.moves, BASE) if a.moves else None
    print("| constant | cards | least | most | apart | spread within a file |" + (" H100 |" if a.all else "") + (" 3 % moves pairs by |" if a.moves else ""))
    print("|---" * (6 + a.all + bool(a.moves)) + "|")
    for constant, cards, least, most, percent, spread, h100 in rows:
        cells = [constant, cards, f"{least:.5g}", f"{most:.5g}", f"{percent:.1f} %", "-" if spread is None else f"{spread:.1f} %"]
        if a.all:
            cells.append("-" if h100 is None else f"{h100:.5g}")
        if a.moves:
            cells.append(f"{moved(a.moves, constant, before):+.3f} %" if percent > 3 else "-")
        print("| " + " | ".join(str(c) for c in cells) + " |")
    if not a.all:
        print(f"\n{len(rows)} of {n} constants are more than 3 % apart.")


if __name__ == "__main__":
    main()
