#!/usr/bin/env python3
"""Counters of a program's launches, also of those that another of its threads makes, as a backward pass does.

  counters.py profiled PROGRAM.py ARGUMENT...     what ncu runs with --profile-from-start off: its NVTX ranges start and stop the profiler
  counters.py join TRACE COUNTED.json OUT.json.gz a trace with the counters of another that was captured elsewhere, with counters: launches
                                                  are the same in both, times and the host are those of TRACE
"""
import gzip
import json
import runpy
import statistics
import sys


def profiled(program, *arguments):
    import torch
    cudart, nvtx = torch.cuda.cudart(), torch.cuda.nvtx
    nvtx.range_push = lambda name: cudart.cudaProfilerStart()
    nvtx.range_pop = lambda: cudart.cudaProfilerStop()
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


def load(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as file:
        return json.load(file)


def function(kernel):  # kernels that differ only in counters are numbered
    return kernel["name"].rsplit(" #", 1)[0], kernel["grid"], kernel["block"]


def join(trace, counted, out):
    trace, counted = load(trace), load(counted)
    before, after = ({k["name"]: k for k in t["kernels"]} for t in (trace, counted))
    times = {}
    for op, other in zip(trace["programs"][0]["ops"], counted["programs"][0]["ops"], strict=True):
        if "launch" not in op and "launch" not in other:
            continue
        kernel = before[op["launch"]]
        if function(kernel) != function(after[other["launch"]]):
            sys.exit(f"other launches: {kernel['name']}, and {other['launch']}")
        op["solo_time_ns"] = op.get("solo_time_ns", kernel["solo_time_ns"])
        op["launch"] = other["launch"]
        times.setdefault(op["launch"], []).append(op["solo_time_ns"])
    for name, all_of in times.items():
        after[name]["solo_time_ns"] = statistics.median_low(all_of)
    for op in trace["programs"][0]["ops"]:
        if "launch" in op and op["solo_time_ns"] == after[op["launch"]]["solo_time_ns"]:
            del op["solo_time_ns"]
    trace["kernels"] = [after[name] for name in dict.fromkeys(times)]
    trace["notes"] = [n for n in trace["notes"] if "No hardware counters" not in n and "without counters" not in n]
    trace["notes"].append("Counters are those of the same launches on another card.")
    with open(out, "wb") as file:
        file.write(gzip.compress(json.dumps(trace, separators=(",", ":")).encode(), 9, mtime=0))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["profiled", program, *arguments]: profiled(program, *arguments)
        case ["join", trace, counted, out]: join(trace, counted, out)
        case _: sys.exit(__doc__)
