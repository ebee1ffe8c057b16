#!/usr/bin/env python3
"""Measures whole networks that share an NVIDIA GPU, with PyTorch; the networks and mixes are in networks.py.

  measure.py alone OUT.json [NAME...]       each network without a profiler: as a graph, eagerly
  measure.py clocks OUT.json [NAME...]      each network, and single operations, in a row for 1.2 s: clock, power, time of each
  measure.py record DIR [NAME...]           Kineto traces as a graph
  measure.py steps OUT.json DIR [NAME...]   eagerly, eight requests in a row: in turns without the profiler and with it, and the
                                            Kineto trace of six, which carries the time without
  measure.py eager OUT.json [NAME...]       eagerly, without the profiler: two sets of batches of four requests, in turns
  measure.py mixes OUT.json MODE [MIX...]   requests of the mixes under streams, priority, halves (one process), timeslice,
                                            mps or mps_percent (a process a client)
  measure.py parts OUT.json DIR PART [NAME...]   alone within a part of the GPU: time as a graph, Kineto trace into DIR; PART is
                                            half (a green context), mps (all SMs), mps_percent (40, then 60 %)
  measure.py part NAME TRACE                what `parts` runs for each network on half of the SMs
  measure.py turns OUT.json PROGRAM         time-slicing seen from a kernel of PROGRAM (turns.cu, compiled)
  measure.py slices OUT.json PROGRAM [NAME...]   each network in a closed loop beside a kernel of PROGRAM that never ends
  measure.py timeline DIR MODE [MIX...]     the profiler's record of 40 ms of a mix, in one process
  measure.py sensor                         clock and power each 5 ms: a process beside `clocks` and `mixes`
  measure.py client                         a process of a mix: commands on its standard input, answers on its output

A real-time client sends a request each period, which counts from its due time; while one is served, only the latest that
came due waits. A best-effort client has two requests in its stream at all times.
"""
import ctypes
import gc
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

from gpu import Gpu, drive, networks

REPEATS = 3
WANTED = 346  # real-time requests a repeat: three make a p99 of 1,000
REQUEST_TIME = "corun_request_time_us"  # in a recording: what a request takes without the profiler
PERCENTAGES = (40, 60)  # of the first client and of the others, under mps_percent


