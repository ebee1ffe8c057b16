#!/usr/bin/env python3
"""Does a program of each kind replay in its time without tracing?  Processes of it without a library, under `sim capture`'s library, and
without one again take turns, so that the host's drift meets all alike.  A request is timed around its NVTX range and inside it.

  kinds.py SIM OUT.json FOLDER [SECONDS]   on the GPU; SIM: the `sim` command, with libcorun_capture.so beside it
  KINDS=jax kinds.py ...                   of one group
  kinds.py SIM OUT.json                    anywhere: the table, from OUT.json and traces/ beside it

A group is a process: eager programs of PyTorch and Triton (an NVTX range a request, as one process holds three), PyTorch's graph, JAX, CuPy (neither has ranges: a request
is what repeats), and as processes of one MPS server a graph each 9 ms beside Triton each 13 ms.  plain.cu is run anew each turn.  Of JAX there are
three processes without a library.  With calls.so (calls.cpp) beside the library, a process of PyTorch's and one of JAX have CUPTI attached and nothing else, and one
of PyTorch's had it for a moment.  KINDS=mixed is one process of PyTorch's eager programs, its graph and Triton, as `torch` was until kinds-4.  With
libcorun_capture_before.so beside the library, a process of each group runs under that one.
"""
import bisect
import concurrent.futures
import glob
import gzip
import json
import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.environ.get("PROGRAMS", os.path.join(HERE, "../../h200/capture"))  # where programs.py and plain.cu are
TURN_S, TOGETHER_S = {"jax": 3.0 if "KINDS" not in os.environ else 2.0}, 0.8  # of a program; else 0.3.  JAX waits by no call, so that its stretches take longer
WAYS = ["without", "captured", "without again"]
WAYS_OF = {"torch": [*WAYS, "attached", "let go"], "jax": [*WAYS, "without a third time", "attached"]}
ATTACHED = {"attached": {}, "let go": {"CALLS": "-"}}  # variables of calls.so
GROUPS = {"torch": ["torch_eager", "torch_decode", "triton"], "graph": ["torch_graph"], "mixed": ["torch_eager", "torch_graph", "torch_decode", "triton"],
          "jax": ["jax"], "cupy": ["cupy"]}
MARKED = ("torch", "graph", "mixed")
TWO = {"two-graph": ("torch_graph", 9), "two-triton": ("triton", 13)}
CHOSEN = os.environ.get("KINDS", "").split() or [*(group for group in GROUPS if group != "mixed"), "two", "plain"]


def key_of(group, program):
    """As the data name it."""
    return group if group in TWO else f"mixed-{program}" if group == "mixed" else program


def worker(names, marked, period_ms, core):
    sys.path.insert(0, PROGRAMS)
    import programs
    made = []
    programs.serve = lambda request, wait: made.append((request, wait))
    for name in names:
        getattr(programs, name)()
    push = pop = lambda *_: None
    if marked:
        import torch
        push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
        torch.inference_mode().__enter__()

    def serve(name, request, wait, seconds, least=1):
        """Of each request the time around its range and inside it, in us; and how long all took, in us."""
        times, clock = [], time.perf_counter_ns
        began = clock()
        while clock() < began + seconds * 1e9 or len(times) < least:
            begin = clock()
            push(name)
            opened = clock()
            request()
            wait()
            waited = clock()
            pop()
            times.append(((clock() - begin) / 1e3, (waited - opened) / 1e3))
            if period_ms:
                time.sleep(period_ms / 1e3)
        return times, (clock() - began) / 1e3
    for name, one in zip(names, made):
        serve(name, *one, 0.2, 20)  # the first compile
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})  # this thread: of all processes one core
    print(json.dumps("ready"), flush=True)
    programs_of = list(zip(names, made))
    for _ in sys.stdin:
        answer = {}
        for name, one in programs_of:
            times, all_us = serve(name, *one, TOGETHER_S if period_ms else TURN_S.get(name, 0.3), 5)
            around, inside = (statistics.median(of) for of in zip(*times))
            answer[name] = {"around": around, "inside": inside, "requests": len(times), "all": all_us}
        print(json.dumps(answer), flush=True)
        programs_of.append(programs_of.pop(0))  # so that stretches of the recording meet all alike


