#!/usr/bin/env python3
"""A real-time program beside best-effort ones, unmodified: alone, under plain MPS, taking turns, and steered by `sim serve`.

  measure.py SIM OUT.json FOLDER REPEATS REQUESTS "MODE[;MODE...]" REAL_TIME BEST_EFFORT...
MODE: alone, mps, turns, or a policy of `sim serve`.  POLICY@US: a launch goes that long before those before it end; POLICY@US/N: and up to N
launches of a stream may be with the driver before they are granted; POLICY@US/N/FILE: and recorded there; MODE*N: N times instead of REPEATS.  The real-time program's
requests come at a load of 0.4 of its mean time alone, REPEATS times REQUESTS of them in each mode; of the others counts what they do
meanwhile.
"""
import bisect
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


def serve(sim, at, *options, **how):
    """A service, once programs can join; or one that has ended, or has not begun within 30 s."""
    service = subprocess.Popen([sim, "serve", "--at", at, *options], **how)
    deadline = time.time() + 30
    while not os.path.exists(at + "/environment") and service.poll() is None and time.time() < deadline:
        time.sleep(0.01)
    return service


def end(service):
    service.terminate()
    try:
        service.wait(20)
    except subprocess.TimeoutExpired:
        service.kill()
        service.wait()


def once(sim, folder, mode, programs, count, period, rounds=1):
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
        policy, _, rest = mode.partition("@")
        options = [f"--{name}={value}" for name, value in zip(("ahead-us", "in-flight", "record"), rest.split("/")) if value]
        if policy.startswith(("tpc-mask", "static-split")):
            options += ["--programs=cam" + ",work" * (len(programs) - 1)]
        service = serve(sim, at, "--policy=" + policy, *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        before = lambda rt: [sim, "run", "--at", at, "--name", "cam" if rt else "work",  # noqa: E731
                             *(["--class=real_time", "--priority=-5"] if rt else []), "--"]
    running = [start(p, folder, f"{count}:{period}:{rounds}" if i == 0 and period else "loop", before(i == 0), environment)
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
            running[0].wait(timeout=60 * rounds)
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
        out, err = service.communicate(timeout=60)
        result["service"], result["service_said"] = state, err[-500:]
    if mode == "mps":
        subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=environment)
    return result


def done_by(ends, at):
    """How many requests, with the part of the one under way."""
    n = bisect.bisect_right(ends, at)
    return n if n == 0 or n == len(ends) else n + (at - ends[n - 1]) / (ends[n] - ends[n - 1])


def by_round(run, programs):
    """For each round of the real-time program what it saw, and what the others did from its begin to its end."""
    rounds = []
    for r in run.get(programs[0], {}).get("rounds", []):
        row = {programs[0]: {k: v for k, v in r.items() if k not in ("began", "ended", "ends")} | {"sha256": run[programs[0]]["sha256"]}}
        for p in programs[1:]:
            ends = run[p].get("rounds", [{}])[0].get("ends", [])
            per_s = (done_by(ends, r["ended"]) - done_by(ends, r["began"])) / (r["ended"] - r["began"])
            row[p] = {"per_s": round(per_s, 3), "sha256": run[p].get("sha256")} | ({} if ends else {"failed": run[p].get("failed", "no request")})
        rounds.append(row)
    return rounds


def main(sim, path, folder, repeats, count, modes, *programs):
    data = {"gpu": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True,
                                  text=True).stdout.strip(),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "command": " ".join(sys.argv[1:]), "load": LOAD, "alone": {}, "runs": []}
    for p in programs:
        said = once(sim, folder, "alone", [p], 0, 0)
        data["alone"][p] = by_round(said, [p])[0][p] if "rounds" in said[p] else said[p]
    print(json.dumps(data["alone"]), flush=True)
    period = data["alone"][programs[0]]["mean_ms"] / LOAD
    for mode in modes.split(";"):
        began = time.time()
        mode, _, times = mode.partition("*")
        run = once(sim, folder, mode, programs[:1] if mode == "alone" else programs, int(count), period, int(times or repeats))
        state = {k: run.get(k) for k in ("service", "service_said", "timeout", "killed") if run.get(k)}
        rounds = by_round(run, [p for p in programs if p in run])
        data["runs"] += [{"mode": mode, "turn": i, **r, **(state if i == 0 else {})} for i, r in enumerate(rounds)]
        if not rounds:
            data["runs"].append({"mode": mode, "failed": run})
        print(f"{mode}: {time.time() - began:.0f} s", json.dumps([{p: [r[p].get("p99_ms"), r[p]["per_s"]] for p in r} for r in rounds] or run)[:1500],
              "same outputs:", [all(r[p]["sha256"] == data["alone"][p].get("sha256") for r in rounds) for p in programs if p in run],
              {p["name"]: {k: p[k] for k in ("queued", "unsteered", "mean_wait_us", "launches")} for p in (run.get("service") or {}).get("programs", [])},
              (run.get("service") or {}).get("decision_us"), {p: run[p]["said"] for p in programs if "said" in run.get(p, {})}, flush=True)
        with open(path, "w") as file:
            json.dump(data, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
