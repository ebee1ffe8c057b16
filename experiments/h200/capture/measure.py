#!/usr/bin/env python3
"""Each program without tracing, captured, and replayed: is the replay its time without tracing, and what did tracing cost?
With KINETO=1: does PyTorch's profiler see the same launches?  CAPTURE: options of `sim capture`, as --twice (with MARK=1) or --counters.

  measure.py SIM OUT.json FOLDER [PROGRAM[:TURNS]...]   on the GPU; SIM: the `sim` command; FOLDER: for traces and what was said
"""
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ["plain", "torch-eager", "torch-graph", "torch-decode", "triton", "cupy", "jax", "two"]


def command_of(program, folder):
    if program == "two":  # processes of one MPS server, each at its own rate, so that they seldom meet
        serve = f"PERIOD_MS=%s {sys.executable} {os.path.join(HERE, 'programs.py')} %s"
        return ["bash", "-c", f"{serve % (9, 'torch-graph')} & {serve % (13, 'triton')} ; wait"]
    if program != "plain":
        return [sys.executable, os.path.join(HERE, "programs.py"), program]
    built = os.path.join(folder, "plain")
    if not os.path.exists(built):
        subprocess.run(["nvcc", "-O2", "-arch=native", "-o", built, os.path.join(HERE, "plain.cu")], check=True)
    return [built]


def said(text):
    return sorted(float(ms) for ms in re.findall(r"^ms ([0-9.]+)$", text, re.M))


def launches(path):
    """Of the first program: (name, grid, block, ns) of each launch, in order."""
    with open(path) as file:
        trace = json.load(file)
    kernels, all_ = {k["name"]: k for k in trace["kernels"]}, []
    for op in trace["programs"][0]["ops"]:
        if "launch" in op:
            k = kernels[op["launch"]]
            all_.append((re.sub(r" #[0-9]+$", "", k["name"]), k["grid"], k["block"], op.get("solo_time_ns", k["solo_time_ns"])))
    return all_


def beside_kineto(sim, command, folder, program, trace):
    """The same program recorded by torch.profiler in a run of its own."""
    recording, imported = (os.path.join(folder, program + end) for end in (".kineto.json", ".kineto.trace.json"))
    subprocess.run(command, env=dict(os.environ, KINETO_FILE=recording), capture_output=True, timeout=100, check=True)
    subprocess.run([sim, "import", "kineto", "--repeats", recording, "-o", imported], capture_output=True, timeout=100, check=True)
    here, there = launches(trace), launches(imported)
    ratios = sorted(a[3] / b[3] for a, b in zip(here, there))
    return {"launches": [len(here), len(there)], "same": sum(a[:3] == b[:3] for a, b in zip(here, there)),
            "first_other": next(([a[:3], b[:3]] for a, b in zip(here, there) if a[:3] != b[:3]), None),
            "duration_ratio": {f"p{p}": round(ratios[p * (len(ratios) - 1) // 100], 4) for p in (10, 50, 90)} if ratios else None}


def measured(sim, command, folder, program, policy, turns):
    """Runs without tracing and captured in turns; the replay of each capture."""
    row = {"plain_ms": [], "captured_ms": [], "replayed_ms": [], "exit": []}
    for turn in range(turns):
        row["plain_ms"].append(said(subprocess.run(command, capture_output=True, text=True, timeout=100).stdout))
        trace, kept = (os.path.join(folder, f"{program}.{turn}{end}") for end in (".json", ".recording"))
        ran = subprocess.run([sim, "capture", "-o", trace, "--keep", kept, *os.environ.get("CAPTURE", "").split(), "--", *command], capture_output=True, text=True, timeout=200)
        with open(os.path.join(folder, f"{program}.{turn}.said"), "w") as file:
            file.write(ran.stdout + ran.stderr)
        row["captured_ms"].append(said(ran.stdout)), row["exit"].append(ran.returncode)
        again = subprocess.run([sim, "--policy=" + policy, "--duration=300ms", "--json", trace], capture_output=True, text=True, timeout=100)
        clients = json.loads(again.stdout)["clients"] if again.returncode == 0 else []
        replayed = [c["p50_ms"] for c in clients]  # None: no request was done
        row["replayed_ms"].append(sorted(replayed) if replayed and None not in replayed else f"{replayed} {again.stderr[-300:]}")
        print(program, turn, {name: values[-1] for name, values in row.items() if values}, flush=True)
    return row


def main(sim, path, folder, programs):
    os.makedirs(folder, exist_ok=True)
    state = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,temperature.gpu", "--format=csv,noheader"],
                           capture_output=True, text=True).stdout.strip()
    mps = {"CUDA_MPS_PIPE_DIRECTORY": os.path.join(folder, "mps"), "CUDA_MPS_LOG_DIRECTORY": os.path.join(folder, "mps")}
    data = {"gpu": state, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "programs": {}}
    for program in programs or PROGRAMS:
        program, _, turns = program.partition(":")
        try:
            if program == "two":
                os.environ.update(mps)
                os.makedirs(mps["CUDA_MPS_PIPE_DIRECTORY"], exist_ok=True)
                subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
            command = command_of(program, folder)
            row = data["programs"][program] = measured(sim, command, folder, program, "mps" if program == "two" else "fcfs", int(turns or 1))
            if "KINETO" in os.environ and (program.startswith("torch") or program == "triton"):
                row["kineto"] = beside_kineto(sim, command, folder, program, os.path.join(folder, program + ".0.json"))
            print(program, row.get("kineto"), flush=True)
        except Exception as error:  # one that fails must not cost the others
            print(program, "LEFT OUT:", repr(error)[:300], flush=True)
        if program == "two":
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True)
        with open(path, "w") as file:
            json.dump(data, file, indent=1)


main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
