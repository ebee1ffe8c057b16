#!/usr/bin/env python3
"""Operations of kernels.py alone on parts of an H200, beside loads, and their kernels' counters.

  measure.py names                        those to learn from, and those set aside
  measure.py times OUT.json.gz SECONDS [NAME...]   alone on parts and beside loads; saved after each operation, and goes on where
                                                   OUT ends; fails if the GPU's context is lost
  measure.py ncu OUT.csv SECONDS [NAME...]         Nsight Compute's counters of each kernel of each operation
  measure.py counters SECONDS [NAME...]            what `ncu` runs
  measure.py join OUT.json.gz CSV                  adds the counters to the kernels of OUT

A time of launches in a row is taken by events, behind a sleeping kernel that ends after the host has issued all.
SECONDS: no operation begins later than that.
"""
import csv
import ctypes
import gc
import gzip
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from statistics import median

import kernels

SMS = (8, 16, 32, 48, 64, 96, 132)
TARGET_US, FEWEST, MOST, QUEUED = 4000, 4, 200, 600  # launches in a row: what they last, how many, how many kernels
SAMPLES, REPEATS = 3, 6  # of events; of launches under the profiler, of which the first does not count
SESSIONS = 4  # of the profiler, some of which miss kernels
CYCLES_A_MS = 1.98e6

KNOWN = {
    "warp_instructions": "smsp__inst_executed.sum",
    "issue_active_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "l1_bytes": "l1tex__t_bytes.sum",
    "warps_active_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "tensor_instructions": "sm__inst_executed_pipe_tensor.sum",
    "ncu_duration_ns": "gpu__time_duration.sum",
    **{f"cluster_{axis}": f"launch__cluster_dim_{axis}" for axis in "xyz"},
    "fp64_active_pct": "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
    **{f"{pipe}_pct": f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained_active"
       for pipe in ("alu", "fma", "fmaheavy", "lsu", "xu")},
    "tensor_cycles_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "l1_data_pct": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
}
ASKED = {  # only where this ncu lists them: one that does not exist fails the run
    "global_red_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "global_atom_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "l2_atom_sectors": "lts__t_sectors_op_atom.sum",
    "l2_red_sectors": "lts__t_sectors_op_red.sum",
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
    "fp64_instructions": "smsp__inst_executed_pipe_fp64.sum",
}

# state: 0 stop, 1 a load reached its limit, 2 to 5 units and ns at the first and the second look, 8 to 10 SMs that run the load,
# 16 and more: units each warp has done.
LOADS = r"""
__device__ long long now() { long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }

__device__ void mark(unsigned long long* state) {
  unsigned sm; asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) atomicOr(state + 8 + sm / 64, 1ull << (sm % 64));
}

__device__ bool over(volatile long long* state, long long until, long long warp, long long done) {
  int stop = 0;
  if (threadIdx.x % 32 == 0) {
    state[16 + warp] = done;
    stop = state[0] != 0;
    if (!stop && now() > until) { state[1] = 1; stop = 1; }
  }
  return __shfl_sync(0xffffffffu, stop, 0) != 0;
}

extern "C" __global__ void __launch_bounds__(512, 2) reads(const float4* data, long long chunks, long long* state, long long limit) {
  long long warp = (blockIdx.x * 512ll + threadIdx.x) / 32, warps = gridDim.x * 16ll, at = warp, done = 0, until = now() + limit;
  float total = 0;
  mark((unsigned long long*)state);
  do {
    for (int step = 0; step < 8; ++step) {
      const float4* from = data + at * 256 + threadIdx.x % 32;
      float4 seen[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) seen[i] = __ldcg(from + 32 * i);
#pragma unroll
      for (int i = 0; i < 8; ++i) total += seen[i].x + seen[i].y + seen[i].z + seen[i].w;
      at += warps;
      if (at >= chunks) at -= chunks;
    }
    done += 8;
  } while (!over(state, until, warp, done));
  if (total == 1.2345678e30f) state[7] = 1;
}

extern "C" __global__ void __launch_bounds__(256) chains(long long* state, long long limit, float a, float b) {
  long long warp = (blockIdx.x * 256ll + threadIdx.x) / 32, done = 0, until = now() + limit;
  float x = threadIdx.x, y = x + a, z = x + b, w = y + b;
  mark((unsigned long long*)state);
  do {
#pragma unroll 1
    for (int i = 0; i < 64; ++i) {
#pragma unroll
      for (int j = 0; j < 16; ++j) { x = fmaf(x, a, b); y = fmaf(y, a, b); z = fmaf(z, a, b); w = fmaf(w, a, b); }
    }
    ++done;
  } while (!over(state, until, warp, done));
  if (x + y + z + w == 1.2345678e30f) state[7] = 1;
}

extern "C" __global__ void look(long long* state, int warps, int which) {
  long long sum = 0;
  for (int i = threadIdx.x; i < warps; i += 256) sum += ((volatile long long*)state)[16 + i];
  atomicAdd((unsigned long long*)state + 2 + 2 * which, (unsigned long long)sum);
  if (threadIdx.x == 0) state[3 + 2 * which] = now();
}

extern "C" __global__ void stop(volatile long long* state) { state[0] = 1; }
"""
# name: kernel, bytes it reads, blocks an SM, threads, on which SMs, what a unit is
CHUNK = 4096
LOAD = {
    "bandwidth": {"kernel": "reads", "bytes": 2 << 30, "blocks_per_sm": 2, "threads": 512, "unit": "bytes", "units": CHUNK},
    "l2": {"kernel": "reads", "bytes": 16 << 20, "blocks_per_sm": 2, "threads": 512, "unit": "bytes", "units": CHUNK},
    "issue": {"kernel": "chains", "bytes": 0, "blocks_per_sm": 1, "threads": 256, "unit": "warp FMAs", "units": 4096},
}


