#!/usr/bin/env python3
"""Is an eager program's request as long in a captured process, while CUPTI has left it, as in a process without a library at the same moment?  And
does the capture replay in that time?  A host changes its pace for seconds, so three processes take turns of 0.1 s, and a turn is held against its neighbours.

  pairs.py SIM OUT.json FOLDER SECONDS [PROGRAM ...]   on the GPU; SIM: the `sim` command, with libcorun_capture.so beside it, and pace.so (pace.c)
  pairs.py SIM OUT.json.gz                             anywhere: its table

Every time is of the program's own clock, inside of its NVTX range (JAX marks none; PROGRAM_marked is PROGRAM with ranges of marks.so, marks.c, beside the library).  Each program has
processes of its own, pinned to one core; A+B is one process that serves both, half a turn each.
"""
import bisect
import ctypes
import glob
import gzip
import json
import os
import statistics
import subprocess
import sys
import time

from kinds import PROGRAMS, Process, imported, replay

WAYS, TURN_S, TWICE = ("without", "captured", "without again"), 0.1, ", twice"
SORTS = ("calls", "records", "away", "none")  # what a captured request ran under; none: across a change


def worker(names, core):
    sys.path.insert(0, PROGRAMS)
    import programs
    made = []
    programs.serve = lambda request, wait: made.append((request, wait))
    for name in names:
        getattr(programs, name.removesuffix("_marked"))()
    clock, push, pop = time.time_ns, lambda name: None, lambda: None
    if names[0].endswith("_marked"):
        marks = ctypes.CDLL(os.environ["MARKS"])
        push, pop = lambda name: marks.push(name.encode()), marks.pop
    elif "jax" not in names:
        import torch
        push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
        torch.inference_mode().__enter__()

    def serve(seconds, name, request, wait, least=1):
        until, times = clock() + seconds * 1e9, []
        while clock() < until or len(times) < least:
            push(name)
            begin = clock()
            request()
            wait()
            end = clock()
            pop()
            times.append((begin, end))
        return times
    for name, one in zip(names, made):
        serve(0.2, name, *one, 20)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        print(json.dumps([serve(TURN_S / len(names), name, *one) for name, one in zip(names, made)]), flush=True)


def changes_of(recording):
    """When what is recorded changes, and to what."""
    found = []
    for path in glob.glob(os.path.join(recording, "*.jsonl")):
        with open(path) as file:
            found += [json.loads(line)[1:] for line in file if line[2] == "o"]
    return sorted(found)


