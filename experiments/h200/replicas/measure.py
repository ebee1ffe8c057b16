#!/usr/bin/env python3
"""Measures replicas of a server whose host takes most of a request, on an NVIDIA GPU with PyTorch.

  measure.py record OUT    one replica alone, into the folder OUT: SERVER.json.gz (Kineto, with what a request takes without the profiler), alone.json; 40 s
  measure.py measure OUT   the cases, into OUT/measured.json; 140 s
  measure.py replica       a process of one replica: orders on its input, results on its output
"""
import gc
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BEGAN = time.perf_counter()
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ["TEARDOWN_CUPTI"] = "1"   # the profiler's end leaves nothing behind
os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, os.path.join(HERE, "../networks"))
sys.path.insert(0, HERE)
from cases import CORES, REPLICAS, SERVERS, cases  # noqa: E402
from gpu import Process  # noqa: E402

ROUNDS, RECORDED = 8, 6            # of the recording: rounds without the profiler and with it, requests of each with it
SECONDS, WARM_S, REPEATS = 0.9, 0.25, 2
LAST_S = 138                       # no case begins later


def quantile(ascending, percent):
    return ascending[-(-percent * len(ascending) // 100) - 1]


def summary(times_us):
    ascending = sorted(times_us)
    return {"requests": len(ascending), "mean_us": round(statistics.mean(ascending), 1)} | {
        f"p{p}_us": round(quantile(ascending, p), 1) for p in (50, 90, 99)}


def serve(torch, run, until):
    """Each request's time in us, from its call to the end of its wait."""
    times, clock = [], time.perf_counter
    while (began := clock()) < until:
        run()
        torch.cuda.synchronize()
        times.append(1e6 * (clock() - began))
    return times


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError as error:
        return repr(error)[:80]


def about():
    import torch
    ask = "--query-gpu=name,driver_version,uuid,clocks.sm,temperature.gpu,power.draw"
    out = lambda command: subprocess.run(command, shell=True, capture_output=True, text=True).stdout.strip()  # noqa: E731
    out("mount -t debugfs none /sys/kernel/debug")
    return {"gpu": out(f"nvidia-smi {ask} --format=csv,noheader"), "cuda": torch.version.cuda, "pytorch": torch.__version__,
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "command": " ".join(["measure.py", *sys.argv[1:2]]),
            "kernel": out("uname -rv"), "cores": sorted(os.sched_getaffinity(0)), "cpu": out("grep -m1 'model name' /proc/cpuinfo"),
            "tick": out("zcat /proc/config.gz | grep ^CONFIG_HZ="), "base_slice_ns": read("/sys/kernel/debug/sched/base_slice_ns"),
            "scheduler": out("zcat /proc/config.gz | grep -E '^CONFIG_(PREEMPT|NO_HZ|SCHED)'").split(),
            "features": read("/sys/kernel/debug/sched/features")}


# ---- one replica alone

def record(folder):
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    from gpu import Gpu
    of_networks = importlib.util.spec_from_file_location("networks_measure", os.path.join(HERE, "../networks/measure.py"))
    networks_measure = importlib.util.module_from_spec(of_networks)
    of_networks.loader.exec_module(networks_measure)
    os.makedirs(folder, exist_ok=True)
    gpu, data = Gpu(), about() | {"servers": {}}
    for name in SERVERS:
        run, told = gpu.run(name), []
        gc.collect()
        gc.disable()
        serve(torch, run, time.perf_counter() + 0.5)
        for turn in range(ROUNDS):
            run()  # what the profiler's end has left behind does not count
            torch.cuda.synchronize()
            told += serve(torch, run, time.perf_counter() + 0.4)
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True,
                         schedule=schedule(wait=0, warmup=2, active=RECORDED, repeat=1)) as p:
                if turn + 1 == ROUNDS:
                    p.add_metadata_json(networks_measure.REQUEST_TIME, f"{statistics.mean(told):.1f}")
                for _ in range(2 + RECORDED):
                    run()
                    torch.cuda.synchronize()
                    p.step()
        kernels = networks_measure.export(p, f"{folder}/{name}.json.gz")
        graph, stream = gpu.graph(name)
        begins, ends = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            begins.record()
            for _ in range(50):
                graph.replay()
            ends.record()
        torch.cuda.synchronize()
        data["servers"][name] = summary(told) | {"kernels": kernels, "graph_us": round(begins.elapsed_time(ends) * 1e3 / 50, 1)}
        print(f"{time.perf_counter() - BEGAN:.0f} s", name, data["servers"][name], flush=True)
        gc.enable()
        gpu.runs.clear(), gpu.graphs.clear()
    with open(f"{folder}/alone.json", "w") as file:
        json.dump(data, file, indent=1)


# ---- a process of one replica

def pin(cpus):
    for task in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(task), cpus)
        except OSError:  # it has ended
            pass


