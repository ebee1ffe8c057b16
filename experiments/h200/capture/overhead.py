#!/usr/bin/env python3
"""What capturing costs a request, by what is asked of CUPTI: each way in a process of its own, all of them taking turns, so
that the host's drift meets all alike.  A wave is one process each; waves follow one another while there is time.

  overhead.py OUT.json                            anywhere: the table of what was measured
  overhead.py OUT.json FOLDER [NAME=LIBRARY...]   on the GPU; LIBRARY: a libcorun_capture.so, one more way each
"""
import collections
import ctypes
import json
import os
import select
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS, TURNS, REQUESTS, FIRST = float(os.environ.get("LIMIT_S", 150)), 8, 12, 2
CALLS = "subscribe,runtime,driver,"
WAYS = {  # PROBE of overhead.cpp; None: no library
    "nothing": None,
    "nothing again": None,  # how far two processes are apart
    "a library": "",
    "subscribed": "subscribe",
    "callbacks, runtime": "subscribe,runtime",
    "callbacks, driver": "subscribe,driver",
    "kernels": "kind=10",
    "kernels, buffers zeroed": "attribute=5:1,kind=10",
    "kernels, callbacks": CALLS + "kind=10",
    "kernels, copies, callbacks": CALLS + "kind=10,kind=1,kind=22,kind=2",
    "the same, allocations": CALLS + "kind=10,kind=1,kind=22,kind=2,kind=49",
    "the same, waits, events": CALLS + "kind=10,kind=1,kind=22,kind=2,kind=49,kind=38,kind=36",
    "whole graphs, callbacks": CALLS + "kind=51,kind=10",
    "whole graphs, copies, callbacks": CALLS + "kind=51,kind=10,kind=1,kind=22,kind=2",
}
SWITCHED = {  # in a process each, which may crash: what is on first, then what is switched, [kind, on] each, between requests
    "whole, by node, whole": ("kind=51,kind=10", [[51, 0], [51, 1]]),
    "by node, whole": ("kind=10", [[51, 1]]),
    "whole, no kernels, whole": ("kind=51,kind=10", [[10, 0], [10, 1]]),
    "whole, nothing, by node, whole": ("kind=51,kind=10", [[51, 0], [10, 0], [10, 1], [51, 1]]),
}


def programs_():
    """{name: (request, wait)}: those of programs.py, which hand both to `serve`, and 200 kernels that do nearly nothing."""
    import programs
    import torch
    made = {}
    for name in ("torch_eager", "torch_graph", "torch_decode"):
        programs.serve = lambda request, wait: made.update({name: (request, wait)})
        getattr(programs, name)()
    small = torch.randn(256, device="cuda")

    def elementwise():
        y = small
        for _ in range(200):
            y = torch.add(y, 1.0)
    made["200 small"] = elementwise, torch.cuda.synchronize
    return made


def measure(request, wait, n=REQUESTS):
    """Medians in us: the host's call, and the request with its wait."""
    calls, all_ = [], []
    for _ in range(FIRST + n):
        begin = time.perf_counter_ns()
        request()
        called = time.perf_counter_ns()
        wait()
        calls.append(called - begin), all_.append(time.perf_counter_ns() - begin)
    return [statistics.median(t[FIRST:]) / 1e3 for t in (calls, all_)]


class Probe:
    """The library that the driver has loaded; without one, of no records."""

    class Row(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("what", "id", "correlation", "start", "end")]

    def __init__(self):
        self.is_there = "PROBE" in os.environ
        if self.is_there:
            self.library = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
            self.library.probe_name.restype = ctypes.c_char_p
            self.library.probe_kept.restype = ctypes.c_uint64
            self.library.probe_kept.argtypes = [ctypes.c_void_p, ctypes.c_uint64]

    def drain(self):
        if self.is_there and "kind=" in os.environ["PROBE"]:
            self.library.probe_drain()

    def counts(self):
        of = (ctypes.c_uint64 * 2)()
        if self.is_there:
            self.drain(), self.library.probe_counts(of)
        return list(of)

    def seen(self, request, wait):
        """Of one request: how often each call and kind of record; of kernels and graphs, how many have a number that a call has."""
        if not self.is_there:
            return {}
        self.drain(), self.library.probe_keep(1)
        request(), wait()
        self.drain(), self.library.probe_keep(0)
        rows = (self.Row * 100_000)()
        rows = rows[:self.library.probe_kept(rows, len(rows))]
        kind = {1: "driver ", 2: "runtime "}
        seen = collections.Counter(kind[r.what] + self.library.probe_name(r.what, r.id).decode() if r.what in kind else f"records of kind {r.what - 100}"
                                   for r in rows)
        for domain, name in kind.items():
            numbers = {r.correlation for r in rows if r.what == domain}
            seen[f"joined with {name.strip()}"] = sum(r.correlation in numbers for r in rows if r.what in (110, 151))
        work = [r.end - r.start for r in rows if r.what in (110, 151)]
        return dict(seen, work_us=sum(work) / 1e3)

    def clock(self):
        of = (ctypes.c_double * 4)()
        if self.is_there:
            self.library.probe_clock(of)
        return list(of)


def worker():
    import torch
    probe = Probe()
    served = programs_()
    with torch.inference_mode():
        for request, wait in served.values():
            measure(request, wait)
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            said = json.loads(line)
            if said == "turn":
                probe.counts()
                answer = {name: [*measure(*one), *(n / (FIRST + REQUESTS) for n in probe.counts())] for name, one in served.items()}
            elif said == "seen":
                answer = dict({name: probe.seen(*one) for name, one in served.items()}, clock=probe.clock())
            else:
                answer = probe.library.probe_kind(*said)
            print(json.dumps(answer), flush=True)
    os._exit(0)  # what a library does at the end is not of interest