def measure(sim, path, folder, seconds, chosen):
    began, sim = time.time(), os.path.abspath(sim)
    beside = os.path.dirname(sim)
    library, pace = os.path.join(beside, "libcorun_capture.so"), ctypes.CDLL(os.path.join(beside, "pace.so")).pace

    def said(*command):
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    data = {"gpu": said("nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"), "cuda": "13.0", "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "command": "pairs.py " + " ".join([os.path.basename(sim), os.path.basename(path), "FOLDER", str(seconds), *chosen]),
            "host": [line for line in said("lscpu").splitlines() if line.startswith(("Model name", "Thread(s)", "CPU(s)", "Hypervisor", "NUMA"))], "turns": {}, "pace_us": {}, "said": {}, "trace": {}}
    processes = {name: {way: Process([name, "-1"], library if way == "captured" else None, {"MARKS": os.path.join(beside, "marks.so")}, os.path.join(folder, name), os.path.abspath(__file__)) for way in WAYS} for name in chosen}
    for name in chosen:
        for way in WAYS:
            if processes[name][way].hear(70) is None:
                sys.exit(f"{name} {way}: {processes[name][way].end()}")
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    print(f"ready after {time.time() - began:.1f} s", flush=True)
    loops = (ctypes.c_double * 3)()
    pace(loops)
    for name in chosen:
        turns, paces, order, until = {way: [] for way in WAYS}, [], list(WAYS), time.time() + seconds / len(chosen)
        while time.time() < until:
            for way in order:
                pace(loops)
                paces.append([round(ns / 1e3, 1) for ns in loops])
                processes[name][way].tell()
                turns[way].append(processes[name][way].hear())
            order = order[1:] + order[:1]
        ends = {way: processes[name][way].end() for way in WAYS}
        if any(code != 0 for code, _ in ends.values()):
            print(name, ends, flush=True)
        changes = changes_of(os.path.join(folder, name))
        at = [change[0] for change in changes]

        def sort_of(begin, end):
            first, last = bisect.bisect_right(at, begin), bisect.bisect_right(at, end)
            return 3 if first != last else changes[first - 1][1] if first else 1
        data["pace_us"][name] = paces
        for i, program in enumerate(name.split("+")):
            key = program if program == name else f"{program} of {name}"
            start = min(turn[i][0][0] for way in WAYS for turn in turns[way])
            data["turns"][key] = {way: [{"at_ms": (turn[i][0][0] - start) // 1_000_000, "us": [(end - begin) // 1000 for begin, end in turn[i]],
                                         **({"sort": "".join(str(sort_of(*one)) for one in turn[i])} if way == "captured" else {})} for turn in turns[way]] for way in WAYS}
            to = os.path.join(folder, key.replace(" ", "-") + ".json")
            marked = ["--range", program] if program != name or program.endswith("_marked") else []
            # Twice: told what the first process without a library took, as `sim capture --twice` is.
            first = statistics.median(us for turn in data["turns"][key]["without"] for us in turn["us"])
            for called, options in ((key, []), (key + TWICE, ["--request-time", f"{first / 1e3:.4f}ms"])):
                data["said"][called] = imported(sim, os.path.join(folder, name), to, [*marked, *options])
                if os.path.exists(to):
                    with open(to) as file:
                        data["trace"][called] = {name: value for name, value in json.load(file).items() if name != "$schema"}
                    os.remove(to)
            print(key, f"{time.time() - began:.1f} s", len(turns["captured"]), "turns", {way: statistics.median(us for turn in data["turns"][key][way] for us in turn["us"]) for way in WAYS}, flush=True)
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as to:
        to.write(json.dumps(data, separators=(",", ":")).encode())


def quartiles(values):
    return statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3


