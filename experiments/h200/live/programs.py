#!/usr/bin/env python3
"""Programs as people write them, none of which knows of corun: each prints a line of JSON when it ends.

  programs.py NAME FOLDER MODE   NAME: decode, decode-flash, vision, prefill, encoder, train, and each with -graph behind it but train
                                 MODE: "loop" until FOLDER/stop is there, or "COUNT:PERIOD_MS:ROUNDS": so often, COUNT requests at that period,
                                 or "hash:COUNT": the outputs of all requests are hashed, or "turns:COUNT[:PERIOD_MS]": a loop between FOLDER/go.N and stop.N
FOLDER/NAME.ready says that it has warmed up; it begins when FOLDER/go is there.  Times are those of the host's one clock.
decode's attention is cuDNN's, which adds parts of a result in the order in which they come: its outputs differ from run to run.  decode-flash is
the same with PyTorch's own.
"""
import hashlib
import json
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cudnn.deterministic = True
torch.manual_seed(1)
HASHED = 12  # requests whose outputs are hashed, before the time counts


def decode(attention=F.scaled_dot_product_attention):
    """A step of a language model of 8 layers, four sequences."""
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
            a = attention(q, keys[i], values[i])
            h = h + a.transpose(1, 2).reshape(4, 1, width) @ out[i]
            h = h + F.gelu(h @ up[i]) @ down[i]
        return h
    return request


def decode_flash():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attention(q, k, v):
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            return F.scaled_dot_product_attention(q, k, v)
    return decode(attention)


def prefill():
    """The same model reads 4 prompts of 1,024 tokens."""
    width, heads, layers = 2048, 16, 8
    half = {"device": "cuda", "dtype": torch.float16}
    qkv, out = ([torch.randn(width, n, **half) * 0.02 for _ in range(layers)] for n in (3 * width, width))
    up, down = ([torch.randn(a, b, **half) * 0.02 for _ in range(layers)] for a, b in ((width, 4 * width), (4 * width, width)))
    x = torch.randn(4, 1024, width, **half)

    def request():
        h = x
        for i in range(layers):
            q, k, v = (h @ qkv[i]).view(4, 1024, 3, heads, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + a.transpose(1, 2).reshape(4, 1024, width) @ out[i]
            h = h + F.gelu(h @ up[i]) @ down[i]
        return h
    return request


def encoder():
    """BERT base reads 8 sequences of 256 tokens."""
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, 0.0, F.gelu, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval().cuda().half()
    x = torch.randn(8, 256, 768, device="cuda", dtype=torch.float16)
    return lambda: net(x)


def vision():
    import torchvision
    net, x = torchvision.models.resnet50().eval().cuda(), torch.randn(8, 3, 224, 224, device="cuda")
    return lambda: net(x)


def train():
    import torchvision
    net = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x, y = torch.randn(32, 3, 224, 224, device="cuda"), torch.randint(1000, (32,), device="cuda")

    def request():
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        return loss
    return request


def as_graph(request):
    for _ in range(4):
        request()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = request()

    def replay():
        graph.replay()
        return result
    replay.weights = request  # the graph keeps nothing alive of what it reads
    return replay


def main(name, folder, mode):
    programs = {"decode": decode, "decode-flash": decode_flash, "vision": vision, "prefill": prefill, "encoder": encoder, "train": train}
    with torch.set_grad_enabled(name == "train"):
        request = programs[name.removesuffix("-graph")]()
        if name.endswith("-graph"):
            request = as_graph(request)
        digest = hashlib.sha256()

        def hashed(count):
            for _ in range(count):
                digest.update(request().detach().cpu().numpy().tobytes())

        hashed(HASHED)
        times = []
        for _ in range(30):
            begin = time.perf_counter()
            request()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        open(os.path.join(folder, name + ".ready"), "w").close()

        def is_there(file):
            return os.path.exists(os.path.join(folder, file))

        while not is_there("go"):
            time.sleep(0.002)
        if mode.startswith("hash:"):
            began = time.perf_counter()
            hashed(int(mode[5:]))
            print(json.dumps({"program": name, "sha256": digest.hexdigest(), "s": round(time.perf_counter() - began, 3)}), flush=True)
            return
        turns = mode.startswith("turns:")
        if turns:
            count, rounds, period = None, int(mode.split(":")[1]), float((mode + ":0").split(":")[2])
        else:
            count, period, rounds = (None, 0, 1) if mode == "loop" else (convert(x) for convert, x in zip((int, float, int), mode.split(":")))

        def one_round(number):
            while turns and not is_there(f"go.{number}"):
                time.sleep(0.001)
            stop = f"stop.{number}" if turns else "stop"
            latencies, ends, began = [], [], time.perf_counter()
            while len(latencies) < count if count else not is_there(stop):
                due = began + len(latencies) * period / 1e3 if period else time.perf_counter()
                while (now := time.perf_counter()) < due:
                    if due - now > 2e-4:
                        time.sleep((due - now) / 2)
                torch.cuda.nvtx.range_push("request")
                request()
                torch.cuda.synchronize()
                torch.cuda.nvtx.range_pop()
                ends.append(time.perf_counter())
                latencies.append(ends[-1] - due)
            in_order = [round(1e3 * x, 4) for x in latencies]
            latencies.sort()
            at = lambda share: round(1e3 * latencies[int(share * (len(latencies) - 1))], 4)  # noqa: E731
            said = {"requests": len(latencies), "began": began, "ended": ends[-1], "per_s": round(len(latencies) / (ends[-1] - began), 3),
                    "p50_ms": at(0.5), "p99_ms": at(0.99), "mean_ms": round(1e3 * sum(latencies) / len(latencies), 4)}
            if turns and period:
                said["ms"] = in_order
            return said if count or turns else said | {"ends": [round(t, 6) for t in ends]}

        all_rounds = [one_round(number) for number in range(rounds)]
    print(json.dumps({"program": name, "warm_ms": round(1e3 * sorted(times)[15], 4), "sha256": digest.hexdigest(), "rounds": all_rounds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
