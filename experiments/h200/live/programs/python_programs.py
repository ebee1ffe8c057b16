#!/usr/bin/env python3
"""Programs as people write them with Python's libraries: python_programs.py NAME   prints a line of JSON with a hash of what came out."""
import hashlib
import json
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import numpy as np  # noqa: E402

hashed, total = hashlib.sha256(), 0.0


def add(values):
    global total
    values = np.ascontiguousarray(values)
    hashed.update(values.tobytes())
    total += float(np.abs(values.astype(np.float64)).sum())


def torch_ready():
    import torch
    torch.manual_seed(5)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    return torch


def libraries():
    """cuFFT, cuBLAS, cuSOLVER, cuSPARSE, cuDNN and cuRAND by PyTorch."""
    torch = torch_ready()
    x = torch.randn(16, 512, 512, device="cuda")
    kernel = torch.randn(16, 16, 3, 3, device="cuda") * 0.1
    for i in range(60):
        y = torch.fft.irfft2(torch.fft.rfft2(x) * (1 + 0.01 * i), s=(512, 512))
        y = torch.bmm(y, x) / 512
        y = torch.linalg.solve(y[:2] @ y[:2].mT + 512 * torch.eye(512, device="cuda"), y[:2])
        y = torch.nn.functional.conv2d(x[None], kernel, padding=1)[0] + y.sum() * 1e-3
        rows = torch.sparse.mm(torch.eye(512, device="cuda").to_sparse_csr(), y[0])
        x = torch.tanh(y + rows + 0.01 * torch.randn_like(y))
        if i % 10 == 9:
            add(x.cpu().numpy())