def say(*words):
    print(*words, flush=True)


def save(path, data):
    with open(path + ".new", "wb") as file:
        file.write(gzip.compress(json.dumps(data, indent=1).encode(), 6, mtime=0))
    os.replace(path + ".new", path)


def read(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


def described(torch):
    ask = "--query-gpu=driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
    state = subprocess.run(["nvidia-smi", ask, "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    return {"gpu": torch.cuda.get_device_name(0), "driver": state.split(",")[0], "cuda": torch.version.cuda, "torch": torch.__version__,
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "state": state,
            "command": " ".join(["measure.py", *map(os.path.basename, sys.argv[1:])])}


def call(function, *arguments):
    status, *results = function(*arguments)
    if int(status) != 0:
        raise RuntimeError(f"{function.__name__}: {status}")
    return results[0] if len(results) == 1 else results


class Clock:
    """The clock of the SMs, MHz."""

    def __init__(self):
        try:
            self.nvml, self.gpu = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
            self.nvml.nvmlInit_v2()
            self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.gpu))
        except OSError:
            self.nvml = None

    def mhz(self):
        value = ctypes.c_uint()
        return value.value if self.nvml and self.nvml.nvmlDeviceGetClockInfo(self.gpu, 1, ctypes.byref(value)) == 0 else None


