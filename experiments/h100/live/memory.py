#!/usr/bin/env python3
"""Three programs that each want half of a cap of device memory: do they all complete under flexgpu, with the outputs that they have without the
library, and what does it cost?

  memory.py SIM OUT.json FOLDER HALF "MODE[;MODE...]" MIB PROGRAM...
HALF: half.cu, compiled.  PROGRAM: NAME:COUNT of half.py, or own[N]:ROUNDS[:REST_MS] of HALF.  MIB: what each wants.
MODE: none (a context each, no service), mps, or a policy of `sim serve`, POLICY@CAP_MIB the latter with a cap; MODE!SIGNAL:PROGRAM kills a program,
or the service, when half of a program's memory is on the host; MODE#PROGRAM runs that program alone.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 60


def once(sim, folder, half, mode, mib, programs):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    how, _, alone = mode.partition("#")
    how, _, victim = how.partition("!")
    policy, _, cap = how.partition("@")
    if alone:
        programs = [p for p in programs if p.startswith(alone)]
    row, environment, service, before, at = {"mode": mode, "mib": mib}, dict(os.environ), None, [], folder + "/service"
    if policy == "mps":
        environment |= {"CUDA_MPS_PIPE_DIRECTORY": folder + "/mps", "CUDA_MPS_LOG_DIRECTORY": folder + "/mps"}
        os.makedirs(folder + "/mps")
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True)
    elif policy != "none":
        service = subprocess.Popen([sim, "serve", "--policy=" + policy, "--at", at, *([f"--memory={cap}MiB"] if cap else [])], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        while not os.path.exists(at + "/environment") and service.poll() is None:
            time.sleep(0.01)

    def start(program):
        name, *count = program.split(":")
        words = [half, name, folder, str(mib), *count] if name.startswith("own") else [sys.executable, HERE + "/half.py", name, folder, str(mib), *count]
        before = [sim, "run", "--at", at, "--name", name, "--"] if service else []
        return subprocess.Popen([*before, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def state():
        said = subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True).stdout
        return json.loads(said) if said.startswith("{") else None

    running = {p.split(":")[0]: start(p) for p in programs}
    began = time.time()
    while not all(os.path.exists(f"{folder}/{p}.ready") for p in running) and time.time() < began + LIMIT_S:
        if any(r.poll() not in (None, 0) for r in running.values()):
            break
        time.sleep(0.02)
    row["ready_s"] = round(time.time() - began, 2)
    open(folder + "/go", "w").close()
    began, last, most_seen = time.time(), None, 0
    while any(r.poll() is None for r in running.values()) and time.time() < began + LIMIT_S:
        if service and service.poll() is None:
            last = state() or last
            free = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout.split()
            most_seen = max(most_seen, int(free[0]) if free else 0)
            away = [p["name"] for p in last["programs"] if p["memory"]["host_bytes"] > (mib << 20) / 2] if last and "memory" in last else []
            if victim and away and "killed" not in row:
                row["killed"] = {"signal": victim, "at_s": round(time.time() - began, 2), "away": away[0]}
                (service if victim == "service" else running[away[0]]).send_signal(signal.SIGKILL)
        time.sleep(0.1)
    row["s"] = round(time.time() - began, 2)
    row["programs"] = {}
    for name, r in running.items():
        hangs = r.poll() is None
        if hangs:
            r.kill()
        out, err = r.communicate()
        row["programs"][name] = {"exit": "hangs" if hangs else r.returncode, **(json.loads(out) if out.startswith("{") else {"out": out[-300:]}), "err": err[-400:]}
    if service:
        row["gpu_used_mib"] = most_seen
        row["last seen"] = last
        if service.poll() is None:
            service.terminate()
        out, err = service.communicate(timeout=20)
        row["at the end"] = json.loads(out) if out.startswith("{") else err[-500:]
    if policy == "mps":
        subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=environment, timeout=20)
    return row


def main(sim, path, folder, half, modes, mib, *programs):
    rows, expected = [], {}
    for mode in modes.split(";"):
        row = once(sim, folder, half, mode, int(mib), programs)
        rows.append(row)
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)
        told = []
        for name, said in row["programs"].items():
            expected.setdefault(name, said.get("hash"))
            same = "no hash" if "hash" not in said else "same" if said["hash"] == expected[name] else "DIFFERS"
            told.append(f"{name} {same} exit {said['exit']} {said.get('s', 0)} s (allocate {said.get('allocate_s', 0)})" + (f" [{said['err'][-150:]}]" if said["err"] else ""))
        memory = row["at the end"].get("memory") if isinstance(row.get("at the end"), dict) else None
        print(f"{mode}: {row['s']} s; " + "; ".join(told) + f"; {memory}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