class Pairs:
    """Of a program: of each captured turn the requests without tracing (those while CUPTI was away; where it hardly ever was, those with calls alone), and those
    of the turns without a library right before and after it."""

    def __init__(self, turns):
        others = sorted((turn["at_ms"], turn["us"]) for way in WAYS if way != "captured" for turn in turns[way])
        at = [when for when, _ in others]
        self.sorts = {sort: [us for turn in turns["captured"] for us, of in zip(turn["us"], turn["sort"]) if SORTS[int(of)] == sort] for sort in SORTS}
        self.sort = "away" if 4 * len(self.sorts["away"]) > len(self.sorts["calls"]) else "calls"
        self.pairs, self.mine, self.neighbours = [], [], []
        for turn in turns["captured"]:
            mine = [us for us, sort in zip(turn["us"], turn["sort"]) if SORTS[int(sort)] == self.sort]
            next_one = bisect.bisect(at, turn["at_ms"])
            if len(mine) < 3 or not 0 < next_one < len(at):
                continue
            before, after = others[next_one - 1][1], others[next_one][1]
            self.pairs.append((statistics.median(mine), statistics.median(before), statistics.median(after)))
            self.mine += mine
            # Of both as many as there are requests of this turn: so the sample has the moments that the capture had.
            for beside in (before, after):
                self.neighbours += [beside[i * len(beside) // len(mine)] for i in range(len(mine))]
        self.ratios = [mine / (0.5 * (before + after)) for mine, before, after in self.pairs]
        self.control = [before / after for _, before, after in self.pairs]


def replayed_us(sim, trace):
    """Of a client that thinks, what a round takes too."""
    to = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"pairs-{os.getpid()}.json")
    with open(to, "w") as file:
        json.dump(trace, file)
    took = replay(sim, to, "fcfs")
    os.remove(to)
    return 1e3 * next(iter(took.values())), trace["clients"][0]["arrivals"].get("think_time_ns", 0) / 1e3


def stood(us):
    """Share of its time in which the host stood still: what requests of 1.5 times the median and more take beyond it, as `sim import capture` counts ranges without calls."""
    usual = statistics.median(us)
    return sum(one - usual for one in us if one >= 1.5 * usual and one - usual >= 200) / sum(us)


def tell(sim, path):
    with gzip.open(path, "rt") as file:
        data = json.load(file)
    print(data["gpu"], data["date"], "; ".join(" ".join(line.split()) for line in data["host"]))
    for name, turns in data["turns"].items():
        pairs = Pairs(turns)
        all_of = {way: [us for turn in turns[way] for us in turn["us"]] for way in WAYS}
        without = all_of["without"] + all_of["without again"]
        print(f"{name}: {len(turns['captured'])} turns a process; requests " + ", ".join(f"{len(of)} {sort}" for sort, of in pairs.sorts.items()))
        print("  median of a process, us: " + ", ".join(f"{way} {statistics.median(of):.0f}" for way, of in all_of.items()) +
              "; captured " + ", ".join(f"{sort} {statistics.median(of):.0f}" for sort, of in pairs.sorts.items() if of))
        mean = {way: statistics.mean(of) for way, of in all_of.items()}
        print(f"  of all requests {mean['captured'] / (0.5 * (mean['without'] + mean['without again'])):.3f} times as long under capture")
        tenths = statistics.quantiles(without, n=10)
        print(f"  paces without a library: a tenth below {tenths[0]:.0f} us, quartiles {', '.join(f'{q:.0f}' for q in quartiles(without))}, a tenth above {tenths[-1]:.0f}")
        print(f"  captured, {pairs.sort}, to neighbours: {len(pairs.ratios)} turns, quartiles {', '.join(f'{q:.3f}' for q in quartiles(pairs.ratios))}"
              f"; of two neighbours to each other {', '.join(f'{q:.3f}' for q in quartiles(pairs.control))}")
        if name in data["trace"]:
            replayed, think = replayed_us(sim, data["trace"][name])
            reference, mine = statistics.median(pairs.neighbours), statistics.median(pairs.mine)
            print(f"  replayed {replayed:.0f} us{f', and {think:.0f} of think time' if think >= 1 else ''}: {100 * (replayed / mine - 1):+.1f} % of the process' own requests ({pairs.sort}: {mine:.0f}), "
                  f"{100 * (replayed / reference - 1):+.1f} % of the neighbours' ({reference:.0f}), "
                  + ", ".join(f"{100 * (replayed / statistics.median(all_of[way]) - 1):+.1f} % of all {way}" for way in WAYS if way != "captured"))
            if name + TWICE in data["trace"]:
                replayed, _ = replayed_us(sim, data["trace"][name + TWICE])
                print(f"  twice: replayed {replayed:.0f} us: {100 * (replayed / statistics.median(all_of['without again']) - 1):+.1f} % of all without again, to whose process it was not fitted")
            stalls = data["trace"][name]["clients"][0].get("host_stalls", {"stalls": [], "observed_ns": 1})
            print("  share of time in which the host stood still: " + ", ".join(f"{way} {100 * stood(all_of[way]):.1f} %" for way in WAYS if way != "captured")
                  + f"; captured, {pairs.sort} {100 * stood(pairs.sorts[pairs.sort]):.1f} %; in the trace {100 * sum(lasting for _, lasting in stalls['stalls']) / stalls['observed_ns']:.1f} %")
        columns = list(zip(*data["pace_us"][name.split(" of ")[-1]]))
        requests = [statistics.median(turn["us"]) for i in range(len(turns["captured"])) for turn in
                    (turns[way][i] for way in [*WAYS[i % 3:], *WAYS[:i % 3]])]
        print("  the host without CUDA, us (quartiles; correlation with the turn after it): " + "; ".join(
            f"{what} {', '.join(f'{q:.0f}' for q in quartiles(of))} ({statistics.correlation(of, requests):+.2f})" for what, of in zip(("a chain", "four chains", "memory"), columns)))


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(sys.argv[2].split("+"), int(sys.argv[3]))
    elif len(sys.argv) > 3:
        measure(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5:] or ["torch_eager", "torch_decode"])
    else:
        tell(sys.argv[1], sys.argv[2])