class Gpu:
    def __init__(self, torch):
        from cuda.bindings import driver
        self.torch, self.driver = torch, driver
        torch.zeros(1, device="cuda")  # makes the primary context
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.device = call(driver.cuDeviceGet, 0)
        whole = call(driver.cuDeviceGetDevResource, self.device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
        ignore_coscheduling = 1
        self.pairs = call(driver.cuDevSmResourceSplitByCount, self.sms // 2, whole, ignore_coscheduling, 2)[0]
        self.contexts, self.streams, self.plain = {}, {}, torch.cuda.Stream()
        self.half = self.sms // 4 * 2
        self.sessions, self.parts_seen = 0, False  # of the profiler; whether it ever saw a part's kernels

    def new_stream(self, first, last):
        driver = self.driver
        if (first, last) not in self.contexts:
            mine = self.pairs[first // 2:last // 2]
            description = call(driver.cuDevResourceGenerateDesc, mine, len(mine))
            self.contexts[first, last] = call(driver.cuGreenCtxCreate, description, self.device, 1)
        return self.torch.cuda.ExternalStream(int(call(driver.cuGreenCtxStreamCreate, self.contexts[first, last], 1, 0)))

    def on(self, first, last):
        """The stream of a green context of the SMs [first, last)."""
        if (first, last) not in self.streams:
            self.streams[first, last] = self.new_stream(first, last)
        return self.streams[first, last]


class Loads:
    def __init__(self, gpu):
        from cuda.bindings import nvrtc
        torch, driver = gpu.torch, gpu.driver
        self.gpu, self.torch, self.driver = gpu, torch, driver
        program = call(nvrtc.nvrtcCreateProgram, LOADS.encode(), b"loads.cu", 0, [], [])
        status, = nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])
        if int(status) != 0:
            log = b" " * call(nvrtc.nvrtcGetProgramLogSize, program)
            call(nvrtc.nvrtcGetProgramLog, program, log)
            raise RuntimeError(log.decode())
        cubin = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
        call(nvrtc.nvrtcGetCUBIN, program, cubin)
        module = call(driver.cuModuleLoadData, cubin)
        self.functions = {name: call(driver.cuModuleGetFunction, module, name.encode()) for name in ("reads", "chains", "look", "stop")}
        attribute = driver.CUfunction_attribute
        self.registers = {name: call(driver.cuFuncGetAttribute, attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, f) for name, f in self.functions.items()}
        self.data = torch.randn(LOAD["bandwidth"]["bytes"] // 4, device="cuda")
        self.state = torch.zeros(16 + 16384, dtype=torch.int64, device="cuda")
        self.at, self.carveout = {}, None  # where: the operation's stream, the load's
        self.stop(gpu.plain)  # a function's first launch may wait for what runs: not for a load
        for where in (gpu.plain, gpu.on(0, gpu.half)):
            self.launch("look", 1, 256, where, (self.state.data_ptr(), 1, 0), (ctypes.c_void_p, ctypes.c_int, ctypes.c_int))
        torch.cuda.synchronize()
        for name in LOAD:
            self.choose(name)

    def launch(self, function, grid, block, stream, values, types):
        call(self.driver.cuLaunchKernel, self.functions[function], grid, 1, 1, block, 1, 1, 0, stream.cuda_stream, (values, types), 0)

    def width(self, name):
        return self.gpu.sms if name == "issue" else self.gpu.sms - self.gpu.half

    def warps(self, name):
        return self.width(name) * LOAD[name]["blocks_per_sm"] * LOAD[name]["threads"] // 32

    def begin(self, name, limit_ms):
        load, limit, state = LOAD[name], int(limit_ms * 1e6), self.state.data_ptr()
        self.state.zero_()
        self.torch.cuda.synchronize()
        values, types = (state, limit, 0.99999, 1e-5), (ctypes.c_void_p, ctypes.c_longlong, ctypes.c_float, ctypes.c_float)
        if load["kernel"] == "reads":
            values = (self.data.data_ptr(), load["bytes"] // CHUNK, state, limit)
            types = (ctypes.c_void_p, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_longlong)
        self.launch(load["kernel"], self.width(name) * load["blocks_per_sm"], load["threads"], self.at[name][1], values, types)

    def look(self, name, stream, which):
        self.launch("look", 1, 256, stream, (self.state.data_ptr(), self.warps(name), which), (ctypes.c_void_p, ctypes.c_int, ctypes.c_int))

    def stop(self, stream):
        self.launch("stop", 1, 1, stream, (self.state.data_ptr(),), (ctypes.c_void_p,))

    def seen(self, name):
        """Units a us between the looks, whether the load ended before it was told to, and on how many SMs it was."""
        state = self.state[:16].tolist()
        ns = state[5] - state[3]
        return {"per_us": round((state[4] - state[2]) * LOAD[name]["units"] / ns * 1e3, 3) if ns > 0 else None, "early": bool(state[1]),
                "sms": sum((word & (2 ** 64 - 1)).bit_count() for word in state[8:11])}

    def choose(self, name):
        """Streams of which neither waits for the other, as two that share a hardware channel do.  An SM that runs a block keeps its
        carveout: with the largest, blocks with shared memory find room beside the issue load."""
        gpu, x, driver = self.gpu, self.torch.zeros(1024, device="cuda"), self.driver
        carveout = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        for percent in (100, -1, 0):
            if name == "issue":
                call(driver.cuFuncSetAttribute, self.functions["chains"], carveout, percent)
                self.carveout = percent
            for _ in range(4):
                self.at[name] = ((gpu.plain, self.torch.cuda.Stream()) if name == "issue" else
                                 (gpu.on(0, gpu.half), gpu.new_stream(gpu.half, gpu.sms)))
                with self.torch.cuda.stream(self.at[name][0]):
                    x.add_(1)
                if not timed(gpu, lambda: x.add_(1), 4, self.at[name][0], 0.05, self, name, 40)["load"]["early"]:
                    return
        say(name, "NO STREAM beside which an operation runs")

    def fits(self, found):
        """Whether a block of each kernel has room on an SM beside the issue load's."""
        def of_warp(registers):
            return -(-registers * 32 // 256) * 256
        mine = LOAD["issue"]["threads"] // 32 // 4 * of_warp(self.registers["chains"])
        for k in found:
            if k["cat"] != "kernel":
                continue
            threads = math.prod(k["block"])
            if (-(-threads // 128) * of_warp(k["registers_per_thread"]) + mine > 16384 or threads + LOAD["issue"]["threads"] > 2048 or
                    k["shared_memory_bytes"] + 2048 > 228 << 10):
                return False
        return True


def timed(gpu, launch, count, stream, host_ms, loads=None, name=None, longest_ms=0):
    """ms of `count` launches in a row; with a load beside: its rate meanwhile. host_ms: what issuing one takes."""
    cuda = gpu.torch.cuda
    gate_ms = 0.3 + 1.5 * count * host_ms
    for _ in range(3):
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        if name:
            loads.begin(name, gate_ms + longest_ms)
        with cuda.stream(stream):
            cuda._sleep(int(gate_ms * CYCLES_A_MS))
            if name:
                loads.look(name, stream, 0)
            start.record()
            for _ in range(count):
                launch()
            late = start.query()
            end.record()
            if name:
                loads.look(name, stream, 1)
                loads.stop(stream)
        cuda.synchronize()
        row = {"ms": start.elapsed_time(end), "late": late}
        if name:
            row["load"] = loads.seen(name)
        if not late:
            break
        gate_ms *= 3
    return row


def load_alone(gpu, loads, name):
    """The load's rate with nothing beside it, for 4 ms."""
    loads.begin(name, 30)
    stream = loads.at[name][0]
    with gpu.torch.cuda.stream(stream):
        for which in (0, 1):
            gpu.torch.cuda._sleep(int((0.3, 4)[which] * CYCLES_A_MS))
            loads.look(name, stream, which)
        loads.stop(stream)
    gpu.torch.cuda.synchronize()
    return loads.seen(name)


# ---- kernels, by the profiler ------------------------------------------------------------------------------------------

def recorded(gpu, launch, streams, repeats):
    """What each stream's launches put on the GPU: a list a stream, split by a kernel of _sleep before each."""
    from torch.profiler import ProfilerActivity, profile
    cuda = gpu.torch.cuda
    cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        for stream in streams:
            with cuda.stream(gpu.plain):
                cuda._sleep(2000)
            cuda.synchronize()
            with cuda.stream(stream):
                for _ in range(repeats):
                    launch()
            cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        p.export_chrome_trace(file.name)
        with open(file.name) as trace:
            events = json.load(trace)["traceEvents"]
    events = sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])
    parts = []
    for e in events:
        if "spin_kernel" in e["name"]:
            parts.append([])
        elif parts:
            parts[-1].append(e)
    return parts if len(parts) == len(streams) else None


def what(e):
    return e["cat"], e["name"], tuple(e["args"].get("grid", ())), tuple(e["args"].get("block", ())), e["args"].get("bytes")


def shape(e):
    args = e["args"]
    row = {"cat": e["cat"], "name": e["name"]}
    if e["cat"] != "kernel":
        return {**row, "bytes": args.get("bytes")}
    return {**row, "grid": args["grid"], "block": args["block"], "registers_per_thread": args["registers per thread"],
            "shared_memory_bytes": args["shared memory"], **{key: v for key, v in args.items() if "cluster" in key}}


def in_launches(events, repeats):
    """[launch][kernel], or None where launches differ; the first does not count."""
    if not events or len(events) % repeats:
        return None
    each = len(events) // repeats
    launches = [events[i:i + each] for i in range(each, len(events), each)]
    return launches if all([what(e) for e in l] == [what(e) for e in launches[0]] for l in launches) else None


def durations(launches):
    """Of each kernel: median and spread over the launches, us."""
    rows = [[e["dur"] for e in column] for column in zip(*launches)]
    return [(round(median(r), 3), round(max(r) / max(1e-3, min(r)), 3)) for r in rows]


def by_profiler(gpu, launch):
    """The kernels of an operation and how long each lasts on each part; parts on which others run stand apart."""
    wanted = {"plain": gpu.plain, **{n: gpu.on(0, n) for n in SMS if n <= gpu.sms}}
    known, raw = {}, {}
    for _ in range(SESSIONS if gpu.parts_seen or gpu.sessions < 3 * SESSIONS else 1):
        left = [n for n in wanted if n not in known]
        if not left:
            break
        parts = recorded(gpu, launch, [wanted[n] for n in left], REPEATS)
        gpu.sessions += 1
        for n, events in zip(left, parts or []):
            raw[n] = [e["name"] for e in events]
            if launches := in_launches(events, REPEATS):
                known[n] = launches
                gpu.parts_seen |= n != "plain"
    if not known:
        return None, {"missing": {str(n): len(r) for n, r in raw.items()}}
    whole = known.get("plain") or known.get(gpu.sms) or next(iter(known.values()))
    kept, notes = [{**shape(e), "us_by_sms": {}, "spread": {}} for e in whole[0]], {}
    for n, launches in ((n, known[n]) for n in wanted if n in known):
        if [what(e) for e in launches[0]] == [what(e) for e in whole[0]]:
            for row, (us, spread) in zip(kept, durations(launches)):
                if n == "plain":
                    row["us_plain_stream"] = us
                else:
                    row["us_by_sms"][str(n)], row["spread"][str(n)] = us, spread
        else:
            notes.setdefault("other_kernels", {})[str(n)] = [{**shape(e), "us": us, "spread": spread}
                                                            for e, (us, spread) in zip(launches[0], durations(launches))]
        if len({(e["args"].get("context"), e["args"].get("stream")) for l in launches for e in l}) > 1:
            notes.setdefault("several_streams", []).append(str(n))
    if missing := {str(n): len(raw.get(n, [])) for n in wanted if n not in known}:
        notes["missing"] = missing
    return kept, notes


# ---- an operation ------------------------------------------------------------------------------------------------------

def typical(rows):
    row = {"ms": round(median(r["ms"] for r in rows), 5), "spread": round(max(r["ms"] for r in rows) / min(r["ms"] for r in rows), 4)}
    if any(r["late"] for r in rows):
        row["host_bound"] = True
    return row


def measured(gpu, loads, launch):
    cuda, row = gpu.torch.cuda, {}
    for stream in (gpu.plain, *(gpu.on(0, n) for n in SMS if n <= gpu.sms), gpu.on(0, gpu.half)):
        with cuda.stream(stream):
            for _ in range(2):
                launch()
        cuda.synchronize()
    with cuda.stream(gpu.plain):
        begin = time.perf_counter()
        for _ in range(5):
            launch()
        host_ms = (time.perf_counter() - begin) * 200
    cuda.synchronize()
    try:
        found, notes = by_profiler(gpu, launch)
    except Exception as error:  # events remain
        found, notes = None, {"profiler": repr(error)[:300]}
        cuda.synchronize()
    row.update(kernels=found, **notes)
    several = len(found or [1])

    def count_for(ms):
        return max(FEWEST, min(MOST, QUEUED // several, round(TARGET_US / 1e3 / ms)))

    def alone(stream):
        once = timed(gpu, launch, FEWEST, stream, host_ms)["ms"] / FEWEST
        count = count_for(once)
        return count, typical([timed(gpu, launch, count, stream, host_ms) for _ in range(SAMPLES)])
    row.update(host_us=round(host_ms * 1e3, 1), launches={}, ms_by_sms={}, events={})
    for n in SMS:
        if n <= gpu.sms:
            count, took = alone(gpu.on(0, n))
            row["launches"][str(n)], row["events"][str(n)] = count, took
            row["ms_by_sms"][str(n)] = round(took["ms"] / count, 6)
    row["beside"] = {}
    for name in LOAD if loads else ():
        try:
            row["beside"][name] = beside(gpu, loads, name, launch, host_ms, alone, found or [])
        except Exception as error:
            row["beside"][name] = {"error": repr(error)[:300]}
            cuda.synchronize()
    return row


def beside(gpu, loads, name, launch, host_ms, alone, found):
    stream = loads.at[name][0]
    count, took = alone(stream)
    row = {"sms": gpu.sms if name == "issue" else gpu.half, "launches": count, "alone_ms": round(took["ms"] / count, 6),
           "alone_spread": took["spread"]}
    if name == "issue" and not loads.fits(found):
        return {**row, "fits": False}
    samples = []
    for _ in range(SAMPLES):
        samples.append(timed(gpu, launch, count, stream, host_ms, loads, name, 12 * took["ms"] + 20))
        if samples[-1]["load"]["early"]:
            break
    both = typical(samples)
    return {**row, "beside_ms": round(both["ms"] / count, 6), "spread": both["spread"], "host_bound": both.get("host_bound", False),
            "starved": any(s["load"]["early"] for s in samples), "load": [s["load"] for s in samples],
            "load_alone": load_alone(gpu, loads, name)}


def times(path, seconds, names):
    begun = time.time()
    import torch
    kernels.prepare("cuda")
    gpu = Gpu(torch)
    data = {**described(torch), "sms": SMS, "operations": {}, "failed": {}, "samples": SAMPLES, "repeats": REPEATS - 1}
    try:
        loads = Loads(gpu)
        data["loads"] = {name: {**load, "sms": loads.width(name), "registers": loads.registers[load["kernel"]],
                                "alone": [load_alone(gpu, loads, name) for _ in range(3)]} for name, load in LOAD.items()}
        data["loads"]["issue"]["carveout_percent"] = loads.carveout
        say(f"{time.time() - begun:.0f} s, loads", {name: load["alone"] for name, load in data["loads"].items()})
    except Exception as error:  # parts matter most
        loads, data["loads"] = None, {"error": "".join(traceback.format_exception(error))[-1500:]}
        say("NO LOADS:", data["loads"]["error"])
    x = torch.zeros(1024, device="cuda")
    for _ in range(2):  # the first sessions of a process miss kernels
        try:
            seen = recorded(gpu, lambda: x.add_(1), [gpu.plain, gpu.on(0, 8)], 2)
            say(f"{time.time() - begun:.0f} s, the profiler sees", seen and [len(part) for part in seen])
        except Exception as error:
            say("profiler:", repr(error)[:300])
    clock = Clock()
    names = names or kernels.in_order()
    if os.path.exists(path):
        before = read(path)
        data["operations"], data["failed"] = before["operations"], before["failed"]
        data["earlier"] = {key: before[key] for key in ("date", "command", "state", "loads")}
        names = [name for name in names if name not in data["operations"] and name not in data["failed"]]
    for i, name in enumerate(names):
        if time.time() - begun > seconds:
            data["not_reached"] = names[i:]
            say("no time for", *names[i:])
            break
        started, launch = time.time(), None
        try:
            launch = kernels.make(name)
            row = {"kind": kernels.OPERATIONS[name][0], "set_aside": kernels.set_aside(name), **measured(gpu, loads, launch)}
            row.update(mhz=clock.mhz(), took_s=round(time.time() - started, 2))
            data["operations"][name] = row
            say(f"{time.time() - begun:4.0f} s {name}: {len(row['kernels'] or [])} kernels,", {n: round(ms * 1e3, 1) for n, ms in row["ms_by_sms"].items()},
                {n: round(b["beside_ms"] / b["alone_ms"], 2) if "beside_ms" in b else b.get("error", "no room") for n, b in row["beside"].items()},
                *(f"{key} {list(row[key])}" for key in ("other_kernels", "missing", "several_streams") if key in row))
        except Exception as error:  # an operation that this PyTorch refuses must not cost the others
            data["failed"][name] = "".join(traceback.format_exception(error))[-1500:]
            say(f"{time.time() - begun:4.0f} s {name} FAILED: {error!r}"[:400])
        launch = None
        gc.collect()
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception as error:  # the context is lost: what follows needs another process
            data["not_reached"] = names[i + 1:]
            save(path, data)
            say(f"LOST after {name}: {error!r}"[:300])
            sys.exit(3)
        save(path, data)
    data["state_after"] = described(torch)["state"]
    data["loads_after"] = {name: load_alone(gpu, loads, name) for name in LOAD} if loads else None
    save(path, data)
    say(f"{time.time() - begun:.0f} s, {len(data['operations'])} operations, {len(data['failed'])} failed")


# ---- counters ----------------------------------------------------------------------------------------------------------

def metrics():
    listed = set()
    try:
        run = subprocess.run(["ncu", "--query-metrics", "--chip", "gh100"], capture_output=True, text=True, timeout=60)
        listed = set(re.findall(r"^\s*(\w+__\w+)", run.stdout, re.M))
    except (OSError, subprocess.TimeoutExpired) as error:
        say("ncu lists no metrics:", repr(error))
    asked = {key: m for key, m in ASKED.items() if m.split(".")[0] in listed}
    say(len(listed), "metrics listed; left out:", *(m for key, m in ASKED.items() if key not in asked))
    return [*KNOWN.values(), *asked.values()]


def ncu(path, seconds, names):
    command = ["ncu", "--nvtx", "--nvtx-include", "regex:.*/", "--clock-control", "none", "--csv", "--print-units", "base",
               "--log-file", path, "--metrics", ",".join(metrics()),
               sys.executable, os.path.abspath(__file__), "counters", str(seconds), *names]
    # Compiled by `times` before; without threads there are no processes that ncu would attach to.
    say("ncu exits with", subprocess.run(command, env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}).returncode)


def counters(seconds, names):
    begun = time.time()
    import torch
    kernels.prepare("cuda")
    stream = torch.cuda.Stream()
    for name in names or kernels.in_order():
        if time.time() - begun > seconds:
            say("no time for", name)
            continue
        launch = None
        try:
            launch = kernels.make(name)
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                for _ in range(2):
                    launch()
                torch.cuda.synchronize()
                torch.cuda.nvtx.range_push(name)
                try:
                    launch()
                    torch.cuda.synchronize()
                finally:
                    torch.cuda.nvtx.range_pop()
            say(f"{time.time() - begun:4.0f} s counted {name}")
        except Exception as error:
            say(f"{time.time() - begun:4.0f} s {name} NOT COUNTED: {error!r}"[:300])
        launch = None
        gc.collect()
        torch.cuda.empty_cache()


def plain_name(name):
    """A kernel's own name: without arguments, templates and namespaces."""
    name = re.sub(r"\(anonymous namespace\)|<unnamed>", "", name)
    head = re.split(r"[<(]", name, maxsplit=1)[0].strip()
    return head.split(" ")[-1].split("::")[-1]


def triple(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def join(path, table):
    data, by_id, found = read(path), {}, {}
    meaning = {metric: key for key, metric in {**KNOWN, **ASKED}.items()}
    with open(table) as file:
        for row in csv.DictReader(line for line in file if line.startswith('"')):
            if span := re.search(r"<default domain>:(\w+):", " ".join(str(v) for v in row.values())):
                kernel = by_id.setdefault(int(row["ID"]), {"operation": span[1], "name": row["Kernel Name"],
                                                            "grid": triple(row["Grid Size"]), "block": triple(row["Block Size"]), "ncu": {}})
                try:
                    value = float(row["Metric Value"].replace(",", ""))
                except ValueError:
                    continue
                if row["Metric Name"] in meaning and math.isfinite(value):
                    kernel["ncu"][meaning[row["Metric Name"]]] = value
    for _, kernel in sorted(by_id.items()):
        found.setdefault(kernel.pop("operation"), []).append(kernel)
    for name, counted in found.items():
        if name not in data["operations"]:
            continue
        row = data["operations"][name]
        mine = [k for k in row["kernels"] or [] if k["cat"] == "kernel"]
        alike = [(k["grid"], plain_name(k["name"])) == (c["grid"], plain_name(c["name"])) for k, c in zip(mine, counted)]
        if len(mine) == len(counted) and all(k["grid"] == c["grid"] and k["block"] == c["block"] for k, c in zip(mine, counted)):
            for k, c in zip(mine, counted):
                k["ncu"] = c["ncu"]
            if not all(alike):
                row["ncu_names"] = [c["name"][:200] for c in counted]
        else:
            row["ncu_apart"] = counted
            say(name, "NOT JOINED:", len(mine), "kernels recorded,", len(counted), "counted")
    save(path, data)
    have = [name for name, row in data["operations"].items() if any("ncu" in k for k in row["kernels"] or [])]
    say(len(have), "of", len(data["operations"]), "operations have counters; without:", *(n for n in data["operations"] if n not in have))


def print_names():
    for aside in (False, True):
        names = [name for name in kernels.in_order() if kernels.set_aside(name) is aside]
        print(f"{'set aside' if aside else 'to learn from'}, {len(names)}:")
        for name in names:
            print(f"  {name:28}{kernels.OPERATIONS[name][0]}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["names"]: print_names()
        case ["times", path, seconds, *names]: times(path, float(seconds), names)
        case ["ncu", path, seconds, *names]: ncu(os.path.abspath(path), float(seconds), names)
        case ["counters", seconds, *names]: counters(float(seconds), names)
        case ["join", path, table]: join(path, table)
        case _: sys.exit(__doc__)
