#!/usr/bin/env python3
"""Six programs at the same time: are their outputs, bit by bit, those that they have without the library?

  identity.py SIM OUT.json FOLDER OWN "MODE[;MODE...]" [TOGETHER [SHARE]]
MODE: none (each in a context of its own, no service) or a policy of `sim serve` (and further options of it).  Two modes `none` say whether the programs agree with themselves.
OWN: own.cu, compiled.  TOGETHER: how many modes run at the same time, each with a service and an MPS server of its own.
SHARE: of the requests of each program.
"""
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
COUNT = {"decode-flash-graph": 600, "vision": 150, "vision-graph": 200, "prefill": 60, "train": 40, "own": 150}  # requests; the first is real-time
LIMIT_S = 70


def once(sim, folder, own, mode):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    began, at, service, row = time.time(), folder + "/service", None, {"mode": mode, "programs": {}}
    if mode != "none":
        options = ["--programs=" + ",".join(COUNT)] if mode.startswith("tpc-mask") else []
        service = subprocess.Popen([sim, "serve", *("--policy=" + mode).split(), "--at", at, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(at + "/environment") and service.poll() is None:
            time.sleep(0.01)
        if service.poll() is not None:
            return row | {"refused": service.communicate()[1][-500:]}

    def start(i, name):
        program = [own, "hash", folder, str(COUNT[name])] if name == "own" else [sys.executable, HERE + "/programs.py", name, folder, f"hash:{COUNT[name]}"]
        joins = [sim, "run", "--at", at, "--name", name, *(["--class=real_time", "--priority=-5"] if i == 0 else []), "--"]
        return subprocess.Popen([*(joins if service else []), *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    running = {name: start(i, name) for i, name in enumerate(COUNT)}
    ready = lambda name: os.path.exists(f"{folder}/{name}.ready") or running[name].poll() is not None  # noqa: E731
    while not all(map(ready, running)) and time.time() - began < LIMIT_S / 2:
        time.sleep(0.01)
    row["ready_s"] = round(time.time() - began, 1)
    open(folder + "/go", "w").close()
    for name, program in running.items():
        state = None
        if service is not None and name == next(iter(COUNT)):
            time.sleep(1)
            state = subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True).stdout
            row["service"] = json.loads(state) if state.startswith("{") else state
        try:
            out, err = program.communicate(timeout=max(1, LIMIT_S - (time.time() - began)))
        except subprocess.TimeoutExpired:
            program.kill()
            out, err = program.communicate()
            err = "hangs; " + err
        row["programs"][name] = json.loads(out) if out.startswith("{") else {"failed": err[-800:], "exit": program.returncode}
        if "corun:" in err:
            row["programs"][name]["said"] = [line for line in err.splitlines() if "corun:" in line][:3]
    if service is not None:
        service.terminate()
        row["service_ended"] = service.communicate(timeout=60)[1][-300:]
    row["s"] = round(time.time() - began, 1)
    return row


def outputs(row, name):
    said = row.get("programs", {}).get(name, {})
    return said.get("sha256") or said.get("fnv1a")


def main(sim, path, folder, own, modes, together="1", share="1"):
    rows = []
    for name in COUNT:
        COUNT[name] = int(COUNT[name] * float(share))
    data = {"gpu": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip(),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "requests": COUNT, "runs": rows}
    with ThreadPoolExecutor(int(together)) as pool:
        for row in pool.map(lambda m: once(sim, f"{folder}/{m[0]}", own, m[1]), enumerate(modes.split(";"))):
            rows.append(row)
            print(row["mode"], row.get("ready_s"), row.get("s"), {name: outputs(row, name) for name in COUNT}, flush=True)
            with open(path, "w") as file:
                json.dump(data, file, indent=1)
    without = [row for row in rows if row["mode"] == "none"]
    for row in rows:
        told = []
        for name in COUNT:
            expected = {outputs(w, name) for w in without}
            alike = len(expected) == 1 and None not in expected
            told.append(f"{name} " + ("differs without it" if not alike else "failed" if outputs(row, name) is None else
                                      "same" if outputs(row, name) in expected else "DIFFERS"))
        print(f"{row['mode']:32}{row.get('s', 0):6.0f} s  " + row.get("refused", "; ".join(told)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
