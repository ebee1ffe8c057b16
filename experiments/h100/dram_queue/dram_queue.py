#!/usr/bin/env python3
"""How long DRAM's queues are while a kernel has the GPU to itself: what one thread waits for a line that is not in L2, beside each kind of PyTorch's kernels,
launched in a row by a graph.

  dram_queue.py measure OUT.jsonl    on the GPU, 15 s
  dram_queue.py once                 each load once, for counters: ncu --nvtx --profile-from-start off ...
  dram_queue.py show FILE.jsonl.gz   anywhere
"""
import datetime
import gzip
import itertools
import json
import subprocess
import sys

if sys.argv[1:2] == ["show"]:
    rows = [json.loads(line) for line in gzip.open(sys.argv[2], "rt")]
    print(rows[0]["gpu"], rows[0]["date"])
    idle = {k: sum(r[k] for r in rows[1:] if r["load"] == "none") / sum(r["load"] == "none" for r in rows[1:]) for k in ("mean", "p50", "time_mean") if k in rows[1]}
    print("ns more than idle:", ", ".join(idle), "; idle", ", ".join(f"{v:.0f}" for v in idle.values()))
    for r in rows[1:]:
        if r["load"] != "none":
            print(f"{r['load']:36}{r['us']:8.1f} us {sum(r['bytes']) / r['us'] / 1e6:6.2f} TB/s" + "".join(f"{r[k] - v:8.0f}" for k, v in idle.items()))
    sys.exit()
if sys.argv[1:] != ["once"] and (sys.argv[1:2] != ["measure"] or len(sys.argv) != 3):
    sys.exit(__doc__)

import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.manual_seed(1)
D = "cuda"
N = 32
def f(*s): return torch.randn(*s, device=D)
LOADS = {}
def load(name, fn, moved): LOADS[name] = (fn, moved)
def elementwise():
    for c, hw in ((64, 112), (256, 56), (64, 56), (512, 28), (128, 28), (256, 14)):
        for n in (N, 2 * N):
            a, b = f(n, c, hw, hw), f(n, c, hw, hw); o = torch.empty_like(a); m = a.numel() * 4
            tag = f"{n}x{c}x{hw}"
            load("add " + tag, lambda a=a, b=b, o=o: torch.add(a, b, out=o), (2 * m, m))
            load("clamp_min " + tag, lambda a=a, o=o: torch.clamp_min(a, 0, out=o), (m, m))
