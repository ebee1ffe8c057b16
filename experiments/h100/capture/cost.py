#!/usr/bin/env python3
"""What CUPTI costs a launch, part by part, in one process that attaches it and takes it out again; and whether graphs outlive that.

  cost.py states OUT.json SECONDS [FOLDER_OF_PROGRAMS]   on the GPU: eager launches in each state, in turns
  cost.py updated OUT.json SECONDS                       on the GPU: a graph of 24 kernels whose parameters are set before each launch, as XLA does
  cost.py letters SEQUENCE                               on the GPU: a chain of 200 empty kernels as a graph
  cost.py torch SEQUENCE [FOLDER_OF_PROGRAMS]            the same with a network's graph (PyTorch)
  cost.py OUT.json                                       anywhere: the table (also of OUT.json.gz)

A sequence: A subscribe, C and c hear calls and no longer, Y and y records of allocations, K and k records of kernels, G records of kernels end where a graph is about to be launched, U unsubscribe, F flush and cuptiFinalize,
M make the graph, L launch it, E single launches.
"""
import ctypes
import glob
import gzip
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def library():
    lib = ctypes.CDLL(os.path.join(HERE, "cost.so"))
    for name in ("cost_loop", "cost_launch_graph", "cost_clock", "cost_offset"):
        getattr(lib, name).restype = ctypes.c_double
    paths = glob.glob("/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcupti.so.13") + glob.glob("/usr/lib/python3*/*-packages/nvidia/*/lib/libcupti.so.13") \
        + glob.glob("/opt/*/lib/python3*/site-packages/nvidia/*/lib/libcupti.so.13") + glob.glob("/usr/local/cuda*/**/libcupti.so.13", recursive=True) + ["libcupti.so.13"]
    e = lib.cost_load(os.environ.get("CORUN_CUPTI", paths[0]).encode())
    assert e == 0, (e, paths)
    return lib


def letters(sequence, lib, make, launch, single):
    """What each letter said."""
    said, callbacks = [], 0
    for letter in sequence:
        began = time.perf_counter()
        result = {"A": lambda: lib.cost_subscribe(), "C": lambda: lib.cost_callbacks(2, 1), "c": lambda: lib.cost_callbacks(0, 1), "Y": lambda: lib.cost_memory(1),
                  "y": lambda: lib.cost_memory(0), "K": lambda: lib.cost_register() + lib.cost_records(1), "k": lambda: lib.cost_records(0),
                  "U": lambda: lib.cost_unsubscribe(), "G": lambda: lib.cost_callbacks(4, 1), "F": lambda: (lib.cost_flush(), lib.cost_finalize()), "M": make, "L": launch, "E": single,
                  "f": lambda: lib.cost_flush()}[letter]()
        ms = 1e3 * (time.perf_counter() - began)
        said.append(f"{letter}:{result:.2f}" if letter in "LE" else f"{letter}:{result}({ms:.1f}ms)" if letter in "AKkFUM" else letter)
        print("  " + said[-1], end="", flush=True)
        if letter in "LEM" and result is not None and result < 0:
            print("  FAILED", flush=True)
            return False
    print("  recorded", lib.cost_recorded(), flush=True)
    return True


def plain(sequence):
    lib = library()
    assert lib.cost_context() == 0 and lib.cost_kernel() == 0
    print(sequence, end="")
    return letters(sequence, lib, lambda: lib.cost_graph(200), lambda: lib.cost_launch_graph(50), lambda: lib.cost_loop(2000))


def programs(folder):
    import torch
    sys.path.insert(0, folder)
    import programs
    made = {}
    for name in ("torch_eager", "torch_decode"):
        programs.serve = lambda request, wait: made.__setitem__(name, (request, wait))
        getattr(programs, name)()
    return torch, programs, made


def times(request, wait, n):
    """us of each."""
    clock, all = time.perf_counter_ns, []
    for _ in range(n):
        begin = clock()
        request()
        wait()
        all.append((clock() - begin) / 1e3)
    return all


