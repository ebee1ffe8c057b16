#!/usr/bin/env python3
"""What a program gets done alone, without the library, under plain MPS, and under an immediate policy: in turns within one run.

  throughput.py SIM OUT.json FOLDER TURNS SECONDS POLICY PROGRAM...
All processes are there from the start, and one of them runs at a time, so that the card, its clock and the hosts are the same.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main(sim, path, folder, turns, seconds, policy, *programs):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    at = folder + "/service"
    service = subprocess.Popen([sim, "serve", "--policy=" + policy, "--at", at], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not os.path.exists(at + "/environment") and service.poll() is None:
        time.sleep(0.01)
    with open(at + "/environment") as file:
        mps = os.environ | dict(line.strip().split("=", 1) for line in file if line.startswith("CUDA"))
    ways = {"none": ([], dict(os.environ)), "mps": ([], mps), policy: ([sim, "run", "--at", at, "--"], dict(os.environ))}
    running = {}
    for p in programs:
        for way, (before, environment) in ways.items():
            own = f"{folder}/{way}-{p}"
            os.makedirs(own)
            open(own + "/go", "w").close()
            running[way, p] = own, subprocess.Popen([*before, sys.executable, HERE + "/programs.py", p, own, "turns:" + turns], env=environment,
                                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    while not all(os.path.exists(f"{own}/{p}.ready") for (_, p), (own, _) in running.items()) and time.time() < deadline:
        time.sleep(0.01)
    for turn in range(int(turns)):
        for own, _ in running.values():
            open(f"{own}/go.{turn}", "w").close()
            time.sleep(float(seconds))
            open(f"{own}/stop.{turn}", "w").close()
            time.sleep(0.05)
    data = {"gpu": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip(),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "runs": []}
    for (way, p), (_, process) in running.items():
        try:
            out, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        data["runs"].append({"way": way, "program": p} | (json.loads(out) if out.startswith("{") else {"failed": err[-800:]}))
    service.terminate()
    service.communicate(timeout=60)
    with open(path, "w") as file:
        json.dump(data, file, indent=1)
    for p in programs:
        per_s = {run["way"]: [r["per_s"] for r in run["rounds"]] for run in data["runs"] if run["program"] == p and "rounds" in run}
        if set(per_s) != set(ways):
            print(p, "failed:", [run["failed"] for run in data["runs"] if "failed" in run])
            continue
        middle = {way: statistics.median(of) for way, of in per_s.items()}
        line = ", ".join(f"{way} {m:.1f} /s ({min(per_s[way]):.1f} to {max(per_s[way]):.1f})" for way, m in middle.items())
        print(f"{p}: {line}; {policy} / none {middle[policy] / middle['none']:.4f}, {policy} / mps {middle[policy] / middle['mps']:.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
