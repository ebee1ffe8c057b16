#!/usr/bin/env python3
"""Signals in the middle of a run on the GPU: do the other clients go on, and is anything left?

    kill.py --sim build/bin/sim --out .      killed.json; rec-killed-POLICY.jsonl.gz, killed-POLICY/ of each run

The run is mix a (../cuda_backend) made longer.  How long setting up takes is measured with a run of 1 ms; so much later
and MARGIN_S more, signal 9 goes to the process of the second client, or 2 or 9 to the run itself.
"""
import argparse
import csv
import datetime
import gzip
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
DURATION_MS = 2000
MARGIN_S = 0.2
VICTIM = 1


def processes():
    """pid: (parent, start time, command line)"""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if stat[0] != "Z":
                    found[int(entry.name)] = (int(stat[1]), int(stat[19]), (entry / "cmdline").read_bytes().decode())
            except OSError:
                pass
    return found


def gpu(what):
    done = subprocess.run(["nvidia-smi", f"--query-{what}", "--format=csv,noheader"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip()


def left():
    """What outlives the run; 3 s are allowed for dying."""
    until = time.monotonic() + 3
    while True:
        running = [line.replace("\0", " ").strip() for _, _, line in processes().values()
                   if "corun-worker" in line or "nvidia-cuda-mps" in line]
        memory = gpu("gpu=memory.used")
        if (not running and memory == "0 MiB") or time.monotonic() > until:
            return {"processes": running, "gpu_memory_used": memory, "gpu_processes": gpu("compute-apps=pid"),
                    "folders": [str(f) for f in pathlib.Path(tempfile.gettempdir()).glob("corun-mps-*")]}
        time.sleep(0.05)


class Runs:
    def __init__(self, given, trace):
        self.out, self.trace = pathlib.Path(given.out), trace
        self.command = [given.sim, "--backend=cuda", "--verify", "--no-alone", "--json"] + (
            ["--store", given.store] if given.store else [])
        self.set_up = {}

    def start(self, policy, *more):
        command = [*self.command, f"--policy={policy}", *more, str(self.trace)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def until_the_middle(self, policy):
        if policy not in self.set_up:
            begin = time.monotonic()
            self.start(policy, "--duration", "1ms").communicate(timeout=60)
            self.set_up[policy] = time.monotonic() - begin
        return self.set_up[policy] + MARGIN_S

    def client_killed(self, policy):
        recording, folder = self.out / f"rec-killed-{policy}.jsonl", self.out / f"killed-{policy}"
        wait = self.until_the_middle(policy)
        run = self.start(policy, "--record", str(recording), "--out", str(folder))
        time.sleep(wait)
        workers = sorted((start, pid) for pid, (parent, start, line) in processes().items()
                         if parent == run.pid and "corun-worker" in line)
        os.kill(workers[VICTIM][1], signal.SIGKILL)
        stdout, stderr = run.communicate(timeout=90)
        result = {"policy": policy, "signal": 9, "to": "the second client's process", "after_s": wait,
                  "exit_code": run.returncode, "left": left(), "message": stderr.strip()[-600:]}
        if run.returncode != 0:
            return result
        with open(recording, "rb") as plain, open(f"{recording}.gz", "wb") as packed:
            with gzip.GzipFile("", "wb", 9, packed, 0) as to:  # no name and no time in it
                shutil.copyfileobj(plain, to)
        recording.unlink()
        summary = json.loads(stdout)
        result["notes"] = summary.get("notes", [])
        result["clients"] = {c["name"]: {k: c.get(k) for k in ("finished", "unfinished", "failed", "throughput_per_s")}
                             for c in summary["clients"]}
        ends = {c["name"]: [] for c in summary["clients"]}
        with open(folder / "requests.csv", encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                if row["finished_ns"]:
                    ends[row["client"]].append(float(row["finished_ns"]))
        victim = list(ends)[VICTIM]
        last = max(ends[victim])
        result["victim"] = victim
        result["last_request_ended_ms"] = {n: max(all_) / 1e6 for n, all_ in ends.items()}
        result["finished_after_the_victims_last"] = {n: sum(e > last for e in all_) for n, all_ in ends.items()
                                                     if n != victim}
        return result

    def run_signalled(self, policy, number):
        wait = self.until_the_middle(policy)
        run = self.start(policy)
        time.sleep(wait)
        workers = sum(parent == run.pid and "corun-worker" in line for parent, _, line in processes().values())
        run.send_signal(number)
        _, stderr = run.communicate(timeout=90)
        return {"policy": policy, "signal": int(number), "to": "the run", "after_s": wait, "workers_then": workers,
                "exit_code": run.returncode, "left": left(), "message": stderr.strip()[-300:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sim", required=True)
    parser.add_argument("--out", default=".")
    parser.add_argument("--store", default="")
    given = parser.parse_args()
    out = pathlib.Path(given.out)
    trace = json.loads((HERE.parent / "cuda_backend" / "mix-a.json").read_text())
    trace["name"] = "mix a, longer"
    trace["run"]["duration_ns"] = DURATION_MS * 1e6
    path = out / "killed-mix.json"
    path.write_text(json.dumps(trace) + "\n")
    document = {"command": "kill.py", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "gpu": gpu("gpu=name,driver_version"), "duration_ms": DURATION_MS, "runs": []}
    runs = Runs(given, path)
    for policy in ("timeslice", "mps"):
        for what in (lambda: runs.client_killed(policy), lambda: runs.run_signalled(policy, signal.SIGINT),
                     lambda: runs.run_signalled(policy, signal.SIGKILL)):
            try:
                document["runs"].append(what())
            except (subprocess.TimeoutExpired, IndexError, OSError) as error:
                document["runs"].append({"policy": policy, "problem": repr(error)})
            print(json.dumps(document["runs"][-1])[:1500], flush=True)
            (out / "killed.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
