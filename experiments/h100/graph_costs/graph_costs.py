#!/usr/bin/env python3
"""What a kernel of a graph costs, in which conditions: graph_costs.cu's chains, and two programs of ../../h200/live alone.

  graph_costs.py chains GRAPH_COSTS OUT.json FOLDER        on the GPU, 150 s
  graph_costs.py programs GRAPH_COSTS SIM OUT.json FOLDER  on the GPU, 120 s; needs PyTorch
  graph_costs.py sets GRAPH_COSTS OUT.json FOLDER          on the GPU, 60 s; three programs under plain MPS, each set of them alone, without and with the profiler
  graph_costs.py compare SIM SETS.json.gz                  anywhere, 20 s; the sets beside their simulation
  graph_costs.py show CHAINS.json.gz [PROGRAMS.json.gz]    anywhere
Conditions are NAME: whether under MPS, MPS's percentage, SMs of the green context, what two other clients do meanwhile.
"""
import csv
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHAINS = {
    "plain": (False, None, "whole", None),
    "green 40": (False, None, "40", None),
    "green all": (False, None, "132", None),
    "mps": (True, None, "whole", None),
    "mps 30 %": (True, 30, "whole", None),
    "mps, green 40": (True, None, "40", None),
    "mps, green all": (True, None, "132", None),
    "mps, two idle": (True, None, "whole", "idle"),
    "mps, two idle, green 40": (True, None, "40", "idle"),
    "mps, two idle, 30 %": (True, 30, "whole", "idle"),
    "mps, two idle of 128 streams": (True, None, "whole", "streams"),
    "mps, beside two endless kernels": (True, None, "whole", "endless"),
    "mps, beside two streams": (True, None, "whole", "stream"),
    "mps, beside two graphs": (True, None, "whole", "graph"),
    "plain again": (False, None, "whole", None),
}
SETS = [("decode-graph",), ("train",), ("vision-graph",), ("decode-graph", "train"), ("decode-graph", "vision-graph"), ("train", "vision-graph"),
        ("decode-graph", "train", "vision-graph")]
PROGRAMS = {"plain": (False, None, None, None), "mps": (True, None, None, None), "mps, two idle": (True, None, None, "idle"),
            "mps 30 %": (True, 30, None, None), "served fcfs": (False, None, "fcfs", None), "served tpc-mask": (False, None, "tpc-mask:split=even", None)}


def card():
    return {"gpu": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid,clocks.sm", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip(),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}


class Mps:
    """A daemon of MPS where it is wanted, with two clients beside."""
    def __init__(self, wanted, folder, program, beside):
        self.wanted, self.folder, self.others = wanted, folder, []
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.environment = os.environ | {"CUDA_MPS_PIPE_DIRECTORY": folder + "/mps", "CUDA_MPS_LOG_DIRECTORY": folder + "/mps"}
        if wanted:
            os.makedirs(folder + "/mps")
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env=self.environment, check=True)
        for i in range(2 if beside else 0):
            at = f"{folder}/{i}"
            os.makedirs(at)
            self.others.append((at, subprocess.Popen([program, "beside", beside, at], env=self.environment)))
        until = time.time() + 20
        while not all(os.path.exists(at + "/ready") for at, _ in self.others) and time.time() < until:
            time.sleep(0.01)

    def __enter__(self):
        return self.environment

    def __exit__(self, *_):
        for at, _ in self.others:
            open(at + "/stop", "w").close()
        for _, other in self.others:
            try:
                other.wait(timeout=10)
            except subprocess.TimeoutExpired:
                other.kill()
        if self.wanted:
            subprocess.run("echo quit | timeout 10 nvidia-cuda-mps-control", shell=True, env=self.environment)


def chains(program, path, folder, *names):
    data = card() | {"rows": [], "failed": {}}
    for name, (mps, percentage, place, beside) in CHAINS.items():
        if names and name not in names:
            continue
        began, out = time.time(), tempfile.mktemp()
        with Mps(mps, folder, program, beside) as environment:
            if percentage:
                environment = environment | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percentage)}
            ran = subprocess.run(["timeout", "60", program, "measure", name, place, out], env=environment, capture_output=True, text=True)
        if ran.returncode:
            data["failed"][name] = [ran.returncode, ran.stderr[-300:]]
        if os.path.exists(out):
            for line in open(out):
                try:
                    data["rows"].append(json.loads(line))
                except ValueError:  # cut off
                    pass
        print(f"{name}: {time.time() - began:.1f} s", ran.returncode, ran.stderr[-300:], flush=True)
        with open(path, "w") as file:
            json.dump(data, file)


