#!/usr/bin/env python3
"""Does a program of each kind replay in its time without tracing?  Processes of it without a library, under `sim capture`'s library, and
without one again take turns, so that the host's drift meets all alike.

  kinds.py SIM OUT.json FOLDER [SECONDS]   on the GPU; SIM: the `sim` command, with libcorun_capture.so beside it
  kinds.py SIM OUT.json                    anywhere: the table, from OUT.json and traces/ beside it

A group is a process: programs of PyTorch and Triton (an NVTX range a request, as one process holds four), JAX, CuPy (neither has ranges: a request
is what repeats), and as processes of one MPS server a graph each 9 ms beside Triton each 13 ms.  plain.cu is run anew each turn.
"""
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
TURN_S, TOGETHER_S = {"jax": 1.5}, 0.8  # of a program; else 0.3.  JAX waits by no call, so that its stretches take longer
WAYS = ["without", "captured", "without again"]
GROUPS = {"torch": ["torch_eager", "torch_graph", "torch_decode", "triton"], "jax": ["jax"], "cupy": ["cupy"]}
TWO = {"two-graph": ("torch_graph", 9), "two-triton": ("triton", 13)}


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
        times, until = [], time.perf_counter() + seconds
        while time.perf_counter() < until or len(times) < least:
            begin = time.perf_counter_ns()
            push(name)
            request()
            wait()
            pop()
            times.append((time.perf_counter_ns() - begin) / 1e3)
            if period_ms:
                time.sleep(period_ms / 1e3)
        return times
    for name, one in zip(names, made):
        serve(name, *one, 0.2, 20)  # the first compile
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})  # this thread: of all processes one core
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        answer = {}
        for name, one in zip(names, made):
            times = serve(name, *one, TOGETHER_S if period_ms else TURN_S.get(name, 0.3), 5)
            answer[name] = [statistics.median(times), len(times)]
        print(json.dumps(answer), flush=True)


