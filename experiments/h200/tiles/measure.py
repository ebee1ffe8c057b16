#!/usr/bin/env python3
"""Products of matrices whose kernel has a block on each SM, on parts of the GPU: how long, and at which clock meanwhile.

  measure.py parts OUT.json        on the GPU, 50 s: parts are green contexts of pairs of SMs, which the library that chooses the kernel sees
  measure.py steered SIM OUT.json  on the GPU, 110 s: under `sim serve --policy=tpc-mask`: the library chooses for the whole GPU

A burst of launches, which takes 2 ms, is timed by events and begins at the highest clock, after a pause.  Beside it one warp on two SMs
more, if there are such, compares the SM's clock with the time (parts).
"""
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from cuda.bindings import driver, nvrtc

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "../live"), os.path.join(HERE, "../networks")]
import sets  # noqa: E402
from gpu import call  # noqa: E402

PARTS = (8, 16, 24, 32, 36, 40, 44, 48, 56, 64, 66, 72, 80, 88, 96, 104, 112, 120, 128, 130, 132)
SHAPES = {"qkv": (4096, 6144, 2048), "out": (4096, 2048, 2048), "up": (4096, 8192, 2048), "down": (4096, 2048, 8192)}
TPCS = (4, 8, 12, 16, 18, 20, 22, 24, 28, 32, 34, 40, 44, 52, 60, 64)
BURST_MS, PAUSE_S, REPEATS = 2, 0.04, 5
CLOCK = r"""extern "C" __global__ void clocks(long long ns, long long* seen) {
  if (threadIdx.x != 0) return;
  long long began, now, first = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - began < ns);
  seen[0] = clock64() - first; seen[1] = now - began;
}"""


def clock_kernel():
    program = call(nvrtc.nvrtcCreateProgram, CLOCK.encode(), b"clock.cu", 0, [], [])
    call(nvrtc.nvrtcCompileProgram, program, 1, [b"--gpu-architecture=sm_90"])
    cubin = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
    call(nvrtc.nvrtcGetCUBIN, program, cubin)
    return call(driver.cuModuleGetFunction, call(driver.cuModuleLoadData, cubin), b"clocks")


def stream_on(groups, device):
    context = call(driver.cuGreenCtxCreate, call(driver.cuDevResourceGenerateDesc, groups, len(groups)), device, 1)
    return torch.cuda.ExternalStream(int(call(driver.cuGreenCtxStreamCreate, context, 1, 0)))


def products():
    half = {"device": "cuda", "dtype": torch.float16}
    return {name: (torch.randn(m, k, **half), torch.randn(k, n, **half) * 0.02, torch.empty(m, n, **half)) for name, (m, n, k) in SHAPES.items()}


def burst(product, stream, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    a, b, out = product
    with torch.cuda.stream(stream):
        begin.record()
        for _ in range(count):
            torch.mm(a, b, out=out)
        end.record()
    return begin, end


def ms(product, stream, count):
    time.sleep(PAUSE_S)
    begin, end = burst(product, stream, count)
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / count


def timed(product, stream):
    ms(product, stream, 3)
    count = max(4, round(BURST_MS / ms(product, stream, 3)))
    return {"count": count, "ms": [round(ms(product, stream, count), 5) for _ in range(REPEATS)]}


def header():
    return {"gpu": sets.gpu(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "torch": torch.__version__, "shapes": SHAPES, "rows": []}


def parts(path):
    torch.zeros(1, device="cuda")
    device = call(driver.cuDeviceGet, 0)
    whole = call(driver.cuDeviceGetDevResource, device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
    pairs, clocks, seen = call(driver.cuDevSmResourceSplitByCount, whole.sm.smCount // 2, whole, 1, 2)[0], clock_kernel(), torch.zeros(2, dtype=torch.int64, device="cuda")
    data, all_products = header(), products()
    for sms in PARTS:
        stream = stream_on(pairs[:sms // 2], device)
        beside = stream_on(pairs[sms // 2:sms // 2 + 1], device) if sms < whole.sm.smCount else None
        for name, product in all_products.items():
            row = {"sms": sms, "product": name, **timed(product, stream), "mhz": []}
            for _ in range(REPEATS if beside else 0):
                time.sleep(PAUSE_S)
                arguments = ((round(0.7e6 * row["count"] * row["ms"][0]), seen.data_ptr()), (ctypes.c_longlong, ctypes.c_void_p))
                burst(product, stream, row["count"])
                call(driver.cuLaunchKernel, clocks, 1, 1, 1, 32, 1, 1, 0, beside.cuda_stream, arguments, 0)
                torch.cuda.synchronize()
                row["mhz"].append(round(1e3 * int(seen[0]) / int(seen[1]), 1))
            data["rows"].append(row)
            print(sms, name, statistics.median(row["ms"]), row["mhz"] and statistics.median(row["mhz"]), flush=True)
    with open(path, "w") as file:
        json.dump(data, file)


def steered(sim, path):
    """A service for each part, and a program of it: this file again, as `one`."""
    data = header()
    for tpcs in TPCS:
        with tempfile.TemporaryDirectory() as folder:
            service, _ = sets.serve(sim, folder + "/s", f"tpc-mask:split=even,tpcs={tpcs}/{66 - tpcs}", ["one", "other"])
            said = subprocess.run([sim, "run", "--at", folder + "/s", "--name=one", "--", sys.executable, __file__, "one", sim, folder + "/s"], capture_output=True, text=True)
            service.terminate()
            service.communicate()
        if said.returncode != 0:
            sys.exit(said.stderr)
        data["rows"] += json.loads(said.stdout)
        print(tpcs, [(r["sms"], r["product"], statistics.median(r["ms"])) for r in json.loads(said.stdout)], flush=True)
    with open(path, "w") as file:
        json.dump(data, file)


def one(sim, at):
    rows = [{"product": name, **timed(product, torch.cuda.current_stream())} for name, product in products().items()]
    state = json.loads(subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True).stdout)
    print(json.dumps([{"sms": state["programs"][0].get("sms"), **row} for row in rows]))


if __name__ == "__main__":
    {"parts": parts, "steered": steered, "one": one}[sys.argv[1]](*sys.argv[2:])