def one(out):
    """In a process of its own: both programs' graphs, alone and then under the profiler."""
    sys.path.insert(0, os.path.join(HERE, "../../h200/live"))
    import programs
    import torch
    said = {}
    with torch.set_grad_enabled(False):
        made = {"vision-graph": programs.as_graph(programs.vision()), "decode-graph": programs.as_graph(programs.decode())}

        def requests(ask, count):
            ms = []
            for _ in range(count):
                began = time.perf_counter()
                ask()
                torch.cuda.synchronize()
                ms.append(1e3 * (time.perf_counter() - began))
            return [round(x, 4) for x in statistics.quantiles(ms, n=4)]
        for _ in range(2):
            for name, ask in made.items():
                requests(ask, 50)
                said.setdefault(name, {"ms": []})["ms"].append(requests(ask, 300))
        with open(out, "w") as file:
            json.dump(said, file)
        for name, ask in made.items():
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                said[name]["profiled_ms"] = requests(ask, 20)
            trace = tempfile.mktemp(".json")
            profile.export_chrome_trace(trace)
            with open(trace) as file:
                events = sorted((e for e in json.load(file)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy")), key=lambda e: e["ts"])
            n = len(events) // 20
            said[name]["events"] = [len(events), n]
            if n * 20 == len(events):
                said[name]["kernels"] = [[e["name"][:60], e["args"].get("grid"), round(statistics.median(events[r * n + i]["dur"] for r in range(20)), 3),
                                          round(statistics.median(events[r * n + i + 1]["ts"] - events[r * n + i]["ts"] for r in range(20)), 3) if i + 1 < n else None]
                                         for i, e in enumerate(events[:n])]
    with open(out, "w") as file:
        json.dump(said, file)


def of_programs(program, sim, path, folder):
    data = card() | {"rows": {}, "failed": {}}
    for name, (mps, percentage, policy, beside) in PROGRAMS.items():
        began, out, service = time.time(), tempfile.mktemp(), None
        with Mps(mps, folder, program, beside) as environment:
            if percentage:
                environment = environment | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percentage)}
            joins = []
            if policy:
                at = folder + "/service"
                service = subprocess.Popen([sim, "serve", "--policy=" + policy, "--at", at, *(["--programs=one,two,three"] if policy != "fcfs" else [])],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                while not os.path.exists(at + "/environment") and service.poll() is None:
                    time.sleep(0.01)
                joins, environment = [sim, "run", "--at", at, "--name", "one", "--"], dict(os.environ)
            ran = subprocess.run(["timeout", "45", *joins, sys.executable, __file__, "one", out], env=environment, capture_output=True, text=True)
            if service:
                service.terminate()
                try:
                    service.communicate(timeout=20)
                except subprocess.TimeoutExpired:
                    service.kill()
        if ran.returncode:
            data["failed"][name] = [ran.returncode, ran.stderr[-500:]]
        if os.path.exists(out):
            with open(out) as file:
                data["rows"][name] = json.load(file)
        print(f"{name}: {time.time() - began:.1f} s", ran.returncode, ran.stderr[-300:] if ran.returncode else "",
              {p: r["ms"] for p, r in data["rows"].get(name, {}).items()}, flush=True)
        with open(path, "w") as file:
            json.dump(data, file)


def member(name, folder):
    """In a process of its own: rounds between go.N and stop.N, those of the second half under the profiler."""
    sys.path.insert(0, os.path.join(HERE, "../../h200/live"))
    import programs
    import torch
    rounds = sum(name in s for s in SETS)

    def profiled(until, ask):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            count = requests(until, ask)["requests"]
        trace = tempfile.mktemp(".json")
        profile.export_chrome_trace(trace)
        with open(trace) as file:
            events = sorted((e for e in json.load(file)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy")), key=lambda e: e["ts"])
        os.remove(trace)
        n = len(events) // count
        if n * count != len(events):
            return {"requests": count, "events": len(events)}
        of = [[events[r * n + i] for r in range(count)] for i in range(n)]
        return {"requests": count, "begins_us": [events[0]["ts"], events[-1]["ts"]], "kernels": [
            [es[0]["name"][:60], es[0]["args"].get("grid"), round(statistics.mean(e["dur"] for e in es), 3), round(statistics.median(e["dur"] for e in es), 3),
             round(statistics.mean(events[r * n + i + 1]["ts"] - e["ts"] - e["dur"] for r, e in enumerate(es)), 3) if i + 1 < n else None] for i, es in enumerate(of)]}

    def requests(until, ask):
        count, began = 0, time.perf_counter()
        while not until():
            ask()
            torch.cuda.synchronize()
            count += 1
        return {"requests": count, "per_s": round(count / (time.perf_counter() - began), 2)}

    with torch.set_grad_enabled(name == "train"):
        ask = programs.train() if name == "train" else programs.as_graph(programs.vision() if name == "vision-graph" else programs.decode())
        for _ in range(30):
            ask()
        torch.cuda.synchronize()
        open(folder + "/ready", "w").close()
        said = []
        for number in range(2 * rounds):
            if number == rounds:
                profiled(lambda times=[0, 1, 2]: times.pop() == 0, ask)
                open(folder + "/profiles", "w").close()
            while not os.path.exists(f"{folder}/go.{number}"):
                time.sleep(0.001)
            said.append((profiled if number >= rounds else requests)(lambda: os.path.exists(f"{folder}/stop.{number}"), ask))
    print(json.dumps(said))


def sets(program, path, folder):
    data = card() | {"sets": SETS, "rows": []}
    names = sorted({p for s in SETS for p in s})
    of = {p: [s for s in SETS if p in s] for p in names}
    with Mps(True, folder, program, None) as environment:
        for p in names:
            os.makedirs(f"{folder}/{p}")
        running = {p: subprocess.Popen([sys.executable, __file__, "member", p, f"{folder}/{p}"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for p in names}

        def wait(what):
            until = time.time() + 60
            while not all(os.path.exists(f"{folder}/{p}/{what}") for p in names) and time.time() < until and all(r.poll() is None for r in running.values()):
                time.sleep(0.01)

        for part, what in enumerate(("ready", "profiles")):
            wait(what)
            for s in SETS:
                numbers = {p: part * len(of[p]) + of[p].index(s) for p in s}
                for p, n in numbers.items():
                    open(f"{folder}/{p}/go.{n}", "w").close()
                time.sleep(0.4 if part else 0.8)
                for p, n in numbers.items():
                    open(f"{folder}/{p}/stop.{n}", "w").close()
                time.sleep(2.5 if part else 0.1)
        said = {}
        for p, r in running.items():
            try:
                out, err = r.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                r.kill()
                out, err = r.communicate()
            print(p, r.returncode, err[-300:] if r.returncode else "", flush=True)
            said[p] = json.loads(out.strip().splitlines()[-1]) if r.returncode == 0 else None
    for part in (0, 1):
        for s in SETS:
            data["rows"].append({p: said[p][part * len(of[p]) + of[p].index(s)] if said[p] else None for p in s})
            print("+".join(s), {p: {k: v for k, v in (r or {}).items() if k != "kernels"} for p, r in data["rows"][-1].items()}, flush=True)
    with open(path, "w") as file:
        json.dump(data, file)


def load(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as file:
        return json.load(file)


def line(points):
    """Slope and intercept of least squares; each point counts by 1/x, as its error grows with the number of kernels."""
    weights = [1 / x for x, _ in points]
    total = sum(weights)
    x0, y0 = (sum(w * p[i] for w, p in zip(weights, points)) / total for i in (0, 1))
    slope = sum(w * (x - x0) * (y - y0) for w, (x, y) in zip(weights, points)) / sum(w * (x - x0) ** 2 for w, (x, _) in zip(weights, points))
    return slope, y0 - slope * x0


def show(path, of_programs=None):
    data, by = load(path), {}
    print(os.path.basename(path), data["gpu"], data["date"], data["failed"] or "")
    for row in data["rows"]:
        stamped = "device_us" in row
        by.setdefault((row["where"], row["way"], row["kernels"], row["blocks"], row["us"]), {}).setdefault(stamped, {})[row["n"]] = row
    wheres = list(dict.fromkeys(r["where"] for r in data["rows"]))
    print("us a kernel more than plain, by what is measured: wall (slope of a request's time by its kernels, without stamps), lasts, gap; and us a request more at no kernel")
    for way in ("graph", "graph elsewhere", "graph by lanes", "stream", "stream by lanes"):
        for where in wheres:
            cells, all_wall, all_lasts, all_gap, all_request = [], [], [], [], []
            for kernels, blocks, us in dict.fromkeys(k[2:] for k in by):
                mine, plain = by.get((where, way, kernels, blocks, us)), by.get(("plain", way.split()[0], kernels, blocks, us))
                if not mine or not plain or (mine[True][100]["sms"] < 132 and blocks > 40):
                    continue
                lasts, gap = (mine[True][100][k] - plain[True][100][k] for k in ("lasts_us", "gap_us"))
                if way.startswith("stream"):
                    wall = (mine[False][100]["wall_us"][1] - plain[False][100]["wall_us"][1]) / 100
                    request = 0
                else:
                    (a, b), (c, d) = (line([(n, r["wall_us"][1]) for n, r in of[False].items()]) for of in (mine, plain))
                    wall, request = a - c, b - d
                all_wall.append(wall), all_lasts.append(lasts), all_gap.append(gap), all_request.append(request)
                cells.append(f"{kernels} {blocks}x{us:g}: {wall:.2f} {lasts:.2f} {gap:.2f} ({plain[True][100]['lasts_us']:.1f} {plain[True][100]['gap_us']:.2f})")
            if cells:
                print(f"{way:16}{where:32}" + ", ".join(f"{what} {statistics.median(v):5.2f}" for what, v in
                      (("wall", all_wall), ("lasts", all_lasts), ("gap", all_gap), ("request", all_request))) + "   " + "; ".join(cells))
    if of_programs:
        show_programs(load(of_programs))


def show_programs(data):
    print(data["gpu"], data["date"], data["failed"] or "")
    plain = data["rows"]["plain"]
    for where, row in data["rows"].items():
        for name, r in row.items():
            ms, ms0 = (min(x["ms"][-1][1], x["ms"][0][1]) for x in (r, plain[name]))
            said = f"{where:20}{name:14}{ms:7.3f} ms a request"
            if "kernels" in r and "kernels" in plain[name]:
                n, n0 = len(r["kernels"]), len(plain[name]["kernels"])
                lasted, lasted0 = (sum(k[2] for k in x) for x in (r["kernels"], plain[name]["kernels"]))
                same = n == n0 and all(a[:2] == b[:2] for a, b in zip(r["kernels"], plain[name]["kernels"]))
                said += f", {1e3 * (ms - ms0) / n0:+.2f} us a kernel; recorded {n} kernels of {lasted:.0f} us, {(lasted - lasted0) / n0:+.2f} us a kernel" + (", the same" if same else ", others")
                if same:
                    more = sorted(a[2] - b[2] for a, b in zip(r["kernels"], plain[name]["kernels"]))
                    said += f", each {more[n // 10]:+.2f}, {more[n // 2]:+.2f}, {more[9 * n // 10]:+.2f}"
            print(said)


def simulated(sim, programs):
    """Requests a second, and of a request of each graph the sums of its kernels' durations and of the gaps between them."""
    traces = os.path.join(HERE, "../live/traces")
    clients = [x for i, p in enumerate(programs) for x in ("--client", f"{p}={traces}/{p}.json.gz,closed,process={i},be")]
    with tempfile.TemporaryDirectory() as out:
        said = subprocess.run([sim, "--gpu=h100-sxm", "--policy=fcfs", "--duration=600ms", "--json", "--out", out, *clients], capture_output=True, text=True, check=True)
        with open(out + "/kernels.csv") as file:
            kernels = list(csv.DictReader(file))
    per_s, sums = {c["name"]: c["throughput_per_s"] for c in json.loads(said.stdout)["clients"]}, {}
    for p in programs:
        requests = {}
        for k in kernels:
            if k["client"] == p and k["blocks"]:
                requests.setdefault(int(k["request"]), []).append((float(k["started_ns"] or "nan"), float(k["finished_ns"] or "nan")))
        whole = [r for r in requests.values() if len(r) == max(map(len, requests.values())) and all(end == end for _, end in r)]
        sums[p] = [statistics.mean(sum(end - begin for begin, end in r) for r in whole) / 1e3,
                   statistics.mean(sum(b[0] - a[1] for a, b in zip(r, r[1:])) for r in whole) / 1e3]
    return per_s, sums


def compare(sim, path):
    data = load(path)
    print(os.path.basename(path), data["gpu"], data["date"])
    half = len(data["sets"])
    for programs, row, profiled in zip(data["sets"], data["rows"][:half], data["rows"][half:]):
        per_s, sums = simulated(sim, programs)
        print("+".join(programs))
        for p in programs:
            said = f"  {p:14}{row[p]['per_s']:8.1f} requests a second ({per_s[p]:.1f})"
            if p != "train":  # its kernels follow each other in its host's time
                kernels = profiled[p]["kernels"]
                said += f", kernels {sum(k[2] for k in kernels):.0f} us ({sums[p][0]:.0f}), gaps {sum(k[4] or 0 for k in kernels):.0f} us ({sums[p][1]:.0f})"
            print(said, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "one":
        one(sys.argv[2])
    elif sys.argv[1] == "member":
        member(*sys.argv[2:])
    else:
        {"chains": chains, "programs": of_programs, "sets": sets, "compare": compare, "show": show}[sys.argv[1]](*sys.argv[2:])
