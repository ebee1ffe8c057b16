#!/usr/bin/env python3
"""Each program without tracing, captured, and replayed: is the replay its time without tracing, and what did tracing cost?

  measure.py SIM OUT.json FOLDER [PROGRAM...]   on the GPU; SIM: the `sim` command; FOLDER: for traces and what was said
"""
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ["plain", "torch-eager", "torch-graph", "torch-decode", "triton", "cupy", "jax"]


def command_of(program, folder):
    if program != "plain":
        return [sys.executable, os.path.join(HERE, "programs.py"), program]
    built = os.path.join(folder, "plain")
    if not os.path.exists(built):
        subprocess.run(["nvcc", "-O2", "-arch=native", "-o", built, os.path.join(HERE, "plain.cu")], check=True)
    return [built]


def said(text):
    found = re.search(r"^ms ([0-9.]+)$", text, re.M)
    return float(found[1]) if found else None


def main(sim, path, folder, programs):
    os.makedirs(folder, exist_ok=True)
    state = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,temperature.gpu", "--format=csv,noheader"],
                           capture_output=True, text=True).stdout.strip()
    data = {"gpu": state, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "programs": {}}
    for program in programs or PROGRAMS:
        try:
            command, trace = command_of(program, folder), os.path.join(folder, program + ".json")
            plain = [said(subprocess.run(command, capture_output=True, text=True, timeout=100).stdout) for _ in range(2)]
            ran = subprocess.run([sim, "capture", "-o", trace, "--", *command], capture_output=True, text=True, timeout=200)
            with open(os.path.join(folder, program + ".said"), "w") as file:
                file.write(ran.stdout + ran.stderr)
            row = data["programs"][program] = {"plain_ms": plain, "captured_ms": said(ran.stdout), "exit": ran.returncode}
            again = subprocess.run([sim, "--policy=fcfs", "--duration=200ms", "--json", trace], capture_output=True, text=True, timeout=100)
            if again.returncode == 0:
                row["replayed_ms"] = [c["p50_ms"] for c in json.loads(again.stdout)["clients"]]
            else:
                row["refused"] = again.stderr[-300:]
            print(program, row, flush=True)
        except Exception as error:  # one that fails must not cost the others
            print(program, "LEFT OUT:", repr(error)[:300], flush=True)
        with open(path, "w") as file:
            json.dump(data, file, indent=1)


main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