class Process:
    def __init__(self, arguments, library, variables, folder, script=os.path.abspath(__file__)):
        environment = dict(os.environ, **variables)
        if library:
            os.makedirs(folder, exist_ok=True)
            environment["CUDA_INJECTION64_PATH"] = library
            if "capture" in os.path.basename(library):
                environment.update({"NVTX_INJECTION64_PATH": library, "CORUN_CAPTURE": folder})
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, script, "--worker", *arguments], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def hear(self, seconds=12):
        """None of one that is dead, or says nothing in `seconds`."""
        if not select.select([self.process.stdout], [], [], max(0.1, seconds))[0]:
            self.process.kill()
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def tell(self):
        try:
            print("turn", file=self.process.stdin, flush=True)
        except OSError:
            pass

    def end(self):
        """Exit code and what was said."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            code = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "did not end"
        self.errors.seek(0)
        return code, self.errors.read()[-500:]


def turns_of(processes, data, until):
    """`processes`: by way, a list of those that run at once."""
    order = list(processes)
    turn = 0.0
    while time.time() + turn < until:
        began = time.time()
        for way in order:
            for one in processes[way].values():
                one.tell()
            for name, one in processes[way].items():
                answer = one.hear() or {}
                for program, times in answer.items():
                    data["turns"].setdefault(key_of(name, program), {}).setdefault(way, []).append(times)
        order, turn = order[1:] + order[:1], time.time() - began


def run_plain(sim, binary, data, folder, until):
    turn = 0
    while time.time() < until and turn < 6:
        for way in WAYS:
            command = [binary]
            if way == "captured":
                command = [sim, "capture", "-o", os.path.join(folder, f"plain-{turn}.json"), "--keep", os.path.join(folder, f"plain-{turn}"), "--", binary]
            said = subprocess.run(command, capture_output=True, text=True, timeout=30)
            ms = re.findall(r"^ms ([0-9.]+)$", said.stdout, re.M)
            data["turns"].setdefault("plain", {}).setdefault(way, []).append(
                {"around": 1e3 * float(ms[0]), "inside": 1e3 * float(ms[0])} if ms else {"said": said.stderr[-200:]})
        turn += 1


def imported(sim, recording, to, arguments):
    """What was said, or None."""
    ran = subprocess.run([sim, "import", "capture", recording, *arguments, "-o", to], capture_output=True, text=True, timeout=90)
    return ran.stderr[-3000:] if ran.returncode == 0 else f"refused: {ran.stderr[-600:]}"


def of_turns(data, program, way, what="inside"):
    """Milliseconds of each turn.  kinds-1.json has the time around alone."""
    turns = data["turns"].get(program, {}).get(way, [])
    return [(turn[0] if isinstance(turn, list) else turn[what]) / 1e3 for turn in turns if isinstance(turn, list) or what in turn]


def stretches(recording):
    """Of each process' recording: of its stretches with records and without how many there were, how long, and in how much of that launches
    followed each other within 50 ms, and how many; where CUPTI was away, how much ranges took, and how many."""
    found = []
    for path in sorted(glob.glob(os.path.join(recording, "*.jsonl"))):
        launches, changes, ranges, names = [], [], [], {}
        with open(path) as file:
            for line in file:
                if line[2] == "n":
                    _, number, name = json.loads(line)
                    names[number] = "Launch" in name and "HostFunc" not in name
                elif line[2] == "a":
                    _, number, start, *_ = json.loads(line)
                    if names.get(number):
                        launches.append(start)
                elif line[2] == "r":
                    ranges.append(json.loads(line)[2:4])
                elif line[2] == "o":
                    changes.append(json.loads(line)[1:])
        launches.sort()
        changes = [[launches[0] if launches else 0, 1], *changes, [launches[-1] if launches else 0, 0]]
        sums = {records: {"process": os.path.basename(path), "records": records, "stretches": 0, "s": 0, "busy_s": 0, "launches": 0} for records in (1, 0, 2)}
        for (begin, records), (end, _) in zip(changes, changes[1:]):
            if records == 2:
                away = [e - b for b, e in ranges if begin <= b and e <= end]
                for key, value in {"stretches": 1, "s": (end - begin) / 1e9, "busy_s": sum(away) / 1e9, "launches": len(away)}.items():
                    sums[records][key] += value
                continue
            inside = launches[bisect.bisect_left(launches, begin):bisect.bisect_left(launches, end)]
            gaps = [b - a for a, b in zip(inside, inside[1:]) if b - a < 50_000_000]
            if gaps:
                for key, value in {"stretches": 1, "s": (end - begin) / 1e9, "busy_s": sum(gaps) / 1e9, "launches": len(gaps)}.items():
                    sums[records][key] += value
        found += [one for one in sums.values() if one["launches"]]
    return found


def measure(sim, path, folder, seconds):
    began = time.time()
    sim = os.path.abspath(sim)
    library = os.path.join(os.path.dirname(sim), "libcorun_capture.so")
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    data = {"gpu": gpu, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "turns": {}, "ends": {}, "said": {}, "missing": {}}

    def keep():
        with open(path, "w") as file:
            json.dump(data, file, indent=1)
    os.makedirs(folder, exist_ok=True)
    mps = {"CUDA_MPS_PIPE_DIRECTORY": tempfile.mkdtemp(prefix="mps"), "CUDA_MPS_LOG_DIRECTORY": folder}
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=dict(os.environ, **mps), timeout=10)
    attached, earlier = (os.path.join(os.path.dirname(sim), name) for name in ("calls.so", "libcorun_capture_before.so"))
    before = ["before"] if os.path.exists(earlier) else []
    ways_of = {group: [way for way in WAYS_OF.get(group, WAYS) + before if way not in ATTACHED or os.path.exists(attached)] for group in [*GROUPS, "two"] if group in CHOSEN}
    at = {way: os.path.join(folder, way.replace(" ", "-")) for ways in ways_of.values() for way in ways}
    processes = {group: {} for group in ways_of}
    for way in at:
        of = library if way == "captured" else earlier if way == "before" else attached if way in ATTACHED else None
        for group, names in GROUPS.items():
            if way in ways_of.get(group, ()):
                processes[group][way] = {group: Process([",".join(names), "1" if group in MARKED else "", "0", "-1"], of, ATTACHED.get(way, {}), os.path.join(at[way], group))}
        if way in ways_of.get("two", ()):
            processes["two"][way] = {name: Process([program, "1", str(period), str(-1 - i)], of, mps, os.path.join(at[way], "two"))
                                 for i, (name, (program, period)) in enumerate(TWO.items())}
    binary = os.path.join(folder, "plain")
    if "plain" in CHOSEN:
        subprocess.run(["nvcc", "-O2", "-arch=native", "-o", binary, os.path.join(PROGRAMS, "plain.cu")], timeout=60)
    for group, by_way in processes.items():
        for way, ones in by_way.items():
            for name, one in ones.items():
                if one.hear(70 - (time.time() - began)) is None:
                    data["missing"][f"{name} {way}"] = one.end()
                    print("MISSING", name, way, data["missing"][f"{name} {way}"], flush=True)
    for group in processes:
        if any(key.split(" ")[0] in (group, *(TWO if group == "two" else [])) for key in data["missing"]):
            processes[group] = {}
    print(f"ready after {time.time() - began:.1f} s", flush=True)
    left = began + seconds - time.time()
    # Groups with one program are given as many turns in less time.
    share = {"torch": 0.22, "graph": 0.08, "mixed": 0.27, "jax": 0.5, "cupy": 0.05, "two": 0.14, "plain": 0.01}
    whole = sum(share[group] for group in CHOSEN)
    share = {group: share[group] / whole for group in CHOSEN}
    for group, by_way in processes.items():
        if by_way:
            turns_of(by_way, data, time.time() + share[group] * 0.92 * left)
            print(group, f"{time.time() - began:.1f} s", {p: {w: [round(1e3 * ms) for ms in of_turns(data, p, w)] for w in ways} for p, ways in data["turns"].items() if p in {key_of(group, p) for p in GROUPS.get(group, ())} or (group == "two" and p in TWO)}, flush=True)
        keep()
        for way, ones in by_way.items():
            for name, one in ones.items():
                data["ends"][f"{name} {way}"] = one.end()
    subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=dict(os.environ, **mps), timeout=20)
    if "plain" in CHOSEN and os.path.exists(binary):
        run_plain(sim, binary, data, folder, time.time() + 0.08 * left)
    keep()
    print(f"measured after {time.time() - began:.1f} s", data["ends"], flush=True)
    make_traces(sim, data, folder)
    keep()
    print(f"imported after {time.time() - began:.1f} s", flush=True)


def make_traces(sim, data, folder):
    """As captured; and with what a request takes in the process without a library, as `capture --twice` takes it."""
    jobs = {key_of(group, program): (group, ["--range", program] if group in MARKED else []) for group in GROUPS if group in CHOSEN for program in GROUPS[group]}
    jobs["two"] = ("two", [])
    begun, pool = {}, concurrent.futures.ThreadPoolExecutor(8)
    for program, (group, arguments) in jobs.items():
        recording = os.path.join(folder, "captured", group)
        if not os.path.isdir(recording):
            continue
        ways = {program: arguments}
        if first := of_turns(data, program, "without"):
            ways[program + ".twice"] = [*arguments, "--request-time", f"{statistics.median(first):.5f}ms"]
        for name, options in ways.items():
            begun[name] = pool.submit(imported, sim, recording, os.path.join(folder, name + ".json"), options)
        if os.path.isdir(earlier := os.path.join(folder, "before", group)):
            begun[program + ".before"] = pool.submit(imported, sim, earlier, os.path.join(folder, program + ".before.json"), arguments)
    seen = {group: pool.submit(stretches, os.path.join(folder, "captured", group)) for group in [*GROUPS, "two"]}
    data["stretches"] = {group: one.result() for group, one in seen.items()}
    for name, one in begun.items():
        data["said"][name] = one.result()
        print(name, data["said"][name][-250:], flush=True)


def replay(sim, trace, policy):
    """p50 in ms of each client."""
    ran = subprocess.run([sim, "--policy=" + policy, "--duration=2s" if policy == "mps" else "--duration=300ms", "--json", trace], capture_output=True, text=True)
    return {c["name"]: c["p50_ms"] for c in json.loads(ran.stdout)["clients"] if c["p50_ms"] is not None} if ran.returncode == 0 else {}


class Row:
    """Of a program: in ms its turns by way, inside the request's range and around it; what it took in each process without a library, inside,
    and the median of those; replays in ms as captured, as `--twice` would (judged by the processes that it does not know), and as captured by the library
    before."""

    def __init__(self, data, program, replays):
        self.program, self.replayed, self.twice, self.replayed_before = program, *replays
        ways = data["turns"][program]
        self.inside, self.around = ({way: of_turns(data, program, way, what) for way in ways} for what in ("inside", "around"))
        self.whole = all(self.inside.get(way) for way in WAYS)
        if not self.whole:
            return
        self.without = [way for way in ways if way.startswith("without") and self.inside[way]]
        self.processes = [statistics.median(self.inside[way]) for way in self.without]
        self.usual = statistics.median(self.processes)
        self.usual_around = statistics.median(statistics.median(self.around[way]) for way in self.without)
        self.spread = min(self.processes) / self.usual - 1, max(self.processes) / self.usual - 1
        self.error = self.replayed / self.usual - 1 if self.replayed else None
        self.error_around = self.replayed / self.usual_around - 1 if self.replayed else None
        self.attached = {way: statistics.median(self.inside[way]) / self.usual for way in ATTACHED if self.inside.get(way)}
        self.overhead = statistics.median(self.inside["captured"]) / self.usual
        # Of all requests, pauses between them included.
        a_request = {way: sum(turn["all"] for turn in turns) / sum(turn["requests"] for turn in turns)
                     for way, turns in ways.items()} if program not in TWO and "all" in ways["captured"][0] else {}
        self.overhead_of_all = a_request["captured"] / statistics.median(a_request[way] for way in self.without) if a_request else None
        self.before = statistics.median(self.inside["before"]) / self.usual if self.inside.get("before") else None
        self.before_of_all = a_request["before"] / statistics.median(a_request[way] for way in self.without) if a_request and "before" in a_request else None
        self.before_error = self.replayed_before / self.usual - 1 if self.replayed_before else None
        self.twice_error = self.twice / statistics.median(self.processes[1:]) - 1 if self.twice else None


def rows(sim, path):
    with open(path) as file:
        data = json.load(file)
    at = os.path.join(os.path.dirname(os.path.abspath(path)), "traces")
    stem = os.path.basename(path)[:-len(".json")]
    for program in data["turns"]:
        group, replays = "two" if program in TWO else program, []
        for name in (group, group + ".twice", group + ".before"):
            trace = os.path.join(at, f"{stem}.{name}.json.gz")
            found = replay(sim, trace, "mps" if group == "two" else "fcfs") if os.path.exists(trace) else {}
            # Of two clients the graph's is the longer one.
            replays.append(sorted(found.values())[0 if program == "two-triton" else -1] if len(found) == (2 if group == "two" else 1) else None)
        yield Row(data, program, replays)


def percent(share):
    return f"{100 * share:+7.1f} %" if share is not None else f"{'':9}"


def tell(sim, path):
    with open(path) as file:
        data = json.load(file)
    print(data["gpu"], data["date"], "; missing: " + ", ".join(data["missing"]) if data["missing"] else "")
    print(f"{'':19}{'without tracing, ms':>22} {'spread of':>18}{'captured':>19} {'':>6} {'':>9} {'error':>9} {'error':>9} {'--twice':>9}\n"
          f"{'program':13} {'turns':>5} {'inside':>11} {'around':>10} {'processes':>18} {'inside':>11} {'x':>6} {'of all':>6} {'replayed':>9} {'inside':>9} {'around':>9} {'error':>9}")
    for r in rows(sim, path):
        if not r.whole:
            print(f"{r.program:13} left out: {r.inside}")
            continue
        print(f"{r.program:13} {len(r.inside['captured']):5} {r.usual:11.4f} {r.usual_around:10.4f} {100 * r.spread[0]:+7.1f} to {100 * r.spread[1]:+5.1f} % "
              f"{statistics.median(r.inside['captured']):11.4f} {r.overhead:6.3f} {f'{r.overhead_of_all:.3f}' if r.overhead_of_all else '':>6} "
              f"{f'{r.replayed:.4f}' if r.replayed else '-':>9} {percent(r.error)} {percent(r.error_around)} {percent(r.twice_error)}"
              + "".join(f"  {way} {x:.3f}" for way, x in r.attached.items())
              + (f"  before {r.before:.3f}{f' of all {r.before_of_all:.3f}' if r.before_of_all else ''}{percent(r.before_error)}" if r.before else ""))
    for group, of in data.get("stretches", {}).items():
        for one in of:
            if one["records"] == 2:
                print(f"{group:13} CUPTI away   {one['stretches']:3} stretches, {one['busy_s']:7.2f} s in ranges of {one['s']:6.1f} s")
                continue
            print(f"{group:13} {'with records' if one['records'] else 'calls alone ':12} {one['stretches']:3} stretches, {one['busy_s']:7.2f} s with launches of "
                  f"{one['s']:6.1f} s, {1e6 * one['busy_s'] / one['launches']:8.2f} us from launch to launch")


def collect(path, folder):
    """The traces beside OUT.json, packed."""
    at = os.path.join(os.path.dirname(os.path.abspath(path)), "traces")
    os.makedirs(at, exist_ok=True)
    stem = os.path.basename(path)[:-len(".json")]
    for trace in glob.glob(os.path.join(folder, "*.json")):
        if re.fullmatch(r"plain-[1-9][0-9]*\.json", os.path.basename(trace)):
            continue
        name = os.path.basename(trace).replace("plain-0.json", "plain.json")
        with open(trace, "rb") as source, open(os.path.join(at, f"{stem}.{name}.gz"), "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as to:
            to.write(re.sub(rb'\s*"\$schema": "[^"]*",', b"", source.read(), count=1))  # it is a path of the machine


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(sys.argv[2].split(","), bool(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
    elif len(sys.argv) > 3:
        measure(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]) if len(sys.argv) > 4 else 110)
        collect(sys.argv[2], sys.argv[3])
    else:
        tell(sys.argv[1], sys.argv[2])
