#!/usr/bin/env python3
"""Kernels alone on parts of an H200, simulated and measured (kernels-1.json.gz): error of the time on 8 to 96 SMs.

  judge.py SIM [--ordinary|--aside|--all] [--rows]   SIM: the `sim` command; --rows: each ordinary row too, worst first

What the simulator knows of a kernel: `none` its launch shape, name and time on the whole GPU; `counters` Nsight Compute's too; `second` its time on
32 SMs too. Of the set-aside third only summaries are printed.
"""
import csv
import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
WHOLE, SECOND, SHORTEST_US = 132, 32, 3
TARGETS = {"none": (15, 45), "counters": (10, 30), "second": (6, 20)}  # mean, 95th percentile (issue 48)
COUNTED = ("dram_read_bytes", "dram_write_bytes", "l2_bytes", "l1_bytes", "warp_instructions", "tensor_instructions", "issue_active_pct",
           "warps_active_pct", "fp64_active_pct")
PIPES = ("alu", "fma", "fmaheavy", "xu", "l1_data")
GAP_NS = 20000  # between two kernels, which are each alone


def blocks_at_once(kernel):
    """Of an SM of an H200."""
    threads = math.prod(kernel["block"])
    return min(32, 2048 // threads, 65536 // (threads * max(1, kernel["registers_per_thread"])), 233472 // (kernel["shared_memory_bytes"] + 1024))


def is_confined(kernel):
    us = kernel["us_by_sms"]
    return "8" not in us or abs(us["8"] / us[str(WHOLE)] - 1) > 0.1 or math.prod(kernel["grid"]) <= 8 * blocks_at_once(kernel)


def chosen(data, aside):
    """[(operation, kind, kernel)], each kernel of an operation once; what is left out, and why."""
    kept, left_out = {}, {}
    for name, operation in data["operations"].items():
        if operation["set_aside"] != aside:
            continue
        for kernel in operation["kernels"] or []:
            us = kernel["us_by_sms"]
            if kernel["cat"] != "kernel" or us.get(str(WHOLE), 0) <= SHORTEST_US:
                continue
            why = ("on several streams" if "several_streams" in operation else "without counters" if "ncu" not in kernel else
                   "on one number of SMs" if len(us) < 2 else None if is_confined(kernel) else "not confined to its part")
            if why:
                left_out.setdefault(why, set()).add(name)
            else:
                kept.setdefault((name, kernel["name"], *kernel["grid"], *kernel["block"]), (name, operation["kind"], kernel))
    return list(kept.values()), left_out


def of_trace(kernel, number, mode):
    us, of = kernel["us_by_sms"], kernel["ncu"]
    row = {"name": f"{kernel['name']} #{number + 2}", "grid": kernel["grid"], "block": kernel["block"],
           "registers_per_thread": kernel["registers_per_thread"], "dynamic_shared_memory_bytes": kernel["shared_memory_bytes"],
           "solo_time_ns": round(us[str(WHOLE)] * 1e3), "solo_time_sms": WHOLE}
    if mode != "none":
        row["counters"] = {key: of[key] for key in COUNTED if key in of} | {"duration_ns": of["ncu_duration_ns"]}
        row["counters"]["pipes_pct"] = {pipe: of[pipe + "_pct"] for pipe in PIPES if pipe + "_pct" in of}
        if of.get("cluster_x"):
            row["cluster"] = [int(of["cluster_" + axis]) for axis in "xyz"]
    if mode == "second" and str(SECOND) in us:
        row["solo_time_by_sms_ns"] = {str(n): round(us[str(n)] * 1e3) for n in (SECOND, WHOLE)}
    return row


def simulated_us(sim, kernels, mode, sms):
    """One client with a mask launches each kernel, waits for it, and goes on."""
    rows = [of_trace(kernel, i, mode) for i, (*_, kernel) in enumerate(kernels)]
    ops = [op for row in rows for op in ({"launch": row["name"], "host_gap_ns": GAP_NS}, {"sync": True})]
    trace = {"corun_trace": 1, "gpu": "h200", "kernels": rows, "programs": [{"name": "each", "ops": ops}],
             "clients": [{"name": "alone", "program": "each", "tpc_mask": f"0-{sms // 2 - 1}", "arrivals": {"type": "once", "at_ns": 0}}]}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        with open(path, "w") as file:
            json.dump(trace, file)
        ran = subprocess.run([sim, path, "--policy=tpc-mask", "--out", folder, "--json"], capture_output=True, text=True)
        if ran.returncode:
            sys.exit(ran.stderr)
        with open(os.path.join(folder, "kernels.csv")) as file:
            took = {row["kernel"]: (float(row["finished_ns"]) - float(row["started_ns"])) / 1e3 for row in csv.DictReader(file)}
    return [took[row["name"]] for row in rows]


def errors(sim, kernels, mode, parts):
    """[(simulated / measured - 1, operation, kind, SMs, kernel's name)]"""
    with ThreadPoolExecutor(2) as pool:
        simulated = pool.map(lambda sms: simulated_us(sim, kernels, mode, sms), parts)
        return [(us / kernel["us_by_sms"][str(sms)] - 1, name, kind, sms, kernel["name"]) for sms, all_us in zip(parts, simulated)
                for us, (name, kind, kernel) in zip(all_us, kernels) if str(sms) in kernel["us_by_sms"]
                and not (mode == "second" and (sms == SECOND or str(SECOND) not in kernel["us_by_sms"]))]


def summary(of):
    size = sorted(100 * abs(row[0]) for row in of)
    return (f"{len(size):4} rows: mean {statistics.mean(size):5.1f} %, median {statistics.median(size):5.1f}, "
            f"p95 {size[math.ceil(0.95 * len(size)) - 1]:6.1f}, worst {size[-1]:6.1f}; bias {100 * statistics.mean(row[0] for row in of):+6.1f}")


def main(sim, options):
    with gzip.open(os.path.join(HERE, "kernels-1.json.gz")) as file:
        data = json.load(file)
    for aside in (False, True):
        if "--ordinary" in options and aside or "--aside" in options and not aside:
            continue
        kernels, left_out = chosen(data, aside)
        print(f"{'set aside' if aside else 'ordinary'}: {len(kernels)} kernels of {len({name for name, *_ in kernels})} operations")
        for why, names in left_out.items():
            print(f"  left out, {why}:", f"{len(names)} operations" if aside else ", ".join(sorted(names)))
        for mode, (mean, p95) in TARGETS.items():
            rows = errors(sim, kernels, mode, [n for n in data["sms"] if n != WHOLE])
            print(f"  {mode:9}{summary(rows)}; to reach: mean {mean}, p95 {p95}", flush=True)
            if aside:
                continue
            kinds = {}
            for row in rows:
                kinds.setdefault(row[2], []).append(row)
            for kind, of in sorted(kinds.items(), key=lambda item: -statistics.mean(abs(row[0]) for row in item[1]))[:10]:
                print(f"    {kind:24}{summary(of)}")
            for error, name, _, sms, kernel in sorted(rows, key=lambda row: -abs(row[0])) if "--rows" in options else ():
                print(f"      {100 * error:+7.1f} % {sms:4} SMs {name}: {kernel[:80]}")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not {"--ordinary", "--aside", "--all", "--rows"}.issuperset(sys.argv[2:]):
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
