#!/usr/bin/env python3
"""A real-time program beside best-effort ones, unmodified: alone, under plain MPS, taking turns, and steered by `sim serve`.

  measure.py SIM OUT.json FOLDER REPEATS REQUESTS "MODE[;MODE...]" REAL_TIME BEST_EFFORT...
MODE: alone, mps, turns, or a policy of `sim serve` (with POLICY@US: a launch goes that long before those before it end).  The real-time program's requests come at a load of 0.4 of its warm time alone.
"""
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LOAD = 0.4


def start(program, folder, mode, before, environment):
    return subprocess.Popen([*before, sys.executable, os.path.join(HERE, "programs.py"), program, folder, mode], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def once(sim, folder, mode, programs, count, period):
    """One run: what each program said, and the service's last state."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    environment, service, before = dict(os.environ), None, lambda rt: []
    if mode == "mps":
        environment |= {"CUDA_MPS_PIPE_DIRECTORY": folder + "/mps", "CUDA_MPS_LOG_DIRECTORY": folder + "/mps"}
        os.makedirs(folder + "/mps")
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True)
    elif mode not in ("alone", "turns"):
        at = folder + "/service"
        policy, _, ahead = mode.partition("@")
        options = ["--ahead-us=" + ahead] if ahead else []
        if policy.startswith(("tpc-mask", "static-split")):
            options += ["--programs=cam" + ",work" * (len(programs) - 1)]
        service = subprocess.Popen([sim, "serve", "--policy=" + policy, "--at", at, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(at + "/environment") and service.poll() is None:
            time.sleep(0.01)
        before = lambda rt: [sim, "run", "--at", at, "--name", "cam" if rt else "work",  # noqa: E731
                             *(["--class=real_time", "--priority=-5"] if rt else []), "--"]
    running = [start(p, folder, f"{count}:{period}" if i == 0 and period else "loop", before(i == 0), environment)
               for i, p in enumerate(programs)]
    deadline = time.time() + 90
    while not all(os.path.exists(f"{folder}/{p}.ready") for p in programs) and time.time() < deadline:
        if any(r.poll() is not None for r in running):
            break
        time.sleep(0.01)
    open(folder + "/go", "w").close()
    result, state = {}, None
    try:
        if not period:
            time.sleep(3)
        else:
            running[0].wait(timeout=60)
        if service is not None:
            state = json.loads(subprocess.run([sim, "top", "--json", "--at", folder + "/service"], capture_output=True, text=True).stdout or "null")
    except subprocess.TimeoutExpired:
        result["timeout"] = True
    open(folder + "/stop", "w").close()
    for p, r in zip(programs, running):
        try:
            out, err = r.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            r.kill()
            out, err = r.communicate()
            result["killed"] = result.get("killed", []) + [p]
        result[p] = json.loads(out) if out.startswith("{") else {"failed": err[-1500:], "exit": r.returncode}
        if "corun:" in err:
            result[p]["said"] = [line for line in err.splitlines() if "corun:" in line][:3]
    if service is not None:
        service.terminate()
        out, err = service.communicate(timeout=20)
        result["service"], result["service_said"] = state, err[-500:]
    if mode == "mps":
        subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=environment)
    return result


def main(sim, path, folder, repeats, count, modes, *programs):
    data = {"gpu": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True,
                                  text=True).stdout.strip(),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "command": " ".join(sys.argv[1:]), "load": LOAD, "runs": []}
    alone = {p: once(sim, folder, "alone", [p], 0, 0) for p in programs}
    data["alone"] = {p: run[p] for p, run in alone.items()}
    print(json.dumps(data["alone"]), flush=True)
    period = alone[programs[0]][programs[0]]["mean_ms"] / LOAD
    for turn in range(int(repeats)):
        for mode in modes.split(";"):
            run = once(sim, folder, mode, programs[:1] if mode == "alone" else programs, int(count), period)
            data["runs"].append({"mode": mode, "turn": turn, **run})
            brief = {p: {k: run[p].get(k) for k in ("per_s", "p50_ms", "p99_ms", "failed", "said")} for p in programs if p in run}
            same = [run[p].get("sha256") == data["alone"][p].get("sha256") for p in programs if p in run]
            print(mode, turn, json.dumps(brief), "same outputs" if all(same) else same, run.get("service_said", "")[-200:], flush=True)
            with open(path, "w") as file:
                json.dump(data, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
