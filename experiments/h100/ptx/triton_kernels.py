# Three of Triton's kernels, plain and made persistent from the PTX that Triton made: triton_kernels.py REWRITE
import sys; sys.stdout.reconfigure(line_buffering=True)
import torch, time
print(torch.__version__)
a = torch.randn(1024, 1024, device="cuda"); b = torch.nn.functional.gelu(a @ a); torch.cuda.synchronize()
print("torch ok", float(b.sum()))
try:
    import triton, triton.language as tl, os, glob
    print("triton", triton.__version__)
    @triton.jit
    def add(x, y, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y + i, tl.load(x + i, mask=i < n) * 2 + 1, mask=i < n)
    @triton.jit
    def mm(a, b, c, N, B: tl.constexpr):
        m = tl.program_id(0) * B + tl.arange(0, B); n = tl.program_id(1) * B + tl.arange(0, B); k = tl.arange(0, 32)
        acc = tl.zeros((B, B), tl.float32)
        for o in range(0, N, 32):
            acc += tl.dot(tl.load(a + m[:, None] * N + (o + k)[None, :]), tl.load(b + (o + k)[:, None] * N + n[None, :]))
        tl.store(c + m[:, None] * N + n[None, :], acc)
    @triton.jit
    def soft(x, y, N, B: tl.constexpr):
        r = tl.program_id(0); i = tl.arange(0, B); v = tl.load(x + r * N + i, mask=i < N, other=-float('inf'))
        v = tl.exp(v - tl.max(v, 0)); tl.store(y + r * N + i, v / tl.sum(v, 0), mask=i < N)
    x = torch.randn(1 << 20, device="cuda"); y = torch.empty_like(x)
    add[(1024,)](x, y, 1 << 20, B=1024)
    h = torch.randn(1024, 1024, device="cuda", dtype=torch.float16); c = torch.empty(1024, 1024, device="cuda")
    mm[(8, 8)](h, h, c, 1024, B=128)
    soft[(1024,)](a, b, 1024, B=1024)
    torch.cuda.synchronize()
    print("triton ok", float(y.sum()), float(c.sum()))
except Exception as e:
    print("triton failed", repr(e)[:500]); raise SystemExit(1)
# The same kernels made persistent from their PTX.
import ctypes, struct, subprocess, re, time
cu = ctypes.CDLL("libcuda.so.1"); P = ctypes.c_void_p
import tempfile
folder = tempfile.mkdtemp()
def check(r, what):
    if r: print("FAILED", what, r); raise SystemExit(1)
control = torch.zeros(4096, dtype=torch.uint8, device="cuda"); words = torch.zeros(64, dtype=torch.int64).pin_memory(); number = 0
dev = P(); check(cu.cuMemHostGetDevicePointer_v2(ctypes.byref(dev), P(words.data_ptr()), 0), "address"); base = dev.value
for name, kernel, grid, args, out, run in [
    ("add", add, (1024, 1, 1), [x, y, 1 << 20], y, lambda: add[(1024,)](x, y, 1 << 20, B=1024)),
    ("mm", mm, (8, 8, 1), [h, h, c, 1024], c, lambda: mm[(8, 8)](h, h, c, 1024, B=128)),
    ("soft", soft, (1024, 1, 1), [a, b, 1024], b, lambda: soft[(1024,)](a, b, 1024, B=1024))]:
    try:
        made = run(); torch.cuda.synchronize(); want = out.clone()
        ptx = made.asm["ptx"]; open("%s/plain-%s.ptx" % (folder, name), "w").write(ptx)
        print(subprocess.run([sys.argv[1], folder, "%s/plain-%s.ptx" % (folder, name)], capture_output=True, text=True).stdout.strip())
        text = open("%s/%s.ptx" % (folder, name)).read()
        shared = made.metadata.shared; threads = 32 * made.metadata.num_warps
        def load(source, entry):
            m, f = P(), P(); t = time.time(); check(cu.cuModuleLoadData(ctypes.byref(m), source.encode() + b"\0"), "load " + entry); check(cu.cuModuleGetFunction(ctypes.byref(f), m, entry.encode()), "get")
            if shared > 46 * 1024: check(cu.cuFuncSetAttribute(f, 8, shared), "shared")
            print(" ", entry, "loaded in %.1f ms" % ((time.time() - t) * 1e3)); return f
        plain, how = load(ptx, name), load(text, name + "__persistent")
        fits = ctypes.c_int(); check(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(fits), how, threads, ctypes.c_size_t(shared)), "occupancy")
        blocks = grid[0] * grid[1]; workers = min(blocks, fits.value * torch.cuda.get_device_properties(0).multi_processor_count)
        def launch(f, g, extra):
            raw = [ctypes.c_uint64(v.data_ptr()) if hasattr(v, "data_ptr") else ctypes.c_int32(v) for v in args] + [ctypes.c_uint64(0), ctypes.c_uint64(0)] + extra
            array = (P * len(raw))(*[ctypes.cast(ctypes.byref(r), P) for r in raw])
            check(cu.cuLaunchKernel(f, *g, threads, 1, 1, shared, P(torch.cuda.current_stream().cuda_stream), array, None), "launch")
        def parameters(order):
            global number; number += 1
            p = struct.pack("<3Q8I4IQQII", control.data_ptr(), base, 0, 0, blocks, blocks, 0, 1, 0xffffffff, int(blocks <= workers), 0, grid[0], grid[1], grid[2], 0, base + 256 if order else 0, base + 264, number, number)
            return ctypes.create_string_buffer(p, 96)
        def cleared(): control.zero_(); words.zero_(); out.fill_(float("nan")); torch.cuda.synchronize()
        launch(plain, grid, []); torch.cuda.synchronize(); print("  plain identical", torch.equal(out, want))
        cleared(); launch(how, (workers, 1, 1), [parameters(False)]); torch.cuda.synchronize()
        print("  persistent identical", torch.equal(out, want), "done", int(words[33]) & 0xffffffff == number, "workers", workers, "of", blocks)
        stops = 0; cleared()
        for attempt in range(6):
            p = parameters(attempt < 5)
            if attempt < 5: words[32] = (1 << 63 | number) - (1 << 64)
            launch(how, (workers, 1, 1), [p]); torch.cuda.synchronize()
            if int(words[33]) & 0xffffffff == number: break
            stops += 1
        print("  stopped", stops, "times, identical", torch.equal(out, want))
        def timed(go):
            s, e = torch.cuda.Event(True), torch.cuda.Event(True); torch.cuda.synchronize(); s.record()
            for _ in range(50): go()
            e.record(); torch.cuda.synchronize(); return s.elapsed_time(e) * 20
        words.zero_(); p = parameters(False)
        print("  us plain %.1f persistent %.1f" % (timed(lambda: launch(plain, grid, [])), timed(lambda: launch(how, (workers, 1, 1), [p]))))
    except (Exception, SystemExit) as e:
        print("failed", name, repr(e)[:300])
