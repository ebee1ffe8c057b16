#!/usr/bin/env python3
"""System throughput of two and three programs that all make one request after the other: the sum of what each gets done, as a share of what it
gets done alone without the library on the same card.

  stp.py SIM OUT.json FOLDER SECONDS "MODE[;MODE...]" PROGRAM...    MODE: turns (no MPS; to be first, its runs alone are what all are compared
                                                                    with), mps, or a policy of `sim serve` (and further options of it), for
                                                                    which the first program is real-time
In each mode the programs are started once, and each set of them, down to each alone, runs for a while.
"""
import itertools
import json
import os
import shutil
import subprocess
import sys
import time

from measure import HERE


def once(sim, folder, mode, seconds, programs):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    environment, service, before, at = dict(os.environ), None, lambda i: [], folder + "/service"  # noqa: ARG005
    said_no = []  # what services said that ended at once
    if mode == "mps":
        environment |= {"CUDA_MPS_PIPE_DIRECTORY": folder + "/mps", "CUDA_MPS_LOG_DIRECTORY": folder + "/mps"}
        os.makedirs(folder + "/mps")
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True)
    elif mode != "turns":
        options = ["--programs=" + ",".join(programs)] if mode.startswith("tpc-mask") else []
        for _ in range(3):
            service = subprocess.Popen([sim, "serve", *("--policy=" + mode).split(), "--at", at, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not os.path.exists(at + "/environment") and service.poll() is None:
                time.sleep(0.01)
            if service.poll() is None:
                break
            said_no.append(service.communicate()[1][-500:])
        if service.poll() is not None:
            return {"mode": mode, "failed": {"service": said_no}, "sets": []}
        before = lambda i: [sim, "run", "--at", at, "--name", programs[i], *(["--class=real_time", "--priority=-5"] if i == 0 else []), "--"]  # noqa: E731
    sets = [s for n in range(1, len(programs) + 1) for s in itertools.combinations(programs, n)]
    of_program = {p: [s for s in sets if p in s] for p in programs}
    running = {}
    for i, p in enumerate(programs):
        own = f"{folder}/{p}"
        os.makedirs(own)
        open(own + "/go", "w").close()
        running[p] = subprocess.Popen([*before(i), sys.executable, HERE + "/programs.py", p, own, f"turns:{len(of_program[p])}"], env=environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    while not all(os.path.exists(f"{folder}/{p}/{p}.ready") for p in programs) and time.time() < deadline:
        if any(r.poll() is not None for r in running.values()):
            break
        time.sleep(0.01)
    for s in sets:
        for p in s:
            open(f"{folder}/{p}/go.{of_program[p].index(s)}", "w").close()
        time.sleep(seconds)
        for p in s:
            open(f"{folder}/{p}/stop.{of_program[p].index(s)}", "w").close()
        time.sleep(0.1)
    said = {}
    for p, r in running.items():
        try:
            out, err = r.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            r.kill()
            out, err = r.communicate()
            err = "hangs; " + err
        said[p] = json.loads(out) if out.startswith("{") else {"failed": err[-800:]}
    row = {"mode": mode, "failed": {p: said[p]["failed"] for p in programs if "failed" in said[p]}, "sets": [], "said_no": said_no}
    if service is not None:
        row["service"] = json.loads(subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True).stdout or "null")
        service.terminate()
        row["service_ended"] = service.communicate(timeout=60)[1][-500:]
    if mode == "mps":
        subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=environment)
    if not row["failed"]:
        row["sets"] = [{p: said[p]["rounds"][of_program[p].index(s)] for p in s} for s in sets]
        row["outputs"] = {p: said[p]["sha256"] for p in programs}
    return row


def main(sim, path, folder, seconds, modes, *programs):
    data = {"gpu": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip(),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "programs": programs, "runs": []}
    for mode in modes.split(";"):
        began = time.time()
        row = once(sim, folder, mode, float(seconds), programs)
        data["runs"].append(row)
        with open(path, "w") as file:
            json.dump(data, file, indent=1)
        alone = {next(iter(s)): s[next(iter(s))]["per_s"] for s in data["runs"][0]["sets"] if len(s) == 1}
        print(f"{mode} ({time.time() - began:.0f} s)", row["failed"] or "; ".join(
            f"{'+'.join(s)} {sum(r['per_s'] / alone[p] for p, r in s.items()):.3f} (" + ", ".join(f"{r['per_s'] / alone[p]:.3f}" for p, r in s.items()) + ")"
            for s in row["sets"]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