def describe():
    import torch
    ask = "--query-gpu=driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
    state = subprocess.run(["nvidia-smi", ask, "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    return {"device": torch.cuda.get_device_name(0), "driver": state.split(",")[0], "state": state,
            "cuda": torch.version.cuda, "pytorch": torch.__version__, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "command": " ".join(["measure.py", *map(os.path.basename, sys.argv[1:])])}


def save(path, data):
    with (gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")) as file:
        json.dump(data, file)


# ---- networks alone ----------------------------------------------------------------------------------------------------

def in_a_row(torch, call, times):
    """ms a call, by the GPU's clock, issued one behind the other."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(times):
        call()
    end.record()
    torch.cuda.synchronize()
    return round(start.elapsed_time(end) / times, 5)


def by_host(torch, call, times):
    """ms from before each call to its end."""
    samples = []
    for _ in range(times):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        samples.append(round((time.perf_counter() - begin) * 1e3, 5))
    return samples


def graph_times(gpu, name, kind):
    graph, stream = gpu.graph(name, kind)
    with gpu.torch.cuda.stream(stream):
        in_a_row(gpu.torch, graph.replay, 5)
        once = in_a_row(gpu.torch, graph.replay, 5)
        times = max(5, min(100, int(40 / once)))
        return once, [in_a_row(gpu.torch, graph.replay, times) for _ in range(5)]


def alone(path, names):
    gpu, data = Gpu(), {**describe(), "networks": {}}
    torch = gpu.torch
    for name in names or networks().NETWORKS:
        try:
            row = data["networks"][name] = {"about": networks().NETWORKS[name][0]}
            once, row["graph_ms"] = graph_times(gpu, name, "plain")
            with torch.cuda.stream(gpu.stream("plain", 0)):
                row["graph_to_host_ms"] = by_host(torch, gpu.graph(name)[0].replay, 30)
            row["closed_loop"] = drive(torch, [{"work": gpu.graph(name), "period": None}], 0.25)[0]
            row["periodic"] = drive(torch, [{"work": gpu.graph(name), "period": max(0.003, 2.5e-3 * once)}], 0.25)[0]
            run = gpu.run(name)
            in_a_row(torch, run, 3)
            row["eager_ms"] = [in_a_row(torch, run, 8) for _ in range(3)]
            row["eager_to_host_ms"] = by_host(torch, run, 15)
            print(name, row["graph_ms"], row["eager_ms"][0], flush=True)
        except Exception as error:  # one that this PyTorch refuses must not cost the others
            print(name, "LEFT OUT:", repr(error)[:400], flush=True)
        gpu.runs.clear(), gpu.graphs.clear()
        torch.cuda.empty_cache()
        save(path, data)


KEPT = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_sync")


def kineto(path, work, kept=KEPT):
    import torch
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as p:
        work()
        torch.cuda.synchronize()
    return export(p, path, kept)


def export(p, path, kept=KEPT):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        p.export_chrome_trace(file.name)
        with open(file.name) as recorded:
            trace = json.load(recorded)
    events = [e for e in trace["traceEvents"] if e.get("cat") in kept or  # operators and flows are most of it
              e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")]
    for e in events:
        for key in ("External id", "Ev Idx", "queued", "cbid", "warps per SM", "blocks per SM", "est. achieved occupancy %"):
            e.get("args", {}).pop(key, None)
    trace["traceEvents"] = events
    del trace["traceName"]
    with gzip.open(path, "wt", 9) as out:
        json.dump(trace, out, separators=(",", ":"))
    return sum(e["cat"] == "kernel" for e in events)


def record(folder, names):
    os.makedirs(folder, exist_ok=True)
    gpu = Gpu()
    for name in names or networks().NETWORKS:
        try:
            graph, stream = gpu.graph(name)

            def replay():
                with gpu.torch.cuda.stream(stream):
                    graph.replay()
            kineto(f"{folder}/warm.json.gz", replay)
            n = kineto(f"{folder}/{name}.graph.json.gz", replay)
            print(name, n, flush=True)
        except Exception as error:
            print(name, "LEFT OUT:", repr(error)[:400], flush=True)
        gpu.runs.clear(), gpu.graphs.clear()
        gpu.torch.cuda.empty_cache()
    if os.path.exists(f"{folder}/warm.json.gz"):
        os.remove(f"{folder}/warm.json.gz")


ROUNDS = 6  # of two batches without the profiler and one with it


def steps(path, folder, names):
    """Batches of eight requests in a row, in turns without the profiler and with it, in one process, since the host's speed
    drifts. Of the batches without, one of each round is what the recording tells (`told_ms`), the other is what a replay of
    it is compared with (`eager_ms`); either comes first in turn. CUPTI is detached in between: it slows a process."""
    os.environ["TEARDOWN_CUPTI"] = "1"
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule
    os.makedirs(folder, exist_ok=True)
    gpu, data = Gpu(), {**describe(), "networks": {}}
    for name in names or networks().NETWORKS:
        try:
            run, row = gpu.run(name), data["networks"].setdefault(name, {"told_ms": [], "eager_ms": []})
            gc.collect()
            gc.disable()
            with torch.cuda.stream(gpu.stream("plain", 0)):
                in_a_row(torch, run, 12)
                for turn in range(ROUNDS):
                    for kind in ("told_ms", "eager_ms")[::1 if turn % 2 else -1]:
                        run()  # what the profiler's end has left behind does not count
                        row[kind].append(in_a_row(torch, run, 8))
                    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True,
                                 schedule=schedule(wait=0, warmup=2, active=6, repeat=1)) as p:
                        if turn + 1 == ROUNDS:
                            p.add_metadata_json(REQUEST_TIME, f"{statistics.mean(row['told_ms']) * 1e3:.1f}")
                        for _ in range(8):
                            run()
                            p.step()
                row["kernels"] = export(p, f"{folder}/{name}.eager.json.gz")
            print("steps", name, row, flush=True)
        except Exception as error:
            print("steps", name, "LEFT OUT:", repr(error)[:300], flush=True)
        gc.enable()
        gpu.runs.clear()
        torch.cuda.empty_cache()
        save(path, data)


PAIRS, PAIRED, PAIRS_SECONDS = (24, 400), 4, 1.2  # pairs of batches at least and at most; requests a batch; seconds a network


def eager(path, names):
    """The host's speed drifts, so batches of two sets alternate, either first in turn: `told_ms` is what a request is said to
    take without the profiler, `eager_ms` what a replay of a recording with that time is compared with. How far apart the two
    are is the error of the measurement."""
    gpu, data = Gpu(), {**describe(), "requests": PAIRED, "networks": {}}
    torch = gpu.torch
    for name in names or networks().NETWORKS:
        try:
            run, row = gpu.run(name), data["networks"].setdefault(name, {"told_ms": [], "eager_ms": []})
            gc.collect()
            gc.disable()
            with torch.cuda.stream(gpu.stream("plain", 0)):
                in_a_row(torch, run, 12)
                once = in_a_row(torch, run, PAIRED)
                pairs = min(max(PAIRS[0], int(PAIRS_SECONDS * 1e3 / (2 * PAIRED * once))), PAIRS[1])
                for turn in range(pairs):
                    for kind in ("told_ms", "eager_ms")[::1 if turn % 2 else -1]:
                        row[kind].append(in_a_row(torch, run, PAIRED))
            told, other = statistics.mean(row["told_ms"]), statistics.mean(row["eager_ms"])
            print(f"eager {name}: {pairs} pairs, {told:.3f} and {other:.3f} ms, {told / other - 1:+.1%}", flush=True)
        except Exception as error:
            print("eager", name, "LEFT OUT:", repr(error)[:300], flush=True)
        gc.enable()
        gpu.runs.clear()
        torch.cuda.empty_cache()
        save(path, data)


# ---- clock and power ---------------------------------------------------------------------------------------------------

class Field(ctypes.Structure):  # nvmlFieldValue_t
    _fields_ = [("id", ctypes.c_uint), ("scope", ctypes.c_uint), ("at", ctypes.c_longlong), ("took", ctypes.c_longlong),
                ("type", ctypes.c_uint), ("status", ctypes.c_uint), ("value", ctypes.c_ulonglong)]


def sensor():
    """A line "T0 T1" is answered by the samples between: [s, MHz of the SMs, W at the instant, mJ so far, reasons of the clock]."""
    nvml, gpu = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
    nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))
    clock, energy, reasons = ctypes.c_uint(), ctypes.c_ulonglong(), ctypes.c_ulonglong()
    samples, field = [], Field(id=186)  # power at the instant
    print("{}", flush=True)
    while True:
        nvml.nvmlDeviceGetClockInfo(gpu, 1, ctypes.byref(clock))
        nvml.nvmlDeviceGetFieldValues(gpu, 1, ctypes.byref(field))
        nvml.nvmlDeviceGetTotalEnergyConsumption(gpu, ctypes.byref(energy))
        nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu, ctypes.byref(reasons))
        samples.append([time.perf_counter(), clock.value, (field.value & 0xffffffff) / 1e3, energy.value, reasons.value])
        if select.select([sys.stdin], [], [], 0.005)[0]:
            line = sys.stdin.readline().split()
            if not line:
                return
            print(json.dumps([s for s in samples if float(line[0]) <= s[0] <= float(line[1])]), flush=True)
            samples.clear()


class Sensor:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "sensor"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def between(self, begin, end):
        self.process.stdin.write(f"{begin} {end}\n")
        self.process.stdin.flush()
        return [[round(s[0] - begin, 4), *s[1:]] for s in json.loads(self.process.stdout.readline())]

    def summary(self, begin, end):
        samples = self.between(begin, end)
        if len(samples) < 3:
            return {}
        mhz, ms = [s[1] for s in samples], (samples[-1][0] - samples[0][0]) * 1e3
        return {"mhz": [min(mhz), round(sum(mhz) / len(mhz), 1), max(mhz)],
                "watts": round((samples[-1][3] - samples[0][3]) / ms, 1)}

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def operations(torch):
    """Single operations of one kind of work each, by name."""
    def product(dtype, tf32=False, n=8192):
        a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))

        def run():
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.mm(a, b)
        return run
    x, y = torch.randn(1 << 28, device="cuda"), torch.empty(1 << 28, device="cuda")
    small = torch.randn(1 << 21, device="cuda")
    half, less, tall = torch.float16, torch.randn(1024, 8192, device="cuda").half(), torch.randn(8192, 8192, device="cuda").half()
    return {"product_f16": product(half), "product_bf16": product(torch.bfloat16), "product_tf32": product(torch.float32, True),
            "product_f32": product(torch.float32, n=4096), "product_f16_2k": product(half, n=2048),
            "product_1kx8kx8k": lambda: torch.mm(less, tall),
            "copy": lambda: y.copy_(x), "copy_in_l2": lambda: [small.add_(1) for _ in range(40)],
            "sine": lambda: torch.sin(x, out=y), "sum": lambda: x.sum()}


def clocks(path, names):
    gpu, seen, data = Gpu(), Sensor(), {**describe(), "samples": ["s", "MHz", "W", "mJ", "reasons"], "runs": {}}
    torch = gpu.torch

    def measured(name, work):
        run, stream = work
        time.sleep(0.4)
        with torch.cuda.stream(stream):
            events, begin = [torch.cuda.Event(enable_timing=True)], time.perf_counter()
            events[0].record()
            while time.perf_counter() < begin + 1.2:
                run()
                events.append(torch.cuda.Event(enable_timing=True))
                events[-1].record()
                if len(events) > 8:
                    events[-8].synchronize()
            torch.cuda.synchronize()
        end = time.perf_counter()
        each = [round(a.elapsed_time(b), 4) for a, b in zip(events, events[1:])]
        data["runs"][name] = {"ms": each, "samples": seen.between(begin - 0.05, end)}
        rows = data["runs"][name]["samples"]
        print(name, f"first {min(each[:5]):.3f} last {sorted(each[-9:])[4]:.3f} ms, {rows[-1][1]} MHz, {rows[-1][2]} W", flush=True)
        save(path, data)
    for name, run in ({} if names else operations(torch)).items():
        run()
        torch.cuda.synchronize()
        measured(name, (run, gpu.stream("plain", 0)))
    torch.cuda.empty_cache()
    for name in names or networks().NETWORKS:
        graph, stream = gpu.graph(name)
        measured(name, (graph.replay, stream))
        gpu.runs.clear(), gpu.graphs.clear()
        torch.cuda.empty_cache()
    seen.close()


# ---- mixes -------------------------------------------------------------------------------------------------------------

def offset(client):
    return 0.0007 * client


def seconds_of(mix):
    return min(1.75, max(WANTED * c["period_ms"] / 1e3 for c in mix if "period_ms" in c))


def kind_of(mode, client, mix):
    if mode == "priority":
        return "high" if "period_ms" in mix[client] else "plain"
    if mode == "halves":
        return "first" if client == 0 else "rest"
    return "plain"


def clients_of(gpu, mix, mode):
    return [{"work": gpu.graph(c["network"], kind_of(mode, i, mix), i), "offset": offset(i),
             "period": c["period_ms"] / 1e3 if "period_ms" in c else None} for i, c in enumerate(mix)]


def client():
    """One client's process. A line {"prepare": network, "slot": n} is answered when it is captured; {"drive": ...} with what
    was done; an empty line ends it."""
    gpu = Gpu()
    print("{}", flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        order = json.loads(line)
        answer = {}
        try:
            if "prepare" in order:
                gpu.graph(order["prepare"], "plain", order["slot"])
                gc.collect()
            elif "forget" in order:
                gpu.runs.clear(), gpu.graphs.clear()
                gpu.torch.cuda.empty_cache()
            elif "part" in order:
                answer = within_part(gpu, order["part"], "plain", order["path"])
            else:
                work = gpu.graph(order["drive"], "plain", order["slot"])
                answer = drive(gpu.torch, [{"work": work, "period": order["period"], "offset": order["offset"]}],
                               order["seconds"], order["begin"])[0]
        except Exception as error:
            answer = {"error": repr(error)[:300]}
        print(json.dumps(answer), flush=True)


class Processes:
    def __init__(self, mode, count, percentages=None):
        """percentages: of each process, under mps_percent; without: PERCENTAGES of the first and of the others."""
        self.folder = tempfile.mkdtemp()
        self.env = dict(os.environ)
        self.mps = mode.startswith("mps")
        if self.mps:
            self.env.update(CUDA_MPS_PIPE_DIRECTORY=f"{self.folder}/pipe", CUDA_MPS_LOG_DIRECTORY=f"{self.folder}/log")
            os.mkdir(f"{self.folder}/pipe"), os.mkdir(f"{self.folder}/log")
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env=self.env, check=True)
        self.processes = []
        for i in range(count):
            env = dict(self.env)
            if mode == "mps_percent":
                env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(percentages[i] if percentages else PERCENTAGES[min(i, 1)])
            self.processes.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), "client"], env=env, text=True,
                                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            self.processes[-1].stdout.readline()  # one after the other: MPS gives out SMs in the order of the contexts

    def ask(self, orders):
        """By process: its answer to its order; one whose order is None is not asked."""
        asked = [(p, order) for p, order in zip(self.processes, orders) if order]
        for p, order in asked:
            p.stdin.write(json.dumps(order) + "\n")
            p.stdin.flush()
        answers = [json.loads(p.stdout.readline() or '{"error": "the process ended"}') for p, _ in asked]
        for a in answers:
            if "error" in a:
                raise RuntimeError(a["error"])
        return answers

    def close(self):
        for p in self.processes:
            try:
                p.stdin.write("\n"), p.stdin.close()
                p.wait(20)
            except Exception:
                p.kill()
        if self.mps:
            subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=self.env, timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)


def mixes(path, mode, names):
    wanted = {n: m for n, m in networks().MIXES.items() if not names or n in names}
    data = {**describe_without_context(), "mode": mode, "repeats": REPEATS, "percentages": PERCENTAGES, "mixes": {}}
    one = mode in ("streams", "priority", "halves")
    gpu = Gpu() if one else None
    processes = None if one else Processes(mode, max(len(m) for m in wanted.values()))
    seen = Sensor()
    try:
        for name, mix in wanted.items():
            seconds = seconds_of(mix)
            try:
                repeats, states = [], []
                if one:
                    ready = clients_of(gpu, mix, mode)
                    drive(gpu.torch, ready, 0.1)
                    for _ in range(REPEATS):
                        begin = time.perf_counter()
                        repeats.append(drive(gpu.torch, ready, seconds))
                        states.append(seen.summary(begin + 0.1, time.perf_counter()))
                else:
                    processes.ask([{"prepare": c["network"], "slot": i} for i, c in enumerate(mix)])
                    for repeat in range(REPEATS + 1):
                        begin = time.perf_counter() + 0.02
                        repeats.append(processes.ask(
                            [{"drive": c["network"], "slot": i, "begin": begin, "offset": offset(i),
                              "seconds": seconds if repeat else 0.1,
                              "period": c["period_ms"] / 1e3 if "period_ms" in c else None} for i, c in enumerate(mix)]))
                        states.append(seen.summary(begin + 0.1, begin + seconds))
                    repeats.pop(0), states.pop(0)
                data["mixes"][name] = {"clients": mix, "seconds": seconds, "repeats": repeats, "gpu": states}
                shown = [f"{sum(r['latencies_us']) / max(1, len(r['latencies_us'])) / 1e3:.3f} ms x {len(r['latencies_us'])}"
                         if "latencies_us" in r else f"{r['per_s']}/s" for r in repeats[0]]
                print(mode, name, *shown, flush=True)
            except Exception as error:
                print(mode, name, "LEFT OUT:", repr(error)[:300], flush=True)
            save(path, data)
    finally:
        seen.close()
        if processes:
            processes.close()


def turns(path, program):
    """Who is on the GPU when, under time-slicing: a network, or a graph of `rival`, in a closed loop beside a kernel of `watch`,
    which logs when it is away."""
    data = {**describe_without_context(), "ways": {"always": "one kernel", "periodic": "1.2 ms each 3 ms", "short": "0.3 ms each 3 ms"},
            "beside": {}, "graphs": {}}

    def watch(way):
        arguments = {"always": ("0.1", "0", "0"), "periodic": ("0.15", "1.2", "3"), "short": ("0.15", "0.3", "3")}[way]
        seen = subprocess.Popen([program, "watch", "0.25", *arguments], text=True, stdout=subprocess.PIPE)
        seen.stdout.readline()
        return seen
    for kernels, memsets, deep in ((10, 0, 2), (40, 0, 2), (68, 0, 2), (68, 1, 2), (68, 8, 2), (68, 0, 1), (68, 0, 4), (100, 0, 2),
                                   (140, 0, 2), (200, 0, 2), (400, 0, 2), (-68, 0, 2)):
        way = "periodic" if deep == 2 and kernels in (68, 200) else "always"
        seen = watch(way)
        done = subprocess.run([program, "rival", str(kernels), str(memsets), str(deep), "0.9"], text=True, capture_output=True)
        data["graphs"][f"{kernels} kernels, {memsets} memsets, {deep} in flight, {way}"] = {
            "per_s": done.stdout.strip(), **json.loads(seen.communicate()[0])}
        save(path, data)
    processes = Processes("timeslice", 1)
    for name in ("dlrm_b2048", "decode_2k", "vgg19_b1", "prefill_2k", "distilbert_b1s128"):
        processes.ask([{"prepare": name, "slot": 0}])
        rows = data["beside"][name] = {}
        for way in data["ways"]:
            seen = watch(way)
            processes.ask([{"drive": name, "slot": 0, "begin": time.perf_counter() + 0.01, "offset": 0, "seconds": 0.5,
                            "period": None}])
            rows[way] = json.loads(seen.communicate()[0])
        save(path, data)
    processes.close()
    print("turns", len(data["graphs"]), len(data["beside"]), flush=True)


def within_part(gpu, name, kind, path):
    """Time of a network as a graph, and its Kineto trace."""
    try:
        _, times = graph_times(gpu, name, kind)
        graph, stream = gpu.graph(name, kind)

        def replay():
            with gpu.torch.cuda.stream(stream):
                graph.replay()
        most = -1
        for session in range(5):  # some miss kernels, the first of a process even all
            seen = kineto(path + ".new", lambda: gpu.within(kind, replay))
            if session > 0 and seen == most:
                break
            if seen > most:
                most = seen
                os.replace(path + ".new", path)
        return {"graph_ms": times, "kernels": most,
                "sms": gpu.torch.cuda.get_device_properties(0).multi_processor_count}
    finally:
        gpu.runs.clear(), gpu.graphs.clear()
        gpu.torch.cuda.empty_cache()


def parts(path, folder, part, names):
    """Each network alone within a part of the GPU, in a process that used no other context before."""
    os.makedirs(folder, exist_ok=True)
    kinds = [f"mps{p}" for p in PERCENTAGES] if part == "mps_percent" else [part]
    data = {**describe_without_context(), "part": part, "networks": {}}
    processes = None if part == "half" else Processes(part, len(kinds))
    for name in names or networks().NETWORKS:
        row = data["networks"][name] = {}
        for i, kind in enumerate(kinds):
            trace = os.path.abspath(f"{folder}/{name}.{kind}.json.gz")
            try:
                row[kind] = (processes.ask([None] * i + [{"part": name, "path": trace}])[-1] if processes else
                             json.loads(subprocess.run([sys.executable, os.path.abspath(__file__), "part", name, trace], check=True,
                                                       text=True, stdout=subprocess.PIPE, timeout=40).stdout.splitlines()[-1]))
                print(part, name, kind, row[kind]["kernels"], row[kind]["sms"], row[kind]["graph_ms"], flush=True)
            except Exception as error:
                print(part, name, kind, "LEFT OUT:", repr(error)[:300], flush=True)
        save(path, data)
    if processes:
        processes.close()


def slices(path, program, names):
    """What a network does in its turns beside one kernel that never ends: requests in 0.35 s, and when that kernel was away."""
    data = {**describe_without_context(), "beside": {}}
    processes = Processes("timeslice", 1)
    for name in names or networks().NETWORKS:
        processes.ask([{"prepare": name, "slot": 0}])
        row = data["beside"][name] = {}
        for way in ("alone", "beside"):
            if way == "beside":
                seen = subprocess.Popen([program, "watch", "0", "0.5", "0", "0"], text=True, stdout=subprocess.PIPE)
                seen.stdout.readline()
                time.sleep(0.06)
            row[way] = processes.ask([{"drive": name, "slot": 0, "begin": time.perf_counter() + 0.01, "offset": 0,
                                       "seconds": 0.35, "period": None}])[0]
        row["away"] = json.loads(seen.communicate()[0])["launches"][0]["away"]
        print("slices", name, row["alone"], row["beside"], len(row["away"]), flush=True)
        save(path, data)
        processes.ask([{"forget": name}])
    processes.close()


def describe_without_context():
    """Of the process that starts others, which must not hold a context of the GPU itself."""
    code = "import json, sys; sys.argv = sys.argv[1:]; import measure; print(json.dumps(measure.describe()))"
    run = subprocess.run([sys.executable, "-c", code, *sys.argv], capture_output=True, text=True,
                         cwd=os.path.dirname(os.path.abspath(__file__)))
    return json.loads(run.stdout.strip().splitlines()[-1])


def timeline(folder, mode, names):
    os.makedirs(folder, exist_ok=True)
    gpu = Gpu()
    for name, mix in networks().MIXES.items():
        if names and name not in names:
            continue
        ready = clients_of(gpu, mix, mode)
        drive(gpu.torch, ready, 0.1)
        done = []
        kineto(f"{folder}/warm.json.gz", lambda: drive(gpu.torch, ready, 0.02))  # the first session of a process may miss all
        n = kineto(f"{folder}/{name}.{mode}.json.gz", lambda: done.extend(drive(gpu.torch, ready, 0.04)), KEPT[:3])
        save(f"{folder}/{name}.{mode}.clients.json",
             {**describe(), "mix": mix, "streams": [c["work"][1].stream_id for c in ready], "clients": done})
        print("timeline", mode, name, n, flush=True)
    if os.path.exists(f"{folder}/warm.json.gz"):
        os.remove(f"{folder}/warm.json.gz")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["alone", path, *names]: alone(path, names)
        case ["record", folder, *names]: record(folder, names)
        case ["steps", path, folder, *names]: steps(path, folder, names)
        case ["eager", path, *names]: eager(path, names)
        case ["clocks", path, *names]: clocks(path, names)
        case ["sensor"]: sensor()
        case ["mixes", path, mode, *names]: mixes(path, mode, names)
        case ["turns", path, program]: turns(path, os.path.abspath(program))
        case ["parts", path, folder, part, *names]: parts(path, folder, part, names)
        case ["part", name, path]: print(json.dumps(within_part(Gpu(), name, "first", path)))
        case ["slices", path, program, *names]: slices(path, os.path.abspath(program), names)
        case ["timeline", folder, mode, *names]: timeline(folder, mode, names)
        case ["client"]: client()
        case _: sys.exit(__doc__)
