#!/usr/bin/env python3
"""The roofline as an entry: what shares a GPU is slowed by the fullest of DRAM, L2 and issue slots, and by nothing else.

  roofline.py OUT.csv

What a program takes alone of each is known from its kernels' counters. On a part of the GPU it has that part of the issue slots; in turns each waits for all others.
"""
import csv
import gzip
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from rows import EXPERIMENTS, NETWORKS, PAIRS  # noqa: E402
from score import read  # noqa: E402

PARTS = {"half": (0.5, 0.5), "quarter": (32 / 132, 100 / 132)}
SHARED = ("dram", "l2")


def card_of(name):
    gpus = []
    while name:
        gpus.append(load(os.path.join(HERE, f"../../traces/gpus/{name}.json")))
        name = gpus[-1].get("extends")

    def value(group, key):
        found = next(gpu[group][key] for gpu in gpus if key in gpu.get(group, {}))
        return found["value"] if isinstance(found, dict) else found
    return {"dram": value("contention", "dram_read_bytes_per_second"), "l2": value("contention", "l2_read_bytes_per_second"),
            "issue": value("chip", "sms") * value("sm", "sub_partitions") * value("chip", "clock_hz")}


def use(kernels, card):
    """Share of each resource that kernels, [(seconds, counters)], take one after the other."""
    took = sum(seconds for seconds, _ in kernels)
    amount = {"dram": ("dram_read_bytes", "dram_write_bytes"), "l2": ("l2_bytes",), "issue": ("warp_instructions",)}
    return {key: sum(of.get(name, 0) for _, of in kernels for name in names) / took / card[key] for key, names in amount.items()}


def factor(mine, others, part=None):
    """`part`: of the SMs that are mine alone; none: all are shared."""
    together = {key: mine[key] + sum(other[key] for other in others) for key in mine}
    issue = together["issue"] if part is None else mine["issue"] / part
    return max(1, issue, *(together[key] for key in SHARED))


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path) as file:
        return json.load(file)


def pairs(of, card, path):
    kernels = {name: use([(k["solo_ms"] / 1e3 / k["launches"], k.get("ncu") or {})], card) for name, k in load(os.path.join(EXPERIMENTS, path))["kernels"].items()}
    def predict(name):
        pair, mode, client = name.split("/")[1:]
        names, at = pair.split("+"), "ab".index(client)
        return factor(kernels[names[at]], [kernels[names[1 - at]]], PARTS[mode][at] if mode in PARTS else None)
    return predict


def networks(of, card, path):
    folder, known, mixes = os.path.join(EXPERIMENTS, path), {}, {}
    def network(name):
        if name not in known:
            trace = load(os.path.join(folder, f"traces/{name}.json.gz"))
            kernels = {k["name"]: (k["solo_time_ns"] / 1e9, k.get("counters", {})) for k in trace["kernels"] if "solo_time_ns" in k}
            ops = next(p for p in trace["programs"] if p["name"] == name + ".graph")["ops"]
            known[name] = use([kernels[op["launch"]] for op in ops if op.get("launch") in kernels], card)
        return known[name]
    def predict(name):
        mix, mode, client = name.split("/")[1:]
        kind = mode if mode in ("halves", "mps_percent") else ""
        if (mix, kind) not in mixes:
            mixes[mix, kind] = load(os.path.join(folder, f"mixes/{mix}{'.' + kind if kind else ''}.json"))["clients"]
        clients = mixes[mix, kind]
        if mode == "timeslice":
            return len(clients)
        return factor(network(client), [network(c["program"].split(".")[0]) for c in clients if c["name"] != client], 1 / len(clients) if kind else None)
    return predict


def parts(card):
    data = load(os.path.join(EXPERIMENTS, "h200/parts/kernels-1.json.gz"))
    from rows import judge_of_parts
    kernels = {aside: judge_of_parts().chosen(data, bool(aside))[0] for aside in (0, 1)}
    def predict(name, aside):
        operation, sms, number = name.split("/")[1:]
        kernel = kernels[aside][int(number)][2]
        return factor(use([(kernel["us_by_sms"]["132"] / 1e6, kernel["ncu"])], card), [], int(sms) / 132)
    return predict


def main(out):
    predict = {of: pairs(of, card_of(card), path) for (of, card), path in PAIRS.items()}
    predict |= {of: networks(of, card_of(card), path) for (of, card), path in NETWORKS.items()}
    of_parts = parts(card_of("h200"))
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("id", "predicted"))
        for row in read(os.path.join(HERE, "rows.csv.gz")):
            value = of_parts(row["id"], int(row["aside"])) if row["set"] == "parts-h200" else predict[row["set"]](row["id"])
            writer.writerow((row["id"], f"{value:.5g}"))


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 2 else sys.exit(__doc__)
