#!/usr/bin/env python3
"""What `sim capture` costs and how its captures replay: processes without a library and with it take turns, TURN_S of each
program, so that the host's drift meets all alike.  Each request is an NVTX range of its program's name.

  stretches.py SIM OUT.json FOLDER [SECONDS [NAME=LIBRARY...]]   on the GPU; SIM: the `sim` command, with libcorun_capture.so beside it;
                                               LIBRARY: another one, one more way each
  stretches.py SIM OUT.json                    anywhere: the table, from OUT.json and what was left of the recordings beside it
  stretches.py cut RECORDING.jsonl TO.jsonl.gz   what `measure` leaves of a recording
"""
import bisect
import collections
import gzip
import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TURN_S = 0.35
# What is set, where there is a library.
WAYS = {"nothing": None, "nothing again": None, "stretches": {}, "stretches, no ranges": {"NO_RANGES": "1"}, "all": {"CORUN_CAPTURE_ALL": "1"}}
KINDS = {1: "kernels", 0: "calls alone", 2: "CUPTI away"}  # the last of a library that was tried


def worker():
    import overhead
    import torch
    programs = overhead.programs_()

    def serve(name, request, wait, seconds):
        """Microseconds of each request, with its wait."""
        times, until = [], time.perf_counter() + seconds
        while time.perf_counter() < until:
            begin = time.perf_counter_ns()
            if marks:
                torch.cuda.nvtx.range_push(name)
            request()
            wait()
            if marks:
                torch.cuda.nvtx.range_pop()
            times.append((time.perf_counter_ns() - begin) / 1e3)
        return times
    marks = "NO_RANGES" not in os.environ
    with torch.inference_mode():
        for name, one in programs.items():
            serve("first", *one, 0.1)
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})  # this thread: of all processes one core, as one is as fast as another then
        print(json.dumps("ready"), flush=True)
        for _ in sys.stdin:
            answer = {}
            for name, one in programs.items():
                times = serve(name, *one, TURN_S)
                answer[name] = [statistics.median(times), statistics.mean(times), len(times), statistics.quantiles(times, n=5)[0]]
            print(json.dumps(answer), flush=True)


