#!/usr/bin/env python3
"""Collects the benchmark's rows, and the simulator's predictions of them, from `sim validate` and the measured parts.

  rows.py SIM   writes rows.csv.gz and entries/corun.csv.gz beside this file; 6 min of two cores

A row: how many times as long a program takes as alone on the whole GPU.  Its columns:
  id       SET/MIX/MODE/CLIENT, of parts SET/OPERATION/SMS/KERNEL; what a prediction names
  set      pairs (two kernels that share a GPU), networks (two to four), parts (a kernel alone on fewer SMs)
  card     its name in traces/gpus
  alone_ms its time alone on the whole GPU, in ms
  measured times as long in the mean
  aside    1: named or drawn before anything of it was measured; see README.md
"""
import csv
import gzip
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERIMENTS = os.path.join(HERE, "..")
PAIRS = {  # set, card: measured pairs
    ("pairs-h200", "h200"): "reference/h200-corun.json.gz",
    ("pairs-h200-second-card", "h200"): "reference/h200-corun-2.json.gz",
    ("pairs-h200-further", "h200"): "h200/corun_heldout/corun.json",
    ("pairs-h100", "h100-sxm"): "h100/pairs/reference.json.gz",
    ("pairs-h100-further", "h100-sxm"): "h100/pairs/heldout.json.gz",
}
NETWORKS = {("networks-h200", "h200"): "h200/networks", ("networks-h100", "h100-sxm"): "h100/networks", ("networks-h100-aside", "h100-sxm"): "h100/networks_aside"}
SET_ASIDE = {"lstm_b32", "moe_b8", "yolo_b4", "train_dlrm", "wav2vec2_10s", "deeplab_b2", "decode_gqa", "train_bert"}  # as ../h200/networks/networks.py has them
FIELDS = ("id", "set", "card", "alone_ms", "measured", "aside")


def validated(sim, *arguments):
    """Yields the rows of `sim validate --out`: (name, measured, simulated)."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sim, "validate", *arguments, "--out", folder], stdout=subprocess.DEVNULL, check=True)
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), newline="") as file:
                for row in csv.DictReader(file):
                    yield name, row["name"], float(row["measured"]), float(row["simulated"])


def pairs(sim, of, card, path):
    """A client's slowdown over its launches; alone: of one launch."""
    with (gzip.open if path.endswith(".gz") else open)(os.path.join(EXPERIMENTS, path)) as file:
        kernels = json.load(file)["kernels"]
    for file, name, measured, simulated in validated(sim, "--reference", os.path.join(EXPERIMENTS, path), "--gpu", card):
        if file != "rows.csv" or name.rsplit("/", 1)[1] not in "ab":
            continue
        pair, mode, client = name.split("/")
        kernel = kernels[pair.split("+")["ab".index(client)]]
        yield (f"{of}/{name}", of, card, kernel["solo_ms"] / kernel["launches"], measured, 0), simulated


def networks(sim, of, card, path):
    """A service's mean latency in times of that alone as a graph; of what follows itself, the rate alone in times of that measured."""
    found = [(name.split("/"), measured, simulated) for _, name, measured, simulated in validated(sim, os.path.join(EXPERIMENTS, path), "--duration", "1s")]
    alone = {name[0]: measured for name, measured, _ in found if name[1] == "alone_ms"}
    aside = {name[0] for name, *_ in found if len(name) == 4 and name[2] in SET_ASIDE}
    for name, measured, simulated in found:
        if len(name) != 4 or name[2] not in alone or name[3] not in ("mean_us", "per_s"):
            continue
        mix, mode, client, metric = name
        factor = (lambda value: value / 1e3 / alone[client]) if metric == "mean_us" else (lambda value: 1e3 / value / alone[client])
        yield (f"{of}/{mix}/{mode}/{client}", of, card, alone[client], factor(measured), int(mix in aside)), factor(simulated)


def judge_of_parts():
    of = importlib.util.spec_from_file_location("judge", os.path.join(EXPERIMENTS, "h200/parts/judge.py"))
    judge = importlib.util.module_from_spec(of)
    of.loader.exec_module(judge)
    return judge


def parts(sim):
    """A kernel on 8 to 96 SMs in times of that on all, with its counters known."""
    judge = judge_of_parts()
    with gzip.open(os.path.join(EXPERIMENTS, "h200/parts/kernels-1.json.gz")) as file:
        data = json.load(file)
    for aside in (0, 1):
        kernels, _ = judge.chosen(data, bool(aside))
        for sms in (n for n in data["sms"] if n != judge.WHOLE):
            for i, (us, (operation, _, kernel)) in enumerate(zip(judge.simulated_us(sim, kernels, "counters", sms), kernels)):
                by_sms, whole = kernel["us_by_sms"], kernel["us_by_sms"][str(judge.WHOLE)]
                if str(sms) in by_sms:
                    yield (f"parts-h200/{operation}/{sms}/{i}", "parts-h200", "h200", whole / 1e3, by_sms[str(sms)] / whole, aside), us / whole


def write(path, fields, rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(rows)
    with gzip.GzipFile(path, "wb", 9, mtime=0) as file:
        file.write(text.getvalue().encode())


def main(sim):
    found = []
    for (of, card), path in PAIRS.items():
        found += pairs(sim, of, card, path)
    for (of, card), path in NETWORKS.items():
        found += networks(sim, of, card, path)
    found += parts(sim)
    os.makedirs(os.path.join(HERE, "entries"), exist_ok=True)
    write(os.path.join(HERE, "rows.csv.gz"), FIELDS, [(*row[:3], f"{row[3]:.6g}", f"{row[4]:.5g}", row[5]) for row, _ in found])
    write(os.path.join(HERE, "entries/corun.csv.gz"), ("id", "predicted"), [(row[0], f"{simulated:.5g}") for row, simulated in found])
    print(len(found), "rows,", sum(row[5] for row, _ in found), "set aside")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
