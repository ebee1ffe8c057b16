#!/usr/bin/env python3
"""Runs the jobs of `contention`, each with a time limit: run.py RESULTS.json [JOB...]

The file is written again after every job, and a job that overruns keeps the records it has printed.
"""
import csv
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

JOBS = ["pipes", "clocks", "age_ranks", "issue_order", "shares", "bursts", "pairs", "barriers", "dram",
        "latency", "loaded_latency", "loaded_latency_apart", "sm_scaling", "footprints", "memory_pairs", "readers",
        "l2_capacity", "l2_sharing",
        "turnover", "empty_blocks", "drain", "waves", "gap_after", "early_exit", "carveouts", "preferred_divisions", "carveout_wait",
        "gap_beside", "handover", "next_kernel", "counted"]
LIMIT_S = 60
PROGRAM = pathlib.Path(__file__).resolve().parent / "contention"
COUNTERS = ["dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_op_read.sum",
            "lts__t_sectors_op_read_lookup_hit.sum", "lts__t_sectors_op_write.sum",
            "lts__t_sectors_lookup_hit.sum", "lts__t_sectors.sum", "gpu__time_duration.sum"]
FABRIC = ["lts__t_sectors_srcunit_ltcfabric.sum", "lts__t_sectors_srcunit_ltcfabric_lookup_hit.sum",
          "lts__t_sectors_srcunit_tex.sum", "lts__t_sectors_srcunit_tex_lookup_hit.sum"]


def output_of(command):
    """The lines of a command, also of one that fails or overruns, and what went wrong."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=os.environ | {"CUDA_MODULE_LOADING": "EAGER"})
    try:
        out, err = process.communicate(timeout=LIMIT_S)
        failure = None if process.returncode == 0 else f"exit code {process.returncode}: {err[-500:]}"
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        failure = f"over its {LIMIT_S} s"
    if err:
        print(err[-1500:], file=sys.stderr)
    return out.splitlines(), failure


def records_in(lines):
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def counted():
    """Nsight Compute's counters of each kernel of `contention counted`, by order."""
    records, failures = [], []
    for metrics in (COUNTERS, FABRIC):
        lines, failure = output_of(["ncu", "--clock-control", "none", "--csv", "--print-units", "base",
                                    "--metrics", ",".join(metrics), str(PROGRAM), "counted"])
        failures += [failure] if failure else []
        records = records or records_in(lines)
        for row in csv.DictReader(line for line in lines if line.startswith('"')):
            if row["ID"].isdigit() and int(row["ID"]) < len(records):
                records[int(row["ID"])][row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return records, "; ".join(failures) or None


def environment():
    query = ["nvidia-smi", "--query-gpu=name,uuid,driver_version,clocks.sm,clocks.mem,power.draw,power.limit",
             "--format=csv,noheader"]
    return [{"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
             "gpu": subprocess.run(query, capture_output=True, text=True).stdout.strip()}]


def write(path, results):
    """One record a line."""
    arrays = (f'"{name}": [\n' + ",\n".join("  " + json.dumps(r) for r in records) + "\n]"
              for name, records in results.items())
    with open(path, "w") as file:
        file.write("{\n" + ",\n".join(arrays) + "\n}\n")


def main(path, jobs):
    results = {"environment": environment()}
    for job in jobs or JOBS:
        start = time.time()
        if job == "counted":
            records, failure = counted()
        else:
            lines, failure = output_of([str(PROGRAM), job])
            records = records_in(lines)
        if failure:
            records.append({"error": failure})
        results[job] = records
        print(f"{job:16} {time.time() - start:6.1f} s {len(records):5} records {failure or ''}", flush=True)
        write(path, results)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
