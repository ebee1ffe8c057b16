#!/usr/bin/env python3
"""What happens on the card where something goes wrong or comes and goes; a line of JSON for each case, true where it is as documented.

  cases.py SIM OUT.json FOLDER OWN LIBRARY    OWN: own.cu, compiled; LIBRARY: libcorun_steer.so
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import time


def main(sim, path, folder, own, library):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    at, rows = folder + "/service", []
    before_all = set(glob.glob("/tmp/*")) | set(glob.glob("/dev/shm/*"))

    def say(case, holds, **more):
        rows.append({"case": case, "holds": holds} | more)
        print(json.dumps(rows[-1]), flush=True)
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)

    def serve(policy="wait"):
        service = subprocess.Popen([sim, "serve", "--policy=" + policy, "--at", at], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(at + "/environment") and service.poll() is None:
            time.sleep(0.01)
        return service

    def start(*words, name="own", real_time=False):
        return subprocess.Popen([sim, "run", "--at", at, "--name", name, *(["--class=real_time"] if real_time else []), "--", own, *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(*words, **more):
        process = start(*words, **more)
        try:
            out, err = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            return {"hangs": True, "exit": None}
        return {"exit": process.returncode, "said": err[-300:]} | (json.loads(out) if out.startswith("{") else {"out": out[-300:]})

    def state():
        out = subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True).stdout
        return json.loads(out) if out.startswith("{") else {}

    def memory(at_most=None):
        """MiB, of which programs that have ended may hold some for a moment."""
        deadline = time.time() + 2
        while at_most is not None and time.time() < deadline and memory() > at_most:
            time.sleep(0.1)
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
        return int(out.split()[0])

    def count(of):
        return len(subprocess.run(["pgrep", "-f", of], capture_output=True, text=True).stdout.split())

    idle, mps_before = memory(), count("nvidia-cuda-mps")
    plain = json.loads(subprocess.run([own, "fork"], capture_output=True, text=True).stdout)
    service = serve()
    first = run("once")
    say("a program runs", first["exit"] == 0, said=first)
    files = lambda: len(os.listdir(f"/proc/{service.pid}/fd"))  # noqa: E731
    time.sleep(1)
    used, descriptors, began = memory(), files(), time.time()
    exits = [run("once")["exit"] for _ in range(24)]
    after = memory(used)
    say("24 connects and disconnects leave no memory, process or file behind",
        exits == [0] * 24 and after <= used and files() == descriptors and state().get("programs") == [],
        memory_mib=[idle, used, after], descriptors=[descriptors, files()], s=round(time.time() - began, 1))
    forks = run("fork")
    say("a program forks, and goes on with the same outputs", forks["exit"] == 0 and forks.get("fnv1a") == plain["fnv1a"], said=forks)
    asks = run("allocate")
    say("a program asks for more memory than there is, is refused, and goes on", asks["exit"] == 0, said=asks)
    if len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines()) > 1:
        second = run("device", "1")
        say("a program uses a second device", second["exit"] == 0, said=second)
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
    for place in (folder, at, at + "/socket", at + "/environment"):
        os.chmod(place, 0o777)
    asked = subprocess.run([*nobody, sim, "top", "--at", at], capture_output=True, text=True)
    joined = subprocess.run([*nobody, "env", f"CORUN_SERVICE={at}/socket", "LD_PRELOAD=" + library, own, "once"], capture_output=True, text=True, timeout=60)
    say("another user's client is refused", asked.returncode == 2 and "another user's" in asked.stderr and "is not steered" in joined.stderr,
        top=asked.stderr[-200:], run={"exit": joined.returncode, "said": joined.stderr[-300:], "out": joined.stdout[-200:]})
    looping = start("loop", "8", name="loop")
    while not any(p["launches"] > 1000 for p in state().get("programs", [])) and looping.poll() is None:
        time.sleep(0.05)
    at_fault, fault = time.monotonic(), run("fault", name="fault")
    out, err = looping.communicate(timeout=30)
    told = json.loads(out) if out.startswith("{") else {"out": out[-300:]}
    within = told.get("at_s", 1e18) - at_fault
    say("a program's fault ends the MPS server's programs: they are told within a second", fault["exit"] == 1 and ("error" not in told or within < 1 + fault.get("after_s", 0)), fault=fault, told=told,
        within_s=round(within, 3))
    time.sleep(0.5)
    say("the service goes on, and a program that comes afterwards runs", service.poll() is None and run("once")["exit"] == 0)
    service.terminate()
    service.communicate(timeout=60)
    time.sleep(1)
    left = sorted((set(glob.glob("/tmp/*")) | set(glob.glob("/dev/shm/*"))) - before_all)
    say("the service leaves no process, memory or file behind", count("nvidia-cuda-mps") == mps_before and not left and not os.path.exists(at),
        left=left, memory_mib=[idle, memory()], mps_processes=[mps_before, count("nvidia-cuda-mps")])


if __name__ == "__main__":
    main(*sys.argv[1:])
