#!/usr/bin/env python3
"""Measures the settings of predictions.json on an NVIDIA GPU: what each request and each token took.

  measure.py OUT.json.gz CASE...    a process for each client, or one for all where the setting is of one process
  measure.py clients                such a process: orders on its input, results on its output
"""
import gc
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../networks"))
from cases import SEED, arrivals, seconds_of  # noqa: E402
from gpu import UNIT, Parts, Process  # noqa: E402

READY_S = 0.3


# ---- clients: each is asked again and again whether it has something to do

class Replay:
    """One graph that was launched; `ended` when its event is through."""

    def __init__(self, torch, work):
        graph, stream = work
        self.event = torch.cuda.Event()
        with torch.cuda.stream(stream):
            graph.replay()
            self.event.record()

    def ended(self):
        return self.event.query()


class Service:
    def __init__(self, torch, work, times):
        self.torch, self.work, self.times, self.next, self.running, self.latencies = torch, work, times, 0, None, []

    def step(self, now):
        if self.running and self.running.ended():
            self.latencies.append(time.perf_counter() - self.began - self.times[self.next - 1])
            self.running = None
        if not self.running and self.next < len(self.times) and self.times[self.next] <= now:
            self.running, self.next = Replay(self.torch, self.work), self.next + 1

    def result(self, seconds):
        return {"latencies_us": [round(1e6 * t, 1) for t in self.latencies], "unfinished": len(self.times) - len(self.latencies)}


class Server:
    """Prompts first, one at a time, else a token for all in the batch."""

    def __init__(self, torch, prefill, decode, times, most, tokens):
        self.torch, self.prefill, self.decode, self.most, self.tokens = torch, prefill, decode, most, tokens
        self.sequences, self.next, self.batch, self.running, self.reading = [{"at": t, "tokens": []} for t in times], 0, [], None, None

    def step(self, now):
        if self.running and self.running.ended():
            now = time.perf_counter() - self.began
            for s in [self.reading] if self.reading else self.batch:
                s["tokens"].append(now)
            if self.reading:
                self.batch.append(self.reading)
            self.batch = [s for s in self.batch if len(s["tokens"]) < self.tokens]
            self.running = self.reading = None
        if self.running:
            return
        if self.next < len(self.sequences) and self.sequences[self.next]["at"] <= now and len(self.batch) < self.most:
            self.reading, self.next = self.sequences[self.next], self.next + 1
            self.running = Replay(self.torch, self.prefill)
        elif self.batch:
            self.running = Replay(self.torch, self.decode)

    def result(self, seconds):
        done = [s for s in self.sequences if len(s["tokens"]) == self.tokens]
        return {"first_us": [round(1e6 * (s["tokens"][0] - s["at"]), 1) for s in done],
                "gaps_us": [[round(1e6 * (b - a), 1) for a, b in zip(s["tokens"], s["tokens"][1:])] for s in done], "unfinished": len(self.sequences) - len(done)}


class Batch:
    """Two in flight at all times."""

    def __init__(self, torch, work):
        self.torch, self.work, self.running, self.ends = torch, work, [], []

    def step(self, now):
        if self.running and self.running[0].ended():
            self.running.pop(0)
            self.ends.append(time.perf_counter() - self.began)
        if len(self.running) < 2:
            self.running.append(Replay(self.torch, self.work))

    def result(self, seconds):
        return {"done": len(self.ends), "per_s": round(len([t for t in self.ends if t <= seconds]) / seconds, 3)}


def client_of(gpu, case, client, kind, slot, seconds):
    if "prefill" in client:
        return Server(gpu.torch, gpu.graph(client["prefill"], kind, slot), gpu.graph(client["decode"], kind, slot), arrivals(case, client, seconds),
                      client["most"], client["tokens"])
    work = gpu.graph(client["network"], kind, slot)
    return Service(gpu.torch, work, arrivals(case, client, seconds)) if "per_s" in client else Batch(gpu.torch, work)


def drive(gpu, clients, seconds, begin):
    gc.collect()
    gc.disable()
    for c in clients:
        c.began = begin
    while time.perf_counter() < begin:
        pass
    while (now := time.perf_counter() - begin) < seconds:
        for c in clients:
            c.step(now)
    gpu.torch.cuda.synchronize()
    return [c.result(seconds) for c in clients]