class Process:
    def __init__(self, library, variables, folder):
        environment = dict(os.environ, PYTHONPATH=HERE)
        if variables is not None:
            os.makedirs(folder, exist_ok=True)
            environment.update({"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library, "CORUN_CAPTURE": folder, **variables})
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


def apart(ranges):
    """Those that overlap, as one."""
    found = []
    for start, end in sorted(ranges):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def cut(recording, to):
    """Of each kind of range a few requests whole, those of about the median time; of the others no more than a kernel and its call,
    so that they are found and counted, and all ranges.  An import chooses the same request and gives the same trace."""
    with open(recording) as file:
        lines = [json.loads(line) for line in file if line.endswith("\n")]
    if to is None:
        return joined(lines)
    switches = sorted((line[1], line[2]) for line in lines if line[0] == "o")
    stretch = lambda time: bisect.bisect_right(switches, (time, 2))  # noqa: E731
    recorded = lambda time: stretch(time) == 0 or switches[stretch(time) - 1][1] == 1  # noqa: E731
    by_name = collections.defaultdict(list)
    for line in lines:
        if line[0] == "r" and recorded(line[2]) and stretch(line[2]) == stretch(line[3]):
            by_name[line[1]].append((line[3] - line[2], line[2], line[3]))
    whole, part = [], []
    for ranges in by_name.values():
        ranges.sort()
        middle = (len(ranges) - 1) // 2
        for i, (_, start, end) in enumerate(ranges):
            (whole if abs(i - middle) <= 3 else part).append((start, end))
    whole, part = apart(whole), apart(part)

    def within(ranges, time):
        i = bisect.bisect_right(ranges, (time, float("inf"))) - 1
        return i if i >= 0 and time < ranges[i][1] else None
    kept_calls, began, first_only = set(), set(), set()
    for line in sorted((line for line in lines if line[0] == "a"), key=lambda line: line[2]):
        if within(whole, line[2]) is not None:
            kept_calls.add(line[5])
        elif (of := within(part, line[2])) is not None and of not in began:
            began.add(of)
            kept_calls.add(line[5])
            first_only.add(line[5])
    with gzip.open(to, "wt", 9) as file:
        for line in lines:
            call = line[5] if line[0] == "a" else line[7] if line[0] == "k" else None
            if call is not None and call not in kept_calls:
                continue
            if line[0] == "k" and call in first_only:
                kept_calls.discard(call)
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    return joined(lines)


def joined(lines):
    """Kernels, and how many of them have the number of a call that was heard."""
    calls, kernels = {line[5] for line in lines if line[0] == "a"}, [line[7] for line in lines if line[0] == "k"]
    return [len(kernels), sum(number in calls for number in kernels)]


def measure(sim, path, folder, seconds, others):
    began = time.time()
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    library = os.path.join(os.path.dirname(os.path.abspath(sim)), "libcorun_capture.so")
    ways = {way: (library, variables) for way, variables in WAYS.items()}
    ways.update({name: (os.path.abspath(of), {}) for name, of in others})
    data = {"gpu": gpu, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "turns": {way: [] for way in ways}, "ends": {}, "joined": {}}
    processes = {way: Process(of, variables, os.path.join(folder, way)) for way, (of, variables) in ways.items()}
    for way, process in processes.items():
        print(way, process.hear(40), f"{time.time() - began:.1f} s", flush=True)
    order, took = list(ways), 0
    while time.time() - began + took < seconds - 6:
        at = time.time()
        for way in order:
            data["turns"][way].append(processes[way].ask())
        order, took = order[1:] + order[:1], time.time() - at
    for way, process in processes.items():
        data["ends"][way] = process.end()

    def keep():
        with open(path, "w") as file:
            json.dump(data, file)
    keep()
    for way, (_, variables) in ways.items():
        if variables is not None:
            for name in sorted(os.listdir(os.path.join(folder, way)))[:1]:
                data["joined"][way] = cut(os.path.join(folder, way, name), None if "NO_RANGES" in variables else kept(path, way))
                print(way, "kernels, joined", data["joined"][way], f"{time.time() - began:.1f} s", flush=True)
    keep()
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


def replays(sim, path, way):
    """Of each program: milliseconds of a request alone, what the import said, and the medians in us of the turns without a library."""
    with open(path) as file:
        turns = json.load(file)["turns"]
    for name in turns["nothing"][0]:
        yield name, *replay(sim, kept(path, way), name), [turn[name][0] for turn in turns["nothing"] + turns["nothing again"]]


def by_kind(path, way, names):
    """In that process: what a request takes in stretches of each kind, and how often and for how long they changed.  Is the recording
    of a kind that is still imported?"""
    with gzip.open(kept(path, way), "rt") as file:
        lines = [json.loads(line) for line in file]
    switches = sorted(line[1:] for line in lines if line[0] == "o")
    if not switches:
        return True
    last = max(line[3] for line in lines if line[0] == "r")
    spent, changes = collections.Counter(), collections.defaultdict(list)
    for (start, what, *took), (end, *_) in zip(switches, switches[1:] + [[last]]):
        spent[what] += max(0, end - start)
        changes[what] += took
    print(f"{way}: " + ", ".join(f"{kind} {spent[what] / 1e9:.1f} s in {sum(s[1] == what for s in switches)}" + (f", a change {statistics.median(changes[what]) / 1e6:.2f} ms" if any(changes[what]) else "")
                                 for what, kind in KINDS.items()))
    times = collections.defaultdict(list)
    for line in lines:
        if line[0] == "r":
            begin, end = (bisect.bisect_right(switches, [time, 3]) for time in line[2:4])
            if begin == end:
                times[line[1], switches[begin - 1][1] if begin else 1].append((line[3] - line[2]) / 1e3)
    for name in names:
        print(f"  {name:14}" + ", ".join(f"  {kind}: {len(times[name, what])} requests, median {statistics.median(times[name, what]):.0f} us, lower quintile {statistics.quantiles(times[name, what], n=5)[0]:.0f}"
                                         for what, kind in KINDS.items() if len(times[name, what]) > 1))
    return not spent[2]


def tell(sim, path):
    """Of a request, over the turns: its mean time (median); the ratio to `nothing` in the same turn (median); that of the fastest turns;
    and the replay beside the medians of the turns of the two processes without a library: their median, and the range they span."""
    with open(path) as file:
        data = json.load(file)
    names = list(next(turn for turn in data["turns"]["nothing"] if turn))
    print(data["gpu"], data["date"])
    print(f"{'way: us, ratio, fastest ratio':24}" + "".join(f"{name:>22}" for name in names))
    for way, turns in data["turns"].items():
        cells = []
        for name in names:
            pairs = [(a[name][1], b[name][1]) for a, b in zip(turns, data["turns"]["nothing"]) if a and b]
            if not pairs:
                cells.append("-")
                continue
            ratio, fastest = statistics.median(a / b for a, b in pairs), min(a for a, _ in pairs) / min(b for _, b in pairs)
            cells.append(f"{statistics.median(a for a, _ in pairs):7.0f} {ratio:5.3f} {fastest:5.3f}")
        print(f"{way:24}" + "".join(f"{cell:>22}" for cell in cells), data["ends"][way][0] if way in data["ends"] else "", flush=True)
    for way in data["turns"]:
        if not os.path.exists(kept(path, way)):
            continue
        if not by_kind(path, way, names):
            continue
        print(f"replayed from {way}, beside the median without, beside the fastest and the slowest turn without")
        for name, ms, said, plain in replays(sim, path, way):
            if ms is None:
                print(f"  {name:14} refused: {said}")
                continue
            beside = [1e3 * ms / of - 1 for of in (statistics.median(plain), min(plain), max(plain))]
            within = [re.search(words, said) for words in (r"The request is .* \(([\d.]+) ms\)", r"a request takes ([\d.]+) ms without")]
            print(f"  {name:14} {ms:7.3f} ms " + " ".join(f"{100 * one:+6.1f} %" for one in beside) +
                  (f"   in its process {within[0][1]} ms with records, {within[1][1]} without" if all(within) else ""), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker()
    elif sys.argv[1] == "cut":
        cut(sys.argv[2], sys.argv[3])
    elif len(sys.argv) > 3:
        measure(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]) if len(sys.argv) > 4 else 52, [one.split("=", 1) for one in sys.argv[5:]])
    else:
        tell(sys.argv[1], sys.argv[2])