def compiled():
    """torch.compile with graphs, forward and backward."""
    torch = torch_ready()
    net = torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.LayerNorm(1024), torch.nn.GELU())]).cuda()
    step = torch.compile(net, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    x = torch.randn(256, 1024, device="cuda")
    for i in range(150):
        optimizer.zero_grad(set_to_none=True)
        torch.compiler.cudagraph_mark_step_begin()
        loss = (step(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        if i % 25 == 24:
            add(loss.detach().cpu().numpy())
    add(next(net.parameters()).detach().cpu().numpy())


def graphs():
    """torch.cuda.graph: two graphs that share a pool, captured in the middle of other work, and make_graphed_callables."""
    torch = torch_ready()
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True).cuda().eval()
    x = torch.randn(16, 128, 256, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            layer(x)
        torch.cuda.synchronize()
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(first):
            y = layer(x)
        with torch.cuda.graph(second, pool=first.pool()):
            z = torch.tanh(layer(y)) + x
        for i in range(400):
            first.replay()
            second.replay()
            x.copy_(z)
            if i % 50 == 49:
                add(x.cpu().numpy())
    net = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
    sample = torch.randn(64, 512, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(net, (sample,))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(200):
        optimizer.zero_grad(set_to_none=False)
        graphed(sample).square().mean().backward()
        optimizer.step()
    add(next(net.parameters()).detach().cpu().numpy())


def loader():
    """Workers of a DataLoader, forked once the GPU is in use, and pinned memory."""
    torch = torch_ready()

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 1280

        def __getitem__(self, i):
            rng = np.random.default_rng(i)
            return torch.from_numpy(rng.standard_normal((3, 64, 64), dtype=np.float32)), i % 10

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, 2), torch.nn.Flatten(), torch.nn.LazyLinear(10)).cuda()
    optimizer = None
    for _ in range(2):
        for x, y in torch.utils.data.DataLoader(Numbers(), batch_size=64, num_workers=4, pin_memory=True):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = torch.nn.functional.cross_entropy(net(x), y)
            optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            add(loss.detach().cpu().numpy())


def cupy():
    """CuPy: its own kernels, libraries, streams, and a graph that a stream captured."""
    import cupy as cp
    step = cp.RawKernel(r'''extern "C" __global__ void step(const unsigned* from, unsigned* to, unsigned salt, unsigned count) {
      const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < count) to[i] = (from[i] ^ salt) * 1664525u + (from[(i * 40503u + salt) % count] >> 7); }''', "step")
    count = 1 << 20
    a, b = cp.arange(count, dtype=cp.uint32), cp.zeros(count, dtype=cp.uint32)
    run = lambda salt: (step((count // 256,), (256,), (a, b, cp.uint32(salt), cp.uint32(count))), step((count // 256,), (256,), (b, a, cp.uint32(salt + 1), cp.uint32(count))))  # noqa: E731
    run(0)
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        run(7)
        graph = stream.end_capture()
        for i in range(1500):
            run(i)
            graph.launch(stream)
            if i % 100 == 99:
                f = cp.fft.rfft(a.astype(cp.float32).reshape(1024, -1) / 2**32)
                add(cp.asnumpy(cp.abs(f).sum(axis=0), stream=stream))
                a[:] = cp.sort(a)
        m = (a[: 512 * 512].reshape(512, 512).astype(cp.float32) / 2**32)
        add(cp.asnumpy(m @ m, stream=stream))
        add(cp.asnumpy(a, stream=stream))


def numba():
    """Numba's kernels, shared memory and streams."""
    from numba import cuda, uint32

    @cuda.jit
    def step(source, to, salt):
        shared = cuda.shared.array(256, uint32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        shared[t] = source[i]
        cuda.syncthreads()
        to[i] = uint32((shared[t] ^ uint32(salt)) * uint32(1664525)) + (shared[255 - t] >> uint32(7))

    count = 1 << 20
    streams = [cuda.stream(), cuda.stream()]
    pairs = [[cuda.to_device(np.arange(count, dtype=np.uint32) + k, stream=s), cuda.device_array(count, np.uint32, stream=s)] for k, s in enumerate(streams)]
    for i in range(1500):
        for pair, stream in zip(pairs, streams):
            step[count // 256, 256, stream](pair[0], pair[1], np.uint32(i))
            pair.reverse()
        if i % 100 == 99:
            for pair, stream in zip(pairs, streams):
                result = pair[0].copy_to_host(stream=stream)
                stream.synchronize()
                add(result)


def generate():
    """transformers' generate, with a model of random weights and a static cache."""
    torch = torch_ready()
    import transformers
    config = transformers.LlamaConfig(vocab_size=4096, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8, max_position_embeddings=512)
    model = transformers.LlamaForCausalLM(config).cuda().eval()
    tokens = torch.randint(4096, (4, 32), device="cuda")
    for sample in (False, True):
        torch.manual_seed(9)
        add(model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=96, do_sample=sample, pad_token_id=0).cpu().numpy())


def triton():
    """Triton's kernels, launched from a thread beside the main one."""
    torch = torch_ready()
    import threading

    import triton as tr
    import triton.language as tl

    @tr.jit
    def step(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n)
        tl.store(y + i, v * 0.5 + tl.sin(v), mask=i < n)

    results = [None, None]

    def work(k):
        with torch.cuda.stream(torch.cuda.Stream()):
            x, y = torch.linspace(0, 1 + k, 1 << 20, device="cuda"), torch.empty(1 << 20, device="cuda")
            for _ in range(1500):
                step[(1 << 10,)](x, y, 1 << 20, BLOCK=1024)
                x, y = y, x
            results[k] = x.cpu().numpy()
    step[(1,)](torch.zeros(1024, device="cuda"), torch.zeros(1024, device="cuda"), 1024, BLOCK=1024)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        add(r)


NAMES = ["libraries", "compiled", "graphs", "loader", "cupy", "numba", "generate", "triton"]

if __name__ == "__main__":
    dict(libraries=libraries, compiled=compiled, graphs=graphs, loader=loader, cupy=cupy, numba=numba, generate=generate, triton=triton)[sys.argv[1]]()
    print(json.dumps({"hash": hashed.hexdigest(), "sum": total, "finite": bool(np.isfinite(total))}), flush=True)