def convs():
    for cin, cout, k, hw in ((64, 256, 1, 56), (256, 64, 1, 56), (64, 64, 3, 56), (512, 128, 1, 28), (128, 512, 1, 28), (256, 1024, 1, 14), (1024, 256, 1, 14), (3, 64, 7, 224)):
        for n in (N, 2 * N):
            x, w = f(n, cin, hw, hw), f(cout, cin, k, k); s, p = (2, 3) if k == 7 else (1, k // 2)
            y = torch.nn.functional.conv2d(x, w, stride=s, padding=p); g = torch.randn_like(y)
            b = (x.numel() * 4, w.numel() * 4, y.numel() * 4)
            tag = f"{cin}-{cout} {k}x{k} {n}x{hw}"
            load("conv " + tag, lambda x=x, w=w, s=s, p=p: torch.nn.functional.conv2d(x, w, stride=s, padding=p), (b[0] + b[1], b[2]))
            if k == 7: continue
            load("dgrad " + tag, lambda x=x, w=w, g=g, p=p: torch.nn.grad.conv2d_input(x.shape, w, g, padding=p), (b[1] + b[2], b[0]))
            load("wgrad " + tag, lambda x=x, w=w, g=g, p=p: torch.nn.grad.conv2d_weight(x, w.shape, g, padding=p), (b[0] + b[2], b[1]))
def norms():
    for c, hw in ((64, 112), (256, 56), (64, 56), (512, 28), (128, 28)):
        for n in (N, 2 * N):
            x = f(n, c, hw, hw); w, b, rm, rv = f(c), f(c), torch.zeros(c, device=D), torch.ones(c, device=D)
            m = x.numel() * 4; tag = f"{n}x{c}x{hw}"
            load("bn forward " + tag, lambda x=x, w=w, b=b, rm=rm, rv=rv: torch.ops.aten.cudnn_batch_norm(x, w, b, rm, rv, True, .1, 1e-5), (m, m))
            y, sm, sv, r = torch.ops.aten.cudnn_batch_norm(x, w, b, rm, rv, True, .1, 1e-5); g = torch.randn_like(x)
            load("bn backward " + tag, lambda x=x, g=g, w=w, rm=rm, rv=rv, sm=sm, sv=sv, r=r: torch.ops.aten.cudnn_batch_norm_backward(x, g, w, rm, rv, sm, sv, 1e-5, r), (2 * m, m))
            cl = x.to(memory_format=torch.channels_last)
            load("to channels last " + tag, lambda x=x: x.contiguous(memory_format=torch.channels_last), (m, m))
def matmuls():
    """Each launch with other weights, so that none are in L2 from the one before."""
    for m, n, k in ((4096, 4096, 4096), (16384, 1024, 256), (8, 4096, 3072), (16, 4096, 4096), (16, 11008, 4096), (16, 32768, 8192), (64, 4096, 4096), (64, 11008, 4096), (256, 4096, 4096)):
        for dt in (torch.float32, torch.float16):
            z = dt.itemsize
            a, weights = f(m, k).to(dt), [f(k, n).to(dt) for _ in range(1 + 400_000_000 // (n * k * z))]
            turns = itertools.cycle(weights)
            load(f"matmul {m}x{n}x{k} {str(dt)[6:]}", lambda a=a, turns=turns: a @ next(turns), ((m * k + n * k) * z, m * n * z))
elementwise(); convs(); norms(); matmuls()
if sys.argv[1] == "once":
    from torch.cuda import nvtx
    for name, (fn, _) in LOADS.items(): fn()
    torch.cuda.synchronize(); cudart = torch.cuda.cudart()
    for name, (fn, _) in LOADS.items():
        torch.cuda.synchronize(); cudart.cudaProfilerStart(); nvtx.range_push(name.replace("/", "")); fn(); torch.cuda.synchronize(); nvtx.range_pop(); cudart.cudaProfilerStop()
    sys.exit()
import cupy, numpy
code = r'''
extern "C" __global__ void chase(const unsigned* next, unsigned* at, unsigned* waits, int n, long long idle) {
  long long begin; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin)); long long now = begin;
  while (now - begin < idle) asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  unsigned i = *at;
  for (int s = 0; s < n; ++s) { long long a = clock64(); asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(i) : "l"(next + i)); if (i == 0xffffffffu) break; waits[s] = clock64() - a; }
  *at = i;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); waits[n] = now - begin - idle;
}'''
chase = cupy.RawKernel(code, "chase")
LINES = 384 * 1024 * 1024 // 128
order = numpy.random.default_rng(1).permutation(LINES).astype(numpy.uint32)
table = numpy.zeros(LINES * 32, dtype=numpy.uint32); table[order * 32] = numpy.roll(order, -1) * 32
table = cupy.asarray(table); at = cupy.full(1, order[0] * 32, dtype=cupy.uint32)
STEPS = 3000
waits = cupy.zeros(STEPS + 1, dtype=cupy.uint32)
side = cupy.cuda.Stream(non_blocking=True)
out = open(sys.argv[2], "w")
gpu = subprocess.run("nvidia-smi --query-gpu=name,uuid,driver_version --format=csv,noheader", shell=True, capture_output=True, text=True).stdout.strip()
print(json.dumps({"gpu": gpu, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}), file=out)
def probe(name, launch, us, moved):
    torch.cuda.synchronize()
    with side: chase((1,), (1,), (table, at, waits, numpy.int32(STEPS), numpy.int64(2_000_000)))
    if launch: launch()
    side.synchronize(); late = not torch.cuda.current_stream().query() if launch else True
    torch.cuda.synchronize(); w = waits.get(); d = w[:STEPS].astype(float); ns = float(w[STEPS]) / d.sum()
    print(json.dumps({"load": name, "us": us, "bytes": moved, "still_running": bool(late), "mhz": round(1e3 / ns, 1), "mean": round(d.mean() * ns, 1), "time_mean": round((d * d).sum() / d.sum() * ns, 1),
                      **{f"p{p}": round(float(numpy.percentile(d, p)) * ns, 1) for p in (5, 25, 50, 75, 90, 95)}}), file=out, flush=True)
for i in range(2): probe("none", None, 0, 0)
for name, (fn, moved) in LOADS.items():
    fn(); torch.cuda.synchronize()
    s = torch.cuda.Stream()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.stream(s):
        fn(); fn(); s.synchronize()
        with torch.cuda.graph(g, stream=s):
            for i in range(20): fn()
    a, b = torch.cuda.Event(True), torch.cuda.Event(True)
    g.replay(); a.record(); g.replay(); b.record(); torch.cuda.synchronize()
    us = a.elapsed_time(b) * 1e3 / 20
    times = int(16_000 / (us * 20)) + 2
    probe(name, lambda: [g.replay() for i in range(times)], us, moved)
    del g
