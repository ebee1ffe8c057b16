#!/usr/bin/env python3
"""Programs to capture: each serves requests one after the other and prints the milliseconds that one takes, by its own clock.

  programs.py NAME   torch-eager, torch-graph, torch-decode, jax, triton, cupy
"""
import contextlib
import os
import statistics
import sys
import time

LOOP_S, FIRST = float(os.environ.get("LOOP_S", 3)), 20  # requests, of which the first do not count


@contextlib.contextmanager
def profiler():
    """PyTorch's, with a mark a request, where KINETO_FILE names its file."""
    if "KINETO_FILE" not in os.environ:
        yield lambda: None
        return
    from torch.profiler import ProfilerActivity, profile
    global LOOP_S
    LOOP_S = 0.3
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        yield p.step
    p.export_chrome_trace(os.environ["KINETO_FILE"])


def serve(request, wait, period=float(os.environ.get("PERIOD_MS", 0)) / 1e3):
    """Median over the requests of the time from the host's call to the end of its wait.  With a period or with MARK=1: an NVTX range
    each, as nothing else tells the host's work from its sleep; then also the time inside it, as a recording has that one."""
    times, opened, inside = [], [], []
    if period or "MARK" in os.environ:
        import torch
        served = request

        def request():
            torch.cuda.nvtx.range_push("served")
            opened.append(time.time_ns())
            served()

        waited = wait

        def wait():
            waited()
            inside.append(time.time_ns() - opened[-1])
            torch.cuda.nvtx.range_pop()
    with profiler() as step:
        until = None
        while until is None or time.time() < until:
            if len(times) == FIRST:  # the first compile: of JAX, longer than the loop
                until = time.time() + LOOP_S
            begin = time.time_ns()
            request()
            wait()
            times.append(time.time_ns() - begin)
            step()
            if period:
                time.sleep(period)
    print(f"ms {statistics.median(times[FIRST:]) / 1e6:.5f}", flush=True)
    if inside:
        print(f"inside its range ms {statistics.median(inside[FIRST:]) / 1e6:.5f}", flush=True)


def torch_eager():
    import torch
    import torchvision
    torch.manual_seed(1)
    net, x = torchvision.models.resnet50().eval().cuda(), torch.randn(8, 3, 224, 224, device="cuda")
    with torch.inference_mode():
        serve(lambda: net(x), torch.cuda.synchronize)


def torch_graph():
    import torch
    import torchvision
    torch.manual_seed(1)
    net, x = torchvision.models.resnet50().eval().cuda(), torch.randn(8, 3, 224, 224, device="cuda")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.inference_mode():
        with torch.cuda.stream(stream):
            for _ in range(4):
                net(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            net(x)

        def request():
            with torch.cuda.stream(stream):
                torch.cuda.nvtx.range_push("request")
                graph.replay()
                stream.synchronize()
                torch.cuda.nvtx.range_pop()
        serve(request, lambda: None)


def torch_decode():
    import torch
    import torch.nn.functional as F
    torch.manual_seed(1)
    width, heads, layers, context = 2048, 16, 8, 1024
    half = {"device": "cuda", "dtype": torch.float16}
    qkv = [torch.randn(width, 3 * width, **half) * 0.02 for _ in range(layers)]
    out = [torch.randn(width, width, **half) * 0.02 for _ in range(layers)]
    up, down = ([torch.randn(a, b, **half) * 0.02 for _ in range(layers)] for a, b in ((width, 4 * width), (4 * width, width)))
    keys, values = (torch.randn(layers, 4, heads, context, width // heads, **half) for _ in range(2))
    x = torch.randn(4, 1, width, **half)

    def request():
        h = x
        for i in range(layers):
            q, _, _ = (h @ qkv[i]).view(4, 1, 3, heads, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, keys[i], values[i])
            h = h + a.transpose(1, 2).reshape(4, 1, width) @ out[i]
            h = h + F.gelu(h @ up[i]) @ down[i]
        return h
    with torch.inference_mode():
        serve(request, torch.cuda.synchronize)


def jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp
    weights = [jax.random.normal(jax.random.PRNGKey(i), (2048, 2048), jnp.bfloat16) * 0.02 for i in range(12)]

    @jax.jit
    def step(x):
        for w in weights:
            x = jax.nn.gelu(x @ w) + x
        return x
    x, kept = jax.random.normal(jax.random.PRNGKey(99), (2048, 2048), jnp.bfloat16), []

    def request():
        kept[:] = [step(x)]
    serve(request, lambda: kept[0].block_until_ready())


def triton():
    import torch
    import triton as t
    import triton.language as tl

    @t.jit
    def scale(x, y, n, factor, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(y + at, tl.exp(-value * value) * factor, mask=at < n)
    n = 1 << 24
    x = torch.randn(n, device="cuda")
    y = torch.empty_like(x)

    def request():
        for i in range(6):
            scale[(t.cdiv(n, 1024),)](x, y, n, 1.0 + i, BLOCK=1024)
    serve(request, torch.cuda.synchronize)


def cupy():
    import cupy
    a = cupy.random.rand(3000, 3000, dtype=cupy.float32)

    def request():
        b = a @ a
        b = cupy.sqrt(b) + a
        return b.sum()
    serve(request, cupy.cuda.Device().synchronize)


if __name__ == "__main__":
    {"torch-eager": torch_eager, "torch-graph": torch_graph, "torch-decode": torch_decode, "jax": jax, "triton": triton,
     "cupy": cupy}[sys.argv[1]]()
