#!/usr/bin/env python3
"""Pairs of kernels of ../disb/networks.json, each client with one of them in a row of 3 ms: kernels.json, mixes/.

The eleven kernels are those of VGG-19 and ResNet-152 whose times beside others the simulator had most wrong in DISB B
(2026-11-22): chains of multiplications that leave issue slots free, and loads bound by L1 or L2.
"""

import itertools
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ["compute 256 x 128, 4467", "compute 128 x 128, 7951", "compute 104 x 384, 7609", "compute 392 x 128, 12942",
         "load 512 x 128, 5170", "load 8192 x 256, 115", "load 256 x 512, 9996", "load 2048 x 64, 324",
         "load 2048 x 256, 126", "load 8192 x 64, 185", "load 3136 x 128, 50"]
ROW_NS = 3e6


def program(name, kernel):
    launches = max(1, round(ROW_NS / kernel["solo_time_ns"]))
    return {"name": name, "ops": [{"launch": kernel["name"]}] * launches}


def main():
    networks = json.loads((HERE.parent / "disb" / "networks.json").read_text())
    kernels = [next(k for k in networks["kernels"] if k["name"] == n) for n in NAMES]
    text = ",\n  ".join(json.dumps(k) for k in kernels)
    (HERE / "kernels.json").write_text(f'{{"corun_trace": 1, "name": "layers", "gpu": "h200", "kernels": [\n  {text}\n]}}\n')
    (HERE / "mixes").mkdir(exist_ok=True)
    for (i, a), (j, b) in itertools.combinations_with_replacement(enumerate(kernels), 2):
        trace = {"corun_trace": 1, "name": f"{a['name']} + {b['name']}", "gpu": "h200", "include": ["../kernels.json"],
                 "programs": [program("a", a), program("b", b)],
                 "clients": [{"name": "a", "program": "a"}, {"name": "b", "program": "b"}],
                 "run": {"duration_ns": 30_000_000}}
        (HERE / "mixes" / f"{i:02}-{j:02}.json").write_text(json.dumps(trace) + "\n")


if __name__ == "__main__":
    main()
