# A best-effort program of Triton's: a product of matrices again and again: triton_product.py LAUNCHES FILE
# FILE is written after the first launch, so that others begin then.
import sys, os, time, hashlib; sys.stdout.reconfigure(line_buffering=True)
t0 = time.time()
import torch, triton, triton.language as tl
@triton.jit
def mm(a, b, c, N, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B); n = tl.program_id(1) * B + tl.arange(0, B); k = tl.arange(0, 32)
    acc = tl.zeros((B, B), tl.float32)
    for o in range(0, N, 32):
        acc += tl.dot(tl.load(a + m[:, None] * N + (o + k)[None, :]), tl.load(b + (o + k)[:, None] * N + n[None, :]))
    tl.store(c + m[:, None] * N + n[None, :], acc)
N = 8192; launches = int(sys.argv[1])
torch.manual_seed(7); h = torch.randn(N, N, device="cuda", dtype=torch.float16); c = torch.empty(N, N, device="cuda")
go = lambda: mm[(N // 128, N // 128)](h, h, c, N, B=128)
go(); torch.cuda.synchronize(); print("ready after %.1f s" % (time.time() - t0))
open(sys.argv[2], "w").write("ready")
b = time.time()
for i in range(launches):
    if i == launches - 1: c.fill_(float("nan"))
    go()
    if i % 4 == 3: torch.cuda.synchronize()
torch.cuda.synchronize(); e = time.time() - b
print("triton %d launches in %.1f ms, %.2f ms each; output %s" % (launches, e * 1e3, e * 1e3 / launches, hashlib.md5(c.cpu().numpy().tobytes()).hexdigest()))
