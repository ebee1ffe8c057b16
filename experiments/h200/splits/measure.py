#!/usr/bin/env python3
"""Decode steps and prefills (models.py) on parts of an NVIDIA GPU, alone and beside each other.

  measure.py all FOLDER [SECONDS]              on the GPU, 360 s: FOLDER/times.jsonl.gz and FOLDER/recordings.jsonl.gz, written row by row
  measure.py counters FOLDER [SECONDS] [NAME...]   on the GPU, 120 s: FOLDER/counters.csv.gz: Nsight Compute, each distinct operation of a request once
  measure.py names                             anywhere: what is measured and what is set aside
  measure.py unpack RECORDINGS FOLDER          anywhere: a Kineto file each, NAME.PART.json.gz, as `sim import kineto` reads it
  measure.py split COUNTERS FOLDER             anywhere: NAME.csv.gz each, as `--counters` of `sim import` reads it

Parts: `132` is the whole GPU, `32` a green context of the first 32 SMs, `mpsP` an MPS client with P percent. A request is a CUDA graph, captured
within its part. Alone, graphs are issued behind each other; beside each other both streams hold two graphs at all times. Times are from one
graph's end to the next one's, by the GPU's clock.
"""
import gzip
import importlib.util
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import models

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = os.path.join(HERE, "../networks")
SMS = [16, 32, 48, 64, 84, 96, 116, 132]
SPLITS = [16, 24, 32, 48, 64, 84, 96, 116]  # SMs of the decode; the prefill has the rest
PERCENTAGES = [(25, 75), (50, 50), (75, 25), (100, 100)]  # of the decode, of the prefill
TOGETHER_S, SLOW_MS = 1.25, 30
SECOND_SMS = 32


# ---- one process on the GPU --------------------------------------------------------------------------------------------

