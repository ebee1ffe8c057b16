#!/usr/bin/env python3
"""Writes the traces of this folder: traces.py [FOLDER]"""
import json
import pathlib
import sys

KERNELS = {  # of hw/kernels: grid, threads, registers, solo time; solo times measured on an H200 (../persistent_kernels/overhead.json)
    "nn": ([131072, 1, 1], 256, 11, 120500),
    "blackscholes": ([131072, 1, 1], 128, 26, 160500),
    "triad": ([65536, 1, 1], 256, 22, 185500),
    "md5": ([8192, 1, 1], 256, 22, 1484400),
}


def trace(name, about, programs):
    used = sorted({op["launch"] for ops in programs.values() for op in ops if "launch" in op})
    return {"corun_trace": 1, "name": name, "about": about, "gpu": "h200",
            "kernels": [{"name": k, "grid": KERNELS[k][0], "block": [KERNELS[k][1], 1, 1],
                         "registers_per_thread": KERNELS[k][2], "solo_time_ns": KERNELS[k][3]} for k in used],
            "programs": [{"name": p, "ops": ops} for p, ops in programs.items()],
            "clients": [{"name": p, "program": p, "arrivals": {"type": "once", "at_ns": 0}} for p in programs],
            "run": {}}


def working_set():
    """Four clients of 2 GB each, who come back to their data three times."""
    programs = {}
    for name, kernels in {"search": ["nn"], "pricing": ["blackscholes"], "stream": ["triad"],
                          "mixed": ["nn", "md5"]}.items():
        ops = [{"alloc": "data", "bytes": 2_000_000_000}]
        for _ in range(3):
            ops += [{"launch": k} for k in kernels * 10] + [{"sync": True}, {"launch": kernels[0], "host_gap_ns": 2_000_000}]
            ops += [{"sync": True}]
        programs[name] = ops
    return trace("a working set of 8 GB", "with --memory 4GB, twice what there is", programs)


def deadlock():
    """Chen 2020, section 3.1: what four MUMmerGPU hold of 12 GB, and what they ask for then."""
    holds, asks = [3.61, 1.36, 1.88, 3.88], [3.36, 3.09, 3.51, 2.51]
    programs = {}
    for i, (first, second) in enumerate(zip(holds, asks)):
        programs[f"MUMmerGPU {i + 1}"] = [
            {"alloc": "reference", "bytes": round(first * 1e9)},
            *[{"launch": "nn", "uses": ["reference"]}] * 10, {"sync": True},
            {"alloc": "queries", "bytes": round(second * 1e9)},
            *[{"launch": "nn"}] * 10, {"sync": True},
        ]
    return trace("four MUMmerGPU", "memory of Chen 2020, section 3.1; kernels are nn; with --memory 12GB", programs)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, made in {"working-set": working_set(), "deadlock": deadlock()}.items():
        (folder / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
