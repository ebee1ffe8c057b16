#!/usr/bin/env python3
"""Three programs that each want half of a cap of device memory: do they all complete under flexgpu, with the outputs that they have without the
library, and what does it cost?

  memory.py [--behind FILE] SIM OUT.json FOLDER HALF "MODE[;MODE...]" MIB PROGRAM...
Python's programs of all modes are started at once, so that what they import is there, and use the GPU in the turn of their mode; the first turn
comes when FILE is there.  HALF: half.cu, compiled.  PROGRAM: NAME:COUNT of half.py, or own[N]:ROUNDS[:REST_MS] of HALF.  MIB: what each wants.
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
started = []  # and may still run when this script is told to end


def end(*_):
    for each in started:
        each.terminate()
    time.sleep(1)
    for each in started:
        each.kill()
    sys.exit(1)


class Turn:
    """A mode: its service or MPS server, and its programs."""

    def __init__(self, sim, folder, half, mode, mib, programs):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.sim, self.folder, self.half, self.mib, self.at = sim, folder, half, mib, folder + "/service"
        self.row, self.environment, self.service, self.mps, self.running = {"mode": mode, "mib": mib}, dict(os.environ), None, None, {}
        how, _, alone = mode.partition("#")
        how, _, self.victim = how.partition("!")
        policy, _, cap = how.partition("@")
        self.programs = [p for p in programs if p.startswith(alone)]
        if policy == "mps":
            self.environment |= {"CUDA_MPS_PIPE_DIRECTORY": folder + "/mps", "CUDA_MPS_LOG_DIRECTORY": folder + "/mps"}
            os.makedirs(folder + "/mps")
            self.mps = subprocess.Popen(["nvidia-cuda-mps-control", "-f"], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            started.append(self.mps)
            time.sleep(0.5)
        elif policy != "none":
            self.service = subprocess.Popen([sim, "serve", "--policy=" + policy, "--at", self.at, *([f"--memory={cap}MiB"] if cap else [])],
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            started.append(self.service)
            while not os.path.exists(self.at + "/environment") and self.service.poll() is None:
                time.sleep(0.01)
        for program in self.programs:
            if not program.startswith("own"):
                self.start(program)

    def start(self, program):
        name, *count = program.split(":")
        what = [self.half] if name.startswith("own") else [sys.executable, HERE + "/half.py"]
        before = [self.sim, "run", "--at", self.at, "--name", name, "--"] if self.service else []
        self.running[name] = subprocess.Popen([*before, *what, name, self.folder, str(self.mib), *count], env=self.environment, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, text=True)
        started.append(self.running[name])

    def look(self, memory):
        """What the service says now; keeps what it said last of each program's memory."""
        said = subprocess.run([self.sim, "top", "--json", "--at", self.at], capture_output=True, text=True).stdout
        state = json.loads(said) if said.startswith("{") else {}
        memory |= {p["name"]: p["memory"] for p in state.get("programs", []) if "memory" in p}
        return state

    def run(self):
        row, running = self.row, self.running
        began = time.time()
        open(self.folder + "/start", "w").close()
        for program in self.programs:
            if program.startswith("own"):
                self.start(program)
        while not all(os.path.exists(f"{self.folder}/{p}.ready") for p in running) and time.time() < began + LIMIT_S:
            if any(r.poll() not in (None, 0) for r in running.values()):
                break
            time.sleep(0.02)
        row["ready_s"] = round(time.time() - began, 2)
        open(self.folder + "/go", "w").close()
        began, last, most_seen, memory = time.time(), None, 0, {}
        while any(r.poll() is None for r in running.values()) and time.time() < began + LIMIT_S:
            if self.service and self.service.poll() is None:
                last = self.look(memory) or last
                used = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
                most_seen = max(most_seen, int(used.split()[0]) if used.split() else 0)
                away = [p for p, of in memory.items() if of["host_bytes"] > (self.mib << 20) / 2]
                if self.victim and away and "killed" not in row:
                    row["killed"] = {"signal": self.victim, "at_s": round(time.time() - began, 2), "away": away[0]}
                    (self.service if self.victim == "service" else running[away[0]]).send_signal(signal.SIGKILL)
            time.sleep(0.1)
        row["s"] = round(time.time() - began, 2)
        row["programs"] = {p.split(":")[0]: self.outcome(p.split(":")[0]) for p in self.programs}
        if self.service:
            row |= {"gpu_used_mib": most_seen, "last seen": last, "memory last seen": memory}
            if self.service.poll() is None:
                self.service.terminate()
            out, err = self.service.communicate(timeout=20)
            row["at the end"] = json.loads(out) if out.startswith("{") else err[-500:]
        if self.mps:
            subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=self.environment, timeout=20)
            self.mps.wait(timeout=20)
        return row

    def outcome(self, name):
        program = self.running[name]
        hangs = program.poll() is None
        if hangs:
            program.kill()
        out, err = program.communicate()
        return {"exit": "hangs" if hangs else program.returncode, **(json.loads(out) if out.startswith("{") else {"out": out[-300:]}), "err": err[-400:]}


def main(sim, path, folder, half, modes, mib, *programs):
    behind = None
    if sim == "--behind":
        behind, sim, path, folder, half, modes, mib, *programs = path, folder, half, modes, mib, *programs
    rows, expected = [], {}
    turns = [Turn(sim, f"{folder}/{i}", half, mode, int(mib), programs) for i, mode in enumerate(modes.split(";"))]
    while behind and not os.path.exists(behind):
        time.sleep(0.01)
    for turn in turns:
        row, mode = turn.run(), turn.row["mode"]
        rows.append(row)
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)
        told = []
        for name, said in row["programs"].items():
            if "hash" in said:
                expected.setdefault(name, said["hash"])
            same = "no hash" if "hash" not in said else "same" if said["hash"] == expected[name] else "DIFFERS"
            if said.get("differ from the first") or said.get("wrong words"):
                same += f" ({said['differ from the first']} differ from the first: {said['those']}; {said['wrong words']} wrong words)"
            told.append(f"{name} {same} exit {said['exit']} {said.get('s', 0)} s (allocate {said.get('allocate_s', 0)})" + (f" [{said['err'][-150:]}]" if said["err"] else ""))
        memory = row["at the end"].get("memory") if isinstance(row.get("at the end"), dict) else None
        took = {what: sum(m[what] for m in row.get("memory last seen", {}).values()) for what in ("out_bytes", "out_s", "in_bytes", "in_s", "pin_s", "rest_s")}
        print(f"{mode}: {row['s']} s; " + "; ".join(told) + f"; {memory}, {took}", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    try:
        main(*sys.argv[1:])
    finally:
        for each in started:
            each.kill()
