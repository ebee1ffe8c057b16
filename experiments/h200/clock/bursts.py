#!/usr/bin/env python3
"""How the clock follows a load that comes and goes: products of matrices for some milliseconds of each period.

  bursts.py measure OUT.json.gz       on the GPU; 3 minutes
  bursts.py show BURSTS.json.gz...    the clock under each load

The load, the pauses and the samples of the clock are kernels of one stream: a sample counts clock cycles over 10 us of the GPU's timer
after each product, and in a pause once a millisecond.
"""
import ctypes
import gzip
import json
import statistics
import subprocess
import sys
import threading
import time

SECONDS = 2.4
BEFORE_S = 0.85  # from the first reading of the power to the first load
CODE = r"""
extern "C" __device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ void sample(unsigned long long* log, unsigned most, unsigned kind, unsigned long long ns) {
  const unsigned long long begin = now(), cycle = clock64();
  while (now() < begin + ns) {}
  const unsigned long long cycles = clock64() - cycle, end = now();
  const unsigned at = log[1]++;
  if (at < most) {
    log[2 + 4 * at] = begin;
    log[3 + 4 * at] = end;
    log[4 + 4 * at] = cycles;
    log[5 + 4 * at] = kind;
  }
}
extern "C" __global__ void begin(unsigned long long* log) { log[0] = now(), log[1] = 0; }
extern "C" __global__ void after_load(unsigned long long* log, unsigned most) { sample(log, most, 1, 10000); }
extern "C" __global__ void pause(unsigned long long* log, unsigned most, unsigned long long until) {
  const unsigned long long end = log[0] + until;
  while (now() + 1000000 < end) {
    const unsigned long long next = now() + 990000;
    sample(log, most, 0, 10000);
    while (now() < next) {}
  }
  while (now() < end) {}
}
"""


class Probe:
    """Products of n x n matrices of fp16, samples and pauses on one stream."""
    MOST = 60000

    def __init__(self):
        import cupy
        import torch
        self.torch, module = torch, cupy.RawModule(code=CODE, options=("-std=c++17",))
        self.kernels = {name: module.get_function(name) for name in ("begin", "after_load", "pause")}
        self.stream = torch.cuda.Stream()
        self.log = cupy.zeros(2 + 4 * self.MOST, dtype=cupy.uint64)
        self.on = cupy.cuda.ExternalStream(self.stream.cuda_stream)
        torch.manual_seed(1)
        half = {"device": "cuda", "dtype": torch.float16}
        self.a, self.b = (torch.randn(8192, 8192, **half) for _ in range(2))
        self.c, self.d = (torch.empty(8192 * 8192, **half) for _ in range(2))

    def launch(self, kernel, *arguments):
        self.kernels[kernel]((1,), (1,), (self.log, *arguments), stream=self.on)

    def product(self, m, n):
        """m x n by n x n."""
        self.torch.mm(self.a.flatten()[:m * n].view(m, n), self.b.flatten()[:n * n].view(n, n), out=self.c[:m * n].view(m, n))

    def load(self, kind):
        if kind == "copy":
            self.d.copy_(self.c)
        else:
            self.product(*kind)

    def time_of(self, kind):
        """ns of one, some after it has begun, from an idle GPU."""
        with self.torch.cuda.stream(self.stream):
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.load(kind), self.stream.synchronize()
            begin.record()
            for _ in range(8):
                self.load(kind)
            end.record()
        self.stream.synchronize()
        return begin.elapsed_time(end) / 8 * 1e6

    def run(self, kind, on_ms, off_ms, between=None, seconds=SECONDS):
        """Samples [ms, MHz, load, us since the last] of a load for on_ms, then off_ms idle or with `between`."""
        import numpy
        time.sleep(0.3)
        each = self.time_of(kind)
        time.sleep(0.5)
        count = max(1, round(on_ms * 1e6 / (each + 16e3)))
        fill = round(off_ms * 1e6 / (self.time_of(between) + 16e3)) if between else 0
        rounds = int(seconds * 1e3 / (on_ms + off_ms))
        period = on_ms + off_ms
        with self.torch.cuda.stream(self.stream):
            self.launch("begin")
            for r in range(rounds):
                for _ in range(count):
                    self.load(kind)
                    self.launch("after_load", numpy.uint32(self.MOST))
                for _ in range(fill):
                    self.load(between)
                    self.launch("after_load", numpy.uint32(self.MOST))
                if off_ms and not between:
                    self.launch("pause", numpy.uint32(self.MOST), numpy.uint64(int((r + 1) * period * 1e6)))
        self.stream.synchronize()
        log = self.log.get()
        zero, some = int(log[0]), min(int(log[1]), self.MOST)
        rows = log[2:2 + 4 * some].reshape(-1, 4).astype("int64")
        took = [(int(rows[i][0]) - int(rows[i - 1][1])) / 1e3 if i and rows[i][3] else 0 for i in range(some)]
        return {"kind": kind, "on_ms": on_ms, "off_ms": off_ms, "between": between, "products": count, "alone_ns": round(each),
                "samples": [[round((int(b) - zero) / 1e6, 2), round(1e3 * int(c) / max(1, int(e - b))), int(k), t]
                            for (b, e, c, k), t in zip(rows, took)]}


