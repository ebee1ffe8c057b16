#!/usr/bin/env python3
"""What each of CUPTI's kinds of record costs a program: milliseconds of a request with it, and without in the same round.

  overhead.py OUT.json FOLDER   on the GPU; FOLDER: for the library
"""
import ctypes
import glob
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torchvision

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS, REQUESTS = 5, 40
# CUpti_ActivityKind
MEMCPY, MEMSET, KERNEL, DRIVER, RUNTIME, EVENT, SYNC, CONCURRENT, MEMORY2 = 1, 2, 3, 4, 5, 36, 38, 10, 49
WANTED = ["Launch", "GraphLaunch", "Memcpy", "Memset", "EventRecord", "StreamWaitEvent", "StreamSynchronize", "DeviceSynchronize",
          "CtxSynchronize", "EventSynchronize"]
SETS = {  # in this order, as some slow the process from then on
    "nothing": [],
    "kernels": [CONCURRENT],
    "kernels, their calls' times": [CONCURRENT, "latency"],
    "kernels, waits": [CONCURRENT, "latency", SYNC],
    "kernels, waits, copies": [CONCURRENT, "latency", SYNC, MEMCPY, MEMSET],
    "kernels, waits, copies, events": [CONCURRENT, "latency", SYNC, MEMCPY, MEMSET, EVENT],
    "kernels, waits, copies, events, memory": [CONCURRENT, "latency", SYNC, MEMCPY, MEMSET, EVENT, MEMORY2],
    "callbacks at the driver's launches": ["callbacks 1"],
    "calls of the driver": [DRIVER],
    "callbacks at the runtime's launches": ["callbacks 2"],
    "wanted calls of the runtime": [RUNTIME, "only"],
    "calls of the runtime": [RUNTIME],
    "all": [CONCURRENT, DRIVER, RUNTIME, MEMCPY, MEMSET, SYNC, EVENT, MEMORY2],
}


def switch(probe, kinds, on):
    codes = []
    for kind in kinds:
        if kind == "only":
            if on:
                codes.append(sum(probe.probe_only(d, "".join(p + w + "\n" for w in WANTED).encode()) for d, p in ((2, "cuda"),)))
        elif kind == "latency":
            codes.append(probe.probe_latency(on))
        elif str(kind).startswith("callbacks"):
            domain = int(kind[-1])
            codes.append(sum(probe.probe_callbacks(domain, (("cu", "cuda")[domain - 1] + w).encode(), on) for w in WANTED[:2]))
        else:
            codes.append(probe.probe_kind(kind, on))
    return codes


def programs():
    net, x = torchvision.models.resnet50().eval().cuda(), torch.randn(8, 3, 224, 224, device="cuda")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.inference_mode():
        with torch.cuda.stream(stream):
            for _ in range(4):
                net(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            net(x)
    small = torch.randn(256, device="cuda")

    def elementwise():
        y = small
        for _ in range(200):
            y = torch.add(y, 1.0)
    return {"resnet50 eager": lambda: net(x), "resnet50 graph": graph.replay, "200 small kernels": elementwise}


def milliseconds(request):
    took = []
    for _ in range(REQUESTS):
        begin = time.perf_counter()
        request()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begin)
    return round(statistics.median(took) * 1e3, 5)


def main(path, folder):
    os.makedirs(folder, exist_ok=True)
    built = os.path.join(folder, "overhead.so")
    subprocess.run(["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-I/usr/local/cuda/include", "-o", built,
                    os.path.join(HERE, "overhead.cpp"), "-ldl"], check=True)
    probe = ctypes.CDLL(built)
    probe.probe_records.restype = ctypes.c_uint64
    probe.probe_kept.restype = ctypes.c_uint64
    probe.probe_attribute.argtypes = [ctypes.c_int, ctypes.c_uint64]
    cupti = sorted(glob.glob(os.path.join(os.path.dirname(torch.__file__), "..", "nvidia", "*", "lib", "libcupti.so*")))
    data = {"gpu": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "cupti": os.path.basename(cupti[0]), "opened": probe.probe_open(cupti[0].encode()), "rows": []}
    served = programs()
    with torch.inference_mode():
        for request in served.values():
            milliseconds(request)
        probe.probe_flush(200)
        for kinds in SETS:
            for name, request in served.items():
                without, with_, records, codes = [], [], 0, None
                for _ in range(ROUNDS):
                    without.append(milliseconds(request))
                    codes = switch(probe, SETS[kinds], 1)
                    request()  # what comes first after a switch does not count
                    torch.cuda.synchronize()
                    probe.probe_records()
                    with_.append(milliseconds(request))
                    probe.probe_drain()
                    records = probe.probe_records()
                    switch(probe, SETS[kinds], 0)
                row = {"program": name, "records": kinds, "without_ms": without, "with_ms": with_,
                       "records_a_request": round(records / REQUESTS, 1), "codes": codes}
                data["rows"].append(row)
                ratio = statistics.median(w / o for w, o in zip(with_, without))
                print(f"{name:18} {kinds:40} {statistics.median(without):8.4f} {statistics.median(with_):8.4f} ms x{ratio:.3f} "
                      f"{row['records_a_request']} {codes}", flush=True)
            if kinds.startswith("kernels, waits, copies"):
                data["sample"] = sample(probe, served, SETS[kinds])
            with open(path, "w") as file:
                json.dump(data, file)


def sample(probe, served, kinds):
    """Records of two requests of each program beside the host's clock: [kind, correlation, four times]."""
    found = {}
    for name, request in served.items():
        switch(probe, kinds, 1)
        request()
        torch.cuda.synchronize()
        probe.probe_drain(), probe.probe_keep()
        host = []
        for _ in range(2):
            host.append(time.time_ns())
            request()
            host.append(time.time_ns())
            torch.cuda.synchronize()
            host.append(time.time_ns())
        torch.ones(8).cuda(), torch.cuda.current_stream().synchronize(), torch.ones(8, device="cuda").cpu()
        probe.probe_drain()
        rows = (ctypes.c_uint64 * (6 * 4096))()
        n = probe.probe_kept(rows)
        switch(probe, kinds, 0)
        found[name] = {"host": host, "rows": [list(rows[6 * i:6 * i + 6]) for i in range(n)]}
    return found


main(*sys.argv[1:3])