def replica():
    import torch

    from gpu import Gpu
    gpu = Gpu()
    runs = {name: gpu.run(name) for name in SERVERS}
    for run in runs.values():
        serve(torch, run, time.perf_counter() + 0.3)
    gc.collect()
    gc.disable()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pin(order["cpus"])
        serve(torch, runs[order["server"]], order["begin"])
        used, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        times = serve(torch, runs[order["server"]], order["begin"] + SECONDS)
        took, since = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
        pin(order["all"])
        print(json.dumps({"times": [round(t, 1) for t in times], "seconds": took, "switched": since.ru_nivcsw - used.ru_nivcsw, "slept": since.ru_nvcsw - used.ru_nvcsw,
                          "cpu": round((since.ru_utime + since.ru_stime - used.ru_utime - used.ru_stime) / took, 3)}), flush=True)


def measure(folder):
    os.makedirs(folder, exist_ok=True)
    at = tempfile.mkdtemp()
    mps = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=f"{at}/pipe", CUDA_MPS_LOG_DIRECTORY=f"{at}/log")
    os.mkdir(f"{at}/pipe"), os.mkdir(f"{at}/log")
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=mps, check=True)
    of = {mode: [Process([__file__, "replica"], environment) for _ in range(REPLICAS)] for mode, environment in (("mps", mps), ("timeslice", dict(os.environ)))}
    data = about() | {"seconds": SECONDS, "runs": []}
    for made in of.values():
        for process in made:
            process.hear()
    print(f"{time.perf_counter() - BEGAN:.0f} s, all ready", {k: v for k, v in data.items() if k != "runs"}, flush=True)
    everything = data["cores"]
    spare = everything[2:] if len(everything) > 4 else everything  # the first cores take most interrupts
    for repeat in range(REPEATS):
        for server, mode, cores, n in cases()[::-1 if repeat % 2 else 1]:
            if time.perf_counter() - BEGAN > LAST_S:
                print("LEFT OUT:", server, mode, cores, n, flush=True)
                continue
            count = CORES[cores][0]
            order = {"server": server, "cpus": spare[:count] if count else everything, "all": everything, "begin": time.perf_counter() + WARM_S}
            for process in of[mode][:n]:
                process.tell(order)
            answers = [process.hear() for process in of[mode][:n]]
            per_s = [round(len(a["times"]) / a["seconds"], 2) for a in answers]
            row = {"server": server, "mode": mode, "cores": cores, "replicas": n, "repeat": repeat, "per_s": round(sum(per_s), 2), "each_per_s": per_s,
                   **summary([t for a in answers for t in a["times"]]), **{key: [a[key] for a in answers] for key in ("cpu", "switched", "slept")}}
            data["runs"].append(row)
            print(f"{time.perf_counter() - BEGAN:.0f} s", row, flush=True)
            with open(f"{folder}/measured.json", "w") as file:
                json.dump(data, file)
    for made in of.values():
        for process in made:
            process.close()
    subprocess.run("echo quit | nvidia-cuda-mps-control", shell=True, env=mps, timeout=30)


if __name__ == "__main__":
    if sys.argv[1] == "replica":
        replica()
    else:
        {"record": record, "measure": measure}[sys.argv[1]](sys.argv[2])