class Process:
    def __init__(self, name, probe, library, folder):
        environment = dict(os.environ, PYTHONPATH=HERE)
        if library is not None:
            environment["CUDA_INJECTION64_PATH"] = library
        if probe is not None:
            environment["PROBE"] = probe
        else:
            environment["CORUN_CAPTURE"] = folder
        self.errors = open(os.path.join(folder, name.replace(" ", "-") + ".errors"), "a+")
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker"], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def hear(self):
        """None of one that is dead, or says nothing for a minute."""
        if not select.select([self.process.stdout], [], [], 60)[0]:
            self.process.kill()
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, what):
        try:
            print(json.dumps(what), file=self.process.stdin, flush=True)
        except (OSError, ValueError):
            return None
        return self.hear()

    def end(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass
        code = self.process.wait(timeout=30)
        self.errors.seek(0)
        return code, self.errors.read()[-400:]


def wave(ways, library, folder, data):
    """One process of each way; each in turn serves all programs."""
    processes = {name: Process(name, probe, of if of is not None else library if probe is not None else None, folder)
                 for name, (probe, of) in ways.items()}
    alive = [name for name, p in processes.items() if p.hear() == "ready"]
    for turn in range(TURNS):
        for name in alive[turn % len(alive):] + alive[:turn % len(alive)]:
            data["turns"].setdefault(name, []).append(processes[name].ask("turn"))
        for name in ways:
            if name not in alive:
                data["turns"].setdefault(name, []).append(None)
    if not data["seen"]:
        data["seen"] = {name: processes[name].ask("seen") for name in alive if ways[name][0] is not None}
    for name, process in processes.items():
        code, errors = process.end()
        if code != 0 or name not in alive:
            data["failed"].append([name, code, errors])


def switched(library, folder, data):
    processes = {name: Process("switched " + name, probe, library, folder) for name, (probe, _) in SWITCHED.items()}
    for name, process in processes.items():
        found = [process.hear(), process.ask("turn"), process.ask("seen")]
        for change in SWITCHED[name][1]:
            found += [change, process.ask(change), process.ask("turn"), process.ask("seen")]
        data["switched"][name] = {"found": found, "end": process.end()}


def launches(data, program):
    """Kernels of a request."""
    seen = data["seen"]["kernels, copies, callbacks"][program]
    return seen["joined with driver"]


def tell(data):
    """Of a request: the median in us, the ratio to the process without a library in the same turn, its median and the second lowest and
    highest of ten, and the ratio of the fastest turns: the host's speed varies twofold within seconds, its fastest does not."""
    names = list(next(turn for turn in data["turns"]["nothing"] if turn))
    print(f"{'way: us, ratio, spread, fastest':34}" + "".join(f"{name:>32}" for name in names))
    for way, turns in data["turns"].items():
        cells = []
        for name in names:
            pairs = [(t[name][1], n[name][1]) for t, n in zip(turns, data["turns"]["nothing"]) if t and n]
            if not pairs:
                cells.append("-")
                continue
            ratios = sorted(a / b for a, b in pairs)
            low, high = (ratios[len(ratios) * q // 10] for q in (1, 9))
            fastest = min(a for a, _ in pairs) / min(b for _, b in pairs)
            cells.append(f"{statistics.median(a for a, _ in pairs):8.0f} {statistics.median(ratios):5.2f} {low:.2f}-{high:.2f} {fastest:5.2f}")
        print(f"{way:34}" + "".join(f"{cell:>32}" for cell in cells), flush=True)
    for way in ("subscribed", "callbacks, driver", "kernels, copies, callbacks"):
        added = {name: 1e3 * (min(t[name][1] for t in data["turns"][way] if t) - min(n[name][1] for n in data["turns"]["nothing"] if n)) /
                 launches(data, name) for name in names}
        print(f"{way} adds to a launch, of a graph to a node, in the fastest turns:", ", ".join(f"{name} {ns:.0f} ns" for name, ns in added.items()))
    for name, one in data["switched"].items():  # [us of the call and of the request, records, calls]
        states = [one["found"][i]["torch_graph"] for i in range(1, len(one["found"]), 4) if one["found"][i]]
        print(name, "ended with", one["end"][0], json.dumps(states))


def main(path, folder, libraries):
    began = time.time()
    os.makedirs(folder, exist_ok=True)
    library = os.path.abspath(os.path.join(folder, "overhead.so"))
    subprocess.run(["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-I/usr/local/cuda/include", "-o", library,
                    os.path.join(HERE, "overhead.cpp"), "-ldl"], check=True)
    ways = {name: (probe, None) for name, probe in WAYS.items()}
    ways.update({name: (None, os.path.abspath(of)) for name, of in (one.split("=", 1) for one in libraries)})
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    data = {"gpu": gpu, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "turns": {}, "seen": {}, "switched": {}, "failed": []}

    def keep():
        with open(path, "w") as file:
            json.dump(data, file)
    took = []
    while not took or time.time() - began + (took[-1] if took[1:] else 0.7 * took[0]) < SECONDS - 20:  # the first reads from disk; a start follows
        at = time.time()
        wave(ways, library, folder, data)
        took.append(time.time() - at)
        print(f"a wave took {took[-1]:.1f} s", flush=True)
        keep()
    switched(library, folder, data)
    keep()
    tell(data)
    for way, seen in data["seen"].items():
        print(way, json.dumps(seen))
    print("failed:", data["failed"], flush=True)
    print(f"{time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker()
    elif len(sys.argv) == 2:
        with open(sys.argv[1]) as measured:
            tell(json.load(measured))
    else:
        main(sys.argv[1], sys.argv[2], sys.argv[3:])
