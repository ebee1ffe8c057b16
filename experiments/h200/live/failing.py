#!/usr/bin/env python3
"""A service that is stopped for 10 s or killed, without descriptors, on a full disk, behind a hung program, and one that grants nothing: how long do programs stand still?   failing.py SIM, as root, on a GPU with torch.

One JSON line a case, to standard output and $OUT/failing.jsonl: of each program the steps, the longest step, and the exit code; what the service said.
"""
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
SIM = os.path.abspath(sys.argv[1])
STEPS = """
import torch, time, json, sys
began = time.time()
x = torch.randn(2048, 2048, device='cuda'); y = x @ x; torch.cuda.synchronize()
first = time.time() - began
t = time.time(); worst = at = 0; n = 0
while time.time() - t < float(sys.argv[1]):
    b = time.time(); y = x @ x; torch.cuda.synchronize(); s = time.time() - b; n += 1
    if s > worst: worst, at = s, b - t
print(json.dumps({'steps': n, 'first_s': round(first, 3), 'longest_s': round(worst, 4), 'at_s': round(at, 2)}), flush=True)
"""
HANGS = """
import torch, time, json
x = torch.randn(2048, 2048, device='cuda'); y = x @ x; torch.cuda.synchronize(); time.sleep(3)
b = time.time(); torch.cuda._sleep(int(1.9e9 * 12)); torch.cuda.synchronize()
print(json.dumps({'hung_s': round(time.time() - b, 2)}), flush=True)
"""
DESCRIPTORS = 40
OUT = open(os.environ.get("OUT", ".") + "/failing.jsonl", "a")


def say(row):
    print(json.dumps(row), flush=True)
    OUT.write(json.dumps(row) + "\n")
    OUT.flush()


def start(at, name, text, *options, seconds=14, environment=None):
    joins = [SIM, "run", "--at", at, "--name", name, *options, "--"] if at else []
    return name, subprocess.Popen([*joins, sys.executable, "-c", text, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def ended(name, program, limit=60):
    try:
        out, error = program.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        program.kill()
        return {"name": name, "exit": "hangs"}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    row = {"name": name, "exit": program.returncode, **(json.loads(lines[-1]) if lines else {"error": error[-400:]})}
    said = [line for line in error.splitlines() if "corun" in line]
    return row | ({"said": said[-3:]} if said else {})


def processor_time(of):
    return sum(map(float, open(f"/proc/{of.pid}/stat").read().split(")")[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def case(name, policy, act, programs, options=(), limits=None):
    folder = tempfile.mkdtemp(prefix="failing-")
    at, log = folder + "/service", open(folder + "/log", "w")
    service = measure.serve(SIM, at, "--policy=" + policy, *options, stdout=log, stderr=subprocess.STDOUT, preexec_fn=limits)
    row = {"case": name, "policy": policy}
    try:
        running = [start(at, *p) for p in programs]
        time.sleep(9)
        more = act(service, at) or {}
        row |= more | {"programs": [ended(*r) for r in running], "service_runs": service.poll() is None}
    except Exception as failed:  # noqa: BLE001
        row["error"] = repr(failed)
    finally:
        measure.end(service)
    row["service_said"] = [line for line in open(folder + "/log").read().splitlines() if "join" not in line and "left" not in line][-6:]
    say(row)


def descriptors(service, at):
    """Silent connections take all descriptors that the service may have: who comes then, and who comes once they have gone."""
    path = next(os.path.join(at, name) for name in os.listdir(at) if stat.S_ISSOCK(os.stat(os.path.join(at, name)).st_mode))
    over = threading.Event()

    def fill():
        while not over.is_set():
            held = []
            try:
                while len(held) < 2 * DESCRIPTORS:
                    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    held.append(one)
                    one.setblocking(False)
                    one.connect(path)
            except OSError:
                pass
            over.wait(0.2)
            for one in held:
                one.close()
    filling = threading.Thread(target=fill)
    filling.start()
    time.sleep(1)
    has = len(os.listdir(f"/proc/{service.pid}/fd"))
    used = processor_time(service)
    meanwhile = start(at, "meanwhile", STEPS, seconds=2)
    time.sleep(3)
    used = processor_time(service) - used
    over.set()
    filling.join()
    return {"open": has, "limit": DESCRIPTORS, "cpu_share": round(used / 3, 3), "meanwhile": ended(*meanwhile), "afterwards": ended(*start(at, "afterwards", STEPS, seconds=2))}


def stop(service, at):
    service.send_signal(signal.SIGSTOP)
    time.sleep(10)
    service.send_signal(signal.SIGCONT)


def main():
    both = [("best", STEPS), ("real", STEPS, "--class=real_time")]
    for policy in ("wait", "priority"):
        case("stopped for 10 s", policy, stop, both)
        case("killed", policy, lambda service, at: service.kill(), both)
    for policy in ("wait", "fcfs"):
        case("no descriptors", policy, descriptors, both, ["--no-mps"], limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)))
    disk = tempfile.mkdtemp(prefix="disk-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], check=True)
    try:
        def full(service, at):
            with open(disk + "/other", "wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 4096):
                        pass
                except OSError:
                    pass
            time.sleep(3)
            left = os.statvfs(disk).f_bavail
            os.unlink(disk + "/other")
            time.sleep(2.5)
            return {"blocks_left": left, "metrics_age_s": round(time.time() - os.stat(disk + "/metrics").st_mtime, 1)}
        case("disk full", "wait", full, both, [f"--metrics={disk}/metrics", f"--record={disk}/record"])
    finally:
        subprocess.run(["umount", disk])
    case("a real-time program hangs", "wait", lambda service, at: None, [("best", STEPS), ("hangs", HANGS, "--class=real_time")])
    folder = tempfile.mkdtemp(prefix="nothing-")
    subprocess.run(["g++", "-std=c++20", "-I", HERE + "/../../..", "-o", folder + "/nothing", HERE + "/programs/grants_nothing.cpp"], check=True)
    for seconds in (10, 40):
        nothing = subprocess.Popen([folder + "/nothing", f"{folder}/socket{seconds}", str(seconds)])
        time.sleep(0.5)
        steered = dict(os.environ, LD_PRELOAD=os.path.join(os.path.dirname(SIM), "libcorun_steer.so"), CORUN_SERVICE=f"{folder}/socket{seconds}")
        say({"case": f"a service that grants nothing, for {seconds} s", "programs": [ended(*start("", "alone", STEPS, seconds=2, environment=steered), limit=seconds + 25)]})
        nothing.kill()


if __name__ == "__main__":
    main()