class Process:
    def __init__(self, arguments, library, variables, folder):
        environment = dict(os.environ, **variables)
        if library:
            os.makedirs(folder, exist_ok=True)
            environment.update({"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library, "CORUN_CAPTURE": folder})
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", *arguments], env=environment, text=True,
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
    order = [way for way in WAYS if way in processes]
    turn = 0.0
    while time.time() + turn < until:
        began = time.time()
        for way in order:
            for one in processes[way].values():
                one.tell()
            for name, one in processes[way].items():
                answer = one.hear() or {}
                for program, (us, requests) in answer.items():
                    data["turns"].setdefault(name if name in TWO else program, {}).setdefault(way, []).append([us, requests])
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
            data["turns"].setdefault("plain", {}).setdefault(way, []).append([1e3 * float(ms[0]), 100] if ms else [None, said.stderr[-200:]])
        turn += 1


def imported(sim, recording, to, arguments):
    """What was said, or None."""
    ran = subprocess.run([sim, "import", "capture", recording, *arguments, "-o", to], capture_output=True, text=True, timeout=60)
    return ran.stderr[-3000:] if ran.returncode == 0 else f"refused: {ran.stderr[-600:]}"


def middle(data, program, way):
    times = [us for us, _ in data["turns"].get(program, {}).get(way, []) if us]
    return statistics.median(times) if times else None


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
    at = {way: os.path.join(folder, way.replace(" ", "-")) for way in WAYS}
    processes = {group: {} for group in [*GROUPS, "two"]}
    for way in WAYS:
        of = library if way == "captured" else None
        for group, names in GROUPS.items():
            processes[group][way] = {group: Process([",".join(names), "1" if group == "torch" else "", "0", "-1"], of, {}, os.path.join(at[way], group))}
        processes["two"][way] = {name: Process([program, "1", str(period), str(-1 - i)], of, mps, os.path.join(at[way], "two"))
                                 for i, (name, (program, period)) in enumerate(TWO.items())}
    binary = os.path.join(folder, "plain")
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
    share = {"torch": 0.45, "jax": 0.25, "cupy": 0.08, "two": 0.22}
    for group, by_way in processes.items():
        if by_way:
            turns_of(by_way, data, time.time() + share[group] * 0.85 * left)
            print(group, f"{time.time() - began:.1f} s", {p: {w: [round(us) for us, _ in t] for w, t in ways.items()} for p, ways in data["turns"].items()}, flush=True)
        keep()
        for way, ones in by_way.items():
            for name, one in ones.items():
                data["ends"][f"{name} {way}"] = one.end()
    subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=dict(os.environ, **mps), timeout=20)
    if os.path.exists(binary):
        run_plain(sim, binary, data, folder, time.time() + 0.15 * left)
    keep()
    print(f"measured after {time.time() - began:.1f} s", data["ends"], flush=True)
    make_traces(sim, data, folder)
    keep()
    print(f"imported after {time.time() - began:.1f} s", flush=True)


def make_traces(sim, data, folder):
    """As captured; and with what a request takes in the process without a library, as `capture --twice` takes it."""
    jobs = {program: (group, ["--range", program] if group == "torch" else []) for group, names in GROUPS.items() for program in names}
    jobs["two"] = ("two", [])
    begun, pool = {}, concurrent.futures.ThreadPoolExecutor(8)
    for program, (group, arguments) in jobs.items():
        recording = os.path.join(folder, "captured", group)
        if not os.path.isdir(recording):
            continue
        ways = {program: arguments}
        if time_without := middle(data, program, "without"):
            ways[program + ".twice"] = [*arguments, "--request-time", f"{time_without / 1e3:.5f}ms"]
        for name, options in ways.items():
            begun[name] = pool.submit(imported, sim, recording, os.path.join(folder, name + ".json"), options)
    for name, one in begun.items():
        data["said"][name] = one.result()
        print(name, data["said"][name][-250:], flush=True)


def replay(sim, trace, policy):
    """p50 in ms of each client."""
    ran = subprocess.run([sim, "--policy=" + policy, "--duration=2s" if policy == "mps" else "--duration=300ms", "--json", trace], capture_output=True, text=True)
    return {c["name"]: c["p50_ms"] for c in json.loads(ran.stdout)["clients"]} if ran.returncode == 0 else {}


def rows(sim, path):
    """Of each program: its name; the times in ms of its turns by way; replays in ms as captured, and as `--twice` would (judged by the process that
    it does not know)."""
    with open(path) as file:
        data = json.load(file)
    at = os.path.join(os.path.dirname(os.path.abspath(path)), "traces")
    stem = os.path.basename(path)[:-len(".json")]
    for program, ways in data["turns"].items():
        turns = {way: [us / 1e3 for us, _ in times if us] for way, times in ways.items()}
        group = "two" if program in TWO else program
        of = {}
        for name in (group, group + ".twice"):
            trace = os.path.join(at, f"{stem}.{name}.json.gz")
            if os.path.exists(trace):
                found = replay(sim, trace, "mps" if group == "two" else "fcfs")
                # Of two clients the graph's is the longer one.
                of[name] = sorted(found.values())[0 if program == "two-triton" else -1] if found else None
        yield program, turns, of.get(group), of.get(group + ".twice")


def tell(sim, path):
    with open(path) as file:
        data = json.load(file)
    print(data["gpu"], data["date"], "; missing: " + ", ".join(data["missing"]) if data["missing"] else "")
    print(f"{'program':13} {'turns':>5} {'without tracing, ms':>20} {'again':>8} {'spread of turns':>18} {'captured':>9} {'x':>5} {'replayed':>9} {'error':>8} {'--twice':>9} {'error':>8}")
    for program, turns, replayed, twice in rows(sim, path):
        if not all(turns.get(way) for way in WAYS):
            print(f"{program:13} left out: {turns}")
            continue
        both = turns["without"] + turns["without again"]
        a, b, c = (statistics.median(turns[way]) for way in ("without", "without again", "captured"))
        usual = statistics.median(both)
        cells = [f"{replayed:9.4f} {100 * (replayed / usual - 1):+6.1f} %" if replayed else f"{'-':>18}", f"{twice:9.4f} {100 * (twice / b - 1):+6.1f} %" if twice else ""]
        print(f"{program:13} {len(turns['captured']):5} {a:20.4f} {b:8.4f} {100 * (min(both) / usual - 1):+7.1f} to {100 * (max(both) / usual - 1):+5.1f} % {c:9.4f} {c / usual:5.2f} {' '.join(cells)}")


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
