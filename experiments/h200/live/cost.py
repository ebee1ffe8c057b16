#!/usr/bin/env python3
"""What this build costs beside another one, in one run: a call of a launch, and a decode's p99 beside training.

  cost.py SIM OTHER_SIM OUT.json FOLDER TURNS ROUNDS     each beside its library; OTHER_SIM: - for none
In TURNS turns a call without the service and under fcfs of both builds; then in ROUNDS rounds a decode beside training under the policies of MODES, of both.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ["wait", "wait:beside=on,backfill=on@8/64"]
REQUESTS = 2000


def call(sim, program, at, real_time):
    if sim is None:
        return [json.loads(line) for line in subprocess.run([program], capture_output=True, text=True, timeout=60).stdout.splitlines()]
    service = measure.serve(sim, at, "--policy=fcfs", stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        out = subprocess.run([sim, "run", "--at", at, *(["--class=real_time"] if real_time else []), "--", program], capture_output=True, text=True, timeout=60).stdout
        return [json.loads(line) for line in out.splitlines()]
    finally:
        measure.end(service)


def main(sim, other, path, folder, turns, rounds):
    os.makedirs(folder, exist_ok=True)
    program = folder + "/call"
    subprocess.run(["nvcc", "-O2", "-arch=sm_90", "-o", program, HERE + "/call.cu"], check=True)
    builds = {"this": os.path.abspath(sim)} | ({} if other == "-" else {"other": os.path.abspath(other)})
    data = {"gpu": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip(),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "calls": [], "decodes": []}

    def kept():
        with open(path, "w") as file:
            json.dump(data, file, indent=1)
    for turn in range(int(turns)):
        order = [(None, "none", False)] + [(at, name, rt) for rt in (True, False) for name, at in (builds.items() if turn % 2 else reversed(builds.items()))]
        for at, name, real_time in order:
            try:
                data["calls"].append({"build": name, "real_time": real_time, "turn": turn, "said": call(at, program, f"{folder}/{name}", real_time)})
            except Exception as failed:  # noqa: BLE001
                print(name, turn, repr(failed), flush=True)
        kept()
    for what in ("call, GPU idle", "call, GPU behind"):
        for key in sorted({(c["build"], c["real_time"]) for c in data["calls"]}):
            values = [s["p50_us"] for c in data["calls"] if (c["build"], c["real_time"]) == key for s in c["said"] if s["what"] == what]
            print(f"{what}: {key}: p50 us {statistics.median(values):.3f} of {[round(v, 2) for v in values]}", flush=True)
    alone = measure.once(builds["this"], folder + "/run", "alone", ["decode-graph"], 0, 0)
    row = measure.by_round(alone, ["decode-graph"])[0]["decode-graph"]
    data["alone"], period = row, row["mean_ms"] / measure.LOAD
    print("alone", row["p99_ms"], flush=True)
    for number in range(int(rounds)):
        for mode in MODES:
            for name, at in builds.items() if number % 2 else reversed(builds.items()):
                try:
                    run = measure.once(at, folder + "/run", mode, ["decode-graph", "train"], REQUESTS, period)
                    for one in measure.by_round(run, ["decode-graph", "train"]):
                        data["decodes"].append({"build": name, "mode": mode, "round": number, **one})
                        print(mode, name, one["decode-graph"]["p99_ms"], one["train"]["per_s"], flush=True)
                except Exception as failed:  # noqa: BLE001
                    print(mode, name, number, repr(failed), flush=True)
                kept()


if __name__ == "__main__":
    main(*sys.argv[1:])