def of_torch(sequence, folder):
    torch, programs_of, made = programs(folder)
    torch.inference_mode().__enter__()
    for one in made.values():
        times(*one, 20)
    graphs = []
    programs_of.serve = lambda request, wait: graphs.append((request, wait))
    lib = library()
    print(sequence, end="")
    try:
        return letters(sequence, lib, lambda: programs_of.torch_graph(), lambda: statistics.median(times(*graphs[-1], 100)), lambda: statistics.median(times(*made["torch_decode"], 50)))
    except Exception as error:
        print("  FAILED", str(error)[:90].replace("\n", " "), flush=True)
        os._exit(1)


STATES = ["none", "subscribed", "allocations", "callbacks", "callbacks, CUPTI's clock", "callbacks, the host's clock", "and the runtime's launches", "callbacks, allocations, flushes",
          "records, callbacks", "records", "off again, callbacks", "off again", "unsubscribed"]


def states(path, seconds, folder):
    torch, _, made = programs(folder)
    torch.inference_mode().__enter__()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    small = torch.zeros(256, device="cuda")

    def adds():
        for _ in range(100):
            small.add_(1)
    for one in made.values():
        times(*one, 20)
    lib = library()
    assert lib.cost_kernel() == 0
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    data = {"gpu": gpu, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "clock_ns": [lib.cost_clock(0), lib.cost_clock(1), lib.cost_offset()], "states": {s: [] for s in STATES}, "finalize_ms": [], "attach_ms": []}
    enter = {"none": lambda: None, "subscribed": lib.cost_subscribe, "allocations": lambda: lib.cost_memory(1),
             "callbacks": lambda: (lib.cost_memory(0), lib.cost_callbacks(1, 1)), "callbacks, CUPTI's clock": lambda: lib.cost_callbacks(2, 1),
             "callbacks, the host's clock": lambda: lib.cost_callbacks(3, 1), "and the runtime's launches": lambda: lib.cost_callbacks(3, 2),
             "callbacks, allocations, flushes": lambda: (lib.cost_callbacks(0, 2), lib.cost_callbacks(2, 1), lib.cost_register(), lib.cost_memory(1), lib.cost_flush_period(200)),
             "records, callbacks": lambda: (lib.cost_memory(0), lib.cost_records(1)), "records": lambda: lib.cost_callbacks(0, 2),
             "off again, callbacks": lambda: (lib.cost_records(0), lib.cost_flush(), lib.cost_callbacks(2, 1)), "off again": lambda: lib.cost_callbacks(0, 2),
             "unsubscribed": lib.cost_unsubscribe}
    until = time.time() + seconds
    while time.time() < until:
        for state in STATES:
            began = time.perf_counter()
            enter[state]()
            if state == "subscribed":
                data["attach_ms"].append(1e3 * (time.perf_counter() - began))
            times(*made["torch_decode"], 2)
            data["states"][state].append({"loop": lib.cost_loop(4000) / 1e3, "small": statistics.median(times(adds, torch.cuda.synchronize, 20)) / 100,
                                          "eager": statistics.median(times(*made["torch_eager"], 8)), "decode": statistics.median(times(*made["torch_decode"], 24))})
        began = time.perf_counter()
        lib.cost_flush()
        lib.cost_finalize()
        data["finalize_ms"].append(1e3 * (time.perf_counter() - began))
        with open(path, "w") as file:
            json.dump(data, file)
    tell(path)


UPDATED = ["a node's parameters", "event record", "stream wait", "graph launch", "host function", "all of them", "with the wait"]


