#!/usr/bin/env python3
"""How long products of matrices take on parts of the GPU over how long on all of it, measured and simulated; and `wgmma_least_ratio` of the GPU
descriptions: that with which on half of the SMs, in two whole waves, they are simulated as long as measured in the mean of logarithms.

  least.py SIM     SIM: the `sim` command; needs no GPU; 15 s
"""
import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../..")
TRACE = os.path.join(HERE, "../live/traces/prefill.json.gz")  # the products, by their times: out, qkv, down, up
PAIRS = {"h200": "experiments/reference/h200-corun.json.gz", "h100-sxm": "experiments/h100/pairs/reference.json.gz"}
NCU = ("warp_instructions", "tensor_instructions", "l2_bytes", "l1_bytes", "dram_read_bytes", "dram_write_bytes", "issue_active_pct", "warps_active_pct")
HALF, ALL = 66, 132
STEP = 0.05


def load(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


def products():
    """The kernels, by product, of the prefill."""
    kernels = sorted((k for k in load(TRACE)["kernels"] if k["name"].startswith("nvjet")), key=lambda k: k["solo_time_ns"])
    return dict(zip(("out", "qkv", "down", "up"), kernels, strict=True))


def hgemm(card):
    """A product with a block for each tile: the kernel, and its times by SMs."""
    k = load(os.path.join(ROOT, PAIRS[card]))["kernels"]["hgemm2048"]
    kernel = {"name": k["name"], "grid": k["grid"], "block": k["block"], "registers_per_thread": k["registers_per_thread"], "dynamic_shared_memory_bytes": k["shared_memory_bytes"],
              "solo_time_ns": round(1e6 * k["solo_ms"] / k["launches"]), "counters": {c: k["ncu"][c] for c in NCU} | {"duration_ns": k["ncu"]["ncu_duration_ns"]}}
    return kernel, {int(sms): ms for sms, ms in k["solo_ms_by_sms"].items()}


def measured(card):
    """(product, kernel, {SMs: ms}) of the card."""
    by = {}
    for how in ("parts", "steered"):
        for row in load(os.path.join(HERE, f"{how}-{card[:4]}.json.gz"))["rows"]:
            by.setdefault(row["product"], {}).setdefault(how, {})[row["sms"] or ALL] = statistics.median(row["ms"])
    for product, kernel in products().items():
        yield product, kernel, {n: ms / by[product]["steered"][ALL] for n, ms in by[product]["steered"].items()} | {HALF: by[product]["parts"][HALF] / by[product]["parts"][ALL]}
    kernel, times = hgemm(card)
    yield "hgemm2048", kernel, {n: ms / times[ALL] for n, ms in times.items()}


def simulated(sim, card, kernel, sms, least, folder):
    """ms of one launch."""
    with open(os.path.join(ROOT, f"traces/gpus/{card}.json")) as file:
        gpu = json.load(file)
    gpu["contention"]["wgmma_least_ratio"] = {"value": least, "source": "a trial of least.py", "basis": "calibrated"}
    gpu.pop("power", None)
    with open(folder + "/gpu.json", "w") as file:
        json.dump(gpu, file)
    with open(folder + "/one.json", "w") as file:
        json.dump({"corun_trace": 1, "kernels": [kernel], "programs": [{"name": "p", "ops": [{"launch": kernel["name"]}] * 4}], "clients": [{"name": "c", "program": "p", "arrivals": {"type": "closed_loop", "think_time_ns": 0}}]}, file)
    said = subprocess.run([sim, "--gpu=" + folder + "/gpu.json", "--policy=tpc-mask", "--duration=50ms", "--json", "--client",
                           f"p={folder}/one.json,closed" + ("" if sms == ALL else f",tpcs=0-{sms // 2 - 1}")], capture_output=True, text=True)
    if said.returncode:
        sys.exit(said.stderr)
    return json.loads(said.stdout)["clients"][0]["p50_ms"] / 4


def main(sim):
    with tempfile.TemporaryDirectory() as folder:
        def ratio(card, kernel, sms, least):
            return simulated(sim, card, kernel, sms, least, folder) / simulated(sim, card, kernel, ALL, least, folder)
        rows = [(card, *row) for card in PAIRS for row in measured(card)]
        trials = [round(1 - STEP * i, 2) for i in range(15)]
        off = {least: statistics.mean(math.log(ratio(card, kernel, HALF, least) / times[HALF]) for card, _, kernel, times in rows) for least in trials}
        best = min(trials, key=lambda least: abs(off[least]))
        print(f"on {HALF} of {ALL} SMs: " + ", ".join(f"{least} {100 * e:+.1f} %" for least, e in off.items()))
        print(f"wgmma_least_ratio {best}")
        for card, product, kernel, times in rows:
            print(f"{card:9}{product:10}" + " ".join(f"{n}: {times[n]:.2f} ({ratio(card, kernel, n, best):.2f})" for n in sorted(times) if n != ALL))


if __name__ == "__main__":
    main(*sys.argv[1:])