def thin(samples):
    """At most one in 2 ms, [ms, MHz, load, us]: medians of the clock and of what a product took."""
    of = {}
    for at, mhz, kind, took in samples:
        of.setdefault((int(at) // 2 * 2, kind), []).append((mhz, took))
    return [[at, int(statistics.median(m for m, _ in values)), kind, *([round(statistics.median(t for _, t in values), 1)] if kind else [])]
            for (at, kind), values in sorted(of.items())]


def watts(stop, into):
    nvml, handle, drawn = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_uint()
    nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    begin = time.time()
    while not stop.is_set():
        nvml.nvmlDeviceGetPowerUsage(handle, ctypes.byref(drawn))
        into.append([round(time.time() - begin, 3), drawn.value / 1e3])
        time.sleep(0.02)


def cases():
    big, small = (8192, 8192), (4096, 4096)
    yield big, 100, 0, None
    yield small, 100, 0, None
    for m in (1024, 2048, 3072, 4096, 6144):  # fewer tiles than SMs draw less
        yield (m, 2048), 100, 0, None
    for on, off in [(1, 9), (1, 49), (1, 99), (2, 2), (2, 6), (2, 18), (2, 48), (2, 98), (5, 5), (5, 15), (5, 45), (5, 95),
                    (10, 10), (10, 30), (10, 90),
                    (20, 20), (20, 60), (20, 80), (20, 180), (40, 40), (40, 60), (40, 160), (80, 80), (80, 320), (200, 200)]:
        yield small, on, off, None
    for on, off in [(5, 45), (10, 90), (20, 80), (40, 60)]:
        yield small, on, off, "copy"
    yield "copy", 100, 0, None


def measure(path):
    probe, runs = Probe(), []
    asked = "--query-gpu=name,uuid,driver_version,clocks.max.sm,power.limit,temperature.gpu"
    state = subprocess.run(["nvidia-smi", asked, "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    for kind, on, off, between in cases():
        stop, drawn = threading.Event(), []
        try:
            thread = threading.Thread(target=watts, args=(stop, drawn))
            thread.start()
            run = probe.run(kind, on, off, between)
        except Exception as error:
            print(kind, on, off, between, "LEFT OUT:", repr(error)[:200], flush=True)
            continue
        finally:
            stop.set(), thread.join()
        run["samples"], run["watts"] = thin(run["samples"]), drawn
        runs.append(run)
        print(summary(run), flush=True)
        with gzip.GzipFile(path, "wb", mtime=0) as file:
            file.write(json.dumps({"gpu": state, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "runs": runs}).encode())


def summary(run):
    late = [s for s in run["samples"] if s[0] > 800]
    under, pauses = ([s[1] for s in late if s[2] == k] or [0] for k in (1, 0))
    end = BEFORE_S + run["samples"][-1][0] / 1e3
    drawn = [w for t, w in run["watts"] if end - 0.9 < t < end - 0.05] or [0]  # of its last second: NVML gives means of one
    kind = run["kind"] if run["kind"] == "copy" else "{}x{}".format(*run["kind"])
    low, high = (sorted(under)[len(under) * p // 10] for p in (1, 9))
    return (f"{kind:10} {run['on_ms']:4} of {run['on_ms'] + run['off_ms']:4} ms {run['between'] or '':5} "
            f"clock under load {statistics.mean(under):5.0f} MHz (p10 {low:5} p90 {high:5}), in pauses {statistics.mean(pauses):5.0f}, "
            f"{statistics.mean(drawn):4.0f} W")


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(sys.argv[2])
    else:
        for path in sys.argv[2:]:
            with gzip.open(path) as file:
                data = json.load(file)
            print(data["gpu"], data["date"])
            for run in data["runs"]:
                print(summary(run))
