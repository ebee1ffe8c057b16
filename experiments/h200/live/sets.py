"""Programs that are started once under a mode, and of which each set in turn runs for a while: what stp.py and ../../h100/live/objectives.py
have in common.  The program `own` is own.cu, compiled: OWN in the environment.  A mode is turns (no MPS), mps, or a policy of `sim serve` (and further options of it)."""
import json
import os
import shutil
import subprocess
import sys
import time

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs.py")
PLAIN = ("mps", "turns")
STARTS = 3  # of a service
READY_S, ENDS_S = 60, 15  # in which programs have warmed up, and end


def gpu():
    return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()


def serve(sim, at, mode, programs):
    """The service, and what those said that ended at once; no service where all of them did."""
    options, said = ["--programs=" + ",".join(programs)] if mode.startswith("tpc-mask") else [], []
    for _ in range(STARTS):
        service = subprocess.Popen([sim, "serve", *("--policy=" + mode).split(), "--at", at, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(at + "/environment") and service.poll() is None:
            time.sleep(0.01)
        if service.poll() is None:
            return service, said
        said.append(service.communicate()[1][-500:])
    return None, said


def answer(process):
    """What a program says at its end."""
    try:
        out, err = process.communicate(timeout=ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err = "hangs; " + err
    return json.loads(out) if out.startswith("{") else {"failed": err[-800:]}


def run(sim, folder, mode, seconds, programs, sets, period_ms=None, slo_ms=None):
    """The first program is real-time; with `period_ms` its requests come at that period."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    environment, service, at, said_no = dict(os.environ), None, folder + "/service", []
    if mode == "mps":
        environment |= {"CUDA_MPS_PIPE_DIRECTORY": folder + "/mps", "CUDA_MPS_LOG_DIRECTORY": folder + "/mps"}
        os.makedirs(folder + "/mps")
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True)
    elif mode not in PLAIN:
        service, said_no = serve(sim, at, mode, programs)
        if service is None:
            return {"mode": mode, "failed": {"service": said_no}, "sets": [], "service": None}

    def start(i, program):
        own, real_time = f"{folder}/{program}", ["--class=real_time", "--priority=-5"] if i == 0 else []
        if i == 0 and slo_ms:
            real_time.append(f"--slo-us={round(1e3 * slo_ms)}")
        os.makedirs(own)
        open(own + "/go", "w").close()
        joins = [sim, "run", "--at", at, "--name", program, *real_time, "--"] if service else []
        if program == "own":
            return subprocess.Popen([*joins, os.environ["OWN"], "turns", own, str(len(of_program[program]))], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        how = f"turns:{len(of_program[program])}" + (f":{period_ms}" if i == 0 and period_ms else "")
        return subprocess.Popen([*joins, sys.executable, PROGRAMS, program, own, how], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    of_program = {p: [s for s in sets if p in s] for p in programs}
    running = {p: start(i, p) for i, p in enumerate(programs)}
    deadline = time.time() + READY_S
    while not all(os.path.exists(f"{folder}/{p}/{p}.ready") for p in programs) and time.time() < deadline:
        if any(r.poll() is not None for r in running.values()):
            break
        time.sleep(0.01)
    state = None
    for s in sets:
        for p in s:
            open(f"{folder}/{p}/go.{of_program[p].index(s)}", "w").close()
        time.sleep(seconds)
        if service and s == sets[-1]:  # while all are there
            state = json.loads(subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True).stdout or "null")
        for p in s:
            open(f"{folder}/{p}/stop.{of_program[p].index(s)}", "w").close()
        time.sleep(0.1)
    said = {p: answer(r) for p, r in running.items()}
    row = {"mode": mode, "failed": {p: said[p]["failed"] for p in programs if "failed" in said[p]}, "sets": [], "service": state, "said_no": said_no}
    if service:
        service.terminate()
        row["service_ended"] = service.communicate(timeout=60)[1][-500:]
    if mode == "mps":
        subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=environment)
    if not row["failed"]:
        row["sets"] = [{p: said[p]["rounds"][of_program[p].index(s)] for p in s} for s in sets]
        row["outputs"] = {p: said[p].get("sha256") for p in programs}
    return row
