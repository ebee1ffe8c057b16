#!/usr/bin/env python3
"""What processes that share an H200 get, with MPS and without: run.py [JOB...] > results.json

Starts `processes` (nvcc -O2 -std=c++17 -arch=sm_90 processes.cu -lcuda -o processes) once per client.  The MPS
daemon is its own, in a temporary folder, and is stopped whatever happens.
"""
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAM = str(pathlib.Path(__file__).resolve().parent / "processes")
LIMIT_S = 60


@contextlib.contextmanager
def mps():
    """The environment of clients of a daemon of our own."""
    folder = tempfile.mkdtemp(prefix="mps-")
    env = os.environ | {"CUDA_MPS_PIPE_DIRECTORY": folder + "/pipe", "CUDA_MPS_LOG_DIRECTORY": folder + "/log"}
    for name in ("pipe", "log"):
        os.mkdir(f"{folder}/{name}")
    daemon = subprocess.Popen(["nvidia-cuda-mps-control", "-f"], env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.STDOUT)
    try:
        time.sleep(0.5)
        if daemon.poll() is not None:
            raise RuntimeError("nvidia-cuda-mps-control has ended")
        yield env
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], input=b"quit -t 2\n", env=env, timeout=20, check=False,
                       stdout=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(10)
        if daemon.poll() is None:
            daemon.kill()
        shutil.rmtree(folder, ignore_errors=True)


def start(args, env=None, percentage=None):
    env = dict(env or os.environ)
    if percentage is not None:
        env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(percentage)
    return subprocess.Popen([PROGRAM, *map(str, args)], env=env, stdout=subprocess.PIPE, text=True)


def record(process):
    out, _ = process.communicate(timeout=LIMIT_S)
    return json.loads(out.splitlines()[-1])


def together(jobs):
    """All have set up; then they begin at once.  jobs: (arguments with None for the file, env, percentage)"""
    with tempfile.TemporaryDirectory() as folder:
        go = folder + "/go"
        started = []
        for args, env, p in jobs:  # one after the other: MPS gives out SMs in the order of the contexts
            started.append(start([go if a is None else a for a in args], env, p))
            started[-1].stdout.readline()
        pathlib.Path(go).touch()
        return [record(p) for p in started]


def percentages():
    """SMs of one MPS client, by percentage; eight clients at a time set up, one after the other runs."""
    rows = []
    with mps() as env:
        every = list(range(1, 101)) + [2.5, 12.5, 33.3, 66.7]
        for i in range(0, len(every), 8):
            some = [(p, start(["sms"], env, p)) for p in every[i:i + 8]]
            rows += [{"percentage": p} | record(process) for p, process in some]
    return rows


def overlaps():
    """How many SMs a client shares with others: all but the last fill theirs for 100 ms, and the last one's first
    blocks, of 1 ms, show how many places it finds.  (%smid does not: every capped client counts from 0.)"""
    rows = []
    with mps() as env:
        for each in ([100, 100], [10, 10], [25, 25], [30, 30], [50, 50], [60, 60], [75, 75], [25, 75], [75, 25],
                     [40, 80], [90, 20], [30, 30, 30], [30, 30, 60], [50, 25, 25], [50, 50, 50], [25] * 4, [20] * 6):
            for repeat in range(2):
                jobs = [(["sms", None, 100000, 0, 0], env, p) for p in each[:-1]]
                *others, last = together(jobs + [(["sms", None, 1000, 528, 20], env, each[-1])])
                rows.append({"percentages": each, "repeat": repeat, "sms": last["reported_sms"],
                             "others_sms": [o["reported_sms"] for o in others],
                             "others_first_wave": [o["first_wave"] for o in others],
                             "first_wave": last["first_wave"],
                             "shared_sms": last["reported_sms"] - last["first_wave"] / 2})
    return rows


def pairs():
    """The same by pairs: of the clients of a mix only one fills its SMs, then another asks."""
    rows = []
    with mps() as env:
        for each in ([40, 60], [60, 40], [40, 60, 60], [40, 60, 60, 60], [50, 50], [25, 75], [75, 25]):
            for full in range(len(each)):
                for asks in range(len(each)):
                    if full == asks:
                        continue
                    jobs = [(["sms", None, *([100000, 0, 0] if i == full else [1000, 528, 20] if i == asks else [1, 1, 40])], env, p)
                            for i, p in enumerate(each)]
                    got = together(jobs)
                    rows.append({"percentages": each, "full": full, "asks": asks, "sms": got[asks]["reported_sms"],
                                 "shared_sms": got[asks]["reported_sms"] - got[asks]["first_wave"] / 2})
    return rows


def slices():
    """When each of some processes has the GPU without MPS."""
    return [{"processes": n, "repeat": repeat,
             "clients": together([(["turns", None, 300], None, None)] * n)}
            for n in (1, 2, 3, 4) for repeat in range(2)]


def moves():
    return record(start(["moves"]))


def told(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def short(rows):
    """SMs that follow each other from 0 on as "0 to n-1"."""
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and row.get("used") == list(range(len(row.get("used", [])))) and row["used"]:
            row["used"] = f"0 to {len(row['used']) - 1}"
    return rows


def write(document, to):
    """A line for each row."""
    lines = []
    for key, value in document.items():
        text = ("[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]"
                if isinstance(value, list) else json.dumps(value))
        lines.append(f"{json.dumps(key)}: {text}")
    to.write("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    jobs = {"percentages": percentages, "overlaps": overlaps, "pairs": pairs, "slices": slices, "moves": moves}
    document = {"command": "run.py", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                "machine": told("nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,compute_mode",
                                "--format=csv,noheader"), "cuda": told("nvcc", "--version")[-60:]}
    for name in sys.argv[1:] or jobs:
        began = time.time()
        try:
            document[name] = short(jobs[name]())
        except Exception as error:  # the other jobs can still tell something
            document[name] = {"error": repr(error)}
        print(name, f"{time.time() - began:.1f} s", file=sys.stderr)
    write(document, sys.stdout)


if __name__ == "__main__":
    main()