def clients():
    import torch  # noqa: F401  before the first order: it takes seconds, and the GPU is others' yet
    print(json.dumps({"there": True}), flush=True)
    gpu = made = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "prepare" in order:
                gpu = Parts(order["units"])
                made = [client_of(gpu, order["case"], c, kind, i, order["seconds"])
                        for c, kind, i in zip(order["prepare"], order["kinds"], order["slots"])]
                warm = [Batch(gpu.torch, c.work if hasattr(c, "work") else c.decode) for c in made]
                drive(gpu, warm, 0.1, time.perf_counter())
                answer = {"ready": True}
            else:
                answer = {"clients": drive(gpu, made, order["seconds"], order["begin"])}
        except Exception as error:
            answer = {"error": repr(error)[:300]}
        print(json.dumps(answer), flush=True)


# ---- the process that asks

def processes_of(case, setting, mps):
    """The processes of a setting, started, and what each is to prepare."""
    of, mode = case["clients"], setting["mode"]
    if mode in ("priority", "green-contexts"):
        units = [int(tpcs) * 2 // UNIT for tpcs in setting["policy"].rsplit("tpcs=", 1)[1].split("/")] if mode == "green-contexts" else []
        kinds = [f"part{i}" for i in range(len(of))] if units else ["high" if c["priority"] else "plain" for c in of]
        return [(Process([__file__, "clients"], dict(os.environ)), {"prepare": of, "kinds": kinds, "slots": list(range(len(of))), "units": units})]
    made = []
    for i, client in enumerate(of):
        environment = dict(mps if mode in ("mps", "percentages") else os.environ)
        if mode == "percentages":
            environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = setting["policy"].rsplit("=", 1)[1].split("/")[i]
        if setting["policy"].startswith("priority:"):
            environment["CUDA_MPS_CLIENT_PRIORITY"] = "0" if client["priority"] else "1"
        made.append((Process([__file__, "clients"], environment), {"prepare": [client], "kinds": ["plain"], "slots": [i], "units": []}))
    return made


def run(name, seconds, made):
    for process, order in made:
        process.tell(order | {"case": name, "seconds": seconds})
        process.hear()  # one after the other: MPS gives out SMs in the order of the contexts
    begin = time.perf_counter() + READY_S
    for process, _ in made:
        process.tell({"seconds": seconds, "begin": begin})
    return [client for process, _ in made for client in process.hear()["clients"]]


def about():
    import torch
    ask = "--query-gpu=name,driver_version,uuid,clocks.sm,temperature.gpu,power.draw"
    return {"gpu": subprocess.run(["nvidia-smi", ask, "--format=csv,noheader"], capture_output=True, text=True).stdout.strip(),
            "cuda": torch.version.cuda, "pytorch": torch.__version__, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "command": " ".join(["measure.py", *map(os.path.basename, sys.argv[1:])]), "seed": SEED}


def main(path, names):
    with open(os.path.join(HERE, "predictions.json")) as file:
        cases = json.load(file)
    folder = tempfile.mkdtemp()
    mps = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=f"{folder}/pipe", CUDA_MPS_LOG_DIRECTORY=f"{folder}/log")
    os.mkdir(f"{folder}/pipe"), os.mkdir(f"{folder}/log")
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=mps, check=True)
    data = about() | {"runs": []}
    print(data, flush=True)
    for name in names or cases:
        case = cases[name]
        seconds = seconds_of(case["clients"], case["promised"])
        settings = [(s, processes_of(case, s, mps)) for s in case["settings"]]
        for _, made in settings:
            for process, _ in made:
                process.hear()
        for setting, made in settings:
            try:
                measured = run(name, seconds, made)
                data["runs"].append({"case": name, "setting": setting["setting"], "clients": measured})
                print(f"{time.perf_counter() - BEGAN:.0f} s", name, setting["setting"],
                      [{k: v if not isinstance(v, list) else len(v) for k, v in c.items()} for c in measured], flush=True)
            except Exception as error:  # one that fails must not cost the others
                print(name, setting["setting"], "LEFT OUT:", repr(error)[:300], flush=True)
            finally:
                for process, _ in made:
                    process.close()
            with gzip.open(path, "wt", 9) as file:
                json.dump(data, file)
    subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=mps, timeout=30)


BEGAN = time.perf_counter()
if sys.argv[1:] == ["clients"]:
    clients()
else:
    main(sys.argv[1], sys.argv[2:])