def updated(path, seconds):
    """In turns: without CUPTI, attached and heard, kernels recorded, recorded no longer but heard; then CUPTI leaves.  A graph lives for one state alone."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    lib = library()
    assert lib.cost_context() == 0 and lib.cost_kernel() == 0
    us, until = (ctypes.c_double * 7)(), time.time() + seconds
    states = {"none": lambda: None, "attached": lambda: lib.cost_subscribe(), "heard": lambda: (lib.cost_register(), lib.cost_callbacks(2, 1)), "recorded": lambda: lib.cost_records(1), "heard again": lambda: (lib.cost_records(0), lib.cost_flush())}
    cases = {f"{nodes} nodes, parameters {('as before', 'changed')[changes]}, caches {('warm', 'cold')[cold]}": (nodes, changes, cold)
             for nodes, changes, cold in ((24, 0, 0), (24, 1, 0), (24, 1, 1), (1, 0, 0), (200, 0, 0), (1, 0, 1), (24, 0, 1), (200, 0, 1))}
    data = {case: {state: [] for state in states} for case in cases}
    while time.time() < until:
        for state, enter in states.items():
            enter()
            for case, (nodes, changes, cold) in cases.items():
                assert lib.cost_updated_graph(nodes, 5, changes, cold, us) == 0 and (e := lib.cost_updated_graph(nodes, 40, changes, cold, us)) == 0, e
                data[case][state].append([round(one, 2) for one in us])
        lib.cost_flush()
        lib.cost_finalize()
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    data = {"gpu": gpu, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "calls": UPDATED, "states": data}
    with open(path, "w") as file:
        json.dump(data, file)
    tell_updated(data)


def tell_updated(data):
    print(data["gpu"], data["date"], "us, and in brackets what is added to the same round without CUPTI (median; quartiles)")
    for what, rounds in data["states"].items():
        print(f"{what}, {len(rounds['none'])} rounds")
        for state, of in rounds.items():
            added = [statistics.quantiles([one[k] - base[k] for one, base in zip(of, rounds["none"])], n=4) for k in range(len(UPDATED))]
            print(f"  {state:12} " + "; ".join(f"{name} {statistics.median(one[k] for one in of):.2f} ({added[k][1]:+.2f}; {added[k][0]:+.2f} to {added[k][2]:+.2f})" for k, name in enumerate(UPDATED)))


LAUNCHES = {"loop": 1, "small": 1, "eager": 232, "decode": 80}  # of a request


def tell(path):
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as file:
        data = json.load(file)
    if "calls" in data:
        return tell_updated(data)
    rounds = len(data["states"]["unsubscribed"])
    print(data["gpu"], data["date"], f"{rounds} rounds; a clock's reading {data['clock_ns'][0]:.0f} ns (CUPTI's), {data['clock_ns'][1]:.0f} ns (the host's); "
          f"attach {statistics.median(data['attach_ms']):.1f} ms, leave {statistics.median(data['finalize_ms']):.1f} ms (most {max(data['finalize_ms']):.1f})")
    print(f"{'us (of a launch, of a request)':34}" + "".join(f"{what:>10}{'added a launch, quartiles':>33}" for what in LAUNCHES))
    for state, of in data["states"].items():
        line = f"{state:34}"
        for what, launches in LAUNCHES.items():
            added = sorted((a[what] - b[what]) / launches for a, b in zip(of, data["states"]["none"]))
            n = len(added)
            line += f"{statistics.median(a[what] for a in of):10.2f}" + (f"{added[n // 4]:+11.2f}{added[n // 2]:+11.2f}{added[3 * n // 4]:+11.2f}" if added else "")
        print(line)


if __name__ == "__main__":
    here = os.path.join(HERE, "../../h200/capture")
    if sys.argv[1] == "states":
        states(sys.argv[2], float(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else here)
    elif sys.argv[1] == "updated":
        updated(sys.argv[2], float(sys.argv[3]))
    elif sys.argv[1] == "letters":
        sys.exit(0 if plain(sys.argv[2]) else 1)
    elif sys.argv[1] == "torch":
        sys.exit(0 if of_torch(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else here) else 1)
    else:
        tell(sys.argv[1])