def of_networks(name):
    """A module of ../networks; its measure.py has the name of this one."""
    if NETWORKS not in sys.path:
        sys.path.append(NETWORKS)
    spec = importlib.util.spec_from_file_location("networks_" + name, os.path.join(NETWORKS, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_gpu():
    class Parts(of_networks("gpu").Gpu):
        """A kind is "plain", or the SMs [first, last) of a green context."""

        def is_part(self, kind):
            return kind != "plain"

        def of_part(self, kind):
            return self.groups[kind[0] // 2:kind[1] // 2]

        def run(self, name, slot=0):
            if (name, slot) not in self.runs:
                self.runs[name, slot] = models.build(name)
            return self.runs[name, slot]

        def graph(self, name, kind="plain", slot=0):
            self.run(name, slot)  # by this thread: what it reads is the primary context's
            self.torch.cuda.synchronize()
            return super().graph(name, kind, slot)

        def forget(self):
            self.runs.clear(), self.graphs.clear()
            self.torch.cuda.empty_cache()
    return Parts()


def replay_times(gpu, name, kind):
    """ms of each of some replays in a row."""
    torch = gpu.torch
    graph, stream = gpu.graph(name, kind)

    def in_a_row(times):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            events[0].record()
            for event in events[1:]:
                graph.replay()
                event.record()
        torch.cuda.synchronize()
        return [round(a.elapsed_time(b), 5) for a, b in zip(events, events[1:])]
    once = min(in_a_row(3))
    return in_a_row(max(5, min(60, int((2 if once > SLOW_MS else 1) * 80 / once))) + 1)[1:]


def together(gpu, works, seconds, begin):
    """[(name, kind)]: two graphs of each in its stream for a while; ms from end to end of those that ended meanwhile."""
    torch = gpu.torch
    streams = [gpu.graph(name, kind) for name, kind in works]
    ends = [[] for _ in works]
    torch.cuda.synchronize()
    begin = begin or time.perf_counter() + 0.001
    while time.perf_counter() < begin:
        pass
    while time.perf_counter() < begin + seconds:
        for (graph, stream), of in zip(streams, ends):
            if len(of) < 2 or of[-2].query():
                of.append(torch.cuda.Event(enable_timing=True))
                with torch.cuda.stream(stream):
                    graph.replay()
                    of[-1].record()
    torch.cuda.synchronize()
    return [[round(a.elapsed_time(b), 4) for a, b in zip(of, of[1:])][1:-2] for of in ends]  # the last two end after the others stop


def recorded(gpu, name, kind, path):
    """A Kineto recording of one replay; a session may miss kernels, the first of a process all."""
    graph, stream = gpu.graph(name, kind)
    kineto, most = of_networks("measure").kineto, 0

    def replay():
        with gpu.torch.cuda.stream(stream):
            graph.replay()
    for session in range(5):
        seen = kineto(path + ".new", lambda: gpu.within(kind, replay))
        if seen == most and most:
            break
        if seen > most:
            most = seen
            os.replace(path + ".new", path)
    if not most:
        raise RuntimeError("no kernels in five sessions")
    with gzip.open(path, "rt") as file:
        return {"kernels": most, "trace": json.load(file)}


def worker():
    """Orders are lines of JSON on the standard input, each answered by one. PyTorch is imported first and the GPU used from "begin" on."""
    sys.path.append(NETWORKS)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    import torch
    gpu, scratch = None, tempfile.mkdtemp()

    def kind_of(kind):
        return kind if isinstance(kind, str) else tuple(kind)

    def obey(order):
        nonlocal gpu
        match order["do"]:
            case "hello":
                return {"cuda": torch.version.cuda, "pytorch": torch.__version__}
            case "begin":
                gpu = make_gpu()
                return {"sms": gpu.sms, "device": torch.cuda.get_device_name(0)}
            case "alone":
                return {"ms": replay_times(gpu, order["name"], kind_of(order["kind"]))}
            case "prepare":
                gpu.graph(order["name"], kind_of(order["kind"]))
                return {}
            case "together":
                return {"ms": together(gpu, [(n, kind_of(k)) for n, k in order["works"]], order["seconds"], order.get("begin"))}
            case "record":
                return recorded(gpu, order["name"], kind_of(order["kind"]), os.path.join(scratch, "recording.json.gz"))
            case "forget":
                gpu.forget()
                return {}
    for line in sys.stdin:
        if not line.strip():
            break
        try:
            answer = obey(json.loads(line))
            if products := {m: of.products for m, of in models.built.items() if of.products}:
                answer["products"] = products
        except Exception as error:
            answer = {"error": repr(error)[:500]}
            try:
                torch.cuda.synchronize()
            except Exception:  # a context that is lost stays so
                answer["lost"] = True
        print(json.dumps(answer), file=answers, flush=True)
        if "lost" in answer:
            break
    shutil.rmtree(scratch, ignore_errors=True)
    answers.flush()
    os._exit(0)  # green contexts are not taken apart


# ---- the process that orders -------------------------------------------------------------------------------------------

class Failed(Exception):
    pass


class Worker:
    def __init__(self, environment=None):
        self.errors, self.failures = tempfile.TemporaryFile("w+"), 0
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "worker"], env=dict(os.environ, **(environment or {})), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.tell({"do": "hello"})

    def tell(self, order):
        try:
            print(json.dumps(order), file=self.process.stdin, flush=True)
        except OSError:
            pass  # the answer tells

    def hear(self, seconds):
        """The answer to the order before; a worker that says nothing in time is ended."""
        if not select.select([self.process.stdout], [], [], max(0.1, seconds))[0]:
            self.end()
            raise Failed(f"no answer in {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            self.end()
            self.errors.seek(0)
            raise Failed("the worker ended: " + self.errors.read()[-600:])
        answer = json.loads(line)
        if "error" in answer:
            self.failures += 1
            if answer.get("lost") or self.failures > 2:  # a capture that failed may leave more behind
                self.end()
            raise Failed(answer["error"])
        self.failures = 0
        return answer

    def end(self):
        self.process.kill()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass

    def ask(self, order, seconds=45):
        self.tell(order)
        return self.hear(seconds)

    def is_alive(self):
        return self.process.poll() is None

    def close(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.close()
            self.process.wait(10)
        except Exception:
            self.end()


class Rows:
    """A file of lines of JSON; each append is a gzip member, so that what was written stays."""

    def __init__(self, path):
        self.path = path
        open(path, "w").close()

    def add(self, row):
        with gzip.open(self.path, "at", 9) as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def describe():
    asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid,clocks.sm,temperature.gpu,power.draw", "--format=csv,noheader"], capture_output=True, text=True)
    return {"gpu": asked.stdout.strip(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "command": " ".join(["measure.py", *map(os.path.basename, sys.argv[1:])])}


def say(*words):
    print(f"{time.time() - BEGAN:5.0f} s", *words, flush=True)


BEGAN = time.time()


def shown(ms):
    return f"{statistics.median(ms):.3f} ms x {len(ms)}" if ms else "none"


class Campaign:
    def __init__(self, folder, seconds):
        os.makedirs(folder, exist_ok=True)
        self.end, self.respawned = BEGAN + seconds, 0
        self.times, self.recordings = Rows(os.path.join(folder, "times.jsonl.gz")), Rows(os.path.join(folder, "recordings.jsonl.gz"))
        self.of_gpu = {(what, model): Worker() for what in ("132", "32", "times") for model in models.MODELS}
        self.of_mps, self.folders = {}, []
        for pair in PERCENTAGES:
            folder = tempfile.mkdtemp()
            self.folders.append(folder)
            os.mkdir(folder + "/pipe"), os.mkdir(folder + "/log")
            place = {"CUDA_MPS_PIPE_DIRECTORY": folder + "/pipe", "CUDA_MPS_LOG_DIRECTORY": folder + "/log"}
            workers = [Worker(place | ({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(p)} if p < 100 else {})) for p in pair]
            self.of_mps[pair] = dict(os.environ, **place), workers
        everyone = [*self.of_gpu.values(), *(w for _, workers in self.of_mps.values() for w in workers)]
        versions = {}
        for one in everyone:
            try:
                versions = one.hear(90)
            except Failed as failed:
                say("a worker does not start:", failed)
        self.about = {**describe(), **{k: v for k, v in versions.items() if k != "products"}}
        for rows in (self.times, self.recordings):
            rows.add(self.about)
        say("ready", self.about)

    def left(self):
        return self.end - time.time()

    def tried(self, row, work):
        """A row of what `work` gives, or of why not."""
        try:
            row |= work()
        except Failed as failed:
            row["failed"] = str(failed)
        say(*(f"{v}" for k, v in row.items() if k in ("what", "name", "names", "part", "sms", "decode_sms", "percentages", "failed", "kernels")),
            *(shown(ms) for ms in (row.get("ms", []) if row["what"] == "together" else [row["ms"]] if "ms" in row else [])))
        return row

    def begin(self, one, wait=30):
        try:
            return one.ask({"do": "begin"}, wait)
        except Failed as failed:
            say("does not begin:", failed)
            return None

    def recorded(self, one, name, part, kind, sms):
        if not one.is_alive() or self.left() < 3:
            return
        row = self.tried({"what": "recording", "name": name, "part": part, "sms": sms}, lambda: one.ask({"do": "record", "name": name, "kind": kind}, min(40, self.left())))
        self.recordings.add(row)

    def record(self, model, until):
        """On the whole GPU, and in a process of its own on a part: a process that used another context before may record nothing."""
        parts = [("132", "plain", 132), (str(SECOND_SMS), (0, SECOND_SMS), SECOND_SMS)]
        begun = [part for part in parts if self.begin(self.of_gpu[part[0], model])]
        for name in models.NAMES[model]:
            for part, kind, sms in begun:
                if time.time() < until:
                    one = self.of_gpu[part, model]
                    self.recorded(one, name, part, kind, sms)
                    if one.is_alive():
                        self.forget(one)
        for part, *_ in parts:
            self.of_gpu[part, model].close()

    def forget(self, one):
        try:
            one.ask({"do": "forget"}, 20)
        except Failed as failed:
            say("does not forget:", failed)

    def alone(self, model, until):
        self.begin(self.of_gpu["times", model])
        for name in models.NAMES[model]:
            for sms in SMS:
                if time.time() < until:
                    one = self.again(model)
                    kind = "plain" if sms == 132 else (0, sms)
                    self.times.add(self.tried({"what": "alone", "name": name, "sms": sms}, lambda: one.ask({"do": "alone", "name": name, "kind": kind}, 40)))
            if self.of_gpu["times", model].is_alive():
                self.forget(self.of_gpu["times", model])

    def again(self, model):
        """The worker of times of a model, another one where it ended."""
        one = self.of_gpu["times", model]
        if not one.is_alive() and self.respawned < 6:
            self.respawned += 1
            one = self.of_gpu["times", model] = Worker()
            try:
                one.hear(40), one.ask({"do": "begin"}, 30)
            except Failed as failed:
                say("does not begin again:", failed)
        return one

    def beside(self, pair, until):
        one = self.again(pair[0].split("-")[0])
        for sms in SPLITS:
            if not one.is_alive() or time.time() > until:
                break
            works = list(zip(pair, ((0, sms), (sms, 132))))

            def work():
                for name, kind in works:
                    one.ask({"do": "prepare", "name": name, "kind": kind})
                one.ask({"do": "together", "works": works, "seconds": 0.1}, 20)
                return one.ask({"do": "together", "works": works, "seconds": TOGETHER_S}, 30)
            self.times.add(self.tried({"what": "together", "names": pair, "decode_sms": sms, "prefill_sms": 132 - sms}, work))
        if one.is_alive():
            self.forget(one)

    def mps(self, percentages, until):
        environment, workers = self.of_mps[percentages]
        try:
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True, timeout=20)
            begun = [self.begin(one) for one in workers]  # one after the other: MPS gives out SMs in the order of the contexts
            if not all(begun):
                return
            sms = [b["sms"] for b in begun]
            say("percentages", percentages, "SMs", sms)
            of_process = [[], []]
            for pair in models.PAIRS:
                if time.time() > until or not all(one.is_alive() for one in workers):
                    break

                def both(seconds):
                    begin = time.perf_counter() + 0.03
                    for one, name in zip(workers, pair):
                        one.tell({"do": "together", "works": [(name, "plain")], "seconds": seconds, "begin": begin})
                    heard, failed = [], []
                    for one in workers:  # each answer is taken, also after a failure
                        try:
                            heard.append(one.hear(30))
                        except Failed as why:
                            failed.append(str(why))
                    if failed:
                        raise Failed("; ".join(failed))
                    return heard[0] | {"ms": [h["ms"][0] for h in heard]}

                def work():
                    for one, name in zip(workers, pair):
                        one.ask({"do": "prepare", "name": name, "kind": "plain"})
                    both(0.1)
                    return both(TOGETHER_S)
                for i, (one, name) in enumerate(zip(workers, pair)):
                    if name not in of_process[i] and one.is_alive():
                        of_process[i].append(name)
                        self.times.add(self.tried({"what": "alone", "name": name, "part": f"mps{percentages[i]}", "sms": sms[i]},
                                                  lambda: one.ask({"do": "alone", "name": name, "kind": "plain"}, 40)))
                if all(one.is_alive() for one in workers):
                    self.times.add(self.tried({"what": "together", "names": pair, "part": "mps", "percentages": percentages, "sms": sms}, work))
                for one in workers:
                    if one.is_alive():
                        self.forget(one)
            for one, names, percent, seen in zip(workers, of_process, percentages, sms):  # at the end: the profiler stays in the process
                for name in names:
                    self.recorded(one, name, f"mps{percent}", "plain", seen)
                    if one.is_alive():
                        self.forget(one)
        except (OSError, subprocess.SubprocessError) as error:
            say("mps", percentages, "fails:", repr(error)[:300])
        finally:
            for one in workers:
                one.close()
            try:
                subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=environment, timeout=30)
            except (OSError, subprocess.SubprocessError) as error:
                say("mps does not quit:", repr(error)[:200])

    def close(self):
        for one in [*self.of_gpu.values(), *(w for _, workers in self.of_mps.values() for w in workers)]:
            if one.is_alive():
                one.close()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def measure_all(folder, seconds):
    campaign = Campaign(folder, seconds)
    begin, length = time.time(), campaign.left()

    def at(share):
        return begin + share * length
    try:
        for i, model in enumerate(models.MODELS):
            campaign.alone(model, at(0.24 * (i + 1) / 3))
        for i, pair in enumerate(models.PAIRS):
            campaign.beside(pair, at(0.24 + 0.28 * (i + 1) / len(models.PAIRS)))
        for model in models.MODELS:
            campaign.of_gpu["times", model].close()
        for i, model in enumerate(models.MODELS):
            campaign.record(model, at(0.52 + 0.20 * (i + 1) / 3))
        for i, percentages in enumerate(PERCENTAGES):
            campaign.mps(percentages, time.time() + 0.7 * campaign.left() / (len(PERCENTAGES) - i))
    finally:
        campaign.close()
        say("done")


# ---- counters ----------------------------------------------------------------------------------------------------------

COUNTED = ["wide-decode-b8-c4096", "wide-prefill-2048", "experts-decode-b1-c2048", "experts-prefill-2048", "small-decode-b8-c1024", "small-prefill-4096"]


def counted_names(names):
    """Of each pair's first, then the rest."""
    return names or COUNTED + [n for of in models.NAMES.values() for n in of if n not in COUNTED]


def profiled(seconds, names):
    """What `counters` runs under ncu. What an operation's kernels are follows from it and its arguments' shapes, so each is seen once a request; a
    kernel of torch.cuda._sleep ends each request's."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    cudart = torch.cuda.cudart()

    class Each(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = set()

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            def key(x):
                if isinstance(x, torch.Tensor):
                    return str(x.dtype), tuple(x.shape), tuple(x.stride()), x.is_cuda
                return tuple(map(key, x)) if isinstance(x, (list, tuple)) else str(x)
            what = str(function), key(args), key(list((kwargs or {}).values()))
            if what in self.seen:
                return function(*args, **(kwargs or {}))
            self.seen.add(what)
            cudart.cudaProfilerStart()
            try:
                return function(*args, **(kwargs or {}))
            finally:
                cudart.cudaProfilerStop()
    for name in names:
        if time.time() - BEGAN > seconds:
            say("NOT COUNTED:", name)
            continue
        try:
            run = models.build(name)
            for _ in range(2):
                run()
            torch.cuda.synchronize()
            with Each() as each:
                run()
            torch.cuda.synchronize()
            say("counted", name, len(each.seen), "operations")
            del run, each
        except Exception as error:
            say("counted", name, "FAILS:", repr(error)[:300])
        finally:
            cudart.cudaProfilerStart()
            torch.cuda._sleep(1000)
            torch.cuda.synchronize()
            cudart.cudaProfilerStop()
        for other in list(models.built):
            if not any(n.startswith(other) for n in names[names.index(name) + 1:]):
                del models.built[other]
        torch.cuda.empty_cache()


def counters(folder, seconds, names):
    os.makedirs(folder, exist_ok=True)
    sys.path.append(NETWORKS)
    metrics, names = of_networks("ncu").METRICS, counted_names(names)
    with tempfile.TemporaryDirectory() as scratch:
        table = os.path.join(scratch, "ncu.csv")
        command = ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--print-units", "base", "--log-file", table,
                   "--metrics", ",".join(metrics), sys.executable, os.path.abspath(__file__), "profiled", str(seconds), *names]
        about = describe() | {"names": names}
        try:
            say("ncu exits with", subprocess.run(command, timeout=seconds + 60).returncode)
        except subprocess.TimeoutExpired:
            say("ncu takes too long")
        with gzip.open(os.path.join(folder, "counters.csv.gz"), "wt", 9) as out:
            out.write("# " + json.dumps(about) + "\n")
            if os.path.exists(table):
                with open(table) as file:
                    out.writelines(line for line in file if line.startswith('"'))


# ---- anywhere ----------------------------------------------------------------------------------------------------------

def names():
    for of in models.NAMES.values():
        for name in of:
            print(f"{name:28}", "set aside" if models.is_set_aside(name) else "")
    for pair in models.PAIRS:
        print(f"{pair[0] + ' + ' + pair[1]:52}", "set aside" if models.pair_is_set_aside(pair) else "")


def unpack(path, folder):
    os.makedirs(folder, exist_ok=True)
    with gzip.open(path, "rt") as file:
        for line in file:
            row = json.loads(line)
            if "trace" in row:
                with open(os.path.join(folder, f"{row['name']}.{row['part']}.json.gz"), "wb") as out:
                    out.write(gzip.compress(json.dumps(row["trace"], separators=(",", ":")).encode(), 9, mtime=0))
            elif "failed" in row:
                print(row["name"], row["part"], "failed:", row["failed"])


def split(path, folder):
    ncu = of_networks("ncu")
    with gzip.open(path, "rt") as file:
        about = json.loads(file.readline()[2:])
    ncu.split(path, folder, about["names"])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["all", folder]: measure_all(folder, 360)
        case ["all", folder, seconds]: measure_all(folder, float(seconds))
        case ["counters", folder]: counters(folder, 120, [])
        case ["counters", folder, seconds, *rest]: counters(folder, float(seconds), rest)
        case ["profiled", seconds, *rest]: profiled(float(seconds), rest)
        case ["worker"]: worker()
        case ["names"]: names()
        case ["unpack", path, folder]: unpack(path, folder)
        case ["split", path, folder]: split(path, folder)
        case _: sys.exit(__doc__)
