#!/usr/bin/env python3
"""A program, or the service, is killed while a program's launches wait on the GPU for their grants: does the other go on?

  lost.py SIM OUT.json FOLDER REAL_TIME BEST_EFFORT
The real-time program makes one request after the other, under `wait`, so that the best-effort one is held most of the time.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from measure import HERE, start


def once(sim, folder, victim, programs):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    at, row = folder + "/service", {"killed": victim}
    service = subprocess.Popen([sim, "serve", "--policy=wait", "--at", at], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not os.path.exists(at + "/environment") and service.poll() is None:
        time.sleep(0.01)
    with open(at + "/environment") as file:
        environment = os.environ | dict(line.strip().split("=", 1) for line in file if line.startswith("CUDA"))
    join = lambda name, *more: [sim, "run", "--at", at, "--name", name, *more, "--"]  # noqa: E731
    running = [start(p, folder, "loop", join(p, *(["--class=real_time", "--priority=-5"] if i == 0 else [])), dict(os.environ))
               for i, p in enumerate(programs)]
    deadline = time.time() + 60
    while not all(os.path.exists(f"{folder}/{p}.ready") for p in programs) and time.time() < deadline:
        time.sleep(0.01)
    open(folder + "/go", "w").close()
    time.sleep(1.5)
    state = json.loads(subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True).stdout)
    row["before"] = {p["name"]: {k: p[k] for k in ("waiting", "on_gpu", "queued", "requests")} for p in state["programs"]}
    row["at"] = time.perf_counter()
    (service if victim == "service" else running[1]).send_signal(signal.SIGKILL)
    time.sleep(1.5)
    if victim != "service":  # may another come?
        late = subprocess.run([*join("late"), os.path.join(HERE, "gate"), "empty"], capture_output=True, text=True, timeout=20)
        row["a program that comes afterwards"] = {"exit": late.returncode, "said": late.stdout[-300:] + late.stderr[-300:]}
    open(folder + "/stop", "w").close()
    for i, (p, r) in enumerate(zip(programs, running)):
        try:
            out, err = r.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            r.kill()
            out, err = r.communicate()
            row[p] = {"hangs": True, "said": err[-500:]}
            continue
        row[p] = {"exit": r.returncode, "said": err[-500:]}
        if out.startswith("{"):
            ends = json.loads(out)["rounds"][0]["ends"]
            row[p] |= {"requests before": sum(t <= row["at"] for t in ends), "requests after": sum(t > row["at"] for t in ends)}
    if service.poll() is None:
        service.terminate()
    row["service said"] = service.communicate(timeout=20)[1][-300:]
    if victim == "service":
        subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=environment, timeout=20)
    return row


def main(sim, path, folder, *programs):
    rows = [once(sim, folder, victim, programs) for victim in ("program", "service")]
    for row in rows:
        print(json.dumps(row), flush=True)
    with open(path, "w") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
