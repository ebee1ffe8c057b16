#!/usr/bin/env python3
"""What `sim capture` costs and how its captures replay: processes without a library and with it take turns, TURN_S of each
program, so that the host's drift meets all alike.  Each request is an NVTX range of its program's name.

  stretches.py SIM OUT.json FOLDER [SECONDS]   on the GPU; SIM: the `sim` command, with libcorun_capture.so beside it
  stretches.py SIM OUT.json                    anywhere: the table, from OUT.json and the recordings that were left beside it
"""
import gzip
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TURN_S = 0.35
WAYS = {"nothing": None, "nothing again": None, "stretches": "", "stretches, whole graphs": "CORUN_CAPTURE_WHOLE_GRAPHS", "all": "CORUN_CAPTURE_ALL"}


def worker():
    import overhead
    import torch
    programs = overhead.programs_()

    def serve(name, request, wait, seconds):
        """Microseconds of each request, with its wait."""
        times, until = [], time.perf_counter() + seconds
        while time.perf_counter() < until:
            begin = time.perf_counter_ns()
            torch.cuda.nvtx.range_push(name)
            request()
            wait()
            torch.cuda.nvtx.range_pop()
            times.append((time.perf_counter_ns() - begin) / 1e3)
        return times
    with torch.inference_mode():
        for name, one in programs.items():
            serve("first", *one, 0.1)
        print(json.dumps("ready"), flush=True)
        for _ in sys.stdin:
            answer = {}
            for name, one in programs.items():
                times = serve(name, *one, TURN_S)
                answer[name] = [statistics.median(times), statistics.mean(times), len(times)]
            print(json.dumps(answer), flush=True)


class Process:
    def __init__(self, library, variable, folder):
        environment = dict(os.environ, PYTHONPATH=HERE)
        if variable is not None:
            os.makedirs(folder, exist_ok=True)
            environment.update({"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library, "CORUN_CAPTURE": folder})
            if variable:
                environment[variable] = "1"
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker"], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def hear(self, seconds=12):
        """None of one that is dead, or says nothing for so long."""
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.process.kill()
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self):
        try:
            print("turn", file=self.process.stdin, flush=True)
        except OSError:
            return None
        return self.hear()

    def end(self):
        """Exit code and what was said."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            code = self.process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "did not end"
        self.errors.seek(0)
        return code, self.errors.read()[-400:]


def kept(path, way):
    return os.path.join(os.path.dirname(os.path.abspath(path)), way.replace(", ", "-").replace(" ", "-") + ".jsonl.gz")


def measure(sim, path, folder, seconds):
    began = time.time()
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    data = {"gpu": gpu, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "turns": {way: [] for way in WAYS}, "ends": {}}
    library = os.path.join(os.path.dirname(os.path.abspath(sim)), "libcorun_capture.so")
    processes = {way: Process(library, variable, os.path.join(folder, way)) for way, variable in WAYS.items()}
    for way, process in processes.items():
        print(way, process.hear(40), f"{time.time() - began:.1f} s", flush=True)
    order, took = list(WAYS), 0
    while time.time() - began + took < seconds - 6:
        at = time.time()
        for way in order:
            data["turns"][way].append(processes[way].ask())
        order, took = order[1:] + order[:1], time.time() - at
    for way, process in processes.items():
        data["ends"][way] = process.end()
    with open(path, "w") as file:
        json.dump(data, file)
    for way, variable in WAYS.items():
        if variable is not None:
            for name in sorted(os.listdir(os.path.join(folder, way)))[:1]:
                with open(os.path.join(folder, way, name), "rb") as source, gzip.open(kept(path, way), "wb", 1) as to:
                    shutil.copyfileobj(source, to)
    print(f"{time.time() - began:.1f} s", data["ends"], flush=True)


def replay(sim, recording, program):
    """Milliseconds of a request, alone, and what the import said of it."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "kept"))
        with gzip.open(recording) as source, open(os.path.join(folder, "kept", "1.jsonl"), "wb") as to:
            shutil.copyfileobj(source, to)
        trace = os.path.join(folder, "trace.json")
        said = subprocess.run([sim, "import", "capture", os.path.join(folder, "kept"), "--range", program, "-o", trace], capture_output=True, text=True)
        if said.returncode != 0:
            return None, said.stderr
        again = subprocess.run([sim, "--policy=fcfs", "--duration=300ms", "--json", trace], capture_output=True, text=True)
        return (json.loads(again.stdout)["clients"][0]["p50_ms"] if again.returncode == 0 else None), said.stderr


def tell(sim, path):
    """Medians over the turns: of the ratio to the mean request of `nothing` in the same turn, and the replay beside its medians."""
    with open(path) as file:
        data = json.load(file)
    names = list(next(turn for turn in data["turns"]["nothing"] if turn))
    print(data["gpu"], data["date"])
    print(f"{'way: us, ratio, fastest ratio, replay':38}" + "".join(f"{name:>36}" for name in names))
    plain = {name: statistics.median(turn[name][0] for turn in data["turns"]["nothing"] + data["turns"]["nothing again"]) for name in names}
    for way, turns in data["turns"].items():
        cells = []
        for name in names:
            pairs = [(a[name][1], b[name][1]) for a, b in zip(turns, data["turns"]["nothing"]) if a and b]
            if not pairs:
                cells.append("-")
                continue
            ratio, fastest = statistics.median(a / b for a, b in pairs), min(a for a, _ in pairs) / min(b for _, b in pairs)
            cell = f"{statistics.median(a for a, _ in pairs):7.0f} {ratio:5.3f} {fastest:5.3f}"
            if WAYS[way] is not None:
                ms, _ = replay(sim, kept(path, way), name)
                cell += " refused" if ms is None else f" {100 * (1e3 * ms / plain[name] - 1):+6.1f} %"
            cells.append(cell)
        print(f"{way:38}" + "".join(f"{cell:>36}" for cell in cells), data["ends"][way][0], flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker()
    else:
        if len(sys.argv) > 3:
            measure(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]) if len(sys.argv) > 4 else 52)
        else:
            tell(sys.argv[1], sys.argv[2])
