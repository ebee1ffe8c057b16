#!/usr/bin/env python3
"""Programs that bring their PTX share a GPU: what each gets done of what it gets done alone, requests' latencies, outputs bit by bit.

  shares.py PROGRAMS OUT.json FOLDER SECONDS MODE...
PROGRAMS: a folder with sim, libcorun_steer.so and shares.  MODE: none (each alone, no MPS), mps, or NAME=options of `sim serve`, to which
" + KIND:options of sim run" may be added for each program.  In each mode the programs are started once, and each set of them runs for a while.
"""
import itertools
import json
import os
import shutil
import subprocess
import sys
import time

KINDS = ("short", "fma", "triad", "tiles")  # the first is real-time
PERIOD_US = "1000"


def once(programs, folder, mode, seconds):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    name, _, rest = mode.partition("=")
    options, *of_kinds = rest.split(" + ")
    of_kind = {o.partition(":")[0]: o.partition(":")[2].split() for o in of_kinds}
    sim, environment, service, at = programs + "/sim", dict(os.environ), None, folder + "/s"
    row = {"mode": mode, "programs": {}, "sets": []}
    if name == "mps":
        environment |= {"CUDA_MPS_PIPE_DIRECTORY": folder + "/mps", "CUDA_MPS_LOG_DIRECTORY": folder + "/mps"}
        os.makedirs(folder + "/mps")
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True)
    elif name != "none":
        service = subprocess.Popen([sim, "serve", *options.split(), "--at", at], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.time() + 10
        while not os.path.exists(at + "/environment") and service.poll() is None and time.time() < until:
            time.sleep(0.01)
        if service.poll() is not None:
            return row | {"refused": service.communicate()[1][-500:]}
    sets = [s for n in range(1, 2 if name == "none" else len(KINDS) + 1) for s in itertools.combinations(KINDS, n)]
    mine = {k: [s for s in sets if k in s] for k in KINDS}

    def start(kind):
        joins = [sim, "run", "--at", at, "--name", kind, *(["--class=real_time", "--priority=-5"] if kind == KINDS[0] else []), *of_kind.get(kind, []), "--"]
        return subprocess.Popen([*(joins if service else []), programs + "/shares", kind, folder, str(len(mine[kind])), PERIOD_US], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    began = time.time()
    running = {k: start(k) for k in KINDS}
    ready = lambda k: os.path.exists(f"{folder}/{k}.ready") or running[k].poll() is not None  # noqa: E731
    while not all(map(ready, KINDS)) and time.time() - began < 20:
        time.sleep(0.01)
    row["ready_s"] = round(time.time() - began, 2)
    times = []
    for s in sets:
        for k in s:
            open(f"{folder}/{k}.go.{mine[k].index(s)}", "w").close()
        time.sleep(seconds)
        if service:
            said = subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True, timeout=5).stdout
            times.append(json.loads(said) if said.startswith("{") else said)
        for k in s:
            open(f"{folder}/{k}.stop.{mine[k].index(s)}", "w").close()
        time.sleep(0.12)
    for k, program in running.items():
        try:
            out, err = program.communicate(timeout=8)
        except subprocess.TimeoutExpired:
            program.kill()
            out, err = program.communicate()
            err = "hangs; " + err
        row["programs"][k] = json.loads(out) if out.startswith("{") else {"failed": err[-600:], "exit": program.returncode}
    row["sets"] = [{k: row["programs"][k]["rounds"][mine[k].index(s)] for k in s if "rounds" in row["programs"][k]} for s in sets]
    if times:
        row["top"] = times  # when each set had run
    if service is not None:
        service.send_signal(2)
        try:
            row["ended"] = service.communicate(timeout=15)[1][-300:]
        except subprocess.TimeoutExpired:
            service.kill()
            row["ended"] = "killed"
    if name == "mps":
        subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=environment)
    row["s"] = round(time.time() - began, 1)
    return row


def main(programs, path, folder, seconds, *modes):
    data = {"gpu": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip(),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "period_us": PERIOD_US, "runs": []}
    for mode in modes:
        row = once(programs, folder, mode, float(seconds))
        data["runs"].append(row)
        with open(path, "w") as file:
            json.dump(data, file, indent=1)
        alone = {k: s[k]["per_s"] for s in data["runs"][0]["sets"] if len(s) == 1 for k in s}
        print(mode, f"{row.get('s', 0)} s", row.get("refused", ""), {k: p.get("failed") or (p["blocks_not_once"], p["fnv1a"]) for k, p in row["programs"].items()})
        for s in row["sets"]:
            if all(k in alone for k in s):
                print(f"  {'+'.join(s):24} STP {sum(r['per_s'] / alone[k] for k, r in s.items()):.3f}  " +
                      ", ".join(f"{k} {r['per_s'] / alone[k]:.3f} (p50 {r['p50_us']:.0f} p99 {r['p99_us']:.0f})" for k, r in s.items()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
